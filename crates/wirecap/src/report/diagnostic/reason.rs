//! Reasons that several diagnostics, or one and an error, have.

use serde::Serialize;
use thiserror::Error;
use wirecap_sys::{
    bpf,
    packed::{MIN_BLOCK_BYTES, MIN_BLOCKS},
    packet::Fanout,
};

use super::Cause;

/// Why a mode of AF_XDP is not available.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModeRefusal {
    /// The driver does not offer it.
    NotOffered,
    /// The NIC would cut packets: its driver sets the room of a cell in whole KiB.
    ShortCells {
        /// The driver.
        driver: String,
        /// Size of a cell, in bytes.
        cell_bytes: u32,
        /// Bytes of a frame that the driver puts into a cell at most.
        room: u32,
        /// The longest frame that the MTU allows, in bytes.
        longest: u32,
    },
    /// The NIC's hash of packets is asked for, which drivers hand out in native mode only.
    NoRxHash,
    /// The packets cannot be packed, or need not be.
    NotPacked(PackingRefusal),
    /// A step failed.
    Failed(Cause),
}

/// Why packets over a length are lost or cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TooLong {
    /// They are larger than a cell, and no mode of this interface splits them.
    NotSplit {
        /// Size of a cell, in bytes.
        cell_bytes: u32,
    },
    /// They are larger than a cell, and chunks are too small for packets of several cells.
    SmallChunks {
        /// M.
        cells_per_chunk: u32,
        /// The least M that would do.
        least: u32,
    },
    /// They are larger than a block, on a port beside the host.
    SmallBlocks {
        /// M.
        cells_per_chunk: u32,
    },
    /// They are segments that the host hands over or puts together whole, and longer than a tap copies.
    LongSegments {
        /// The longest that the interface allows, in bytes.
        longest: u32,
    },
    /// They are larger than two chunks, or the only one, of the pool of a trace file.
    SmallPool,
}

/// Why a filter does not run in the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum KernelRefusal {
    /// It looks further into a packet than the kernel's instructions reach.
    OffsetTooFar {
        /// The byte that it looks at.
        end: u64,
        /// How far they reach, in bytes.
        limit: u32,
    },
    /// It loops.
    Loops,
    /// The process lacks CAP_PERFMON.
    NotPermitted,
    /// The kernel's verifier refuses it.
    Rejected(Cause),
    /// Another step failed.
    Failed(Cause),
}

impl From<&wirecap_filter::Error> for KernelRefusal {
    fn from(error: &wirecap_filter::Error) -> Self {
        use wirecap_filter::Error::{Kernel, KernelPrivilege, Loops, OffsetTooFar};
        match error {
            &OffsetTooFar { end, limit, .. } => Self::OffsetTooFar { end, limit },
            Loops => Self::Loops,
            KernelPrivilege(_) => Self::NotPermitted,
            Kernel(bpf::Error::Rejected { cause, .. }) => {
                Self::Rejected(Cause { errno: cause.raw_os_error(), text: cause.to_string() })
            }
            Kernel(cause) => Self::Failed(Cause::words(cause.to_string())),
            error => Self::Failed(Cause::words(error.to_string())),
        }
    }
}

/// What became of a thing that another program took away or changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Recovery {
    /// It is as it was again, about a second later.
    Restored,
    /// It could not be brought back. A program and the entries of queues are tried again about once a second.
    Failed(Cause),
    /// It was gone when the capture ended.
    Ended,
}

/// Why an interface cannot be tapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TapRefusal {
    /// The kernel has no TCX.
    #[error("this kernel has no TCX programs (Linux 6.6)")]
    NoTcx,
    /// The process lacks a capability.
    #[error("the kernel lets only CAP_NET_ADMIN, CAP_BPF and CAP_PERFMON together load its programs")]
    NotPermitted,
    /// Several workers were to get packets by flow or by receive queue: a tap has a stream for each core.
    #[error("a tap spreads packets over workers by core, not by {fanout}")]
    SeveralWorkers {
        /// How they were to be spread.
        fanout: Fanout,
    },
    /// Chunks are smaller than the longest packet.
    #[error("a tap needs chunks (M cells) of at least {least_bytes} bytes")]
    SmallChunks {
        /// The smallest chunk, in bytes.
        least_bytes: u32,
    },
    /// The pool of a core would have too few chunks: one is filled while others are read.
    #[error("a tap needs {MIN_BLOCKS} chunks (R) for each core")]
    FewChunks,
}

/// Why the packets of an interface cannot be packed by its XDP program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PackingRefusal {
    /// Packets are sent on from where they lie.
    #[error("packets in blocks cannot be sent")]
    Sending,
    /// Packets are kept, each by itself: [`Config::keep_packets`](crate::Config::keep_packets).
    #[error("packets in blocks cannot be kept one by one")]
    Keeping,
    /// A size of AF_XDP's rings is asked for: [`Config::ring_entries`](crate::Config::ring_entries).
    #[error("blocks have no receive ring, and a size of that is set")]
    Rings,
    /// The process lacks CAP_PERFMON, without which the kernel does not take the program.
    #[error("that takes CAP_PERFMON")]
    NotPermitted,
    /// The driver may run the program for several packets of one queue at a time.
    #[error("its driver {driver} may receive several packets of a queue at a time")]
    SeveralWriters {
        /// The driver.
        driver: String,
    },
    /// A block would not hold the longest packet and another one.
    #[error("a chunk of {block_bytes} bytes (M cells) is too small for a block: it takes {MIN_BLOCK_BYTES}")]
    SmallBlocks {
        /// Bytes of a chunk.
        block_bytes: u32,
    },
    /// One block is filled while others are read.
    #[error("a pool of {blocks} chunk (R) is too small: it takes {MIN_BLOCKS}")]
    FewBlocks {
        /// Chunks of a pool.
        blocks: u32,
    },
    /// The driver offers zero-copy, for which memory was allocated before it failed.
    #[error("the memory was allocated for zero-copy, which its driver offers")]
    ZeroCopyOffered,
    /// Whether the driver offers zero-copy is not known before it is tried, which takes other memory.
    #[error("this kernel does not say whether its driver has zero-copy (Linux 6.3)")]
    ZeroCopyNotKnown,
    /// The driver does not run XDP programs itself in the present state of the interface.
    #[error("its driver does not offer native XDP at present")]
    NotNative,
    /// The kernel does not take the program.
    #[error("the kernel does not take the program, which needs Linux 5.18: {0}")]
    NotLoaded(Cause),
}

/// Why a NIC's own data about packets, their times or hashes, are not available to a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NicDataRefusal {
    /// The interface is captured beside the host.
    #[error("it is captured beside the host")]
    Passive,
    /// Some queues of the interface are captured: the kernel takes no program that is bound to a device into
    /// a table of programs.
    #[error("that is for the whole interface only, not for queues of it")]
    SomeQueues,
    /// The port is no interface.
    #[error("it is no interface")]
    NoInterface,
    /// The kernel cannot ask drivers.
    #[error("this kernel has no call for it (Linux 6.3)")]
    NoCall,
    /// The kernel does not say what the driver hands out.
    #[error("this kernel does not say whether its driver hands it to XDP programs (Linux 6.7)")]
    NotKnown,
    /// The driver hands out no hashes.
    #[error("its driver hands none to XDP programs")]
    NoHash,
    /// The NIC stamps packets, but its driver does not hand the times out.
    #[error("the NIC stamps packets, but its driver does not hand the times to XDP programs")]
    NoTime,
    /// Times come from the driver, not from the NIC.
    #[error("its driver stamps by software only")]
    SoftwareOnly,
    /// The driver stamps nothing.
    #[error("its driver stamps nothing")]
    NotStamped,
    /// The NIC stamps packets of the precision time protocol only.
    #[error("the NIC stamps packets of the precision time protocol only")]
    PtpOnly,
    /// The driver does not say by which clock the NIC stamps.
    #[error("its driver does not say by which clock the NIC stamps")]
    ClockNotKnown,
}
