//! One AF_XDP socket: its rings, its binding to a queue, its counters.

use std::{
    io,
    ops::Range,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    ptr,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use super::{
    XskError,
    abi::{self, RingDescriptor},
    cursor::RingSize,
    received_cells::{Contents, ReceivedCells},
    ring::{ConsumerRing, ProducerRing, RingMap},
};
use crate::{
    bpf::{self, Map},
    memory::{FilledCell, LivePool, PacketMemory, PoolLease, QueueName, Tenant},
    socket_option,
    wake::Waker,
};

/// Entries of the ring that a socket does not use. The kernel insists on it.
const IDLE_ENTRIES: u32 = 64;

/// How many entries each ring of a socket has. There are only sizes that the kernel takes.
#[derive(Debug, Clone, Copy)]
pub struct RingSizes {
    fill: RingSize,
    completion: RingSize,
    rx: Option<RingSize>,
    tx: Option<RingSize>,
}

impl RingSizes {
    /// For a socket that receives: a fill and a receive ring of `entries` each.
    ///
    /// # Errors
    /// [`XskError::RingSize`] unless it is a power of two.
    pub fn receiving(entries: u32) -> Result<Self, XskError> {
        let (used, idle) = (ring_size(entries)?, ring_size(IDLE_ENTRIES)?);
        Ok(Self { fill: used, completion: idle, rx: Some(used), tx: None })
    }

    /// For a socket that receives and sends: rings of `entries` entries each.
    ///
    /// # Errors
    /// [`XskError::RingSize`] when one is not a power of two.
    pub fn both(receive: u32, send: u32) -> Result<Self, XskError> {
        let (receive, send) = (ring_size(receive)?, ring_size(send)?);
        Ok(Self { fill: receive, completion: send, rx: Some(receive), tx: Some(send) })
    }

    /// For a socket that sends: a transmit and a completion ring of `entries` each.
    ///
    /// # Errors
    /// [`XskError::RingSize`] unless it is a power of two.
    pub fn sending(entries: u32) -> Result<Self, XskError> {
        let (used, idle) = (ring_size(entries)?, ring_size(IDLE_ENTRIES)?);
        Ok(Self { fill: idle, completion: used, rx: None, tx: Some(used) })
    }
}

fn ring_size(entries: u32) -> Result<RingSize, XskError> {
    RingSize::new(entries).ok_or(XskError::RingSize(entries))
}

/// How the kernel moves packets between driver and cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindMode {
    /// The driver fills the cells itself.
    ZeroCopy,
    /// The kernel copies each packet once.
    Copy,
}

impl BindMode {
    /// `zero-copy` or `copy`.
    pub fn as_str(self) -> &'static str {
        match self {
            BindMode::ZeroCopy => "zero-copy",
            BindMode::Copy => "copy",
        }
    }

    /// That of a socket whose `XDP_OPTIONS` are these; one that is not bound counts as one that copies.
    pub(super) fn of_options(options: u32) -> Self {
        if options & abi::XDP_OPTIONS_ZEROCOPY != 0 { Self::ZeroCopy } else { Self::Copy }
    }
}

/// Where the UMEM of a socket comes from.
#[derive(Debug, Clone, Copy)]
pub enum Umem<'a> {
    /// The socket registers the packet memory. Sockets that share with it take over its mode.
    Register(&'a Arc<PacketMemory>),
    /// The socket uses the registration of another one, which is bound already, and so its memory.
    Share(&'a Registration),
}

/// The registration of a packet memory with the kernel, by the socket that made it or shares it. Keeps that
/// socket open.
#[derive(Debug, Clone)]
pub struct Registration {
    memory: Arc<PacketMemory>,
    fd: Arc<OwnedFd>,
}

impl Registration {
    /// Whether it is of this memory.
    pub fn is_of(&self, memory: &Arc<PacketMemory>) -> bool {
        Arc::ptr_eq(&self.memory, memory)
    }
}

/// What to open.
#[derive(Debug, Clone, Copy)]
pub struct SocketConfig {
    /// Interface, by index in the calling thread's network namespace.
    pub ifindex: u32,
    /// Queue of that interface.
    pub queue_id: u32,
    /// Bytes of each cell that the kernel leaves free in front of a packet, besides its own 256.
    pub headroom: u32,
    /// Sizes of the rings.
    pub rings: RingSizes,
    /// Whether packets larger than a cell may arrive in several parts (kernel 6.6 or newer).
    pub multi_buffer: bool,
}

/// Counters of a socket as the kernel keeps them, since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SocketStatistics {
    /// Packets the kernel dropped for want of a cell (copy mode), or because they were too long.
    pub rx_dropped: u64,
    /// Packets dropped because the receive ring was full.
    pub rx_ring_full: u64,
    /// How often the kernel found the fill ring empty.
    pub rx_fill_ring_empty: u64,
    /// Descriptors in the transmit ring that the kernel refused.
    pub tx_invalid_descs: u64,
}

/// An AF_XDP socket with its rings.
///
/// Create it, [`Socket::attach`] cells, then [`Socket::bind`]: some drivers only look at the fill ring when
/// the socket is bound.
///
/// It does not lend its descriptor: the kernel fills cells as long as a copy is open.
///
/// ```compile_fail,E0277
/// # use wirecap_sys::xsk::Socket;
/// # fn is_descriptor(_: impl std::os::fd::AsFd) {}
/// fn keep(socket: &Socket) {
///     is_descriptor(socket);
/// }
/// ```
#[derive(Debug)]
pub struct Socket {
    pub(super) fd: Arc<OwnedFd>,
    pub(super) config: SocketConfig,
    /// The socket whose registration this one uses; `None` once it is bound, or if it has its own.
    shared: Option<Arc<OwnedFd>>,
    /// Cells for the kernel to fill.
    fill: ProducerRing<u64>,
    /// Cells the kernel has sent; `None` once the sending half was taken.
    pub(super) completion: Option<ConsumerRing<u64>>,
    /// Packets received.
    rx: Option<ConsumerRing<RingDescriptor>>,
    /// Packets to be sent; `None` once the sending half was taken.
    pub(super) tx: Option<ProducerRing<RingDescriptor>>,
    /// The pool whose cells the kernel is given; no other socket is.
    pool: Option<PoolLease>,
    /// Keeps the UMEM mapped as long as the socket is there.
    pub(super) memory: Arc<PacketMemory>,
}

impl Socket {
    /// Opens a socket and maps its rings.
    ///
    /// # Errors
    /// [`XskError`], each variant with the remedy.
    pub fn create(config: SocketConfig, umem: Umem<'_>) -> Result<Self, XskError> {
        let rings = config.rings;
        let fd = Arc::new(open()?);
        let (memory, shared) = match umem {
            Umem::Register(memory) => {
                register(&fd, memory, config)?;
                (memory, None)
            }
            Umem::Share(other) => (&other.memory, Some(Arc::clone(&other.fd))),
        };
        size_rings(&fd, rings)?;
        let offsets: libc::xdp_mmap_offsets =
            socket_option::get(&fd, abi::SOL_XDP, abi::XDP_MMAP_OFFSETS).map_err(set_up("ring offsets"))?;
        let (page, raw) = (set_up("mapping a ring"), fd.as_fd());
        let fill = RingMap::new(raw, abi::XDP_UMEM_PGOFF_FILL_RING, offsets.fr, rings.fill);
        let completion = RingMap::new(raw, abi::XDP_UMEM_PGOFF_COMPLETION_RING, offsets.cr, rings.completion);
        let rx = rings.rx.map(|size| RingMap::new(raw, abi::XDP_PGOFF_RX_RING, offsets.rx, size));
        let tx = rings.tx.map(|size| RingMap::new(raw, abi::XDP_PGOFF_TX_RING, offsets.tx, size));
        Ok(Self {
            fill: ProducerRing::over(fill.map_err(&page)?),
            completion: Some(ConsumerRing::over(completion.map_err(&page)?)),
            rx: rx.transpose().map_err(&page)?.map(ConsumerRing::over),
            tx: tx.transpose().map_err(&page)?.map(ProducerRing::over),
            memory: Arc::clone(memory),
            fd,
            config,
            shared,
            pool: None,
        })
    }

    /// Gives the pool's free chunks to the kernel, as far as the fill ring has room, published at once.
    /// Returns the number of cells.
    ///
    /// # Panics
    /// Unless it is always the same pool, carved out of the socket's memory, and no other socket has it, nor
    /// one of another queue had it: the kernel would write into cells that are being read.
    pub fn attach(&mut self, pool: &mut LivePool) -> u32 {
        let lease = self.pool.get_or_insert_with(|| {
            let tenant = Tenant::Socket(Arc::clone(&self.fd), queue_name(&self.fd, self.config));
            pool.lease(&self.memory, tenant).expect("a pool of this memory that no other socket has")
        });
        let room = self.fill.room();
        let cells = pool.attach(lease, room, |cell| _ = self.fill.stage(cell));
        self.fill.publish();
        cells
    }

    /// Up to `max` filled cells, oldest first. `None` without a receive ring or a pool.
    #[inline]
    pub fn receive(&mut self, max: u32) -> Option<ReceivedCells<'_>> {
        let contents = Contents::new(&self.memory, self.pool.as_ref()?);
        self.rx.as_mut().map(|rx| ReceivedCells::new(rx.drain(max), contents))
    }

    /// What is in cells that were received.
    pub fn contents(&self) -> Option<Contents<'_>> {
        Some(Contents::new(&self.memory, self.pool.as_ref()?))
    }

    /// Gives cells back to the kernel to be filled anew: the pool never knows that they were filled. Those
    /// for which the fill ring has no room yet stay; the kernel makes room a little after it has handed over
    /// what it filled.
    pub fn give_back(&mut self, cells: &mut Vec<FilledCell>) {
        let Some(lease) = &self.pool else { return };
        let room = self.fill.room() as usize;
        for cell in cells.drain(cells.len().saturating_sub(room)..) {
            // A cell that another socket has received is not this one's to give, nor one that is not of its
            // pool, whatever the driver has said.
            if let Some(cell) = lease.place().cell(cell.address_in(lease.number())) {
                self.fill.stage(cell);
            }
        }
        self.fill.publish();
    }

    /// Filled cells that wait to be received.
    #[inline]
    pub fn filled(&self) -> u32 {
        self.rx.as_ref().map_or(0, ConsumerRing::filled)
    }

    /// The filled cells that wait to be received, by their numbers: cells are numbered through as they are
    /// filled.
    #[inline]
    pub fn waiting(&self) -> Range<u64> {
        self.rx.as_ref().map_or(0..0, ConsumerRing::waiting)
    }

    /// Binds the socket to its queue. A queue whose last socket was closed a moment ago is still busy, since
    /// the kernel takes it down asynchronously. Binding is then retried for `timeout`, as long as `goes_on`
    /// returns true: it is called before each pause, with the time waited so far.
    ///
    /// `mode` counts only for the socket that registers the UMEM; one that shares takes over the
    /// mode of the other.
    ///
    /// # Errors
    /// [`XskError::Busy`] at the end of the wait, else [`XskError::Bind`].
    pub fn bind(
        &mut self,
        mode: BindMode,
        timeout: Duration,
        mut goes_on: impl FnMut(Duration) -> bool,
    ) -> Result<(), XskError> {
        let SocketConfig { ifindex, queue_id, .. } = self.config;
        let address = self.address(mode);
        let started = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            let source = match socket_option::bind(&self.fd, &address) {
                Ok(()) => {
                    self.shared = None;
                    return Ok(());
                }
                Err(source) => source,
            };
            if source.raw_os_error() != Some(libc::EBUSY) {
                return Err(XskError::Bind { ifindex, queue_id, source });
            }
            let waited = started.elapsed();
            if !goes_on(waited) || waited >= timeout {
                return Err(XskError::Busy { ifindex, queue_id, waited_ms: waited.as_millis() });
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }

    fn address(&self, mode: BindMode) -> libc::sockaddr_xdp {
        let SocketConfig { ifindex, queue_id, multi_buffer, .. } = self.config;
        let (sxdp_flags, sxdp_shared_umem_fd) = match &self.shared {
            Some(other) => (abi::XDP_SHARED_UMEM, other.as_raw_fd() as u32),
            None => {
                let mode = if mode == BindMode::ZeroCopy { abi::XDP_ZEROCOPY } else { abi::XDP_COPY };
                let parts = if multi_buffer { abi::XDP_USE_SG } else { 0 };
                (abi::XDP_USE_NEED_WAKEUP | mode | parts, 0)
            }
        };
        libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags,
            sxdp_ifindex: ifindex,
            sxdp_queue_id: queue_id,
            sxdp_shared_umem_fd,
        }
    }

    /// The mode the kernel really uses (`XDP_OPTIONS`).
    ///
    /// # Errors
    /// The kernel's error.
    pub fn mode(&self) -> io::Result<BindMode> {
        socket_option::get(&self.fd, abi::SOL_XDP, abi::XDP_OPTIONS).map(BindMode::of_options)
    }

    /// The kernel's counters. They survive the deletion of the interface.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn statistics(&self) -> io::Result<SocketStatistics> {
        let statistics: libc::xdp_statistics =
            socket_option::get(&self.fd, abi::SOL_XDP, abi::XDP_STATISTICS)?;
        Ok(SocketStatistics {
            rx_dropped: statistics.rx_dropped,
            rx_ring_full: statistics.rx_ring_full,
            rx_fill_ring_empty: statistics.rx_fill_ring_empty_descs,
            tx_invalid_descs: statistics.tx_invalid_descs,
        })
    }

    /// Wakes the kernel if it waits for cells in the fill ring.
    pub fn wake_receiver(&self) {
        if self.fill.needs_wakeup() {
            // SAFETY: a receive without a buffer reads nothing into our memory. Errors (EAGAIN,
            // ENETDOWN) mean that there is nothing to wake.
            unsafe { libc::recv(self.fd.as_raw_fd(), ptr::null_mut(), 0, libc::MSG_DONTWAIT) };
        }
    }

    /// Becomes readable when packets wait. The socket is closed with its last owner.
    pub fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.fd))
    }

    /// Puts it into a map of sockets, at `index`: see [`Map::set_socket`].
    ///
    /// # Errors
    /// As there.
    pub fn put_into(&self, map: &Map, index: u32) -> Result<(), bpf::Error> {
        map.set_socket(index, self.fd.as_fd())
    }

    /// What other sockets may use once it is bound.
    pub fn registration(&self) -> Registration {
        Registration { memory: Arc::clone(&self.memory), fd: Arc::clone(&self.fd) }
    }
}

fn set_up(step: &'static str) -> impl Fn(io::Error) -> XskError {
    move |source| XskError::SetUp { step, source }
}

/// The queue that the socket is for; `None` if the kernel does not report its namespace.
fn queue_name(fd: &OwnedFd, config: SocketConfig) -> Option<QueueName> {
    let SocketConfig { ifindex, queue_id, .. } = config;
    let namespace = socket_option::get(fd, libc::SOL_SOCKET, libc::SO_NETNS_COOKIE).ok()?;
    Some(QueueName { namespace, ifindex, queue_id })
}

fn open() -> Result<OwnedFd, XskError> {
    socket_option::open(libc::AF_XDP, libc::SOCK_RAW).map_err(|source| match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => XskError::NotPermitted,
        Some(libc::EAFNOSUPPORT) => XskError::NotSupported,
        _ => XskError::SetUp { step: "socket", source },
    })
}

/// Has the kernel allocate the rings.
fn size_rings(fd: &OwnedFd, rings: RingSizes) -> Result<(), XskError> {
    let sizes = [
        (abi::XDP_UMEM_FILL_RING, Some(rings.fill), "the fill ring"),
        (abi::XDP_UMEM_COMPLETION_RING, Some(rings.completion), "the completion ring"),
        (abi::XDP_RX_RING, rings.rx, "the receive ring"),
        (abi::XDP_TX_RING, rings.tx, "the transmit ring"),
    ];
    for (option, size, step) in sizes {
        let Some(entries) = size.map(RingSize::entries) else { continue };
        socket_option::set(fd, abi::SOL_XDP, option, &entries).map_err(|source| {
            match source.raw_os_error() {
                Some(libc::ENOMEM) => XskError::RingMemory { step, entries },
                _ => XskError::SetUp { step, source },
            }
        })?;
    }
    if let Some(tx) = rings.tx {
        // In copy mode a call sends all that is in the ring, and not 32 packets of it. Kernels before 6.17
        // cannot: there `Sender::flush` calls more often.
        let _ = socket_option::set(fd, abi::SOL_XDP, abi::XDP_MAX_TX_SKB_BUDGET, &tx.entries());
    }
    Ok(())
}

fn register(fd: &OwnedFd, memory: &PacketMemory, config: SocketConfig) -> Result<(), XskError> {
    let registration = libc::xdp_umem_reg {
        addr: memory.start_address(),
        len: memory.len(),
        chunk_size: memory.cell_bytes(),
        headroom: config.headroom,
        flags: 0,
        tx_metadata_len: 0,
    };
    socket_option::set(fd, abi::SOL_XDP, abi::XDP_UMEM_REG, &registration).map_err(|source| {
        match source.raw_os_error() {
            Some(libc::ENOBUFS) => XskError::MemoryLockLimit(memory.whole_len()),
            _ => XskError::SetUp { step: "registering the packet memory", source },
        }
    })
}
