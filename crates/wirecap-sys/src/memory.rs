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

mod populate;
mod reader;
mod writer;

use std::{
    io, ptr,
    sync::{Arc, Mutex, PoisonError},
};

pub use reader::{CellReader, Cells};
use thiserror::Error;
use wirecap_core::{Geometry, Pool, PoolId, SlotTable};
pub use writer::{CellWriter, HEAD_ROOM_BYTES, Note};

const HUGE_PAGE_BYTES: usize = 2 << 20;
const MPOL_PREFERRED: u32 = 1;

/// Why there is no packet memory.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// Refused before trying, since the kernel would end a process to make room.
    #[error(
        "packet memory of {} MiB does not fit: {} MiB of memory are available; lower -R, -M or the number of queues",
        needed >> 20, available >> 20
    )]
    TooLarge {
        /// Bytes asked for.
        needed: u64,
        /// Bytes available, from /proc/meminfo.
        available: u64,
    },
    /// The kernel refused the mapping.
    #[error("mapping {} MiB of packet memory failed: {source}{}", needed >> 20, map_hint(source))]
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

/// What can be done when the kernel refuses a mapping, ready to be appended.
fn map_hint(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        // EFAULT is what populating answers where a control group's limit is reached.
        Some(libc::ENOMEM | libc::EFAULT | libc::EAGAIN) => {
            "; raise the limit (ulimit -v, or that of the container), or lower -R, -M or the number of queues"
        }
        _ => "",
    }
}

/// Which pages hold the packet memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// Pages of 2 MiB that were reserved beforehand (`vm.nr_hugepages`).
    Huge,
    /// Pages of the usual size; the kernel was asked to use huge ones where it can.
    Normal,
}

impl Pages {
    /// In words, for reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Pages::Huge => "huge (2 MiB, reserved)",
            Pages::Normal => "normal (4 KiB, transparent huge pages asked for)",
        }
    }
}

/// The memory of all cells of an engine.
#[derive(Debug)]
pub struct PacketMemory {
    /// INVARIANT: start of a private anonymous mapping of `len` bytes, mapped until drop.
    start: ptr::NonNull<u8>,
    len: usize,
    pages: Pages,
    /// What was wanted of the pages and could not be had.
    fallbacks: Vec<String>,
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
    /// Maps memory for `bytes` bytes of cells: on reserved huge pages when enough are free, else on
    /// normal ones. Nothing is touched yet, see [`PacketMemory::populate`].
    ///
    /// # Errors
    /// [`MemoryError`] when there is not enough memory or the kernel refuses.
    pub fn allocate(bytes: u64) -> Result<Self, MemoryError> {
        // An empty mapping there is not; nobody carves a pool out of what is left over.
        let bytes = bytes.max(1);
        let huge_len = (bytes as usize).next_multiple_of(HUGE_PAGE_BYTES);
        let huge = libc::MAP_HUGETLB | (21 << libc::MAP_HUGE_SHIFT);
        if let Ok(start) = map(huge_len, huge) {
            return Ok(Self::over(start, huge_len, Pages::Huge, Vec::new()));
        }
        check_available(bytes)?;
        let len = (bytes as usize).next_multiple_of(4096);
        let start = map(len, 0).map_err(|source| MemoryError::Map { needed: bytes, source })?;
        let needed = huge_len / HUGE_PAGE_BYTES;
        let refused = reserved_pages().and_then(|(reserved, free)| too_few_reserved(needed, reserved, free));
        let mut fallbacks = Vec::from_iter(refused);
        if let Err(refused) = advise(start, len, libc::MADV_HUGEPAGE) {
            fallbacks.push(format!("transparent huge pages could not be had: {refused}"));
        }
        Ok(Self::over(start, len, Pages::Normal, fallbacks))
    }

    fn over(start: ptr::NonNull<u8>, len: usize, pages: Pages, mut fallbacks: Vec<String>) -> Self {
        // A child has no use for it, and pinned pages would be copied for it.
        if let Err(refused) = advise(start, len, libc::MADV_DONTFORK) {
            fallbacks.push(format!("keeping the memory out of child processes failed: {refused}"));
        }
        Self { start, len, pages, fallbacks, carved: Mutex::default() }
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
        self.pages
    }

    /// What was wanted of the pages and could not be had, and why, a line for each.
    pub fn fallbacks(&self) -> &[String] {
        &self.fallbacks
    }

    /// Size of the mapping in bytes.
    pub fn len(&self) -> u64 {
        self.len as u64
    }

    /// Never true: a mapping has at least one page.
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

impl Drop for PacketMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and no reader is left, as readers hold an Arc of `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

fn map(len: usize, flags: libc::c_int) -> io::Result<ptr::NonNull<u8>> {
    // SAFETY: an anonymous mapping at an address of the kernel's choice touches no memory of ours.
    let start = unsafe {
        libc::mmap(
            ptr::null_mut(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    ptr::NonNull::new(start.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))
}

/// Huge pages of 2 MiB that are reserved, and those of them that are free.
fn reserved_pages() -> Option<(u64, u64)> {
    let read = |name: &str| {
        let path = format!("/sys/kernel/mm/hugepages/hugepages-2048kB/{name}");
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    Some((read("nr_hugepages")?, read("free_hugepages")?))
}

/// Why reserved huge pages are not used, in words. `None` where nobody has reserved any.
fn too_few_reserved(needed: usize, reserved: u64, free: u64) -> Option<String> {
    (reserved > 0).then(|| {
        format!(
            "{needed} huge pages are needed, and {free} of the {reserved} that are reserved (vm.nr_hugepages) are free"
        )
    })
}

/// Gives advice about a mapping of ours.
fn advise(start: ptr::NonNull<u8>, len: usize, advice: libc::c_int) -> io::Result<()> {
    // SAFETY: called for mappings made just now, with advice that changes no contents.
    let result = unsafe { libc::madvise(start.as_ptr().cast(), len, advice) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether the machine has so much memory left, before it is tried: the kernel would end a process for it.
///
/// # Errors
/// [`MemoryError::TooLarge`].
pub fn check_available(bytes: u64) -> Result<(), MemoryError> {
    match available_bytes().filter(|&available| bytes > available) {
        Some(available) => Err(MemoryError::TooLarge { needed: bytes, available }),
        None => Ok(()),
    }
}

fn available_bytes() -> Option<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find(|line| line.starts_with("MemAvailable:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
