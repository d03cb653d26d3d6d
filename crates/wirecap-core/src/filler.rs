//! From the kernel's descriptors to the slots of a chunk.
//!
//! ```text
//!   slots of the chunk:  │ handed over │ whole packets, waiting │ a packet that has begun │ … │
//!                        0           handed                 complete                  filled  M
//! ```
//!
//! Rule: what a driver reports is checked here, once, and trusted from then on. A part of a packet lies
//! within one cell of this pool, or it is counted as foreign and left alone. The kernel is trusted to fill
//! each cell that it is given once.

use crate::{
    geometry::Geometry,
    slots::{Descriptor, Slot, SlotPart},
};

/// Packets that lie in a chunk one behind the other, as an XDP program packs them: what came between two
/// looks. The chunk is filled from its start, part by part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackedPart {
    /// Where it begins, in bytes from the start of the chunk.
    pub start: u32,
    /// How long it is, in bytes.
    pub len: u32,
    /// Packets in it.
    pub packets: u32,
    /// Bytes of these packets, without what lies between them.
    pub bytes: u32,
    /// Nothing follows in this chunk.
    pub is_last: bool,
    /// There are refused packets between those that it has.
    pub has_refused: bool,
    /// When the first packet came, in nanoseconds since 1970 (UTC); each of the others is 1 ns later than the
    /// one before. 0 if the packets have times of their own.
    pub first_ns: u64,
}

/// The chunk that is being filled: the oldest attached one.
#[derive(Debug, Default)]
pub(crate) struct FillPosition {
    /// Slots `0 .. handed` are handed over. INVARIANT: `handed <= complete <= filled <= M`.
    pub(crate) handed: u32,
    /// Slots `handed .. complete` hold whole packets.
    pub(crate) complete: u32,
    /// Slots `complete .. filled` hold the beginning of a packet.
    pub(crate) filled: u32,
}

/// Packets that are filled and not handed over.
#[derive(Debug, Default)]
pub(crate) struct PendingPackets {
    pub(crate) packets: u32,
    pub(crate) bytes: u32,
    /// Bytes of the packet that has begun and is not whole.
    pub(crate) begun_bytes: u32,
    /// How much earlier than their timestamps these packets, and the one that has begun, may have come, at
    /// most.
    uncertainty_ns: u64,
}

impl PendingPackets {
    /// The uncertainty of a hand-over. A packet that has begun keeps it for the next one.
    pub(crate) fn take_uncertainty(&mut self) -> u64 {
        let uncertainty_ns = self.uncertainty_ns;
        if self.begun_bytes == 0 {
            self.uncertainty_ns = 0;
        }
        uncertainty_ns
    }
}

/// Takes cells that the kernel filled into the slots of one chunk. What it counted is the pool's only
/// after [`Filler::finish`].
#[derive(Debug)]
#[must_use = "the cells count as filled only after finish()"]
pub struct Filler<'p> {
    slots: &'p [Slot],
    base: u64,
    bytes: u64,
    cell_bytes: u64,
    filled: u32,
    bytes_filled: u32,
    /// Packets, where they are not as many as cells: in blocks and their parts.
    packed_packets: Option<u32>,
    any_more: bool,
    foreign: u64,
    uncertainty_ns: u64,
    pool: Counters<'p>,
}

/// The counters of the pool that a [`Filler`] changes.
#[derive(Debug)]
pub(crate) struct Counters<'p> {
    pub(crate) filling: &'p mut FillPosition,
    pub(crate) waiting: &'p mut PendingPackets,
    pub(crate) captured_packets: &'p mut u64,
    pub(crate) foreign: &'p mut u64,
}

impl<'p> Filler<'p> {
    #[inline]
    pub(crate) fn new(slots: &'p [Slot], geometry: Geometry, base: u64, pool: Counters<'p>) -> Self {
        Self {
            slots,
            base,
            bytes: geometry.pool_bytes(),
            cell_bytes: u64::from(geometry.cell_bytes()),
            filled: pool.filling.filled,
            bytes_filled: 0,
            packed_packets: None,
            any_more: false,
            foreign: 0,
            uncertainty_ns: 0,
            pool,
        }
    }

    /// How many cells can be filled before [`crate::Pool::hand_over`] must be called.
    #[inline]
    pub fn space(&self) -> u32 {
        self.slots.len() as u32 - self.filled
    }

    /// Takes a filled cell. Returns whether it lies within one cell of this pool and there was space.
    pub fn fill(&mut self, descriptor: Descriptor) -> bool {
        let foreign = self.foreign;
        self.fill_all(std::iter::once(descriptor));
        self.foreign == foreign
    }

    /// Takes filled cells. Those that do not lie within one cell of this pool, and those for which there
    /// is no space, are counted and left alone. So a reader of a slot stays in its cell, whatever the driver
    /// reports.
    #[inline]
    pub fn fill_all(&mut self, descriptors: impl Iterator<Item = Descriptor>) {
        // What changes with each cell is in variables of this function, so that it can be in registers:
        // the fields of `self` would have to be in memory after every write to a slot.
        let Self { slots, base, bytes, cell_bytes, .. } = *self;
        let (mut filled, mut any_more, mut bytes_filled, mut foreign) = (self.filled as usize, false, 0, 0);
        for descriptor in descriptors {
            let offset = descriptor.address.wrapping_sub(base);
            let end_in_cell = (offset & (cell_bytes - 1)) + u64::from(descriptor.len);
            let ours = offset < bytes && end_in_cell <= cell_bytes;
            let Some(slot) = slots.get(filled).filter(|_| ours) else {
                foreign += 1;
                continue;
            };
            slot.set(descriptor);
            filled += 1;
            bytes_filled += descriptor.len;
            any_more |= descriptor.more;
        }
        self.filled = filled as u32;
        self.bytes_filled += bytes_filled;
        self.any_more |= any_more;
        self.foreign += foreign;
    }

    /// Takes a whole chunk that the kernel has packed with packets: a block. All its cells count as filled.
    /// Nothing is taken unless the chunk is empty.
    pub fn fill_block(&mut self, packets: u32, bytes: u32) -> bool {
        if self.filled > 0 {
            return false;
        }
        self.filled = self.slots.len() as u32;
        self.bytes_filled = bytes;
        self.packed_packets = Some(packets);
        true
    }

    /// Takes the next part of a chunk that packets are packed into. It takes as many cells as its bytes, at
    /// least one, and the last part takes all that are left. Nothing is taken, and false returned, if the
    /// part does not lie in a chunk, or only the last part has a cell left.
    pub fn fill_part(&mut self, part: PackedPart) -> bool {
        let Self { slots, cell_bytes, filled, .. } = *self;
        let PackedPart { start, len, packets, bytes, is_last, has_refused, first_ns } = part;
        let cells = slots.len() as u32;
        let end = u64::from(start) + u64::from(len);
        let left = cells - filled;
        if end > u64::from(cells) * cell_bytes || left < 2 - u32::from(is_last) {
            return false;
        }
        let until = if is_last { cells } else { ((end / cell_bytes) as u32).clamp(filled + 1, cells - 1) };
        let (first, rest) =
            slots[filled as usize..until as usize].split_first().expect("a cell is left, as was checked");
        first.set_part(&SlotPart { bytes: start..start + len, first_ns }, has_refused);
        rest.iter().for_each(|slot| slot.set_part(&SlotPart::NOTHING, false));
        self.filled = until;
        self.bytes_filled += bytes;
        self.packed_packets = Some(self.packed_packets.unwrap_or(0) + packets);
        true
    }

    /// Sets how much earlier than their timestamps the packets taken may have come, at most, in nanoseconds.
    pub fn uncertain(&mut self, uncertainty_ns: u64) {
        self.uncertainty_ns = uncertainty_ns;
    }

    /// Makes what was filled known to the pool.
    #[inline]
    pub fn finish(self) {
        let Self {
            slots, filled, bytes_filled, packed_packets, any_more, foreign, uncertainty_ns, pool, ..
        } = self;
        *pool.foreign += foreign;
        pool.waiting.uncertainty_ns = pool.waiting.uncertainty_ns.max(uncertainty_ns);
        let first = std::mem::replace(&mut pool.filling.filled, filled);
        if any_more || pool.waiting.begun_bytes > 0 {
            // Not a method of the filler: what stays in registers must not be lent.
            return finish_parts(&slots[..filled as usize], first, pool);
        }
        pool.filling.complete = filled;
        let packets = packed_packets.unwrap_or(filled - first);
        pool.waiting.packets += packets;
        pool.waiting.bytes += bytes_filled;
        *pool.captured_packets += u64::from(packets);
    }
}

/// Some packets came in several parts: looks for where they end, from slot `first` on.
fn finish_parts(slots: &[Slot], first: u32, pool: Counters<'_>) {
    let Counters { filling, waiting, captured_packets, .. } = pool;
    for (index, slot) in slots.iter().enumerate().skip(first as usize) {
        let descriptor = slot.get();
        waiting.begun_bytes += descriptor.len;
        if !descriptor.more {
            filling.complete = index as u32 + 1;
            *captured_packets += 1;
            waiting.packets += 1;
            waiting.bytes += std::mem::take(&mut waiting.begun_bytes);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::ops::Range;

    use crate::{ChunkRange, ChunkState, Descriptor, Geometry, PackedPart, Pool, PoolId, SlotPart};

    const ID: PoolId = PoolId { nic_id: 0, ring_id: 0 };
    const CELL: u64 = 2048;

    fn part(cell: u64, len: u32, more: bool) -> Descriptor {
        Descriptor { address: cell * CELL, len, more, timestamp_ns: 0 }
    }

    /// The bytes of the parts of a range.
    fn bytes(pool: &Pool, range: &ChunkRange) -> impl Iterator<Item = Range<u32>> {
        let parts: Vec<_> = pool.slots().parts(range).unwrap().collect();
        parts.into_iter().map(|part| part.bytes)
    }

    fn pool() -> Pool {
        let mut pool = Pool::new(ID, Geometry::new(4, 1, 2048).unwrap(), 0);
        pool.attach(4, |_| ());
        pool
    }

    #[test]
    fn space_shrinks_with_each_cell_taken_but_not_with_a_refused_one() {
        let mut pool = pool();
        let mut filler = pool.filler().unwrap();
        assert_eq!(filler.space(), 4);
        assert!(filler.fill(part(0, 60, false)));
        assert!(!filler.fill(part(4, 60, false)), "the pool has four cells");
        assert!(!filler.fill(part(1, 2049, false)), "a cell has 2,048 bytes");
        assert_eq!(filler.space(), 3);
        filler.finish();
        assert_eq!(pool.foreign(), 2);
        assert_eq!(pool.filler().unwrap().space(), 3);
    }

    #[test]
    fn bytes_and_packets_are_counted_over_several_fillers() {
        let mut pool = pool();
        for (cell, len) in [(0, 60), (1, 2048)] {
            let mut filler = pool.filler().unwrap();
            filler.fill_all([part(cell, len, false)].into_iter());
            filler.finish();
        }
        let mut filler = pool.filler().unwrap();
        filler.fill_all([part(2, 100, true), part(3, 7, false), part(9, 5, false)].into_iter());
        filler.finish();
        assert_eq!((pool.foreign(), pool.captured_packets(), pool.filled_cells()), (1, 3, 4));
        let handover = pool.hand_over().unwrap();
        assert_eq!((handover.packets, handover.bytes, handover.range.count()), (3, 60 + 2048 + 107, 4));
    }

    /// As much as the bytes of a chunk allow, also where they are fewer than its cells.
    #[test]
    fn parts_of_a_chunk_take_cells_by_their_bytes() {
        let part = |start, len, packets, is_last| PackedPart {
            start,
            len,
            packets,
            bytes: len / 2,
            is_last,
            has_refused: false,
            first_ns: 0,
        };
        let mut pool = Pool::new(ID, Geometry::new(8, 2, 2048).unwrap(), 0);
        let first = pool.attach_free_chunk().unwrap();
        assert!(pool.attach_free_chunk().is_some() && pool.attach_free_chunk().is_none());
        let fill = |pool: &mut Pool, part| {
            let mut filler = pool.filler().unwrap();
            let taken = filler.fill_part(part);
            filler.finish();
            taken.then(|| pool.hand_over()).flatten()
        };
        assert!(fill(&mut pool, part(0, 8 * 2048 + 1, 1, true)).is_none(), "longer than the chunk");
        let small = fill(&mut pool, part(0, 96, 1, false)).unwrap();
        assert_eq!((small.range.first(), small.range.count(), small.packets), (first * 8, 1, 1));
        let large = fill(&mut pool, part(96, 5 * 2048, 40, false)).unwrap();
        assert_eq!((large.range.count(), large.packets, large.first_number), (4, 40, 1));
        assert_eq!((small.bytes, large.bytes), (48, 5 * 1024));
        assert!(bytes(&pool, &large.range).eq([(); 1].map(|()| 96..10_336)));
        for start in [10_336, 10_432] {
            assert_eq!(fill(&mut pool, part(start, 96, 1, false)).unwrap().range.count(), 1);
        }
        assert!(
            fill(&mut pool, part(10_528, 96, 1, false)).is_none(),
            "the last cell is that of the last part"
        );
        // Without a packet it only ends the chunk.
        assert!(fill(&mut pool, part(10_528, 0, 0, true)).is_none());
        assert_eq!((pool.state(first), pool.captured_packets()), (ChunkState::Captured, 43));
        let next = fill(&mut pool, part(0, 8 * 2048, 100, true)).unwrap();
        assert_eq!((next.range.first(), next.range.count()), ((1 - first) * 8, 8));
    }

    #[test]
    fn parts_that_are_filled_at_once_are_handed_over_together() {
        let mut pool = Pool::new(ID, Geometry::new(8, 1, 2048).unwrap(), 0);
        pool.attach_free_chunk().unwrap();
        let mut filler = pool.filler().unwrap();
        for (start, len, packets, bytes) in [(0, 100, 1, 60), (100, 3 * 2048, 5, 6_000)] {
            assert!(filler.fill_part(PackedPart {
                start,
                len,
                packets,
                bytes,
                is_last: false,
                has_refused: false,
                first_ns: 0,
            }));
        }
        filler.finish();
        let handover = pool.hand_over().unwrap();
        assert_eq!((handover.packets, handover.bytes, handover.cells()), (6, 6_060, 3));
        assert!(bytes(&pool, &handover.range).eq([0..100, 100..6_244]));
    }

    #[test]
    fn a_part_as_long_as_its_chunk_leaves_a_cell_for_the_last_part() {
        let mut pool = Pool::new(ID, Geometry::new(8, 1, 2048).unwrap(), 0);
        pool.attach_free_chunk().unwrap();
        for (start, len, cells, is_last) in [(0, 8 * 2048, 7, false), (8 * 2048, 0, 8, true)] {
            let mut filler = pool.filler().unwrap();
            assert!(filler.fill_part(PackedPart {
                start,
                len,
                packets: 1,
                bytes: 60,
                is_last,
                has_refused: false,
                first_ns: 0,
            }));
            assert_eq!(filler.space(), 8 - cells);
            filler.finish();
        }
        assert!(pool.is_full());
    }

    #[test]
    fn parts_whose_packets_have_no_times_of_their_own_are_joined_once_they_have() {
        let mut pool = Pool::new(ID, Geometry::new(8, 2, 2048).unwrap(), 0);
        assert!(pool.attach_free_chunk().is_some());
        let mut filler = pool.filler().unwrap();
        for (at, first_ns) in (0..).zip([0, 7, u64::MAX]) {
            let (start, packets, bytes) = (4_096 * at, 2, 120);
            let (is_last, has_refused) = (false, false);
            let part = PackedPart { start, len: 4_096, packets, bytes, is_last, has_refused, first_ns };
            assert!(filler.fill_part(part));
        }
        filler.finish();
        let mut range = pool.hand_over().unwrap().range;
        let slots = pool.slots();
        let expected: Vec<_> = [(0..4_096, 0), (4_096..8_192, 7), (8_192..12_288, u64::MAX)]
            .map(|(bytes, first_ns)| SlotPart { bytes, first_ns })
            .into();
        assert_eq!(slots.parts(&range).unwrap().collect::<Vec<_>>(), expected);
        assert_eq!(slots.parts(&range).unwrap().joined(), None);
        let mut settled = Vec::new();
        slots.settle_times(&mut range, |part| settled.push(part));
        assert_eq!(settled, expected[1..]);
        slots.settle_times(&mut range, |part| panic!("{part:?} has its times"));
        assert_eq!(slots.parts(&range).unwrap().joined(), Some(0..12_288));
    }

    /// Several parts in one hand-over are one piece if nothing in them was refused.
    #[test]
    fn parts_are_joined_unless_a_packet_in_them_was_refused() {
        for (refused, joined) in [([false; 3], Some(0..6_144)), ([false, true, false], None)] {
            let mut pool = Pool::new(ID, Geometry::new(8, 2, 2048).unwrap(), 0);
            assert!(pool.attach_free_chunk().is_some());
            let mut filler = pool.filler().unwrap();
            for (at, has_refused) in (0..).zip(refused) {
                let (start, len) = (2_048 * at, 2_048);
                let part = PackedPart {
                    start,
                    len,
                    packets: 1,
                    bytes: 60,
                    is_last: false,
                    has_refused,
                    first_ns: 0,
                };
                assert!(filler.fill_part(part));
            }
            filler.finish();
            let handover = pool.hand_over().unwrap();
            assert_eq!(handover.packets, 3);
            let slots = pool.slots();
            assert_eq!(slots.parts(&handover.range).unwrap().joined(), joined);
            let (first, rest) = handover.range.split_at(1);
            assert_eq!(slots.parts(&first).unwrap().joined(), Some(0..2_048), "a part alone");
            let rest = rest.unwrap();
            assert_eq!(slots.parts(&rest).unwrap().joined(), joined.map(|all| 2_048..all.end));
            for range in [first, rest] {
                pool.recycle(range).unwrap();
            }
        }
    }
}
