//! One AF_PACKET socket: its ring, its place in a fanout group, its filter, its counters.
//!
//! ```text
//!   open ── closed: a filter that refuses everything ── bind, fanout ── listen: the ring fills ── close
//! ```
//!
//! Rule: a socket hears nothing before [`PacketSocket::listen`]. So no packet is seen by two sockets of a
//! fanout group while the group is put together. They begin one after the other; packets of the last one's
//! share that come before it listens are not seen, and not counted.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use wirecap_core::{Geometry, Pool, PoolId, PoolNumber, choices};

use super::{
    PacketError,
    ring::{BlockReader, BlockRing, CandidatePacket},
    statistics::{PacketStatistics, StatisticsSums},
};
use crate::{
    memory::{FilledBlock, LivePool},
    netdev::FrameSocket,
    socket_option,
    wake::Waker,
};

/// What to open.
#[derive(Debug, Clone, Copy)]
pub struct PacketConfig {
    /// Interface, by index in the calling thread's network namespace. 0 is all of them.
    pub ifindex: u32,
    /// R chunks, each a block of M cells.
    pub geometry: Geometry,
    /// Whether packets that the host sends are heard, too.
    pub outgoing: bool,
    /// A block with packets is handed over after this many milliseconds, also when it is not full.
    pub retire_ms: u32,
}

choices! {
    /// How packets are spread over the sockets of a fanout group.
    pub enum Fanout = Hash {
        /// By flow: both directions of a connection go to one worker.
        Hash = "hash",
        /// By receive queue of the NIC.
        Queue = "queue",
        /// By core on which they came in.
        Cpu = "cpu",
    }
}

impl Fanout {
    fn mode(self) -> u32 {
        match self {
            Fanout::Hash => libc::PACKET_FANOUT_HASH,
            Fanout::Queue => libc::PACKET_FANOUT_QM,
            Fanout::Cpu => libc::PACKET_FANOUT_CPU,
        }
    }
}

/// An AF_PACKET socket with a ring of blocks.
#[derive(Debug)]
pub struct PacketSocket {
    fd: Arc<OwnedFd>,
    ring: Arc<BlockRing>,
    config: PacketConfig,
    /// The pool that was carved.
    pool: Option<PoolNumber>,
    /// The block the kernel hands over next.
    next_filled: u32,
    /// The block the kernel gets next.
    next_given: u32,
    /// INVARIANT: this number of blocks from `next_filled` on, around the ring, up to `next_given`, are the
    /// kernel's or handed over and not received. The status word alone does not show it: that of a block
    /// that a worker has says "user", too.
    given: u32,
    /// Blocks that the kernel has had from the start, and need not be given the first time. It may
    /// have filled them already.
    fresh: u32,
    sums: StatisticsSums,
    /// Time of the last packet received.
    last_ns: u64,
}

/// With fewer blocks, the kernel drops some packets although blocks are free. `tpacket_rcv()` looks for room
/// before it takes the lock of the ring (`__tpacket_v3_has_room()` in net/packet/af_packet.c): in the current
/// block, and in the one a quarter of the ring ahead. `prb_close_block()`, on another core, gives the current
/// block to user space a moment before the next one becomes current. A packet that comes in that moment needs
/// the block ahead. That one is free unless three quarters of the ring are in use; but with fewer than four
/// blocks, it is the current one again.
pub const ENOUGH_BLOCKS: u32 = 4;
/// A block is whole pages.
const MIN_BLOCK_BYTES: u32 = 4096;

const fn insn(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// Classic programs: nothing, and what the host has not sent itself.
const REFUSE_ALL: [libc::sock_filter; 1] = [insn(libc::BPF_RET | libc::BPF_K, 0, 0, 0)];
const INCOMING_ONLY: [libc::sock_filter; 4] = [
    // The kind of the packet: a word that only the kernel has (`SKF_AD_OFF` + `SKF_AD_PKTTYPE`).
    insn(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0xffff_f004),
    insn(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, 0, libc::PACKET_OUTGOING as u32),
    insn(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
    insn(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
];

impl PacketSocket {
    /// Opens a socket that hears nothing yet. Needs CAP_NET_RAW.
    ///
    /// # Errors
    /// [`PacketError`], each variant with the remedy.
    pub fn open(config: &PacketConfig) -> Result<Self, PacketError> {
        let fd = Arc::new(open()?);
        let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
        socket_option::set(&fd, libc::SOL_PACKET, libc::PACKET_VERSION, &version)
            .map_err(set_up("choosing TPACKET_V3"))?;
        // Room to put a VLAN tag back in front of the packet.
        socket_option::set(&fd, libc::SOL_PACKET, libc::PACKET_RESERVE, &4u32)
            .map_err(set_up("reserving room"))?;
        let ring = make_ring(&fd, config)?;
        let socket = Self {
            fd,
            ring: Arc::new(ring),
            config: *config,
            pool: None,
            next_filled: 0,
            next_given: 0,
            given: 0,
            fresh: config.geometry.chunks_per_pool(),
            sums: StatisticsSums::new().map_err(set_up("mapping the counters"))?,
            last_ns: 0,
        };
        refuse_all(&socket.fd)?;
        socket.bind()?;
        Ok(socket)
    }

    fn bind(&self) -> Result<(), PacketError> {
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
            sll_ifindex: self.config.ifindex as i32,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        socket_option::bind(&self.fd, &address).map_err(|source| match source.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) => PacketError::NoSuchInterface { ifindex: self.config.ifindex },
            _ => PacketError::SetUp { step: "binding", source },
        })
    }

    /// Makes a fanout group of its own, and joins it. Returns its number.
    ///
    /// # Errors
    /// [`PacketError::Fanout`].
    pub fn found_group(&self, fanout: Fanout) -> Result<u16, PacketError> {
        self.set_fanout(0, fanout.mode() | libc::PACKET_FANOUT_FLAG_UNIQUEID)?;
        let argument: u32 = socket_option::get(&self.fd, libc::SOL_PACKET, libc::PACKET_FANOUT)
            .map_err(set_up("reading the number of the group"))?;
        Ok(argument as u16)
    }

    /// Joins a fanout group: each packet goes to one of its sockets.
    ///
    /// # Errors
    /// [`PacketError::Fanout`].
    pub fn join(&self, group: u16, fanout: Fanout) -> Result<(), PacketError> {
        self.set_fanout(group, fanout.mode())
    }

    fn set_fanout(&self, group: u16, mode: u32) -> Result<(), PacketError> {
        let argument = u32::from(group) | (mode << 16);
        socket_option::set(&self.fd, libc::SOL_PACKET, libc::PACKET_FANOUT, &argument)
            .map_err(|source| PacketError::Fanout { group, source })
    }

    /// Makes the pool whose chunks are the blocks of the ring, and what reads them. `None` when it was
    /// made before: two pools would both give the same blocks away.
    pub fn carve(&mut self, id: PoolId) -> Option<(LivePool, BlockReader)> {
        if self.pool.is_some() {
            return None;
        }
        let pool = Pool::new(id, self.config.geometry, 0);
        self.pool = Some(pool.number());
        let reader = BlockReader::new(&self.ring, &pool);
        Some((LivePool::of_blocks(pool), reader))
    }

    /// Begins to hear: what `filter` lets through, or everything. The filter is a loaded program of the
    /// kind `BPF_PROG_TYPE_SOCKET_FILTER`.
    ///
    /// # Errors
    /// [`PacketError::SetUp`].
    pub fn listen(&mut self, filter: Option<BorrowedFd<'_>>) -> Result<(), PacketError> {
        // What was counted so far was refused.
        self.read_statistics().map_err(set_up("reading the counters"))?;
        self.sums.clear();
        match filter {
            Some(program) => {
                socket_option::set(&self.fd, libc::SOL_SOCKET, libc::SO_ATTACH_BPF, &program.as_raw_fd())
            }
            None if self.config.outgoing => {
                socket_option::set(&self.fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0i32)
            }
            // PACKET_IGNORE_OUTGOING does nothing in a fanout group.
            None => attach_classic(&self.fd, &INCOMING_ONLY),
        }
        .map_err(set_up("attaching the filter"))
    }

    /// Becomes readable when a block was handed over; in error when the interface is gone. The socket is
    /// closed with its last owner.
    pub fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.fd))
    }

    /// What ends the listening, from any thread.
    ///
    /// # Errors
    /// [`PacketError::SetUp`].
    pub fn closer(&self) -> Result<Closer, PacketError> {
        let fd = self.fd.try_clone().map_err(set_up("copying the descriptor"))?;
        Ok(Closer { fd, ring: Arc::clone(&self.ring) })
    }

    /// Sends frames from the interface, by the same socket: neither it nor others of its group hear them.
    ///
    /// # Errors
    /// [`PacketError::SetUp`].
    pub fn sender(&self) -> Result<FrameSocket, PacketError> {
        self.fd.try_clone().map(FrameSocket::from).map_err(set_up("copying the descriptor"))
    }

    /// Gives free blocks of the pool to the kernel, in the order of the ring. A block that is not home
    /// yet keeps those behind it waiting: the kernel would wait for it, too. Returns how many.
    ///
    /// # Panics
    /// When the pool is not the one of this socket.
    pub fn attach(&mut self, pool: &mut LivePool) -> u32 {
        assert!(self.pool == Some(pool.number()), "the pool that was carved for this socket");
        let before = self.given;
        while pool.attach_block(self.next_given) {
            match self.fresh.checked_sub(1) {
                Some(fresh) => self.fresh = fresh,
                None => self.ring.give_back(self.next_given),
            }
            self.next_given = (self.next_given + 1) % self.ring.blocks();
            self.given += 1;
        }
        self.given - before
    }

    /// Takes the next block, if the kernel has handed it over. Packets that `keep` does not want are as if
    /// they had not been there. `now_ns` is the present, in nanoseconds since 1970 (UTC), by which a clock
    /// that was set back is known.
    pub fn receive(
        &mut self,
        now_ns: u64,
        keep: impl FnMut(&CandidatePacket<'_>) -> bool,
    ) -> Option<FilledBlock> {
        let pool = self.pool.filter(|_| self.is_ready())?;
        let block = self.next_filled;
        // It counts as received from here on, also if `keep` panics: it must not be written once more.
        self.next_filled = (block + 1) % self.ring.blocks();
        self.given -= 1;
        // SAFETY: the kernel has handed the block over (`is_ready`), and it was received just now for the
        // first time since, so the pool has made no token for it.
        let (packets, bytes) = unsafe { self.ring.receive(block, &mut self.last_ns, now_ns, keep) };
        Some(FilledBlock::new(pool, packets, bytes))
    }

    /// Whether a block waits.
    pub fn is_ready(&self) -> bool {
        self.given > 0 && self.ring.is_filled(self.next_filled)
    }

    /// Whether there are packets in the block that the kernel fills now.
    pub fn is_filling(&self) -> bool {
        self.given > 0 && self.ring.is_begun(self.next_filled)
    }

    /// Bytes that are taken of the block that the kernel fills now; 0 if there is no packet in it.
    pub fn begun_bytes(&self) -> u32 {
        let filled = self.backlog();
        if filled == self.given {
            return 0;
        }
        self.ring.begun_bytes((self.next_filled + filled) % self.ring.blocks())
    }

    /// Blocks that wait.
    pub fn backlog(&self) -> u32 {
        let blocks = (0..self.given).map(|ahead| (self.next_filled + ahead) % self.ring.blocks());
        blocks.take_while(|&block| self.ring.is_filled(block)).count() as u32
    }

    /// The counters.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn statistics(&mut self) -> io::Result<PacketStatistics> {
        // `struct tpacket_stats_v3`.
        let [packets, dropped, _freezes] = self.read_statistics()?;
        Ok(self.sums.add(packets.into(), dropped.into()))
    }

    fn read_statistics(&self) -> io::Result<[u32; 3]> {
        socket_option::get(&self.fd, libc::SOL_PACKET, libc::PACKET_STATISTICS)
    }
}

impl AsFd for PacketSocket {
    /// Readable when a block was handed over; in error when the interface is gone.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Ends the listening of a socket.
#[derive(Debug)]
pub struct Closer {
    fd: OwnedFd,
    ring: Arc<BlockRing>,
}

impl Closer {
    /// The socket hears nothing more, except packets that are on their way into it right now: see
    /// [`wait_for_kernel`](crate::cpu::wait_for_kernel). What is in the ring stays.
    ///
    /// # Errors
    /// [`PacketError::SetUp`].
    pub fn close(&self) -> Result<(), PacketError> {
        refuse_all(&self.fd)
    }

    /// Waits, at most for `timeout`, until the kernel has handed over the block that is not full. Returns
    /// whether it has.
    pub fn wait_for_last_block(&self, timeout: Duration) -> bool {
        let end = Instant::now() + timeout;
        loop {
            if !(0..self.ring.blocks()).any(|block| self.ring.is_begun(block)) {
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Has the kernel allocate the ring of blocks, and maps it.
fn make_ring(fd: &OwnedFd, config: &PacketConfig) -> Result<BlockRing, PacketError> {
    let (blocks, block_bytes) = (config.geometry.chunks_per_pool(), config.geometry.chunk_bytes());
    if block_bytes < MIN_BLOCK_BYTES {
        return Err(PacketError::SmallBlock { block_bytes, min: MIN_BLOCK_BYTES });
    }
    let request = libc::tpacket_req3 {
        tp_block_size: block_bytes,
        tp_block_nr: blocks,
        // Only its product with the number counts: frames of a block have any length.
        tp_frame_size: block_bytes,
        tp_frame_nr: blocks,
        tp_retire_blk_tov: config.retire_ms,
        tp_sizeof_priv: 0,
        tp_feature_req_word: 0,
    };
    socket_option::set(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &request).map_err(
        |source| match source.raw_os_error() {
            Some(libc::ENOMEM) => PacketError::RingMemory { blocks, block_bytes },
            _ => PacketError::SetUp { step: "making the ring", source },
        },
    )?;
    BlockRing::map(fd.as_fd(), blocks, block_bytes)
}

fn refuse_all(fd: &OwnedFd) -> Result<(), PacketError> {
    attach_classic(fd, &REFUSE_ALL).map_err(set_up("closing the filter"))
}

fn attach_classic(fd: &OwnedFd, insns: &[libc::sock_filter]) -> io::Result<()> {
    // The kernel reads the instructions, and does not write them.
    let program = libc::sock_fprog { len: insns.len() as u16, filter: insns.as_ptr().cast_mut() };
    socket_option::set(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

fn set_up(step: &'static str) -> impl Fn(io::Error) -> PacketError {
    move |source| PacketError::SetUp { step, source }
}

fn open() -> Result<OwnedFd, PacketError> {
    socket_option::open(libc::AF_PACKET, libc::SOCK_RAW).map_err(|source| match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => PacketError::NotPermitted,
        _ => PacketError::SetUp { step: "opening", source },
    })
}
