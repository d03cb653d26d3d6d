//! Where a capture differs from its settings, and what happened to it, as data.
//!
//! ```text
//!   opening ──► Diagnostic ──► PortReport::fallbacks, MemoryReport::fallbacks
//!   running ──► Diagnostic ──► PortReport::warnings, PortEvent::Warning
//! ```
//!
//! Rule: nothing here is a sentence. A program matches on the variant or on its stable
//! [`code`](Diagnostic::code); the program that talks to people words it, with the hint that fits its own
//! settings.

mod cause;
mod reason;
mod rss;

use std::path::PathBuf;

use serde::Serialize;
use wirecap_sys::{bpf::XdpMode, memory::MemoryFallback};

pub use wirecap_sys::memory::Advice;

pub use self::{
    cause::Cause,
    reason::{
        KernelRefusal, LengthLimitReason, ModeRefusal, NicDataRefusal, PackingRefusal, Recovery, TapRefusal,
    },
    rss::{RssAttempt, RssFailure, RssLoss, RssRecovery, RssRefusal, RssUndo, RssUndoFailure, SymmetricHash},
};
use super::{Clock, LengthLimit, PassiveReason, QueueMode, as_text};
use crate::{QueueSet, Timestamp};

/// Declares [`Diagnostic`], each variant behind its code.
macro_rules! diagnostics {
    (
        $(#[$meta:meta])*
        pub enum Diagnostic {
            $(
                $(#[$about:meta])*
                $code:literal => $variant:ident $({ $($fields:tt)* })?,
            )+
        }
    ) => {
        $(#[$meta])*
        pub enum Diagnostic {
            $(
                $(#[$about])*
                #[serde(rename = $code)]
                $variant $({ $($fields)* })?,
            )+
        }

        impl Diagnostic {
            /// All codes, in the order of the variants.
            pub const CODES: &'static [&'static str] = &[$($code),+];

            /// The stable name of the variant, also the field `code` of its serialised form.
            pub fn code(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $code,)+
                }
            }
        }
    };
}

diagnostics! {
    /// One thing that is not as asked for, or that a user of a capture should know of.
    ///
    /// ```
    /// use wirecap::diagnostic::Diagnostic;
    ///
    /// let diagnostic = Diagnostic::FilterInboundOnly;
    /// assert_eq!(diagnostic.code(), "filter_inbound_only");
    /// assert!(Diagnostic::CODES.contains(&diagnostic.code()));
    /// ```
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[serde(tag = "code")]
    #[non_exhaustive]
    pub enum Diagnostic {
        /// The interface is captured passively, though that was not asked for: slower, and the host
        /// keeps its packets.
        "passive" => Passive {
            /// Why it is left to the host.
            reason: PassiveReason,
        },
        /// It is captured over AF_PACKET, as it cannot be tapped: slower again.
        "not_tapped" => NotTapped {
            /// Why not.
            reason: TapRefusal,
        },
        /// The rings of AF_PACKET have too few blocks: the kernel may lose packets although blocks are free.
        "few_blocks" => FewBlocks {
            /// Blocks of each ring: R.
            blocks: u32,
            /// With this number, that happens only while more than three quarters are in use.
            enough: u32,
        },
        /// A size of AF_XDP's rings is asked for, and has no effect: a passive port has none.
        "ring_without_effect" => RingWithoutEffect,
        /// An XDP program of another process gets packets first. What it takes or drops is not captured.
        "xdp_program_first" => XdpProgramFirst {
            /// Its number in the kernel.
            program_id: u32,
            /// Its name; `None` without the privilege to ask.
            program: Option<String>,
        },
        /// A mode that is better than the one in use is not available.
        "mode_unavailable" => ModeUnavailable {
            /// The mode.
            mode: QueueMode,
            /// Whether packets of several cells were asked for: without them the mode may be available.
            several_cells: bool,
            /// Why not.
            reason: ModeRefusal,
        },
        /// The processes that share the interface have chosen the other kind of XDP.
        "shared_xdp_mode" => SharedXdpMode {
            /// What was wanted.
            #[serde(serialize_with = "as_text")]
            #[cfg_attr(feature = "schema", schemars(with = "String"))]
            wanted: XdpMode,
            /// What they have.
            #[serde(serialize_with = "as_text")]
            #[cfg_attr(feature = "schema", schemars(with = "String"))]
            shared: XdpMode,
        },
        /// The process that shared the interface first takes no frames of several buffers, so this capture
        /// gets none.
        "shared_without_frames" => SharedWithoutFrames,
        /// Packets over a length are lost or cut.
        "packets_too_long" => PacketsTooLong {
            /// The length, and what happens to longer packets.
            limit: LengthLimit,
            /// Why there is a limit.
            reason: LengthLimitReason,
        },
        /// The filter runs in user space: packets cost a cell and a copy before they are judged.
        "filter_not_in_kernel" => FilterNotInKernel {
            /// Why the kernel does not run it.
            reason: KernelRefusal,
            /// Why it is interpreted there, if it is not native code.
            interpreted: Option<Cause>,
            /// Whether packets that it does not want are dropped although the host was to get them.
            drops_unwanted: bool,
        },
        /// The filter is interpreted, which is slow, as there is no native code for it.
        "filter_interpreted" => FilterInterpreted {
            /// Why not.
            cause: Cause,
        },
        /// Packets that the filter can judge only by bytes behind their first buffer are judged in user
        /// space. Those that it does not want are dropped although the host was to get them.
        "filter_drops_long_packets" => FilterDropsLongPackets,
        /// The filter asks for directions, and over AF_XDP every packet is inbound.
        "filter_inbound_only" => FilterInboundOnly,
        /// VLAN tags that are beside the packets cannot be put back into them.
        "vlan_tags_not_put_back" => VlanTagsNotPutBack {
            /// Why not.
            cause: Cause,
        },
        /// VLAN tags are missing from packets: the NIC takes them off before XDP sees the packets.
        "vlan_tags_missing" => VlanTagsMissing {
            /// The interface.
            interface: String,
        },
        /// Pools may be on another memory node than the NIC, and so slower.
        "far_memory" => FarMemory {
            /// The NIC's memory node.
            node: u32,
            /// What the kernel said.
            cause: Cause,
        },
        /// Packets have times of another source than asked for: those of a trace file, or those AF_PACKET
        /// gives each packet.
        "other_timestamps" => OtherTimestamps {
            /// What was asked for.
            wanted: Timestamp,
            /// What packets have.
            used: Timestamp,
        },
        /// The table of leap seconds has expired, so that times may be off by a second.
        "leap_seconds_expired" => LeapSecondsExpired {
            /// Its last day, as YYYY-MM-DD.
            until: String,
        },
        /// The kernel does not say what happens to the interface, so that a report lacks it.
        "link_not_watched" => LinkNotWatched {
            /// Whether receive queues that are added go unnoticed, too, beside packets that the NIC drops.
            queues: bool,
            /// What the kernel said.
            cause: Cause,
        },
        /// The kernel cannot wait for packets on their way, so that a few may be missing at the end.
        "end_not_awaited" => EndNotAwaited,
        /// The kernel kept its last block of packets, so that these are missing.
        "last_block_kept" => LastBlockKept,
        /// A transmitter of this queue does not exist, as the interface has too few transmit queues in use.
        "queue_does_not_send" => QueueDoesNotSend {
            /// The queue.
            queue: u16,
            /// How many transmit queues are in use.
            transmit_queues: u32,
        },
        /// Huge pages are reserved, and too few of them are free, so that the packet memory is on normal
        /// pages.
        "huge_pages_short" => HugePagesShort {
            /// How many are needed.
            needed: u64,
            /// How many are reserved.
            reserved: u64,
            /// How many of these are free.
            free: u64,
        },
        /// Whether the control group of this process limits memory cannot be seen, as its files are not
        /// mounted here.
        "control_group_unseen" => ControlGroupUnseen {
            /// The control group.
            group: PathBuf,
        },
        /// The kernel does not take advice about the packet memory.
        "memory_advice_refused" => MemoryAdviceRefused {
            /// The advice.
            advice: Advice,
            /// What the kernel said.
            cause: Cause,
        },
        /// Receive queues were added while the capture ran. They are not captured: their packets go to the
        /// host.
        "queues_not_captured" => QueuesNotCaptured {
            /// How many are captured, from 0 on.
            captured: u32,
            /// How many the interface has now.
            queues: u32,
        },
        /// Receive queues that are captured were taken away: no more packets come from them.
        "queues_gone" => QueuesGone {
            /// How many the interface has now.
            queues: u32,
        },
        /// The XDP program was taken off its interface by force, or replaced. Packets went to the host,
        /// uncounted.
        "detached" => Detached {
            /// What became of it.
            recovery: Recovery,
        },
        /// A program of a tap was taken off its interface by force. Packets of that time were not captured,
        /// in one direction or both.
        "tap_detached" => TapDetached {
            /// What became of it.
            recovery: Recovery,
        },
        /// Another process attached an XDP program to an interface that is captured passively. What
        /// that program takes or drops is not captured since then.
        "xdp_program_attached" => XdpProgramAttached {
            /// Its number in the kernel.
            program_id: u32,
            /// Its name; `None` without the privilege to ask.
            program: Option<String>,
        },
        /// Receive queues of a shared interface were taken out of the table by which their packets find the
        /// capture. Their packets went to the host, uncounted.
        "queues_lost" => QueuesLost {
            /// The receive queues.
            #[serde(serialize_with = "as_text")]
            #[cfg_attr(feature = "schema", schemars(with = "String"))]
            queues: QueueSet,
            /// What became of them.
            recovery: Recovery,
        },
        /// RSS was symmetric, and another program changed that: both directions of a connection may have come
        /// in by different queues.
        "rss_changed" => RssChanged {
            /// What became of it.
            recovery: RssRecovery,
        },
        /// Packets that each were to have a time of their own have that of their batch.
        "unstamped" => Unstamped {
            /// Where their times were to come from.
            source: Timestamp,
            /// How many.
            packets: u64,
        },
        /// Packets whose VLAN tag the NIC had taken off, and which could not be put back.
        "untagged" => Untagged {
            /// How many.
            packets: u64,
        },
        /// Packets that were longer than the port can capture were cut.
        "packets_cut" => PacketsCut {
            /// How many.
            packets: u64,
        },
        /// The clock that stamps packets was set while the capture ran.
        "clock_set" => ClockSet {
            /// What it is now.
            clock: Clock,
        },
        /// The NIC goes on stamping packets after the end.
        "stamping_left_on" => StampingLeftOn {
            /// What the kernel said.
            cause: Cause,
        },
        /// Packets of a trace file were lost, since they were too long for the pool.
        "trace_packets_lost" => TracePacketsLost {
            /// How many.
            packets: u64,
            /// The longest that fits, in bytes.
            longest: u64,
        },
    }
}

impl From<&MemoryFallback> for Diagnostic {
    fn from(fallback: &MemoryFallback) -> Self {
        match fallback {
            &MemoryFallback::HugePagesShort { needed, reserved, free } => {
                Self::HugePagesShort { needed, reserved, free }
            }
            MemoryFallback::ControlGroupUnseen(group) => Self::ControlGroupUnseen { group: group.clone() },
            &MemoryFallback::AdviceRefused { advice, errno } => {
                Self::MemoryAdviceRefused { advice, cause: Cause::errno(errno) }
            }
        }
    }
}

#[cfg(test)]
mod tests;
