//! A pool whose chunks are memory that is filled and read.
//!
//! ```text
//!   PacketMemory::carve ─┐                  attach: to the one socket or writer that has the lease
//!   PacketSocket::carve ─┴─► LivePool ──┬─► filler: FilledCells of that lease, each once
//!                                       ├─► hand_over: ranges, for the readers of this pool
//!                                       └── recycle: ranges, consumed
//! ```
//!
//! Rule: other crates see `&Pool` at most. With the [`Pool`] itself they could claim that a cell is filled
//! while the kernel has it, or take back a cell that the kernel fills.

use std::{ops::Deref, sync::Arc};

use wirecap_core::{ChunkRange, Descriptor, Filler, Handover, Pool, PoolNumber, RecycleError};

use super::{
    CellReader, PacketMemory,
    filled::{FilledBlock, FilledCell, FilledPart},
    lease::{PoolLease, Tenancy, Tenant},
};

/// The pool of one receive queue whose cells lie in a [`PacketMemory`], or whose chunks are the blocks of a
/// [`PacketSocket`](crate::packet::PacketSocket) or of a [`PackedStream`](crate::packed::PackedStream). All
/// that can be asked of a [`Pool`] can be asked of it.
///
/// It cannot be filled with anything but what its own socket has received, so no descriptor fills it twice:
///
/// ```compile_fail,E0271
/// # use wirecap_sys::memory::LivePool;
/// # use wirecap_core::Descriptor;
/// fn fill_twice(pool: &mut LivePool) {
///     let cell = Descriptor { address: 256, len: 60, more: false, timestamp_ns: 0 };
///     pool.filler().unwrap().fill([cell, cell].into_iter());
/// }
/// ```
///
/// And the pool inside stays inside:
///
/// ```compile_fail,E0596
/// # use wirecap_sys::memory::LivePool;
/// # use wirecap_core::Pool;
/// fn lend(pool: &mut LivePool) -> &mut Pool {
///     pool
/// }
/// ```
///
/// ```compile_fail,E0616
/// # use wirecap_sys::memory::LivePool;
/// fn take(pool: LivePool) -> wirecap_core::Pool {
///     pool.pool
/// }
/// ```
#[derive(Debug)]
pub struct LivePool {
    /// INVARIANT: its cells, or blocks, are no other pool's. What it has attached is with the holder of its
    /// lease, or in a token of that lease's, or lost; never with two.
    pool: Pool,
    /// Where its cells lie; `None` of blocks.
    memory: Option<Arc<PacketMemory>>,
    tenancy: Tenancy,
}

impl Deref for LivePool {
    type Target = Pool;

    #[inline]
    fn deref(&self) -> &Pool {
        &self.pool
    }
}

impl LivePool {
    /// Over cells of `memory` that no other pool has.
    pub(super) fn of_cells(pool: Pool, memory: &Arc<PacketMemory>) -> Self {
        Self { pool, memory: Some(Arc::clone(memory)), tenancy: Tenancy::new() }
    }

    /// Over blocks of a ring that no other pool has.
    pub(crate) fn of_blocks(pool: Pool) -> Self {
        Self { pool, memory: None, tenancy: Tenancy::new() }
    }

    /// What reads its cells.
    ///
    /// # Panics
    /// When its chunks are blocks.
    pub fn reader(&self) -> CellReader {
        let memory = self.memory.as_ref().expect("a pool of cells");
        CellReader::new(Arc::clone(memory), self.pool.slots())
    }

    /// As [`Pool::allow_runs`].
    pub fn allow_runs(&mut self, shortest: u32) {
        self.pool.allow_runs(shortest);
    }

    /// As [`Pool::hand_over`].
    pub fn hand_over(&mut self) -> Option<Handover> {
        self.pool.hand_over()
    }

    /// As [`Pool::recycle`].
    ///
    /// # Errors
    /// [`RecycleError`].
    pub fn recycle(&mut self, range: ChunkRange) -> Result<(), RecycleError> {
        self.pool.recycle(range)
    }

    /// Opens the oldest attached run for filling. `None` when none is attached.
    #[inline]
    pub fn filler(&mut self) -> Option<LiveFiller<'_>> {
        let number = self.pool.number();
        Some(LiveFiller { filler: self.pool.filler()?, number })
    }

    /// Takes all cells back from a socket or a writer that was dropped, and is as new: nothing is attached,
    /// no run allowed. Readers made before find nothing any more. After a socket, only a socket of the same
    /// queue can have the cells.
    ///
    /// Returns false, and changes nothing, when some cell may still be filled or read: the socket is open,
    /// its waker or sending half still exists, or ranges are outstanding. Blocks belong to their ring, and
    /// cannot be taken back.
    #[must_use = "it may have been refused"]
    pub fn renew(&mut self) -> bool {
        let is_read = self.memory.is_none() || self.pool.levels().outstanding_cells > 0;
        let Some(tenancy) = self.tenancy.renewed().filter(|_| !is_read) else { return false };
        // The new number sets what is left of the old lease apart from what the next one fills.
        self.pool = Pool::new(self.pool.id(), self.pool.geometry(), self.pool.base());
        self.tenancy = tenancy;
        true
    }

    /// The right to fill its cells; `None` if its cells may still be filled, or it is no pool of this memory.
    pub(crate) fn lease(&self, memory: &Arc<PacketMemory>, tenant: Tenant) -> Option<PoolLease> {
        let own = self.memory.as_ref().is_some_and(|own| Arc::ptr_eq(own, memory));
        if own { self.tenancy.lease(&self.pool, tenant) } else { None }
    }

    /// Where its cells lie, if it has cells.
    pub(crate) fn memory(&self) -> Option<&Arc<PacketMemory>> {
        self.memory.as_ref()
    }

    /// As [`Pool::attach`]: for the holder of the lease.
    pub(crate) fn attach(&mut self, lease: &PoolLease, room: u32, give: impl FnMut(u64)) -> u32 {
        assert!(lease.number() == self.pool.number(), "the pool of another socket or writer");
        self.pool.attach(room, give)
    }

    /// As [`Pool::attach_chunk`]: for the ring whose blocks are its chunks.
    pub(crate) fn attach_block(&mut self, block: u32) -> bool {
        self.pool.attach_chunk(block)
    }

    /// As [`Pool::attach_free_chunk`]: for the stream whose blocks are its chunks.
    pub(crate) fn attach_free_block(&mut self) -> Option<u32> {
        self.pool.attach_free_chunk()
    }
}

/// Takes filled cells into the slots of one run. What it counted is the pool's only after
/// [`LiveFiller::finish`].
#[derive(Debug)]
#[must_use = "the cells count as filled only after finish()"]
pub struct LiveFiller<'p> {
    filler: Filler<'p>,
    number: PoolNumber,
}

impl LiveFiller<'_> {
    /// How many cells can be filled before [`LivePool::hand_over`] must be called.
    #[inline]
    pub fn space(&self) -> u32 {
        self.filler.space()
    }

    /// Takes cells, each with the time of its packet in nanoseconds since 1970 (UTC). Those of another pool,
    /// and those for which there is no space, are counted as foreign and lost.
    #[inline]
    pub fn fill(&mut self, cells: impl Iterator<Item = (FilledCell, u64)>) {
        let number = self.number;
        self.filler.fill_all(cells.map(|(cell, timestamp_ns)| cell.into_descriptor(number, timestamp_ns)));
    }

    /// Takes a block. Returns false, and the block is lost, if it is of another pool or the run has begun.
    pub fn fill_block(&mut self, block: FilledBlock) -> bool {
        block.pool == self.number && self.filler.fill_block(block.packets, block.bytes)
    }

    /// Takes a part of the block that is filled. Returns false, and the part is lost, if it is of another
    /// pool or finds no cell: see [`Filler::fill_part`].
    #[inline]
    pub fn fill_part(&mut self, part: FilledPart) -> bool {
        part.pool == self.number && self.filler.fill_part(part.part)
    }

    /// Tries to take a cell that lies nowhere, as a broken driver reports one: it is counted as foreign.
    pub fn fill_nowhere(&mut self) {
        let nowhere = Descriptor { address: u64::MAX, len: 60, more: false, timestamp_ns: 0 };
        self.filler.fill_all(std::iter::once(nowhere));
    }

    /// As [`Filler::uncertain`].
    #[inline]
    pub fn uncertain(&mut self, uncertainty_ns: u64) {
        self.filler.uncertain(uncertainty_ns);
    }

    /// Makes what was filled known to the pool.
    #[inline]
    pub fn finish(self) {
        self.filler.finish();
    }
}

#[cfg(test)]
mod tests;
