//! What can go wrong with an AF_PACKET socket, and what to do about it.

use std::io;

use thiserror::Error;

/// Why an AF_PACKET socket could not be set up.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PacketError {
    /// The process may not open AF_PACKET sockets.
    #[error("opening an AF_PACKET socket is not permitted: it needs CAP_NET_RAW")]
    NotPermitted,
    /// The kernel has no memory for the ring.
    #[error("the kernel has no memory for a ring of {blocks} x {block_bytes} bytes")]
    RingMemory {
        /// Blocks asked for.
        blocks: u32,
        /// Bytes of each.
        block_bytes: u32,
    },
    /// A block must be whole pages of memory.
    #[error("a block of {block_bytes} bytes (M cells) is too small, it takes {min}")]
    SmallBlock {
        /// Bytes asked for.
        block_bytes: u32,
        /// The smallest block.
        min: u32,
    },
    /// The interface is gone.
    #[error("there is no interface with index {ifindex} any more")]
    NoSuchInterface {
        /// Its index.
        ifindex: u32,
    },
    /// Sockets of another program, or with another way of spreading, have this fanout group.
    #[error("joining fanout group {group} failed: {source}; another program may have a group of that number")]
    Fanout {
        /// Number of the group.
        group: u16,
        /// The kernel's error.
        source: io::Error,
    },
    /// Another step failed.
    #[error("{step} of an AF_PACKET socket failed: {source}")]
    SetUp {
        /// Which step.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}
