//! The figures of one thread: it writes them, the account reads them.
//!
//! Rule: a thread is busy from a batch until no other one waits. Waiting for packets is in no figure.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use nix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// The figures of one thread. On a cache line of their own; relaxed, since they order nothing.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct ThreadCounts {
    pub(super) packets: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) matched: AtomicU64,
    pub(super) busy_ns: AtomicU64,
    pub(super) cpu_ns: AtomicU64,
    /// The longest time.
    pub(super) late_ns: AtomicU64,
    /// Packets that a signal gave up.
    pub(super) unhandled: AtomicU64,
    /// Packets that came in by the interface that packets are sent on through.
    pub(super) ignored: AtomicU64,
}

impl ThreadCounts {
    /// Adds to a counter, which only the calling thread writes.
    pub(super) fn add(counter: &AtomicU64, more: u64) {
        counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }

    /// Packets that the thread is done with, one way or another.
    pub(super) fn done(&self) -> u64 {
        [&self.packets, &self.unhandled, &self.ignored].map(read).iter().sum()
    }

    /// The figures so far. Matches count if a filter runs, lateness if there is a pace.
    pub(super) fn record(&self, thread: usize, filters: bool, paced: bool) -> ThreadRecord {
        let (packets, busy_ns, cpu_ns) = (read(&self.packets), read(&self.busy_ns), read(&self.cpu_ns));
        ThreadRecord {
            thread,
            packets,
            bytes: read(&self.bytes),
            matched: filters.then(|| read(&self.matched)),
            busy_seconds: busy_ns as f64 / 1e9,
            busy_pps: (busy_ns > 0).then(|| packets as f64 * 1e9 / busy_ns as f64),
            cpu_ns_per_packet: (packets > 0).then(|| cpu_ns as f64 / packets as f64),
            late_ms: paced.then(|| read(&self.late_ns) as f64 / 1e6),
        }
    }
}

pub(super) fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// What a thread did.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ThreadRecord {
    /// Number of the thread: that of the worker.
    pub(super) thread: usize,
    /// Packets that it handled.
    pub(super) packets: u64,
    /// Their bytes.
    pub(super) bytes: u64,
    /// Packets that the filter matched; null if no filter ran.
    pub(super) matched: Option<u64>,
    /// Seconds in which it had packets to handle.
    pub(super) busy_seconds: f64,
    /// Packets per second while it had some; null without packets.
    pub(super) busy_pps: Option<f64>,
    /// CPU time of the thread for each packet since its first one, receiving included, in nanoseconds; null
    /// without packets.
    pub(super) cpu_ns_per_packet: Option<f64>,
    /// The longest time by which it was behind its pace, in milliseconds: woken late, held up by sending, or
    /// too slow for the pace; null without a pace.
    pub(super) late_ms: Option<f64>,
}

/// The time in which a thread has packets.
#[derive(Debug, Default)]
pub(super) struct BusyTime {
    /// When the present time began, and the last moment of it that is known.
    present: Option<(Instant, Instant)>,
    before: Duration,
}

impl BusyTime {
    /// Notes a batch that was handled from `begin` to `end`. Returns the time so far.
    pub(super) fn note(&mut self, begin: Instant, end: Instant) -> Duration {
        let since = self.present.map_or(begin, |(since, _)| since);
        self.present = Some((since, end));
        self.before + end.saturating_duration_since(since)
    }

    /// Notes that no packet waits.
    pub(super) fn pause(&mut self) {
        if let Some((since, end)) = self.present.take() {
            self.before += end.saturating_duration_since(since);
        }
    }
}

/// CPU time that this thread has used.
pub(super) fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_between_batches_counts_only_while_packets_wait() {
        let start = Instant::now();
        let ms = |ms| start + Duration::from_millis(ms);
        let mut busy = BusyTime::default();
        assert_eq!(busy.note(ms(10), ms(20)), Duration::from_millis(10));
        assert_eq!(busy.note(ms(25), ms(30)), Duration::from_millis(20), "receiving is work");
        busy.pause();
        busy.pause();
        assert_eq!(busy.note(ms(100), ms(101)), Duration::from_millis(21), "waiting does not count");
    }

    #[test]
    fn figures_that_mean_nothing_are_null() {
        let counts = ThreadCounts::default();
        let idle = counts.record(3, false, false);
        assert_eq!(
            (idle.matched, idle.busy_pps, idle.cpu_ns_per_packet, idle.late_ms),
            (None, None, None, None)
        );
        ThreadCounts::add(&counts.packets, 200);
        ThreadCounts::add(&counts.busy_ns, 100_000_000);
        ThreadCounts::add(&counts.cpu_ns, 600_000);
        let record = counts.record(3, true, true);
        assert_eq!((record.matched, record.busy_pps), (Some(0), Some(2_000.0)));
        assert_eq!((record.cpu_ns_per_packet, record.late_ms), (Some(3_000.0), Some(0.0)));
    }

    #[test]
    fn cpu_time_grows_with_work() {
        let before = thread_cpu();
        while thread_cpu() == before {
            std::hint::spin_loop();
        }
    }
}
