//! Settings: what to capture, and how.
//!
//! ```text
//!   flags, a file ──┐
//!   Builder ────────┼──► Config ── check ──► prepare ──► Capture
//!   your program ───┘
//! ```
//!
//! | to read about | open |
//! |---|---|
//! | all settings, their defaults | [`Config`] |
//! | settings that are one of a few words | `choices.rs` |
//! | how a port is named | `port_spec.rs`, `queue_set.rs` |
//! | how large the pools are | `pool_size.rs` |
//! | lists of cores | `core_list.rs` |
//!
//! Rule: a setting is a field of [`Config`] and stands nowhere else. Nothing here asks the machine.

mod check;
mod choices;
mod core_list;
mod pool_size;
mod port_spec;
pub mod prefix;
mod queue_set;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use wirecap_core::Mode;
pub use wirecap_core::choice::{Choice, NamedValue, UnknownName, nearest};
use wirecap_sys::{memory::Children, packet::Fanout};

pub(crate) use self::{
    check::{MAX_WORKERS, limit},
    port_spec::device_name,
};
pub use self::{
    choices::{Dispatch, Grouping, Homes, Modes, Reach, Rss, TapHook, Timestamp, UnmatchedPolicy, Wait},
    core_list::{CoreListError, parse_cores},
    pool_size::{PoolSize, PoolSizeError, parse_bytes},
    port_spec::{Access, Faults, NullPort, PortSpec, PortSpecError},
    queue_set::{QueueSet, QueueSetError},
};

/// All settings of a capture: plain data, which can be printed, written to a file and read back.
///
/// Each field is a key of the same name in a file of settings; a key that is left out has its default.
///
/// ```
/// use wirecap::{Builder, Config, port::null::NullPort};
///
/// let nic = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 100 };
/// let config = Config { ports: vec![nic.into()], cells_per_chunk: 64, workers: Some(1), ..Config::default() };
/// config.check()?;
/// let capture = Builder::from(config).open()?;
/// # Ok::<(), wirecap::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where packets come from.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub ports: Vec<PortSpec>,
    /// What is captured, on all ports: an expression of pcap-filter(7). `None`: everything.
    ///
    /// libpcap compiles it. It runs in the kernel where the kernel accepts it, else in user space; the report
    /// says which, and why. The socket of a passive port evaluates `inbound`, `outbound` and `ifindex`; over
    /// AF_XDP all packets come in. A trace file has no such information, and the capture is not opened.
    pub filter: Option<String>,
    /// What is not captured, whatever `filter` says: another expression, which decides by itself. A packet
    /// too short for what it looks at does not match it. (`not` in `filter` is libpcap's: such a packet
    /// matches neither an expression nor its opposite, and `vlan` moves the offsets of all behind it.) Not
    /// for trace files with packets that were cut.
    #[serde(skip)]
    pub excluded: Option<String>,
    /// What becomes of packets that the filter does not want, on ports that take packets from the host.
    /// `None`: the host gets them where the filter runs in the kernel.
    pub unmatched: Option<UnmatchedPolicy>,
    /// Basic or advanced mode, with the threshold T.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub mode: Mode,
    /// How chunks get to workers.
    pub dispatch: Dispatch,
    /// Which workers are buddies.
    pub grouping: Grouping,
    /// Which worker is home of which receive queue.
    pub homes: Homes,
    /// M, cells per chunk: a power of two. On passive ports, and where packets are packed, a chunk is a block
    /// of M × `cell_bytes` bytes.
    pub cells_per_chunk: u32,
    /// R, chunks per receive queue, or what it follows from.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub pool_size: PoolSize,
    /// Size of a cell in bytes: 2048 or 4096.
    pub cell_bytes: u32,
    /// Entries of the fill and receive rings, a power of two. `None`: as many as the pool has cells, so that
    /// the kernel always has all free cells. Blocks have no such rings: with a size, `best` does not try
    /// `packed`.
    pub ring_entries: Option<u32>,
    /// Number of workers. `None`: one for each receive queue. With fewer, a worker has several queues; with
    /// more (advanced mode only), some only help.
    pub workers: Option<usize>,
    /// Cores for the workers, in turn. Empty: not bound.
    pub worker_cores: Vec<usize>,
    /// What workers and capture threads do while nothing comes.
    pub wait: Wait,
    /// Number of capture threads with [`Dispatch::Push`]; the receive queues are dealt out among them.
    pub capture_threads: usize,
    /// Cores for the capture threads, in turn. Empty: not bound.
    pub capture_cores: Vec<usize>,
    /// Which ways of attaching to an interface are tried.
    pub xdp_mode: Modes,
    /// Whether the NIC accepts packets for other stations.
    pub promiscuous: bool,
    /// How the NICs spread packets over their receive queues while they are captured.
    pub rss: Rss,
    /// How packets of a passive port are spread over the workers. `None`: by core where it is tapped, by flow
    /// over AF_PACKET. An interface is not tapped by itself if packets are to be spread otherwise.
    pub fanout: Option<Fanout>,
    /// Where a tap copies packets that come in.
    pub tap_hook: TapHook,
    /// Where the times of packets come from. `None`: kernel on passive ports and where packets are packed
    /// into blocks; batch where they lie in cells, unless `stamp_packets` is set. The report says which, and
    /// by which clock ([`crate::TimestampReport`]).
    pub timestamp: Option<Timestamp>,
    /// Whether the XDP program stamps each packet ([`Timestamp::Kernel`]) wherever `timestamp` is `None`: for
    /// programs that keep times, or sort by them. Unlike `timestamp`, it is no error where there is no such
    /// program. A stamp costs a reading of the clock for each packet, some 20 to 50 ns, on the core that runs
    /// the driver.
    pub stamp_packets: bool,
    /// Whether each packet carries the NIC's own hash of it: see
    /// [`Builder::rx_hash`](crate::Builder::rx_hash).
    pub rx_hash: bool,
    /// Whether the application keeps packets of interfaces one by one, by
    /// [`Batch::drain`](crate::Batch::drain). Then each packet has cells of its own, and `best` does not try
    /// `packed`. Ports that send, and packet allocators, imply it.
    pub keep_packets: bool,
    /// Whether processes that are forked after the capture was opened have it, too, as daemons need it. The
    /// capture then ends when the last of these processes has dropped it or has ended; until then, dropping
    /// it or [`Capture::finish`](crate::Capture::finish) only closes what the calling process has open. With
    /// [`Dispatch::Pull`] any one process can read it, from memory that all of them share. With
    /// [`Dispatch::Push`] only the process that opened it can read and end it: threads are not forked.
    pub readable_in_children: bool,
    /// Entries of the transmit ring of each receive queue of the AF_XDP ports, a power of two; 0: nothing is
    /// sent. See [`Capture::take_transmitters`](crate::Capture::take_transmitters).
    pub transmit_entries: u32,
    /// Number of [`PacketAllocator`](crate::PacketAllocator)s, each with a pool of R chunks to make packets
    /// in.
    pub allocators: u16,
    /// Which transmitters can send a packet.
    pub reach: Reach,
}

impl Config {
    /// Whether packets of interfaces that are taken have to lie in cells of their own.
    pub(crate) fn needs_cells(&self) -> bool {
        self.keep_packets || self.transmit_entries > 0 || self.allocators > 0
    }

    /// What processes that are forked have of the packet memory.
    pub(crate) fn children(&self) -> Children {
        if self.readable_in_children && self.dispatch == Dispatch::Pull {
            Children::With
        } else {
            Children::Without
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            ports: Vec::new(),
            filter: None,
            excluded: None,
            unmatched: None,
            mode: Mode::default(),
            dispatch: Dispatch::default(),
            grouping: Grouping::default(),
            homes: Homes::default(),
            cells_per_chunk: 256,
            pool_size: PoolSize::default(),
            cell_bytes: 2048,
            ring_entries: None,
            workers: None,
            worker_cores: Vec::new(),
            wait: Wait::default(),
            capture_threads: 1,
            capture_cores: Vec::new(),
            xdp_mode: Modes::default(),
            promiscuous: true,
            rss: Rss::default(),
            fanout: None,
            tap_hook: TapHook::default(),
            timestamp: None,
            stamp_packets: false,
            rx_hash: false,
            keep_packets: false,
            readable_in_children: false,
            transmit_entries: 0,
            allocators: 0,
            reach: Reach::default(),
        }
    }
}
