//! Turns the times of a file into times that never decrease.
//!
//! ```text
//!   in the file  10.000  10.002  10.001  10.005        9.000   9.003      none
//!   placed       10.000  10.002  10.002  10.005       10.005  10.008     10.008
//!                                  └ reordered: at once    └ clock set back: continues from there
//!
//!   in the file  10.000   0.000  10.004   0.005     far ahead  10.008
//!   placed       10.000  10.000  10.004  10.005        10.005  10.008
//!                             └ absurd         └ a second source          each on its own line, side by side
//! ```
//!
//! Rule: packets of one file keep its order, whatever their times. A packet whose time does not increase is
//! sent right after its predecessor, and counted. A packet with an absurd time costs none: the line before it
//! is remembered, and goes on with the next packet that is on it, until the new one has lasted for a second.

use serde::Serialize;

/// A longer step back, in nanoseconds, means that the clock was set. Shorter ones come from several queues
/// whose packets were not sorted.
const CLOCK_STEP_NS: u64 = 1_000_000_000;

/// No file is silent for longer, a year in nanoseconds: the time is absurd, or the clock was set.
const LONGEST_SILENCE_NS: u64 = 365 * 86_400 * 1_000_000_000;

/// The same on a line of a packet or two, beside another one: two absurd times may lie close together.
const LONGEST_SILENCE_AT_FIRST_NS: u64 = 3_600 * 1_000_000_000;

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
    /// The line that the file is on; `None` before the first packet with a time.
    line: Option<Line>,
    /// The one that it was on before the last jump, until that turns out to last.
    other: Option<Line>,
    placed_ns: u64,
    pub(crate) faults: TimeFaults,
}

/// A stretch of times without a jump.
#[derive(Debug, Clone, Copy)]
struct Line {
    /// The latest time of the file on it.
    recorded_ns: u64,
    /// Where that is placed. Packets of the other line may be placed behind it.
    placed_ns: u64,
    /// The time of the file when the other line was left for this one.
    entered_ns: u64,
    /// Its packets.
    packets: u64,
}

impl Line {
    fn new(recorded_ns: u64, placed_ns: u64) -> Self {
        Self { recorded_ns, placed_ns, entered_ns: recorded_ns, packets: 1 }
    }

    fn distance(&self, recorded_ns: u64) -> u64 {
        self.recorded_ns.abs_diff(recorded_ns)
    }

    /// Goes on to a time, if that is later.
    fn advance(&mut self, recorded_ns: u64) {
        let gap = recorded_ns.saturating_sub(self.recorded_ns);
        self.packets += 1;
        self.recorded_ns += gap;
        self.placed_ns = self.placed_ns.saturating_add(gap);
    }

    /// Whether it is more than a packet or two with an absurd time.
    fn is_sure(&self) -> bool {
        self.packets > 2
    }

    fn has_lasted(&self) -> bool {
        self.recorded_ns - self.entered_ns > CLOCK_STEP_NS
    }
}

impl Timeline {
    /// Places the next packet. `None` before the first packet with a time: send at once.
    pub(crate) fn place(&mut self, recorded_ns: Option<u64>) -> Option<u64> {
        match (recorded_ns, self.line) {
            (None, _) => self.faults.untimed += 1,
            (Some(now), None) => {
                self.line = Some(Line::new(now, now));
                self.placed_ns = now;
            }
            (Some(now), Some(line)) => {
                let step = line.recorded_ns.saturating_sub(now);
                self.faults.backwards += u64::from(step > 0);
                self.faults.clock_steps += u64::from(step > CLOCK_STEP_NS);
                let line = self.line_of(now, line);
                self.placed_ns = self.placed_ns.max(line.placed_ns);
                self.line = Some(line);
            }
        }
        self.line.map(|_| self.placed_ns)
    }

    /// The line of a packet with this time, after the packet. One that is on neither begins another one.
    fn line_of(&mut self, now: u64, mut line: Line) -> Line {
        let distance = line.distance(now);
        let other = self.other.filter(|other| distance > CLOCK_STEP_NS && other.distance(now) < distance);
        let nearest = other.unwrap_or(line);
        let (back, ahead) =
            (nearest.recorded_ns.saturating_sub(now), now.saturating_sub(nearest.recorded_ns));
        let longest = if self.other.is_none() || nearest.is_sure() {
            LONGEST_SILENCE_NS
        } else {
            LONGEST_SILENCE_AT_FIRST_NS
        };
        if back > CLOCK_STEP_NS || ahead > longest {
            let lasting = [Some(line), self.other].into_iter().flatten().find(Line::has_lasted);
            self.other = Some(lasting.unwrap_or(nearest));
            return Line::new(now, self.placed_ns);
        }
        if let Some(mut other) = other {
            self.other = Some(line);
            // A second source may be slow, or have paused. Then it would catch up with the first at once.
            let gap = now.saturating_sub(other.recorded_ns);
            if other.placed_ns.saturating_add(gap).saturating_add(CLOCK_STEP_NS) < self.placed_ns {
                other.placed_ns = self.placed_ns;
            }
            other.advance(now);
            other.entered_ns = other.recorded_ns;
            return other;
        }
        line.advance(now);
        if line.has_lasted() {
            self.other = None;
        }
        line
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

    /// Times since the first packet, in milliseconds, of packets with these times.
    fn offsets_ms(times_ms: &[u64]) -> Vec<u64> {
        let times: Vec<_> = times_ms.iter().map(|time| Some(time.saturating_mul(1_000_000))).collect();
        let (placed, _) = placed(&times);
        placed.iter().map(|time| (time.unwrap() - placed[0].unwrap()) / 1_000_000).collect()
    }

    /// Milliseconds since 1970 at the start of a trace.
    const START_MS: u64 = 1_700_000_000_000;

    #[test]
    fn a_packet_with_an_absurd_time_costs_no_time() {
        let around = |absurd| {
            offsets_ms(&[
                START_MS,
                START_MS + 100,
                absurd,
                START_MS + 200,
                START_MS + 5_200,
                START_MS + 5_300,
            ])
        };
        for absurd in [0, START_MS - 5_000, START_MS / 2, START_MS * 2, u64::MAX] {
            assert_eq!(around(absurd), [0, 100, 100, 200, 5_200, 5_300], "{absurd}");
        }
        // Several of them, which differ or not.
        let times =
            [START_MS, 0, START_MS + 100, 0, START_MS + 200, u64::MAX, START_MS + 300, 7, START_MS + 400];
        assert_eq!(offsets_ms(&times), [0, 0, 100, 100, 200, 200, 300, 300, 400]);
        let times = [START_MS, START_MS + 1_500, 0, 150 * 86_400_000, START_MS + 1_600, START_MS + 1_700];
        assert_eq!(offsets_ms(&times), [0, 1_500, 1_500, 1_500, 1_600, 1_700]);
    }

    #[test]
    fn times_of_two_sources_do_not_add_up() {
        let times: Vec<_> = (0..100).flat_map(|n| [START_MS + n * 100, 5_000 + n * 100]).collect();
        let expected: Vec<_> = (0..100).flat_map(|n| [n * 100, n * 100]).collect();
        assert_eq!(offsets_ms(&times), expected);
        // Both are silent for two hours.
        let times: Vec<_> = (0..100).map(|n| n * 100 + if n < 50 { 0 } else { 7_200_000 }).collect();
        let both: Vec<_> = times.iter().flat_map(|time| [START_MS + time, 5_000 + time]).collect();
        assert_eq!(offsets_ms(&both), times.iter().flat_map(|&time| [time, time]).collect::<Vec<_>>());
        // The second one is slower: it does not catch up at once.
        let times = [0, 900, 1_800, 2_700].map(|time| START_MS + time);
        let times: Vec<_> =
            times.into_iter().zip([5_000, 5_100, 5_200, 5_300]).flat_map(<[u64; 2]>::from).collect();
        assert_eq!(offsets_ms(&times), [0, 0, 900, 900, 1_800, 1_900, 2_700, 2_700]);
    }

    #[test]
    fn a_clock_that_was_set_stays_so() {
        let step = [10_000, 10_100, 5_000, 5_100, 6_200, 7_000, 9_900, 10_050, 10_150, 20_000];
        assert_eq!(offsets_ms(&step), [0, 100, 100, 200, 1_300, 2_100, 5_000, 5_150, 5_250, 15_100]);
        // Ahead by decades: no time passes.
        let step = [10_000, 10_100, START_MS, START_MS + 2_000, START_MS + 2_100];
        assert_eq!(offsets_ms(&step), [0, 100, 100, 2_100, 2_200]);
        // A long silence is one.
        assert_eq!(offsets_ms(&[START_MS, START_MS + 86_400_000]), [0, 86_400_000]);
    }

    #[test]
    fn packets_without_a_time_take_that_of_the_packet_before() {
        let (placed, faults) = placed(&[None, Some(1_000), None, Some(1_500), Some(9_500), None]);
        assert_eq!(placed, [None, Some(1_000), Some(1_000), Some(1_500), Some(9_500), Some(9_500)]);
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
