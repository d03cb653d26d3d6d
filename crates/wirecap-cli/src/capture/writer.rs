//! The writer thread: takes blocks from the workers, puts their packets in order, and writes them.
//!
//! Rules: while there is more to take, it collects; when nothing comes, it writes at once what is certain to come
//! next, so that the file is current. Only whole records are handed to the kernel. And it takes blocks until the
//! last worker is gone, also after an error, so that no worker ever waits in vain.

use std::{
    collections::VecDeque,
    io::IoSlice,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    time::{Instant, SystemTime},
};

use wirecap::Report;

use super::{
    backlog::Backlog,
    block::Records,
    buffers::Buffers,
    describe,
    lookout::Lookout,
    merge::Merger,
    open,
    order::Order,
    output::{AppendError, Output, Whereabouts},
    pace::{ASK_PERIOD, Pace},
    records,
    sink::WriteFailure,
    watch::Notice,
    worker::ToWriter,
    written::{Forced, Gauge, Written},
};

/// Most bytes and blocks that are collected for one write.
const GROUP_BYTES: usize = 1 << 20;
const GROUP_BLOCKS: usize = 64;
/// Most bytes that are held back until it is certain that nothing earlier comes.
const MOST_HELD_BYTES: usize = 64 << 20;

/// Writes blocks to the output.
#[derive(Debug)]
pub(crate) struct Writer {
    output: Output,
    /// Packets that may still be written.
    left: u64,
    merger: Merger,
    lookout: Lookout,
    pace: Pace,
    /// In order, not yet written.
    pending: VecDeque<Records>,
    buffers: Buffers,
    notices: Sender<Notice>,
    /// Of a job that does not wait for the output.
    backlog: Option<Arc<Backlog>>,
    packets: u64,
    order: Order,
    forced: Forced,
    /// What others read while it writes.
    gauge: Arc<Gauge>,
    /// Why nothing more is written.
    failure: Option<WriteFailure>,
}

/// What stands behind the packets, once no more come.
#[derive(Debug)]
pub(crate) struct Closing {
    /// The account, closed.
    pub(crate) report: Report,
    pub(crate) started: SystemTime,
}

/// What came of writing.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) written: Written,
    /// Why not everything is in it.
    pub(crate) failure: Option<WriteFailure>,
    /// Where it was when it was finished.
    pub(crate) whereabouts: Whereabouts,
}

impl Finished {
    /// That of a writer that is not waited for, as its output takes nothing.
    pub(crate) fn abandoned(gauge: &Gauge) -> Self {
        Self { written: gauge.read(), failure: None, whereabouts: Whereabouts::InPlace }
    }
}

impl Writer {
    /// A writer that stops after `limit` packets. A job that does not wait for the output has a `backlog`.
    pub(crate) fn new(
        (output, backlog): (Output, Option<Arc<Backlog>>),
        limit: Option<u64>,
        lookout: Lookout,
        buffers: Buffers,
        notices: Sender<Notice>,
    ) -> Self {
        Self {
            left: limit.unwrap_or(u64::MAX),
            merger: Merger::new(output.format(), lookout.queues()),
            lookout,
            pace: Pace::new(),
            pending: VecDeque::new(),
            buffers,
            notices,
            packets: 0,
            order: Order::default(),
            forced: Forced::default(),
            gauge: Arc::new(Gauge::new(&output, backlog.clone())),
            backlog,
            failure: None,
            output,
        }
    }

    /// What it has written so far, for others to read.
    pub(crate) fn gauge(&self) -> Arc<Gauge> {
        Arc::clone(&self.gauge)
    }

    /// Writes until the last worker is gone, then what stands behind the packets.
    pub(crate) fn run(mut self, blocks: &Receiver<ToWriter>, closing: &Receiver<Closing>) -> Finished {
        while self.collect(blocks) {
            self.merge(Instant::now());
            self.write_pending();
        }
        self.merger.force(0, &mut self.pending, &mut self.buffers);
        self.write_pending();
        // None comes if the capture panics; what was captured is kept.
        if let Ok(Closing { report, started }) = closing.recv() {
            let unwritten = report.total().delivered.saturating_sub(self.packets);
            let trailer = describe::trailer(&report, self.output.format(), started, unwritten);
            self.close(&trailer);
        }
        self.show();
        Finished { written: self.gauge.read(), failure: self.failure, whereabouts: self.output.whereabouts() }
    }

    /// Writes what stands behind the packets. After a failure it is tried all the same: there may be room
    /// where the last record was cut off.
    fn close(&mut self, trailer: &[u8]) {
        if let Err(AppendError { cause, .. }) = self.output.append_last(trailer, self.failure.is_some()) {
            let cut = self.output.cut().err().map(WriteFailure::from);
            self.failure = self.failure.take().or(cut).or(Some(cause));
        }
    }

    /// Shows others what was written.
    fn show(&self) {
        self.gauge.show(self.packets, self.output.len(), self.order.late(), self.forced);
    }

    /// Takes what waits. If nothing does, waits for it, while packets are held back for no longer than until they are to
    /// be looked after. Returns whether there is still a worker.
    fn collect(&mut self, blocks: &Receiver<ToWriter>) -> bool {
        let first = match self.merger.held_bytes() {
            0 => blocks.recv().map_err(RecvTimeoutError::from),
            _ => blocks.recv_timeout(ASK_PERIOD),
        };
        let mut next = match first {
            Ok(next) => Some(next),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return false,
        };
        let (mut taken, mut bytes) = (0, 0);
        while let Some(message) = next {
            taken += 1;
            bytes += self.take(message);
            let more = taken < GROUP_BLOCKS && bytes < GROUP_BYTES;
            next = if more { blocks.try_recv().ok() } else { None };
        }
        true
    }

    /// Takes a message of a worker's. Returns how many bytes of packets it had.
    fn take(&mut self, message: ToWriter) -> usize {
        match message {
            ToWriter::Block(block) => {
                let bytes = block.records.bytes.len();
                if let Some(backlog) = &self.backlog {
                    backlog.remove(block.records.bytes.capacity());
                }
                self.merger.accept(block);
                bytes
            }
            ToWriter::Skipped { queue, numbers } => {
                self.merger.skip(queue, numbers);
                0
            }
        }
    }

    /// Finds what comes next. Packets that are held back for long, or are many, are given on, certain or not, unless what
    /// they wait for is certain to come.
    fn merge(&mut self, now: Instant) {
        self.merger.merge(&mut self.pending, &mut self.buffers);
        if self.merger.held_bytes() > 0 && self.pace.may_ask(now) {
            self.merger.ask(|queue| self.lookout.horizon(queue));
            self.merger.merge(&mut self.pending, &mut self.buffers);
        }
        self.lookout.hold_back(&self.merger);
        // Of trace files alone nothing is lost by waiting, and each comes to its end.
        if self.lookout.all_can_wait() {
            return;
        }
        let held_up = self.merger.held_bytes() > 0 && self.pending.is_empty();
        let too_long = self.pace.is_too_long(held_up, now);
        let most_bytes = if too_long { 0 } else { MOST_HELD_BYTES };
        if self.merger.held_bytes() > most_bytes {
            let forced = if too_long { &mut self.forced.time } else { &mut self.forced.memory };
            *forced += 1;
            self.merger.force(most_bytes, &mut self.pending, &mut self.buffers);
        }
    }

    fn write_pending(&mut self) {
        while !self.pending.is_empty() {
            let (mut blocks, mut bytes) = (0, 0);
            while blocks < self.pending.len().min(GROUP_BLOCKS) && bytes < GROUP_BYTES {
                bytes += self.pending[blocks].bytes.len();
                blocks += 1;
            }
            if self.failure.is_none() && self.left > 0 {
                self.limit(blocks);
                self.write(blocks);
            }
            for written in self.pending.drain(..blocks) {
                self.buffers.give_back(written);
            }
        }
    }

    /// Cuts the first `blocks` pending blocks to the packets that may still be written.
    fn limit(&mut self, blocks: usize) {
        let format = self.output.format();
        let mut left = self.left;
        for block in self.pending.range_mut(..blocks) {
            if block.packets > left {
                let kept = records::prefix(format, &block.bytes, left, usize::MAX);
                block.bytes.truncate(kept.bytes);
                block.packets = kept.packets;
            }
            left -= block.packets;
        }
    }

    fn write(&mut self, blocks: usize) {
        let mut slices: Vec<_> =
            self.pending.range(..blocks).map(|block| IoSlice::new(&block.bytes)).collect();
        let appended = self.output.append(&mut slices);
        let written = match &appended {
            Ok(()) => usize::MAX,
            Err(error) => error.written,
        };
        let (packets, bytes) = self.whole(blocks, written);
        self.output.keep(bytes);
        self.packets += packets;
        self.left -= packets;
        self.show();
        if let Err(AppendError { cause, .. }) = appended {
            // The kernel's first word is what helps the user, not that cutting failed as well.
            let _ = self.output.cut();
            if let WriteFailure::Kernel(cause) = &cause {
                let why = format!("cannot write {}: {}", self.output.in_words(), open::in_words(cause));
                self.notify(Notice::WriteFailed(why));
            }
            self.failure = Some(cause);
        } else if self.left == 0 {
            self.notify(Notice::CountReached);
        }
    }

    /// Packets and bytes of the whole records in the first `written` bytes of the pending blocks, whose order is looked at.
    fn whole(&mut self, blocks: usize, written: usize) -> (u64, usize) {
        let format = self.output.format();
        let (mut packets, mut bytes) = (0, 0);
        for block in self.pending.range(..blocks) {
            let room = written - bytes;
            if block.bytes.len() <= room {
                packets += block.packets;
                bytes += block.bytes.len();
                self.order.written(format, &block.bytes, block.span);
            } else {
                let kept = records::prefix(format, &block.bytes, u64::MAX, room);
                self.order.written(format, &block.bytes[..kept.bytes], block.span);
                return (packets + kept.packets, bytes + kept.bytes);
            }
        }
        (packets, bytes)
    }

    fn notify(&self, notice: Notice) {
        // Nobody listens once the capture is ending.
        let _ = self.notices.send(notice);
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
