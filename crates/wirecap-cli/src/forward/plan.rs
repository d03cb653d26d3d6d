//! From flags to a plan: what the command line alone can get wrong, before anything is opened.

use std::thread;

use anyhow::Result;
use wirecap::{Homes, PortSpec};
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
    pub(super) transmit_ring: u32,
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
        let (transmit_ring, workers) = (flags.transmit_ring, flags.workers);
        if !transmit_ring.is_power_of_two() || transmit_ring > MAX_RING {
            let message =
                format!("--transmit-ring {transmit_ring}: write a power of two up to {MAX_RING}, like 2048");
            return Err(Usage(message).into());
        }
        // The words all have a prefix: each is taken for a port.
        let capture = Plan::new(as_capture(flags, words), |_| false)?;
        let capture = capture.with(|builder| builder.transmit(transmit_ring).homes(Homes::ByQueue));
        Ok(Self { capture, wait, checksums, transmit_ring, workers })
    }

    /// Looks at the interfaces, and settles how many workers there are.
    ///
    /// # Errors
    /// An interface that is not there; [`Usage`] when both are the same, or there are more workers than queues.
    pub(super) fn settle(&mut self) -> Result<Vec<Interface>> {
        let interfaces = self.capture.ports.iter().map(|port| match port {
            PortSpec::Interface { name, .. } => netdev::interface(name).map_err(wirecap::Error::from),
            port => unreachable!("{} has no prefix of an interface", port.name()),
        });
        let interfaces = interfaces.collect::<Result<Vec<_>, _>>()?;
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
        verify: false,
        json: flags.json,
        quiet: flags.quiet,
    }
}
