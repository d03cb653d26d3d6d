//! What is known of each filled cell of a pool.
//!
//! A chunk is M *slots*. Slot `i` of chunk `c` starts out with cell `c × M + i`, and most drivers
//! fill cells in the order in which they were attached, so that it stays so. Some do not: a driver
//! that gave a packet to the host's stack reuses its buffer first. Then slots take the cells as they
//! come, and the pool remembers which slot holds which cell: always a permutation, never a copy.
//!
//! ```text
//!   slot table of a pool: R × M slots          packet memory (UMEM)
//!   ┌──────────┬──────────┬──────────┐         ┌────────┬────────┬────────┐
//!   │ address ─┼─length── │ timestamp│ ──────► │ cell 7 │ cell 8 │ cell 9 │
//!   └──────────┴──────────┴──────────┘         └────────┴────────┴────────┘
//! ```
//!
//! Rule: a slot is written by the owner of its pool while the chunk is attached, and read by whoever
//! holds the [`ChunkRange`] that covers it. The queue that carried the range orders the two.

use crate::{
    chunk::ChunkRange,
    geometry::Geometry,
    sync::{AtomicU64, Ordering},
};

/// One filled cell, or one part of a packet that lies in several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// Where the bytes start, in bytes from the start of the packet memory. Not the start of the
    /// cell: the kernel leaves head room.
    pub address: u64,
    /// Bytes of this part.
    pub len: u32,
    /// Whether the packet goes on in the next slot.
    pub more: bool,
    /// When the packet was captured, in nanoseconds since 1970 (UTC).
    pub timestamp_ns: u64,
}

const MORE: u64 = 1 << 32;

#[derive(Debug)]
pub(crate) struct Slot {
    /// Written by the pool's owner. Relaxed: published by the capture queue's release store, or
    /// read by the thread that wrote it.
    address: AtomicU64,
    /// Length in the low 32 bits, [`MORE`] above. Written and published like `address`.
    length: AtomicU64,
    /// Written and published like `address`.
    timestamp_ns: AtomicU64,
}

/// The slots of a pool, shared between its owner and those who read captured cells.
#[derive(Debug)]
pub struct SlotTable {
    slots: Box<[Slot]>,
    cells_per_chunk: u32,
}

impl SlotTable {
    pub(crate) fn new(geometry: Geometry, base: u64) -> Self {
        let cell_bytes = u64::from(geometry.cell_bytes());
        let slots = (0..u64::from(geometry.cells_per_pool()))
            .map(|index| Slot {
                address: AtomicU64::new(base + index * cell_bytes),
                length: AtomicU64::new(0),
                timestamp_ns: AtomicU64::new(0),
            })
            .collect();
        Self { slots, cells_per_chunk: geometry.cells_per_chunk() }
    }

    pub(crate) fn index(&self, chunk_id: u32, slot: u32) -> usize {
        (chunk_id * self.cells_per_chunk + slot) as usize
    }

    /// The slots of a chunk.
    pub(crate) fn chunk(&self, chunk_id: u32) -> &[Slot] {
        let first = self.index(chunk_id, 0);
        &self.slots[first..first + self.cells_per_chunk as usize]
    }

    /// The filled cells of a range, or `None` when it reaches past the end of the table, which only
    /// a range of another pool does.
    #[inline]
    pub fn range(&self, range: &ChunkRange) -> Option<Filled<'_>> {
        let first = self.index(range.chunk().chunk_id, range.first());
        let slots = self.slots.get(first..first + range.count() as usize)?;
        Some(Filled { slots })
    }

    /// The filled cell number `offset` of a range, or `None` past its end.
    pub fn get(&self, range: &ChunkRange, offset: u32) -> Option<Descriptor> {
        self.range(range)?.slots.get(offset as usize).map(Slot::get)
    }
}

impl Slot {
    #[inline]
    pub(crate) fn set(&self, descriptor: Descriptor) {
        self.address.store(descriptor.address, Ordering::Relaxed);
        let more = if descriptor.more { MORE } else { 0 };
        self.length.store(u64::from(descriptor.len) | more, Ordering::Relaxed);
        self.timestamp_ns.store(descriptor.timestamp_ns, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn address(&self) -> u64 {
        self.address.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn get(&self) -> Descriptor {
        let length = self.length.load(Ordering::Relaxed);
        Descriptor {
            address: self.address(),
            len: length as u32,
            more: length & MORE != 0,
            timestamp_ns: self.timestamp_ns.load(Ordering::Relaxed),
        }
    }
}

/// The filled cells of a range, in order.
#[derive(Debug, Clone)]
pub struct Filled<'s> {
    slots: &'s [Slot],
}

impl Filled<'_> {
    /// Where the cell lies that comes `ahead` places after the next one, if there is one: for
    /// fetching it into the cache in time.
    #[inline]
    pub fn address_ahead(&self, ahead: usize) -> Option<u64> {
        self.slots.get(ahead).map(Slot::address)
    }
}

impl Iterator for Filled<'_> {
    type Item = Descriptor;

    #[inline]
    fn next(&mut self) -> Option<Descriptor> {
        let (next, rest) = self.slots.split_first()?;
        self.slots = rest;
        Some(next.get())
    }
}
