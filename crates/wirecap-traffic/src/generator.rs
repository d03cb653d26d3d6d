//! A run of a generator: sends frames when they are due, until the end.
//!
//! ```text
//!   time ─► Pace ──► Step: frames due ──► Engine: AF_XDP queues, or the kernel's live frames
//!              ▲                                │
//!              └───────── frames sent ──────────┘
//! ```

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{
    error::Error,
    pace::{Pace, Step, Timing, Unit},
};

/// By how much a sleep usually lasts longer than requested.
const OVERSLEEP: Duration = Duration::from_micros(100);

/// Frames that an engine has made since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrameTotals {
    /// Frames.
    pub frames: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
}

impl FrameTotals {
    pub(crate) fn add(&mut self, frames: u64, bytes: u64) {
        self.frames += frames;
        self.bytes += bytes;
    }
}

/// A way to send frames.
pub trait Engine {
    /// The shortest useful sleep while a rate is kept.
    const TICK: Duration;

    /// The shortest time from one call to the next while a rate is kept: the generator sleeps for the rest of
    /// it, after which more frames are due.
    const BETWEEN_CALLS: Duration = Duration::ZERO;

    /// Sends frames until one of the limits is reached; the last may exceed `units`. May send fewer, or none
    /// while there is no room. Returns how many units were sent.
    ///
    /// # Errors
    /// [`Error`], each variant with the remedy. [`Engine::totals`] has the frames that were made before.
    fn send(&mut self, frames: u64, units: u64, unit: Unit) -> Result<u64, Error>;

    /// Frames made so far.
    fn totals(&self) -> FrameTotals;
}

/// Why a run ended.
#[derive(Debug)]
pub enum End {
    /// All frames were sent.
    Done,
    /// The run was stopped.
    Stopped,
    /// The run failed.
    Failed(Error),
}

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Duration of the run.
    pub elapsed: Duration,
    /// Why the run ended.
    pub end: End,
}

/// Sends as `timing` says. Calls `go_on` between batches, at least every 50 ms, with the time since the start
/// and the frames made, and ends the run when it returns false.
pub fn drive<E: Engine>(
    engine: &mut E,
    timing: Timing,
    mut go_on: impl FnMut(Duration, FrameTotals) -> bool,
) -> Outcome {
    let mut pace = Pace::new(timing);
    let unit = pace.unit();
    let start = Instant::now();
    let between_calls = if timing.rate.is_some() { E::BETWEEN_CALLS } else { Duration::ZERO };
    let mut next_call = Duration::ZERO;
    loop {
        let elapsed = start.elapsed();
        if !go_on(elapsed, engine.totals()) {
            return Outcome { elapsed, end: End::Stopped };
        }
        match pace.next(elapsed) {
            Step::Done => return Outcome { elapsed, end: End::Done },
            Step::Wait(time) => thread::sleep(time.clamp(E::TICK, LONGEST_SLEEP)),
            Step::Rest(time) => rest(time.min(LONGEST_SLEEP)),
            Step::Send { .. } if elapsed < next_call => thread::sleep(next_call - elapsed),
            Step::Send { frames, units } => {
                next_call = elapsed + between_calls;
                let before = engine.totals().frames;
                match engine.send(frames, units, unit) {
                    Ok(units) => {
                        // Only the gap between bursts starts at the end of sending.
                        let now = if timing.bursts.is_some() { start.elapsed() } else { elapsed };
                        pace.sent(now, engine.totals().frames - before, units);
                    }
                    Err(error) => return Outcome { elapsed: start.elapsed(), end: End::Failed(error) },
                }
            }
        }
    }
}

const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// Waits for exactly `time`: sleeps as long as sleeping is exact enough, then spins.
fn rest(time: Duration) {
    let start = Instant::now();
    if let Some(sleep) = time.checked_sub(OVERSLEEP) {
        thread::sleep(sleep);
    }
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirecap_send::SendError;
    use wirecap_sys::netdev::LinkFault;

    use crate::pace::{Bursts, Rate};

    /// Takes a few frames per call, and none in every third call.
    #[derive(Default)]
    struct SlowEngine {
        made: FrameTotals,
        calls: u64,
        fail_at: Option<u64>,
    }

    impl Engine for SlowEngine {
        const TICK: Duration = Duration::from_micros(50);
        const BETWEEN_CALLS: Duration = Duration::from_millis(2);

        fn send(&mut self, frames: u64, units: u64, unit: Unit) -> Result<u64, Error> {
            self.calls += 1;
            if self.fail_at == Some(self.calls) {
                return Err(SendError::Link { interface: "x0".into(), fault: LinkFault::Removed }.into());
            }
            let taken = if self.calls % 3 == 0 { 0 } else { frames.min(units).min(7) };
            self.made.add(taken, 60 * taken);
            Ok(taken * unit.of_frame(60))
        }

        fn totals(&self) -> FrameTotals {
            self.made
        }
    }

    #[test]
    fn exactly_the_requested_frames_are_sent() {
        let bursts = Some(Bursts { frames: 10, gap: Duration::from_micros(300) });
        let rate = Some(Rate { per_second: 512_000_000, unit: Unit::Bits });
        for timing in
            [Timing::default(), Timing { bursts, ..Timing::default() }, Timing { rate, ..Timing::default() }]
        {
            let mut engine = SlowEngine::default();
            let outcome = drive(&mut engine, Timing { frames: Some(95), ..timing }, |_, _| true);
            assert!(matches!(outcome.end, End::Done));
            assert_eq!(engine.made, FrameTotals { frames: 95, bytes: 95 * 60 });
            let gaps = if timing.bursts.is_some() { 9 } else { 0 };
            assert!(outcome.elapsed >= gaps * Duration::from_micros(300));
        }
    }

    #[test]
    fn calls_are_spaced_out_when_a_rate_is_set() {
        let rate = Some(Rate::frames(1_000_000));
        let mut engine = SlowEngine::default();
        let time = Some(Duration::from_millis(40));
        drive(&mut engine, Timing { rate, time, ..Timing::default() }, |_, _| true);
        assert!((2..=20).contains(&engine.calls), "{} calls", engine.calls);
        let mut engine = SlowEngine::default();
        drive(&mut engine, Timing { time, ..Timing::default() }, |_, _| true);
        assert!(engine.calls > 20, "as fast as possible: {} calls", engine.calls);
    }

    #[test]
    fn a_run_ends_when_stopped_on_failure_and_on_time() {
        let mut engine = SlowEngine::default();
        let outcome = drive(&mut engine, Timing::default(), |_, made| made.frames < 100);
        assert!(matches!(outcome.end, End::Stopped) && (100..107).contains(&engine.made.frames));
        let mut engine = SlowEngine { fail_at: Some(5), ..SlowEngine::default() };
        let outcome = drive(&mut engine, Timing::default(), |_, _| true);
        assert!(matches!(
            outcome.end,
            End::Failed(Error::Send(SendError::Link { fault: LinkFault::Removed, .. }))
        ));
        assert_eq!(engine.made.frames, 3 * 7);
        let timing = Timing {
            rate: Some(Rate::frames(1)),
            time: Some(Duration::from_millis(20)),
            ..Timing::default()
        };
        let outcome = drive(&mut SlowEngine::default(), timing, |_, _| true);
        assert!(matches!(outcome.end, End::Done) && outcome.elapsed < Duration::from_secs(1), "{outcome:?}");
    }
}
