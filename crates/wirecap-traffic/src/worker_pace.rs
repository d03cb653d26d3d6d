//! The pace of a slow handler: a worker finishes its packets only when a worker of that pace would.
//!
//! ```text
//!   take 100 at 0 ms, 1,000 packets/s ──► finish 100 ms    woken 5 ms late
//!   take 100 at 105 ms                ──► finish 200 ms    made up for
//!   idle until 500 ms, take 10        ──► finish 510 ms    idle time is lost, as for a real handler
//!   stopped until 60,510 ms, take 10  ──► finish 60,420 ms  no more than 100 ms are made up for
//! ```
//!
//! Rule: the schedule is absolute, and a worker sleeps until its packets are due. Workers that sleep can
//! share a core.

use std::time::{Duration, Instant};

/// How much of a late wake-up is made up for, at most: a process that was stopped for a minute has not worked
/// in it. Longer than a busy scheduler lets workers wait that share a core.
const MAX_LATE: Duration = Duration::from_millis(100);

/// The schedule of one worker.
#[derive(Debug)]
pub struct WorkerPace {
    packets_per_second: f64,
    /// When the worker finishes all packets taken so far; `None` after an idle time.
    finish: Option<Instant>,
}

impl WorkerPace {
    /// A worker that needs `1 / packets_per_second` for a packet.
    pub fn new(packets_per_second: f64) -> Self {
        Self { packets_per_second, finish: None }
    }

    /// Notes that the worker was idle.
    pub fn idle(&mut self) {
        self.finish = None;
    }

    /// When a worker that takes `packets` packets at `now` finishes the last of them.
    pub fn take(&mut self, packets: usize, now: Instant) -> Instant {
        let busy = Duration::from_secs_f64(packets as f64 / self.packets_per_second);
        let earliest = now.checked_sub(MAX_LATE).unwrap_or(now);
        let finish = self.finish.unwrap_or(now).max(earliest) + busy;
        self.finish = Some(finish);
        finish
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedule_makes_up_for_late_sleeps_but_not_for_idle_time() {
        let mut pace = WorkerPace::new(1000.0);
        let start = Instant::now();
        let ms = |ms| start + Duration::from_millis(ms);
        assert_eq!(pace.take(100, start), ms(100));
        assert_eq!(pace.take(100, ms(105)), ms(200), "5 ms late, but finished on time");
        pace.idle();
        assert_eq!(pace.take(10, ms(500)), ms(510));
        // Late by more than it makes up for.
        assert_eq!(pace.take(10, ms(60_510)), ms(60_420));
        assert_eq!(pace.take(90, ms(60_520)), ms(60_510));
    }
}
