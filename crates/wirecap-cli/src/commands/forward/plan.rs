//! From settings to a plan: checks the settings and looks up the interfaces, before anything is opened.

use std::{fmt::Display, str::FromStr, thread};

use anyhow::{Result, bail, ensure};
use wirecap::{Access, Config, PortSpec, QueueSet, UnmatchedPolicy};
use wirecap_file::{LINK_TYPE_ETHERNET, MAX_CAPTURED_LEN};
use wirecap_filter::Filter;
use wirecap_headers::{Rewrite, Ttl};
use wirecap_router::{Error as RouterError, Router, RouterPort, Routes};
use wirecap_sandbox::Sandbox;
use wirecap_sys::netdev::{self, Interface};

use super::{
    forwarder::Rules,
    settings::{Checksums, ForwardRules, ForwardSettings, FullRingPolicy},
};
use crate::{
    capture::{known_interfaces::KnownInterfaces, plan::Plan},
    exit::Usage,
    process::{sandbox, signals::Signals, step::Step},
    sources::{RefusedSettings, Setting},
    text::forward::ForwardWarning,
    values::{ROUTES_MIB, is_trace, text_file},
};

/// The largest transmit ring: more entries than any NIC has.
const MAX_RING: u32 = 32768;
/// Interfaces for checks without any.
const STAND_INS: [&str; 2] = ["eth0", "eth1"];

/// What is forwarded, and how.
pub(super) struct ForwardPlan {
    /// The capture that forwarding is based on.
    pub(super) capture: Plan,
    pub(super) interfaces: Vec<Interface>,
    pub(super) rules: Rules,
    /// With routes, the router; `None` forwards from each of two ports to the other.
    pub(super) router: Option<Router>,
    /// Changes of headers without a router, by port that packets leave by.
    pub(super) rewrite: [Rewrite; 2],
    /// Behaviour that the user may not expect.
    pub(super) warnings: Vec<ForwardWarning>,
}

impl ForwardPlan {
    /// Checks the settings against each other, and looks at the interfaces.
    ///
    /// # Errors
    /// [`Usage`] and others that [`crate::exit::code_of`] counts as wrong usage; an unknown interface.
    pub(super) fn new(settings: ForwardSettings, signals: &Signals) -> Result<Self> {
        settings.check()?;
        let ForwardSettings { capture: mut config, forward: mut rules, output, process, service } = settings;
        let sandbox = sandbox::open(&process, output.quiet)?;
        let (rewrite, routes) = complete(&mut config, &mut rules)?;
        let (mut warnings, mut known) = (Vec::new(), KnownInterfaces::default());
        let (interfaces, queues) = look_up(&config.ports, &mut known, &mut warnings)?;
        if routes.is_none() {
            warnings.extend(narrower(&interfaces[0], &interfaces[1]));
        }
        let workers = workers(config.workers, queues)?;
        config.workers = Some(workers);
        let complete_checksums =
            interfaces.iter().map(|interface| completes(rules.checksums, interface)).collect();
        let router = match routes {
            Some(routes) => {
                let wanted = wanted(&rules, signals, output.quiet)?;
                let router = router(routes, &interfaces, rules.ttl.unwrap_or(Ttl::Decrement), wanted)?;
                config.filter = Some(router.capture_filter());
                config.unmatched = Some(UnmatchedPolicy::Pass);
                // Each worker of a router makes packets: ICMP errors, and copies of packets that wait.
                config.allocators = workers as u16;
                Some(router)
            }
            None => {
                let selects = rules.pass.is_some() || rules.drop.is_some();
                config.unmatched = selects.then_some(UnmatchedPolicy::Drop);
                (config.filter, config.excluded) = (rules.pass.clone(), rules.drop.clone());
                None
            }
        };
        let rules =
            Rules { complete_checksums, wait: rules.on_full == FullRingPolicy::Wait, batch_times: true };
        let capture = Plan::new(config, output, known, sandbox)?.with_service(service);
        Ok(Self { capture, interfaces, rules, router, rewrite, warnings })
    }
}

/// Checks everything that does not depend on the machine. Without interfaces, which may come later, the rest
/// is checked.
///
/// # Errors
/// The first mistake.
pub(crate) fn check(settings: ForwardSettings, signals: &Signals) -> Result<()> {
    settings.check()?;
    let ForwardSettings { capture: mut config, forward: mut rules, output, .. } = settings;
    if config.ports.is_empty() {
        config.ports.extend(STAND_INS.map(PortSpec::from));
        // They name interfaces.
        (rules.set_source, rules.set_destination) = (Vec::new(), Vec::new());
    }
    complete(&mut config, &mut rules)?;
    let quiet = output.quiet;
    Plan::new(config, output, KnownInterfaces::default(), Sandbox::off())?;
    wanted(&rules, signals, quiet).map(drop)
}

/// Completes the settings, and reads what they name, without looking at an interface.
///
/// # Errors
/// [`Usage`] and [`RefusedSettings`].
fn complete(config: &mut Config, rules: &mut ForwardRules) -> Result<([Rewrite; 2], Option<Routes>)> {
    // libpcap takes an empty expression for all packets, but `--drop ""` is to drop nothing.
    for expression in [&mut rules.pass, &mut rules.drop] {
        *expression = expression.take().filter(|expression| !expression.trim().is_empty());
    }
    check_ports(&config.ports, rules)?;
    let ring = config.transmit_entries;
    ensure!(
        ring.is_power_of_two() && ring <= MAX_RING,
        RefusedSettings::value(
            Setting::TransmitEntries,
            format!("{ring} is no size of a ring: write a power of two up to {MAX_RING}, like 2048")
        )
    );
    config.ports = config.ports.drain(..).map(taken).collect::<Result<_>>()?;
    let rewrite = rewrite(&config.ports, rules)?;
    let routes = rules.route.as_deref().map(routes).transpose()?;
    Ok((rewrite, routes))
}

fn check_ports(ports: &[PortSpec], rules: &ForwardRules) -> Result<()> {
    let message = match (ports.len(), &rules.route) {
        (2, _) | (3.., Some(_)) => return Ok(()),
        (0, _) => return Err(wirecap::Error::NoPort.into()),
        (1, _) => {
            "forward is between two interfaces, and one is given; write wirecap forward eth1 eth2".into()
        }
        (many, _) => format!(
            "forward is between two interfaces, and {many} are given; write wirecap forward eth1 eth2, or route between them \
             with --route FILE"
        ),
    };
    Err(RefusedSettings::about(Setting::Ports.key(), message).into())
}

/// The port, with access by XDP, which forwarding needs.
///
/// # Errors
/// [`RefusedSettings`] for a trace file, and for access that leaves packets to the host.
pub(crate) fn taken(port: PortSpec) -> Result<PortSpec> {
    let reason = match port {
        PortSpec::Interface { name, access: Access::Auto | Access::Xdp, queues } => {
            return Ok(PortSpec::Interface { name, access: Access::Xdp, queues });
        }
        PortSpec::Interface { .. } => "the host would keep its packets, and each would exist twice",
        _ => "a trace file is sent with wirecap replay",
    };
    let message = format!("{port} cannot be forwarded: {reason}; name an interface");
    Err(RefusedSettings::about(Setting::Ports.key(), message).into())
}

/// The interfaces, each once, and the smallest number of queues that one of them can both receive by and send
/// from.
///
/// # Errors
/// [`Usage`] for interfaces between which nothing can be forwarded; an unknown interface.
pub(crate) fn look_up(
    ports: &[PortSpec],
    known: &mut KnownInterfaces,
    warnings: &mut Vec<ForwardWarning>,
) -> Result<(Vec<Interface>, usize)> {
    let mut interfaces: Vec<Interface> = Vec::new();
    let mut least = usize::MAX;
    for port in ports {
        let PortSpec::Interface { name, queues, .. } = port else { unreachable!("{port} was refused") };
        let interface = known.look_up(name).map_err(|error| match is_trace(name) {
            true => {
                usage!("{name} is not an interface; to send a trace file write wirecap replay {name}").into()
            }
            false => anyhow::Error::from(error),
        })?;
        ensure!(
            interfaces.iter().all(|other| other.ifindex != interface.ifindex),
            usage!("{} is given twice: packets would go round for ever; name two interfaces", interface.name)
        );
        if let Some(peer) = interfaces.iter().find(|other| interface.peer == Some(other.ifindex)) {
            bail!(usage!(
                "{} and {} are the two ends of a pair: packets would go round for ever; name two interfaces of different \
                 pairs",
                peer.name,
                interface.name
            ));
        }
        least = least.min(both_ways(&interface, queues.as_ref())?);
        if let Some(queues) = queues {
            warnings.extend(left_out(&interface, queues));
        }
        interfaces.push(interface);
    }
    Ok((interfaces, least))
}

/// A warning about queues of an interface that are not named, whose packets are not forwarded.
fn left_out(interface: &Interface, named: &QueueSet) -> Option<ForwardWarning> {
    let is_named = |&queue: &u32| named.iter().any(|name| u32::from(name) == queue);
    let others = (0..interface.queues.current).filter(|queue| !is_named(queue)).map(u64::from);
    let (interface, queues) = (interface.name.clone(), Vec::from_iter(others));
    (!queues.is_empty()).then_some(ForwardWarning::QueuesLeftOut { interface, queues })
}

/// A warning about different MTUs.
pub(crate) fn narrower(first: &Interface, second: &Interface) -> Option<ForwardWarning> {
    let (wide, narrow) = if first.mtu > second.mtu { (first, second) } else { (second, first) };
    (wide.mtu > narrow.mtu).then(|| ForwardWarning::NarrowerMtu {
        wide: wide.name.clone(),
        wide_mtu: wide.mtu,
        narrow: narrow.name.clone(),
        narrow_mtu: narrow.mtu,
    })
}

/// How many of the captured queues can also send.
fn both_ways(interface: &Interface, named: Option<&QueueSet>) -> Result<usize> {
    let sending = netdev::transmit_queues(&interface.name).map_err(wirecap::Error::from)?.unwrap_or(u32::MAX);
    let all = 0..interface.queues.current.max(1);
    let captured: Vec<u32> = match named {
        Some(queues) => queues.iter().map(u32::from).collect(),
        None => all.collect(),
    };
    let both = captured.iter().filter(|&&queue| queue < sending).count();
    ensure!(
        both > 0,
        usage!(
            "{}: none of these queues can send: it has {sending} transmit queues, numbered from 0",
            interface.name
        )
    );
    Ok(both)
}

/// The number of workers: each needs a transmit queue of every interface.
fn workers(wanted: Option<usize>, queues: usize) -> Result<usize> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let workers = wanted.unwrap_or(queues.min(cores));
    ensure!(
        workers <= queues,
        usage!(
            "--workers {workers}: each worker needs a queue of each interface that receives and sends, and one of them has \
             {queues}; use at most {queues}, or give it more queues (ethtool -L)"
        )
    );
    Ok(workers)
}

/// The changes of headers on a cable, by port that packets leave by.
fn rewrite(ports: &[PortSpec], rules: &ForwardRules) -> Result<[Rewrite; 2]> {
    if rules.route.is_some() {
        let of_cable = [
            ("--vlan", rules.vlan.is_some()),
            ("--set-source", !rules.set_source.is_empty()),
            ("--set-destination", !rules.set_destination.is_empty()),
        ];
        if let Some((flag, _)) = of_cable.into_iter().find(|(_, given)| *given) {
            bail!(usage!(
                "{flag} is for a cable: a router writes its own Ethernet headers; leave out {flag} or --route"
            ));
        }
    }
    let vlans = rules.vlan.clone().unwrap_or_default();
    let both = Rewrite { vlans, ttl: rules.ttl.unwrap_or_default(), ..Rewrite::default() };
    let mut rewrite = [both.clone(), both];
    for (port, address) in each_port(ports, "--set-source", &rules.set_source)? {
        rewrite[port].source = Some(address);
    }
    for (port, address) in each_port(ports, "--set-destination", &rules.set_destination)? {
        rewrite[port].destination = Some(address);
    }
    Ok(rewrite)
}

/// Parses values `IFACE=MAC`, each for another port.
fn each_port<T: FromStr<Err: Display>>(
    ports: &[PortSpec],
    flag: &str,
    values: &[String],
) -> Result<Vec<(usize, T)>> {
    let mut read: Vec<(usize, T)> = Vec::new();
    for value in values {
        let refused = |reason: String| usage!("{flag} {value}: {reason}");
        let example = format!("write {flag} {}=02:00:00:00:00:01", ports[0].name());
        let (name, address) = value.rsplit_once('=').ok_or_else(|| refused(example.clone()))?;
        let port = ports.iter().position(|port| port.name() == name);
        let port =
            port.ok_or_else(|| refused(format!("{name} is not one of the two interfaces; {example}")))?;
        if read.iter().any(|(other, _)| *other == port) {
            return Err(refused(format!("{name} already has an address; give one")).into());
        }
        read.push((port, address.parse().map_err(|cause| refused(format!("{cause}")))?));
    }
    Ok(read)
}

fn routes(path: &std::path::Path) -> Result<Routes> {
    let name = path.display();
    let text = text_file(path, "the routes", "write one route a line, as 10.0.0.0/8 dev eth1", ROUTES_MIB)?;
    text.parse().map_err(|error| usage!("{name}: {error}").into())
}

/// # Errors
/// [`Usage`] if the routes name a device that is not among the interfaces, or if an interface has no Ethernet
/// address.
fn router(routes: Routes, interfaces: &[Interface], ttl: Ttl, wanted: Option<Filter>) -> Result<Router> {
    let ports: Vec<_> = interfaces.iter().map(RouterPort::from).collect();
    let router = Router::new(routes, &ports, ttl).map_err(|error| match error {
        RouterError::UnknownDevice { .. } => usage!("--route: {error}; add it to the interfaces"),
        RouterError::NoDevice => usage!("--route: {error}"),
        error => Usage(error.to_string()),
    })?;
    Ok(match wanted {
        Some(filter) => router.with_filter(filter),
        None => router,
    })
}

/// The filter of packets that are forwarded, if not all are.
fn wanted(rules: &ForwardRules, signals: &Signals, quiet: bool) -> Result<Option<Filter>> {
    let (pass, drop) = (rules.pass.clone(), rules.drop.clone());
    let (ethernet, all) = (LINK_TYPE_ETHERNET, MAX_CAPTURED_LEN);
    if pass.is_none() && drop.is_none() {
        return Ok(None);
    }
    let compile = move || match drop {
        Some(drop) => Filter::compile_except(pass.as_deref(), &drop, ethernet, all),
        None => Filter::compile(&pass.unwrap_or_default(), ethernet, all),
    };
    Ok(Some(Step::compiling().run(signals, quiet, compile)?.map_err(wirecap::Error::Filter)?))
}

/// Drivers of interfaces over which hosts on the same machine send packets with incomplete checksums.
const INCOMPLETE: [&str; 2] = ["veth", "virtio_net"];

/// Whether checksums of packets from this interface may have to be completed.
fn completes(checksums: Checksums, interface: &Interface) -> bool {
    let driver = interface.driver.as_ref().map(|driver| driver.name.as_str());
    match checksums {
        Checksums::Auto => driver.is_some_and(|driver| INCOMPLETE.contains(&driver)),
        Checksums::Keep => false,
        Checksums::Complete => true,
    }
}
