//! Filled cells and blocks on their way into their pool.
//!
//! ```text
//!   rx ring, or a CellWriter ──► FilledCell ──┬── LiveFiller::fill() ──► the pool: captured
//!                                             └── Socket::give_back() ──► fill ring: as if it had never been filled
//!   ring of blocks ──► FilledBlock ── LiveFiller::fill_block() ──► the pool
//!   stream ──► FilledPart ── LiveFiller::fill_part() ──► the pool
//! ```
//!
//! Rule: these are tokens. The ring or writer that has the lease of a pool makes each once, and going either
//! way consumes it. A token bears the number of its pool, and no other pool takes it.

use wirecap_core::{Descriptor, PackedPart, PoolNumber};

/// A filled cell that is neither the kernel's nor its pool's. Forgetting one loses the cell until the port is
/// closed, and nothing else.
///
/// There is one for each time that a cell was filled:
///
/// ```compile_fail,E0382
/// # use wirecap_sys::memory::{FilledCell, LivePool};
/// fn fill_twice(pool: &mut LivePool, cell: FilledCell) {
///     let mut filler = pool.filler().unwrap();
///     filler.fill([(cell, 1), (cell, 2)].into_iter());
/// }
/// ```
///
/// And no other crate can make one:
///
/// ```compile_fail,E0451
/// wirecap_sys::memory::FilledCell { address: 256, len: 60, tag: 0 };
/// ```
#[derive(Debug)]
#[must_use = "the cell is lost until it is put into its pool or given back"]
pub struct FilledCell {
    address: u64,
    len: u32,
    /// The number of the pool, and whether the packet goes on in the next one in the lowest bit.
    tag: u32,
}

impl FilledCell {
    /// A cell that the caller, or the kernel on its behalf, had the right to fill, and has filled.
    #[inline]
    pub(crate) fn new(pool: PoolNumber, address: u64, len: u32, more: bool) -> Self {
        Self { address, len, tag: (pool.get() << 1) | u32::from(more) }
    }

    /// Where the bytes start, in bytes from the start of the packet memory, as the driver says.
    #[inline]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Bytes of this part of the packet, as the driver says.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the packet goes on in the next one.
    #[inline]
    pub fn more(&self) -> bool {
        self.tag & 1 != 0
    }

    /// Its address if it is a cell of `pool`, else an address that no pool has. Without a branch.
    #[inline]
    pub(crate) fn address_in(&self, pool: PoolNumber) -> u64 {
        let foreign = self.tag >> 1 != pool.get();
        self.address | u64::from(foreign).wrapping_neg()
    }

    /// For `pool`, which counts it as foreign if it is another's.
    #[inline]
    pub(super) fn into_descriptor(self, pool: PoolNumber, timestamp_ns: u64) -> Descriptor {
        Descriptor { address: self.address_in(pool), len: self.len, more: self.more(), timestamp_ns }
    }
}

/// A block that the kernel has packed with packets and handed over.
#[derive(Debug)]
#[must_use = "the block is lost until it is put into its pool"]
pub struct FilledBlock {
    pub(super) pool: PoolNumber,
    pub(super) packets: u32,
    pub(super) bytes: u32,
}

impl FilledBlock {
    /// The next block of the ring whose chunks are those of `pool`.
    pub(crate) fn new(pool: PoolNumber, packets: u32, bytes: u32) -> Self {
        Self { pool, packets, bytes }
    }
}

/// A part of a block that an XDP program has packed with packets.
#[derive(Debug)]
#[must_use = "its packets are lost until it is put into its pool"]
pub struct FilledPart {
    pub(super) pool: PoolNumber,
    pub(super) part: PackedPart,
}

impl FilledPart {
    /// The next part of the stream that `pool` was made for.
    pub(crate) fn new(pool: PoolNumber, part: PackedPart) -> Self {
        Self { pool, part }
    }
}

const _: () = assert!(size_of::<FilledCell>() == 16);
