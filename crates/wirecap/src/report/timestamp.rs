//! Where the times of packets come from, and how exact they are.
//!
//! | source | stamped by | when | costs |
//! |---|---|---|---|
//! | [`Timestamp::Hardware`] | the NIC | the packet is on the wire | a call of the driver for each packet |
//! | [`Timestamp::Kernel`] | the XDP program; on a passive port, the kernel | the driver has the packet | a reading of the clock for each packet |
//! | [`Timestamp::Batch`] | the thread that takes packets from the ring | it first sees them there | two readings of the CPU's counter for each batch |
//!
//! Rules: times are UTC, whatever the source. Those of one receive queue over AF_XDP increase strictly: a
//! packet that would not be later than the one before it is 1 ns later; they go back only when the system
//! clock is set back. And a bound that is printed or recorded holds under every stall: it is measured and
//! reported at the end, not promised at the start.

use serde::Serialize;
use wirecap_core::Spread;
use wirecap_sys::clock::{BatchClock, StampClock};
pub use wirecap_sys::clock::{Clock, ClockScale, CounterRefusal};

use crate::Timestamp;

/// The timestamps of a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimestampReport {
    /// Where they come from.
    pub source: Timestamp,
    /// By which clock, and how it is brought to UTC.
    pub clock: Clock,
    /// The resolution of the clock, in nanoseconds.
    pub resolution_ns: u64,
    /// By how much the clock may differ from the system clock, in nanoseconds: the most that comparisons have
    /// shown so far. Only for a clock that is compared with it: the CPU's counter, CLOCK_MONOTONIC, and that
    /// of a NIC which shows neither UTC nor TAI. How long packets waited before the clock was read is not in
    /// it: see `uncertainty`.
    pub error_bound_ns: Option<u64>,
    /// How much earlier than their times packets may have come; `None` where all have their own timestamp.
    pub uncertainty: Option<Uncertainty>,
    /// Packets without a stamp, or with an implausible one. Those that were captured have the time of their
    /// batch.
    pub unstamped: u64,
    /// By how much the system clock was set back, all times together, in nanoseconds; 0 if it was not. The
    /// times of packets go back with it.
    pub set_back_ns: u64,
}

/// How much earlier than the times of their batches packets may have come, in nanoseconds: the time between
/// two looks of the reader at the ring. The bound holds wherever the reader stalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Uncertainty {
    /// Number of packets that have the time of their batch.
    pub packets: u64,
    /// For half of them it is at most this. Like `p99_ns` at most an eighth too large.
    pub p50_ns: u64,
    /// For 99 of 100.
    pub p99_ns: u64,
    /// For all of them, exactly.
    pub max_ns: u64,
}

impl Uncertainty {
    /// Of lengths of time in nanoseconds; `None` if there are none.
    fn of(spread: &Spread) -> Option<Self> {
        (spread.count() > 0).then(|| Self {
            packets: spread.count(),
            p50_ns: spread.quantile(0.5),
            p99_ns: spread.quantile(0.99),
            max_ns: spread.longest(),
        })
    }
}

/// Of packets that have the times of their batches, by the system clock.
impl Default for TimestampReport {
    fn default() -> Self {
        Self::batch(&BatchClock::system())
    }
}

impl TimestampReport {
    /// Of batches.
    pub(crate) fn batch(clock: &BatchClock) -> Self {
        let error_bound_ns = clock.is_counter().then(|| clock.error_bound_ns());
        let report = Self::of_packets(Timestamp::Batch, clock.clock(), clock.resolution_ns());
        Self { error_bound_ns, ..report }
    }

    /// Of packets that are stamped one by one.
    pub(crate) fn of_packets(source: Timestamp, clock: Clock, resolution_ns: u64) -> Self {
        let (error_bound_ns, uncertainty) = (None, None);
        Self { source, clock, resolution_ns, error_bound_ns, uncertainty, unstamped: 0, set_back_ns: 0 }
    }

    /// What the clock of a queue has learnt since the start.
    pub(crate) fn learn(&mut self, clock: &StampClock) {
        if clock.was_set() {
            self.clock = clock.clock();
        }
        self.error_bound_ns = self.error_bound_ns.max(clock.error_bound_ns());
    }

    /// Sets how far off the times of packets were, and by how much the clock was set back.
    pub(crate) fn measure(&mut self, uncertainty: &Spread, set_back_ns: u64) {
        self.uncertainty = Uncertainty::of(uncertainty);
        if self.source != Timestamp::File {
            self.set_back_ns = set_back_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use wirecap_sys::clock::{ClockSource, LeapSeconds};

    #[test]
    fn the_bound_is_that_of_the_worst_clock() {
        let clock = |source| StampClock::new(source, Arc::new(LeapSeconds::built_in())).unwrap();
        let mut report = TimestampReport::of_packets(Timestamp::Hardware, Clock::File, 1);
        let follows = clock(ClockSource::Monotonic);
        report.learn(&follows);
        assert_eq!(report.error_bound_ns, follows.error_bound_ns());
        assert!(report.error_bound_ns.is_some_and(|bound_ns| bound_ns > 0));
        report.error_bound_ns = Some(u64::MAX);
        report.learn(&follows);
        assert_eq!(report.error_bound_ns, Some(u64::MAX));
        assert_eq!(report.clock, Clock::File, "the report keeps its clock");
    }
}
