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
//! Rule: a cell is with one of these at a time, and its bytes are touched by that one only:
//!
//! | with | while | proved by |
//! |---|---|---|
//! | the kernel, or a [`CellWriter`] | it is attached | the lease of its pool; one socket or writer has it |
//! | the holder of the [`FilledCell`] | it is filled | the token; the ring or writer makes one each time it fills a cell |
//! | its [`LivePool`] | it waits to be handed over, or is home | the pool's books |
//! | the holder of the [`ChunkRange`](wirecap_core::ChunkRange) | it is captured | the token; the pool makes one each time it hands over |
//!
//! This crate keeps the rule by itself, however its callers use it: tokens have no other makers, each bears
//! the number of its pool, no two pools have the same number, and every function that takes a token compares
//! it. The crate trusts `wirecap-core`, which has the books and no memory (each slot of a pool is in one
//! place; only a pool makes ranges), and the kernel (it fills a cell once each time it is given the cell).

mod available_memory;
mod error;
mod filled;
mod lease;
mod live_pool;
mod mapping;
mod memory_bound;
mod reader;
mod writer;

use std::{
    io,
    ops::Range,
    ptr,
    sync::{Arc, Mutex, PoisonError},
};

pub use available_memory::{AvailableMemory, Need, available, check as check_available};
pub use error::MemoryError;
pub use filled::{FilledBlock, FilledCell, FilledPart};
pub(crate) use lease::{PoolLease, PoolPlace, QueueName, Tenant};
pub use live_pool::{LiveFiller, LivePool};
use mapping::Mapping;
pub use mapping::{Advice, Children, MemoryFallback, Pages};
pub use memory_bound::MemoryBound;
pub use reader::{CellReader, Cells};
use wirecap_core::{Geometry, Pool, PoolId};
pub use writer::{CellWriter, HEAD_ROOM_BYTES, Note};

use crate::mmap::page_bytes;

const MPOL_PREFERRED: u32 = 1;

/// The memory of cells that the kernel knows under one registration, all of one size.
#[derive(Debug)]
pub struct PacketMemory {
    mapping: Arc<Mapping>,
    /// INVARIANT: start of `len` bytes of `mapping` that no other packet memory has.
    start: ptr::NonNull<u8>,
    len: usize,
    cell_bytes: u32,
    /// INVARIANT: all pools that were carved lie before it, and no two of them overlap. In bytes from the
    /// start.
    carved: Mutex<u64>,
}

// SAFETY: the mapping belongs to no thread; all access to its bytes is by right of a token (rule above),
// whose way orders it.
unsafe impl Send for PacketMemory {}
// SAFETY: as above; the only interior mutability is behind a lock.
unsafe impl Sync for PacketMemory {}

impl PacketMemory {
    /// Memory for `bytes` bytes of cells of this size: see [`PacketMemory::allocate_parts`].
    ///
    /// # Errors
    /// [`MemoryError`] when there is not enough memory or the kernel refuses.
    pub fn allocate(bytes: u64, cell_bytes: u32) -> Result<Self, MemoryError> {
        let mut parts = Self::allocate_parts(&[bytes], cell_bytes, Children::Without, Need::default())?;
        Ok(parts.remove(0))
    }

    /// A memory for each of `parts`, which are sizes in bytes; all lie in one mapping, on reserved huge pages
    /// if enough are free, else on normal ones. Touches no page: see [`PacketMemory::populate`]. `cell_bytes`
    /// is the size of all cells, by which the kernel divides a part. `beside` is other memory that the caller
    /// will need.
    ///
    /// The kernel keeps a record of each cell of a registration for *each* socket that uses it, so separate
    /// parts for sockets that share no cells save memory.
    ///
    /// # Errors
    /// [`MemoryError`] when there is not enough memory or the kernel refuses.
    pub fn allocate_parts(
        parts: &[u64],
        cell_bytes: u32,
        children: Children,
        beside: Need,
    ) -> Result<Vec<Self>, MemoryError> {
        // The kernel maps and registers no part without a page.
        let page_bytes = page_bytes() as u64;
        let lens: Vec<_> = parts.iter().map(|&part| part.max(1).next_multiple_of(page_bytes)).collect();
        let needed: u64 = lens.iter().sum();
        let mapping = Arc::new(Mapping::new(needed.max(page_bytes) as usize, children, beside)?);
        let mut begin = 0;
        let part = |len| {
            let start = mapping.at(begin as usize);
            begin += len;
            let mapping = Arc::clone(&mapping);
            Self { mapping, start, len: len as usize, cell_bytes, carved: Mutex::new(0) }
        };
        Ok(lens.into_iter().map(part).collect())
    }

    /// Cuts the next pool out of the memory.
    ///
    /// # Errors
    /// [`MemoryError::Exhausted`] when the rest is too small, [`MemoryError::CellBytes`] when the cells are
    /// of another size.
    pub fn carve(self: &Arc<Self>, id: PoolId, geometry: Geometry) -> Result<LivePool, MemoryError> {
        let (given, memory, bytes) = (geometry.cell_bytes(), self.cell_bytes, geometry.pool_bytes());
        if given != memory {
            return Err(MemoryError::CellBytes { given, memory });
        }
        let mut carved = self.carved.lock().unwrap_or_else(PoisonError::into_inner);
        // The kernel takes the start of a cell for a multiple of its size.
        let base = carved.next_multiple_of(u64::from(given));
        let end = base.checked_add(bytes).filter(|&end| end <= self.len as u64);
        *carved = end.ok_or(MemoryError::Exhausted(bytes))?;
        Ok(LivePool::of_cells(Pool::new(id, geometry, base), self))
    }

    /// Size of all its cells in bytes.
    pub fn cell_bytes(&self) -> u32 {
        self.cell_bytes
    }

    /// Prefers memory of a NUMA node for `bytes` bytes from `address` on. Must come before
    /// [`PacketMemory::populate`].
    ///
    /// # Errors
    /// The kernel's error from mbind(2), for instance ENOSYS without NUMA support.
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

    /// How the memory differs from what was wanted.
    pub fn fallbacks(&self) -> &[MemoryFallback] {
        &self.mapping.fallbacks
    }

    /// Brings the pages of these bytes in now, so that no packet waits for a page fault, for as long as
    /// `goes_on` returns true: it is called for every 2 MiB.
    ///
    /// # Errors
    /// The kernel's error, ENOMEM for instance when a control group's limit is reached; EINTR once
    /// `goes_on` returns false.
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
    /// The range lies within one cell of a pool that was carved out of this memory, and nothing writes there
    /// as long as the bytes are borrowed.
    #[inline]
    pub(crate) unsafe fn bytes(&self, address: u64, len: u32) -> &[u8] {
        // SAFETY: a pool lies in the mapping, so the range does; the caller promises that nothing writes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(address as usize), len as usize) }
    }

    /// The bytes of a range, to be written.
    ///
    /// # Safety
    /// The range lies in the mapping, and nothing else reads or writes there as long as the bytes are
    /// borrowed.
    #[inline]
    #[allow(clippy::mut_from_ref)] // who may write where is the caller's to know
    pub(crate) unsafe fn bytes_mut(&self, address: u64, len: u32) -> &mut [u8] {
        // SAFETY: the range lies in the mapping, whose bytes are initialised, and is the caller's alone, as
        // is promised.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(address as usize), len as usize) }
    }

    /// Writes at an address. Returns false, and writes nothing, beyond the memory.
    ///
    /// # Safety
    /// Nothing else reads or writes there.
    pub(crate) unsafe fn write(&self, address: u64, bytes: &[u8]) -> bool {
        let end = address.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > self.len as u64) {
            return false;
        }
        // SAFETY: the range lies in the mapping (checked above), and is the caller's alone, as is promised.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(address as usize), bytes.len());
        }
        true
    }
}

#[cfg(test)]
mod tests;
