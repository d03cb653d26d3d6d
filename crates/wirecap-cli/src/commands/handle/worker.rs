//! What a worker does with packets: it handles a batch, keeps its cells until it is done, then drops it or
//! sends it on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use wirecap::Batch;

use super::{
    counts::{BusyTime, ThreadCounts, thread_cpu},
    load::Load,
    onward::Sender,
};
use crate::{capture::job::BatchHandler, commands::forward::output::ReclaimSchedule};

/// Handles the packets of one worker.
pub(crate) struct HandleWorker {
    load: Load,
    sender: Option<Sender>,
    counts: Arc<ThreadCounts>,
    /// Set when a signal gives up what is still to be handled.
    give_up: Arc<AtomicBool>,
    busy: BusyTime,
    /// CPU time of the thread when its first packet came.
    cpu_before: Option<Duration>,
    /// Whether the last look found packets: then the next one does not wait, to see whether others do.
    had_packets: bool,
    reclaim: ReclaimSchedule,
}

impl HandleWorker {
    pub(super) fn new(
        load: Load,
        sender: Option<Sender>,
        counts: Arc<ThreadCounts>,
        give_up: Arc<AtomicBool>,
    ) -> Self {
        let (busy, reclaim) = (BusyTime::default(), ReclaimSchedule::default());
        Self { load, sender, counts, give_up, busy, cpu_before: None, had_packets: false, reclaim }
    }
}

impl BatchHandler for HandleWorker {
    fn batch(&mut self, batch: Batch) {
        self.had_packets = true;
        let (packets, bytes) = (batch.len() as u64, batch.bytes());
        let counts = &self.counts;
        if self.sender.as_ref().is_some_and(|sender| sender.port == batch.port()) {
            return ThreadCounts::add(&counts.ignored, packets);
        }
        let begin = Instant::now();
        let cpu_before = *self.cpu_before.get_or_insert_with(thread_cpu);
        let is_given_up = self.give_up.load(Ordering::Relaxed);
        let handled = if is_given_up { None } else { self.load.handle(&batch, begin, &self.give_up) };
        let Some(handled) = handled else { return ThreadCounts::add(&counts.unhandled, packets) };
        match &mut self.sender {
            Some(sender) => sender.send(batch),
            None => drop(batch),
        }
        let busy = self.busy.note(begin, Instant::now());
        let cpu = thread_cpu().saturating_sub(cpu_before);
        ThreadCounts::add(&counts.packets, packets);
        ThreadCounts::add(&counts.bytes, bytes);
        ThreadCounts::add(&counts.matched, handled.matched);
        counts.busy_ns.store(busy.as_nanos() as u64, Ordering::Relaxed);
        counts.cpu_ns.store(cpu.as_nanos() as u64, Ordering::Relaxed);
        counts.late_ns.fetch_max(handled.late.as_nanos() as u64, Ordering::Relaxed);
        self.reclaim.restart();
    }

    fn timeout(&self) -> Duration {
        let is_sending = self.sender.as_ref().is_some_and(Sender::is_sending);
        if self.had_packets { Duration::ZERO } else { self.reclaim.timeout(is_sending) }
    }

    fn idle(&mut self) {
        self.had_packets = false;
        self.load.idle();
        self.busy.pause();
        let moved = self.sender.as_mut().is_some_and(|sender| sender.output().flush());
        self.reclaim.looked(moved);
    }

    fn end(&mut self) {
        if let Some(sender) = &mut self.sender {
            sender.output().finish();
        }
    }
}
