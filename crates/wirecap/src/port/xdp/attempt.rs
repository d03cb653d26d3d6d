//! One attempt to open an interface: a mode, with packets of several cells or without.
//!
//! Rule: an attempt that fails closes its sockets. The cells that the kernel had are then taken back.

use std::sync::Arc;

use wirecap_core::{Geometry, PoolId, geometry::MIN_CELLS_PER_CHUNK_MULTI_BUFFER};
use wirecap_sys::{
    bpf::{self, FrameLength, XdpMode},
    memory::{LivePool, PacketMemory},
    netdev::Interface,
    packed::MAX_PACKET_BYTES,
    xsk::{BindMode, Registration, RingSizes, Socket, SocketConfig, Umem, XskError},
};

use super::{
    claim::QueueClaim,
    frame_room::{self, cell_payload},
    members,
    opening_sockets::OpeningSockets,
    packing,
    placed_filter::PlacedFilter,
    queue::XdpQueue,
    shared::{AttachPlan, Attachment},
};
use crate::{
    Diagnostic, Error, Modes,
    diagnostic::{KernelRefusal, ModeRefusal, PackingRefusal},
    nic::stamping::Stamping,
    port::{
        contract::{OpenRequest, PoolMaker, PortPools, allocate_blocks, packed_error},
        packed_queue::PackedQueue,
        queue::{OpenQueue, QueueCounts},
        stamp_reader::StampReader,
        vlan_tags::VlanTags,
    },
    program::{CaptureProgram, Outlet, Packing, ProgramPlan, rx_hash::RxHashing, tags::Tags},
    report::{QueueMode, has_numbers},
};

/// An interface that is being opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct XdpOpener<'a> {
    pub(crate) request: OpenRequest<'a>,
    pub(crate) interface: &'a Interface,
    /// Other processes may have the queues that this port has not.
    pub(crate) shared: bool,
}

/// What the program does to packets besides choosing them.
#[derive(Debug)]
pub(crate) struct ProgramFeatures {
    pub(crate) stamping: Option<Stamping>,
    pub(crate) tags: VlanTags,
    pub(crate) hashing: Option<RxHashing>,
}

/// One mode that is tried.
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    pub(super) opener: XdpOpener<'a>,
    pub(super) plan: &'a AttachPlan,
    pub(super) prepared: &'a ProgramFeatures,
    pub(super) xdp_mode: XdpMode,
    pub(super) delivery: Delivery,
    pub(super) multi_buffer: bool,
    pub(super) tags: Option<Tags>,
}

/// How packets get from the program to this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    /// By a socket of this mode for each queue.
    Socket(BindMode),
    /// In blocks, into which the program packs them.
    Packed,
}

impl Delivery {
    fn mode(self, xdp: XdpMode) -> QueueMode {
        match self {
            Delivery::Socket(bind) => QueueMode::of(xdp, bind),
            Delivery::Packed => QueueMode::Packed,
        }
    }

    /// The longest frame that comes whole in one buffer.
    fn longest_frame(self, geometry: Geometry) -> u32 {
        match self {
            Delivery::Socket(_) => cell_payload(geometry),
            Delivery::Packed => MAX_PACKET_BYTES,
        }
    }
}

/// The queues that an attempt has opened, in the order of the port's rings.
#[derive(Debug)]
pub(crate) enum AttemptQueues {
    /// Each with a socket, for the pools of the port.
    Sockets(Vec<XdpQueue>),
    /// Each with a pool of blocks.
    Packed(Vec<OpenQueue>),
}

impl AttemptQueues {
    /// The mode of all of them.
    pub(super) fn mode(&self, xdp: XdpMode) -> QueueMode {
        match self {
            AttemptQueues::Sockets(queues) => QueueMode::of(xdp, queues[0].bind_mode()),
            AttemptQueues::Packed(_) => QueueMode::Packed,
        }
    }
}

/// The result of an attempt.
#[derive(Debug)]
pub(super) struct AttemptResult {
    pub(super) link: Attachment,
    pub(super) program: Arc<CaptureProgram>,
    pub(super) queues: AttemptQueues,
    /// Claims to packed queues of a shared interface.
    pub(super) claims: Vec<QueueClaim>,
    pub(super) filter: PlacedFilter,
    pub(super) hash_at: Option<u32>,
}

impl Attempt<'_> {
    pub(super) fn run(&self, pools: &mut PortPools) -> Result<AttemptResult, Error> {
        let facts = self.opener.request.facts;
        let geometry = self.opener.request.context.geometry;
        let program_error = |source| self.program_error(source);
        let queues = self.opener.interface.queues.max.max(self.opener.interface.queues.current);
        let hook = self.plan.hook(queues, self.multi_buffer).map_err(program_error)?;
        let plan = ProgramPlan {
            queues,
            captured: if hook.share().is_some() { queues + 1 } else { facts.rings.len() as u32 },
            longest_frame: (!self.multi_buffer).then(|| self.delivery.longest_frame(geometry)),
            share: hook.share(),
            length: FrameLength::of_kernel(),
            stamping: self.prepared.stamping.as_ref().map(|stamping| stamping.asked),
            tags: self.tags,
            hashing: self.prepared.hashing,
        };
        let packing = match self.delivery {
            Delivery::Socket(_) => None,
            Delivery::Packed => Some(self.packing(pools)?),
        };
        let (program, not_in_kernel) = self.load(plan, packing.as_ref())?;
        let filter = PlacedFilter::new(self.opener.request.filter, not_in_kernel, plan.frags());
        let program = Arc::new(program);
        // Claims come before entries: a queue that another process has is refused before the table is
        // touched.
        let mut claims = match self.delivery {
            Delivery::Packed if hook.share().is_some() => self.claim_queues()?,
            _ => Vec::new(),
        };
        let packed = packing.map(|packing| self.open_packed(&packing, &program, &filter)).transpose()?;
        let mut sockets = match self.delivery {
            Delivery::Socket(mode) => self.open_sockets(mode, pools, &program, &filter)?,
            Delivery::Packed => OpeningSockets::default(),
        };
        for queue in &mut sockets.queues {
            queue.entry = hook.entry(queue.queue, program.entrance()).map_err(program_error)?;
        }
        for claim in &mut claims {
            claim.entry = hook.entry(claim.queue, program.entrance()).map_err(program_error)?;
        }
        let entries = sockets.queues.iter().filter_map(|queue| queue.entry.as_ref());
        let entries = entries.chain(claims.iter().filter_map(|claim| claim.entry.as_ref()));
        let link = hook.attach(&program.program, self.opener.interface.ifindex, self.xdp_mode, entries);
        let link = link.map_err(program_error)?;
        let queues = packed.map_or_else(|| AttemptQueues::Sockets(sockets.finish()), AttemptQueues::Packed);
        Ok(AttemptResult { link, program, queues, claims, filter, hash_at: plan.hash_at() })
    }

    /// Where packets are packed. The streams of an attempt that failed were opened: another one needs new
    /// blocks.
    fn packing(&self, pools: &mut PortPools) -> Result<Packing, Error> {
        let OpenRequest { facts, nic_id, context, .. } = self.opener.request;
        let blocks = pools.blocks.take();
        let allocate = || allocate_blocks(facts, context.geometry, &context.hooks.give_up);
        Ok(Packing {
            memory: blocks.map_or_else(allocate, Ok)?,
            interface: nic_id.into(),
            names_queue: has_numbers(facts.rings.iter().copied()),
            has_hashes: self.prepared.hashing.is_some(),
            to_utc: self.prepared.stamping.as_ref().is_some_and(Stamping::is_for_programs),
        })
    }

    /// Opens a socket for each pool.
    fn open_sockets(
        &self,
        mode: BindMode,
        pools: &mut PortPools,
        program: &Arc<CaptureProgram>,
        filter: &PlacedFilter,
    ) -> Result<OpeningSockets, Error> {
        let mut opened = OpeningSockets::default();
        for (pool, memory) in pools.pools.iter_mut().zip(&pools.memories) {
            self.opener.request.context.hooks.give_up.check()?;
            let registration = self.registration(mode, memory, &opened.queues);
            let umem = registration.as_ref().map_or(Umem::Register(memory), Umem::Share);
            let socket = self.open_socket(mode, pool, umem)?;
            let queue = u32::from(pool.id().ring_id);
            program.set_socket(queue, &socket).map_err(|source| self.program_error(source))?;
            opened.queues.push(XdpQueue {
                entry: None,
                socket,
                program: Arc::clone(program),
                queue,
                multi_buffer: self.multi_buffer,
                sieve: filter.sieve(pool.geometry().cells_per_pool()),
                stamps: StampReader::new(self.prepared.stamping.as_ref()),
                last: QueueCounts::default(),
            });
        }
        Ok(opened)
    }

    /// Binds a socket to each queue.
    fn claim_queues(&self) -> Result<Vec<QueueClaim>, Error> {
        let memory = Arc::new(QueueClaim::memory()?);
        let claim = |&ring_id| {
            self.opener.request.context.hooks.give_up.check()?;
            let ifindex = self.opener.interface.ifindex;
            let socket = QueueClaim::socket(&memory, ifindex, ring_id);
            let mut socket = socket.map_err(|source| self.socket_error(source))?;
            self.bind(ring_id, BindMode::Copy, &mut socket)?;
            Ok(QueueClaim::new(socket, ring_id))
        };
        self.opener.request.facts.rings.iter().map(claim).collect()
    }

    /// Opens a stream for each queue.
    fn open_packed(
        &self,
        packing: &Packing,
        program: &Arc<CaptureProgram>,
        filter: &PlacedFilter,
    ) -> Result<Vec<OpenQueue>, Error> {
        let OpenRequest { facts, nic_id, context, .. } = self.opener.request;
        let open = |&ring_id| {
            let stamps = StampReader::new(self.prepared.stamping.as_ref());
            let opened = PackedQueue::open(
                packing,
                PoolId { nic_id, ring_id },
                &program.counters,
                filter.user(),
                stamps,
                context.config.wait,
            );
            opened.map_err(|source| packed_error(&facts.name, source))
        };
        facts.rings.iter().map(open).collect()
    }

    /// The registration of the memory that a socket uses, if there is one. Another port's is used only if it
    /// has the mode that is wanted here, which sharing would impose. Multi-buffer is part of the
    /// registration, too.
    fn registration(
        &self,
        mode: BindMode,
        memory: &Arc<PacketMemory>,
        opened: &[XdpQueue],
    ) -> Option<Registration> {
        let of_this_port = opened.iter().map(|queue| queue.socket.registration());
        let own = of_this_port.into_iter().find(|registration| registration.is_of(memory));
        let others = if self.multi_buffer { &[] } else { self.opener.request.registrations };
        own.or_else(|| with_mode(others, mode, |other| other.is_of(memory)).cloned())
    }

    /// Loads the program, with the filter in it if the kernel takes it; else with the reason.
    fn load(
        &self,
        plan: ProgramPlan,
        packing: Option<&Packing>,
    ) -> Result<(CaptureProgram, Option<KernelRefusal>), Error> {
        let load = |filter| {
            let outlet = match packing {
                Some(packing) => Outlet::Blocks(packing.clone()),
                None => Outlet::sockets(plan.queues)?,
            };
            CaptureProgram::load(plan, outlet, filter)
        };
        let refused = match load(self.opener.request.filter) {
            Err(error) if self.opener.request.filter.is_some() => Some(KernelRefusal::from(&error)),
            loaded => return Ok((loaded.map_err(|error| self.load_error(error))?, None)),
        };
        // If it was not for the filter, it fails again.
        let program = load(None).map_err(|error| self.load_error(error))?;
        Ok((program, refused))
    }

    fn open_socket(&self, mode: BindMode, pool: &mut LivePool, umem: Umem<'_>) -> Result<Socket, Error> {
        let context = self.opener.request.context;
        let socket_error = |source| self.socket_error(source);
        let config = SocketConfig {
            ifindex: self.opener.interface.ifindex,
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
        self.bind(pool.id().ring_id, mode, &mut socket)?;
        Ok(socket)
    }

    /// Why the mode cannot be tried, if it cannot.
    pub(super) fn refused(&self, geometry: Geometry) -> Option<Diagnostic> {
        let XdpOpener { interface, request, .. } = self.opener;
        self.plan.refuses(self.xdp_mode).or_else(|| {
            let unhashed = self.prepared.hashing.is_some() && self.xdp_mode == XdpMode::Generic;
            let on_members = members::running_driver(interface).filter(|_| self.xdp_mode == XdpMode::Native);
            let reason = match self.delivery {
                _ if on_members.is_some() => {
                    on_members.map(|driver| ModeRefusal::OnMembers { driver: driver.into() })
                }
                // Its memory would be taken for nothing.
                Delivery::Socket(BindMode::ZeroCopy) if request.facts.pools == PoolMaker::Packed => {
                    packing::zero_copy_refusal(interface, geometry, self.multi_buffer)
                }
                Delivery::Socket(mode) => frame_room::refuses(interface, geometry, mode),
                Delivery::Packed => self.not_packed(geometry).map(ModeRefusal::NotPacked),
            };
            let reason = reason.or_else(|| unhashed.then_some(ModeRefusal::NoRxHash))?;
            let mode = self.delivery.mode(self.xdp_mode);
            let several_cells = self.multi_buffer && reason == ModeRefusal::NotOffered;
            Some(Diagnostic::ModeUnavailable { mode, several_cells, reason })
        })
    }

    /// Why packets are not packed, where that was not asked for.
    fn not_packed(&self, geometry: Geometry) -> Option<PackingRefusal> {
        let XdpOpener { interface, request, .. } = self.opener;
        if self.is_packing_asked() {
            return None;
        }
        let refusal = packing::refusal(interface, request.context.config, geometry);
        refusal.or((request.facts.pools != PoolMaker::Packed).then_some(PackingRefusal::ZeroCopyOffered))
    }

    /// Whether packing is the only mode that is asked for.
    fn is_packing_asked(&self) -> bool {
        self.opener.request.context.config.xdp_mode == Modes::Packed
    }

    /// Whether another mode would fail in the same way, or none is asked for.
    pub(super) fn is_final(&self, error: &Error) -> bool {
        match error {
            Error::NotPacked { .. } => self.is_packing_asked(),
            Error::NotPermitted { .. }
            | Error::Packed { .. }
            | Error::GivenUp
            | Error::Held { .. }
            | Error::Shared { .. }
            | Error::QueueTaken { .. }
            | Error::TakenWhole { .. }
            | Error::JoinNotPermitted { .. } => true,
            Error::Socket { source, .. } => matches!(
                source,
                XskError::Busy { .. }
                    | XskError::MemoryLockLimit(_)
                    | XskError::RingMemory { .. }
                    | XskError::NotSupported
            ),
            Error::Program { source, .. } => match source {
                bpf::Error::Busy { .. } | bpf::Error::Blinded { .. } => true,
                // Kernels before 5.18 refuse any program for packets of several buffers, and one that packs.
                bpf::Error::Rejected { .. } => !self.multi_buffer && self.delivery != Delivery::Packed,
                _ => false,
            },
            _ => false,
        }
    }

    /// Why the next mode is tried.
    pub(super) fn failure(&self, error: Error) -> Diagnostic {
        let reason = match error {
            Error::Socket { source, .. } if source.is_unsupported() => ModeRefusal::NotOffered,
            Error::Socket { source, .. } => ModeRefusal::Failed(source.into()),
            Error::NotPacked { reason, .. } => ModeRefusal::NotPacked(reason),
            Error::Program { source: source @ bpf::Error::Rejected { .. }, .. }
                if self.delivery == Delivery::Packed =>
            {
                ModeRefusal::NotPacked(PackingRefusal::NotLoaded(source.into()))
            }
            Error::Program { source, .. } => ModeRefusal::Failed(source.into()),
            error => ModeRefusal::Failed(error.into()),
        };
        let mode = self.delivery.mode(self.xdp_mode);
        // In a block, a packet is one piece.
        let several_cells = self.multi_buffer && self.delivery != Delivery::Packed;
        Diagnostic::ModeUnavailable { mode, several_cells, reason }
    }

    fn load_error(&self, error: wirecap_filter::Error) -> Error {
        use wirecap_filter::Error::{Kernel, KernelPrivilege};
        match error {
            KernelPrivilege(_) if self.delivery == Delivery::Packed => Error::NotPacked {
                name: self.opener.interface.name.clone(),
                reason: PackingRefusal::NotPermitted,
            },
            Kernel(cause) | KernelPrivilege(cause) => self.program_error(cause),
            error => error.into(),
        }
    }

    /// What the failure to set up a socket means to the user.
    pub(super) fn socket_error(&self, source: XskError) -> Error {
        match source {
            XskError::NotPermitted => Error::NotPermitted(source.to_string()),
            source => Error::Socket { name: self.opener.interface.name.clone(), source },
        }
    }

    fn program_error(&self, source: bpf::Error) -> Error {
        match source {
            bpf::Error::NotPermitted { .. } => Error::NotPermitted(source.to_string()),
            source => Error::Program { name: self.opener.interface.name.clone(), source },
        }
    }
}

/// The first candidate that has the mode, and the memory.
fn with_mode<Q>(candidates: &[(Q, BindMode)], mode: BindMode, has_memory: impl Fn(&Q) -> bool) -> Option<&Q> {
    candidates
        .iter()
        .find(|(candidate, of)| *of == mode && has_memory(candidate))
        .map(|(candidate, _)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_of_the_right_mode_is_found_behind_one_of_the_other() {
        let ports = [("first", BindMode::ZeroCopy), ("second", BindMode::Copy), ("third", BindMode::Copy)];
        assert_eq!(with_mode(&ports, BindMode::Copy, |_| true), Some(&"second"));
        assert_eq!(with_mode(&ports, BindMode::Copy, |port| *port != "second"), Some(&"third"));
        assert_eq!(with_mode(&ports[1..], BindMode::ZeroCopy, |_| true), None);
    }
}
