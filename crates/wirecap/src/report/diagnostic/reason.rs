//! Reasons that several diagnostics, or one and an error, have.

use serde::Serialize;
use wirecap_sys::{bpf, packet::Fanout};

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
    /// The driver runs the program on the members of the interface, and their packets reach no queue of the
    /// interface itself.
    OnMembers {
        /// The driver.
        driver: String,
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
pub enum LengthLimitReason {
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
    /// They are larger than a block, on a passive port.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TapRefusal {
    /// The kernel has no TCX.
    NoTcx,
    /// The process lacks a capability.
    NotPermitted,
    /// Several workers were to get packets by flow or by receive queue: a tap has a stream for each core.
    SeveralWorkers {
        /// How they were to be spread.
        fanout: Fanout,
    },
    /// Chunks are smaller than the longest packet.
    SmallChunks {
        /// The smallest chunk, in bytes.
        least_bytes: u32,
    },
    /// The pool of a core would have too few chunks: one is filled while others are read.
    FewChunks,
    /// Transmit offloads of the interface are off: a tap would capture packets that the host sends before the
    /// kernel cuts them up and fills in their checksums. A tap that was asked for does.
    OffloadsOff,
}

/// Why the packets of an interface cannot be packed by its XDP program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PackingRefusal {
    /// Packets are sent on from where they lie.
    Sending,
    /// Packets are kept, each by itself: [`Config::keep_packets`](crate::Config::keep_packets).
    Keeping,
    /// A size of AF_XDP's rings is asked for: [`Config::ring_entries`](crate::Config::ring_entries).
    Rings,
    /// The process lacks CAP_PERFMON, without which the kernel does not take the program.
    NotPermitted,
    /// The driver may run the program for several packets of one queue at a time.
    SeveralWriters {
        /// The driver.
        driver: String,
    },
    /// A block would not hold the longest packet and another one.
    SmallBlocks {
        /// Bytes of a chunk.
        block_bytes: u32,
    },
    /// One block is filled while others are read.
    FewBlocks {
        /// Chunks of a pool.
        blocks: u32,
    },
    /// The driver offers zero-copy, for which memory was allocated before it failed.
    ZeroCopyOffered,
    /// Whether the driver offers zero-copy is not known before it is tried, which takes other memory.
    ZeroCopyNotKnown,
    /// The driver does not run XDP programs itself in the present state of the interface.
    NotNative,
    /// The kernel does not take the program.
    NotLoaded(Cause),
}

/// Why a NIC's own data about packets, their times or hashes, are not available to a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NicDataRefusal {
    /// The interface is captured passively.
    Passive,
    /// Some queues of the interface are captured: the kernel takes no program that is bound to a device into
    /// a table of programs.
    SomeQueues,
    /// The port is no interface.
    NoInterface,
    /// The kernel cannot ask drivers.
    NoCall,
    /// The kernel does not say what the driver hands out.
    NotKnown,
    /// The driver hands out no hashes.
    NoHash,
    /// The NIC stamps packets, but its driver does not hand the times out.
    NoTime,
    /// Times come from the driver, not from the NIC.
    SoftwareOnly,
    /// The driver stamps nothing.
    NotStamped,
    /// The NIC stamps packets of the precision time protocol only.
    PtpOnly,
    /// The driver does not say by which clock the NIC stamps.
    ClockNotKnown,
}
