//! The pool of one receive queue: R chunks, each free, attached or captured.
//!
//! ```text
//!             attach: all M cells to the kernel            last cell filled
//!   ┌──────┐ ─────────────────────────────► ┌──────────┐ ─────────────────► ┌──────────┐ ──┐ attach: a run of its
//!   │ free │                                │ attached │                    │ captured │   │ home slots, if no chunk
//!   └──────┘ ◄──────────────────────────────┴──────────┴────────────────────┴──────────┘ ◄─┘ is free
//!                        recycle: the last of its M cells came home
//! ```
//!
//! Cells are filled in the slots of the *oldest* attached run, one after the other: that is a whole chunk, or
//! what is home of one (`run.rs`). What is filled can be handed over at any time as a range, so a chunk that
//! is still attached may already have cells with a worker; nothing is copied on a timeout, as the paper had
//! to.
//!
//! Rule: at any time each slot is in exactly one of four places: home, with the kernel, filled here,
//! or with user space (`outstanding`). Only slots that are outstanding can be recycled, and only
//! once; everything else is [`RecycleError`].

use std::collections::VecDeque;

use thiserror::Error;

use crate::{
    bits::Bits,
    chunk::{ChunkRange, ChunkState, Handover, PoolId, PoolNumber},
    filler::{Counters, FillPosition, Filler, PendingPackets},
    geometry::Geometry,
    run::{Run, RunSearch, STEPS_AT_ONCE},
    slots::SlotTable,
    sync::Arc,
};

/// Why a range was not taken back. Nothing changes when that happens.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum RecycleError {
    /// The range is of another pool, whatever that is called.
    #[error("the cells do not belong to pool {0:?}")]
    WrongPool(PoolId),
    /// Cells past the end of the pool.
    #[error("pool {0:?} has no cells {1} to {2}")]
    OutOfBounds(PoolId, u32, u32),
    /// At least one of the cells is not with user space: never captured, or recycled before.
    #[error("not all of cells {1} to {2} of pool {0:?} are captured; were they recycled before?")]
    NotCaptured(PoolId, u32, u32),
}

/// How many chunks are in which state, and how many cells wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolLevels {
    /// Chunks with the pool.
    pub free_chunks: u32,
    /// Chunks that were given to the kernel as a whole and are not full yet.
    pub attached_chunks: u32,
    /// Chunks that were full and are not home yet. The kernel may have runs of them again.
    pub captured_chunks: u32,
    /// Cells with the kernel, as far as the pool knows: some may be filled and wait in a ring.
    pub attached_cells: u32,
    /// Cells that are home and wait to be filled again: those of the chunk that is filled now, until the rest
    /// of it has been, and where the pool [has runs](Pool::allow_runs), those that no run has taken yet.
    pub resting_cells: u32,
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
    /// Cells that came back from user space since the chunk was attached, without those that the kernel has
    /// got again. INVARIANT: at most M, and M only for the moment in which the chunk becomes free.
    home: u32,
}

/// The ring-buffer-pool of one receive queue (section 3.2.1 of the paper).
///
/// Owned by one thread at a time; only the [`SlotTable`] is shared.
#[derive(Debug)]
pub struct Pool {
    id: PoolId,
    number: PoolNumber,
    geometry: Geometry,
    base: u64,
    slots: Arc<SlotTable>,
    chunks: Vec<Chunk>,
    free: Vec<u32>,
    /// Oldest first. Has room for all runs there can be.
    attached: VecDeque<Run>,
    /// Slots of all of `attached`.
    attached_slots: u32,
    filling: FillPosition,
    /// The beginning of a packet whose rest will come in the next run.
    lead: Option<ChunkRange>,
    /// One bit per slot: with user space.
    outstanding: Bits,
    outstanding_cells: u32,
    /// One bit per slot of a captured chunk: in one of `attached`, and not handed over yet.
    in_runs: Bits,
    /// INVARIANT: `home` of all captured chunks.
    scattered_cells: u32,
    search: RunSearch,
    captured_chunks: u32,
    waiting: PendingPackets,
    captured_packets: u64,
    refused: u64,
    foreign: u64,
}

impl Pool {
    /// A pool whose cells lie from `base` on, in bytes from the start of the packet memory.
    /// Allocates everything it will ever need.
    ///
    /// # Panics
    /// When the process has made 2^26 pools: no two have the same [number](PoolNumber).
    pub fn new(id: PoolId, geometry: Geometry, base: u64) -> Self {
        let number = PoolNumber::next();
        let chunks = geometry.chunks_per_pool();
        Self {
            id,
            number,
            geometry,
            base,
            slots: Arc::new(SlotTable::new(number, geometry, base)),
            chunks: vec![Chunk { state: ChunkState::Free, home: 0 }; chunks as usize],
            free: (0..chunks).rev().collect(),
            attached: VecDeque::with_capacity(chunks as usize),
            attached_slots: 0,
            filling: FillPosition::default(),
            lead: None,
            outstanding: Bits::new(geometry.cells_per_pool()),
            outstanding_cells: 0,
            in_runs: Bits::new(geometry.cells_per_pool()),
            scattered_cells: 0,
            search: RunSearch::new(geometry),
            captured_chunks: 0,
            waiting: PendingPackets::default(),
            captured_packets: 0,
            refused: 0,
            foreign: 0,
        }
    }

    /// The number in its ranges. No other pool of the process has it.
    #[inline]
    pub fn number(&self) -> PoolNumber {
        self.number
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

    /// Allows [`Pool::attach`] to give the kernel runs: home slots, at least `shortest` in a row, of chunks
    /// that are not home as a whole. Without it, a chunk stays away until its last cell is home. If packets
    /// lie in several cells, `shortest` has to be large enough for each packet to lie in two runs at most.
    /// Allocates all that this takes.
    pub fn allow_runs(&mut self, shortest: u32) {
        let runs = self.search.allow(shortest);
        let most = (self.geometry.chunks_per_pool() + runs) as usize;
        self.attached.reserve_exact(most.saturating_sub(self.attached.len()));
    }

    /// Whether [`Pool::attach`] has something to give.
    #[inline]
    pub fn can_attach(&self) -> bool {
        !self.free.is_empty() || self.search.is_due(self.attached_cells(), self.scattered_cells)
    }

    /// Gives free chunks to the kernel as long as all their cells fit in `room` more entries of the fill
    /// ring: calls `fill_ring` with the address of each cell. When no chunk is free, and many cells are home
    /// without their chunk, it gives runs of these, if they are [allowed](Pool::allow_runs). Returns the
    /// number of cells.
    pub fn attach(&mut self, room: u32, mut fill_ring: impl FnMut(u64)) -> u32 {
        let cells = self.geometry.cells_per_chunk();
        let mut given = 0;
        while room - given >= cells {
            let Some(chunk_id) = self.free.pop() else { break };
            self.attach_whole(chunk_id, &mut fill_ring);
            given += cells;
        }
        if self.free.is_empty() && self.search.is_due(self.attached_cells(), self.scattered_cells) {
            given += self.attach_runs(room - given, fill_ring);
        }
        given
    }

    fn attach_run(&mut self, run: Run, fill_ring: &mut impl FnMut(u64)) {
        let cell_start = !u64::from(self.geometry.cell_bytes() - 1);
        for slot in self.slots.row(run.chunk_id, run.first(), run.count()) {
            fill_ring(slot.address() & cell_start);
        }
        self.attached_slots += run.count();
        debug_assert!(self.attached.len() < self.attached.capacity(), "nothing is allocated after the start");
        self.attached.push_back(run);
    }

    /// Looks for runs and attaches them, until few enough cells are left at home, or for one round.
    #[cold]
    fn attach_runs(&mut self, room: u32, mut fill_ring: impl FnMut(u64)) -> u32 {
        let mut given = 0;
        for _ in 0..STEPS_AT_ONCE {
            // Without room, a search finds nothing, whatever is home.
            if !self.search.is_enough(room - given) {
                break;
            }
            let (run, is_round) = self.next_run(room - given);
            if let Some(run) = run {
                let chunk = &mut self.chunks[run.chunk_id as usize];
                chunk.home -= run.count();
                self.scattered_cells -= run.count();
                self.in_runs.set(self.slots.index(run.chunk_id, run.first()), run.count());
                self.attach_run(run, &mut fill_ring);
                given += run.count();
            }
            if is_round || self.search.is_done(self.attached_cells(), self.scattered_cells) {
                break;
            }
        }
        given
    }

    /// One step of the search: a run of at most `room` cells, if there is one here, and whether a round has
    /// ended.
    fn next_run(&mut self, room: u32) -> (Option<Run>, bool) {
        let span = self.search.span(self.attached_cells());
        let chunk_id = span.start / self.geometry.cells_per_chunk();
        let has_runs = !span.is_empty() && {
            let chunk = &self.chunks[chunk_id as usize];
            chunk.state == ChunkState::Captured && self.search.is_enough(chunk.home)
        };
        let (start, end) = (span.start as usize, span.end as usize);
        let gap = has_runs.then(|| self.outstanding.first_gap(&self.in_runs, start..end));
        let Some(gap) = gap.flatten() else { return (None, self.search.go_on_to(span.end, false)) };
        let count = (gap.len() as u32).min(room);
        let is_run = self.search.is_enough(count);
        let first = gap.start - self.slots.index(chunk_id, 0);
        let run = is_run.then(|| Run::new(chunk_id, first as u32, count));
        (run, self.search.go_on_to(gap.end as u32, is_run))
    }

    /// Gives this chunk to the kernel if it is free: for rings whose blocks are filled in a fixed order.
    pub fn attach_chunk(&mut self, chunk_id: u32) -> bool {
        if self.state(chunk_id) != ChunkState::Free {
            return false;
        }
        let at = self.free.iter().rposition(|&free| free == chunk_id).expect("free chunks are in the list");
        self.free.swap_remove(at);
        self.attach_whole(chunk_id, &mut |_| ());
        true
    }

    /// Gives any free chunk to the kernel: for packets packed into chunks, in the order of this call.
    pub fn attach_free_chunk(&mut self) -> Option<u32> {
        self.free.pop().inspect(|&chunk_id| self.attach_whole(chunk_id, &mut |_| ()))
    }

    fn attach_whole(&mut self, chunk_id: u32, fill_ring: &mut impl FnMut(u64)) {
        self.chunks[chunk_id as usize].state = ChunkState::Attached;
        self.attach_run(Run::whole(chunk_id, self.geometry), fill_ring);
    }

    /// Cells with the kernel, as far as the pool knows.
    #[inline]
    pub fn attached_cells(&self) -> u32 {
        self.attached_slots - self.filling.filled
    }

    /// How many cells can be filled before [`Pool::hand_over`] must be called.
    #[inline]
    pub fn space(&self) -> u32 {
        self.attached.front().map_or(0, |run| run.count() - self.filling.filled)
    }

    /// Whether the next packet, if it has `cells` cells, would lie in two runs at most.
    pub fn fits(&self, cells: u32) -> bool {
        let slots: u32 = self.attached.iter().take(2).map(|run| run.count()).sum();
        slots.saturating_sub(self.filling.filled) >= cells
    }

    /// Opens the oldest attached run for filling. `None` when none is attached.
    #[inline]
    pub fn filler(&mut self) -> Option<Filler<'_>> {
        let &run = self.attached.front()?;
        let counters = Counters {
            filling: &mut self.filling,
            waiting: &mut self.waiting,
            captured_packets: &mut self.captured_packets,
            foreign: &mut self.foreign,
        };
        let slots = self.slots.row(run.chunk_id, run.first(), run.count());
        Some(Filler::new(slots, self.geometry, self.base, counters))
    }

    /// Whether the run that is being filled is full, so that it must be handed over to go on.
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

    /// Hands over all whole packets that are filled, without copying, also when the run is not
    /// full. `None` when there are none.
    pub fn hand_over(&mut self) -> Option<Handover> {
        let &run = self.attached.front()?;
        let FillPosition { handed, complete, filled } = self.filling;
        let handover = (complete > handed).then(|| {
            let range = self.take(run, handed, complete - handed);
            let packets = std::mem::take(&mut self.waiting.packets);
            let bytes = std::mem::take(&mut self.waiting.bytes);
            let first_number = self.captured_packets - u64::from(packets);
            let uncertainty_ns = self.waiting.take_uncertainty();
            Handover { lead: self.lead.take(), range, first_number, packets, bytes, uncertainty_ns }
        });
        // A block may be empty: the kernel closes one that the next packet does not fit into. It goes home at
        // once.
        let (empty, handover) = match handover {
            Some(handover) if handover.packets == 0 => (Some(handover), None),
            handover => (None, handover),
        };
        for range in empty.into_iter().flat_map(Handover::into_ranges) {
            let _ = self.recycle(range);
        }
        self.filling.handed = complete;
        if filled == run.count() {
            self.finish_run(run);
        }
        handover
    }

    /// The run is full: the next attached one is filled from now on.
    fn finish_run(&mut self, run: Run) {
        let FillPosition { complete, filled, .. } = self.filling;
        self.attached.pop_front();
        self.attached_slots -= run.count();
        self.search.note_filled(run);
        self.filling = FillPosition::default();
        if complete < filled {
            let begun = self.take(run, complete, filled - complete);
            // A packet in more than two runs cannot be handed over as one; the port rules it out, by M and by
            // the shortest run that it allows: see MIN_CELLS_PER_CHUNK_MULTI_BUFFER.
            if let Some(older) = self.lead.replace(begun) {
                self.foreign += 1;
                let _ = self.recycle(older);
            }
        }
        let chunk = &mut self.chunks[run.chunk_id as usize];
        if chunk.state == ChunkState::Attached {
            chunk.state = ChunkState::Captured;
            self.captured_chunks += 1;
            let home = std::mem::take(&mut chunk.home);
            self.note_home(run.chunk_id, home);
        }
    }

    /// The right to slots of a run, counted within it.
    fn take(&mut self, run: Run, first: u32, count: u32) -> ChunkRange {
        let (chunk_id, first) = (run.chunk_id, run.first() + first);
        let slot = self.slots.index(chunk_id, first);
        self.outstanding.set(slot, count);
        if self.chunks[chunk_id as usize].state == ChunkState::Captured {
            self.in_runs.clear(slot, count);
        }
        self.outstanding_cells += count;
        ChunkRange::new(self.number, slot as u32, count)
    }

    /// Takes cells back. The chunk is free again once all its cells are home.
    ///
    /// # Errors
    /// [`RecycleError`] when the range is not one that is with user space; nothing changes but the count
    /// of refusals.
    pub fn recycle(&mut self, range: ChunkRange) -> Result<(), RecycleError> {
        self.validate(&range).inspect_err(|_| self.refused += 1)?;
        let (mut first, count) = (range.first(), range.count());
        self.outstanding.clear(first as usize, count);
        self.outstanding_cells -= count;
        let (end, cells) = (first + count, self.geometry.cells_per_chunk());
        // Once, unless ranges of several chunks were joined.
        while first < end {
            let chunk_id = first >> cells.trailing_zeros();
            let next = end.min((chunk_id + 1) * cells);
            let chunk = &mut self.chunks[chunk_id as usize];
            if chunk.state == ChunkState::Captured {
                self.note_home(chunk_id, next - first);
            } else {
                chunk.home += next - first;
            }
            first = next;
        }
        Ok(())
    }

    /// Cells of a captured chunk are home. It is free if all of its cells are.
    #[inline]
    fn note_home(&mut self, chunk_id: u32, count: u32) {
        let cells = self.geometry.cells_per_chunk();
        let chunk = &mut self.chunks[chunk_id as usize];
        debug_assert!(chunk.state == ChunkState::Captured && chunk.home + count <= cells);
        chunk.home += count;
        if chunk.home < cells {
            self.scattered_cells += count;
            self.search.note_change();
            return;
        }
        self.scattered_cells -= cells - count;
        *chunk = Chunk { state: ChunkState::Free, home: 0 };
        self.captured_chunks -= 1;
        self.free.push(chunk_id);
    }

    fn validate(&self, range: &ChunkRange) -> Result<(), RecycleError> {
        let (first, count) = (range.first(), range.count());
        if range.pool() != self.number {
            return Err(RecycleError::WrongPool(self.id));
        }
        if count == 0 || first + count > self.geometry.cells_per_pool() {
            return Err(RecycleError::OutOfBounds(self.id, first, first + count));
        }
        if !self.outstanding.are_set(first as usize, count) {
            return Err(RecycleError::NotCaptured(self.id, first, first + count));
        }
        Ok(())
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
            attached_chunks: self.geometry.chunks_per_pool() - self.free.len() as u32 - self.captured_chunks,
            captured_chunks: self.captured_chunks,
            attached_cells: self.attached_cells(),
            resting_cells: self.resting_cells(),
            filled_cells: self.filled_cells(),
            outstanding_cells: self.outstanding_cells,
            cells: self.geometry.cells_per_pool(),
        }
    }

    fn resting_cells(&self) -> u32 {
        let filled = self.attached.front().map(|run| &self.chunks[run.chunk_id as usize]);
        let of_filled =
            filled.filter(|chunk| chunk.state == ChunkState::Attached).map_or(0, |chunk| chunk.home);
        of_filled + if self.search.is_allowed() { self.scattered_cells } else { 0 }
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

#[cfg(all(test, not(loom)))]
mod tests;
