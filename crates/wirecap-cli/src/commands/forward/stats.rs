//! What became of the packets of a receiving port: counted by the workers, read by the account.
//!
//! Rule: `delivered = forwarded + dropped`, and each dropped packet has exactly one cause.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use serde::Serialize;
use wirecap::Refusal;
use wirecap_router::DropCause;
use wirecap_traffic::{Latency, Percentiles};

/// The cause for a packet that a transmitter refused.
pub(crate) fn cause_of(refusal: Refusal) -> DropCause {
    match refusal {
        Refusal::Full => DropCause::RingFull,
        Refusal::OverShare => DropCause::OverShare,
        Refusal::TooLong => DropCause::TooLong,
        Refusal::LinkDown => DropCause::LinkDown,
        Refusal::Gone => DropCause::Gone,
        _ => DropCause::NotSendable,
    }
}

/// Packets of one receiving port, as counted by one worker.
#[derive(Debug, Default)]
pub(super) struct ForwardStats {
    forwarded: AtomicU64,
    bytes: AtomicU64,
    /// Checksums that were completed.
    completed: AtomicU64,
    /// ICMP errors about dropped packets.
    icmp_sent: AtomicU64,
    icmp_suppressed: AtomicU64,
    /// By cause.
    dropped: [AtomicU64; DropCause::COUNT],
    latency: Mutex<Latency>,
}

impl ForwardStats {
    /// Counts packets of one batch that were forwarded.
    pub(super) fn count_forwarded(&self, packets: u64, bytes: u64) {
        self.forwarded.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn count_completed(&self) {
        self.completed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_dropped(&self, cause: DropCause) {
        self.dropped[cause as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an ICMP error that was sent or suppressed.
    pub(super) fn count_icmp_error(&self, is_sent: bool) {
        let errors = if is_sent { &self.icmp_sent } else { &self.icmp_suppressed };
        errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Locked once per batch, and by the account.
    pub(super) fn latency(&self) -> MutexGuard<'_, Latency> {
        self.latency.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Packets of one receiving port, of all workers.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ForwardReport {
    /// The port that received them.
    pub(super) from: String,
    /// The port that they left by; null for a router.
    pub(super) to: Option<String>,
    /// Packets given to the kernel for the other port.
    pub(super) forwarded: u64,
    /// Bytes of these.
    pub(super) bytes: u64,
    /// Checksums that senders left to their NIC, and that were completed.
    pub(super) checksums_completed: u64,
    /// ICMP errors that a router sent about dropped packets.
    pub(super) icmp_errors_sent: u64,
    /// ICMP errors that were not sent: over the rate limit, no room in the transmit ring, no source address.
    pub(super) icmp_errors_suppressed: u64,
    /// Packets that were not forwarded, by cause.
    #[cfg_attr(test, schemars(schema_with = "crate::tests::reference::json::drop_causes"))]
    pub(super) dropped: serde_json::Map<String, serde_json::Value>,
    /// Of these, packets that no rule dropped.
    #[serde(skip)]
    pub(super) lost: u64,
    /// From the packets' timestamps to the system call that sends them. Packets within four seconds after
    /// the system clock was set by more than some milliseconds are not in it.
    pub(super) latency: Option<Percentiles>,
}

impl ForwardReport {
    pub(super) fn new<'w>(
        from: &str,
        to: Option<&str>,
        workers: impl Iterator<Item = &'w ForwardStats> + Clone,
    ) -> Self {
        let sum = |counter: &dyn Fn(&ForwardStats) -> &AtomicU64| -> u64 {
            workers.clone().map(|stats| counter(stats).load(Ordering::Relaxed)).sum()
        };
        let dropped = DropCause::ALL.map(|cause| (cause, sum(&|stats| &stats.dropped[cause as usize])));
        let mut latency = Latency::default();
        workers.clone().for_each(|stats| latency.add(&stats.latency()));
        Self {
            from: from.into(),
            to: to.map(String::from),
            forwarded: sum(&|stats| &stats.forwarded),
            bytes: sum(&|stats| &stats.bytes),
            checksums_completed: sum(&|stats| &stats.completed),
            icmp_errors_sent: sum(&|stats| &stats.icmp_sent),
            icmp_errors_suppressed: sum(&|stats| &stats.icmp_suppressed),
            lost: dropped.iter().filter(|(cause, _)| cause.is_loss()).map(|(_, packets)| packets).sum(),
            dropped: dropped
                .iter()
                .map(|(cause, packets)| (cause.name().into(), (*packets).into()))
                .collect(),
            latency: latency.percentiles(),
        }
    }

    /// ICMP errors, sent or suppressed.
    pub(super) fn icmp_errors(&self) -> u64 {
        self.icmp_errors_sent + self.icmp_errors_suppressed
    }

    /// Packets that were not forwarded.
    pub(super) fn packets_dropped(&self) -> u64 {
        self.causes().map(|(_, packets)| packets).sum()
    }

    /// The causes that occurred, with their packets: `ring_full 3, too_long 1`.
    pub(super) fn describe_causes(&self) -> String {
        self.causes().map(|(name, packets)| format!("{name} {packets}")).collect::<Vec<_>>().join(", ")
    }

    /// The causes that occurred, by name, with their packets.
    pub(super) fn causes(&self) -> impl Iterator<Item = (&str, u64)> {
        let causes =
            self.dropped.iter().map(|(name, packets)| (name.as_str(), packets.as_u64().unwrap_or(0)));
        causes.filter(|&(_, packets)| packets > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_all_workers_are_added_up() {
        let workers = [ForwardStats::default(), ForwardStats::default()];
        workers[0].count_forwarded(3, 180);
        workers[1].count_forwarded(4, 400);
        workers[1].count_dropped(cause_of(Refusal::TooLong));
        workers[0].count_dropped(cause_of(Refusal::Full));
        workers[0].count_completed();
        [true, false, true].into_iter().for_each(|is_sent| workers[1].count_icmp_error(is_sent));
        workers[0].count_icmp_error(true);
        workers[0].latency().note(2_000, 3);
        let report = ForwardReport::new("a", Some("b"), workers.iter());
        assert_eq!((report.forwarded, report.bytes, report.checksums_completed), (7, 580, 1));
        assert_eq!((report.icmp_errors_sent, report.icmp_errors_suppressed), (3, 1));
        assert_eq!(report.causes().collect::<Vec<_>>(), [("ring_full", 1), ("too_long", 1)]);
        assert_eq!(report.lost, 1, "a packet that is too long does not count as lost");
        assert_eq!(report.dropped.len(), DropCause::COUNT);
        assert!(report.latency.is_some_and(|latency| latency.max_ns.abs_diff(2_000) < 20));
    }
}
