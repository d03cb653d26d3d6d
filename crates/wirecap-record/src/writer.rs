//! The thread that writes: takes blocks from the workers, puts their packets in order, and writes them.
//!
//! Rules: it collects blocks while there are more; otherwise it writes at once what is certainly next, so
//! that the file is current. It takes blocks until the last worker is gone, even after an error, so that no
//! worker waits in vain.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError, SyncSender},
    },
    time::{Duration, Instant, SystemTime},
};

use super::{
    appender::{Appender, GROUP_BLOCKS, GROUP_BYTES, LOOK_PERIOD},
    backlog::Backlog,
    block::Block,
    buffers::Buffers,
    description::{self, Trailer},
    lookout::Lookout,
    merge::Merger,
    outcome::Outcome,
    pace::{ASK_PERIOD, Pace},
    progress::Progress,
    records::Records,
};

/// The most memory, in bytes, of packets that are held back until no earlier one can arrive.
const MAX_HELD_BYTES: usize = 64 << 20;

/// How often to look whether the reader of a copy has made room, while no packets come.
const COPY_TICK: Duration = Duration::from_millis(2);

/// How often to look whether the period of a file has ended, or the next one was requested, while no packets
/// come.
const SERIES_TICK: Duration = Duration::from_millis(250);

/// The work of the thread that writes. [`Recorder::start`](crate::Recorder::start) creates it, and a thread
/// of the caller runs it.
#[derive(Debug)]
pub struct Writer {
    pub(crate) messages: Receiver<Block>,
    pub(crate) trailer: Receiver<Trailer>,
    pub(crate) outcome: SyncSender<Outcome>,
    pub(crate) recording: Recording,
}

/// Packets on the way from the workers to the output.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) started: SystemTime,
    /// Whether packets have the time at which they come, and not that of a trace.
    pub(crate) is_live: bool,
    pub(crate) lookout: Lookout,
    pub(crate) merger: Merger,
    pub(crate) pace: Pace,
    /// In order, not yet written.
    pub(crate) pending: VecDeque<Records>,
    pub(crate) buffers: Buffers,
    pub(crate) appender: Appender,
    pub(crate) progress: Progress,
    pub(crate) backlog: Option<Arc<Backlog>>,
    /// No block came within the last wait for one.
    pub(crate) is_idle: bool,
}

impl Writer {
    /// Writes until the last lane is gone, then what follows the packets.
    pub fn run(self) {
        let Self { messages, trailer, outcome, mut recording } = self;
        while recording.collect(&messages) {
            recording.merge(Instant::now());
            recording.appender.take_requests(recording.is_live);
            recording.write();
            recording.appender.look_for_file();
            recording.appender.go_on_copying();
            recording.end_file();
        }
        // Fails if the recorder has stopped waiting.
        let _ = outcome.send(recording.finish(&trailer));
    }
}

impl Recording {
    /// Takes the blocks that wait. Without any, it waits for one: while packets are held back, only until the
    /// next look at the queues. Returns whether a lane is still open.
    fn collect(&mut self, messages: &Receiver<Block>) -> bool {
        let first = match self.merger.held_bytes() {
            _ if self.appender.copy_waits() => messages.recv_timeout(COPY_TICK),
            0 if self.is_live && self.appender.has_series() => messages.recv_timeout(SERIES_TICK),
            0 if self.is_live && self.appender.looks_for_file() => messages.recv_timeout(LOOK_PERIOD),
            0 => messages.recv().map_err(RecvTimeoutError::from),
            _ => messages.recv_timeout(ASK_PERIOD),
        };
        let mut next = match first {
            Ok(next) => Some(next),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return false,
        };
        self.is_idle = next.is_none();
        let (mut taken, mut bytes) = (0, 0);
        while let Some(block) = next {
            taken += 1;
            bytes += self.take(block);
            let more = taken < GROUP_BLOCKS && bytes < GROUP_BYTES;
            next = if more { messages.try_recv().ok() } else { None };
        }
        true
    }

    /// Takes a block of a worker. Returns how many bytes of packets it has.
    fn take(&mut self, block: Block) -> usize {
        let bytes = block.records.len();
        if let Some(backlog) = &self.backlog {
            backlog.remove(block.records.memory_bytes());
        }
        self.merger.accept(block);
        bytes
    }

    /// Finds the next packets. Packets that are held back for too long, or too many, are passed on, certain
    /// or not, unless those they wait for are certain to arrive.
    fn merge(&mut self, now: Instant) {
        if self.is_live {
            let now_ns = description::nanoseconds(SystemTime::now());
            self.merger.follow_clock(now_ns, &mut self.pending, &mut self.buffers);
        }
        self.merger.merge(&mut self.pending, &mut self.buffers);
        if self.merger.held_bytes() > 0 && self.pace.may_ask(now) {
            self.merger.ask(|queue| self.lookout.horizon(queue));
            self.merger.merge(&mut self.pending, &mut self.buffers);
        }
        self.lookout.hold_back(&self.merger);
        // For trace files alone, waiting loses nothing, and each reaches its end.
        if self.lookout.all_can_wait() {
            return;
        }
        let held_up = self.merger.held_bytes() > 0 && self.pending.is_empty();
        let too_long = self.pace.is_too_long(held_up, now);
        let max_bytes = if too_long { 0 } else { MAX_HELD_BYTES };
        if self.merger.held_bytes() > max_bytes {
            let counters = &self.progress.counters;
            let forced = if too_long { &counters.forced_time } else { &counters.forced_memory };
            forced.fetch_add(1, Ordering::Relaxed);
            self.merger.force(max_bytes, &mut self.pending, &mut self.buffers);
        }
    }

    fn write(&mut self) {
        self.appender.write_all(&mut self.pending, &mut self.buffers);
    }

    /// Goes on to the next file of a series if its time has come, or if it was requested and no packet before
    /// that can come any more. The clock knows that only of packets that come now, not of those in traces.
    fn end_file(&mut self) {
        if !self.is_live || self.merger.held_bytes() > 0 || !self.appender.has_series() {
            return;
        }
        let is_certain = self
            .appender
            .cut_ns()
            .is_some_and(|cut_ns| self.merger.is_certain(cut_ns, |queue| self.lookout.horizon(queue)));
        self.appender.end_file(description::nanoseconds(SystemTime::now()), is_certain, self.is_idle);
    }

    /// Writes what is held back, then the account. Without an account, for instance if the capture panicked,
    /// keeps what was captured.
    fn finish(mut self, trailer: &Receiver<Trailer>) -> Outcome {
        self.merger.force(0, &mut self.pending, &mut self.buffers);
        self.write();
        if let Ok(trailer) = trailer.recv() {
            self.appender.close(&trailer, self.started);
        }
        self.appender.finish()
    }
}

#[cfg(test)]
mod tests;
