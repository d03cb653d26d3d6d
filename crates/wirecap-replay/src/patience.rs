//! How long nothing has moved.
//!
//! ```text
//!   nothing ── nothing ── a cell came back ── nothing ── nothing ── nothing …
//!   0 s        1 s        over                0 s        1 s        2 s
//! ```
//!
//! Rule: whoever waits gives up for want of any progress, never for the time that all of it takes: a slow link sends a full ring
//! for seconds, and a sender that waits now and then over hours is not stuck.

use std::time::{Duration, Instant};

/// Measures since when nothing has moved. It is told of every look: whether something has.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    /// When it was first seen that nothing had moved, since something did.
    since: Option<Instant>,
}

impl Patience {
    /// Something has moved: a cell came back, or a frame could be given to the kernel.
    pub(crate) fn restart(&mut self) {
        self.since = None;
    }

    /// Nothing has moved until `now`. Returns for how long.
    pub(crate) fn waited(&mut self, now: Instant) -> Duration {
        now.saturating_duration_since(*self.since.get_or_insert(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_moves_now_and_then_is_never_waited_for_longer_than_since_then() {
        let (mut patience, begin) = (Patience::default(), Instant::now());
        for second in 0..3_600 {
            let now = begin + second * SECOND;
            assert_eq!(patience.waited(now), Duration::ZERO);
            assert_eq!(patience.waited(now + SECOND / 2), SECOND / 2);
            patience.restart();
        }
    }

    #[test]
    fn what_does_not_move_is_waited_for_from_the_first_look_on() {
        let (mut patience, begin) = (Patience::default(), Instant::now());
        patience.restart();
        let waited: Vec<_> = (0..4).map(|second| patience.waited(begin + second * SECOND)).collect();
        assert_eq!(waited, [0, 1, 2, 3].map(|seconds| seconds * SECOND));
        assert_eq!(patience.waited(begin), Duration::ZERO, "a clock that goes back is no progress");
        assert_eq!(patience.waited(begin + 4 * SECOND), 4 * SECOND);
    }
}
