//! Which block a chunk has, and which free block the program takes next.
//!
//! Chunks are captured in the order in which they were attached. Blocks are not: the program reuses those
//! that it filled recently before it takes those that have been free for longer. So a chunk may get a
//! different block each time it is captured.
//!
//! ```text
//!   recycled ──► warm ──┐ as many as the program takes until the next ones are recycled
//!           └──► cold ──┴─► the program: warm ones first ──► block n ──► the nth attached chunk, once received
//! ```
//!
//! Why: a pool of 64 MiB does not fit into a cache, but the few MiB in use do, so that the program's stores
//! hit the cache instead of memory. Cold blocks are kept for bursts. Where the program and the reader share
//! no cache, all blocks become cold, and are filled in a circle (`distance.rs`).

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use super::{
    PackedMemory,
    entry::{StreamEntry, Warmth},
};

/// The block that each chunk of a pool has, by its index among all blocks.
///
/// INVARIANT: the entry of a chunk is valid while the chunk is free, and from the first part that is received
/// of it on. No two valid entries name the same block, and the program has none of the blocks they name. The
/// entry of an attached chunk before its first part is stale and must not be used. The first part replaces
/// it, before any range of the chunk exists, and it stays until the chunk is attached again, when all ranges
/// are gone.
#[derive(Debug)]
pub(super) struct BlockMap(Box<[AtomicU32]>);

impl BlockMap {
    /// Each chunk of the stream's pool has the block at its own place.
    pub(super) fn new(memory: &Arc<PackedMemory>, stream: u32) -> Self {
        let base = memory.first_block(stream);
        let blocks = memory.layout.geometry.chunks_per_pool();
        Self((base..base + blocks).map(AtomicU32::new).collect())
    }

    /// The block of a chunk whose entry is valid: for the owner of the stream, and for callers that hold a
    /// range, since ranges are handed over after [`Self::put_into`].
    #[inline]
    pub(super) fn of(&self, chunk: u32) -> u32 {
        self.0[chunk as usize].load(Ordering::Relaxed)
    }

    /// Sets the block of a chunk. For the owner of the stream, at the first part of the chunk, with a block
    /// that was just [taken](FreeBlocks::note_taken).
    pub(super) fn put_into(&self, chunk: u32, block: u32) {
        self.0[chunk as usize].store(block, Ordering::Relaxed);
    }
}

/// Gives free blocks to the program.
#[derive(Debug)]
pub(super) struct FreeBlocks {
    /// The index of the first block of the stream.
    base: u32,
    /// Which blocks are with the program, by their place among those of the stream.
    given: Box<[bool]>,
    /// Whether the first block was given, which user space chooses.
    has_first: bool,
    supply: Supply,
}

/// How far the program has come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    /// The number of its block.
    pub(super) number: u32,
    /// Warm blocks that it has taken.
    pub(super) warm_taken: u32,
}

impl FreeBlocks {
    pub(super) fn new(memory: &PackedMemory, stream: u32, progress: Progress) -> Self {
        let given = vec![false; memory.layout.geometry.chunks_per_pool() as usize].into();
        let base = memory.first_block(stream);
        Self { base, given, has_first: false, supply: Supply::new(progress) }
    }

    /// Warm blocks given so far.
    pub(super) fn warm_given(&self) -> u32 {
        self.supply.warm_given
    }

    /// Starts giving blocks: the program has come this far, and its cache may be far from the reader's.
    pub(super) fn begin(&mut self, progress: Progress, is_far: bool) {
        self.supply.begin(progress, is_far);
    }

    /// Gives the block of this index to the program, once [`StreamEntry::set_given`] counts it.
    pub(super) fn give(&mut self, entry: &StreamEntry, block: u32) {
        let before = std::mem::replace(&mut self.given[(block - self.base) as usize], true);
        debug_assert!(!before, "block {block} is with the program");
        if !std::mem::replace(&mut self.has_first, true) {
            return entry.set_first(block);
        }
        let (warmth, number) = self.supply.give();
        entry.set_next(warmth, number, block);
    }

    /// Notes that the program has come to this block.
    ///
    /// # Panics
    /// If the program does not have the block; also in release builds, since the invariant of [`BlockMap`]
    /// depends on it. Our program fills no other blocks.
    pub(super) fn note_taken(&mut self, block: u32) {
        let place = block.wrapping_sub(self.base) as usize;
        let given = self.given.get_mut(place).filter(|given| **given);
        *given.expect("the program fills a block that it was given") = false;
    }
}

/// How many blocks were given warm, and how many cold.
#[derive(Debug)]
struct Supply {
    warm_given: u32,
    cold_given: u32,
    /// The program's progress when blocks were last given, and how many had been given before that.
    progress: Progress,
    given_before: u32,
    /// How many blocks the program is expected to take until blocks are given again, in eighths.
    needed_eighths: u32,
}

impl Supply {
    fn new(progress: Progress) -> Self {
        let Progress { number, warm_taken } = progress;
        let cold_given = number.wrapping_sub(warm_taken);
        Self { warm_given: warm_taken, cold_given, progress, given_before: number, needed_eighths: 0 }
    }

    /// Starts giving blocks. As many are kept warm as the program has taken since blocks were last given, and
    /// at least one: they last until blocks are given again. After a burst, the number shrinks by one for
    /// every eight blocks given. None is kept warm if the program's cache is far from the reader's.
    fn begin(&mut self, progress: Progress, is_far: bool) {
        let since = progress.number.wrapping_sub(self.progress.number);
        let given = self.warm_given.wrapping_add(self.cold_given);
        let left = self.needed_eighths.saturating_sub(given.wrapping_sub(self.given_before));
        self.needed_eighths = if is_far { 0 } else { left.max(8 * since.max(1)) };
        (self.progress, self.given_before) = (progress, given);
    }

    /// Whether the next block becomes a warm or a cold one, and its number among those.
    fn give(&mut self) -> (Warmth, u32) {
        let waiting = self.warm_given.wrapping_sub(self.progress.warm_taken);
        let (warmth, given) = match 8 * waiting < self.needed_eighths {
            true => (Warmth::Warm, &mut self.warm_given),
            false => (Warmth::Cold, &mut self.cold_given),
        };
        let number = *given;
        *given = number.wrapping_add(1);
        (warmth, number)
    }
}

#[cfg(test)]
mod tests {
    use super::{Warmth::*, *};

    /// What is given if the program has come this far, with all warm blocks taken.
    fn given(supply: &mut Supply, number: u32, blocks: usize) -> Vec<Warmth> {
        supply.begin(Progress { number, warm_taken: supply.warm_given }, false);
        (0..blocks).map(|_| supply.give().0).collect()
    }

    #[test]
    fn as_many_blocks_are_warm_as_the_program_takes_until_the_next_ones_come() {
        let start = u32::MAX - 3;
        let mut supply = Supply::new(Progress { number: start, warm_taken: u32::MAX });
        assert_eq!(given(&mut supply, start, 3), [Warm, Cold, Cold], "a new pool");
        let at = |advance: u32| start.wrapping_add(advance);
        assert_eq!(given(&mut supply, at(3), 4), [Warm, Warm, Warm, Cold]);
        // The program waits in its block: there is one for afterwards.
        for _ in 0..100 {
            assert_eq!(given(&mut supply, at(3), 1), [Warm]);
        }
        assert_eq!(given(&mut supply, at(3), 2), [Warm, Cold]);
        // After a burst, many are warm, then fewer again.
        assert_eq!(given(&mut supply, at(103), 100), [Warm; 100]);
        assert_eq!(given(&mut supply, at(104), 100), [[Warm; 88].as_slice(), &[Cold; 12]].concat());
        for advance in 105..1000 {
            given(&mut supply, at(advance), 1);
        }
        assert_eq!(given(&mut supply, at(1000), 2), [Warm, Cold]);
    }

    #[test]
    fn none_is_warm_for_a_reader_that_is_far_away() {
        let mut supply = Supply::new(Progress { number: 0, warm_taken: 0 });
        assert_eq!(given(&mut supply, 0, 3), [Warm, Cold, Cold]);
        supply.begin(Progress { number: 3, warm_taken: 1 }, true);
        assert_eq!([(); 4].map(|()| supply.give().0), [Cold; 4]);
        // Close again: as many as the program has taken since.
        assert_eq!(given(&mut supply, 5, 3), [Warm, Warm, Cold]);
    }

    #[test]
    fn blocks_are_numbered_among_those_of_their_kind() {
        let mut supply = Supply::new(Progress { number: 1, warm_taken: u32::MAX });
        supply.begin(Progress { number: 3, warm_taken: u32::MAX }, false);
        let given: Vec<_> = (0..4).map(|_| supply.give()).collect();
        assert_eq!(given, [(Warm, u32::MAX), (Warm, 0), (Cold, 2), (Cold, 3)]);
    }
}
