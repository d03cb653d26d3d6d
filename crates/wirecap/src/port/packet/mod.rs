//! The `packet` port: AF_PACKET beside the host, which keeps its traffic. Both directions are seen.
//!
//! ```text
//!   interface ──┬──► the host's stack, as ever
//!               └──► fanout: by flow, queue or core ──► ring of blocks of socket 0 ── a block is a chunk
//!                                                  └──► ring of blocks of socket 1
//! ```
//!
//! The kernel copies each packet into a block, densely; nothing is copied after that. The filter runs in the kernel, in
//! front of that; about packets with a VLAN tag, which the kernel keeps elsewhere, it is decided when the block is received.

use std::{os::fd::AsFd, sync::Arc, time::Duration};

use wirecap_core::{Geometry, PoolId};
use wirecap_sys::{
    bpf,
    clock::StampClock,
    memory::{FilledBlock, LivePool},
    netdev::{HardwareType, Interface, Promiscuous},
    packet::{Closer, PacketConfig, PacketError, PacketSocket},
    wake::Waker,
};

use super::{
    AnyQueue, Intake, Outlook, QueueCounts, ReceiveQueue, Waiting, opening::OpenContext, source::OpenQueue,
};
use crate::{
    Diagnostic, Error,
    diagnostic::{KernelRefusal, TooLong},
    filter::{PortFilter, UserFilter},
    nic::preflight,
    packet::Reader,
    program::socket_filter::SocketFilter,
    report::{BeyondLimit, FilterPlace, LengthLimit},
};

/// Ethernet header and VLAN tags, which the MTU does not count.
const LINK_HEADER_BYTES: u32 = 14 + 8;
/// What the kernel puts into a block beside an Ethernet packet: its own header, the packet's, and room for a VLAN tag.
const BLOCK_HEADERS_BYTES: u32 = 134;
/// A block that is not full is handed over after this time.
const RETIRE_MS: u32 = 5;
/// The kernel counts with 32 bits, and begins anew with each reading. So many blocks hold less.
const BLOCKS_BETWEEN_COUNTS: u32 = 256;
/// The kernel hands the last block over within a few of these times.
const LAST_BLOCK: Duration = Duration::from_secs(1);
/// A packet has its time when it comes to the host, and may wait before it is put into a block: for `ksoftirqd`, which has
/// to share its core when the machine is busy.
const STAMP_TO_BLOCK: Duration = Duration::from_millis(50);

/// One socket of a passive port.
#[derive(Debug)]
pub(crate) struct PacketQueue {
    socket: PacketSocket,
    cells_per_block: u32,
    cell_bytes: u32,
    filter: Option<QueueFilter>,
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

/// A passive port that is open.
#[derive(Debug)]
pub(crate) struct PacketPort {
    pub(crate) link_type: u16,
    /// Where the filter runs, if there is one.
    pub(crate) filter: Option<FilterPlace>,
    pub(crate) fallbacks: Vec<Diagnostic>,
    /// Set if a block may be too small for a packet.
    pub(crate) length_limit: Option<LengthLimit>,
    closers: Vec<Closer>,
    /// Kept for as long as the port listens.
    promiscuous: Option<Promiscuous>,
}

/// `LINKTYPE_ETHERNET` of the registry of pcap.
pub(crate) const LINK_TYPE_ETHERNET: u16 = 1;

impl PacketPort {
    /// Ends the listening. Packets on their way come still, see [`wirecap_sys::cpu::wait_for_kernel`].
    pub(crate) fn close(&mut self) {
        self.promiscuous = None;
        for closer in &self.closers {
            // A socket that cannot be closed goes on until it is dropped; the engine ends all the same.
            let _ = closer.close();
        }
    }

    /// Waits until the kernel has handed over what it was filling. Returns whether it has.
    pub(crate) fn wait_for_last_block(&self) -> bool {
        self.closers.iter().all(|closer| closer.wait_for_last_block(LAST_BLOCK))
    }
}

/// Opens a socket for each ring, and listens.
pub(crate) fn open(
    interface: &Interface,
    nic_id: u16,
    rings: &[u16],
    context: &OpenContext<'_>,
    filter: Option<&PortFilter>,
) -> Result<(PacketPort, Vec<OpenQueue>), Error> {
    preflight::check_up(interface)?;
    let name = || interface.name.clone();
    let Some(link_type) = interface.hardware_type.link_type() else {
        return Err(Error::LinkType { name: name(), kind: interface.hardware_type.to_string() });
    };
    let (sockets, closers) = open_sockets(interface, rings.len(), context)
        .map_err(|source| Error::Passive { name: name(), source })?;
    let outgoing = hears_outgoing(interface);
    let (filters, not_in_kernel) = queue_filters(filter, interface.ifindex, rings.len(), outgoing);
    let length_limit = length_limit(interface, context.geometry);
    let cut_short = length_limit.map(|limit| cut_short(limit, context.geometry));
    let fallbacks = not_in_kernel.into_iter().chain(cut_short).collect();
    let place = filters.first().and_then(Option::as_ref).map(|filter| match &filter.in_kernel {
        Some(_) => FilterPlace::Kernel,
        None => filter.user.place(),
    });
    let mut queues: Vec<OpenQueue> = Vec::new();
    for ((socket, filter), &ring_id) in sockets.into_iter().zip(filters).zip(rings) {
        let queue = listen(socket, filter, PoolId { nic_id, ring_id }, context.geometry)
            .map_err(|source| Error::Passive { name: name(), source })?;
        queues.push(queue);
    }
    let promiscuous =
        context.config.promiscuous.then(|| Promiscuous::enable(interface.ifindex)).transpose()?;
    Ok((PacketPort { link_type, filter: place, fallbacks, length_limit, closers, promiscuous }, queues))
}

/// The limit beyond which packets are cut, if the MTU allows longer ones: a block holds at least one packet, cut to its room.
fn length_limit(interface: &Interface, geometry: Geometry) -> Option<LengthLimit> {
    let (longest, room) =
        (interface.mtu + LINK_HEADER_BYTES, geometry.chunk_bytes().saturating_sub(BLOCK_HEADERS_BYTES));
    (longest > room).then_some(LengthLimit { bytes: room, beyond: BeyondLimit::Cut })
}

fn cut_short(limit: LengthLimit, geometry: Geometry) -> Diagnostic {
    let reason = TooLong::SmallBlocks { cells_per_chunk: geometry.cells_per_chunk() };
    Diagnostic::PacketsTooLong { limit, reason }
}

/// What comes in by the loopback interface has gone out by it just before.
fn hears_outgoing(interface: &Interface) -> bool {
    interface.hardware_type != HardwareType::LOOPBACK
}

/// The filter of each socket, in the kernel if it takes it; else with the reason.
fn queue_filters(
    filter: Option<&PortFilter>,
    ifindex: u32,
    sockets: usize,
    outgoing: bool,
) -> (Vec<Option<QueueFilter>>, Option<Diagnostic>) {
    let Some(PortFilter { filter, .. }) = filter else {
        return ((0..sockets).map(|_| None).collect(), None);
    };
    let (user, no_native) = UserFilter::of_socket(filter, ifindex);
    let user = Arc::new(user);
    let loaded: Result<Vec<_>, _> = (0..sockets).map(|_| SocketFilter::load(filter, outgoing)).collect();
    let (in_kernel, not_in_kernel) = match loaded {
        Ok(programs) => (programs.into_iter().map(Some).collect(), None),
        Err(error) => {
            let reason = KernelRefusal::from(&error);
            let fallback =
                Diagnostic::FilterNotInKernel { reason, interpreted: no_native, drops_unwanted: false };
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
    let mut sockets = Vec::new();
    let mut group = None;
    for _ in 0..count {
        let socket = PacketSocket::open(&config)?;
        match group {
            None if count == 1 => {}
            None => group = Some(socket.found_group(context.config.fanout)?),
            Some(group) => socket.join(group, context.config.fanout)?,
        }
        sockets.push(socket);
    }
    let closers = sockets.iter().map(PacketSocket::closer).collect::<Result<_, _>>()?;
    Ok((sockets, closers))
}

/// One socket after the other: what comes meanwhile to those that do not listen yet is not seen by them, and was not
/// there before the capture began.
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
    Ok((AnyQueue::Packet(PacketQueue::new(socket, filter, geometry)), pool, Reader::Blocks(reader)))
}

impl PacketQueue {
    fn new(socket: PacketSocket, filter: Option<QueueFilter>, geometry: Geometry) -> Self {
        Self {
            socket,
            cells_per_block: geometry.cells_per_chunk(),
            cell_bytes: geometry.cell_bytes(),
            filter,
            last: QueueCounts::default(),
            until_counted: BLOCKS_BETWEEN_COUNTS,
        }
    }

    /// Takes the next block, without what the filter does not want.
    fn receive_block(&mut self) -> Option<FilledBlock> {
        let Some(filter) = &mut self.filter else { return self.socket.receive(|_| true) };
        let in_kernel = filter.in_kernel.is_some();
        self.socket.receive(|packet| {
            let decided = in_kernel && !packet.tag_restored;
            let wanted =
                decided || filter.user.wants_of_type(packet.packet_type, packet.data, packet.original_len);
            filter.refused += u64::from(!wanted);
            wanted
        })
    }
}

impl ReceiveQueue for PacketQueue {
    fn receive(&mut self, max: u32, intake: &mut Intake<'_>) {
        // A block takes a whole chunk.
        if max < self.cells_per_block {
            return;
        }
        if let Some(block) = self.receive_block() {
            intake.take_block(block);
            self.until_counted = self.until_counted.checked_sub(1).unwrap_or_else(|| {
                self.counts();
                BLOCKS_BETWEEN_COUNTS
            });
        }
    }

    fn attach(&mut self, pool: &mut LivePool) {
        self.socket.attach(pool);
    }

    fn tidy(&mut self, _gives: bool) {}

    fn backlog(&self) -> u32 {
        self.socket.backlog() * self.cells_per_block
    }

    /// Of the block that the kernel fills, as many cells as its packets take.
    fn unreceived(&self) -> u32 {
        let begun_cells = self.socket.begun_bytes().div_ceil(self.cell_bytes);
        self.backlog() + begun_cells.min(self.cells_per_block)
    }

    fn waiting(&self) -> Option<Waiting> {
        None
    }

    fn counts(&mut self) -> QueueCounts {
        // The socket counts what the kernel's filter has let through, dropped ones included.
        let in_kernel = self.filter.as_ref().map_or(Ok(0), QueueFilter::refused_in_kernel);
        let refused = self.filter.as_ref().map_or(0, |filter| filter.refused);
        if let (Ok(counted), Ok(in_kernel)) = (self.socket.statistics(), in_kernel) {
            self.last.seen = counted.packets + in_kernel;
            self.last.filtered = in_kernel + refused;
            self.last.no_free_cell = counted.dropped;
        }
        self.last
    }

    fn waker(&self) -> Option<Waker> {
        Some(self.socket.waker())
    }

    fn outlook(&self, now_ns: u64) -> Outlook {
        // What is in a block that is not full comes when the kernel hands it over.
        if self.socket.is_ready() || self.socket.is_filling() {
            return Outlook::Open;
        }
        Outlook::After(now_ns.saturating_sub(STAMP_TO_BLOCK.as_nanos() as u64))
    }

    /// The kernel's stamps are UTC.
    fn stamp_clock(&self) -> Option<&StampClock> {
        None
    }

    fn can_wait(&self) -> bool {
        false
    }

    fn is_at_end(&self) -> bool {
        false
    }
}
