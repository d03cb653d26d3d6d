//! Which block a chunk has, and which free block the program takes next.
//!
//! The chunks of a pool are captured in the order in which they were attached. The blocks are not: the
//! program takes those that it has filled a short while ago before those that have been free for long. So a
//! chunk has another block each time that it is captured.
//!
//! ```text
//!   recycled ──► warm ──┐ as many as the program takes until the first of them comes back
//!           └──► cold ──┴─► the program: warm ones first ──► block n ──► chunk n, once it is received
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
#[derive(Debug)]
pub(super) struct BlockMap(Box<[AtomicU32]>);

impl BlockMap {
    /// That of a stream before the first block is given.
    pub(super) fn new(memory: &Arc<PackedMemory>, stream: u32) -> Self {
        let first = memory.first_block(stream);
        let blocks = memory.layout.geometry.chunks_per_pool();
        Self((first..first + blocks).map(AtomicU32::new).collect())
    }

    /// The block of a captured chunk. Who has a range of it came by it behind [`Self::put_into`].
    #[inline]
    pub(super) fn of(&self, chunk: u32) -> u32 {
        self.0[chunk as usize].load(Ordering::Relaxed)
    }

    /// The chunk has this block while it is captured. For the owner of the stream.
    pub(super) fn put_into(&self, chunk: u32, block: u32) {
        self.0[chunk as usize].store(block, Ordering::Relaxed);
    }
}

/// Gives free blocks to the program.
#[derive(Debug)]
pub(super) struct FreeBlocks {
    /// The index of the first block of the stream.
    first: u32,
    /// By its place among those of the stream.
    states: Box<[BlockState]>,
    /// Given so far.
    warm: u32,
    cold: u32,
    has_first: bool,
    /// Warm blocks that the program needs until those that it has taken come back, in eighths.
    needed: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockState {
    New,
    /// With the program.
    Given,
    /// The program took it as the block of this number.
    Taken(u32),
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
    pub(super) fn new(memory: &PackedMemory, stream: u32) -> Self {
        let states = vec![BlockState::New; memory.layout.geometry.chunks_per_pool() as usize].into();
        let first = memory.first_block(stream);
        Self { first, states, warm: 0, cold: 0, has_first: false, needed: 0 }
    }

    /// Warm blocks given so far.
    pub(super) fn warm(&self) -> u32 {
        self.warm
    }

    /// Gives the block of this index to the program, once [`StreamEntry::set_given`] counts it.
    pub(super) fn give(&mut self, entry: &StreamEntry, block: u32, reached: Reached) {
        let state = &mut self.states[(block - self.first) as usize];
        let before = std::mem::replace(state, BlockState::Given);
        debug_assert!(before != BlockState::Given, "block {block} is with the program");
        if !std::mem::replace(&mut self.has_first, true) {
            return entry.set_first(block);
        }
        let warmth = self.warmth(before, reached);
        let given = match warmth {
            Warmth::Warm => &mut self.warm,
            Warmth::Cold => &mut self.cold,
        };
        entry.set_next(warmth, *given, block);
        *given = given.wrapping_add(1);
    }

    /// As many blocks are kept warm as the program has come to since it took this one: with these it can go
    /// on until the next ones come back. Fewer are needed after a burst, or once a slow worker has caught up:
    /// the number shrinks by one with each eight blocks that are given.
    fn warmth(&mut self, before: BlockState, reached: Reached) -> Warmth {
        let BlockState::Taken(number) = before else { return Warmth::Cold };
        let since = reached.number.wrapping_sub(number);
        self.needed = self.needed.saturating_sub(1).max(8 * since);
        let waiting = self.warm.wrapping_sub(reached.warm_taken);
        if 8 * waiting < self.needed { Warmth::Warm } else { Warmth::Cold }
    }

    /// The program has come to this block, by this number.
    ///
    /// # Panics
    /// When it does not have the block: no program that was loaded here does that.
    pub(super) fn note_taken(&mut self, block: u32, number: u32) {
        let place = block.wrapping_sub(self.first) as usize;
        let state = self.states.get_mut(place).filter(|state| **state == BlockState::Given);
        *state.expect("the program fills a block that it was given") = BlockState::Taken(number);
    }
}
