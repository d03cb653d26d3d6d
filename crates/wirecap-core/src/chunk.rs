//! Names of chunks, and the tokens that stand for filled cells.
//!
//! A [`ChunkRange`] is the right to read some cells of one chunk. It is move-only: handing it over
//! consumes it, a hand-over that fails gives it back, and using it twice does not compile. It is one
//! word, which is also what crosses a queue:
//!
//! ```text
//!   63          62    57     47        29      15         0
//!   ┌──────────┬────────┬──────────┬──────────┬───────┬───────┐
//!   │ continues│ nic_id │ ring_id  │ chunk_id │ first │ count │
//!   └──────────┴────────┴──────────┴──────────┴───────┴───────┘
//!      1 bit     6 bits   10 bits     18 bits  14 bits 15 bits
//! ```
//!
//! In a range the first bit is always set, so that the word is never 0 and an `Option` of a range is
//! one word, too: there are tables of them, and every packet that is owned has one.

use std::{fmt, num::NonZeroU64};

use crate::geometry::{MAX_CELLS_PER_CHUNK, MAX_CHUNKS_PER_POOL};

const COUNT_BITS: u32 = 15;
const FIRST_BITS: u32 = 14;
const CHUNK_BITS: u32 = 18;
const RING_BITS: u32 = 10;
const NIC_BITS: u32 = 6;
const FIRST_SHIFT: u32 = COUNT_BITS;
const CHUNK_SHIFT: u32 = FIRST_SHIFT + FIRST_BITS;
const RING_SHIFT: u32 = CHUNK_SHIFT + CHUNK_BITS;
const NIC_SHIFT: u32 = RING_SHIFT + RING_BITS;
const CONTINUES: u64 = 1 << 63;
/// The bit that says nothing about a range: with it the word is never 0.
const SET: NonZeroU64 = NonZeroU64::new(CONTINUES).unwrap();

const _: () = assert!(NIC_SHIFT + NIC_BITS == 63);
const _: () = assert!(MAX_CELLS_PER_CHUNK == 1 << FIRST_BITS);
const _: () = assert!(MAX_CHUNKS_PER_POOL == 1 << CHUNK_BITS);

/// Ports an engine can have.
pub const MAX_NICS: u16 = 1 << NIC_BITS;
/// Receive queues a port can have.
pub const MAX_RINGS: u16 = 1 << RING_BITS;

/// The pool of one receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolId {
    /// Which port of the engine, counted from 0 in the order they were opened; below [`MAX_NICS`].
    pub nic_id: u16,
    /// Which receive queue of that port, as the NIC numbers them; below [`MAX_RINGS`].
    pub ring_id: u16,
}

impl PoolId {
    /// Panics unless its numbers fit the names of chunks: one bit more would name a chunk of another port. Callers check numbers
    /// that come from outside first.
    #[inline]
    pub(crate) fn assert_fits(self) {
        let Self { nic_id, ring_id } = self;
        assert!(
            nic_id < MAX_NICS && ring_id < MAX_RINGS,
            "no name for chunks of port {nic_id}, queue {ring_id}"
        );
    }
}

/// The name of a chunk, unique in an engine (section 3.2.1 of the paper).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChunkId {
    /// The pool it belongs to and always returns to.
    pub pool: PoolId,
    /// Which chunk of that pool, from 0.
    pub chunk_id: u32,
}

/// Where a chunk is (section 3.2.1 of the paper).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkState {
    /// With the pool, ready to be attached.
    Free,
    /// Its cells are with the kernel, or some of them still are.
    Attached,
    /// All its cells were filled, and not all are home. The kernel may have got some of those that are home again, as a run.
    Captured,
}

/// The right to read the filled cells `first .. first + count` of a chunk, and the duty to recycle
/// them.
#[derive(PartialEq, Eq)]
#[must_use = "cells that are not recycled are lost to their pool"]
pub struct ChunkRange {
    /// INVARIANT: `CONTINUES` is set. The rest is as the picture above says.
    word: NonZeroU64,
}

impl ChunkRange {
    /// The name of these cells.
    ///
    /// # Panics
    /// When the chunk has no name: see [`MAX_NICS`] and [`MAX_RINGS`].
    #[inline]
    pub(crate) fn new(chunk: ChunkId, first: u32, count: u32) -> Self {
        chunk.pool.assert_fits();
        debug_assert!(chunk.chunk_id < MAX_CHUNKS_PER_POOL);
        debug_assert!(count > 0 && first + count <= MAX_CELLS_PER_CHUNK);
        let word = (u64::from(chunk.pool.nic_id) << NIC_SHIFT)
            | (u64::from(chunk.pool.ring_id) << RING_SHIFT)
            | (u64::from(chunk.chunk_id) << CHUNK_SHIFT)
            | (u64::from(first) << FIRST_SHIFT)
            | u64::from(count);
        Self { word: SET | word }
    }

    /// Rebuilds a range from what another party said, for instance one that shares the recycle
    /// queue through memory. Nothing about it is trusted: the pool validates it when it comes home.
    #[inline]
    pub(crate) fn from_untrusted_word(word: u64) -> Self {
        Self { word: SET | word }
    }

    #[inline]
    fn bits(&self, shift: u32, width: u32) -> u32 {
        (self.word.get() >> shift) as u32 & ((1 << width) - 1)
    }

    /// The first `count` cells, and the others if there are any: each part is a right and a duty of its own.
    ///
    /// ```
    /// # use wirecap_core::{Descriptor, Geometry, Pool, PoolId};
    /// # let mut pool = Pool::new(PoolId { nic_id: 0, ring_id: 0 }, Geometry::new(4, 2, 2048)?, 0);
    /// # let mut cells = Vec::new();
    /// # pool.attach(4, |cell| cells.push(cell));
    /// # let mut filler = pool.filler().unwrap();
    /// # filler.fill_all(cells.iter().map(|&address| Descriptor { address, len: 60, more: false, timestamp_ns: 0 }));
    /// # filler.finish();
    /// let range = pool.hand_over().unwrap().range;
    /// let (first, rest) = range.split_at(1);
    /// let rest = rest.expect("three more");
    /// assert_eq!((first.count(), rest.first(), rest.count()), (1, 1, 3));
    /// pool.recycle(rest)?;
    /// pool.recycle(first)?;
    /// assert_eq!(pool.levels().free_chunks, 2, "the chunk is home when all its cells are");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// When `count` is 0 or more than there are.
    #[inline]
    pub fn split_at(self, count: u32) -> (ChunkRange, Option<ChunkRange>) {
        assert!((1..=self.count()).contains(&count), "{count} of {} cells", self.count());
        let (chunk, first, others) = (self.chunk(), self.first(), self.count() - count);
        let rest = (others > 0).then(|| Self::new(chunk, first + count, others));
        (Self { word: SET | (self.word.get() - u64::from(others)) }, rest)
    }

    /// This range and the one right behind it as one.
    ///
    /// # Errors
    /// Both as they were, when they do not adjoin in this order.
    #[inline]
    pub fn join(self, next: ChunkRange) -> Result<ChunkRange, (ChunkRange, ChunkRange)> {
        // Where this one ends, in the place and form of where the next one begins.
        let end = (self.word.get() >> FIRST_SHIFT) + u64::from(self.count());
        let adjoins = end == next.word.get() >> FIRST_SHIFT && self.first() + self.count() == next.first();
        if !adjoins {
            return Err((self, next));
        }
        Ok(Self { word: SET | (self.word.get() + u64::from(next.count())) })
    }

    /// The one-word form, see the picture above. Consumes the token.
    #[inline]
    pub fn into_word(self) -> u64 {
        self.word.get() & !CONTINUES
    }

    /// The chunk the cells belong to.
    #[inline]
    pub fn chunk(&self) -> ChunkId {
        let pool = PoolId {
            nic_id: self.bits(NIC_SHIFT, NIC_BITS) as u16,
            ring_id: self.bits(RING_SHIFT, RING_BITS) as u16,
        };
        ChunkId { pool, chunk_id: self.bits(CHUNK_SHIFT, CHUNK_BITS) }
    }

    /// First cell, counted within the chunk.
    #[inline]
    pub fn first(&self) -> u32 {
        self.bits(FIRST_SHIFT, FIRST_BITS)
    }

    /// Number of cells, at least 1 unless the range came from an untrusted word.
    #[inline]
    pub fn count(&self) -> u32 {
        self.bits(0, COUNT_BITS)
    }
}

impl fmt::Debug for ChunkRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ChunkRange")
            .field("chunk", &self.chunk())
            .field("first", &self.first())
            .field("count", &self.count())
            .finish()
    }
}

/// What is handed to a worker at once: filled cells that make up whole packets, in order.
///
/// A packet of several cells may begin at the end of one chunk, or of a run of its cells, and end at the start of the next;
/// then `lead` holds its beginning. A packet never lies in two hand-overs.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "cells that are not recycled are lost to their pool"]
pub struct Handover {
    /// The beginning of the first packet, when that lies in the chunk or run before.
    pub lead: Option<ChunkRange>,
    /// The cells.
    pub range: ChunkRange,
    /// Number of the first packet: how many packets its receive queue had captured before it.
    pub first_number: u64,
    /// Whole packets in it.
    pub packets: u32,
    /// Bytes of these packets.
    pub bytes: u32,
    /// How much earlier than its timestamp each packet may have come, at most, in nanoseconds.
    pub uncertainty_ns: u64,
}

impl Handover {
    /// Cells of both ranges.
    pub fn cells(&self) -> u32 {
        self.range.count() + self.lead.as_ref().map_or(0, ChunkRange::count)
    }

    /// The ranges, to be recycled each on its own.
    pub fn into_ranges(self) -> impl Iterator<Item = ChunkRange> {
        self.lead.into_iter().chain([self.range])
    }

    /// The pool all its cells belong to.
    pub fn pool(&self) -> PoolId {
        self.range.chunk().pool
    }

    /// Splits the token into the words that cross a queue: the lead (its word says that it
    /// continues), the range, the first number, packets and bytes, and the uncertainty.
    pub(crate) fn into_words(self) -> (Option<u64>, [u64; 4]) {
        let lead = self.lead.map(|lead| lead.into_word() | CONTINUES);
        let volume = (u64::from(self.packets) << 32) | u64::from(self.bytes);
        (lead, [self.range.into_word(), self.first_number, volume, self.uncertainty_ns])
    }

    /// Whether a word is that of a lead, so that the rest of the hand-over is in the next entry.
    pub(crate) fn continues(word: u64) -> bool {
        word & CONTINUES != 0
    }

    pub(crate) fn from_words(lead: Option<u64>, words: [u64; 4]) -> Self {
        let [range, first_number, volume, uncertainty_ns] = words;
        Self {
            lead: lead.map(ChunkRange::from_untrusted_word),
            range: ChunkRange::from_untrusted_word(range),
            first_number,
            packets: (volume >> 32) as u32,
            bytes: volume as u32,
            uncertainty_ns,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Fewer under miri, which takes a hundred times as long.
    const CASES: u32 = if cfg!(miri) { 16 } else { 256 };

    proptest! {
        #![proptest_config(ProptestConfig { cases: CASES, ..ProptestConfig::default() })]

        #[test]
        fn a_range_survives_the_word(nic_id in 0..MAX_NICS, ring_id in 0..MAX_RINGS,
                                     chunk_id in 0..MAX_CHUNKS_PER_POOL,
                                     first in 0..MAX_CELLS_PER_CHUNK, count in any::<u32>()) {
            let count = 1 + count % (MAX_CELLS_PER_CHUNK - first);
            let chunk = ChunkId { pool: PoolId { nic_id, ring_id }, chunk_id };
            let word = ChunkRange::new(chunk, first, count).into_word();
            prop_assert!(!Handover::continues(word));
            prop_assert_eq!(ChunkRange::from_untrusted_word(word), ChunkRange::new(chunk, first, count));
            prop_assert_eq!(ChunkRange::from_untrusted_word(word | CONTINUES),
                            ChunkRange::new(chunk, first, count));
            let range = ChunkRange::new(chunk, first, count);
            prop_assert_eq!((range.chunk(), range.first(), range.count()), (chunk, first, count));
        }
    }

    #[test]
    fn the_greatest_numbers_fit_and_greater_ones_are_refused() {
        let new = |nic_id, ring_id| {
            let chunk = ChunkId { pool: PoolId { nic_id, ring_id }, chunk_id: MAX_CHUNKS_PER_POOL - 1 };
            let range = std::panic::catch_unwind(|| ChunkRange::new(chunk, 0, 1));
            range.map(|range| range.chunk() == chunk)
        };
        assert!(new(MAX_NICS - 1, MAX_RINGS - 1).is_ok_and(|is_same| is_same));
        // Its eleventh bit would be the first of the port's number.
        assert!(new(0, MAX_RINGS).is_err());
        assert!(new(MAX_NICS, 0).is_err());
    }

    #[test]
    fn a_range_takes_a_word_and_so_does_an_option_of_it() {
        let chunk = ChunkId { pool: PoolId { nic_id: 0, ring_id: 0 }, chunk_id: 0 };
        assert_eq!(size_of::<Option<ChunkRange>>(), 8);
        let text = format!("{:?}", ChunkRange::new(chunk, 3, 2));
        assert!(text.ends_with("first: 3, count: 2 }"), "{text}");
    }

    #[test]
    fn ranges_are_joined_only_in_order_and_within_a_chunk() {
        let chunk = |chunk_id| ChunkId { pool: PoolId { nic_id: 1, ring_id: 2 }, chunk_id };
        let range = |chunk_id, first, count| ChunkRange::new(chunk(chunk_id), first, count);
        assert_eq!(range(7, 3, 2).join(range(7, 5, 4)), Ok(range(7, 3, 6)));
        for (one, other) in
            [((7, 5, 4), (7, 3, 2)), ((7, 3, 2), (8, 5, 4)), ((7, 3, 2), (7, 6, 1)), ((7, 3, 2), (7, 4, 1))]
        {
            let [one, other] =
                [one, other].map(|(chunk_id, first, count)| move || range(chunk_id, first, count));
            assert_eq!(one().join(other()), Err((one(), other())));
        }
        // The end of a chunk is not the beginning of the next.
        let end = range(7, MAX_CELLS_PER_CHUNK - 1, 1);
        assert!(end.join(range(8, 0, 1)).is_err());
        assert_eq!(range(7, 3, 6).split_at(6), (range(7, 3, 6), None));
        let (first, rest) = range(7, 3, 6).split_at(2);
        assert_eq!(first, range(7, 3, 2));
        assert_eq!(first.join(rest.unwrap()), Ok(range(7, 3, 6)));
    }
}
