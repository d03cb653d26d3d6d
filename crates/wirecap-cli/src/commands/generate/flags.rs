//! The flags of `wirecap generate`.

use std::time::Duration;

use clap::Args;
use wirecap_core::choices;
use wirecap_headers::MacAddress;
use wirecap_traffic::{FLOWS_MAX, IpVersion, Popularity, Sizes, Transport};

use super::values::{RateValue, Shares, gap, popularity, rate, shares, sizes, speed};
use crate::{
    flags::{INTERFACE, SendFlags, TimeLimit},
    values::{ANY, choice, count, number},
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  wirecap generate -i eth1                                   64-byte frames from queue 0, as fast as possible, until Ctrl-C
  wirecap generate -i eth1 --rate 1Mpps --size imix --duration 10s
  wirecap generate -i eth1 --rate 80% --link-speed 10G       of the capacity of the wire
  wirecap generate -i eth1 --queue-share 80,20,20            from queues 0 to 2, most of it from queue 0
  wirecap generate -i eth1 --burst 30000 --gap 400ms -c 180k --engine live
  wirecap capture eth2 --verify                              at the other end: losses and latency";

const TX_MODE: &str =
    "How frames reach the driver (xdp) [default: best; copy where the host uses the interface]";

/// What to send, how fast, and from where.
#[derive(Debug, Args)]
#[command(mut_arg("tx_mode", |flag| flag.help(TX_MODE)))]
pub(crate) struct GenerateFlags {
    /// Interface to send from, by name or alternative name; NAME@2, NAME@0-3 are its transmit queues
    /// [default: queue 0].
    #[arg(value_name = INTERFACE, required_unless_present = "interface")]
    name: Option<String>,
    /// The same, as a flag.
    #[arg(short, long, value_name = INTERFACE, conflicts_with = "name")]
    interface: Option<String>,
    /// How frames are sent.
    #[arg(long, value_parser = choice::<EngineChoice>(), default_value_t)]
    pub(crate) engine: EngineChoice,

    /// Size of frames with FCS: 64, imix (7 of 64, 4 of 594 and 1 of 1518 bytes), or a mix like
    /// 64:7,594:4,1518:1 [default: 64, or the smallest size with room for the headers].
    #[arg(long, value_name = "BYTES", value_parser = sizes)]
    pub(super) size: Option<Sizes>,
    /// Number of flows, which differ in source address and port.
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = number::<u32>(1..=FLOWS_MAX.into(), "--flows 4096"))]
    pub(crate) flows: u32,
    /// Which flow is next: round-robin, uniform (random, equally likely), zipf or zipf:1.2 (few large flows,
    /// many small ones).
    #[arg(long, value_name = "KIND", default_value = "round-robin", value_parser = popularity)]
    pub(super) popularity: Popularity,
    /// Seed of random choices: the same seed gives the same frames.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u64>(ANY, "--seed 1"))]
    pub(crate) seed: u64,
    /// IP version.
    #[arg(long, value_parser = choice::<IpVersion>(), default_value_t)]
    pub(crate) ip: IpVersion,
    /// Transport protocol.
    #[arg(long, value_parser = choice::<Transport>(), default_value_t)]
    pub(crate) protocol: Transport,
    /// VLAN tag of the frames: 0 to 4094.
    #[arg(long, value_name = "ID", value_parser = number::<u16>(0..=4094, "--vlan 5"))]
    pub(crate) vlan: Option<u16>,
    /// Destination MAC address, by which switches forward.
    #[arg(long, value_name = "MAC", default_value = "02:00:00:00:00:02")]
    pub(crate) destination_mac: MacAddress,
    /// Source MAC address [default: that of the interface].
    #[arg(long, value_name = "MAC")]
    pub(crate) source_mac: Option<MacAddress>,
    /// Number of the run, which each frame contains: 0 to 65535 [default: random].
    #[arg(long, value_name = "N", value_parser = number::<u16>(0..=u16::MAX.into(), "--run 7"))]
    pub(crate) run: Option<u16>,

    /// Rate: 500k or 1.5Mpps (packets per second), 2Gbps (bits of frames with FCS), 80% (of the capacity of
    /// the link, with preambles and gaps) [default: as fast as possible].
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(super) rate: Option<RateValue>,
    /// Speed of the link to which percentages refer: 10G [default: that of the interface].
    #[arg(long, value_name = "SPEED", value_parser = speed)]
    pub(crate) link_speed: Option<u64>,
    /// Frames per burst; a gap follows each.
    #[arg(long, value_name = "N", value_parser = count, requires = "gap")]
    pub(crate) burst: Option<u64>,
    /// Time from the end of a burst to the start of the next: 50us, 10ms, 1s.
    #[arg(long, value_name = "TIME", value_parser = gap, requires = "burst")]
    pub(crate) gap: Option<Duration>,
    /// Share of each transmit queue, starting with queue 0 or the first named one: 80,20,20.
    #[arg(long, value_name = "LIST", value_parser = shares)]
    pub(super) queue_share: Option<Shares>,
    /// Stop after N frames (10k, 5M and 1G are thousands, millions, billions).
    #[arg(short, long, value_name = "N", value_parser = count)]
    pub(crate) count: Option<u64>,
    #[command(flatten)]
    pub(crate) limit: TimeLimit,

    #[command(flatten)]
    pub(crate) send: SendFlags,
}

impl GenerateFlags {
    /// The interface to send from, and its queues if some are named.
    pub(super) fn interface(&self) -> &str {
        self.name.as_deref().or(self.interface.as_deref()).expect("clap requires one of them")
    }
}

choices! {
    /// How frames are sent.
    pub(crate) enum EngineChoice = Xdp {
        /// AF_XDP transmit: any interface, any queues, all kinds of frames.
        Xdp = "xdp",
        /// Live frames of the kernel, much faster on virtual interfaces: UDP of one size, queues by core.
        Live = "live",
    }
}
