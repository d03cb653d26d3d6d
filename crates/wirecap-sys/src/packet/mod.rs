//! AF_PACKET sockets with a ring of blocks (TPACKET_V3): passive capture, which keeps its traffic.
//!
//! ```text
//!   ring: R blocks, in a fixed order, shared with the kernel
//!   ┌─────────┬─────────┬─────────┬─────────┐
//!   │ block 0 │ block 1 │ block 2 │ block 3 │   the kernel fills one after the other, and
//!   └─────────┴─────────┴─────────┴─────────┘   drops while the next one is not given back
//!        │
//!        └─ header │ packet: header, bytes │ packet: header, bytes │ …      densely, any number
//! ```
//!
//! A block is a chunk: one word in its header names its owner, which kernel and user space change with
//! release and acquire. See `Documentation/networking/packet_mmap.rst` of the kernel.
//!
//! | to read about | open |
//! |---|---|
//! | opening, fanout, filter, counters | [`PacketSocket`] |
//! | the ring, and the packets of a block | [`BlockRing`] |

mod error;
mod ring;
mod socket;
mod statistics;

pub use error::PacketError;
pub use ring::{BlockPacket, BlockPackets, BlockReader, BlockRing, CandidatePacket};
pub use socket::{Closer, ENOUGH_BLOCKS, Fanout, PacketConfig, PacketSocket};
pub use statistics::PacketStatistics;
