//! Captured cells: read, and changed by their holder.
//!
//! Rule: the [`ChunkRange`] is the right. Borrowed, its cells may be read; borrowed exclusively, changed. A
//! range of another pool finds nothing: the [`SlotTable`] knows its own.

use std::sync::Arc;

use wirecap_core::{ChunkRange, Descriptor, FilledSlots, SlotTable};

use super::PacketMemory;
use crate::prefetch;

/// Reads captured cells of one pool: [`LivePool::reader`](super::LivePool::reader).
///
/// Bytes are lent no longer than the range:
///
/// ```compile_fail,E0505
/// # use wirecap_core::ChunkRange;
/// # use wirecap_sys::memory::{CellReader, LivePool};
/// fn read_what_went_home(reader: &CellReader, range: ChunkRange, pool: &mut LivePool) {
///     let (_, bytes) = reader.cells(&range).next().unwrap();
///     pool.recycle(range).unwrap();
///     println!("{bytes:?}");
/// }
/// ```
///
/// ```compile_fail,E0502
/// # use wirecap_core::ChunkRange;
/// # use wirecap_sys::memory::CellReader;
/// fn change_what_is_read(reader: &CellReader, range: &mut ChunkRange) {
///     let (_, bytes) = reader.cells(range).next().unwrap();
///     reader.bytes_mut(range, 0)[0] = !bytes[0];
///     println!("{bytes:?}");
/// }
/// ```
#[derive(Debug, Clone)]
pub struct CellReader {
    memory: Arc<PacketMemory>,
    /// INVARIANT: of a pool that was carved out of `memory`.
    slots: Arc<SlotTable>,
}

impl CellReader {
    /// Of the pool that has these slots; it was carved out of the memory.
    pub(super) fn new(memory: Arc<PacketMemory>, slots: Arc<SlotTable>) -> Self {
        Self { memory, slots }
    }

    /// Asks for the first cache line of a packet that this thread is going to read. Only a hint.
    #[inline(always)]
    pub fn fetch(&self, address: u64) {
        prefetch::to_read_later(self.memory.line(address));
    }

    /// Whether it reads cells of this memory.
    #[inline]
    pub(crate) fn is_of(&self, memory: &Arc<PacketMemory>) -> bool {
        Arc::ptr_eq(&self.memory, memory)
    }

    /// What is known of the filled cells of a range. Empty when the range is of another pool.
    pub(crate) fn descriptors<'a>(&'a self, range: &'a ChunkRange) -> impl Iterator<Item = Descriptor> + 'a {
        self.slots.range(range).into_iter().flatten()
    }

    /// What is known of the first filled cell of a range. `None` when the range is of another pool.
    #[inline]
    pub fn first(&self, range: &ChunkRange) -> Option<Descriptor> {
        self.slots.get(range, 0)
    }

    /// The bytes of the filled cell number `offset` of a range, to be changed in place. Empty past the end of
    /// the range, and when it is of another pool.
    #[inline]
    pub fn bytes_mut<'a>(&'a self, range: &'a mut ChunkRange, offset: u32) -> &'a mut [u8] {
        let descriptor = self.slots.get(range, offset);
        let in_memory = |descriptor: &Descriptor| {
            let end = descriptor.address.checked_add(u64::from(descriptor.len));
            end.is_some_and(|end| end <= self.memory.len as u64)
        };
        let Some(Descriptor { address, len, .. }) = descriptor.filter(in_memory) else { return &mut [] };
        // SAFETY: the bytes lie in the mapping (checked above), which lives as long as `'a`, and in a cell of
        // their own. The cell is captured, so only the holder of its `ChunkRange` may touch them (rule of
        // `memory.rs`), and that is borrowed exclusively for `'a`.
        unsafe { self.memory.bytes_mut(address, len) }
    }

    /// Moves the bytes of the filled cell number `offset` of a range: it begins at `address` from now on, and
    /// has `len` bytes. Returns whether that lies within the same cell; else nothing is changed. What was not
    /// part of the packet before may hold anything.
    pub fn move_bytes(&self, range: &mut ChunkRange, offset: u32, address: u64, len: u32) -> bool {
        self.slots.replace(range, offset, address, len)
    }

    /// The filled cells of a range. Empty when the range is of another pool.
    #[inline]
    pub fn cells<'a>(&'a self, range: &'a ChunkRange) -> Cells<'a> {
        Cells { memory: &self.memory, filled: self.slots.range(range) }
    }
}

/// The filled cells of a range, in order: what is known of each, and its bytes.
#[derive(Debug, Clone)]
pub struct Cells<'a> {
    pub(super) memory: &'a PacketMemory,
    /// INVARIANT: of a range of the pool that was carved out of `memory`, borrowed for `'a`.
    filled: Option<FilledSlots<'a>>,
}

impl<'a> Iterator for Cells<'a> {
    type Item = (Descriptor, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<(Descriptor, &'a [u8])> {
        let filled = self.filled.as_mut()?;
        let descriptor = filled.next()?;
        if let Some(address) = filled.address_ahead(PREFETCH_AHEAD) {
            prefetch::to_read(self.memory.line(address));
        }
        let end = descriptor.address.checked_add(u64::from(descriptor.len))?;
        if end > self.memory.len as u64 {
            return None;
        }
        // SAFETY: the bytes lie in the mapping (checked above), which lives as long as `'a`. The cell is
        // captured, by the invariant on `filled`, so only the holder of its `ChunkRange` may write to it
        // (rule of `memory.rs`), and that is borrowed for `'a`.
        let bytes = unsafe { self.memory.bytes(descriptor.address, descriptor.len) };
        Some((descriptor, bytes))
    }
}

/// How many packets ahead of the one that is read the first cache line is asked for: far enough for
/// memory to answer, near enough to stay in the first-level cache.
const PREFETCH_AHEAD: usize = 8;

impl PacketMemory {
    /// The address of a byte, for a hint: it may lie outside.
    #[inline(always)]
    fn line(&self, address: u64) -> *const u8 {
        self.start.as_ptr().wrapping_add(address as usize)
    }
}
