//! Runs: home slots of a chunk of which other cells are still away.
//!
//! ```text
//!   a chunk:  · · · K · · · · · · · · · K · · · · K · · · · · ·     K with user space, · home
//!             └─┬─┘   └───────┬───────┘   └──┬──┘   └────┬────┘
//!             run of 3     run of 9       run of 4     run of 6
//! ```
//!
//! A chunk goes to the kernel as a whole. If a user keeps one of its packets, the other cells would be
//! missing for as long, so the pool gives them to the kernel as runs. Runs have a price: a batch lies in one
//! run, so short runs make small batches. And runs fall to pieces as packets of them are kept, so they have
//! to be mended:
//!
//! ```text
//!   the pool:  ├── runs go to the kernel ──┤ home slots stay: mended ├── runs go to the kernel ──┤
//!                                          └──► goes on when all slots were filled once
//! ```
//!
//! Rule: while a part of the pool is mended, all of it comes home but what user space keeps, and neighbours
//! become one run again, or a whole chunk. Outside of it, too, a few cells stay at home until a search is
//! worth its cost. Both end where the kernel has few cells left.

use std::ops::Range;

use crate::geometry::{Geometry, MAX_CELLS_PER_CHUNK};

/// Cells stay at home, without their chunk, as long as they are at most one for each of this number of cells
/// that the kernel has.
const LEFT_AT_HOME: u32 = 8;
/// Once there are more, runs are made until they are at most one in this number: many runs at once, and
/// rarely.
const LEFT_AFTER_SEARCH: u32 = 16;
/// The pool is mended in this number of parts, one at a time.
const PARTS: u32 = 16;
/// No part is mended if the kernel has less than this fraction (one in…) of the pool's cells.
const FEW: u32 = 2;
/// A part that is at home as a whole is no reason for a search.
const _: () = assert!(PARTS >= LEFT_AT_HOME * FEW);
/// Steps of one search: each looks at one gap between cells that are away, or passes over a chunk.
pub(crate) const STEPS_AT_ONCE: u32 = 256;

/// Slots of one chunk that are given to the kernel at once: all of them, or a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) chunk_id: u32,
    first: u16,
    count: u16,
}

const _: () = assert!(MAX_CELLS_PER_CHUNK <= u16::MAX as u32 && size_of::<Run>() == 8);

impl Run {
    pub(crate) fn new(chunk_id: u32, first: u32, count: u32) -> Self {
        Self { chunk_id, first: first as u16, count: count as u16 }
    }

    /// All slots of a chunk.
    pub(crate) fn whole(chunk_id: u32, geometry: Geometry) -> Self {
        Self::new(chunk_id, 0, geometry.cells_per_chunk())
    }

    /// First slot, counted within the chunk.
    #[inline]
    pub(crate) fn first(self) -> u32 {
        self.first.into()
    }

    /// Number of slots.
    #[inline]
    pub(crate) fn count(self) -> u32 {
        self.count.into()
    }
}

/// Where a pool looks for runs next. All slots are counted within the pool.
#[derive(Debug)]
pub(crate) struct RunSearch {
    /// The shortest run that the port can use; `None` if it takes whole chunks only.
    shortest: Option<u32>,
    cells_per_chunk: u32,
    /// All slots of the pool.
    slots: u32,
    /// The next slot to look at. INVARIANT: below `slots`.
    at: u32,
    /// First slot of the part that is mended.
    mended: u32,
    /// Slots of each part: whole chunks, if there are as many.
    part: u32,
    /// Slots that have to be filled until the next part is mended.
    left: u32,
    /// This round through the pool has found a run, or there was a change during it.
    has_found: bool,
    /// This round has passed over the part that is mended.
    has_passed: bool,
    /// A search finds nothing if the kernel has as many cells or more: a whole round has shown it.
    in_vain_from: u32,
}

impl RunSearch {
    /// A search that finds nothing until runs are [allowed](Self::allow).
    pub(crate) fn new(geometry: Geometry) -> Self {
        let (slots, cells_per_chunk) = (geometry.cells_per_pool(), geometry.cells_per_chunk());
        let part = match geometry.chunks_per_pool() / PARTS {
            0 => slots / PARTS,
            chunks => chunks * cells_per_chunk,
        };
        Self {
            shortest: None,
            cells_per_chunk,
            slots,
            at: 0,
            mended: 0,
            part,
            left: slots,
            has_found: false,
            has_passed: false,
            in_vain_from: 0,
        }
    }

    /// Allows runs of at least this number of cells. Returns how many there can be at once.
    pub(crate) fn allow(&mut self, shortest: u32) -> u32 {
        let shortest = shortest.max(1);
        self.shortest = (shortest < self.cells_per_chunk).then_some(shortest);
        self.note_change();
        self.shortest.map_or(0, |shortest| self.slots / shortest)
    }

    /// Whether there may be runs.
    pub(crate) fn is_allowed(&self) -> bool {
        self.shortest.is_some()
    }

    /// Whether it is time for a search, given the cells that the kernel has and those at home without their
    /// chunk.
    #[inline]
    pub(crate) fn is_due(&self, attached_cells: u32, scattered_cells: u32) -> bool {
        scattered_cells > attached_cells / LEFT_AT_HOME && attached_cells < self.in_vain_from
    }

    /// Whether few enough cells are left at home.
    pub(crate) fn is_done(&self, attached_cells: u32, scattered_cells: u32) -> bool {
        scattered_cells <= attached_cells / LEFT_AFTER_SEARCH
    }

    /// There may be runs that no round has found.
    #[inline]
    pub(crate) fn note_change(&mut self) {
        self.has_found = true;
        self.in_vain_from = if self.shortest.is_some() { u32::MAX } else { 0 };
    }

    /// A run was filled: the next part is mended once as many slots were as there are.
    #[inline]
    pub(crate) fn note_filled(&mut self, run: Run) {
        self.left = self.left.saturating_sub(run.count());
        if self.left == 0 {
            self.left = self.slots;
            self.mended = if self.mended + self.part < self.slots { self.mended + self.part } else { 0 };
            self.note_change();
        }
    }

    /// The next slots to look at, all of one chunk; none at the end of the part that is mended.
    pub(crate) fn span(&mut self, attached_cells: u32) -> Range<u32> {
        let end = (self.at / self.cells_per_chunk + 1) * self.cells_per_chunk;
        if attached_cells < self.slots / FEW || self.part == 0 {
            return self.at..end;
        }
        self.has_passed = true;
        let mended = self.mended..self.mended + self.part;
        if mended.contains(&self.at) {
            return mended.end..mended.end;
        }
        self.at..if self.at < mended.start { end.min(mended.start) } else { end }
    }

    /// Whether a chunk with this number of cells at home may have a run, or this number of slots may be one.
    pub(crate) fn is_enough(&self, cells: u32) -> bool {
        self.shortest.is_some_and(|shortest| cells >= shortest)
    }

    /// Goes on to a slot. Returns whether it was the end of a round.
    pub(crate) fn go_on_to(&mut self, slot: u32, has_found: bool) -> bool {
        self.has_found |= has_found;
        self.at = slot;
        if slot < self.slots {
            return false;
        }
        if !self.has_found {
            self.in_vain_from = if self.has_passed { self.slots / FEW } else { 0 };
        }
        (self.at, self.has_found, self.has_passed) = (0, false, false);
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
