//! How many frames are due: a plain function of time, no clock in it.

use std::num::NonZeroU64;
use std::time::Duration;

/// Most frames per call into the kernel: 3 ms at full speed, so that a run ends close to its time.
const CHUNK: u64 = 65_536;
/// Shortest sleep between calls when sending at a rate: timers are not much finer.
const TICK: Duration = Duration::from_millis(1);

/// When a run ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limit {
    /// After so many frames.
    Frames(u64),
    /// After so long.
    Time(Duration),
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Send so many frames, 1 or more.
    Send(u32),
    /// Nothing is due for so long.
    Wait(Duration),
    /// The run is over.
    Done,
}

/// Decides from the time since the start and the frames sent so far.
pub(crate) fn next_step(limit: Limit, rate_pps: Option<NonZeroU64>, elapsed: Duration, sent: u64) -> Step {
    let (left, time_left) = match limit {
        Limit::Frames(frames) => (frames.saturating_sub(sent), Duration::MAX),
        Limit::Time(time) => (u64::MAX, time.saturating_sub(elapsed)),
    };
    if left == 0 || time_left.is_zero() {
        return Step::Done;
    }
    let due = match rate_pps {
        None => u64::MAX,
        Some(rate) => due_by(elapsed, rate).saturating_sub(sent),
    };
    match due.min(left).min(CHUNK) {
        0 => Step::Wait(TICK.min(time_left)),
        frames => Step::Send(frames as u32),
    }
}

/// Frames that should have left `elapsed` after the start: the first at once.
fn due_by(elapsed: Duration, rate_pps: NonZeroU64) -> u64 {
    let frames = elapsed.as_nanos() * u128::from(rate_pps.get()) / 1_000_000_000;
    u64::try_from(frames).unwrap_or(u64::MAX).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn without_a_rate_chunks_follow_each_other() {
        let step = |sent| next_step(Limit::Frames(100_000), None, MS, sent);
        assert_eq!(step(0), Step::Send(65_536));
        assert_eq!(step(65_536), Step::Send(34_464));
        assert_eq!(step(100_000), Step::Done);
        assert_eq!(next_step(Limit::Frames(0), None, MS, 0), Step::Done);
    }

    #[test]
    fn a_rate_is_kept_over_the_whole_run() {
        let rate = NonZeroU64::new(10_000);
        let step = |elapsed, sent| next_step(Limit::Frames(1_000), rate, elapsed, sent);
        assert_eq!(step(Duration::ZERO, 0), Step::Send(1));
        assert_eq!(step(MS, 1), Step::Send(10));
        assert_eq!(step(MS, 11), Step::Wait(TICK));
        assert_eq!(step(50 * MS, 11), Step::Send(490), "what was missed is made up for");
        assert_eq!(step(5000 * MS, 900), Step::Send(100), "not more than asked for");
    }

    #[test]
    fn time_ends_a_run() {
        let slow = NonZeroU64::new(1);
        let step = |elapsed| next_step(Limit::Time(10 * MS), slow, elapsed, 1);
        assert_eq!(step(MS), Step::Wait(MS));
        assert_eq!(step(10 * MS - MS / 2), Step::Wait(MS / 2), "no longer than the run");
        assert_eq!(step(10 * MS), Step::Done);
    }
}
