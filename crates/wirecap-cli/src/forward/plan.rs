//! From flags to a plan: what the command line alone can get wrong, before anything is opened.

use std::{fmt::Display, str::FromStr, thread};

use anyhow::Result;
use wirecap::{Homes, PortSpec};
use wirecap_headers::Rewrite;
use wirecap_sys::netdev::{self, Interface};

use super::flags::{ChecksumsFlag, ForwardFlags, OnFullFlag};
use crate::{
    exit::Usage,
    flags::{CaptureFlags, DispatchFlag, ModeFlag, RssFlag, UnmatchedFlag},
    plan::Plan,
};

/// Ports that packets are forwarded between.
const PORTS: usize = 2;

/// What is forwarded, and how.
#[derive(Debug)]
pub(super) struct ForwardPlan {
    /// The capture that it is as well.
    pub(super) capture: Plan,
    /// Whether packets wait for room.
    pub(super) wait: bool,
    pub(super) checksums: ChecksumsFlag,
    /// What becomes of the headers of packets, by port that they go out of.
    pub(super) rewrite: [Rewrite; PORTS],
    pub(super) workers: Option<usize>,
}

impl ForwardPlan {
    /// Checks the flags against each other.
    ///
    /// # Errors
    /// [`Usage`] and others that [`crate::exit::code_of`] counts as wrong usage.
    pub(super) fn new(flags: ForwardFlags) -> Result<Self> {
        if flags.ports.len() != PORTS {
            let message = format!(
                "forward is between two interfaces, and {} given; write wirecap forward eth1 eth2",
                if flags.ports.len() == 1 { "one is".into() } else { format!("{} are", flags.ports.len()) }
            );
            return Err(Usage(message).into());
        }
        let words = flags.ports.iter().map(|word| taken(word)).collect::<Result<_>>()?;
        let (wait, checksums) = (flags.on_full == OnFullFlag::Wait, flags.checksums);
        let rewrite = rewrite(&flags)?;
        let (transmit_ring, workers) = (flags.transmit_ring, flags.workers);
        if !transmit_ring.is_power_of_two() || transmit_ring > MAX_RING {
            let message =
                format!("--transmit-ring {transmit_ring}: write a power of two up to {MAX_RING}, like 2048");
            return Err(Usage(message).into());
        }
        // The words all have a prefix: each is taken for a port.
        let capture = Plan::new(as_capture(flags, words), |_| false)?;
        let capture = capture.with(|builder| builder.transmit(transmit_ring).homes(Homes::ByQueue));
        Ok(Self { capture, wait, checksums, rewrite, workers })
    }

    /// Looks at the interfaces, and settles how many workers there are.
    ///
    /// # Errors
    /// An interface that is not there; [`Usage`] when both are the same, or there are more workers than queues.
    pub(super) fn settle(&mut self) -> Result<[Interface; PORTS]> {
        let look_up = |port: &PortSpec| match port {
            PortSpec::Interface { name, .. } => netdev::interface(name).map_err(wirecap::Error::from),
            port => unreachable!("{} has no prefix of an interface", port.name()),
        };
        let interfaces = [look_up(&self.capture.ports[0])?, look_up(&self.capture.ports[1])?];
        if interfaces[0].ifindex == interfaces[1].ifindex {
            let message = format!(
                "{} is both ends: what comes in would go out again, for ever; name two interfaces",
                interfaces[0].name
            );
            return Err(Usage(message).into());
        }
        let queues = interfaces.iter().map(|interface| interface.queues.current.max(1) as usize);
        let queues = queues.min().unwrap_or(1);
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let workers = self.workers.unwrap_or(queues.min(cores));
        if workers > queues {
            let message = format!(
                "--workers {workers}: each worker needs a transmit queue of each interface, and one of them has {queues}; \
                 use at most {queues}, or give it more queues (ethtool -L)"
            );
            return Err(Usage(message).into());
        }
        self.capture.set_workers(workers);
        Ok(interfaces)
    }
}

/// What becomes of the headers of packets, by port that they go out of.
fn rewrite(flags: &ForwardFlags) -> Result<[Rewrite; PORTS]> {
    let both =
        Rewrite { vlans: flags.vlan.clone().unwrap_or_default(), ttl: flags.ttl, ..Rewrite::default() };
    let mut rewrite = [both.clone(), both];
    for (port, address) in each_port(flags, "--set-source", &flags.set_source)? {
        rewrite[port].source = Some(address);
    }
    for (port, address) in each_port(flags, "--set-destination", &flags.set_destination)? {
        rewrite[port].destination = Some(address);
    }
    Ok(rewrite)
}

/// Reads values `IFACE=MAC`, each of another port.
fn each_port<T: FromStr<Err: Display>>(
    flags: &ForwardFlags,
    flag: &str,
    values: &[String],
) -> Result<Vec<(usize, T)>> {
    let mut read: Vec<(usize, T)> = Vec::new();
    for value in values {
        let refused = |reason: String| Usage(format!("{flag} {value}: {reason}"));
        let example = format!("write {flag} {}=02:00:00:00:00:01", flags.ports[0]);
        let (name, address) = value.rsplit_once('=').ok_or_else(|| refused(example.clone()))?;
        let port = flags.ports.iter().position(|port| port.strip_prefix("xdp:").unwrap_or(port) == name);
        let port = port.ok_or_else(|| refused(format!("{name} is none of the two interfaces; {example}")))?;
        if read.iter().any(|(other, _)| *other == port) {
            return Err(refused(format!("{name} has an address already; give one")).into());
        }
        read.push((port, address.parse().map_err(|cause| refused(format!("{cause}")))?));
    }
    Ok(read)
}

/// Most entries of a ring: more than any NIC has.
const MAX_RING: u32 = 32768;

/// The word for an interface that is taken from the host, as it has to be.
fn taken(word: &str) -> Result<String> {
    for (prefix, reason) in [
        ("packet:", "the host would keep its packets, and each would be there twice"),
        ("replay:", "a trace file is sent with wirecap replay"),
    ] {
        if word.starts_with(prefix) {
            let message = format!("{word} cannot be forwarded: {reason}; name an interface");
            return Err(Usage(message).into());
        }
    }
    Ok(if word.starts_with("xdp:") { word.into() } else { format!("xdp:{word}") })
}

/// The capture that forwarding is as well.
fn as_capture(flags: ForwardFlags, words: Vec<String>) -> CaptureFlags {
    let filter = match (flags.pass, flags.drop) {
        (Some(pass), Some(drop)) => Some(format!("({pass}) and not ({drop})")),
        (Some(pass), None) => Some(pass),
        (None, Some(drop)) => Some(format!("not ({drop})")),
        (None, None) => None,
    };
    CaptureFlags {
        words,
        unmatched: filter.is_some().then_some(UnmatchedFlag::Drop),
        filter,
        write: flags.write,
        count: None,
        duration: flags.duration,
        snaplen: flags.snaplen,
        cells_per_chunk: flags.cells_per_chunk,
        chunks_per_pool: flags.chunks_per_pool,
        threshold_percent: None,
        // A buddy would send packets of a queue while others of it are on their way.
        mode: ModeFlag::Basic,
        dispatch: DispatchFlag::Pull,
        workers: flags.workers,
        cores: flags.cores,
        capture_threads: None,
        capture_cores: None,
        wait: flags.wait,
        cell_bytes: flags.cell_bytes,
        ring: None,
        xdp_mode: flags.xdp_mode,
        rss: RssFlag::Keep,
        fanout: None,
        timestamp: flags.timestamp,
        no_promiscuous: false,
        json: flags.json,
        quiet: flags.quiet,
    }
}
