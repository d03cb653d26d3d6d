//! The messages of a worker to the writer.

use std::ops::Range;

use super::records::Records;

/// The encoded packets of one batch; or, without records, packets that will not come, so that later ones do
/// not wait for them.
#[derive(Debug)]
pub(crate) struct Block {
    /// The receive queue, as [`Queues`](super::queues::Queues) numbers it.
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
