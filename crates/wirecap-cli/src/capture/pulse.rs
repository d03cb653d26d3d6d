//! Notices when the process did not run: it was stopped, or the machine gave it no time.
//!
//! ```text
//!   watch   │ │ │ │                     │ │ │        a look every 50 ms
//!                   └── 1 s or more ────┘            and hardly any CPU time used: the process did not run
//! ```
//!
//! Rule: a long gap alone says only that the watching thread did not run; the CPU time shows whether
//! others did.

use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// The shortest gap that matters: pools absorb shorter ones.
const SHORTEST: Duration = Duration::from_secs(1);
/// A process did not run if its threads used at most the gap divided by this.
const SHARE: u32 = 10;

/// How long the process did not run.
#[derive(Debug)]
pub(super) struct Pulse {
    /// The last look, and the CPU time that all threads had used by then.
    last: (Instant, Duration),
    stood: Duration,
}

impl Pulse {
    pub(super) fn new() -> Self {
        Self { last: (Instant::now(), cpu_time()), stood: Duration::ZERO }
    }

    /// Looks now.
    pub(super) fn look(&mut self) {
        self.look_at(Instant::now(), cpu_time());
    }

    fn look_at(&mut self, now: Instant, cpu_time: Duration) {
        let gap = now.saturating_duration_since(self.last.0);
        let used = cpu_time.saturating_sub(self.last.1);
        if gap >= SHORTEST && used <= gap / SHARE {
            self.stood += gap;
        }
        self.last = (now, cpu_time);
    }

    /// The time in which the process did not run, in total.
    pub(super) fn stood(&self) -> Duration {
        self.stood
    }
}

/// The text that the process did not run for this time; `None` if it always ran.
pub(super) fn describe(stood: Duration) -> Option<String> {
    let seconds = stood.as_secs_f64();
    (!stood.is_zero()).then(|| {
        format!("the process did not run for {seconds:.1} s: it was stopped, or the machine was busy")
    })
}

/// The CPU time of all threads; 0 if the kernel does not report it.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_long_gap_without_work_counts() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let mut pulse = Pulse { last: (start, Duration::ZERO), stood: Duration::ZERO };
        let mut at = |now, cpu| {
            pulse.look_at(start + ms(now), ms(cpu));
            pulse.stood()
        };
        assert_eq!(at(50, 10), Duration::ZERO);
        assert_eq!(at(1_000, 11), Duration::ZERO, "a short gap");
        assert_eq!(at(4_000, 2_900), Duration::ZERO, "other threads ran");
        assert_eq!(at(7_000, 2_950), ms(3_000));
        assert_eq!(at(7_050, 2_950), ms(3_000));
        assert_eq!(at(9_050, 2_950), ms(5_000), "together");
        let text = describe(ms(5_000)).unwrap();
        assert_eq!(text, "the process did not run for 5.0 s: it was stopped, or the machine was busy");
        assert_eq!(describe(Duration::ZERO), None);
    }

    #[test]
    fn the_time_of_this_process_goes_on() {
        let before = cpu_time();
        let mut sum = 0_u64;
        while cpu_time() == before {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(cpu_time() > before);
    }
}
