//! The flags of `wirecap forward`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use wirecap_headers::{Ttl, VlanMap};

use super::settings::{Checksums, ForwardSettings, FullRingPolicy};
use crate::{
    flags::{
        ConfigFlags, FileFlags, INTERFACE, OutputFlags, PoolFlags, PortFlags, ProcessFlags, ServiceFlags,
        TimeLimit, WorkerFlags, set,
    },
    sources::Sourced,
    values::{ANY, choice, number, ports},
};

// Help that differs from that of `capture`.
const WRITE: &str = "Also write all received packets to FILE.pcapng, FILE.pcap, a named pipe, or -";
const WORKERS: &str = "Number of workers, at most as many as each interface has receive queues [default: that number, at most \
                       one per core]";
const WAIT: &str = "What idle workers do [default: block]";
const CHUNKS: &str = "R, chunks per receive queue. A queue can buffer R x M packets [default: 32, or fewer, so that all queues \
                      together take at most an eighth of the available memory]";
const TIMESTAMP: &str = "Source of the packets' timestamps, from which the latency is measured, too [default: kernel with -w, else batch]";

/// What to forward, and how.
#[derive(Debug, Args)]
#[command(
    mut_arg("write", |flag| flag.help(WRITE)),
    mut_arg("chunks_per_pool", |flag| flag.help(CHUNKS).value_parser(number::<u32>(ANY, "-R 32"))),
    mut_arg("workers", |flag| flag.help(WORKERS)),
    mut_arg("wait", |flag| flag.help(WAIT)),
    mut_arg("timestamp", |flag| flag.help(TIMESTAMP))
)]
pub(crate) struct ForwardFlags {
    /// The two interfaces, by name or alternative name: every packet that arrives at one leaves by the other.
    /// With --route there may be more.
    #[arg(value_name = INTERFACE, required_unless_present_any = ["config", "print_config"], num_args = 1..)]
    ports: Vec<String>,
    /// Forward only packets that match this tcpdump filter; drop all others.
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    pass: Option<String>,
    /// Drop packets that match this tcpdump filter.
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    drop: Option<String>,
    /// What to do with a packet for which the other port's ring has no room [default: wait].
    #[arg(long, value_parser = choice::<FullRingPolicy>())]
    on_full: Option<FullRingPolicy>,
    /// Translate VLANs, in pairs of the first and the second interface: 10=20,none=30,40=none.
    #[arg(long, value_name = "A=B,...")]
    vlan: Option<VlanMap>,
    /// What becomes of the TTL of IPv4 and the hop limit of IPv6: keep, decrement, or 1 to 255. Packets whose
    /// TTL expires are dropped [default: keep, with --route decrement].
    #[arg(long, value_name = "TTL")]
    ttl: Option<Ttl>,
    /// Be a small router: send each packet by the longest prefix in FILE that contains its destination. The
    /// lines are like those of ip route: 10.0.0.0/8 dev eth2 via 192.0.2.1.
    #[arg(long, value_name = "FILE")]
    route: Option<PathBuf>,
    /// Set the source Ethernet address of packets that leave by IFACE.
    #[arg(long, value_name = "IFACE=MAC")]
    set_source: Vec<String>,
    /// Set the destination Ethernet address of packets that leave by IFACE.
    #[arg(long, value_name = "IFACE=MAC")]
    set_destination: Vec<String>,
    /// Whether to complete checksums that the sender left to its NIC, as hosts behind veth and virtio
    /// interfaces do [default: auto].
    #[arg(long, value_parser = choice::<Checksums>())]
    checksums: Option<Checksums>,

    #[command(flatten)]
    pub(crate) settings: ConfigFlags,
    #[command(flatten)]
    file: FileFlags,
    #[command(flatten)]
    limit: TimeLimit,

    #[command(flatten)]
    pool: PoolFlags,
    /// Entries of each transmit ring, a power of two [default: 2048].
    #[arg(long, value_name = "N", value_parser = number::<u32>(ANY, "--transmit-ring 2048"))]
    transmit_ring: Option<u32>,
    #[command(flatten)]
    workers: WorkerFlags,
    #[command(flatten)]
    port: PortFlags,

    #[command(flatten)]
    process: ProcessFlags,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    service: ServiceFlags,
}

impl ForwardFlags {
    /// The settings in force.
    ///
    /// # Errors
    /// A word that names no port; mistakes in the file.
    pub(crate) fn into_settings(self) -> Result<Sourced<ForwardSettings>> {
        let Sourced { mut settings, sources } = self.settings.settings::<ForwardSettings>()?;
        let ForwardSettings { capture, forward, output, process, service } = &mut settings;
        if !self.ports.is_empty() {
            capture.ports = ports(&self.ports)?;
        }
        self.pool.apply(capture);
        set(&mut capture.transmit_entries, self.transmit_ring);
        self.workers.apply(capture);
        self.port.apply(capture);

        forward.pass = self.pass.or(forward.pass.take());
        forward.drop = self.drop.or(forward.drop.take());
        set(&mut forward.on_full, self.on_full);
        forward.vlan = self.vlan.or(forward.vlan.take());
        forward.ttl = self.ttl.or(forward.ttl);
        forward.route = self.route.or(forward.route.take());
        set(&mut forward.set_source, (!self.set_source.is_empty()).then_some(self.set_source));
        set(&mut forward.set_destination, (!self.set_destination.is_empty()).then_some(self.set_destination));
        set(&mut forward.checksums, self.checksums);

        self.file.apply(output);
        output.duration = self.limit.duration.or(output.duration);
        self.output.apply(output);
        self.process.apply(process);
        self.service.apply(service);
        capture.stamp_packets |= output.keeps_times();
        let sources = sources.after_flags(&settings);
        Ok(Sourced { settings, sources })
    }
}
