//! The system clock, for latencies: the time at which a packet is sent less its timestamp.
//!
//! Rule: a latency has both times by the same clock. After the system clock is set, timestamps of packets
//! follow it a moment later, so for that moment there are no latencies.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// For this time after the clock was set, timestamps may be by the clock as it was: they follow it within a
/// second, and a packet waits for its next hop for three.
const UNSURE: Duration = Duration::from_secs(4);
/// A clock that moves by more than this against the one that is never set was set, unless it was slewed for
/// long. NTP slews by half a thousandth; faster slewing distorts latencies as setting does.
const SET: Duration = Duration::from_millis(5);
const SLEWED_PER_SECOND: Duration = Duration::from_millis(1);
/// If it takes longer to read both clocks, nothing is known about their difference.
const LONGEST_LOOK: Duration = Duration::from_micros(500);

/// The system clock of one worker.
#[derive(Debug, Default)]
pub(super) struct LatencyClock {
    /// Both clocks at the last look, the system clock in nanoseconds since 1970.
    last: Option<(Instant, u64)>,
    unsure_until: Option<Instant>,
}

impl LatencyClock {
    /// The time now, in nanoseconds since 1970; `None` if the clock was set a moment ago.
    pub(super) fn now_ns(&mut self) -> Option<u64> {
        let before = Instant::now();
        let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        self.look(before, now_ns, Instant::now())
    }

    /// The system clock showed `now_ns` between the two times.
    fn look(&mut self, before: Instant, now_ns: u64, after: Instant) -> Option<u64> {
        if after.duration_since(before) <= LONGEST_LOOK {
            if let Some((then, then_ns)) = self.last.replace((before, now_ns)) {
                let passed = before.duration_since(then);
                let expected_ns = then_ns.saturating_add(passed.as_nanos() as u64);
                let moved = Duration::from_nanos(now_ns.abs_diff(expected_ns));
                if moved > SET + SLEWED_PER_SECOND.mul_f64(passed.as_secs_f64()) {
                    self.unsure_until = Some(after + UNSURE);
                }
            }
        }
        self.unsure_until = self.unsure_until.filter(|&until| after < until);
        self.unsure_until.is_none().then_some(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn for_a_moment_after_the_clock_was_set_there_is_no_time() {
        let (mut clock, begun) = (LatencyClock::default(), Instant::now());
        let mut at = |ms: u64, now_ns: u64| {
            let before = begun + Duration::from_millis(ms);
            clock.look(before, now_ns, before + Duration::from_nanos(60)).is_some()
        };
        assert!(at(0, 100 * SECOND) && at(1_000, 101 * SECOND));
        // Slewed for a while in which no packet came.
        assert!(at(101_000, 201 * SECOND + 50_000_000));
        assert!(!at(101_001, 301 * SECOND), "set forward");
        assert!(!at(105_000, 305 * SECOND) && at(105_002, 305 * SECOND));
        assert!(!at(105_003, 200 * SECOND), "set back");
        assert!(at(109_004, 204 * SECOND));
    }

    #[test]
    fn a_thread_that_is_stopped_between_two_clocks_sets_none() {
        let (mut clock, begun) = (LatencyClock::default(), Instant::now());
        let ms = Duration::from_millis;
        assert!(clock.look(begun, SECOND, begun).is_some());
        assert!(clock.look(begun + ms(1), SECOND + 31_000_000, begun + ms(31)).is_some());
        assert!(clock.look(begun + ms(40), SECOND + 40_000_000, begun + ms(40)).is_some());
        assert!(LatencyClock::default().now_ns().is_some());
    }
}
