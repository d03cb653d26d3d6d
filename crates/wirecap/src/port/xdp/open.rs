//! How an interface is opened over AF_XDP.
//!
//! ```text
//!   open: interface ── queues, MTU, features
//!     try  native XDP + zero-copy ─► native XDP + copy ─► generic XDP + copy     (each failure is kept and told)
//!       sockets of all queues, fill rings filled ─► bind ─► program loaded, sockets registered ─► link attached
//! ```

use std::{mem::take, sync::Arc};

use wirecap_core::{Geometry, geometry::MIN_CELLS_PER_CHUNK_MULTI_BUFFER};
use wirecap_sys::{
    bpf::{self, XdpMode},
    memory::{LivePool, PacketMemory},
    netdev::{self, Interface, Promiscuous},
    xsk::{BindMode, RingSizes, Socket, SocketConfig, Umem, XskError},
};

use super::{
    super::{QueueCounts, opening::OpenContext},
    XdpPort, XdpQueue,
    bind::Wanted,
    closing::Opening,
    frame_room::{self, cell_payload, longest_frame},
    shared::{Attachment, Attempts, Way},
    vlan_tags::{self, VlanTags},
};
use crate::{
    Diagnostic, Error, Rss,
    diagnostic::{Cause, KernelRefusal, ModeRefusal, TooLong},
    filter::{PlacedFilter, PortFilter},
    nic::{
        preflight,
        rss::SymmetricRss,
        stamping::{StampReader, Stamping},
    },
    program::{CaptureProgram, ProgramPlan, rx_hash::RxHashing, tags::Tags},
    report::{BeyondLimit, LengthLimit, QueueMode},
};

/// Sockets of other ports whose UMEM registration may be shared, with their modes.
pub(crate) type Sharable<'a> = &'a [(&'a XdpQueue, BindMode)];

/// How a port is opened, and what is wanted of its packets.
#[derive(Debug, Clone, Copy)]
struct OpenRequest<'a> {
    context: &'a OpenContext<'a>,
    filter: Option<&'a PortFilter>,
    prepared: &'a Prepared,
}

/// What the program does to packets beside choosing them, as far as it can be done.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) stamping: Option<Stamping>,
    pub(crate) tags: VlanTags,
    pub(crate) hashing: Option<RxHashing>,
}

/// Opens an interface with one socket for each of `pools`, whose `ring_id` names the queue. These are all queues, unless
/// it is `shared` with other processes.
pub(crate) fn open(
    interface: &Interface,
    shared: bool,
    pools: &mut [LivePool],
    memories: &[Arc<PacketMemory>],
    (context, filter): (&OpenContext<'_>, Option<&PortFilter>),
    sharable: Sharable<'_>,
) -> Result<(XdpPort, Vec<XdpQueue>), Error> {
    preflight::check_kind(interface)?;
    // Before anything is set on the NIC: another's capture must not feel that this one is refused.
    way_of(interface, shared, pools)?;
    let config = context.config;
    let hashing = config.rx_hash.then(|| RxHashing::prepare(interface)).transpose()?;
    let prepared = Prepared {
        hashing,
        stamping: Stamping::prepare(interface, config.timestamp, config.stamp_packets)?,
        tags: VlanTags::prepare(interface, shared),
    };
    open_prepared(interface, shared, pools, memories, (context, filter, prepared), sharable)
}

/// Opens an interface that was found fit for XDP, for packets that are handled as prepared.
pub(crate) fn open_prepared(
    interface: &Interface,
    shared: bool,
    pools: &mut [LivePool],
    memories: &[Arc<PacketMemory>],
    (context, filter, mut prepared): (&OpenContext<'_>, Option<&PortFilter>, Prepared),
    sharable: Sharable<'_>,
) -> Result<(XdpPort, Vec<XdpQueue>), Error> {
    let promiscuous = if context.config.promiscuous { Some(promiscuous(interface)?) } else { None };
    let rss = (context.config.rss == Rss::Symmetric).then(|| SymmetricRss::set(interface)).transpose()?;
    let mut attempts = Attempts::new();
    let (mut port, queues) = loop {
        let way = way_of(interface, shared, pools)?;
        let request = OpenRequest { context, filter, prepared: &prepared };
        match open_by(&way, interface, pools, memories, request, sharable) {
            // Somebody else became the founder just before us.
            Err(Error::Program { source: bpf::Error::Busy { .. }, .. }) if shared && attempts.again() => {
                take_back(pools);
            }
            opened => break opened?,
        }
    };
    let told = prepared.stamping.iter_mut().flat_map(|stamping| take(&mut stamping.fallbacks));
    port.fallbacks.extend(told);
    Ok((XdpPort { promiscuous, rss, stamping: prepared.stamping.map(Box::new), ..port }, queues))
}

/// How the interface can be had, if it can.
fn way_of(interface: &Interface, shared: bool, pools: &[LivePool]) -> Result<Way, Error> {
    let queues = pools.iter().map(|pool| pool.id().ring_id);
    if shared { Way::of_queues(interface, queues) } else { Way::of_whole(interface) }
}

fn open_by(
    way: &Way,
    interface: &Interface,
    pools: &mut [LivePool],
    memories: &[Arc<PacketMemory>],
    request: OpenRequest<'_>,
    sharable: Sharable<'_>,
) -> Result<(XdpPort, Vec<XdpQueue>), Error> {
    let geometry = pools[0].geometry();
    let large_frames = longest_frame(interface) > cell_payload(geometry);
    let can_split = geometry.cells_per_chunk() >= MIN_CELLS_PER_CHUNK_MULTI_BUFFER;
    let mut failures = Vec::new();
    // Losing nothing comes before speed: all modes are tried with split packets first.
    for &multi_buffer in if large_frames && can_split { &[true, false][..] } else { &[false] } {
        if large_frames && !multi_buffer {
            failures.push(unsplit(geometry, can_split));
        }
        for &(xdp_mode, bind_mode) in request.context.config.xdp_mode.attempts() {
            if let Some(refused) = way.refuses(xdp_mode) {
                // The same for zero-copy and copy.
                if !failures.contains(&refused) {
                    failures.push(refused);
                }
                continue;
            }
            let unhashed = request.prepared.hashing.is_some() && xdp_mode == XdpMode::Generic;
            let refused = frame_room::refuses(interface, geometry, bind_mode)
                .or_else(|| unhashed.then_some(ModeRefusal::NoRxHash));
            if let Some(reason) = refused {
                let mode = QueueMode::of(xdp_mode, bind_mode);
                let unavailable = Diagnostic::ModeUnavailable { mode, several_cells: false, reason };
                if !failures.contains(&unavailable) {
                    failures.push(unavailable);
                }
                continue;
            }
            let tags = request.prepared.tags.in_mode(xdp_mode);
            let mut attempt =
                Attempt { way, interface, memories, request, xdp_mode, bind_mode, multi_buffer, tags };
            let mut not_put_back = request.prepared.tags.reason().cloned();
            let mut run = attempt.run(pools, sharable);
            if let Some(reason) = run.as_ref().err().and_then(|error| attempt.is_for_tags(error)) {
                not_put_back = Some(reason);
                take_back(pools);
                attempt.tags = None;
                run = attempt.run(pools, sharable);
            }
            match run {
                Ok(Opened { link, queues, filter, hash_at }) => {
                    failures.extend(filter.fallbacks);
                    failures.extend(way.restriction(multi_buffer));
                    if attempt.tags.is_none() {
                        failures.extend(not_put_back.map(|cause| Diagnostic::VlanTagsNotPutBack { cause }));
                        failures.extend(vlan_tags::lost(interface));
                    }
                    let port = XdpPort {
                        link: Some(link),
                        program: Arc::clone(&queues[0].program),
                        mode: QueueMode::of(xdp_mode, queues[0].bind_mode()),
                        fallbacks: failures,
                        multi_buffer,
                        length_limit: (large_frames && !multi_buffer).then(|| length_limit(geometry)),
                        promiscuous: None,
                        filter: filter.runs,
                        rss: None,
                        stamping: None,
                        puts_tags_back: attempt.tags.is_some(),
                        hash_at,
                    };
                    return Ok((port, queues));
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

/// Takes the cells back from the sockets of a failed attempt, which are closed.
fn take_back(pools: &mut [LivePool]) {
    for pool in pools {
        let is_back = pool.renew();
        debug_assert!(is_back, "nothing else has the socket, and nothing was handed over");
    }
}

/// The first candidate that has the mode, and the memory.
fn with_mode<Q: Copy>(
    candidates: &[(Q, BindMode)],
    mode: BindMode,
    has_memory: impl Fn(Q) -> bool,
) -> Option<Q> {
    candidates
        .iter()
        .find(|(candidate, of)| *of == mode && has_memory(*candidate))
        .map(|&(candidate, _)| candidate)
}

fn length_limit(geometry: Geometry) -> LengthLimit {
    LengthLimit { bytes: cell_payload(geometry), beyond: BeyondLimit::Lost }
}

/// That frames longer than a cell are lost, and why.
fn unsplit(geometry: Geometry, can_split: bool) -> Diagnostic {
    let reason = if can_split {
        TooLong::NotSplit { cell_bytes: geometry.cell_bytes() }
    } else {
        let (cells_per_chunk, least) = (geometry.cells_per_chunk(), MIN_CELLS_PER_CHUNK_MULTI_BUFFER);
        TooLong::SmallChunks { cells_per_chunk, least }
    };
    Diagnostic::PacketsTooLong { limit: length_limit(geometry), reason }
}

fn promiscuous(interface: &Interface) -> Result<Promiscuous, Error> {
    Promiscuous::enable(interface.ifindex).map_err(|error| match error {
        netdev::Error::NotPermitted { .. } => Error::not_permitted(error),
        error => Error::Interface(error),
    })
}

struct Attempt<'a> {
    way: &'a Way,
    interface: &'a Interface,
    /// By pool.
    memories: &'a [Arc<PacketMemory>],
    request: OpenRequest<'a>,
    xdp_mode: XdpMode,
    bind_mode: BindMode,
    multi_buffer: bool,
    tags: Option<Tags>,
}

/// What came of an attempt.
struct Opened {
    link: Attachment,
    queues: Vec<XdpQueue>,
    filter: PlacedFilter,
    hash_at: Option<u32>,
}

impl Attempt<'_> {
    fn run(&self, pools: &mut [LivePool], sharable: Sharable<'_>) -> Result<Opened, Error> {
        let geometry = pools[0].geometry();
        let program_error = |source| self.program_error(source);
        let queues = self.interface.queues.max.max(self.interface.queues.current);
        let hook = self.way.hook(queues, self.multi_buffer).map_err(program_error)?;
        let plan = ProgramPlan {
            queues,
            captured: if hook.share().is_some() { queues + 1 } else { pools.len() as u32 },
            longest_frame: (!self.multi_buffer).then(|| cell_payload(geometry)),
            share: hook.share(),
            stamping: self.request.prepared.stamping.as_ref(),
            tags: self.tags,
            hashing: self.request.prepared.hashing,
        };
        let (program, not_in_kernel) = self.load(plan)?;
        let filter = PlacedFilter::new(self.request.filter, not_in_kernel, plan.frags());
        let program = Arc::new(program);

        let mut opened = Opening::default();
        for (pool, memory) in pools.iter_mut().zip(self.memories) {
            self.request.context.hooks.gives_up.check()?;
            let umem = self.umem(memory, opened.queues(), sharable);
            let socket = self.open_socket(pool, umem)?;
            let queue = u32::from(pool.id().ring_id);
            program.set_socket(queue, &socket).map_err(program_error)?;
            let (program, last) = (Arc::clone(&program), QueueCounts::default());
            let (sieve, stamps) = (filter.sieve(geometry.cells_per_pool()), StampReader::new(plan.stamping));
            let multi_buffer = self.multi_buffer;
            opened.push(XdpQueue { entry: None, socket, program, queue, multi_buffer, sieve, stamps, last });
        }
        for queue in opened.queues_mut() {
            queue.entry = hook.entry(queue.queue, &program.program).map_err(program_error)?;
        }
        let entries = opened.queues().iter().filter_map(|queue| queue.entry.as_ref());
        let link = hook.attach(&program.program, self.interface.ifindex, self.xdp_mode, entries);
        let link = link.map_err(program_error)?;
        Ok(Opened { link, queues: opened.finish(), filter, hash_at: plan.hash_at() })
    }

    /// Where a socket has its memory from. Another port's registration serves if it has the mode that is wanted here; sharing
    /// would impose its mode otherwise. Multi-buffer is part of the registration, too.
    fn umem<'u>(
        &self,
        memory: &'u Arc<PacketMemory>,
        opened: &'u [XdpQueue],
        sharable: Sharable<'u>,
    ) -> Umem<'u> {
        let own = opened.iter().find(|queue| queue.socket.has_memory(memory));
        let other = || with_mode(sharable, self.bind_mode, |queue| queue.socket.has_memory(memory));
        match own.or_else(|| if self.multi_buffer { None } else { other() }) {
            Some(first) => Umem::Share(&first.socket),
            None => Umem::Register(memory),
        }
    }

    /// Loads the program, with the filter in it if the kernel takes it; else with the reason.
    fn load(&self, plan: ProgramPlan<'_>) -> Result<(CaptureProgram, Option<KernelRefusal>), Error> {
        let with_filter = self.request.filter.map(|filter| CaptureProgram::load_with_filter(plan, filter));
        let not_in_kernel = match with_filter {
            Some(Ok(program)) => return Ok((program, None)),
            Some(Err(error)) => Some(KernelRefusal::from(&error)),
            None => None,
        };
        // If it was not for the filter, it fails again.
        let program = CaptureProgram::load(plan).map_err(|source| self.program_error(source))?;
        Ok((program, not_in_kernel))
    }

    fn open_socket(&self, pool: &mut LivePool, umem: Umem<'_>) -> Result<Socket, Error> {
        let (context, socket_error) =
            (self.request.context, |source| socket_error(&self.interface.name, source));
        let config = SocketConfig {
            ifindex: self.interface.ifindex,
            queue_id: u32::from(pool.id().ring_id),
            headroom: 0,
            rings: match context.config.transmit_entries {
                0 => RingSizes::receiving(context.ring_entries),
                transmit => RingSizes::both(context.ring_entries, transmit),
            }
            .map_err(socket_error)?,
            multi_buffer: self.multi_buffer,
        };
        pool.allow_runs(if self.multi_buffer { MIN_CELLS_PER_CHUNK_MULTI_BUFFER } else { 1 });
        let mut socket = Socket::create(config, umem).map_err(socket_error)?;
        socket.attach(pool);
        let queue = pool.id().ring_id;
        let wanted = Wanted { interface: self.interface, queue, way: self.way, hooks: context.hooks };
        wanted.bind(&mut socket, self.bind_mode)?;
        Ok(socket)
    }

    /// Whether another mode would fail in the same way.
    fn is_final(&self, error: &Error) -> bool {
        match error {
            Error::NotPermitted { .. }
            | Error::GivenUp
            | Error::Held { .. }
            | Error::Shared { .. }
            | Error::QueueTaken { .. }
            | Error::TakenWhole { .. }
            | Error::JoinNotPermitted { .. } => true,
            Error::Socket { source, .. } => matches!(
                source,
                XskError::Busy { .. }
                    | XskError::MemoryLockLimit { .. }
                    | XskError::RingMemory { .. }
                    | XskError::NotSupported
            ),
            Error::Program { source, .. } => match source {
                bpf::Error::Busy { .. } => true,
                // Kernels before 5.18 refuse any program for packets of several buffers.
                bpf::Error::Rejected { .. } => !self.multi_buffer,
                _ => false,
            },
            _ => false,
        }
    }

    /// Why VLAN tags cannot be put back, if the attempt may have failed for that: the kernel did not take the
    /// program that does it, or the device did not.
    fn is_for_tags(&self, error: &Error) -> Option<Cause> {
        match error {
            Error::Program { source: bpf::Error::Busy { .. }, .. } => None,
            Error::Program { source, .. } => self.tags.map(|_| Cause::words(source.to_string())),
            _ => None,
        }
    }

    /// Why the next mode is tried.
    fn failure(&self, error: Error) -> Diagnostic {
        let reason = match error {
            Error::Socket { source, .. } if source.is_unsupported() => ModeRefusal::NotOffered,
            Error::Socket { source, .. } => ModeRefusal::Failed(source.into()),
            Error::Program { source, .. } => ModeRefusal::Failed(source.into()),
            error => ModeRefusal::Failed(error.into()),
        };
        let mode = QueueMode::of(self.xdp_mode, self.bind_mode);
        Diagnostic::ModeUnavailable { mode, several_cells: self.multi_buffer, reason }
    }

    fn program_error(&self, source: bpf::Error) -> Error {
        match source {
            bpf::Error::NotPermitted { .. } => Error::not_permitted(source),
            source => Error::Program { name: self.interface.name.clone(), source },
        }
    }
}

/// What the failure to set up a socket means to the user.
pub(super) fn socket_error(interface: &str, source: XskError) -> Error {
    match source {
        XskError::NotPermitted => Error::not_permitted(source),
        source => Error::Socket { name: interface.into(), source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_of_the_right_mode_is_found_behind_one_of_the_other() {
        let ports = [("first", BindMode::ZeroCopy), ("second", BindMode::Copy), ("third", BindMode::Copy)];
        assert_eq!(with_mode(&ports, BindMode::Copy, |_| true), Some("second"));
        assert_eq!(with_mode(&ports, BindMode::Copy, |port| port != "second"), Some("third"));
        assert_eq!(with_mode(&ports[1..], BindMode::ZeroCopy, |_| true), None);
    }
}
