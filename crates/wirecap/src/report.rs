//! What a capture did: modes, the account of every queue, the load of every worker.

use std::path::PathBuf;

use serde::Serialize;
use wirecap_core::{Lost, QueueAccount};
use wirecap_sys::{bpf::XdpMode, xsk::BindMode};

pub use crate::port::filter::{FilterPlace, FilterReport};
use crate::{Diagnostic, HostUse, timestamp::TimestampReport};

/// How packets get from the NIC into cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum QueueMode {
    /// The driver writes into the cells.
    ZeroCopy,
    /// Native XDP; the kernel copies each packet once.
    Copy,
    /// Generic XDP; the kernel makes a socket buffer of each packet and copies it.
    Generic,
    /// AF_PACKET: the kernel copies each packet into a block, and the host keeps it.
    Packet,
    /// No NIC: a trace file is read into cells.
    Replay,
    /// No NIC: the `null` port.
    Memory,
    /// Not captured, since it was added after the start: all its packets are the host's.
    Host,
}

impl QueueMode {
    pub(crate) fn of(xdp: XdpMode, bind: BindMode) -> Self {
        match (xdp, bind) {
            (XdpMode::Native, BindMode::ZeroCopy) => QueueMode::ZeroCopy,
            (XdpMode::Native, BindMode::Copy) => QueueMode::Copy,
            (XdpMode::Generic, _) => QueueMode::Generic,
        }
    }

    /// The name used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            QueueMode::ZeroCopy => "zero-copy",
            QueueMode::Copy => "copy",
            QueueMode::Generic => "generic",
            QueueMode::Packet => "packet",
            QueueMode::Replay => "replay",
            QueueMode::Memory => "memory",
            QueueMode::Host => "host",
        }
    }

    /// In words, for people.
    pub fn in_words(self) -> &'static str {
        match self {
            QueueMode::ZeroCopy => "native XDP, zero-copy: the NIC writes into the cells",
            QueueMode::Copy => "native XDP, copy: the kernel copies each packet into its cell",
            QueueMode::Generic => "generic XDP, copy: works with every driver, slowly",
            QueueMode::Packet => {
                "AF_PACKET: the kernel copies each packet into a block, and the host keeps it"
            }
            QueueMode::Replay => "a trace file, read into cells",
            QueueMode::Memory => "memory only",
            QueueMode::Host => "not captured: its packets go to the host",
        }
    }
}

/// One receive queue, in packets since the start.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueReport {
    /// The queue's number on its NIC.
    pub queue: u16,
    /// How its packets are captured.
    pub mode: QueueMode,
    /// Packets that reached the port.
    pub seen: u64,
    /// Packets the filter did not want.
    pub filtered: u64,
    /// Packets left to the host.
    pub passed: u64,
    /// Packets given to workers.
    pub delivered: u64,
    /// Packets lost.
    pub lost: Lost,
    /// What no term explains: 0 at the end, packets on their way before.
    pub unexplained: i64,
    /// How full the pool is now, in percent: 0 when all of it can take packets, 100 when there is no cell for the next one. Packets that
    /// wait in the ring use it as well as those that workers have, and so does a chunk of which a single packet is kept.
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
    pub beyond: BeyondLimit,
}

/// What happens to packets longer than a port can capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum BeyondLimit {
    /// The port drops them and counts them as [`too_long`](Lost::too_long).
    Lost,
    /// The port cuts them, and keeps their original length.
    Cut,
}

/// One port.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PortReport {
    /// Name of the interface, or `replay:` and the name of the file.
    pub name: String,
    /// Its driver; `None` where the kernel names none, as for loopback, and of what is no interface.
    pub driver: Option<String>,
    /// What is not as asked for, or as good as it could be: a better mode than the one in use, for instance. Not serialised while
    /// it is empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<Diagnostic>,
    /// How the host and others use the interface: why it is captured beside the host or, if it is taken, which users go without the
    /// packets that are, those that have begun since included. Empty where `packet:` asks to capture beside the host.
    pub host_use: Vec<HostUse>,
    /// Where the times of its packets come from.
    pub timestamp: TimestampReport,
    /// Packets that had a VLAN tag which the NIC had taken off, and which could not be put back: they were captured without,
    /// or left to the host. `None` where the XDP program puts no tags back: the NIC takes none off, or its driver does not
    /// hand them to programs; then that is among `fallbacks`.
    pub untagged: Option<u64>,
    /// Packets for which the driver had no hash, or that had no room for it: their
    /// [`Packet::rx_hash`](crate::Packet::rx_hash) is `None`. Only with [`Builder::rx_hash`](crate::Builder::rx_hash).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhashed: Option<u64>,
    /// What is wanted of its packets, if not all are.
    pub filter: Option<FilterReport>,
    /// Whether packets larger than a cell arrive in several parts.
    pub multi_buffer: bool,
    /// The longest packet that fits; `None` if every packet fits that the MTU allowed when the port was opened.
    pub length_limit: Option<LengthLimit>,
    /// What was done so that both directions of a connection come in by one queue, and how it is undone, in words;
    /// `None` if that was not asked for.
    pub rss: Option<String>,
    /// What its packets begin with: a link type of the registry of pcap, 1 for Ethernet.
    pub link_type: u16,
    /// NUMA node of the NIC and of its pools, if there is one.
    pub numa_node: Option<u32>,
    /// Whether the interface is gone.
    pub removed: bool,
    /// How much of a trace file is read, in percent; `None` unless it is a file.
    pub read_percent: Option<f64>,
    /// Why a trace file was not read to its end: the damage, and where. What stood before it was captured.
    pub error: Option<String>,
    /// Packets the NIC or driver dropped before they could be seen, as the kernel's link statistics say: of the whole
    /// interface. Where several ports are of one interface, it is in the first of them, and 0 in the others.
    pub dropped_before_xdp: u64,
    /// What happened that the user should know of: receive queues that are not captured, for instance. Not serialised while it is
    /// empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Diagnostic>,
    /// Its receive queues: those that are captured, then those with packets that were added after the start
    /// ([`QueueMode::Host`]).
    pub queues: Vec<QueueReport>,
    /// Packets that were given to the interface and that it did not send, as the kernel's link statistics say (`tx_dropped`,
    /// `tx_errors`): of the whole interface, other senders included. `None` without
    /// [`Builder::transmit`](crate::Builder::transmit).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsent: Option<u64>,
    /// What was sent from it, by transmit queue; empty without [`Builder::transmit`](crate::Builder::transmit).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transmitted: Vec<TransmitReport>,
}

/// What was sent from one queue of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TransmitReport {
    /// The queue's number on its NIC.
    pub queue: u16,
    /// Packets given to the kernel to be sent: those put into the ring.
    pub packets: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Bytes of these that lay in no cell when they came and were copied into one in user space, by a [`Stock`](crate::Stock):
    /// 0 where what was captured into cells is forwarded.
    pub copied_bytes: u64,
    /// Cells that the kernel has and has not said to have sent.
    pub in_flight: u32,
    /// System calls by which the kernel was asked to send: one for each batch that is sent, more where it takes few packets at once,
    /// none where the driver looks by itself.
    pub kicks: u64,
    /// Packets that could not be sent: those that were [given up](crate::NotSent::give_up), and `driver`.
    pub dropped: TransmitDrops,
}

/// Packets that were not sent, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TransmitDrops {
    /// The ring was full.
    pub ring_full: u64,
    /// The transmitter had its [share](crate::Transmitter::share_pools) of the packet's pool.
    pub over_share: u64,
    /// Longer than the MTU of the interface.
    pub too_long: u64,
    /// The interface was down.
    pub link_down: u64,
    /// The interface was deleted.
    pub gone: u64,
    /// Not to be sent by this port at all.
    pub not_sendable: u64,
    /// Given to the kernel, and dropped by the driver, as veth does when the other end takes no more. These are among `packets`,
    /// as the only ones. Known where the kernel copies; a driver that sends from the cells counts what it does not send for the
    /// whole interface: [`PortReport::unsent`].
    pub driver: u64,
}

impl TransmitDrops {
    /// All of them, each with its name.
    pub fn causes(&self) -> [(&'static str, u64); 7] {
        let Self { ring_full, over_share, too_long, link_down, gone, not_sendable, driver } = *self;
        [
            ("ring_full", ring_full),
            ("over_share", over_share),
            ("too_long", too_long),
            ("link_down", link_down),
            ("gone", gone),
            ("not_sendable", not_sendable),
            ("driver", driver),
        ]
    }

    /// Added up.
    pub fn total(&self) -> u64 {
        self.causes().iter().map(|(_, packets)| packets).sum()
    }
}

/// One worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerReport {
    /// Packets it was given.
    pub packets: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Packets it took over from buddies.
    pub offloaded_in: u64,
    /// Packets of its own queues that buddies took over.
    pub offloaded_out: u64,
    /// Core it is bound to, if any.
    pub core: Option<usize>,
}

/// The memory of a capture, in bytes.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryReport {
    /// Packet memory: R × M × cell size for each queue and each stock.
    pub cells_bytes: u64,
    /// What the kernel needs besides, about: rings, and its records of the cells.
    pub kernel_bytes: u64,
    /// M.
    pub cells_per_chunk: u32,
    /// R.
    pub chunks_per_pool: u32,
    /// Size of a cell, in bytes.
    pub cell_bytes: u32,
    /// Why R is no larger; `None` unless it is smaller than by default.
    pub bounded: Option<BoundedMemory>,
    /// Which pages it is on, in words.
    pub pages: String,
    /// What was wanted of it and is not so. Not serialised while it is empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<Diagnostic>,
    /// Entries of each ring: cells of a queue that the kernel can have at once.
    pub ring_entries: u32,
}

/// Why the pools are smaller than by default: all memory together would be more than a share of what is available.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BoundedMemory {
    /// R if more were available.
    pub chunks_per_pool: u32,
    /// Memory that was available, in bytes.
    pub available_bytes: u64,
    /// The pools take at most `available_bytes / share`.
    pub share: u64,
    /// The directory of the control group that bounds it; `None` if the machine does.
    pub control_group: Option<PathBuf>,
}

/// Everything there is to say about a capture.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// Since it was opened.
    pub seconds: f64,
    /// The ports.
    pub ports: Vec<PortReport>,
    /// The workers.
    pub workers: Vec<WorkerReport>,
    /// The memory.
    pub memory: MemoryReport,
}

impl Report {
    /// The accounts of all queues added up.
    pub fn total(&self) -> QueueAccount {
        let mut total = QueueAccount::default();
        for queue in self.ports.iter().flat_map(|port| &port.queues) {
            total += queue.account();
        }
        total
    }

    /// The fullest pool, in percent.
    pub fn pool_used_percent(&self) -> f64 {
        self.fullest(|queue| queue.pool_used_percent)
    }

    /// The fullest that any pool was since the start, in percent.
    pub fn pool_peak_percent(&self) -> f64 {
        self.fullest(|queue| queue.pool_peak_percent)
    }

    fn fullest(&self, percent: fn(&QueueReport) -> f64) -> f64 {
        self.ports.iter().flat_map(|port| &port.queues).map(percent).fold(0.0, f64::max)
    }
}

impl PortReport {
    /// Whether it is captured beside the host, over AF_PACKET.
    pub fn is_passive(&self) -> bool {
        self.queues.iter().any(|queue| queue.mode == QueueMode::Packet)
    }
}

impl QueueReport {
    /// The account of the queue.
    pub fn account(&self) -> QueueAccount {
        QueueAccount {
            seen: self.seen,
            filtered: self.filtered,
            passed: self.passed,
            delivered: self.delivered,
            lost: self.lost,
        }
    }
}
