//! One transmit queue of an interface, and cells to send from it: for frames that are generated or read from
//! a file.
//!
//! ```text
//!   cell_mut ─► frame in an idle cell ── stage, flush ──► with the kernel ── complete ──► idle again, the frame still in it
//! ```
//!
//! The cells are as many as there are frames to be kept, the ring is as deep as it should be: they have
//! nothing to do with each other.
//!
//! Rule: bytes of a cell are lent only while it is idle, and the queue is borrowed as long as they are. From
//! `stage` until the kernel says that it was sent, a cell is the kernel's.

use std::{
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use super::{
    BindMode, RingDescriptor, RingSizes, Socket, SocketConfig, SocketStatistics, Umem, XskError,
    abi::XDP_PKT_CONTD, outlet::Outlet,
};
use crate::memory::PacketMemory;

/// Most cells of one frame: what fits into the parts of the kernel's packet buffer.
pub const MAX_PARTS: usize = 16;

const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_micros(100);

/// Which mode a queue is bound in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BindChoice {
    /// Zero-copy where the driver has it, else copy; [`TransmitQueue::fallback`] has the reason.
    #[default]
    Best,
    /// This one or none.
    Only(BindMode),
}

/// The settings of a [`TransmitQueue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransmitOptions {
    /// Cells to keep frames in.
    pub cells: u32,
    /// Size of a cell in bytes: 2048 or 4096.
    pub cell_bytes: u32,
    /// Cells that can be with the kernel at the same time: a power of two.
    pub ring_entries: u32,
    /// Zero-copy or copy.
    pub bind: BindChoice,
    /// Whether frames of several cells can be sent (kernel 6.6 or newer).
    pub multi_buffer: bool,
}

impl Default for TransmitOptions {
    /// 2048 cells of 2 KiB, all of which can be with the kernel; the best mode; a frame is one cell.
    fn default() -> Self {
        Self {
            cells: 2048,
            cell_bytes: 2048,
            ring_entries: 2048,
            bind: BindChoice::Best,
            multi_buffer: false,
        }
    }
}

/// A part of a frame: the first `len` bytes of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellPart {
    /// Number of the cell, from 0.
    pub cell: u32,
    /// Bytes; never 0, which the kernel refuses.
    pub len: u32,
}

/// Sends frames from one queue of an interface, out of cells of its own.
#[derive(Debug)]
pub struct TransmitQueue {
    socket: Socket,
    outlet: Outlet,
    /// INVARIANT: no pool was carved out of it, and only the socket shares it.
    memory: Arc<PacketMemory>,
    /// By number of the cell: whether it is the kernel's.
    /// INVARIANT: true from when a descriptor of the cell was staged until its completion was read.
    taken: Box<[bool]>,
    options: TransmitOptions,
    mode: BindMode,
    zero_copy_refused: Option<XskError>,
    /// Completions that name no cell that is with the kernel: 0, or a driver is broken.
    foreign: u64,
}

impl TransmitQueue {
    /// Opens queue `queue_id` of an interface, by index in the calling thread's network namespace. All cells
    /// are idle and hold zeros.
    ///
    /// # Errors
    /// [`XskError`] when the socket cannot be set up, or the cells do not fit into memory.
    pub fn open(ifindex: u32, queue_id: u32, options: TransmitOptions) -> Result<Self, XskError> {
        let TransmitOptions { cells, cell_bytes, ring_entries, bind, multi_buffer } = options;
        let memory = PacketMemory::allocate(u64::from(cells) * u64::from(cell_bytes), cell_bytes)
            .map_err(|error| XskError::SetUp { step: "packet memory", source: io::Error::other(error) })?;
        let memory = Arc::new(memory);
        let rings = RingSizes::sending(ring_entries)?;
        let config = SocketConfig { ifindex, queue_id, headroom: 0, rings, multi_buffer };
        let bound = |mode| {
            let mut socket = Socket::create(config, Umem::Register(&memory))?;
            socket.bind(mode, BUSY_TIMEOUT, |_| true)?;
            let outlet =
                socket.take_outlet().map_err(|source| XskError::SetUp { step: "its descriptor", source })?;
            Ok((socket, outlet.expect("it was made to send"), mode))
        };
        let zero_copy = || {
            let bound = bound(BindMode::ZeroCopy)?;
            // Some drivers bind without an XDP program on the interface, and then refuse to send (EINVAL,
            // ENXIO). An empty ring is enough to find out.
            bound.1.try_kick().map_err(|source| XskError::Bind { ifindex, queue_id, source })?;
            Ok(bound)
        };
        let ((socket, outlet, mode), zero_copy_refused) = match bind {
            BindChoice::Only(mode) => (bound(mode)?, None),
            BindChoice::Best => match zero_copy() {
                Err(refused @ XskError::Bind { .. }) => (bound(BindMode::Copy)?, Some(refused)),
                bound => (bound?, None),
            },
        };
        Ok(Self {
            outlet,
            socket,
            memory,
            taken: vec![false; cells as usize].into(),
            options,
            mode,
            zero_copy_refused,
            foreign: 0,
        })
    }

    /// How it was opened.
    pub fn options(&self) -> TransmitOptions {
        self.options
    }

    /// Whether the driver sends from the cells themselves.
    pub fn mode(&self) -> BindMode {
        self.mode
    }

    /// Why it is not zero-copy, when that was tried.
    pub fn fallback(&self) -> Option<&XskError> {
        self.zero_copy_refused.as_ref()
    }

    /// All bytes of a cell, to be read and written. `None` while the kernel has it, or if there is no such
    /// cell.
    #[inline]
    pub fn cell_mut(&mut self, cell: u32) -> Option<&mut [u8]> {
        if *self.taken.get(cell as usize)? {
            return None;
        }
        let cell_bytes = self.options.cell_bytes;
        let address = u64::from(cell) * u64::from(cell_bytes);
        // SAFETY: there is such a cell (`taken` has an entry for it), so the range lies in the memory, which
        // was made for all cells. It is not with the kernel by the invariant on `taken`, and no one else has
        // this memory by the one on `memory`; the exclusive borrow of `self` lasts as long as the bytes are
        // lent.
        Some(unsafe { self.memory.bytes_mut(address, cell_bytes) })
    }

    /// Puts a frame into the ring: the first `len` bytes of a cell. It is sent with [`TransmitQueue::flush`].
    /// Returns false, and changes nothing, when the ring is full, the kernel has the cell already, there is
    /// no such cell, or it holds fewer bytes.
    #[inline]
    pub fn stage(&mut self, cell: u32, len: u32) -> bool {
        let part = CellPart { cell, len };
        let is_ready = self.is_idle(part) && self.outlet.has_room(1);
        if is_ready {
            self.put(part, 0);
        }
        is_ready
    }

    /// Whether there is such a part, in a cell that is not with the kernel.
    #[inline]
    fn is_idle(&self, CellPart { cell, len }: CellPart) -> bool {
        self.taken.get(cell as usize) == Some(&false) && (1..=self.options.cell_bytes).contains(&len)
    }

    /// Stages a part of an idle cell. There has to be room.
    #[inline]
    fn put(&mut self, CellPart { cell, len }: CellPart, options: u32) {
        self.taken[cell as usize] = true;
        let address = u64::from(cell) * u64::from(self.options.cell_bytes);
        self.outlet.stage(RingDescriptor { address, len, options });
    }

    /// Puts a frame of several parts into the ring, as [`TransmitQueue::stage`] does with one. Returns false,
    /// and changes nothing, also when there are more than [`MAX_PARTS`], one comes twice, or there is more
    /// than one and the queue was not opened for that.
    pub fn stage_parts(&mut self, parts: &[CellPart]) -> bool {
        let several = parts.len() > 1;
        if parts.is_empty()
            || parts.len() > MAX_PARTS
            || (several && !self.options.multi_buffer)
            || !self.outlet.has_room(parts.len() as u32)
        {
            return false;
        }
        for (index, &part) in parts.iter().enumerate() {
            let twice = several && parts[..index].iter().any(|other| other.cell == part.cell);
            if twice || !self.is_idle(part) {
                return false;
            }
        }
        for (index, &part) in parts.iter().enumerate() {
            self.put(part, if index + 1 < parts.len() { XDP_PKT_CONTD } else { 0 });
        }
        true
    }

    /// Has the kernel send what was staged: one publication, and in copy mode a system call for every few
    /// frames.
    ///
    /// # Errors
    /// The kernel's error: ENETDOWN when the interface is down, ENXIO when it is gone. What is in the ring
    /// stays there.
    pub fn flush(&mut self) -> io::Result<()> {
        self.outlet.flush()
    }

    /// Takes back cells that were sent, and passes on their numbers. Returns how many.
    #[inline]
    pub fn complete(&mut self, mut idle: impl FnMut(u32)) -> u32 {
        let Self { outlet, taken, options, foreign, .. } = self;
        // A power of two, or the kernel had not taken the memory.
        let shift = options.cell_bytes.trailing_zeros();
        outlet.complete(|address| {
            let cell = address >> shift;
            match taken.get_mut(cell as usize) {
                Some(taken) if *taken => *taken = false,
                _ => {
                    *foreign += 1;
                    return false;
                }
            }
            idle(cell as u32);
            true
        })
    }

    /// Waits until the kernel has given every cell back, at most for `timeout`. Returns whether it has.
    ///
    /// # Errors
    /// As [`TransmitQueue::flush`].
    pub fn finish(&mut self, timeout: Duration, mut idle: impl FnMut(u32)) -> io::Result<bool> {
        let started = Instant::now();
        loop {
            self.flush()?;
            self.complete(&mut idle);
            if self.in_flight() == 0 {
                return Ok(true);
            }
            if started.elapsed() > timeout {
                return Ok(false);
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    /// How many more cells could be staged now.
    pub fn room(&mut self) -> u32 {
        self.outlet.room()
    }

    /// Cells that are with the kernel.
    pub fn in_flight(&self) -> u32 {
        self.outlet.flying()
    }

    /// Completions that named no cell in flight; 0 unless a driver is broken.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }

    /// The kernel's counters of the socket: `tx_invalid_descs` are frames that it refused.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn statistics(&self) -> io::Result<SocketStatistics> {
        self.socket.statistics()
    }
}
