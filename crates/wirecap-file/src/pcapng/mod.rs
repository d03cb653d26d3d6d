//! pcapng, encoded: little-endian, timestamps in nanoseconds.
//!
//! ```text
//! file     section header · interface · interface … · packet · packet … · statistics · statistics …
//! block    ┌ type ┬ total length ┬ body ┬ options ┬ total length ┐          all of it in multiples of 4 bytes
//! option   ┌ code (2) ┬ length (2) ┬ value ┬ padding to 4 ┐ …  code 0 ends the list
//! packet   ┌ 6 ┬ len ┬ interface ┬ time high ┬ time low ┬ captured ┬ original ┬ bytes ┬ pad ┬ options ┬ len ┐
//! ```
//!
//! Blocks stand on their own: blocks encoded by several workers may be written to one file in any order,
//! provided the section header comes first and an interface comes before the packets that name it.

mod describe;
mod options;
mod packet;
mod padding;
mod statistics;

pub use describe::{InterfaceInfo, SectionInfo, interface, section_header};
pub use packet::packet;
pub use padding::{MIN_PADDING, padding};
pub use statistics::{Counters, InterfaceStatistics, interface_statistics};

/// Block types, the first word of a block.
pub(crate) mod block {
    /// Reads the same in both byte orders, so that a section's byte order can be found out.
    pub const SECTION_HEADER: u32 = 0x0a0d_0d0a;
    pub const INTERFACE: u32 = 1;
    /// Obsolete, but found in files written before 2009.
    pub const PACKET: u32 = 2;
    pub const SIMPLE_PACKET: u32 = 3;
    pub const INTERFACE_STATISTICS: u32 = 5;
    pub const ENHANCED_PACKET: u32 = 6;
    /// One of the types for local use, whose first bit is set: readers pass over it.
    pub const PADDING: u32 = 0x8000_0000;
}

/// Option codes. Code 0 and 1 mean the same in all blocks, the others depend on the block.
pub(crate) mod code {
    pub const END: u16 = 0;
    pub const COMMENT: u16 = 1;

    pub const SHB_HARDWARE: u16 = 2;
    pub const SHB_OS: u16 = 3;
    pub const SHB_APPLICATION: u16 = 4;

    pub const IF_NAME: u16 = 2;
    pub const IF_DESCRIPTION: u16 = 3;
    pub const IF_MAC: u16 = 6;
    pub const IF_SPEED: u16 = 8;
    pub const IF_TSRESOL: u16 = 9;
    pub const IF_FILTER: u16 = 11;
    pub const IF_OS: u16 = 12;
    pub const IF_TSOFFSET: u16 = 14;
    pub const IF_HARDWARE: u16 = 15;

    pub const EPB_FLAGS: u16 = 2;
    pub const EPB_PACKET_ID: u16 = 5;
    pub const EPB_QUEUE: u16 = 6;

    pub const ISB_START_TIME: u16 = 2;
    pub const ISB_END_TIME: u16 = 3;
    pub const ISB_RECEIVED: u16 = 4;
    pub const ISB_DROPPED_BY_INTERFACE: u16 = 5;
    pub const ISB_FILTER_ACCEPTED: u16 = 6;
    pub const ISB_DROPPED_BY_OS: u16 = 7;
    pub const ISB_DELIVERED_TO_USER: u16 = 8;
}

pub(crate) const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// Type, two total lengths: what every block has.
pub(crate) const BLOCK_FRAME_LEN: usize = 12;

/// Splits a time into the two words the format stores it in: the high word first, whatever the byte order.
#[inline]
fn time_words(time: u64) -> [u8; 8] {
    let mut words = [0; 8];
    words[0..4].copy_from_slice(&((time >> 32) as u32).to_le_bytes());
    words[4..8].copy_from_slice(&(time as u32).to_le_bytes());
    words
}

/// Appends a block whose body `write_body` appends, and puts in the two lengths.
fn append_block(out: &mut Vec<u8>, block_type: u32, write_body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&block_type.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    write_body(out);
    debug_assert_eq!((out.len() - start) % 4, 0, "a body is padded to words");
    let total = (out.len() - start + 4) as u32;
    out[start + 4..start + 8].copy_from_slice(&total.to_le_bytes());
    out.extend_from_slice(&total.to_le_bytes());
}
