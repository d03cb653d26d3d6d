//! The tokens that stand for filled cells.
//!
//! A [`ChunkRange`] is the right to read some cells of one pool. It is move-only: handing it over
//! consumes it, a hand-over that fails gives it back, and using it twice does not compile. It is one
//! word, which is also what crosses a queue:
//!
//! ```text
//!   63          62            37              15         0
//!   ┌──────────┬──────────────┬───────────────┬───────────┐
//!   │ continues│ pool         │ first         │ count     │
//!   └──────────┴──────────────┴───────────────┴───────────┘
//!      1 bit      26 bits          22 bits       15 bits
//! ```
//!
//! In a range the first bit is always set, so that the word is never 0 and an `Option` of a range is
//! one word, too: there are tables of them, and every packet that is owned has one.
//!
//! Rule: only a pool makes ranges, and only of cells that it has handed over. No two pools of a process ever
//! have the same [number](PoolNumber), whatever they are called, so a range that a
//! [`SlotTable`](crate::SlotTable) takes comes from its pool. The unsafe code of `wirecap-sys` rests on this.

use std::{
    fmt,
    num::NonZeroU64,
    sync::atomic::{self, AtomicU64},
};

use crate::geometry::{MAX_CELLS_PER_CHUNK, MAX_CELLS_PER_POOL};

const COUNT_BITS: u32 = 15;
const FIRST_BITS: u32 = 22;
const POOL_BITS: u32 = 26;
const FIRST_SHIFT: u32 = COUNT_BITS;
const POOL_SHIFT: u32 = FIRST_SHIFT + FIRST_BITS;
const CONTINUES: u64 = 1 << 63;
/// The bit that says nothing about a range: with it the word is never 0.
const SET: NonZeroU64 = NonZeroU64::new(CONTINUES).unwrap();

const _: () = assert!(POOL_SHIFT + POOL_BITS == 63);
const _: () = assert!(MAX_CELLS_PER_CHUNK < 1 << COUNT_BITS);
const _: () = assert!(MAX_CELLS_PER_POOL == 1 << FIRST_BITS);

/// Ports an engine can have.
pub const MAX_NICS: u16 = 64;
/// Receive queues a port can have.
pub const MAX_RINGS: u16 = 1024;

/// What the pool of one receive queue is called in an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolId {
    /// Which port of the engine, counted from 0 in the order they were opened.
    pub nic_id: u16,
    /// Which receive queue of that port, as the NIC numbers them.
    pub ring_id: u16,
}

/// Which pool of the process: no other pool has had the number, and none will.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PoolNumber(u32);

impl PoolNumber {
    /// A number that no pool has had.
    ///
    /// # Panics
    /// After 2^26 pools: a second pool of the same number would make the same ranges.
    pub(crate) fn next() -> Self {
        // Of the standard library also under loom, whose atomics are part of one model run.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, atomic::Ordering::Relaxed);
        assert!(number < 1 << POOL_BITS, "this process has made all the pools that it can have");
        Self(number as u32)
    }

    /// The number. It grows with each pool, and grants nothing.
    #[inline]
    pub fn get(self) -> u32 {
        self.0
    }

    #[cfg(test)]
    pub(crate) fn of_test(number: u32) -> Self {
        Self(number)
    }
}

/// Where a chunk is (section 3.2.1 of the paper).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkState {
    /// With the pool, ready to be attached.
    Free,
    /// Its cells are with the kernel, or some of them still are.
    Attached,
    /// All its cells were filled, and not all are home. The kernel may have got some of those that are home
    /// again, as a run.
    Captured,
}

/// The right to read the filled cells `first .. first + count` of a pool, and the duty to recycle them. They
/// lie in one chunk, unless ranges of two were [joined](ChunkRange::join).
#[derive(PartialEq, Eq)]
#[must_use = "cells that are not recycled are lost to their pool"]
pub struct ChunkRange {
    /// INVARIANT: `CONTINUES` is set. The rest is as the picture above says.
    word: NonZeroU64,
}

impl ChunkRange {
    /// The right to these cells. For the pool alone, and once for each cell that it has filled.
    #[inline]
    pub(crate) fn new(pool: PoolNumber, first: u32, count: u32) -> Self {
        debug_assert!(count > 0 && count <= MAX_CELLS_PER_CHUNK);
        debug_assert!(u64::from(first) + u64::from(count) <= MAX_CELLS_PER_POOL);
        let word = (u64::from(pool.0) << POOL_SHIFT) | (u64::from(first) << FIRST_SHIFT) | u64::from(count);
        Self { word: SET | word }
    }

    /// Rebuilds a range from the word that a queue of this crate carried. The pool validates it all the same
    /// when it comes home.
    #[inline]
    pub(crate) fn from_word(word: u64) -> Self {
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
        let (pool, first, others) = (self.pool(), self.first(), self.count() - count);
        let rest = (others > 0).then(|| Self::new(pool, first + count, others));
        (Self { word: SET | (self.word.get() - u64::from(others)) }, rest)
    }

    /// This range and the one right behind it as one.
    ///
    /// # Errors
    /// Both as they were, when they do not adjoin in this order, or are more cells than a chunk can have.
    #[inline]
    pub fn join(self, next: ChunkRange) -> Result<ChunkRange, (ChunkRange, ChunkRange)> {
        // Where this one ends, in the place and form of where the next one begins.
        let end = (self.word.get() >> FIRST_SHIFT) + u64::from(self.count());
        let adjoins = end == next.word.get() >> FIRST_SHIFT && self.first() + self.count() == next.first();
        if !adjoins || self.count() + next.count() > MAX_CELLS_PER_CHUNK {
            return Err((self, next));
        }
        Ok(Self { word: SET | (self.word.get() + u64::from(next.count())) })
    }

    /// The one-word form, see the picture above. Consumes the token.
    #[inline]
    pub(crate) fn into_word(self) -> u64 {
        self.word.get() & !CONTINUES
    }

    /// The pool the cells belong to.
    #[inline]
    pub fn pool(&self) -> PoolNumber {
        PoolNumber(self.bits(POOL_SHIFT, POOL_BITS))
    }

    /// First cell, counted within the pool.
    #[inline]
    pub fn first(&self) -> u32 {
        self.bits(FIRST_SHIFT, FIRST_BITS)
    }

    /// Number of cells, at least 1.
    #[inline]
    pub fn count(&self) -> u32 {
        self.bits(0, COUNT_BITS)
    }
}

impl fmt::Debug for ChunkRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ChunkRange")
            .field("pool", &self.pool().get())
            .field("first", &self.first())
            .field("count", &self.count())
            .finish()
    }
}

/// What is handed to a worker at once: filled cells that make up whole packets, in order.
///
/// A packet of several cells may begin at the end of one chunk, or of a run of its cells, and end at the
/// start of the next; then `lead` holds its beginning. A packet never lies in two hand-overs.
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
    pub fn pool(&self) -> PoolNumber {
        self.range.pool()
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
            lead: lead.map(ChunkRange::from_word),
            range: ChunkRange::from_word(range),
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

    /// Fewer under miri, which is a hundred times slower.
    const CASES: u32 = if cfg!(miri) { 4 } else { 256 };

    proptest! {
        #![proptest_config(ProptestConfig { cases: CASES, ..ProptestConfig::default() })]

        #[test]
        fn a_range_is_read_back_from_its_word(pool in 0_u32..1 << POOL_BITS, first in 0..MAX_CELLS_PER_POOL as u32, count in any::<u32>()) {
            let count = 1 + count % MAX_CELLS_PER_CHUNK.min(MAX_CELLS_PER_POOL as u32 - first);
            let range = || ChunkRange::new(PoolNumber(pool), first, count);
            let word = range().into_word();
            prop_assert!(!Handover::continues(word));
            prop_assert_eq!(ChunkRange::from_word(word), range());
            prop_assert_eq!(ChunkRange::from_word(word | CONTINUES), range());
            prop_assert_eq!((range().pool(), range().first(), range().count()), (PoolNumber(pool), first, count));
        }
    }

    /// Two pools with the same number would make equal ranges.
    #[test]
    fn no_two_pools_have_the_same_number() {
        let numbers = || (0..100).map(|_| PoolNumber::next().get()).collect::<Vec<_>>();
        let mut all: Vec<_> = std::thread::scope(|scope| {
            let threads = [(); 3].map(|()| scope.spawn(numbers));
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 300);
    }

    #[test]
    fn a_range_and_an_option_of_it_take_one_word() {
        assert_eq!(size_of::<Option<ChunkRange>>(), 8);
        let text = format!("{:?}", ChunkRange::new(PoolNumber(7), 3, 2));
        assert_eq!(text, "ChunkRange { pool: 7, first: 3, count: 2 }");
    }

    #[test]
    fn ranges_are_joined_only_in_order_and_within_a_pool() {
        let range = |pool, first, count| ChunkRange::new(PoolNumber(pool), first, count);
        assert_eq!(range(7, 3, 2).join(range(7, 5, 4)), Ok(range(7, 3, 6)));
        let most = MAX_CELLS_PER_CHUNK;
        assert_eq!(range(7, 0, most - 1).join(range(7, most - 1, 1)), Ok(range(7, 0, most)));
        let end = MAX_CELLS_PER_POOL as u32;
        for (one, other) in [
            ((7, 5, 4), (7, 3, 2)),
            ((7, 3, 2), (8, 5, 4)),
            ((7, 3, 2), (7, 6, 1)),
            ((7, 3, 2), (7, 4, 1)),
            // The end of a pool is not the beginning of the next.
            ((7, end - 1, 1), (8, 0, 1)),
            // More cells than fit.
            ((7, 0, most), (7, most, 1)),
        ] {
            let [one, other] = [one, other].map(|(pool, first, count)| move || range(pool, first, count));
            assert_eq!(one().join(other()), Err((one(), other())));
        }
        assert_eq!(range(7, 3, 6).split_at(6), (range(7, 3, 6), None));
        let (first, rest) = range(7, 3, 6).split_at(2);
        assert_eq!(first, range(7, 3, 2));
        assert_eq!(first.join(rest.unwrap()), Ok(range(7, 3, 6)));
    }
}
