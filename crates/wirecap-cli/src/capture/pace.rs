//! When queues that hold the others up are asked, and when they are waited for no longer.

use std::time::{Duration, Instant};

/// The least time between two rounds of asking: a lock and a clock reading for each silent queue.
pub(crate) const ASK_PERIOD: Duration = Duration::from_millis(1);
/// How long all packets may be held back: a worker that does not get to its batch, a clock that was set back.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the writer remembers of time.
#[derive(Debug)]
pub(crate) struct Pace {
    asked: Option<Instant>,
    held_up_since: Option<Instant>,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self { asked: None, held_up_since: None }
    }

    /// Whether it is time to ask; then that counts as done.
    pub(crate) fn may_ask(&mut self, now: Instant) -> bool {
        let may = self.asked.is_none_or(|asked| now.duration_since(asked) >= ASK_PERIOD);
        if may {
            self.asked = Some(now);
        }
        may
    }

    /// Whether packets were held up, and none given on, for too long; then patience begins anew.
    pub(crate) fn is_too_long(&mut self, held_up: bool, now: Instant) -> bool {
        let since = self.held_up_since.take().unwrap_or(now);
        let too_long = held_up && now.duration_since(since) >= PATIENCE;
        self.held_up_since = (held_up && !too_long).then_some(since);
        too_long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asked_at_most_once_in_a_period() {
        let (mut pace, start) = (Pace::new(), Instant::now());
        assert!(pace.may_ask(start));
        assert!(!pace.may_ask(start + ASK_PERIOD / 2));
        assert!(pace.may_ask(start + ASK_PERIOD));
        assert!(!pace.may_ask(start + ASK_PERIOD * 3 / 2), "since it was last asked");
    }

    #[test]
    fn patience_begins_anew_whenever_something_is_given_on() {
        let (mut pace, start) = (Pace::new(), Instant::now());
        let halves = |halves| start + PATIENCE * halves / 2;
        assert!(!pace.is_too_long(true, halves(0)));
        assert!(!pace.is_too_long(true, halves(1)));
        assert!(pace.is_too_long(true, halves(2)));
        assert!(!pace.is_too_long(true, halves(5)), "it has ended once");
        assert!(!pace.is_too_long(false, halves(6)));
        assert!(!pace.is_too_long(true, halves(8)));
        assert!(pace.is_too_long(true, halves(10)));
    }
}
