//! What a worker sends to the writer.

use std::ops::Range;

use super::records::Records;

/// The packets of one batch, encoded; or packets that will not come, without records: those behind them do
/// not wait for them.
#[derive(Debug)]
pub(crate) struct Block {
    /// Which receive queue they came from, as [`Queues`](super::queues::Queues) numbers it.
    pub(crate) queue: usize,
    /// Their numbers within the queue.
    pub(crate) numbers: Range<u64>,
    pub(crate) records: Records,
}

impl Block {
    /// Packets that will not come.
    pub(crate) fn gap(queue: usize, numbers: Range<u64>) -> Self {
        Self { queue, numbers, records: Records::new(None) }
    }
}
