//! When to ask queues that hold the others up, and when to stop waiting for them.

use std::time::{Duration, Instant};

/// The shortest time between two rounds of asking, which cost a lock and a clock reading per idle queue.
pub(crate) const ASK_PERIOD: Duration = Duration::from_millis(1);
/// How long all packets may be held back, for instance for a worker that is stuck in a batch.
const HOLD_TIMEOUT: Duration = Duration::from_secs(2);
/// The most time that counts between two checks: after a longer gap the whole process was stopped, including
/// the workers.
const MAX_CHECK_GAP: Duration = Duration::from_millis(100);

/// The times that the writer remembers.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    asked: Option<Instant>,
    /// The last check, and how long packets had been held up then. `None` if they were not.
    held_up: Option<(Instant, Duration)>,
}

impl Pace {
    /// Whether it is time to ask. If so, starts the next period.
    pub(crate) fn may_ask(&mut self, now: Instant) -> bool {
        let may = self.asked.is_none_or(|asked| now.duration_since(asked) >= ASK_PERIOD);
        if may {
            self.asked = Some(now);
        }
        may
    }

    /// Whether packets were held up, and none passed on, for too long. If so, starts measuring again.
    pub(crate) fn is_too_long(&mut self, held_up: bool, now: Instant) -> bool {
        let held_for = self.held_up.take().map_or(Duration::ZERO, |(checked, held_for)| {
            held_for + now.duration_since(checked).min(MAX_CHECK_GAP)
        });
        let too_long = held_up && held_for >= HOLD_TIMEOUT;
        self.held_up = (held_up && !too_long).then_some((now, held_for));
        too_long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_asked_at_most_once_in_a_period() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        assert!(pace.may_ask(start));
        assert!(!pace.may_ask(start + ASK_PERIOD / 2));
        assert!(pace.may_ask(start + ASK_PERIOD));
        assert!(!pace.may_ask(start + ASK_PERIOD * 3 / 2), "counted from the last time");
    }

    #[test]
    fn the_timeout_restarts_whenever_packets_are_passed_on() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        // Checks every 10 ms for `halves` half timeouts; returns how often the timeout ran out.
        let mut held_up_for = |held_up: bool, halves: u32| {
            let looks = (HOLD_TIMEOUT * halves / 2).as_millis() / 10;
            let look = |_| {
                now += Duration::from_millis(10);
                u32::from(pace.is_too_long(held_up, now))
            };
            (0..looks).map(look).sum::<u32>()
        };
        assert_eq!(held_up_for(true, 1), 0);
        assert_eq!(held_up_for(true, 2), 1);
        assert_eq!(held_up_for(true, 1), 0, "the timeout restarted when it ran out");
        assert_eq!(held_up_for(false, 1), 0);
        assert_eq!(held_up_for(true, 1), 0, "packets were passed on");
        assert_eq!(held_up_for(true, 5), 2);
    }

    /// A process that is stopped for longer than the timeout and resumes: workers still get the full time.
    #[test]
    fn time_while_the_process_is_stopped_does_not_count() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        for _ in 0..5 {
            assert!(!pace.is_too_long(true, now));
            now += HOLD_TIMEOUT * 10;
        }
    }
}
