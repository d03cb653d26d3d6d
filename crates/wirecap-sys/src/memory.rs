//! The packet memory: one mapping that holds the cells of every pool of an engine.
//!
//! ```text
//!   PacketMemory (becomes the UMEM of every AF_XDP socket)
//!   ┌────────── pool (0, 0) ──────────┬────────── pool (0, 1) ──────────┬── … ──┐
//!   │ R × M cells, on the NIC's node  │                                 │       │
//!   └─────────────────────────────────┴─────────────────────────────────┴───────┘
//!   0 ◄── addresses count from here
//! ```
//!
//! Rule: cells are read only through a [`CellReader`], with the [`ChunkRange`](wirecap_core::ChunkRange) that proves that they
//! are captured. Reader and [`Pool`] come from the same call to [`PacketMemory::carve`], and no two
//! pools overlap.
//!
//! Kept here: names of pools are unique in a memory, the cells of a pool are given to the kernel by one socket
//! only, and only those of a pool of this memory. What this rests on besides, and what the crate
//! that drives the pools (`wirecap`) keeps: pools of an engine are made by [`PacketMemory::carve`] only, though
//! [`Pool::new`] makes others with the same name for tests; a pool is filled only with descriptors from its own socket, its
//! unfilled chunks are taken back only when that socket is gone, and a reader is given ranges of its own memory. What
//! holds of a socket holds of a [`CellWriter`].

mod available;
mod mapping;
mod reader;
mod writer;

use std::{
    io,
    ops::Range,
    ptr,
    sync::{Arc, Mutex, PoisonError},
};

pub use available::{Available, MemoryBound, Need, available};
use mapping::Mapping;
pub use mapping::{Advice, MemoryFallback, Pages};
pub use reader::{CellReader, Cells};
use thiserror::Error;
use wirecap_core::{Geometry, Pool, PoolId, SlotTable};
pub use writer::{CellWriter, HEAD_ROOM_BYTES, Note};

const HUGE_PAGE_BYTES: usize = 2 << 20;
const PAGE_BYTES: u64 = 4096;
const MPOL_PREFERRED: u32 = 1;

/// Why there is no packet memory.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// Refused before trying, since the kernel would end a process to make room.
    #[error("packet memory of {} MiB does not fit: {}", needed >> 20, room(*available, bound))]
    TooLarge {
        /// Bytes asked for, with what the kernel needs besides.
        needed: u64,
        /// Bytes available.
        available: u64,
        /// What bounds that.
        bound: MemoryBound,
    },
    /// The kernel refused the mapping.
    #[error(
        "mapping {} MiB of packet memory failed: {source}{}",
        needed >> 20,
        if self.is_lack() { "; raise the limit (ulimit -v, or that of the container)" } else { "" }
    )]
    Map {
        /// Bytes asked for.
        needed: u64,
        /// What the kernel said.
        source: io::Error,
    },
    /// The pools do not fit in what was allocated.
    #[error("the packet memory has no room for one more pool of {0} bytes")]
    Exhausted(u64),
    /// There is a pool of this name in the memory already.
    #[error("there is a pool for receive queue {} of port {} already; open each port once", .0.ring_id, .0.nic_id)]
    PoolTwice(PoolId),
}

/// How much there is, and the limit that bounds it.
fn room(available: u64, bound: &MemoryBound) -> String {
    let available = available >> 20;
    match bound {
        MemoryBound::Machine => {
            format!("{available} MiB of memory are available")
        }
        MemoryBound::Group { directory, setting, limit } => format!(
            "{available} MiB are left of the {} MiB that the control group {} may have ({setting}); raise that limit",
            limit >> 20,
            directory.display()
        ),
    }
}

impl MemoryError {
    /// Whether the kernel refused a mapping for lack of memory, or at a limit.
    pub fn is_lack(&self) -> bool {
        // EFAULT is what populating answers where a control group's limit is reached.
        let lacks = |source: &io::Error| {
            matches!(source.raw_os_error(), Some(libc::ENOMEM | libc::EFAULT | libc::EAGAIN))
        };
        matches!(self, Self::Map { source, .. } if lacks(source))
    }
}

/// The memory of cells that the kernel knows under one registration.
#[derive(Debug)]
pub struct PacketMemory {
    mapping: Arc<Mapping>,
    /// INVARIANT: start of `len` bytes of `mapping` that no other packet memory has.
    start: ptr::NonNull<u8>,
    len: usize,
    carved: Mutex<Carved>,
}

/// What was given to pools so far.
#[derive(Debug, Default)]
struct Carved {
    /// Bytes from the start.
    end: u64,
    /// INVARIANT: each id once.
    pools: Vec<CarvedPool>,
}

#[derive(Debug)]
struct CarvedPool {
    id: PoolId,
    slots: Arc<SlotTable>,
    /// A socket gives its cells to the kernel.
    claimed: bool,
}

/// The right of one socket to give the cells of a pool to the kernel. Dropping it gives the right back.
#[derive(Debug)]
pub(crate) struct PoolClaim {
    memory: Arc<PacketMemory>,
    slots: Arc<SlotTable>,
    place: PoolPlace,
}

impl PoolClaim {
    /// Whether it is a right to this pool.
    pub(crate) fn is_of(&self, pool: &Pool) -> bool {
        Arc::ptr_eq(&self.slots, &pool.slots())
    }

    /// Where the pool's cells lie.
    #[inline]
    pub(crate) fn place(&self) -> PoolPlace {
        self.place
    }
}

/// Where the cells of a pool lie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolPlace {
    base: u64,
    bytes: u64,
    cell_bytes: u64,
}

impl PoolPlace {
    fn of(pool: &Pool) -> Self {
        let geometry = pool.geometry();
        Self { base: pool.base(), bytes: geometry.pool_bytes(), cell_bytes: geometry.cell_bytes().into() }
    }

    /// Whether the range lies within one cell of the pool.
    #[inline]
    pub(crate) fn holds(&self, address: u64, len: u32) -> bool {
        let offset = address.wrapping_sub(self.base);
        offset < self.bytes && (offset & (self.cell_bytes - 1)) + u64::from(len) <= self.cell_bytes
    }

    /// Where the cell begins that the address lies in, if it is one of this pool.
    pub(crate) fn cell(&self, address: u64) -> Option<u64> {
        let offset = address.wrapping_sub(self.base);
        (offset < self.bytes).then(|| self.base + (offset & !(self.cell_bytes - 1)))
    }
}

impl Drop for PoolClaim {
    fn drop(&mut self) {
        self.memory.set_claimed(&self.slots, false);
    }
}

// SAFETY: the mapping belongs to no thread; all access goes through `CellReader` and the kernel,
// which is ordered by the hand-over of chunk ranges.
unsafe impl Send for PacketMemory {}
// SAFETY: as above; the only interior mutability is behind a lock.
unsafe impl Sync for PacketMemory {}

impl PacketMemory {
    /// Memory for `bytes` bytes of cells: see [`PacketMemory::allocate_parts`].
    ///
    /// # Errors
    /// [`MemoryError`] when there is not enough memory or the kernel refuses.
    pub fn allocate(bytes: u64) -> Result<Self, MemoryError> {
        let mut parts = Self::allocate_parts(&[bytes], Need::default())?;
        Ok(parts.remove(0))
    }

    /// A memory for each of `parts`, which are sizes in bytes; all lie in one mapping, on reserved huge pages if enough are free, else on
    /// normal ones. Touches no page: see [`PacketMemory::populate`]. `beside` is other memory that the caller will need.
    ///
    /// The kernel keeps a record of each cell of a registration for *each* socket that uses it, so separate parts for sockets that share no
    /// cells save memory.
    ///
    /// # Errors
    /// [`MemoryError`] when there is not enough memory or the kernel refuses.
    pub fn allocate_parts(parts: &[u64], beside: Need) -> Result<Vec<Self>, MemoryError> {
        // The kernel maps and registers no part without a page.
        let lens: Vec<_> = parts.iter().map(|&part| part.max(1).next_multiple_of(PAGE_BYTES)).collect();
        let needed: u64 = lens.iter().sum();
        let mapping = Arc::new(Mapping::new(needed.max(PAGE_BYTES) as usize, beside)?);
        let mut begin = 0;
        let part = |len| {
            let start = mapping.at(begin as usize);
            begin += len;
            Self { mapping: Arc::clone(&mapping), start, len: len as usize, carved: Mutex::default() }
        };
        Ok(lens.into_iter().map(part).collect())
    }

    /// Cuts the next pool out of the memory. The reader belongs to exactly this pool.
    ///
    /// # Errors
    /// [`MemoryError::Exhausted`] when the rest is too small, [`MemoryError::PoolTwice`] when the memory has a
    /// pool of this name: a range of the one could be read with the reader of the other.
    pub fn carve(
        self: &Arc<Self>,
        id: PoolId,
        geometry: Geometry,
    ) -> Result<(Pool, CellReader), MemoryError> {
        let bytes = geometry.pool_bytes();
        let mut carved = self.carved.lock().unwrap_or_else(PoisonError::into_inner);
        if carved.pools.iter().any(|pool| pool.id == id) {
            return Err(MemoryError::PoolTwice(id));
        }
        // The kernel takes the start of a cell for a multiple of its size.
        let base = carved.end.next_multiple_of(u64::from(geometry.cell_bytes()));
        let end = base.checked_add(bytes).filter(|&end| end <= self.len as u64);
        carved.end = end.ok_or(MemoryError::Exhausted(bytes))?;
        let pool = Pool::new(id, geometry, base);
        let slots = pool.slots();
        carved.pools.push(CarvedPool { id, slots: Arc::clone(&slots), claimed: false });
        Ok((pool, CellReader::new(Arc::clone(self), slots, id)))
    }

    /// The right to give the cells of a pool to the kernel; `None` if it was not carved out of this memory, or
    /// somebody else has the right.
    pub(crate) fn claim(self: &Arc<Self>, pool: &Pool) -> Option<PoolClaim> {
        let slots = pool.slots();
        let was_claimed = self.set_claimed(&slots, true)?;
        let place = PoolPlace::of(pool);
        (!was_claimed).then(|| PoolClaim { memory: Arc::clone(self), slots, place })
    }

    /// What it was before; `None` for a pool of another memory.
    fn set_claimed(&self, slots: &Arc<SlotTable>, claimed: bool) -> Option<bool> {
        let mut carved = self.carved.lock().unwrap_or_else(PoisonError::into_inner);
        let pool = carved.pools.iter_mut().find(|pool| Arc::ptr_eq(&pool.slots, slots))?;
        Some(std::mem::replace(&mut pool.claimed, claimed))
    }

    /// Prefers memory of a NUMA node for `bytes` bytes from `address` on. Must come before
    /// [`PacketMemory::populate`].
    ///
    /// # Errors
    /// What the kernel said to mbind(2), for instance ENOSYS without NUMA support.
    pub fn prefer_node(&self, address: u64, bytes: u64, node: u32) -> io::Result<()> {
        let end = address.checked_add(bytes).filter(|&end| end <= self.len as u64);
        if end.is_none() || node >= 64 {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let mask: u64 = 1 << node;
        // SAFETY: the range lies in the mapping (checked above) and the mask outlives the call. The
        // kernel reads maxnode - 1 bits.
        let result = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.start.as_ptr().add(address as usize),
                bytes,
                libc::c_ulong::from(MPOL_PREFERRED),
                &raw const mask,
                65usize,
                0 as libc::c_ulong,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Which pages the memory is on.
    pub fn pages(&self) -> Pages {
        self.mapping.pages
    }

    /// What was wanted of the memory and is not so.
    pub fn fallbacks(&self) -> &[MemoryFallback] {
        &self.mapping.fallbacks
    }

    /// Brings the pages of these bytes in now, so that no packet waits for a page fault, for as long as `goes_on` says so: it is asked
    /// for every 2 MiB.
    ///
    /// # Errors
    /// What the kernel said, ENOMEM for instance when a control group's limit is reached; EINTR once `goes_on` says no.
    pub fn populate(&self, bytes: Range<u64>, goes_on: &dyn Fn() -> bool) -> io::Result<()> {
        let within = |at: u64| (at as usize).min(self.len);
        self.mapping.populate(self.start, within(bytes.start)..within(bytes.end), goes_on)
    }

    /// Size of all parts of the mapping together, in bytes.
    pub(crate) fn whole_len(&self) -> u64 {
        self.mapping.len() as u64
    }

    /// Size in bytes.
    pub fn len(&self) -> u64 {
        self.len as u64
    }

    /// Never true: a memory has at least one page.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Address of the mapping in this process, for registering it as a UMEM.
    pub(crate) fn start_address(&self) -> u64 {
        self.start.as_ptr().expose_provenance() as u64
    }

    /// The bytes of a range.
    ///
    /// # Safety
    /// The range lies within one cell of a pool that was carved out of this memory, and nobody writes there as long as
    /// the bytes are borrowed.
    #[inline]
    pub(crate) unsafe fn bytes(&self, address: u64, len: u32) -> &[u8] {
        // SAFETY: a pool lies in the mapping, so the range does; the caller promises that nobody writes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(address as usize), len as usize) }
    }

    /// The bytes of a range, to be written.
    ///
    /// # Safety
    /// The range lies in the mapping, and nobody else reads or writes there as long as the bytes are borrowed.
    #[inline]
    #[allow(clippy::mut_from_ref)] // who may write where is the caller's to know
    pub(crate) unsafe fn bytes_mut(&self, address: u64, len: u32) -> &mut [u8] {
        // SAFETY: the range lies in the mapping, whose bytes are initialised, and is the caller's alone, as is promised.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(address as usize), len as usize) }
    }

    /// Writes at an address. Only for cells that are neither with the kernel nor lent to a reader.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> bool {
        let end = address.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > self.len as u64) {
            return false;
        }
        // SAFETY: the range lies in the mapping (checked above), and the crate calls this only for cells that are
        // neither with the kernel nor lent to a reader: attached to a `CellWriter`.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(address as usize), bytes.len());
        }
        true
    }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
