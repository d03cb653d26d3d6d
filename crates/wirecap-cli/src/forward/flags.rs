//! The flags of `wirecap forward`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use wirecap_headers::{Ttl, VlanMap};

use crate::{
    flags::{FileFlags, OutputFlags, PoolFlags, PortFlags, TimeLimit, WorkerFlags},
    values::{Number, number},
};

// What is another than for a capture.
const WRITE: &str = "Write all packets that came in to FILE.pcapng, FILE.pcap, a named pipe, or - as well";
const WORKERS: &str = "Number of workers, at most as many as each interface has receive queues [default: that, but no more than \
                       cores]";
const CHUNKS: &str = "R, chunks per receive queue. A queue can buffer R x M packets [default: 32, or fewer, so that all take no more than \
                      an eighth of the memory that is available]";
const TIMESTAMP: &str = "Where the times of packets come from, by which the latency is told as well [default: kernel with -w, else batch]";

/// What to forward, how, and what is kept of it.
#[derive(Debug, Args)]
#[command(
    mut_arg("write", |flag| flag.help(WRITE)),
    mut_arg("chunks_per_pool", |flag| flag.help(CHUNKS).value_parser(number::<u32>(Number::of("-R 32")))),
    mut_arg("workers", |flag| flag.help(WORKERS)),
    mut_arg("wait", |flag| flag.default_value("block")),
    mut_arg("timestamp", |flag| flag.help(TIMESTAMP))
)]
pub(crate) struct ForwardFlags {
    /// The two interfaces, by name or alternative name: every packet that comes in by one goes out of the other. With --route
    /// there may be more.
    #[arg(value_name = "IFACE", required = true, num_args = 1..)]
    pub(crate) ports: Vec<String>,
    /// Forward only packets that this filter of tcpdump's language wants; all others are dropped.
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    pub(crate) pass: Option<String>,
    /// Drop packets that this filter of tcpdump's language wants.
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
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

    #[command(flatten)]
    pub(crate) file: FileFlags,
    #[command(flatten)]
    pub(crate) limit: TimeLimit,

    #[command(flatten)]
    pub(crate) pool: PoolFlags,
    /// Entries of each transmit ring, a power of two.
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = number::<u32>(Number::of("--transmit-ring 2048")))]
    pub(crate) transmit_ring: u32,
    #[command(flatten)]
    pub(crate) workers: WorkerFlags,
    #[command(flatten)]
    pub(crate) port: PortFlags,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
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
