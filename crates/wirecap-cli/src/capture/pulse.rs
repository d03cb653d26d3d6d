//! Notices when the process hardly ran: it was stopped, or the machine gave it no time.
//!
//! ```text
//!   watch   │ │ │ │                     │ │ │        a look every 50 ms
//!                   └── 1 s or more ────┘            and hardly any CPU time used: the process hardly ran
//! ```
//!
//! Rule: a long gap alone says only that the watching thread did not run; the CPU time shows whether
//! others did.

use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// The shortest gap that matters: pools absorb shorter ones.
const SHORTEST: Duration = Duration::from_secs(1);
/// A process hardly ran if its threads used at most the gap divided by this.
const SHARE: u32 = 10;
/// Losses that are noticed within this time of the end of a gap may come from it.
const AFTERMATH: Duration = Duration::from_secs(3);

/// How long the process hardly ran.
#[derive(Debug)]
pub(super) struct Pulse {
    /// The last look, and the CPU time that all threads had used by then.
    last: (Instant, Duration),
    /// All gaps together.
    stood: Duration,
    /// The end and the length of the last gap.
    last_gap: Option<(Instant, Duration)>,
}

impl Pulse {
    pub(super) fn new() -> Self {
        Self { last: (Instant::now(), cpu_time()), stood: Duration::ZERO, last_gap: None }
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
            self.last_gap = Some((now, gap));
        }
        self.last = (now, cpu_time);
    }

    /// The time in which the process hardly ran, in total.
    pub(super) fn stood(&self) -> Duration {
        self.stood
    }

    /// The same, of a gap that has just ended.
    pub(super) fn just_stood(&self, now: Instant) -> Duration {
        let is_recent = |end: Instant| now.saturating_duration_since(end) <= AFTERMATH;
        self.last_gap.filter(|(end, _)| is_recent(*end)).map_or(Duration::ZERO, |(_, gap)| gap)
    }
}

/// The text that the process hardly ran for this time; `None` if it always ran. While nothing reads its
/// messages, the watching thread waits, which looks the same.
pub(super) fn describe(stood: Duration) -> Option<String> {
    let seconds = stood.as_secs_f64();
    (!stood.is_zero()).then(|| {
        format!(
            "the process hardly ran for {seconds:.1} s: it was stopped, the machine was busy, or nothing read its messages"
        )
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
        let mut pulse = Pulse { last: (start, Duration::ZERO), stood: Duration::ZERO, last_gap: None };
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
        assert!(text.starts_with("the process hardly ran for 5.0 s: it was stopped"), "{text}");
        let just = |now| pulse.just_stood(start + ms(now));
        assert_eq!((just(9_050), just(12_050), just(12_051)), (ms(2_000), ms(2_000), Duration::ZERO));
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
