//! How an interface is opened over AF_XDP.
//!
//! ```text
//!   open: interface ── queues, MTU, features
//!     try  native XDP + zero-copy ─► native XDP, packed ─► native XDP + copy ─► generic XDP + copy     (each failure is kept and reported)
//!       sockets of all queues, fill rings filled ─► bind ─► program loaded, sockets registered ─► link attached     attempt.rs
//!       or blocks of all queues ─► program loaded ─► link attached
//! ```

use std::mem::take;

use wirecap_core::{Geometry, geometry::MIN_CELLS_PER_CHUNK_MULTI_BUFFER};
use wirecap_file::LINK_TYPE_ETHERNET;
use wirecap_sys::{
    bpf::{self, XdpMode},
    netdev::{self, Interface, PromiscuousMode},
    xsk::BindMode,
};

use super::{
    attempt::{Attempt, AttemptQueues, AttemptResult, Delivery, ProgramFeatures, XdpOpener},
    backend::XdpBackend,
    frame_room::cell_payload,
    shared::{AttachPlan, Attempts},
    upkeep::Upkeep,
};
use crate::{
    Diagnostic, Error, Modes, Rss,
    diagnostic::LengthLimitReason,
    nic::{link::longest_frame, preflight, rss, stamping::Stamping},
    port::{
        contract::{PoolMaker, PortPools},
        open_port::OpenPort,
        vlan_tags,
    },
    program::rx_hash::RxHashing,
    report::{LengthLimit, LengthLimitPolicy, PortReport, QueueMode},
};

impl Modes {
    fn attempts(self) -> &'static [(XdpMode, Delivery)] {
        const ALL: &[(XdpMode, Delivery)] = &[
            (XdpMode::Native, Delivery::Socket(BindMode::ZeroCopy)),
            (XdpMode::Native, Delivery::Packed),
            (XdpMode::Native, Delivery::Socket(BindMode::Copy)),
            (XdpMode::Generic, Delivery::Socket(BindMode::Copy)),
        ];
        match self {
            Modes::Best => ALL,
            Modes::ZeroCopy => &ALL[..1],
            Modes::Packed => &ALL[1..2],
            Modes::Copy => &ALL[2..3],
            Modes::Generic => &ALL[3..],
        }
    }
}

/// An interface that is open.
#[derive(Debug)]
pub(crate) struct OpenXdpPort {
    pub(crate) port: OpenPort,
    pub(crate) backend: XdpBackend,
    pub(crate) queues: AttemptQueues,
    /// How far in front of a packet the NIC's hash of it begins, in bytes, if it has one.
    pub(crate) hash_at: Option<u32>,
}

impl XdpOpener<'_> {
    /// Opens each queue and attaches the program. A queue with a socket takes one of `pools`; if there are
    /// none and packets are not packed, the port allocates them.
    pub(crate) fn open(self, pools: &mut PortPools) -> Result<OpenXdpPort, Error> {
        let Self { interface, shared, request, .. } = self;
        let config = request.context.config;
        preflight::check_kind(interface)?;
        // Before anything is set on the NIC: a refusal must not disturb another process's capture.
        self.attach_plan()?;
        let hashing = config.rx_hash.then(|| RxHashing::prepare(interface)).transpose()?;
        // A packed packet has room for its time, and a worker that need not look often saves more than it
        // costs.
        let by_default = config.stamp_packets || request.facts.pools == PoolMaker::Packed;
        let stamping = Stamping::prepare(interface, config.timestamp, by_default)?;
        let tags = vlan_tags::prepare(interface, shared);
        self.open_prepared(ProgramFeatures { stamping, tags, hashing }, pools)
    }

    /// Opens an interface that can be captured over AF_XDP, for packets that are handled as prepared.
    pub(crate) fn open_prepared(
        self,
        mut prepared: ProgramFeatures,
        pools: &mut PortPools,
    ) -> Result<OpenXdpPort, Error> {
        let Self { interface, shared, request, .. } = self;
        let config = request.context.config;
        let promiscuous = if config.promiscuous { Some(promiscuous(interface)?) } else { None };
        let rss = (config.rss == Rss::Symmetric).then(|| rss::set(interface)).transpose()?;
        let mut attempts = Attempts::new();
        let mut opened = loop {
            let plan = self.attach_plan()?;
            match self.open_by(&plan, &prepared, pools) {
                // Another process became the founder just before this one.
                Err(Error::Program { source: bpf::Error::Busy { .. }, .. }) if shared && attempts.again() => {
                    take_back(pools);
                }
                opened => break opened?,
            }
        };
        let fallbacks = prepared.stamping.iter_mut().flat_map(|stamping| take(&mut stamping.fallbacks));
        opened.port.report.fallbacks.extend(fallbacks);
        if let Some(stamping) = &prepared.stamping {
            opened.port.report.timestamp = stamping.report();
        }
        opened.backend = XdpBackend { promiscuous, rss, stamping: prepared.stamping, ..opened.backend };
        Ok(opened)
    }

    /// How the program gets to its packets, if it can.
    fn attach_plan(self) -> Result<AttachPlan, Error> {
        let queues = self.request.facts.rings.iter().copied();
        if self.shared {
            AttachPlan::of_queues(self.interface, queues)
        } else {
            AttachPlan::of_whole(self.interface)
        }
    }

    /// Tries the modes, the best first.
    fn open_by(
        self,
        plan: &AttachPlan,
        prepared: &ProgramFeatures,
        pools: &mut PortPools,
    ) -> Result<OpenXdpPort, Error> {
        let interface = self.interface;
        let geometry = self.request.context.geometry;
        let large_frames = longest_frame(interface) > cell_payload(geometry);
        let can_split = geometry.cells_per_chunk() >= MIN_CELLS_PER_CHUNK_MULTI_BUFFER;
        let mut failures = Vec::new();
        let attempts = self.request.context.config.xdp_mode.attempts();
        // A block holds the longest packet, so packing is tried once: split packets make no difference to it.
        let can_try = |multi_buffer: bool, delivery| match delivery {
            Delivery::Packed => multi_buffer == large_frames,
            Delivery::Socket(_) => !multi_buffer || (large_frames && can_split),
        };
        // Losing nothing comes before speed: all modes are tried with split packets first.
        for multi_buffer in [true, false] {
            let fitting = attempts.iter().filter(|(_, delivery)| can_try(multi_buffer, *delivery));
            let mut fitting = fitting.peekable();
            if large_frames && !multi_buffer && fitting.peek().is_some() {
                failures.push(unsplit(geometry, can_split));
            }
            for &(xdp_mode, delivery) in fitting {
                // Only where the driver runs the program: see `vlan_tags::prepare`.
                let tags = prepared.tags.as_ref().ok().filter(|_| xdp_mode == XdpMode::Native).copied();
                let mut attempt =
                    Attempt { opener: self, plan, prepared, xdp_mode, delivery, multi_buffer, tags };
                if let Some(refused) = attempt.refused(geometry) {
                    // The same for zero-copy and copy.
                    if !failures.contains(&refused) {
                        failures.push(refused);
                    }
                    continue;
                }
                let mut not_put_back = match xdp_mode {
                    XdpMode::Native => prepared.tags.as_ref().err().cloned().flatten(),
                    XdpMode::Generic => vlan_tags::unseen_in_generic_mode(interface),
                };
                if delivery != Delivery::Packed && pools.pools.is_empty() {
                    // Released first: there is never memory for both.
                    pools.blocks = None;
                    *pools = PortPools::allocate(&self.request)?;
                }
                let mut run = attempt.run(pools);
                let for_tags = run.as_ref().err().filter(|_| attempt.tags.is_some());
                if let Some(reason) = for_tags.and_then(vlan_tags::blame) {
                    not_put_back = Some(reason);
                    take_back(pools);
                    attempt.tags = None;
                    run = attempt.run(pools);
                }
                match run {
                    Ok(mut result) => {
                        failures.append(&mut result.filter.fallbacks);
                        failures.extend(plan.restriction(multi_buffer));
                        if attempt.tags.is_none() {
                            failures
                                .extend(not_put_back.map(|cause| Diagnostic::VlanTagsNotPutBack { cause }));
                            failures.extend(vlan_tags::lost(interface));
                        }
                        let mut opened = self.opened(&attempt, result, failures);
                        let limit = (large_frames && !multi_buffer).then(|| length_limit(geometry));
                        opened.port.report.length_limit = limit;
                        return Ok(opened);
                    }
                    Err(error) if attempt.is_final(&error) => return Err(error),
                    Err(error) => {
                        failures.push(attempt.failure(error));
                        take_back(pools);
                    }
                }
            }
        }
        Err(Error::NoMode { name: interface.name.clone(), attempts: failures })
    }

    /// The port that an attempt has made. Promiscuous mode and the NIC's settings are still missing.
    fn opened(self, attempt: &Attempt<'_>, result: AttemptResult, fallbacks: Vec<Diagnostic>) -> OpenXdpPort {
        let AttemptResult { link, program, queues, claims, filter, hash_at } = result;
        let mode = queues.mode(attempt.xdp_mode);
        let features = self.interface.xdp_features;
        let max_parts = features.and_then(|features| features.zero_copy_max_segments);
        let mut port = OpenPort::new(&self.request.facts.name, mode, LINK_TYPE_ETHERNET);
        port.max_parts = max_parts.filter(|_| mode == QueueMode::ZeroCopy).unwrap_or(u32::MAX);
        port.report = PortReport {
            filter: self.request.filter.zip(filter.runs).map(|(filter, runs)| filter.report(runs)),
            fallbacks,
            untagged: attempt.tags.map(|_| 0),
            unhashed: hash_at.map(|_| 0),
            multi_buffer: attempt.multi_buffer,
            ..port.report
        };
        let (promiscuous, rss, stamping, upkeep) = (None, None, None, Upkeep::default());
        let backend = XdpBackend { link: Some(link), claims, program, promiscuous, rss, stamping, upkeep };
        OpenXdpPort { port, backend, queues, hash_at }
    }
}

/// Takes the cells back from the sockets of a failed attempt, which are closed.
fn take_back(pools: &mut PortPools) {
    for pool in &mut pools.pools {
        let is_back = pool.renew();
        debug_assert!(is_back, "nothing else has the socket, and nothing was handed over");
    }
}

fn length_limit(geometry: Geometry) -> LengthLimit {
    LengthLimit { bytes: cell_payload(geometry), beyond: LengthLimitPolicy::Lost }
}

/// That frames longer than a cell are lost, and why.
fn unsplit(geometry: Geometry, can_split: bool) -> Diagnostic {
    let reason = if can_split {
        LengthLimitReason::NotSplit { cell_bytes: geometry.cell_bytes() }
    } else {
        let (cells_per_chunk, least) = (geometry.cells_per_chunk(), MIN_CELLS_PER_CHUNK_MULTI_BUFFER);
        LengthLimitReason::SmallChunks { cells_per_chunk, least }
    };
    Diagnostic::PacketsTooLong { limit: length_limit(geometry), reason }
}

fn promiscuous(interface: &Interface) -> Result<PromiscuousMode, Error> {
    PromiscuousMode::enable(interface.ifindex).map_err(|error| match error {
        netdev::Error::NotPermitted { .. } => Error::NotPermitted(error.to_string()),
        error => Error::Interface(error),
    })
}
