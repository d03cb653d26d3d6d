//! How the packets of a queue lie in its chunks.

use wirecap_sys::{memory::CellReader, packed::PackedReader, packet::BlockReader};

/// Reads what was captured from one queue.
#[derive(Debug)]
pub(crate) enum ChunkReader {
    /// Packets are in cells, with something in front of each.
    Cells(CellReader, Front),
    /// A chunk is a block that the kernel has packed with packets.
    Blocks(BlockReader),
    /// A chunk is a block that an XDP program has packed with packets.
    Packed {
        reader: PackedReader,
        /// Whether the records in a block are those that a pcapng file has of its packets.
        as_in_files: bool,
    },
}

/// The data in front of each packet of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Front {
    Nothing,
    /// What its file says of it.
    Note,
    /// The NIC's hash.
    Hash {
        /// How far in front of the packet it begins, in bytes.
        at: u32,
    },
}

impl ChunkReader {
    /// Whether a program has packed the packets.
    #[inline]
    pub(crate) fn is_packed(&self) -> bool {
        matches!(self, ChunkReader::Packed { .. })
    }

    /// The reader of cells, if packets are in cells.
    #[inline]
    pub(crate) fn cells(&self) -> Option<&CellReader> {
        match self {
            ChunkReader::Cells(reader, _) => Some(reader),
            ChunkReader::Blocks(_) | ChunkReader::Packed { .. } => None,
        }
    }
}
