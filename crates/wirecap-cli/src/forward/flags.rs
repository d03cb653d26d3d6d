//! The flags of `wirecap forward`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use wirecap_headers::{Ttl, VlanMap};

use crate::{
    flags::{TimestampFlag, WaitFlag, XdpModeFlag},
    values::{Cores, Number, cores, duration, number},
};

/// What to forward, how, and what is kept of it.
#[derive(Debug, Args)]
pub(crate) struct ForwardFlags {
    /// The two interfaces, by name or alternative name: every packet that comes in by one goes out of the other. With --route
    /// there may be more.
    #[arg(value_name = "IFACE", required = true, num_args = 1..)]
    pub(crate) ports: Vec<String>,
    /// Forward only packets that this filter of tcpdump's language wants; all others are dropped.
    #[arg(long, value_name = "FILTER")]
    pub(crate) pass: Option<String>,
    /// Drop packets that this filter of tcpdump's language wants.
    #[arg(long, value_name = "FILTER")]
    pub(crate) drop: Option<String>,
    /// What to do with a packet for which the other port's ring has no room.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) on_full: OnFullFlag,
    /// What the VLAN of one side is on the other, in pairs of IFACE and the second: 10=20,none=30,40=none.
    #[arg(long, value_name = "A=B,...")]
    pub(crate) vlan: Option<VlanMap>,
    /// What becomes of the TTL of IPv4 and the hop limit of IPv6: keep, decrement, or 1 to 255. Packets whose TTL is at its end
    /// are dropped [default: keep, with --route decrement].
    #[arg(long, value_name = "TTL")]
    pub(crate) ttl: Option<Ttl>,
    /// Be a small router: each packet goes where the longest prefix in FILE says that its destination is in. Lines as
    /// 10.0.0.0/8 dev eth2 via 192.0.2.1, in the words of ip route.
    #[arg(long, value_name = "FILE")]
    pub(crate) route: Option<PathBuf>,
    /// Packets that go out of IFACE come from this Ethernet address.
    #[arg(long, value_name = "IFACE=MAC")]
    pub(crate) set_source: Vec<String>,
    /// Packets that go out of IFACE go to this Ethernet address.
    #[arg(long, value_name = "IFACE=MAC")]
    pub(crate) set_destination: Vec<String>,
    /// Checksums that the sender has left to its NIC to compute, as the hosts behind veth and virtio interfaces do.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) checksums: ChecksumsFlag,

    /// Write all packets that came in to FILE.pcapng, FILE.pcap, a named pipe, or - as well.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
    /// Keep at most this many bytes of each packet in the file; 0 keeps all.
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = number::<u32>(Number::of("--snaplen 128")))]
    pub(crate) snaplen: u32,
    /// Stop after this time: 10 or 10s, 500ms, 2m, 1h.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Duration>,

    /// M, cells per chunk: a power of two.
    #[arg(short = 'M', value_name = "CELLS", default_value_t = 256, value_parser = number::<u32>(Number::of("-M 256")))]
    pub(crate) cells_per_chunk: u32,
    /// R, chunks per receive queue. A queue can buffer R x M packets.
    #[arg(short = 'R', value_name = "CHUNKS", default_value_t = 32, value_parser = number::<u32>(Number::of("-R 32")))]
    pub(crate) chunks_per_pool: u32,
    /// Entries of each transmit ring, a power of two.
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = number::<u32>(Number::of("--transmit-ring 2048")))]
    pub(crate) transmit_ring: u32,
    /// Number of workers, at most as many as each interface has receive queues [default: that, but no more than cores].
    #[arg(long, value_name = "N", value_parser = number::<usize>(Number::of("--workers 2")))]
    pub(crate) workers: Option<usize>,
    /// Cores for the workers, in turn: 0,2-3 [default: not bound].
    #[arg(long, value_name = "LIST", value_parser = cores)]
    pub(crate) cores: Option<Cores>,
    /// What workers do while nothing comes.
    #[arg(long, value_enum, default_value_t = WaitFlag::Block)]
    pub(crate) wait: WaitFlag,
    /// Size of a cell: 2048 or 4096. Larger packets take several cells.
    #[arg(long, value_name = "BYTES", default_value_t = 2048, value_parser = number::<u32>(Number::of("--cell-bytes 4096")))]
    pub(crate) cell_bytes: u32,
    /// Which way of attaching to the interfaces is used.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) xdp_mode: XdpModeFlag,
    /// Where the times of packets come from, by which the latency is told as well [default: batch].
    #[arg(long, value_enum, value_name = "SOURCE")]
    pub(crate) timestamp: Option<TimestampFlag>,

    /// Print the account as one JSON object, as the last line of standard output (of standard error with -w -).
    #[arg(long)]
    pub(crate) json: bool,
    /// Print no start lines and no progress; warnings, errors and the account remain.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnFullFlag {
    /// Wait for room, while the pools take in what comes.
    #[default]
    Wait,
    /// Drop it, and count it.
    Drop,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChecksumsFlag {
    /// Complete them where a sender may have left them, on veth and virtio; packets of NICs are left as they are.
    #[default]
    Auto,
    /// Change nothing.
    Keep,
    /// Complete them on every port.
    Complete,
}
