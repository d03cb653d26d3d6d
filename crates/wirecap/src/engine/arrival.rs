//! When the packets of a queue came that bear no time of their own.
//!
//! ```text
//!   clock ─► before ─┐                      ┌─► time of the batch: when its cells were first seen
//!   ring ──► look ───┼─► Arrivals ─► window ┤
//!   clock ─► after ──┘                      └─► uncertainty: how much earlier they may have come
//! ```
//!
//! Rule: what is said of a batch holds wherever the thread was held up, and whatever was done to the system clock. A batch whose packets
//! waited in the ring has the time at which they were first seen there, not that at which they are taken.

use wirecap_core::{Arrivals, Spread, Window};
use wirecap_sys::clock::{BatchClock, Moment};

use crate::port::{AnyQueue, BatchEnd, BatchTime, ReceiveQueue};

/// A clock that goes back by more than this was set back. By less it goes back when it is compared with another, and that is no reason
/// for times to go back.
const SET_BACK_NS: u64 = 10_000_000;

/// Looks at the ring of one queue, under its lock.
#[derive(Debug)]
pub(crate) struct ArrivalWatch {
    arrivals: Arrivals<Moment>,
    /// How uncertain the times of packets were that bear that of their batch.
    uncertainty: Spread,
    /// No packet has a later time, and none of those that come has an earlier one, unless the clock is set back.
    last_ns: u64,
    /// The system clock at the last look.
    looked_ns: u64,
    /// By how much it was set back, all times together.
    set_back_ns: u64,
}

impl ArrivalWatch {
    /// Of a ring into which nothing has come before `opened`.
    pub(crate) fn new(opened: Moment) -> Self {
        let (arrivals, uncertainty) = (Arrivals::new(opened), Spread::new());
        Self { arrivals, uncertainty, last_ns: 0, looked_ns: 0, set_back_ns: 0 }
    }

    /// Looks at the ring. What can be received now, of at most `space` cells, and the time of it; `None` if nothing waits.
    pub(crate) fn look(
        &mut self,
        source: &AnyQueue,
        clock: &mut BatchClock,
        space: u32,
    ) -> Option<BatchTime> {
        let before = clock.moment();
        self.follow(before.utc_ns());
        let Some(waiting) = source.waiting() else {
            // Packets bring their times with them.
            return (source.backlog() > 0)
                .then(|| BatchTime::certain(before.utc_ns(), self.last_ns + 1, space));
        };
        let (mut now, cells) = (before, waiting.cells);
        self.arrivals.looked(before, cells.clone(), || {
            now = clock.moment();
            now
        });
        let max = u64::from(space).min(cells.end - cells.start);
        let taken = cells.start..if waiting.may_refuse { cells.end } else { cells.start + max };
        let window = self.arrivals.window(taken.clone())?;
        let (time, uncertainty_ns) = timed(window, now, clock);
        let time_ns = time.utc_ns();
        Some(BatchTime {
            now_ns: now.utc_ns(),
            time_ns,
            uncertainty_ns,
            least_ns: self.last_ns + 1,
            max: max as u32,
            end: taken.end,
        })
    }

    /// Goes back with the system clock, if that was set back.
    fn follow(&mut self, now_ns: u64) {
        let back_ns = std::mem::replace(&mut self.looked_ns, now_ns).saturating_sub(now_ns);
        if back_ns > SET_BACK_NS {
            self.set_back_ns += back_ns;
            self.last_ns = self.last_ns.min(now_ns);
        }
    }

    /// What [`ArrivalWatch::look`] has found was received.
    pub(crate) fn received(&mut self, end: BatchEnd) {
        self.last_ns = end.last_ns;
        self.uncertainty.note(end.uncertainty_ns, end.untimed);
    }

    /// What comes next has a later time than this: that of the look which has seen what waits, or now. It is kept to.
    pub(crate) fn promise(&mut self, now_ns: u64) -> u64 {
        let next_ns = self.arrivals.oldest().map_or(now_ns, |oldest| oldest.seen.utc_ns().min(now_ns));
        self.last_ns = self.last_ns.max(next_ns);
        self.last_ns
    }

    /// How uncertain the times of packets were that bear that of their batch, in nanoseconds.
    pub(crate) fn uncertainty(&self) -> &Spread {
        &self.uncertainty
    }

    /// By how much the system clock was set back, all times together, in nanoseconds.
    pub(crate) fn set_back_ns(&self) -> u64 {
        self.set_back_ns
    }
}

/// The time of what came in a window, and how much earlier it may have come.
fn timed(window: Window<Moment>, now: Moment, clock: &BatchClock) -> (Moment, u64) {
    // A time in the future is one of before the clock was set back.
    let time = if window.seen.utc_ns() <= now.utc_ns() { window.seen } else { now };
    (time, clock.passed_ns(window.since, time))
}

#[cfg(test)]
#[path = "arrival_tests.rs"]
mod tests;
