//! Which block a chunk has, and which free block the program takes next.
//!
//! The chunks of a pool are captured in the order in which they were attached. The blocks are not: the
//! program takes those that it has filled a short while ago before those that have been free for long. So a
//! chunk may have another block each time that it is captured.
//!
//! ```text
//!   recycled ──► warm ──┐ as many as the program takes until the next ones are recycled
//!           └──► cold ──┴─► the program: warm ones first ──► block n ──► the nth attached chunk, once received
//! ```
//!
//! Why: 64 MiB do not stay in a cache, but a few MiB do. The program's stores then find their cache lines
//! there, and the memory bus is left alone. What is cold waits for bursts.

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
/// INVARIANT: no two chunks that are free, or of which a part was received since they were attached, have the
/// same block, and the program has none of these blocks. A chunk's entry changes with the first part that is
/// received of it, and then stays: ranges of it are made later, and are gone when it is attached again. Until
/// that part comes, an attached chunk has its entry of before, which may be another one's block by now, and
/// is not used.
#[derive(Debug)]
pub(super) struct BlockMap(Box<[AtomicU32]>);

impl BlockMap {
    /// Each chunk of the stream's pool has the block at its own place.
    pub(super) fn new(memory: &Arc<PackedMemory>, stream: u32) -> Self {
        let base = memory.first_block(stream);
        let blocks = memory.layout.geometry.chunks_per_pool();
        Self((base..base + blocks).map(AtomicU32::new).collect())
    }

    /// The block of a chunk that is free, for the owner of the stream, or of which the caller has a range.
    /// That was handed over behind [`Self::put_into`].
    #[inline]
    pub(super) fn of(&self, chunk: u32) -> u32 {
        self.0[chunk as usize].load(Ordering::Relaxed)
    }

    /// The chunk has this block from now on. For the owner of the stream, with the first part of the chunk:
    /// the block is [taken](FreeBlocks::note_taken).
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
    /// The block of the first number was given: user space chooses that one.
    has_begun: bool,
    supply: Supply,
}

/// How far the program has come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reached {
    /// The number of its block.
    pub(super) number: u32,
    /// Warm blocks that it has taken.
    pub(super) warm_taken: u32,
}

impl FreeBlocks {
    pub(super) fn new(memory: &PackedMemory, stream: u32, reached: Reached) -> Self {
        let given = vec![false; memory.layout.geometry.chunks_per_pool() as usize].into();
        let base = memory.first_block(stream);
        Self { base, given, has_begun: false, supply: Supply::new(reached) }
    }

    /// Warm blocks given so far.
    pub(super) fn warm_given(&self) -> u32 {
        self.supply.warm_given
    }

    /// The program has come this far, and blocks are given now.
    pub(super) fn begin(&mut self, reached: Reached) {
        self.supply.begin(reached);
    }

    /// Gives the block of this index to the program, once [`StreamEntry::set_given`] counts it.
    pub(super) fn give(&mut self, entry: &StreamEntry, block: u32) {
        let before = std::mem::replace(&mut self.given[(block - self.base) as usize], true);
        debug_assert!(!before, "block {block} is with the program");
        if !std::mem::replace(&mut self.has_begun, true) {
            return entry.set_first(block);
        }
        let (warmth, number) = self.supply.give();
        entry.set_next(warmth, number, block);
    }

    /// The program has come to this block.
    ///
    /// # Panics
    /// When it does not have the block, in every build: the invariant of [`BlockMap`] rests on it. Our
    /// program fills no other blocks.
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
    /// How far the program had come when blocks were last given, and how many had been given before.
    reached: Reached,
    given_before: u32,
    /// Blocks that the program comes to until the next ones are given, in eighths.
    needed_eighths: u32,
}

impl Supply {
    fn new(reached: Reached) -> Self {
        let Reached { number, warm_taken } = reached;
        let cold_given = number.wrapping_sub(warm_taken);
        Self { warm_given: warm_taken, cold_given, reached, given_before: number, needed_eighths: 0 }
    }

    /// The program has come this far, and blocks are given now. As many are kept warm as it has come to since
    /// the last ones were given, or one: it can go on with these until the next ones are. After a burst, the
    /// number shrinks by one with each eight blocks that are given.
    fn begin(&mut self, reached: Reached) {
        let since = reached.number.wrapping_sub(self.reached.number);
        let given = self.warm_given.wrapping_add(self.cold_given);
        let left = self.needed_eighths.saturating_sub(given.wrapping_sub(self.given_before));
        self.needed_eighths = left.max(8 * since.max(1));
        (self.reached, self.given_before) = (reached, given);
    }

    /// Whether the next block is given as a warm or a cold one, and its number among these.
    fn give(&mut self) -> (Warmth, u32) {
        let waiting = self.warm_given.wrapping_sub(self.reached.warm_taken);
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
        supply.begin(Reached { number, warm_taken: supply.warm_given });
        (0..blocks).map(|_| supply.give().0).collect()
    }

    #[test]
    fn as_many_blocks_are_warm_as_the_program_takes_until_the_next_ones_come() {
        let start = u32::MAX - 3;
        let mut supply = Supply::new(Reached { number: start, warm_taken: u32::MAX });
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
    fn blocks_are_numbered_among_those_of_their_kind() {
        let mut supply = Supply::new(Reached { number: 1, warm_taken: u32::MAX });
        supply.begin(Reached { number: 3, warm_taken: u32::MAX });
        let given: Vec<_> = (0..4).map(|_| supply.give()).collect();
        assert_eq!(given, [(Warm, u32::MAX), (Warm, 0), (Cold, 2), (Cold, 3)]);
    }
}
