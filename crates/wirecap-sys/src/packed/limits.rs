//! How small blocks may be, and how few; and what packets take of one.

use super::record::{ALIGNMENT, HASH_OPTION_BYTES, HEADER_BYTES, TRAILER_BYTES};

/// The smallest block: it holds the longest packet, and another one.
pub const MIN_BLOCK_BYTES: u32 = 128 << 10;
/// Fewest blocks of a stream: a block ends when the next one begins.
pub const MIN_BLOCKS: u32 = 2;
/// What the smallest frame of Ethernet takes of a block, in bytes: 60 of it, and what stands around them.
pub const SMALL_RECORD_BYTES: u64 = (HEADER_BYTES + 60 + HASH_OPTION_BYTES + TRAILER_BYTES) as u64;

/// The most that stands around the data: header, options, padding, trailer.
const AROUND_BYTES: u32 = 64;
const _: () = assert!(HEADER_BYTES + HASH_OPTION_BYTES + ALIGNMENT + TRAILER_BYTES <= AROUND_BYTES);
/// The room that a packet of each size takes, at most. The last one is that of the longest packet of any
/// interface: an MTU of 65,535 bytes, an Ethernet header and two VLAN tags.
pub(super) const ROOMS: [u32; 3] = [2048, 16 << 10, 66_048];
const _: () = assert!(MAX_PACKET_BYTES >= 65_535 + 14 + 2 * 4);
/// The second part of the longest packet is copied at once.
const _: () = assert!(data_bytes(ROOMS[2]) - data_bytes(ROOMS[1]) <= 65_535);
/// Longer packets are cut to this length, in bytes.
pub const MAX_PACKET_BYTES: u32 = ROOMS[2] - AROUND_BYTES;
/// The least room that any packet takes.
pub(super) const MIN_ROOM_BYTES: u32 = ROOMS[0];
const _: () = assert!(ROOMS[2] < MIN_BLOCK_BYTES);

/// Longest data of a packet that takes this room.
pub(super) const fn data_bytes(room: u32) -> i32 {
    (room - AROUND_BYTES) as i32
}
