//! The pool of one receive queue: R chunks, each free, attached or captured.
//!
//! ```text
//!             attach: all M cells to the kernel            last cell filled
//!   ┌──────┐ ─────────────────────────────► ┌──────────┐ ─────────────────► ┌──────────┐
//!   │ free │                                │ attached │                    │ captured │
//!   └──────┘ ◄──────────────────────────────┴──────────┴────────────────────┴──────────┘
//!                        recycle: the last of its M cells came home
//! ```
//!
//! Cells are filled in the slots of the *oldest* attached chunk, one after the other. What is filled
//! can be handed over at any time as a range, so a chunk that is still attached may already have
//! cells with a worker; nothing is copied on a timeout, as the paper had to.
//!
//! Rule: at any time each slot is in exactly one of four places: free, with the kernel, filled here,
//! or with user space (`outstanding`). Only slots that are outstanding can be recycled, and only
//! once; everything else is [`Refused`].

use std::collections::VecDeque;

use thiserror::Error;

use crate::{
    chunk::{ChunkId, ChunkRange, ChunkState, Handover, PoolId},
    filler::{Counters, Filler, Filling, Waiting},
    geometry::Geometry,
    slots::SlotTable,
    sync::Arc,
};

/// Why a range was not taken back. Nothing changes when that happens.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The range names a chunk of another pool.
    #[error("chunk {given:?} does not belong to pool {pool:?}")]
    WrongPool {
        /// The chunk that was named.
        given: ChunkId,
        /// The pool that was asked.
        pool: PoolId,
    },
    /// No such chunk, or cells past its end.
    #[error("pool {0:?} has no such cells: chunk {1}, cells {2} to {3}")]
    OutOfBounds(PoolId, u32, u32, u32),
    /// At least one of the cells is not with user space: never captured, or recycled before.
    #[error("not all of cells {1} to {2} of chunk {0:?} are captured; were they recycled before?")]
    NotCaptured(ChunkId, u32, u32),
}

/// How many chunks are in which state, and how many cells wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolLevels {
    /// Chunks with the pool.
    pub free_chunks: u32,
    /// Chunks whose cells are with the kernel, at least in part.
    pub attached_chunks: u32,
    /// Chunks that are full and not home yet.
    pub captured_chunks: u32,
    /// Cells that are filled and not handed over yet.
    pub filled_cells: u32,
    /// Cells with user space.
    pub outstanding_cells: u32,
    /// All cells of the pool.
    pub cells: u32,
}

#[derive(Debug, Clone)]
struct Chunk {
    state: ChunkState,
    /// Cells that came back from user space since the chunk was attached.
    /// INVARIANT: at most M, and M only for the moment in which the chunk becomes free.
    home: u32,
}

/// The ring-buffer-pool of one receive queue (section 3.2.1 of the paper).
///
/// Owned by one thread at a time; only the [`SlotTable`] is shared.
#[derive(Debug)]
pub struct Pool {
    id: PoolId,
    geometry: Geometry,
    base: u64,
    slots: Arc<SlotTable>,
    chunks: Vec<Chunk>,
    free: Vec<u32>,
    attached: VecDeque<u32>,
    filling: Filling,
    /// The beginning of a packet whose rest will come in the next chunk.
    lead: Option<ChunkRange>,
    /// One bit per slot: with user space.
    outstanding: Vec<u64>,
    outstanding_cells: u32,
    captured_chunks: u32,
    waiting: Waiting,
    captured_packets: u64,
    refused: u64,
    foreign: u64,
}

impl Pool {
    /// A pool whose cells lie from `base` on, in bytes from the start of the packet memory.
    /// Allocates everything it will ever need.
    ///
    /// # Panics
    /// When its numbers are not below [`MAX_NICS`](crate::chunk::MAX_NICS) and [`MAX_RINGS`](crate::chunk::MAX_RINGS).
    pub fn new(id: PoolId, geometry: Geometry, base: u64) -> Self {
        id.assert_fits();
        let chunks = geometry.chunks_per_pool();
        Self {
            id,
            geometry,
            base,
            slots: Arc::new(SlotTable::new(geometry, base)),
            chunks: vec![Chunk { state: ChunkState::Free, home: 0 }; chunks as usize],
            free: (0..chunks).rev().collect(),
            attached: VecDeque::with_capacity(chunks as usize),
            filling: Filling::default(),
            lead: None,
            outstanding: vec![0; (geometry.cells_per_pool() as usize).div_ceil(64)],
            outstanding_cells: 0,
            captured_chunks: 0,
            waiting: Waiting::default(),
            captured_packets: 0,
            refused: 0,
            foreign: 0,
        }
    }

    /// Which receive queue the pool belongs to.
    pub fn id(&self) -> PoolId {
        self.id
    }

    /// M, R and the cell size.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Where the pool's cells begin, in bytes from the start of the packet memory.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The slots, to be shared with readers.
    pub fn slots(&self) -> Arc<SlotTable> {
        Arc::clone(&self.slots)
    }

    /// Gives free chunks to the kernel as long as all their cells fit in `room` more entries of the
    /// fill ring: calls `fill_ring` with the address of each cell. Returns the number of cells.
    pub fn attach(&mut self, room: u32, mut fill_ring: impl FnMut(u64)) -> u32 {
        let cells = self.geometry.cells_per_chunk();
        let cell_start = !u64::from(self.geometry.cell_bytes() - 1);
        let mut given = 0;
        while room - given >= cells {
            let Some(chunk_id) = self.free.pop() else { break };
            for slot in self.slots.chunk(chunk_id) {
                fill_ring(slot.address() & cell_start);
            }
            self.chunks[chunk_id as usize].state = ChunkState::Attached;
            self.attached.push_back(chunk_id);
            given += cells;
        }
        given
    }

    /// Gives this chunk to the kernel, if it is free: for rings whose order is fixed. Takes the chunk
    /// that is attached longer to be filled first, as the kernel does.
    pub fn attach_chunk(&mut self, chunk_id: u32) -> bool {
        if self.chunks[chunk_id as usize].state != ChunkState::Free {
            return false;
        }
        let at = self.free.iter().rposition(|&free| free == chunk_id).expect("free chunks are in the list");
        self.free.swap_remove(at);
        self.chunks[chunk_id as usize].state = ChunkState::Attached;
        self.attached.push_back(chunk_id);
        true
    }

    /// How many cells can be filled before [`Pool::hand_over`] must be called.
    #[inline]
    pub fn space(&self) -> u32 {
        if self.attached.is_empty() { 0 } else { self.geometry.cells_per_chunk() - self.filling.filled }
    }

    /// Opens the oldest attached chunk for filling. `None` when no chunk is attached.
    #[inline]
    pub fn filler(&mut self) -> Option<Filler<'_>> {
        let &chunk_id = self.attached.front()?;
        let counters = Counters {
            filling: &mut self.filling,
            waiting: &mut self.waiting,
            captured_packets: &mut self.captured_packets,
            foreign: &mut self.foreign,
        };
        Some(Filler::new(self.slots.chunk(chunk_id), self.geometry, self.base, counters))
    }

    /// Takes attached chunks back whose cells were never filled, because the socket they were given
    /// to is gone.
    pub fn detach_unfilled(&mut self) {
        let begun = usize::from(self.filling.filled > 0);
        for chunk_id in self.attached.drain(begun..).rev() {
            self.chunks[chunk_id as usize].state = ChunkState::Free;
            self.free.push(chunk_id);
        }
    }

    /// Whether the chunk that is being filled is full, so that it must be handed over to go on.
    pub fn is_full(&self) -> bool {
        !self.attached.is_empty() && self.space() == 0
    }

    /// Cells filled with whole packets and not handed over.
    pub fn filled_cells(&self) -> u32 {
        self.filling.complete - self.filling.handed
    }

    /// Whether a packet has begun whose last part has not been filled in yet.
    pub fn has_begun(&self) -> bool {
        self.waiting.begun_bytes > 0
    }

    /// Hands over all whole packets that are filled, without copying, also when the chunk is not
    /// full. `None` when there are none.
    pub fn hand_over(&mut self) -> Option<Handover> {
        let &chunk_id = self.attached.front()?;
        let Filling { handed, complete, filled } = self.filling;
        let handover = (complete > handed).then(|| {
            let range = self.take(chunk_id, handed, complete - handed);
            let packets = std::mem::take(&mut self.waiting.packets);
            let bytes = std::mem::take(&mut self.waiting.bytes);
            let first_number = self.captured_packets - u64::from(packets);
            Handover { lead: self.lead.take(), range, first_number, packets, bytes }
        });
        // A block may be empty: the kernel closes one that the next packet does not fit into. It goes home at once.
        let (empty, handover) = match handover {
            Some(handover) if handover.packets == 0 => (Some(handover), None),
            handover => (None, handover),
        };
        for range in empty.into_iter().flat_map(Handover::into_ranges) {
            let _ = self.recycle(range);
        }
        self.filling.handed = complete;
        if filled == self.geometry.cells_per_chunk() {
            self.finish_chunk(chunk_id);
        }
        handover
    }

    /// The chunk is full: the next attached one is filled from now on.
    fn finish_chunk(&mut self, chunk_id: u32) {
        let Filling { complete, filled, .. } = self.filling;
        self.attached.pop_front();
        self.chunks[chunk_id as usize].state = ChunkState::Captured;
        self.captured_chunks += 1;
        self.filling = Filling::default();
        if complete < filled {
            let begun = self.take(chunk_id, complete, filled - complete);
            // A packet in more than two chunks cannot be handed over as one; `Geometry` and the
            // port rule it out by asking for MIN_CELLS_PER_CHUNK_MULTI_BUFFER.
            if let Some(older) = self.lead.replace(begun) {
                self.foreign += 1;
                let _ = self.recycle(older);
            }
        } else if self.chunks[chunk_id as usize].home == self.geometry.cells_per_chunk() {
            self.free_chunk(chunk_id);
        }
    }

    fn take(&mut self, chunk_id: u32, first: u32, count: u32) -> ChunkRange {
        set_bits(&mut self.outstanding, self.slots.index(chunk_id, first), count);
        self.outstanding_cells += count;
        ChunkRange::new(ChunkId { pool: self.id, chunk_id }, first, count)
    }

    /// Takes cells back. The chunk is free again once all its cells are home.
    ///
    /// # Errors
    /// [`Refused`] when the range is not one that is with user space; nothing changes but the count
    /// of refusals.
    pub fn recycle(&mut self, range: ChunkRange) -> Result<(), Refused> {
        self.validate(&range).inspect_err(|_| self.refused += 1)?;
        let (chunk_id, count) = (range.chunk().chunk_id, range.count());
        clear_bits(&mut self.outstanding, self.slots.index(chunk_id, range.first()), count);
        self.outstanding_cells -= count;
        let chunk = &mut self.chunks[chunk_id as usize];
        chunk.home += count;
        debug_assert!(chunk.home <= self.geometry.cells_per_chunk());
        if chunk.home == self.geometry.cells_per_chunk() && chunk.state == ChunkState::Captured {
            self.free_chunk(chunk_id);
        }
        Ok(())
    }

    fn validate(&self, range: &ChunkRange) -> Result<(), Refused> {
        let (chunk, first, count) = (range.chunk(), range.first(), range.count());
        if chunk.pool != self.id {
            return Err(Refused::WrongPool { given: chunk, pool: self.id });
        }
        let in_bounds = chunk.chunk_id < self.geometry.chunks_per_pool()
            && count > 0
            && first + count <= self.geometry.cells_per_chunk();
        if !in_bounds {
            return Err(Refused::OutOfBounds(self.id, chunk.chunk_id, first, first + count));
        }
        if !all_bits_set(&self.outstanding, self.slots.index(chunk.chunk_id, first), count) {
            return Err(Refused::NotCaptured(chunk, first, first + count));
        }
        Ok(())
    }

    fn free_chunk(&mut self, chunk_id: u32) {
        self.chunks[chunk_id as usize] = Chunk { state: ChunkState::Free, home: 0 };
        self.captured_chunks -= 1;
        self.free.push(chunk_id);
    }

    /// The state of a chunk of this pool.
    ///
    /// # Panics
    /// When the pool has no such chunk.
    pub fn state(&self, chunk_id: u32) -> ChunkState {
        self.chunks[chunk_id as usize].state
    }

    /// How full the pool is.
    pub fn levels(&self) -> PoolLevels {
        PoolLevels {
            free_chunks: self.free.len() as u32,
            attached_chunks: self.attached.len() as u32,
            captured_chunks: self.captured_chunks,
            filled_cells: self.filled_cells(),
            outstanding_cells: self.outstanding_cells,
            cells: self.geometry.cells_per_pool(),
        }
    }

    /// Whole packets captured from the kernel since the start.
    pub fn captured_packets(&self) -> u64 {
        self.captured_packets
    }

    /// Recycled ranges that were refused.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Cells the kernel reported that are not this pool's, or could not be handed over. Always 0
    /// unless a driver is broken.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }
}

/// Calls `each` with the words that bits `first .. first + count` touch and a mask of those bits.
fn for_bits(first: usize, count: u32, mut each: impl FnMut(usize, u64)) {
    let end = first + count as usize;
    let mut bit = first;
    while bit < end {
        let offset = bit % 64;
        let bits = (64 - offset).min(end - bit);
        each(bit / 64, (u64::MAX >> (64 - bits)) << offset);
        bit += bits;
    }
}

fn set_bits(words: &mut [u64], first: usize, count: u32) {
    for_bits(first, count, |word, mask| words[word] |= mask);
}

fn clear_bits(words: &mut [u64], first: usize, count: u32) {
    for_bits(first, count, |word, mask| words[word] &= !mask);
}

fn all_bits_set(words: &[u64], first: usize, count: u32) -> bool {
    let mut all = true;
    for_bits(first, count, |word, mask| all &= words[word] & mask == mask);
    all
}

#[cfg(all(test, not(loom)))]
#[path = "pool_tests.rs"]
mod tests;
