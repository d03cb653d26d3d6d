//! What a worker sends to the writer.

use std::ops::Range;

use super::records::Records;

/// The packets of one batch, encoded.
#[derive(Debug)]
pub(crate) struct Block {
    /// Which receive queue they came from, as [`Queues`](super::queues::Queues) numbers it.
    pub(crate) queue: usize,
    /// Number of the first packet within its queue.
    pub(crate) first_number: u64,
    pub(crate) records: Records,
}

impl Block {
    /// The numbers of its packets within their queue.
    pub(crate) fn numbers(&self) -> Range<u64> {
        self.first_number..self.first_number + self.records.packets()
    }
}

/// Packets of a queue that will not come: those behind them do not wait for them.
#[derive(Debug)]
pub(crate) struct Gap {
    pub(crate) queue: usize,
    pub(crate) numbers: Range<u64>,
}

/// From a worker to the writer.
#[derive(Debug)]
pub(crate) enum Message {
    Block(Block),
    Gap(Gap),
}
