//! From flags to a plan: what the command line alone can get wrong, before anything is opened.

use std::{fmt::Display, fs, str::FromStr, thread};

use anyhow::{Result, anyhow};
use wirecap::{Homes, PortSpec, QueueSet, Reach};
use wirecap_filter::Filter;
use wirecap_headers::{Rewrite, Ttl};
use wirecap_router::{Error as RouterError, Router, RouterPort, Routes};
use wirecap_sys::netdev::{self, Interface};

use super::{
    flags::{ChecksumsFlag, ForwardFlags, OnFullFlag},
    forwarder::Rules,
};
use crate::{
    exit::Usage,
    flags::{CaptureFlags, DispatchFlag, ModeFlag, RssFlag, UnmatchedFlag},
    plan::Plan,
    signals::Signals,
    step::Step,
};

/// Most entries of a ring: more than any NIC has.
const MAX_RING: u32 = 32768;
/// R unless the user says otherwise, and there is memory enough.
const CHUNKS_PER_POOL: u32 = 32;
/// What the filters of a router are compiled for.
const LINK_TYPE_ETHERNET: u16 = 1;
/// Longest packet there is.
const MAX_PACKET_BYTES: u32 = 262_144;

/// What is forwarded, and how.
pub(super) struct ForwardPlan {
    /// The capture that it is as well.
    pub(super) capture: Plan,
    pub(super) interfaces: Vec<Interface>,
    pub(super) rules: Rules,
    /// Where packets go: where its routes say; without one, from each of two ports to the other.
    pub(super) router: Option<Router>,
    /// What becomes of headers without a router, by port that packets go out of.
    pub(super) rewrite: [Rewrite; 2],
    /// What the user may not have thought of.
    pub(super) warnings: Vec<String>,
}

impl ForwardPlan {
    /// Checks the flags against each other, and looks at the interfaces.
    ///
    /// # Errors
    /// [`Usage`] and others that [`crate::exit::code_of`] counts as wrong usage; an interface that is not there.
    pub(super) fn new(flags: ForwardFlags, signals: &Signals) -> Result<Self> {
        check_ports(&flags)?;
        if !flags.transmit_ring.is_power_of_two() || flags.transmit_ring > MAX_RING {
            let (ring, most) = (flags.transmit_ring, MAX_RING);
            let message = format!("--transmit-ring {ring}: write a power of two up to {most}, like 2048");
            return Err(Usage(message).into());
        }
        let words = flags.ports.iter().map(|word| taken(word)).collect::<Result<Vec<_>>>()?;
        let rewrite = rewrite(&flags)?;
        let routes = flags.route.as_deref().map(routes).transpose()?;
        let mut warnings = Vec::new();
        let (interfaces, queues) = look_up(&words, &mut warnings)?;
        if routes.is_none() {
            warnings.extend(narrower(&interfaces[0], &interfaces[1]));
        }
        let workers = workers(&flags, queues)?;
        let (wait, ring) = (flags.on_full == OnFullFlag::Wait, flags.transmit_ring);
        let complete_checksums =
            interfaces.iter().map(|interface| completes(flags.checksums, interface)).collect();
        let wanted = wanted(&flags);
        let (filter, unmatched, router) = match routes {
            Some(routes) => {
                let wanted =
                    wanted.map(|expression| compile(expression, signals, flags.output.quiet)).transpose()?;
                let ttl = flags.ttl.unwrap_or(Ttl::Decrement);
                let router = router(routes, &interfaces, ttl, wanted)?;
                (Some(router.capture_filter()), UnmatchedFlag::Pass, Some(router))
            }
            None => (wanted, UnmatchedFlag::Drop, None),
        };
        // For ICMP errors and packets that wait: each worker of a router makes packets of its own.
        let stocks = if router.is_some() { workers as u16 } else { 0 };
        let sized = flags.pool.chunks_per_pool.is_some() || flags.pool.memory.is_some();
        // The words all have a prefix: each is taken for a port.
        let mut capture =
            Plan::new(as_capture(flags, words, (filter, unmatched)), |_| false)?.with(|builder| {
                let builder = if sized { builder } else { builder.most_chunks_per_pool(CHUNKS_PER_POOL) };
                builder.transmit(ring).homes(Homes::ByQueue).reach(Reach::Worker).stocks(stocks)
            });
        capture.set_workers(workers);
        let rules = Rules { complete_checksums, wait, batch_times: true };
        Ok(Self { capture, interfaces, rules, router, rewrite, warnings })
    }
}

fn check_ports(flags: &ForwardFlags) -> Result<()> {
    let message = match (flags.ports.len(), &flags.route) {
        (2, _) | (3.., Some(_)) => return Ok(()),
        (1, _) => {
            "forward is between two interfaces, and one is given; write wirecap forward eth1 eth2".into()
        }
        (many, _) => format!(
            "forward is between two interfaces, and {many} are given; write wirecap forward eth1 eth2, or say with --route \
             which packet goes out of which"
        ),
    };
    Err(Usage(message).into())
}

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

/// The interfaces, each once, and how many queues each of them receives by and can send from: the least of it.
fn look_up(words: &[String], warnings: &mut Vec<String>) -> Result<(Vec<Interface>, usize)> {
    let mut interfaces: Vec<Interface> = Vec::new();
    let mut least = usize::MAX;
    for word in words {
        let PortSpec::Interface { name, queues, .. } = PortSpec::from(word.as_str()) else {
            unreachable!("{word} has the prefix of an interface")
        };
        let interface = netdev::interface(&name).map_err(wirecap::Error::from)?;
        if interfaces.iter().any(|other| other.ifindex == interface.ifindex) {
            let message = format!(
                "{} is both ends: what comes in would go out again, for ever; name two interfaces",
                interface.name
            );
            return Err(Usage(message).into());
        }
        if let Some(peer) = interfaces.iter().find(|other| interface.peer == Some(other.ifindex)) {
            let message = format!(
                "{} and {} are the two ends of a pair: what goes out of one comes in by the other, and would go round for ever; \
                 name two interfaces of different pairs",
                peer.name, interface.name
            );
            return Err(Usage(message).into());
        }
        least = least.min(both_ways(&interface, queues.as_ref())?);
        if let Some(queues) = &queues {
            warnings.extend(left_out(&interface, queues));
        }
        interfaces.push(interface);
    }
    Ok((interfaces, least))
}

/// Queues of an interface that are not named: what comes in by them is not forwarded.
fn left_out(interface: &Interface, named: &QueueSet) -> Option<String> {
    let others =
        (0..interface.queues.current).filter(|&queue| !named.iter().any(|name| u32::from(name) == queue));
    let others: Vec<_> = others.map(|queue| queue.to_string()).collect();
    let (name, queues) = (&interface.name, others.join(", "));
    (!others.is_empty()).then(|| {
        format!("{name}: what comes in by its other queues ({queues}) is left to the host, and not forwarded")
    })
}

/// What one side takes, and the other does not: a cable tells no sender of it.
fn narrower(first: &Interface, second: &Interface) -> Option<String> {
    let (wide, narrow) = if first.mtu > second.mtu { (first, second) } else { (second, first) };
    (wide.mtu > narrow.mtu).then(|| {
        format!(
            "{} has an MTU of {} and {} of {}: longer packets from {} are dropped (too_long), and no sender is told; give both the same",
            wide.name, wide.mtu, narrow.name, narrow.mtu, wide.name
        )
    })
}

/// How many of the queues that are captured can send as well.
fn both_ways(interface: &Interface, named: Option<&QueueSet>) -> Result<usize> {
    let sending = netdev::transmit_queues(&interface.name).map_err(wirecap::Error::from)?.unwrap_or(u32::MAX);
    let all = 0..interface.queues.current.max(1);
    let captured: Vec<u32> = match named {
        Some(queues) => queues.iter().map(u32::from).collect(),
        None => all.collect(),
    };
    let both = captured.iter().filter(|&&queue| queue < sending).count();
    if both == 0 {
        let message = format!(
            "{}: none of these queues can send: it has {sending} transmit queues, numbered from 0",
            interface.name
        );
        return Err(Usage(message).into());
    }
    Ok(both)
}

/// How many workers there are: each has a transmit queue of every interface.
fn workers(flags: &ForwardFlags, queues: usize) -> Result<usize> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let workers = flags.workers.number.unwrap_or(queues.min(cores));
    if workers > queues {
        let message = format!(
            "--workers {workers}: each worker needs a queue of each interface that receives and sends, and one of them has \
             {queues}; use at most {queues}, or give it more queues (ethtool -L)"
        );
        return Err(Usage(message).into());
    }
    Ok(workers)
}

/// What becomes of the headers of packets on a cable, by port that they go out of.
fn rewrite(flags: &ForwardFlags) -> Result<[Rewrite; 2]> {
    if flags.route.is_some() {
        let of_cable = [
            ("--vlan", flags.vlan.is_some()),
            ("--set-source", !flags.set_source.is_empty()),
            ("--set-destination", !flags.set_destination.is_empty()),
        ];
        if let Some((flag, _)) = of_cable.into_iter().find(|(_, given)| *given) {
            let message = format!(
                "{flag} is for a cable: a router writes Ethernet headers of its own; leave it or --route out"
            );
            return Err(Usage(message).into());
        }
    }
    let vlans = flags.vlan.clone().unwrap_or_default();
    let both = Rewrite { vlans, ttl: flags.ttl.unwrap_or_default(), ..Rewrite::default() };
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

fn routes(path: &std::path::Path) -> Result<Routes> {
    let name = path.display();
    let text =
        fs::read_to_string(path).map_err(|cause| anyhow!("cannot read the routes in {name}: {cause}"))?;
    text.parse().map_err(|error| Usage(format!("{name}: {error}")).into())
}

/// # Errors
/// [`Usage`] for a device that is none of the interfaces, and an interface without an Ethernet address.
fn router(routes: Routes, interfaces: &[Interface], ttl: Ttl, wanted: Option<Filter>) -> Result<Router> {
    let ports: Vec<_> = interfaces.iter().map(RouterPort::from).collect();
    let router = Router::new(routes, &ports, ttl).map_err(|error| match error {
        RouterError::UnknownDevice { .. } => Usage(format!("--route: {error}; name it among them")),
        error => Usage(error.to_string()),
    })?;
    Ok(match wanted {
        Some(filter) => router.with_filter(filter),
        None => router,
    })
}

fn compile(expression: String, signals: &Signals, quiet: bool) -> Result<Filter> {
    let compile = move || Filter::compile(&expression, LINK_TYPE_ETHERNET, MAX_PACKET_BYTES);
    Ok(Step::compiling().run(signals, quiet, compile)?.map_err(wirecap::Error::Filter)?)
}

/// What is forwarded, as one filter.
fn wanted(flags: &ForwardFlags) -> Option<String> {
    match (&flags.pass, &flags.drop) {
        (Some(pass), Some(drop)) => Some(format!("({pass}) and not ({drop})")),
        (Some(pass), None) => Some(pass.clone()),
        (None, Some(drop)) => Some(format!("not ({drop})")),
        (None, None) => None,
    }
}

/// Drivers of interfaces over which a host sends packets to another one of the same machine, checksums left out.
const UNFINISHED: [&str; 2] = ["veth", "virtio_net"];

/// Whether checksums of packets that come in by it may have to be completed.
fn completes(checksums: ChecksumsFlag, interface: &Interface) -> bool {
    let driver = interface.driver.as_ref().map(|driver| driver.name.as_str());
    match checksums {
        ChecksumsFlag::Auto => driver.is_some_and(|driver| UNFINISHED.contains(&driver)),
        ChecksumsFlag::Keep => false,
        ChecksumsFlag::Complete => true,
    }
}

/// The capture that forwarding is as well.
fn as_capture(
    flags: ForwardFlags,
    words: Vec<String>,
    (filter, unmatched): (Option<String>, UnmatchedFlag),
) -> CaptureFlags {
    CaptureFlags {
        words,
        unmatched: filter.is_some().then_some(unmatched),
        filter,
        file: flags.file,
        count: None,
        limit: flags.limit,
        pool: flags.pool,
        ring: None,
        threshold_percent: None,
        // A buddy would send packets of a queue while others of it are on their way.
        mode: ModeFlag::Basic,
        dispatch: DispatchFlag::Pull,
        workers: flags.workers,
        capture_threads: None,
        capture_cores: None,
        port: flags.port,
        rss: RssFlag::Keep,
        fanout: None,
        no_promiscuous: false,
        verify: false,
        expect: None,
        output: flags.output,
    }
}
