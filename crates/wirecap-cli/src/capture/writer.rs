//! The writer thread: takes blocks from the workers, puts them in order, and writes them.
//!
//! Rules: while there is more to take, it collects; when nothing comes, it writes at once, so that the
//! file is current. Only whole records are handed to the kernel. And it takes blocks until the last
//! worker is gone, also after an error, so that no worker ever waits in vain.

use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    sync::mpsc::{Receiver, Sender, SyncSender},
};

use serde::Serialize;
use wirecap_file::Format;

use super::{
    block::Block,
    output::{AppendError, Output, Whereabouts},
    records,
    sequencer::Sequencer,
    watch::Notice,
};

/// Most bytes and blocks that are collected for one write.
const GROUP_BYTES: usize = 1 << 20;
const GROUP_BLOCKS: usize = 64;

/// Writes blocks to the output.
#[derive(Debug)]
pub(crate) struct Writer {
    output: Output,
    /// Packets that may still be written.
    left: u64,
    sequencer: Sequencer<Block>,
    /// In order, not yet written.
    pending: VecDeque<Block>,
    pending_bytes: usize,
    /// Where emptied buffers go, by worker.
    returns: Vec<SyncSender<Vec<u8>>>,
    notices: Sender<Notice>,
    packets: u64,
    /// Why nothing more is written.
    failure: Option<io::Error>,
}

/// What came of writing.
#[derive(Debug, Serialize)]
pub(crate) struct Written {
    /// The output as the user named it.
    pub(crate) file: String,
    /// Packets in it.
    pub(crate) packets: u64,
    /// Its length, in bytes.
    pub(crate) bytes: u64,
    /// Its name in messages.
    #[serde(skip)]
    pub(crate) in_words: String,
    /// Why not everything is in it.
    #[serde(skip)]
    pub(crate) failure: Option<io::Error>,
    /// Where it was when it was finished.
    #[serde(skip)]
    pub(crate) whereabouts: Whereabouts,
}

impl Writer {
    /// A writer that stops after `limit` packets.
    pub(crate) fn new(
        output: Output,
        limit: Option<u64>,
        lanes: usize,
        returns: Vec<SyncSender<Vec<u8>>>,
        notices: Sender<Notice>,
    ) -> Self {
        Self {
            output,
            left: limit.unwrap_or(u64::MAX),
            sequencer: Sequencer::new(lanes),
            pending: VecDeque::new(),
            pending_bytes: 0,
            returns,
            notices,
            packets: 0,
            failure: None,
        }
    }

    /// Packets written so far.
    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    pub(crate) fn format(&self) -> Format {
        self.output.format()
    }

    /// Writes until the last worker is gone.
    pub(crate) fn run(mut self, blocks: &Receiver<Block>) -> Self {
        while let Ok(block) = blocks.recv() {
            self.accept(block);
            while self.pending_bytes < GROUP_BYTES && self.pending.len() < GROUP_BLOCKS {
                let Ok(block) = blocks.try_recv() else { break };
                self.accept(block);
            }
            self.write_pending();
        }
        self.sequencer.drain(&mut self.pending);
        self.write_pending();
        self
    }

    /// Writes what stands behind the packets. After a failure it is tried all the same: there may be room
    /// where the last record was cut off.
    pub(crate) fn close(mut self, trailer: &[u8]) -> Written {
        match self.output.append(&mut [IoSlice::new(trailer)]) {
            Ok(()) => self.output.keep(trailer.len()),
            Err(AppendError { cause, .. }) => {
                let cut = self.output.cut().err();
                self.failure = self.failure.or(cut).or(Some(cause));
            }
        }
        Written {
            file: self.output.name(),
            packets: self.packets,
            bytes: self.output.len(),
            in_words: self.output.in_words(),
            failure: self.failure,
            whereabouts: self.output.whereabouts(),
        }
    }

    fn accept(&mut self, block: Block) {
        let numbers = block.first_number..block.first_number + block.packets;
        let before = self.pending.len();
        self.sequencer.accept(block.lane, numbers, block, &mut self.pending);
        self.pending_bytes += self.pending.range(before..).map(|block| block.bytes.len()).sum::<usize>();
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
            self.give_back(blocks);
        }
        self.pending_bytes = 0;
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
        if let Err(AppendError { cause, .. }) = appended {
            // The kernel's first word is what helps the user, not that cutting failed as well.
            let _ = self.output.cut();
            self.failure = Some(cause);
            self.notify(Notice::WriteFailed);
        } else if self.left == 0 {
            self.notify(Notice::CountReached);
        }
    }

    /// Packets and bytes of the whole records in the first `written` bytes of the pending blocks.
    fn whole(&self, blocks: usize, written: usize) -> (u64, usize) {
        let (mut packets, mut bytes) = (0, 0);
        for block in self.pending.range(..blocks) {
            let room = written - bytes;
            if block.bytes.len() <= room {
                packets += block.packets;
                bytes += block.bytes.len();
            } else {
                let kept = records::prefix(self.output.format(), &block.bytes, u64::MAX, room);
                return (packets + kept.packets, bytes + kept.bytes);
            }
        }
        (packets, bytes)
    }

    fn give_back(&mut self, blocks: usize) {
        for block in self.pending.drain(..blocks) {
            // A worker that has enough of them, or is gone, does not take it; then it is freed.
            let _ = self.returns[block.worker].try_send(block.bytes);
        }
    }

    fn notify(&self, notice: Notice) {
        // Nobody listens once the capture is ending.
        let _ = self.notices.send(notice);
    }
}
