//! How many frames are due: a function of time, without a clock.
//!
//! ```text
//!   burst of N frames          gap        burst of N frames
//!   ├── at the rate ──────┤◄─────────►├── at the rate ──────┤      without bursts, one that lasts for the whole run
//! ```
//!
//! Rule: within a burst the schedule is absolute: the rate holds over the whole burst, and lost time is made
//! up for. The gap after it is never shorter than requested.

use std::time::Duration;

use crate::frame::FCS_LEN;

/// Bytes on the wire besides a frame and its FCS: preamble, start delimiter, gap between frames.
const WIRE_OVERHEAD: usize = 20;
/// The most frames due at once: 3 ms of the fastest generator, so that a run ends close to its time.
const CHUNK: u64 = 65_536;

/// What a rate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Frames.
    Frames,
    /// Bits of frames, with FCS.
    Bits,
    /// Bits on the wire, with preamble and gap, like the speed of a link.
    WireBits,
}

impl Unit {
    /// The units of a frame of `len` bytes without FCS.
    #[inline]
    pub fn of_frame(self, len: usize) -> u64 {
        match self {
            Unit::Frames => 1,
            Unit::Bits => 8 * (len + FCS_LEN) as u64,
            Unit::WireBits => 8 * (len + FCS_LEN + WIRE_OVERHEAD) as u64,
        }
    }
}

/// How fast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Units per second; 0 counts as 1.
    pub per_second: u64,
    /// What is counted.
    pub unit: Unit,
}

impl Rate {
    /// Frames per second.
    pub fn frames(per_second: u64) -> Self {
        Self { per_second, unit: Unit::Frames }
    }

    /// The rate in frames per second, for frames of this mean length without FCS.
    pub fn frames_per_second(&self, mean_len: f64) -> f64 {
        let of_frame = match self.unit {
            Unit::Frames => 1.0,
            unit => unit.of_frame(0) as f64 + 8.0 * mean_len,
        };
        self.per_second as f64 / of_frame
    }
}

/// Bursts with gaps between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bursts {
    /// Frames per burst; 0 counts as 1.
    pub frames: u64,
    /// Time from the end of a burst to the start of the next.
    pub gap: Duration,
}

/// When frames are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timing {
    /// The rate, within a burst if there are bursts; `None` means as fast as possible.
    pub rate: Option<Rate>,
    /// Bursts; `None` means one for the whole run.
    pub bursts: Option<Bursts>,
    /// The run ends after this number of frames.
    pub frames: Option<u64>,
    /// The run ends after this time.
    pub time: Option<Duration>,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Send at least one frame, until one of the limits is reached; the last may exceed `units`.
    Send {
        /// Limit on frames.
        frames: u64,
        /// Limit on units of the rate.
        units: u64,
    },
    /// No frame is due for this time.
    Wait(Duration),
    /// The gap between two bursts lasts for this time.
    Rest(Duration),
    /// The run is over.
    Done,
}

/// Decides from the time since the start and the frames sent.
#[derive(Debug, Clone)]
pub struct Pace {
    timing: Timing,
    /// Of the whole run.
    frames: u64,
    /// Of this burst.
    burst_frames: u64,
    burst_units: u64,
    /// When this burst began, since the start.
    burst_start: Duration,
    /// The end of the gap, if this burst is over.
    gap_end: Option<Duration>,
}

impl Pace {
    /// At the start of a run.
    pub fn new(timing: Timing) -> Self {
        let (burst_start, gap_end) = (Duration::ZERO, None);
        Self { timing, frames: 0, burst_frames: 0, burst_units: 0, burst_start, gap_end }
    }

    /// What the rate counts.
    pub fn unit(&self) -> Unit {
        self.timing.rate.map_or(Unit::Frames, |rate| rate.unit)
    }

    /// What to do at this time.
    pub fn next(&mut self, elapsed: Duration) -> Step {
        let left = self.timing.frames.map_or(u64::MAX, |frames| frames.saturating_sub(self.frames));
        let time_left = self.timing.time.map_or(Duration::MAX, |time| time.saturating_sub(elapsed));
        if left == 0 || time_left.is_zero() {
            return Step::Done;
        }
        if let Some(end) = self.gap_end {
            if elapsed < end {
                return Step::Rest((end - elapsed).min(time_left));
            }
            (self.gap_end, self.burst_start) = (None, elapsed);
            (self.burst_frames, self.burst_units) = (0, 0);
        }
        let burst = self.timing.bursts.map_or(u64::MAX, |bursts| bursts.frames.max(1) - self.burst_frames);
        let frames = left.min(burst).min(CHUNK);
        match self.timing.rate {
            None => Step::Send { frames, units: u64::MAX },
            Some(rate) => match self.due(rate, elapsed - self.burst_start) {
                0 => Step::Wait(self.until_due(rate, elapsed).min(time_left)),
                units => Step::Send { frames, units },
            },
        }
    }

    /// Notes frames that were sent until this time.
    pub fn sent(&mut self, elapsed: Duration, frames: u64, units: u64) {
        self.frames += frames;
        self.burst_frames += frames;
        self.burst_units += units;
        if let Some(Bursts { frames, gap }) = self.timing.bursts {
            if self.burst_frames >= frames.max(1) {
                self.gap_end = Some(elapsed + gap);
            }
        }
    }

    /// Units that are due but not sent; the first is due at once.
    fn due(&self, rate: Rate, elapsed: Duration) -> u64 {
        let units = elapsed.as_nanos() * u128::from(rate.per_second.max(1)) / 1_000_000_000;
        u64::try_from(units).unwrap_or(u64::MAX - 1).saturating_add(1).saturating_sub(self.burst_units)
    }

    /// Time until the next unit is due.
    fn until_due(&self, rate: Rate, elapsed: Duration) -> Duration {
        let ns = (u128::from(self.burst_units) * 1_000_000_000).div_ceil(u128::from(rate.per_second.max(1)));
        let at = self.burst_start + Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX));
        at.saturating_sub(elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn send(frames: u64, units: u64) -> Step {
        Step::Send { frames, units }
    }

    #[test]
    fn without_a_rate_chunks_are_sent_back_to_back() {
        let mut pace = Pace::new(Timing { frames: Some(100_000), ..Timing::default() });
        assert_eq!(pace.next(MS), send(65_536, u64::MAX));
        pace.sent(MS, 65_536, 65_536);
        assert_eq!(pace.next(MS), send(34_464, u64::MAX));
        pace.sent(MS, 34_464, 34_464);
        assert_eq!(pace.next(MS), Step::Done);
        assert_eq!(Pace::new(Timing { frames: Some(0), ..Timing::default() }).next(MS), Step::Done);
    }

    #[test]
    fn a_rate_is_kept_over_the_whole_run() {
        let rate = Some(Rate::frames(10_000));
        let mut pace = Pace::new(Timing { rate, frames: Some(1_000), ..Timing::default() });
        assert_eq!(pace.next(Duration::ZERO), send(1_000, 1));
        pace.sent(Duration::ZERO, 1, 1);
        assert_eq!(pace.next(Duration::ZERO), Step::Wait(MS / 10));
        assert_eq!(pace.next(MS), send(999, 10));
        pace.sent(MS, 10, 10);
        assert_eq!(pace.next(50 * MS), send(989, 490), "catches up on missed frames");
        pace.sent(50 * MS, 900, 900);
        assert_eq!(pace.next(5000 * MS), send(89, 49_090), "no more than requested");
    }

    #[test]
    fn bit_rates_include_the_framing_overhead() {
        assert_eq!([Unit::Frames, Unit::Bits, Unit::WireBits].map(|unit| unit.of_frame(60)), [1, 512, 672]);
        // Line rate of 10 Gbit/s with 64-byte frames: 14.88 Mpps.
        let rate = Rate { per_second: 10_000_000_000, unit: Unit::WireBits };
        assert_eq!(rate.frames_per_second(60.0).round(), 14_880_952.0);
        let mut pace = Pace::new(Timing { rate: Some(rate), ..Timing::default() });
        let mut sent = 0;
        for us in 0..1_000 {
            let now = Duration::from_micros(us);
            while let Step::Send { .. } = pace.next(now) {
                pace.sent(now, 1, Unit::WireBits.of_frame(60));
                sent += 1;
            }
        }
        assert_eq!(sent, 14_867, "frames that begin within 999 µs");
    }

    #[test]
    fn a_gap_starts_when_its_burst_ends() {
        let bursts = Some(Bursts { frames: 10, gap: 5 * MS });
        let mut pace = Pace::new(Timing { bursts, frames: Some(25), ..Timing::default() });
        assert_eq!(pace.next(MS), send(10, u64::MAX));
        pace.sent(2 * MS, 4, 4);
        assert_eq!(pace.next(2 * MS), send(6, u64::MAX));
        pace.sent(3 * MS, 6, 6);
        assert_eq!(pace.next(3 * MS), Step::Rest(5 * MS));
        assert_eq!(pace.next(7 * MS), Step::Rest(MS));
        assert_eq!(pace.next(9 * MS), send(10, u64::MAX));
        pace.sent(9 * MS, 10, 10);
        assert_eq!(pace.next(20 * MS), send(5, u64::MAX));

        let rate = Some(Rate::frames(1_000));
        let mut pace = Pace::new(Timing { rate, bursts, ..Timing::default() });
        pace.sent(9 * MS, 10, 10);
        assert_eq!(pace.next(14 * MS), send(10, 1), "the rate restarts with each burst");
    }

    #[test]
    fn a_run_ends_when_its_time_is_up() {
        let timing = Timing { rate: Some(Rate::frames(1)), time: Some(10 * MS), ..Timing::default() };
        let mut pace = Pace::new(timing);
        pace.sent(MS, 1, 1);
        assert_eq!(pace.next(MS), Step::Wait(9 * MS), "waits no longer than the run lasts");
        assert_eq!(pace.next(10 * MS), Step::Done);
    }
}
