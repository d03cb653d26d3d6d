//! Turns the times of a file into times that never decrease.
//!
//! ```text
//!   in the file  10.000  10.002  10.001  10.005        9.000   9.003      none
//!   placed       10.000  10.002  10.002  10.005       10.005  10.008     10.008
//!                                  └ reordered: at once    └ clock set back: continues from there
//! ```
//!
//! Rule: packets of one file keep its order, whatever their times. A packet whose time does not increase is
//! sent right after its predecessor, and counted.

use serde::Serialize;

/// A longer step back, in nanoseconds, means that the clock was set. Shorter ones come from several queues
/// whose packets were not sorted.
const CLOCK_STEP_NS: u64 = 1_000_000_000;

/// Faults of the times of a file, in packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeFaults {
    /// Packets without a time.
    pub untimed: u64,
    /// Packets whose time is before that of an earlier one.
    pub backwards: u64,
    /// Of these, packets at which the clock was set back by more than a second.
    pub clock_steps: u64,
}

impl TimeFaults {
    pub(crate) fn add(&mut self, other: Self) {
        self.untimed += other.untimed;
        self.backwards += other.backwards;
        self.clock_steps += other.clock_steps;
    }
}

/// Places the packets of one file in time.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    /// The latest time of the file, since its clock was last set back.
    recorded_ns: Option<u64>,
    placed_ns: u64,
    pub(crate) faults: TimeFaults,
}

impl Timeline {
    /// Places the next packet. `None` before the first packet with a time: send at once.
    pub(crate) fn place(&mut self, recorded_ns: Option<u64>) -> Option<u64> {
        match (recorded_ns, self.recorded_ns) {
            (None, _) => self.faults.untimed += 1,
            (Some(now), None) => (self.recorded_ns, self.placed_ns) = (Some(now), now),
            (Some(now), Some(latest)) if now >= latest => {
                self.recorded_ns = Some(now);
                self.placed_ns = self.placed_ns.saturating_add(now - latest);
            }
            (Some(now), Some(latest)) => {
                self.faults.backwards += 1;
                if latest - now > CLOCK_STEP_NS {
                    self.faults.clock_steps += 1;
                    self.recorded_ns = Some(now);
                }
            }
        }
        self.recorded_ns.map(|_| self.placed_ns)
    }
}

/// Time since the first packet, over all files, with limited gaps.
#[derive(Debug, Default)]
pub(crate) struct PassClock {
    longest_gap_ns: Option<u64>,
    last_ns: Option<u64>,
    offset_ns: u64,
    /// Gaps that were cut.
    pub(crate) shortened: u64,
}

impl PassClock {
    pub(crate) fn new(longest_gap_ns: Option<u64>) -> Self {
        Self { longest_gap_ns, ..Self::default() }
    }

    /// The time of the next packet since the first one; `placed_ns` never decreases.
    pub(crate) fn offset(&mut self, placed_ns: Option<u64>) -> u64 {
        let Some(now) = placed_ns else { return self.offset_ns };
        let gap = now.saturating_sub(self.last_ns.unwrap_or(now));
        let kept = gap.min(self.longest_gap_ns.unwrap_or(u64::MAX));
        self.shortened += u64::from(kept < gap);
        self.last_ns = Some(now.max(self.last_ns.unwrap_or(0)));
        self.offset_ns = self.offset_ns.saturating_add(kept);
        self.offset_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(times: &[Option<u64>]) -> (Vec<Option<u64>>, TimeFaults) {
        let mut timeline = Timeline::default();
        (times.iter().map(|&time| timeline.place(time)).collect(), timeline.faults)
    }

    #[test]
    fn small_steps_back_are_waited_out_and_large_ones_are_clock_steps() {
        let second = CLOCK_STEP_NS;
        let times =
            [10 * second, 10 * second + 2, 10 * second + 1, 10 * second + 5, 9 * second - 1, 9 * second + 2];
        let (placed, faults) = placed(&times.map(Some));
        let since: Vec<_> = placed.iter().map(|time| time.unwrap() - 10 * second).collect();
        assert_eq!(since, [0, 2, 2, 5, 5, 8]);
        assert_eq!(faults, TimeFaults { untimed: 0, backwards: 2, clock_steps: 1 });
    }

    #[test]
    fn packets_without_a_time_take_that_of_the_packet_before() {
        let (placed, faults) = placed(&[None, Some(1_000), None, Some(1_500), Some(u64::MAX), None]);
        assert_eq!(placed, [None, Some(1_000), Some(1_000), Some(1_500), Some(u64::MAX), Some(u64::MAX)]);
        assert_eq!(faults, TimeFaults { untimed: 3, ..TimeFaults::default() });
    }

    #[test]
    fn times_count_from_the_first_packet_and_long_gaps_are_cut() {
        let times = [None, Some(5_000), Some(5_100), Some(9_000), Some(9_010)];
        let offsets = |longest| {
            let mut clock = PassClock::new(longest);
            (times.map(|time| clock.offset(time)), clock.shortened)
        };
        assert_eq!(offsets(None), ([0, 0, 100, 4_000, 4_010], 0));
        assert_eq!(offsets(Some(1_000)), ([0, 0, 100, 1_100, 1_110], 1));
        assert_eq!(offsets(Some(0)), ([0; 5], 3));
    }
}
