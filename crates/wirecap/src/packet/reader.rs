//! Which form the packets of a queue have in memory.

use wirecap_sys::{memory::CellReader, packet::BlockReader};

/// Reads what was captured from one queue.
#[derive(Debug)]
pub(crate) enum Reader {
    /// Packets are in cells.
    Cells(CellReader),
    /// Packets are in cells, each with a note in front of it.
    Noted(CellReader),
    /// Packets are in cells, each with the NIC's hash so many bytes in front of it.
    Hashed(CellReader, u32),
    /// A chunk is a block that the kernel has packed with packets.
    Blocks(BlockReader),
}

impl Reader {
    /// The reader of cells, if it is one.
    #[inline]
    pub(crate) fn cells(&self) -> Option<&CellReader> {
        match self {
            Reader::Cells(reader) | Reader::Noted(reader) | Reader::Hashed(reader, _) => Some(reader),
            Reader::Blocks(_) => None,
        }
    }
}
