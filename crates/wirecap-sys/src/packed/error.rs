//! What can go wrong with packed packets, and what to do about it.

use std::io;

use thiserror::Error;

use super::limits::{MIN_BLOCK_BYTES, MIN_BLOCKS};
use crate::bpf;

/// Why there are no blocks.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PackedError {
    /// A block must hold the longest packet.
    #[error(
        "a chunk of {block_bytes} bytes (M cells) is too small for packed packets: it takes {MIN_BLOCK_BYTES}"
    )]
    SmallBlock {
        /// Bytes of a chunk.
        block_bytes: u32,
    },
    /// One block is filled while others are read.
    #[error("a pool of {blocks} chunk (R) is too small for packed packets: it takes {MIN_BLOCKS}")]
    FewBlocks {
        /// Chunks of the pool.
        blocks: u32,
    },
    /// The program reaches all streams within one value, and counts blocks in 32 bits.
    #[error("{streams} streams with {blocks} blocks (R) each are too many for packed packets")]
    ManyStreams {
        /// Entries of streams.
        streams: u32,
        /// Blocks of each.
        blocks: u32,
    },
    /// The kernel does not make an array.
    #[error(transparent)]
    Map(#[from] bpf::Error),
    /// The kernel does not map an array.
    #[error("mapping {} MiB of blocks failed: {source}", bytes >> 20)]
    Mapping {
        /// Size of the array.
        bytes: u64,
        /// The kernel's error.
        source: io::Error,
    },
}
