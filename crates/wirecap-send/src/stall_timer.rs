//! Measures how long nothing has moved.
//!
//! ```text
//!   nothing ── nothing ── a cell came back ── nothing ── nothing ── nothing …
//!   0 s        1 s        over                0 s        1 s        2 s
//! ```
//!
//! Rule: a sender gives up when nothing moves, never because sending takes long: a slow link takes seconds
//! for a full ring, and a sender that waits now and then for hours is not stuck.

use std::time::{Duration, Instant};

/// Measures how long nothing has moved. Call one of its methods in every round.
#[derive(Debug, Default)]
pub struct StallTimer {
    /// When the current standstill was first seen.
    since: Option<Instant>,
}

impl StallTimer {
    /// Something has moved: a cell came back, or a frame could be given to the kernel.
    pub fn restart(&mut self) {
        self.since = None;
    }

    /// Nothing moved until `now`. Returns how long nothing has moved.
    pub fn waited(&mut self, now: Instant) -> Duration {
        now.saturating_duration_since(*self.since.get_or_insert(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_restart_resets_the_wait() {
        let (mut timer, begin) = (StallTimer::default(), Instant::now());
        for second in 0..3_600 {
            let now = begin + second * SECOND;
            assert_eq!(timer.waited(now), Duration::ZERO);
            assert_eq!(timer.waited(now + SECOND / 2), SECOND / 2);
            timer.restart();
        }
    }

    #[test]
    fn the_wait_counts_from_the_first_look() {
        let (mut timer, begin) = (StallTimer::default(), Instant::now());
        timer.restart();
        let waited: Vec<_> = (0..4).map(|second| timer.waited(begin + second * SECOND)).collect();
        assert_eq!(waited, [0, 1, 2, 3].map(|seconds| seconds * SECOND));
        assert_eq!(timer.waited(begin), Duration::ZERO, "a clock that goes back is no progress");
        assert_eq!(timer.waited(begin + 4 * SECOND), 4 * SECOND);
    }
}
