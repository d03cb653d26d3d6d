//! A block without a meaning, which puts the next block at a certain place in the file.

use super::{BLOCK_FRAME_LEN, append_block, block};

/// The shortest padding, in bytes.
pub const MIN_PADDING: usize = BLOCK_FRAME_LEN;

/// A block of `len` bytes that readers pass over: its type is one of those for local use
/// (draft-ietf-opsawg-pcapng, "Block Type": the most significant bit is set), and its body is zeros.
///
/// # Panics
/// If `len` is less than [`MIN_PADDING`] or no multiple of 4.
///
/// # Example
///
/// ```
/// use wirecap_file::pcapng;
///
/// let mut file = vec![0; 100];
/// file.extend(pcapng::padding(4096 - 100));
/// assert_eq!(file.len(), 4096);
/// ```
pub fn padding(len: usize) -> Vec<u8> {
    assert!(len >= MIN_PADDING && len % 4 == 0, "a block of {len} bytes");
    let mut padding = Vec::with_capacity(len);
    append_block(&mut padding, block::PADDING, |padding| padding.resize(len - 4, 0));
    padding
}
