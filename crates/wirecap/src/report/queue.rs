//! What a receive queue did: its mode, its account, how full its pool is.

use serde::Serialize;
use wirecap_core::{QueueAccount, choices};
use wirecap_sys::{bpf::XdpMode, xsk::BindMode};

choices! {
    /// How packets get from the NIC into cells.
    pub enum QueueMode = Memory {
        /// The driver writes into the cells.
        ZeroCopy = "zero-copy",
        /// Native XDP; the kernel copies each packet once.
        Copy = "copy",
        /// Native XDP; the program packs each packet into a block, one behind the other.
        Packed = "packed",
        /// Generic XDP; the kernel makes a socket buffer of each packet and copies it.
        Generic = "generic",
        /// AF_PACKET: the kernel copies each packet into a block, and the host keeps it.
        Packet = "packet",
        /// Programs of traffic control copy each packet into a block, and the host keeps it.
        Tap = "tap",
        /// No NIC: a trace file is read into cells.
        Trace = "trace",
        /// No NIC: the `null` port.
        Memory = "memory",
        /// Not captured, since it was added after the start: all its packets are the host's.
        Host = "host",
    }
}

impl QueueMode {
    pub(crate) fn of(xdp: XdpMode, bind: BindMode) -> Self {
        match (xdp, bind) {
            (XdpMode::Native, BindMode::ZeroCopy) => QueueMode::ZeroCopy,
            (XdpMode::Native, BindMode::Copy) => QueueMode::Copy,
            (XdpMode::Generic, _) => QueueMode::Generic,
        }
    }
}

/// One receive queue, in packets since the start.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueReport {
    /// The queue's number on its NIC.
    pub queue: u16,
    /// How its packets are captured.
    pub mode: QueueMode,
    /// Where its packets went.
    #[serde(flatten)]
    pub account: QueueAccount,
    /// What no term explains: 0 at the end, packets on their way before.
    pub unexplained: i64,
    /// How full the pool is now, in percent: 0 when all of it can take packets, 100 when there is no cell for
    /// the next one. Packets that wait in the ring use it as well as those that workers have, and so does a
    /// chunk of which a single packet is kept. Where an XDP program packs packets, it goes by their bytes.
    pub pool_used_percent: f64,
    /// The fullest it was since the start.
    pub pool_peak_percent: f64,
    /// How often the kernel found no free cell. With zero-copy the NIC drops packets then, before they
    /// are seen: look at `dropped_before_xdp` of the port, too.
    pub fill_ring_empty: u64,
    /// Recycled cells that were refused; 0 unless there is a defect.
    pub refused: u64,
    /// Cells the driver reported that are not of this pool; 0 unless a driver is broken.
    pub foreign: u64,
}

/// The longest packet that a port can capture whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LengthLimit {
    /// The length of that packet, in bytes.
    pub bytes: u32,
    /// What happens to longer packets.
    pub beyond: LengthLimitPolicy,
}

/// What happens to packets longer than a port can capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum LengthLimitPolicy {
    /// The port drops them and counts them as [`too_long`](crate::LossCounts::too_long).
    Lost,
    /// The port cuts them, and keeps their original length.
    Cut,
}
