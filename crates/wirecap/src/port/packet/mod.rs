//! The `packet` port: passive capture by AF_PACKET; the host keeps its traffic. Both directions are seen.
//!
//! ```text
//!   interface ──┬──► the host's stack, as ever
//!               └──► fanout: by flow, queue or core ──► ring of blocks of socket 0 ── a block is a chunk
//!                                                  └──► ring of blocks of socket 1
//! ```
//!
//! The kernel copies each packet into a block, densely; nothing is copied after that. The filter runs in the
//! kernel before that, except for packets with a VLAN tag, which the kernel keeps beside the packet: they are
//! filtered when the block is received.

use std::{os::fd::AsFd, sync::Arc, thread, time::Duration};

use wirecap_core::{Geometry, PoolId};
use wirecap_filter::UserFilter;
use wirecap_sys::{
    bpf,
    clock::{self, StampClock},
    memory::{FilledBlock, LivePool},
    netdev::{HardwareType, Interface, PromiscuousMode},
    packet::{CandidatePacket, Closer, ENOUGH_BLOCKS, PacketConfig, PacketError, PacketSocket},
};

use super::{
    contract::{OpenRequest, PacketSource, PoolMaker, Port, PortFacts, PortPools, PreparedPort},
    intake::Intake,
    open_port::{OpenPort, PortBackend},
    opening::OpenContext,
    queue::{Look, OpenQueue, Outlook, QueueCounts, ReceiveQueue},
};
use crate::{
    Config, Diagnostic, Error, HostUse, Modes, PassiveReason, PortEvent, Rss, Timestamp,
    diagnostic::{Cause, KernelRefusal, LengthLimitReason, NicDataRefusal, TapRefusal},
    filter::{OriginInfo, PortFilter},
    nic::{
        link::{WatchedQueues, longest_frame},
        preflight,
        xdp_watch::{XdpWatch, programs_first},
    },
    packet::ChunkReader,
    program::{rx_hash, socket_filter::SocketFilter},
    report::{Clock, FilterPlace, LengthLimit, LengthLimitPolicy, PortReport, QueueMode, TimestampReport},
};

/// What the kernel puts into a block beside an Ethernet packet: its own header, the packet's, and room for a
/// VLAN tag.
const BLOCK_HEADERS_BYTES: u32 = 134;
/// A block that is not full is handed over after this time.
const RETIRE_MS: u32 = 5;
/// The kernel counts with 32 bits, and starts again at each reading. This number of blocks holds fewer
/// packets.
const BLOCKS_BETWEEN_COUNTS: u32 = 256;
/// How long to wait for the last block, which the kernel hands over after some `RETIRE_MS`.
const LAST_BLOCK: Duration = Duration::from_secs(1);
/// A packet has its time when it comes to the host, and may wait before it is put into a block: for
/// `ksoftirqd`, which has to share its core when the machine is busy.
const STAMP_TO_BLOCK: Duration = Duration::from_millis(50);

/// One socket of a passive port.
#[derive(Debug)]
pub(crate) struct PacketQueue {
    socket: PacketSocket,
    geometry: Geometry,
    filter: Option<QueueFilter>,
    /// Packets that the kernel has cut to the room of a block.
    cut: u64,
    last: QueueCounts,
    /// Blocks until the counters are read again.
    until_counted: u32,
}

/// The filter of one socket.
#[derive(Debug)]
struct QueueFilter {
    /// `None` where the kernel does not take it.
    in_kernel: Option<SocketFilter>,
    user: Arc<UserFilter>,
    /// Packets that user space has refused.
    refused: u64,
}

impl QueueFilter {
    /// Packets that the kernel has refused.
    fn refused_in_kernel(&self) -> Result<u64, bpf::Error> {
        self.in_kernel.as_ref().map_or(Ok(0), SocketFilter::refused)
    }
}

/// What a passive port keeps while it listens.
#[derive(Debug)]
struct PacketBackend {
    closers: Vec<Closer>,
    promiscuous: Option<PromiscuousMode>,
    xdp: XdpWatch,
}

impl PortBackend for PacketBackend {
    /// Checks for XDP programs only: no other program can undo what this port holds.
    fn look_after(&mut self, port: &str) -> Vec<PortEvent> {
        self.xdp.look();
        let warnings = self.xdp.report_once().into_iter();
        warnings.map(|warning| PortEvent::Warning { port: port.into(), warning }).collect()
    }

    /// Stops listening. Packets on their way still come, see [`wirecap_sys::cpu::wait_for_kernel`].
    fn close(&mut self, _is_gone: bool) -> bool {
        self.promiscuous = None;
        for closer in &self.closers {
            // A socket that cannot be closed listens until it is dropped; the engine ends nevertheless.
            let _ = closer.close();
        }
        true
    }

    /// Waits until the kernel has handed over what it was filling.
    fn settle(&mut self) -> Option<Diagnostic> {
        let handed_over = self.closers.iter().all(|closer| closer.wait_for_last_block(LAST_BLOCK));
        (!handed_over).then_some(Diagnostic::LastBlockKept)
    }

    fn abandon(&mut self) {
        self.promiscuous = None;
        self.closers.clear();
    }

    fn report(&mut self, report: &mut PortReport) {
        self.xdp.look();
        report.warnings.extend_from_slice(self.xdp.warnings());
    }
}

/// An interface to listen on.
#[derive(Debug)]
struct PacketPort {
    interface: Interface,
    left: PacketReasons,
}

/// Why AF_PACKET is used although the settings did not ask for it.
#[derive(Debug, Default)]
pub(super) struct PacketReasons {
    /// Why passively.
    pub(super) reason: Option<PassiveReason>,
    /// Why it is not tapped.
    pub(super) not_tapped: Option<TapRefusal>,
}

/// A socket for each worker, as many as there are cores or queues by default.
pub(super) fn look_up(
    interface: Interface,
    left: PacketReasons,
    host_use: Vec<HostUse>,
    config: &Config,
) -> Result<PreparedPort, Error> {
    let Some(link_type) = interface.hardware_type.link_type() else {
        let kind = interface.hardware_type.to_string();
        return Err(Error::LinkType { name: interface.name, kind });
    };
    let by_default =
        || thread::available_parallelism().map_or(1, usize::from).min(interface.queues.current as usize);
    let sockets = config.workers.unwrap_or_else(by_default).max(1);
    let facts = PortFacts {
        name: interface.name.clone(),
        rings: (0..sockets as u16).collect(),
        source: PacketSource::Interface { ifindex: interface.ifindex, queues: None },
        link_type,
        origin: OriginInfo::Each,
        pools: PoolMaker::Kernel,
        numa_node: interface.numa_node,
        host_use,
        is_tapped_by_default: false,
        // The socket, and what closes it.
        files_per_queue: 2,
    };
    Ok(PreparedPort::new(facts, PacketPort { interface, left }))
}

impl Port for PacketPort {
    fn check(&self, facts: &PortFacts, config: &Config) -> Result<(), Error> {
        let (name, reason) = (facts.name.clone(), NicDataRefusal::Passive);
        match config.timestamp {
            _ if config.xdp_mode != Modes::Best => {
                Err(Error::OnlyPassive { name, reason: self.left.reason.clone() })
            }
            Some(Timestamp::File) => Err(Error::NoFile(name)),
            Some(Timestamp::Hardware) => Err(Error::NoHardwareTimestamps { name, reason }),
            _ if config.rx_hash => Err(rx_hash::refusal(&name, reason)),
            _ if config.rss == Rss::Symmetric => Err(Error::PassiveRss(name)),
            _ => Ok(()),
        }
    }

    /// Opens a socket for each ring, and listens.
    fn open(self: Box<Self>, _pools: PortPools, request: &OpenRequest<'_>) -> Result<OpenPort, Error> {
        let Self { interface, left } = *self;
        let OpenRequest { context, facts, filter, nic_id, .. } = *request;
        preflight::check_up(&interface)?;
        let failed = |source| Error::Passive { name: facts.name.clone(), source };
        let (sockets, closers) = open_sockets(&interface, facts.rings.len(), &context).map_err(failed)?;
        let sender = context.hooks.own_sender.and(sockets.first()).map(PacketSocket::sender);
        let sender = sender.transpose().map_err(failed)?;
        let (filters, not_in_kernel) = queue_filters(filter, &interface, sockets.len());
        let mut open = OpenPort::new(&facts.name, QueueMode::Packet, facts.link_type);
        open.sender = sender;
        let report = &mut open.report;
        report.length_limit = length_limit(&interface, context.geometry);
        report.cut = Some(0);
        let (timestamp, other_timestamps) = timestamp(context.config.timestamp);
        report.timestamp = timestamp;
        report.filter = filter.zip(filters.first().and_then(Option::as_ref)).map(|(filter, placed)| {
            filter.report(match &placed.in_kernel {
                Some(_) => FilterPlace::Kernel,
                None => FilterPlace::of(&placed.user),
            })
        });
        report.fallbacks.extend(left.reason.map(|reason| Diagnostic::Passive { reason }));
        report.fallbacks.extend(left.not_tapped.map(|reason| Diagnostic::NotTapped { reason }));
        let blocks = context.geometry.chunks_per_pool();
        let few_blocks = Diagnostic::FewBlocks { blocks, enough: ENOUGH_BLOCKS };
        report.fallbacks.extend((blocks < ENOUGH_BLOCKS).then_some(few_blocks));
        report.fallbacks.extend(context.config.ring_entries.map(|_| Diagnostic::RingWithoutEffect));
        report.fallbacks.extend(programs_first(&interface));
        report.fallbacks.extend(not_in_kernel);
        let reason = LengthLimitReason::SmallBlocks { cells_per_chunk: context.geometry.cells_per_chunk() };
        let cut_short = |limit| Diagnostic::PacketsTooLong { limit, reason };
        report.fallbacks.extend(report.length_limit.map(cut_short));
        for ((socket, filter), &ring_id) in sockets.into_iter().zip(filters).zip(&facts.rings) {
            let id = PoolId { nic_id, ring_id };
            open.queues.push(listen(socket, filter, id, context.geometry).map_err(failed)?);
        }
        let promiscuous =
            context.config.promiscuous.then(|| PromiscuousMode::enable(interface.ifindex)).transpose()?;
        open.backend =
            Some(Box::new(PacketBackend { closers, promiscuous, xdp: XdpWatch::new(&interface, None) }));
        // Queues do not matter here, only what the NIC drops.
        open.watch(&interface, WatchedQueues::None);
        open.report.fallbacks.extend(other_timestamps);
        Ok(open)
    }
}

/// The timestamps of a passive port, and a diagnostic if others were asked for.
fn timestamp(wanted: Option<Timestamp>) -> (TimestampReport, Option<Diagnostic>) {
    let wanted = wanted.filter(|&wanted| wanted == Timestamp::Batch);
    let fallback = wanted.map(|wanted| Diagnostic::OtherTimestamps { wanted, used: Timestamp::Kernel });
    let clock = Clock::System { no_counter: None };
    (TimestampReport::of_packets(Timestamp::Kernel, clock, clock::resolution_ns()), fallback)
}

/// The limit beyond which packets are cut, if the MTU allows longer ones: a block holds at least one packet,
/// cut to its room.
fn length_limit(interface: &Interface, geometry: Geometry) -> Option<LengthLimit> {
    let room = geometry.chunk_bytes().saturating_sub(BLOCK_HEADERS_BYTES);
    (longest_frame(interface) > room).then_some(LengthLimit { bytes: room, beyond: LengthLimitPolicy::Cut })
}

/// Whether packets that go out are captured: on the loopback interface each of them comes in as well.
fn hears_outgoing(interface: &Interface) -> bool {
    interface.hardware_type != HardwareType::LOOPBACK
}

/// The filter of each socket, in the kernel if it takes it; else with the reason.
fn queue_filters(
    filter: Option<&PortFilter>,
    interface: &Interface,
    sockets: usize,
) -> (Vec<Option<QueueFilter>>, Option<Diagnostic>) {
    let Some(PortFilter { filter, .. }) = filter else {
        return ((0..sockets).map(|_| None).collect(), None);
    };
    let user = Arc::new(UserFilter::for_socket(filter, interface.ifindex));
    let loaded: Result<Vec<_>, _> =
        (0..sockets).map(|_| SocketFilter::load(filter, hears_outgoing(interface))).collect();
    let (in_kernel, not_in_kernel) = match loaded {
        Ok(programs) => (programs.into_iter().map(Some).collect(), None),
        Err(error) => {
            let reason = KernelRefusal::from(&error);
            let fallback = Diagnostic::FilterNotInKernel {
                reason,
                interpreted: user.interpreted().map(Cause::of),
                drops_unwanted: false,
            };
            (Vec::from_iter((0..sockets).map(|_| None)), Some(fallback))
        }
    };
    let with_user = |in_kernel| Some(QueueFilter { in_kernel, user: Arc::clone(&user), refused: 0 });
    (in_kernel.into_iter().map(with_user).collect(), not_in_kernel)
}

fn open_sockets(
    interface: &Interface,
    count: usize,
    context: &OpenContext<'_>,
) -> Result<(Vec<PacketSocket>, Vec<Closer>), PacketError> {
    let config = PacketConfig {
        ifindex: interface.ifindex,
        geometry: context.geometry,
        retire_ms: RETIRE_MS,
        outgoing: hears_outgoing(interface),
    };
    let fanout = context.config.fanout.unwrap_or_default();
    let mut sockets = Vec::new();
    let mut group = None;
    for _ in 0..count {
        let socket = PacketSocket::open(&config)?;
        match group {
            None if count == 1 => {}
            None => group = Some(socket.found_group(fanout)?),
            Some(group) => socket.join(group, fanout)?,
        }
        sockets.push(socket);
    }
    let closers = sockets.iter().map(PacketSocket::closer).collect::<Result<_, _>>()?;
    Ok((sockets, closers))
}

/// Sockets listen one after the other. Packets that come before a socket listens came before the capture
/// began.
fn listen(
    mut socket: PacketSocket,
    filter: Option<QueueFilter>,
    id: PoolId,
    geometry: Geometry,
) -> Result<OpenQueue, PacketError> {
    let (mut pool, reader) = socket.carve(id).expect("a new socket");
    socket.attach(&mut pool);
    let in_kernel = filter.as_ref().and_then(|filter| filter.in_kernel.as_ref());
    socket.listen(in_kernel.map(|filter| filter.program.as_fd()))?;
    let waker = Some(socket.waker());
    let (last, until_counted) = (QueueCounts::default(), BLOCKS_BETWEEN_COUNTS);
    let queue = PacketQueue { socket, geometry, filter, cut: 0, last, until_counted };
    Ok(OpenQueue { waker, ..OpenQueue::new(queue, pool, ChunkReader::Blocks(reader)) })
}

impl PacketQueue {
    /// Takes the next block, without what the filter does not want. `now_ns` is the present.
    fn receive_block(&mut self, now_ns: u64) -> Option<FilledBlock> {
        let Self { socket, filter, cut, .. } = self;
        let is_cut = |packet: &CandidatePacket<'_>| packet.data.len() < packet.original_len as usize;
        let Some(filter) = filter else {
            return socket.receive(now_ns, |packet| {
                *cut += u64::from(is_cut(packet));
                true
            });
        };
        let in_kernel = filter.in_kernel.is_some();
        socket.receive(now_ns, |packet| {
            let decided = in_kernel && !packet.tag_restored;
            let wanted =
                decided || filter.user.wants_of_type(packet.packet_type, packet.data, packet.original_len);
            filter.refused += u64::from(!wanted);
            *cut += u64::from(wanted && is_cut(packet));
            wanted
        })
    }
}

impl ReceiveQueue for PacketQueue {
    fn receive(&mut self, max: u32, intake: &mut Intake<'_>) {
        // A block takes a whole chunk.
        if max < self.geometry.cells_per_chunk() {
            return;
        }
        if let Some(block) = self.receive_block(intake.batch.now_ns) {
            intake.take_block(block);
            self.until_counted = self.until_counted.checked_sub(1).unwrap_or_else(|| {
                self.counts();
                BLOCKS_BETWEEN_COUNTS
            });
        }
    }

    fn attach(&mut self, pool: Option<&mut LivePool>) {
        if let Some(pool) = pool {
            self.socket.attach(pool);
        }
    }

    fn backlog(&self) -> u32 {
        self.socket.backlog() * self.geometry.cells_per_chunk()
    }

    fn look(&self) -> Look {
        // Of the block that the kernel fills, as many cells as its packets take.
        let begun_cells = self.socket.begun_bytes().div_ceil(self.geometry.cell_bytes());
        // The kernel hands over a partly filled block after `RETIRE_MS`.
        let outlook = match self.socket.is_ready() || self.socket.is_filling() {
            true => Outlook::Open,
            false => Outlook::NotOlderThan(STAMP_TO_BLOCK.as_nanos() as u64),
        };
        let unreceived = self.backlog() + begun_cells.min(self.geometry.cells_per_chunk());
        Look { waiting: None, unreceived, outlook }
    }

    fn counts(&mut self) -> QueueCounts {
        // The socket counts what the kernel's filter has let through, dropped ones included.
        let in_kernel = self.filter.as_ref().map_or(Ok(0), QueueFilter::refused_in_kernel);
        let refused = self.filter.as_ref().map_or(0, |filter| filter.refused);
        if let (Ok(counted), Ok(in_kernel)) = (self.socket.statistics(), in_kernel) {
            self.last.seen = counted.packets + in_kernel;
            self.last.filtered = in_kernel + refused;
            self.last.no_free_block = counted.dropped;
        }
        self.last.cut = self.cut;
        self.last
    }

    /// The kernel's stamps are UTC.
    fn stamp_clock(&self) -> Option<&StampClock> {
        None
    }
}
