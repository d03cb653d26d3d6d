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
//! Rule: a slot is written by the owner of its pool while the chunk is attached, and read (and, when the
//! packet is changed, written) by the holder of the [`ChunkRange`] that covers it. The queue that carried the
//! range orders the two.

use std::ops::Range;

use crate::{
    chunk::{ChunkRange, PoolNumber},
    geometry::{Geometry, MAX_CELL_BYTES, MAX_CELLS_PER_CHUNK},
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

/// Which way a packet went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// It came from the network.
    In,
    /// The host sent it. Only passive ports see such packets.
    Out,
}

const LENGTH_BITS: u32 = 17;
const MORE: u64 = 1 << LENGTH_BITS;
const ADDRESS_SHIFT: u32 = LENGTH_BITS + 1;

/// The longest part that a slot can describe, in bytes. A cell is never longer.
pub(crate) const MAX_PART_BYTES: u32 = (1 << LENGTH_BITS) - 1;
/// The packet memory ends here at the latest, in bytes.
pub(crate) const MAX_MEMORY_BYTES: u64 = 1 << (u64::BITS - ADDRESS_SHIFT);

/// Of a part, the words are its bytes and the time of its first packet.
const HAS_REFUSED: u64 = 1;
const OFFSET_BITS: u32 = 31;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
const END_SHIFT: u32 = 1;
const START_SHIFT: u32 = END_SHIFT + OFFSET_BITS;
const _: () = assert!(MAX_CELLS_PER_CHUNK as u64 * MAX_CELL_BYTES as u64 <= OFFSET_MASK);

/// What a slot knows of packets that lie in its chunk one behind the other: see
/// [`PackedPart`](crate::PackedPart).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotPart {
    /// Where they lie, from the start of the chunk, or of the chunk's block.
    pub bytes: Range<u32>,
    /// When the first one came, in nanoseconds since 1970 (UTC); each of the others is 1 ns later than the
    /// one before. 0 if each has a time of its own.
    pub first_ns: u64,
}

impl SlotPart {
    /// Of a slot in which no part begins.
    pub(crate) const NOTHING: Self = Self { bytes: 0..0, first_ns: 0 };
}

/// Two words for a filled cell: what is known of the cells of a pool is written and read once per
/// packet, so that its size is time.
///
/// ```text
///   63                            18   17    16            0
///   ┌──────────────────────────────┬──────┬────────────────┐
///   │ address                      │ more │ length         │    the other word: timestamp_ns
///   └──────────────────────────────┴──────┴────────────────┘
/// ```
#[derive(Debug)]
pub(crate) struct Slot {
    /// Written by the pool's owner. Relaxed: published by the capture queue's release store, or
    /// read by the thread that wrote it.
    place: AtomicU64,
    /// Written and published like `place`.
    timestamp_ns: AtomicU64,
}

/// The slots of a pool, shared between its owner and those who read captured cells.
#[derive(Debug)]
pub struct SlotTable {
    slots: Box<[Slot]>,
    /// Whose they are.
    pool: PoolNumber,
    cells_per_chunk: u32,
    cell_bytes: u32,
    /// Where the pool starts in the packet memory.
    base: u64,
}

impl SlotTable {
    pub(crate) fn new(pool: PoolNumber, geometry: Geometry, base: u64) -> Self {
        let cell_bytes = u64::from(geometry.cell_bytes());
        assert!(base + geometry.pool_bytes() <= MAX_MEMORY_BYTES, "no machine has that much memory");
        let slots = (0..u64::from(geometry.cells_per_pool()))
            .map(|index| Slot {
                place: AtomicU64::new((base + index * cell_bytes) << ADDRESS_SHIFT),
                timestamp_ns: AtomicU64::new(0),
            })
            .collect();
        let (cells_per_chunk, cell_bytes) = (geometry.cells_per_chunk(), geometry.cell_bytes());
        Self { slots, pool, cells_per_chunk, cell_bytes, base }
    }

    #[inline]
    pub(crate) fn index(&self, chunk_id: u32, slot: u32) -> usize {
        (chunk_id * self.cells_per_chunk + slot) as usize
    }

    /// `count` slots of a chunk, from `first` on.
    #[inline]
    pub(crate) fn row(&self, chunk_id: u32, first: u32, count: u32) -> &[Slot] {
        let first = self.index(chunk_id, first);
        &self.slots[first..first + count as usize]
    }

    /// The filled cells of a range, or `None` when it is of another pool.
    #[inline]
    pub fn range(&self, range: &ChunkRange) -> Option<FilledSlots<'_>> {
        let first = self.own(range)?;
        let slots = self.slots.get(first..first + range.count() as usize)?;
        Some(FilledSlots { slots })
    }

    /// The parts of a range, or `None` when it is of another pool: of a pool whose chunks are filled
    /// [in parts](crate::Filler::fill_part).
    #[inline]
    pub fn parts(&self, range: &ChunkRange) -> Option<FilledParts<'_>> {
        let FilledSlots { slots } = self.range(range)?;
        Some(FilledParts { slots })
    }

    /// Passes each part of a range whose packets have no times of their own to `settle`, which gives them
    /// some, and forgets the time of the part. Does nothing if the range is of another pool.
    pub fn settle_times(&self, range: &mut ChunkRange, mut settle: impl FnMut(SlotPart)) {
        let slots = self.range(range).map_or(&[][..], |filled| filled.slots);
        for slot in slots {
            let part = slot.part();
            if part.first_ns > 0 {
                settle(part);
                slot.timestamp_ns.store(0, Ordering::Relaxed);
            }
        }
    }

    /// The first slot of a range, if it is of this pool.
    #[inline]
    fn own(&self, range: &ChunkRange) -> Option<usize> {
        (range.pool() == self.pool).then_some(range.first() as usize)
    }

    /// Notes that the bytes of cell number `offset` of a range lie elsewhere in the cell, since the holder of
    /// the range has changed the packet. Returns whether all of them lie in the cell; else changes nothing.
    pub fn replace(&self, range: &mut ChunkRange, offset: u32, address: u64, len: u32) -> bool {
        let Some(index) = self.own(range).filter(|_| offset < range.count()) else { return false };
        let Some(slot) = self.slots.get(index + offset as usize) else { return false };
        let (old, mask) = (slot.get(), u64::from(self.cell_bytes) - 1);
        let same_cell = (old.address - self.base) & !mask == address.wrapping_sub(self.base) & !mask;
        let end_in_cell = (address.wrapping_sub(self.base) & mask) + u64::from(len);
        let fits = same_cell && end_in_cell <= u64::from(self.cell_bytes);
        if fits {
            slot.set(Descriptor { address, len, ..old });
        }
        fits
    }

    /// The filled cell number `offset` of a range, or `None` past its end.
    #[inline]
    pub fn get(&self, range: &ChunkRange, offset: u32) -> Option<Descriptor> {
        self.range(range)?.slots.get(offset as usize).map(Slot::get)
    }
}

impl Slot {
    #[inline]
    pub(crate) fn set(&self, descriptor: Descriptor) {
        debug_assert!(descriptor.len <= MAX_PART_BYTES && descriptor.address < MAX_MEMORY_BYTES);
        let more = u64::from(descriptor.more) << LENGTH_BITS;
        let place = (descriptor.address << ADDRESS_SHIFT) | more | u64::from(descriptor.len);
        self.place.store(place, Ordering::Relaxed);
        self.timestamp_ns.store(descriptor.timestamp_ns, Ordering::Relaxed);
    }

    /// Notes a part, and whether there are refused packets in it. The other cells of the part have
    /// [`SlotPart::NOTHING`].
    pub(crate) fn set_part(&self, SlotPart { bytes, first_ns }: &SlotPart, has_refused: bool) {
        let [start, end] = [bytes.start, bytes.end].map(u64::from);
        debug_assert!(end <= OFFSET_MASK, "a chunk ends before");
        let place = start << START_SHIFT | end << END_SHIFT | u64::from(has_refused);
        self.place.store(place, Ordering::Relaxed);
        self.timestamp_ns.store(*first_ns, Ordering::Relaxed);
    }

    /// Whether refused packets are in its part.
    #[inline]
    fn has_refused(&self) -> bool {
        self.place.load(Ordering::Relaxed) & HAS_REFUSED != 0
    }

    #[inline]
    fn part(&self) -> SlotPart {
        let place = self.place.load(Ordering::Relaxed);
        let offset = |shift: u32| (place >> shift & OFFSET_MASK) as u32;
        let first_ns = self.timestamp_ns.load(Ordering::Relaxed);
        SlotPart { bytes: offset(START_SHIFT)..offset(END_SHIFT), first_ns }
    }

    #[inline]
    pub(crate) fn address(&self) -> u64 {
        self.place.load(Ordering::Relaxed) >> ADDRESS_SHIFT
    }

    #[inline]
    pub(crate) fn get(&self) -> Descriptor {
        let place = self.place.load(Ordering::Relaxed);
        Descriptor {
            address: place >> ADDRESS_SHIFT,
            len: place as u32 & MAX_PART_BYTES,
            more: place & MORE != 0,
            timestamp_ns: self.timestamp_ns.load(Ordering::Relaxed),
        }
    }
}

/// The parts of a range, in order.
#[derive(Debug, Clone)]
pub struct FilledParts<'s> {
    slots: &'s [Slot],
}

impl FilledParts<'_> {
    /// The bytes of all parts as one range. `None` without a part, with refused packets or packets that have
    /// no times of their own, or with a gap between two parts.
    #[inline]
    pub fn joined(mut self) -> Option<Range<u32>> {
        if self.slots.iter().any(Slot::has_refused) {
            return None;
        }
        let own = |SlotPart { bytes, first_ns }| (first_ns == 0).then_some(bytes);
        let first = own(self.next()?)?;
        self.try_fold(first, |all, next| {
            own(next).filter(|next| next.start == all.end).map(|next| all.start..next.end)
        })
    }
}

impl Iterator for FilledParts<'_> {
    type Item = SlotPart;

    #[inline]
    fn next(&mut self) -> Option<SlotPart> {
        loop {
            let (next, rest) = self.slots.split_first()?;
            self.slots = rest;
            let part = next.part();
            if !part.bytes.is_empty() {
                return Some(part);
            }
        }
    }
}

/// The filled cells of a range, in order.
#[derive(Debug, Clone)]
pub struct FilledSlots<'s> {
    slots: &'s [Slot],
}

impl FilledSlots<'_> {
    /// Where the cell lies that comes `ahead` places after the next one, if there is one: for
    /// fetching it into the cache in time.
    #[inline]
    pub fn address_ahead(&self, ahead: usize) -> Option<u64> {
        self.slots.get(ahead).map(Slot::address)
    }
}

impl Iterator for FilledSlots<'_> {
    type Item = Descriptor;

    #[inline]
    fn next(&mut self) -> Option<Descriptor> {
        let (next, rest) = self.slots.split_first()?;
        self.slots = rest;
        Some(next.get())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_slot_keeps_descriptors_up_to_the_limits() {
        let geometry = Geometry::new(1, 1, 4096).unwrap();
        let table = SlotTable::new(PoolNumber::of_test(0), geometry, MAX_MEMORY_BYTES - 4096);
        let slot = &table.row(0, 0, 1)[0];
        assert_eq!((slot.address(), slot.get().len), (MAX_MEMORY_BYTES - 4096, 0));
        for address in [0, 256, MAX_MEMORY_BYTES - 1] {
            for (len, more) in [(0, true), (1, false), (4096, true), (MAX_PART_BYTES, false)] {
                let descriptor = Descriptor { address, len, more, timestamp_ns: u64::MAX };
                slot.set(descriptor);
                assert_eq!((slot.get(), slot.address()), (descriptor, address));
            }
        }
    }

    const CELL: u64 = 2048;
    /// Not a multiple of the pool's size.
    const BASE: u64 = 6 * CELL;

    /// A table of two chunks of four cells, each with a packet of 60 bytes behind 256 of head room.
    fn table() -> SlotTable {
        let table = SlotTable::new(PoolNumber::of_test(3), Geometry::new(4, 2, 2048).unwrap(), BASE);
        for (index, slot) in (0..).zip(&table.slots) {
            let address = BASE + index * CELL + 256;
            slot.set(Descriptor { address, len: 60, more: index == 5, timestamp_ns: 7 * index });
        }
        table
    }

    fn range(chunk_id: u32, first: u32, count: u32) -> ChunkRange {
        ChunkRange::new(PoolNumber::of_test(3), 4 * chunk_id + first, count)
    }

    #[test]
    fn a_range_of_another_pool_finds_nothing() {
        let table = table();
        let mut other = ChunkRange::new(PoolNumber::of_test(4), 1, 2);
        assert!(table.range(&other).is_none() && table.get(&other, 0).is_none());
        assert!(!table.replace(&mut other, 0, BASE + CELL, 60));
    }

    #[test]
    fn a_packet_moves_within_its_cell_and_nowhere_else() {
        let table = table();
        let mut two = range(1, 1, 2);
        let cell = BASE + 5 * CELL;
        let moved = [(cell, 2048), (cell + 2047, 1), (cell + 100, 0), (cell + 156, 160)];
        for (address, len) in moved {
            assert!(table.replace(&mut two, 0, address, len), "{address} {len}");
            let expected = Descriptor { address, len, more: true, timestamp_ns: 35 };
            assert_eq!(table.get(&two, 0), Some(expected), "the rest of the descriptor stays");
        }
        let refused = [
            (cell - 1, 1),
            (cell + CELL, 1),
            (cell + 1, 2048),
            (cell + 2047, 2),
            (cell + 2 * CELL, 60),
            (0, 60),
            (u64::MAX, 1),
        ];
        for (address, len) in refused {
            assert!(!table.replace(&mut two, 0, address, len), "{address} {len}");
            assert_eq!(table.get(&two, 0).unwrap().address, cell + 156);
        }
        assert!(table.replace(&mut two, 1, cell + CELL, 60), "the second cell");
        assert!(!table.replace(&mut two, 2, cell + 2 * CELL, 60), "the range has two cells");
        assert_eq!(table.get(&range(1, 3, 1), 0).unwrap().address, BASE + 7 * CELL + 256);
        assert!(!table.replace(&mut range(2, 0, 1), 0, BASE + 8 * CELL, 60), "the pool has two chunks");
    }

    #[test]
    fn cells_come_in_order_and_later_addresses_are_visible() {
        let table = table();
        let mut filled = table.range(&range(1, 1, 3)).unwrap();
        assert_eq!(filled.address_ahead(0), Some(BASE + 5 * CELL + 256));
        assert_eq!(filled.next().unwrap().timestamp_ns, 35);
        assert_eq!(filled.address_ahead(1), Some(BASE + 7 * CELL + 256));
        assert_eq!(filled.address_ahead(2), None);
        assert_eq!(filled.map(|cell| cell.timestamp_ns).collect::<Vec<_>>(), [42, 49]);
        assert!(table.range(&range(1, 2, 3)).is_none());
        assert_eq!(
            (table.get(&range(1, 2, 2), 1).unwrap().timestamp_ns, table.get(&range(1, 2, 2), 2)),
            (49, None)
        );
    }
}
