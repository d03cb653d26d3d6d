//! The silence between two warnings of the same thing.
//!
//! Rule: 10 s after the first one, then twice as long each time, up to a minute, while there is something to
//! warn of. A minute after the last silence, the next one is short again.

use std::time::{Duration, Instant};

/// At first, and at most.
const SHORTEST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(60);

/// The silence after the last warning.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Silence {
    /// Its end, and its length.
    current: Option<(Instant, Duration)>,
}

impl Silence {
    /// Whether it lasts.
    pub(crate) fn lasts(&self, now: Instant) -> bool {
        self.current.is_some_and(|(until, _)| now < until)
    }

    /// After a warning.
    pub(crate) fn begin(&mut self, now: Instant) {
        let last = self.current.filter(|(until, _)| now < *until + LONGEST);
        let length = last.map_or(SHORTEST, |(_, length)| (2 * length).min(LONGEST));
        self.current = Some((now + length, length));
    }

    /// It is over, and there was nothing to warn of.
    pub(crate) fn end(&mut self) {
        self.current = None;
    }
}
