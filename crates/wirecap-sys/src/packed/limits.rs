//! How small blocks may be, and how few; and what a short packet takes of one.

use super::record::{HASH_OPTION_BYTES, HEADER_BYTES, TRAILER_BYTES};

/// The smallest block: it holds the longest packet, and another one.
pub const MIN_BLOCK_BYTES: u32 = 128 << 10;
/// Fewest blocks of a stream: a block ends when the next one begins.
pub const MIN_BLOCKS: u32 = 2;
/// What the smallest frame of Ethernet takes of a block, in bytes: 60 of it, and what stands around them.
pub const SMALL_RECORD_BYTES: u64 = (HEADER_BYTES + 60 + HASH_OPTION_BYTES + TRAILER_BYTES) as u64;
