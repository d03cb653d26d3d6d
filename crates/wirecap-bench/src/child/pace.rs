//! A heavy handler: a worker that is through with its packets only when one of that speed would be.
//!
//! Rule: the schedule is absolute. A sleep that ends late is made up for; time without packets is not.

use std::time::{Duration, Instant};

/// The schedule of one worker.
#[derive(Debug)]
pub struct Pace {
    packets_per_second: f64,
    /// When the worker is through with all it took; `None` after it had nothing to do.
    through: Option<Instant>,
}

impl Pace {
    /// A worker that needs `1 / packets_per_second` for a packet.
    pub fn new(packets_per_second: f64) -> Self {
        Self { packets_per_second, through: None }
    }

    /// The worker had nothing to do.
    pub fn idle(&mut self) {
        self.through = None;
    }

    /// When a worker that took `packets` packets at `now` is through with the last of them.
    pub fn take(&mut self, packets: usize, now: Instant) -> Instant {
        let busy = Duration::from_secs_f64(packets as f64 / self.packets_per_second);
        let through = self.through.unwrap_or(now) + busy;
        self.through = Some(through);
        through
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_made_up_for_and_idleness_is_not() {
        let mut pace = Pace::new(1000.0);
        let start = Instant::now();
        let ms = |ms| start + Duration::from_millis(ms);
        assert_eq!(pace.take(100, start), ms(100));
        assert_eq!(pace.take(100, ms(105)), ms(200), "5 ms late, yet through on time");
        pace.idle();
        assert_eq!(pace.take(10, ms(500)), ms(510));
    }
}
