//! Times for the packets of a queue without their own timestamp, and how exact they are.
//!
//! ```text
//!   clock ─► before ─┐                      ┌─► time of the batch: when its cells were first seen
//!   ring ──► look ───┼─► Arrivals ─► window ┤
//!   clock ─► after ──┘                      └─► uncertainty: how much earlier they may have come
//! ```
//!
//! Rule: the bound holds wherever the thread stalled and however the system clock was set. Packets that
//! waited in the ring get the time at which the reader first saw them there, not the time at which it takes
//! them.

use wirecap_core::{Arrivals, Spread, Window};
use wirecap_sys::clock::{BatchClock, Moment};

use crate::port::{
    intake::{BatchEnd, BatchTime},
    queue::ReceiveQueue,
};

/// A clock that goes back by more than this was set back. Comparisons with the CPU's counter move it by less,
/// which times do not follow.
const SET_BACK_NS: u64 = 10_000_000;

/// Looks at the ring of one queue, under the queue's lock.
#[derive(Debug)]
pub(crate) struct ArrivalWatch {
    arrivals: Arrivals<Moment>,
    /// Uncertainties of the packets that have the time of their batch, in nanoseconds.
    pub(crate) uncertainty: Spread,
    /// No packet so far has a later time, and no later packet an earlier one, unless the clock is set back.
    /// Of packets whose times a program has written, nothing is known here.
    last_ns: u64,
    /// The system clock at the last look.
    pub(crate) looked_ns: u64,
    /// Total by which the system clock was set back, in nanoseconds.
    pub(crate) set_back_ns: u64,
}

impl ArrivalWatch {
    /// For a ring that was empty at `opened`.
    pub(crate) fn new(opened: Moment) -> Self {
        let (arrivals, uncertainty) = (Arrivals::new(opened), Spread::new());
        Self { arrivals, uncertainty, last_ns: 0, looked_ns: 0, set_back_ns: 0 }
    }

    /// Looks at the ring. Returns what to receive now, at most `space` cells, and its time; `None` if nothing
    /// waits.
    pub(crate) fn look(
        &mut self,
        source: &dyn ReceiveQueue,
        clock: &mut BatchClock,
        space: u32,
    ) -> Option<BatchTime> {
        let before = clock.moment();
        self.follow(before.utc_ns());
        let Some(waiting) = source.look().waiting else {
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
            min_ns: self.last_ns + 1,
            max: max as u32,
            end: taken.end,
        })
    }

    /// Lets times go back if the system clock was set back.
    fn follow(&mut self, now_ns: u64) {
        let back_ns = std::mem::replace(&mut self.looked_ns, now_ns).saturating_sub(now_ns);
        if back_ns > SET_BACK_NS {
            self.set_back_ns += back_ns;
            self.last_ns = self.last_ns.min(now_ns);
        }
    }

    /// Notes that the batch of the last [`ArrivalWatch::look`] was received.
    pub(crate) fn received(&mut self, end: BatchEnd) {
        self.last_ns = end.last_ns;
        self.uncertainty.note(end.uncertainty_ns, end.untimed);
    }

    /// Promises that every later packet has a later time than the one returned: the time of the look that saw
    /// what waits, or now.
    pub(crate) fn promise(&mut self, now_ns: u64) -> u64 {
        let next_ns = self.arrivals.oldest().map_or(now_ns, |oldest| oldest.seen.utc_ns().min(now_ns));
        self.last_ns = self.last_ns.max(next_ns);
        self.last_ns
    }
}

/// The time of packets that came in a window, and how much earlier they may have come.
fn timed(window: Window<Moment>, now: Moment, clock: &BatchClock) -> (Moment, u64) {
    // A time in the future was read before the clock was set back.
    let time = if window.seen.utc_ns() <= now.utc_ns() { window.seen } else { now };
    (time, clock.passed_ns(window.since, time))
}

#[cfg(test)]
mod tests;
