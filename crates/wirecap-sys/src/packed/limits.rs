//! How small blocks may be, and how few.

/// The smallest block: it holds the longest packet, and another one.
pub const MIN_BLOCK_BYTES: u32 = 128 << 10;
/// Fewest blocks of a stream: a block ends when the next one begins.
pub const MIN_BLOCKS: u32 = 2;
