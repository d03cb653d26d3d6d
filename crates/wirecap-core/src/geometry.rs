//! How large things are: M cells per chunk, R chunks per pool, the size of a cell, the threshold T.
//!
//! ```text
//!   pool of a receive queue = R chunks × M cells × cell bytes
//!   ┌──── chunk 0 ────┬──── chunk 1 ────┬── … ──┬─── chunk R-1 ───┐
//!   │ cell 0 … cell M-1│ …              │       │                 │
//!   └─────────────────┴─────────────────┴───────┴─────────────────┘
//! ```
//!
//! Rule: a [`Geometry`] that exists is valid. All checks happen in [`Geometry::new`].

use thiserror::Error;

/// Most cells a chunk may have: the range of cells of a [`crate::ChunkRange`] has to fit one word.
pub const MAX_CELLS_PER_CHUNK: u32 = 1 << 14;
/// Most chunks a pool may have, for the same reason.
pub const MAX_CHUNKS_PER_POOL: u32 = 1 << 18;
/// Most cells a pool may have: the kernel's rings are a power of two of at most this many entries
/// here (64 MiB of ring for the receive side).
pub const MAX_CELLS_PER_POOL: u64 = 1 << 22;
/// Sizes that a cell may have, in bytes: those that the kernel allows with pages of 4 KiB.
const CELL_BYTES: [u32; 2] = [2048, MAX_CELL_BYTES];
/// The largest of them.
pub(crate) const MAX_CELL_BYTES: u32 = 4096;
/// Smallest chunk, and shortest run of one, that may hold packets of several cells: with this many cells in
/// each the longest frame lies in two of them at most. No interface has an MTU over 65,535 bytes; with an
/// Ethernet header and two VLAN tags that makes 65,557 bytes, or 37 cells of 2 KiB, of which the kernel
/// leaves 256 bytes free in each.
pub const MIN_CELLS_PER_CHUNK_MULTI_BUFFER: u32 = 64;
const _: () = assert!((65_535 + 14 + 2 * 4_u32).div_ceil(2048 - 256) <= MIN_CELLS_PER_CHUNK_MULTI_BUFFER);

/// The sizes of one pool. Every pool of an engine has the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    cells_per_chunk: u32,
    chunks_per_pool: u32,
    cell_bytes: u32,
}

/// Why M, R, the cell size or T cannot be used.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GeometryError {
    /// M is not a power of two.
    #[error(
        "M (cells per chunk) is {given}, but must be a power of two from 1 to {MAX_CELLS_PER_CHUNK}; try {hint}"
    )]
    CellsPerChunk {
        /// What was asked for.
        given: u32,
        /// The nearest value that works.
        hint: u32,
    },
    /// R is zero or too large.
    #[error("R (chunks per pool) is {given}, but must be from 1 to {MAX_CHUNKS_PER_POOL}")]
    ChunksPerPool {
        /// What was asked for.
        given: u32,
    },
    /// R × M is beyond what a kernel ring can index here.
    #[error("R x M is {given} cells per pool, but a pool holds at most {MAX_CELLS_PER_POOL}")]
    CellsPerPool {
        /// R × M.
        given: u64,
    },
    /// AF_XDP does not take the cell size in aligned mode.
    #[error("a cell of {given} bytes cannot be used; AF_XDP takes 2048 or 4096")]
    CellBytes {
        /// What was asked for, in bytes.
        given: u32,
    },
    /// The ring is no power of two, smaller than a chunk, or larger than the pool.
    #[error(
        "a ring of {ring} entries cannot be used: it must be a power of two from M = {min} to {max}, which holds the whole \
         pool; leave it out to get that"
    )]
    Ring {
        /// Entries asked for.
        ring: u32,
        /// Fewest entries: one whole chunk.
        min: u32,
        /// Most entries: the whole pool.
        max: u32,
    },
    /// T is not a percentage.
    #[error("T (offloading threshold) is {given}, but it is a percentage of the pool: 0 to 100")]
    Threshold {
        /// What was asked for.
        given: u32,
    },
}

impl Geometry {
    /// Checks the sizes of a pool.
    ///
    /// # Errors
    /// One variant of [`GeometryError`] for each rule that does not hold.
    ///
    /// ```
    /// use wirecap_core::Geometry;
    /// let geometry = Geometry::new(256, 500, 2048)?;           // WireCAP-B-(256, 500) of the paper
    /// assert_eq!(geometry.cells_per_pool(), 128_000);
    /// assert!(Geometry::new(100, 500, 2048).is_err());
    /// # Ok::<(), wirecap_core::GeometryError>(())
    /// ```
    pub fn new(cells_per_chunk: u32, chunks_per_pool: u32, cell_bytes: u32) -> Result<Self, GeometryError> {
        if !cells_per_chunk.is_power_of_two() || cells_per_chunk > MAX_CELLS_PER_CHUNK {
            let hint = cells_per_chunk.clamp(1, MAX_CELLS_PER_CHUNK).next_power_of_two();
            return Err(GeometryError::CellsPerChunk { given: cells_per_chunk, hint });
        }
        if chunks_per_pool == 0 || chunks_per_pool > MAX_CHUNKS_PER_POOL {
            return Err(GeometryError::ChunksPerPool { given: chunks_per_pool });
        }
        let cells = u64::from(cells_per_chunk) * u64::from(chunks_per_pool);
        if cells > MAX_CELLS_PER_POOL {
            return Err(GeometryError::CellsPerPool { given: cells });
        }
        if !CELL_BYTES.contains(&cell_bytes) {
            return Err(GeometryError::CellBytes { given: cell_bytes });
        }
        Ok(Self { cells_per_chunk, chunks_per_pool, cell_bytes })
    }

    /// The most chunks that a pool with these chunks can have.
    ///
    /// ```
    /// # use wirecap_core::Geometry;
    /// let max = Geometry::new(16384, 1, 2048)?.max_chunks();
    /// assert!(Geometry::new(16384, max, 2048).is_ok() && Geometry::new(16384, max + 1, 2048).is_err());
    /// # Ok::<(), wirecap_core::GeometryError>(())
    /// ```
    pub fn max_chunks(&self) -> u32 {
        let by_cells = MAX_CELLS_PER_POOL / u64::from(self.cells_per_chunk);
        MAX_CHUNKS_PER_POOL.min(by_cells as u32)
    }

    /// Bytes of a chunk. Where the kernel packs packets into it, it is a block.
    pub fn chunk_bytes(&self) -> u32 {
        self.cells_per_chunk * self.cell_bytes
    }

    /// M: cells per chunk, a power of two.
    pub fn cells_per_chunk(&self) -> u32 {
        self.cells_per_chunk
    }

    /// R: chunks per pool.
    pub fn chunks_per_pool(&self) -> u32 {
        self.chunks_per_pool
    }

    /// Size of a cell in bytes, a power of two.
    pub fn cell_bytes(&self) -> u32 {
        self.cell_bytes
    }

    /// R × M, the packets a pool can hold.
    pub fn cells_per_pool(&self) -> u32 {
        self.cells_per_chunk * self.chunks_per_pool
    }

    /// Bytes of packet memory of one pool.
    pub fn pool_bytes(&self) -> u64 {
        u64::from(self.cells_per_pool()) * u64::from(self.cell_bytes)
    }

    /// Entries of a kernel ring that can hold every cell of the pool at once.
    pub fn ring_entries(&self) -> u32 {
        self.cells_per_pool().next_power_of_two()
    }

    /// Checks the size of the kernel's rings: a power of two that holds one whole chunk at least and the
    /// whole pool at most.
    ///
    /// # Errors
    /// [`GeometryError::Ring`].
    pub fn check_ring(&self, ring: u32) -> Result<u32, GeometryError> {
        let (min, max) = (self.cells_per_chunk, self.ring_entries());
        if !ring.is_power_of_two() || !(min..=max).contains(&ring) {
            return Err(GeometryError::Ring { ring, min, max });
        }
        Ok(ring)
    }

    /// The largest burst, in packets, that is captured without loss when packets arrive at
    /// `arrival_pps` and leave at `departure_pps` (both packets per second): the formula of the
    /// paper's section 3.2.2, P_m · R · M / (P_m − P_p). `None` when the worker keeps up, so that
    /// no burst is too large.
    pub fn largest_burst(&self, arrival_pps: f64, departure_pps: f64) -> Option<f64> {
        (arrival_pps > departure_pps)
            .then(|| arrival_pps * f64::from(self.cells_per_pool()) / (arrival_pps - departure_pps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;

    #[test]
    fn sizes_that_cannot_work_are_refused_with_a_hint() {
        assert_eq!(Geometry::new(100, 8, 2048), Err(GeometryError::CellsPerChunk { given: 100, hint: 128 }));
        assert_eq!(Geometry::new(0, 8, 2048), Err(GeometryError::CellsPerChunk { given: 0, hint: 1 }));
        assert_eq!(
            Geometry::new(1 << 20, 8, 2048),
            Err(GeometryError::CellsPerChunk { given: 1 << 20, hint: MAX_CELLS_PER_CHUNK })
        );
        assert_eq!(Geometry::new(64, 0, 2048), Err(GeometryError::ChunksPerPool { given: 0 }));
        assert_eq!(
            Geometry::new(1 << 14, 1 << 10, 2048),
            Err(GeometryError::CellsPerPool { given: 1 << 24 })
        );
        assert_eq!(Geometry::new(64, 8, 3000), Err(GeometryError::CellBytes { given: 3000 }));
        let geometry = Geometry::new(64, 3, 2048).unwrap();
        for ring in [0, 32, 100, 512, 1 << 30] {
            assert_eq!(geometry.check_ring(ring), Err(GeometryError::Ring { ring, min: 64, max: 256 }));
        }
        assert_eq!(geometry.check_ring(64), Ok(64));
        assert_eq!(Mode::advanced(101), Err(GeometryError::Threshold { given: 101 }));
        assert_eq!(Mode::advanced(1000), Err(GeometryError::Threshold { given: 1000 }));
        assert_eq!(Mode::advanced(100), Ok(Mode::Advanced { threshold_percent: 100 }));
    }

    #[test]
    fn the_largest_sizes_are_taken_and_none_beyond_them() {
        for (cells, most) in [(1, MAX_CHUNKS_PER_POOL), (32, 1 << 17), (MAX_CELLS_PER_CHUNK, 1 << 8)] {
            let largest = Geometry::new(cells, most, 4096).unwrap();
            assert_eq!(largest.max_chunks(), most);
            assert_eq!(largest.check_ring(largest.cells_per_pool()), Ok(cells * most));
            assert!(Geometry::new(cells, most + 1, 4096).is_err(), "{cells}");
        }
        let given = 2 * MAX_CELLS_PER_CHUNK;
        let error = GeometryError::CellsPerChunk { given, hint: MAX_CELLS_PER_CHUNK };
        assert_eq!(Geometry::new(given, 1, 2048), Err(error));
    }

    #[test]
    fn sizes_follow_from_cells_and_chunks() {
        let geometry = Geometry::new(64, 3, 4096).unwrap();
        assert_eq!((geometry.cells_per_chunk(), geometry.chunks_per_pool()), (64, 3));
        assert_eq!(geometry.cell_bytes(), 4096);
        assert_eq!(geometry.chunk_bytes(), 64 * 4096);
        assert_eq!(geometry.cells_per_pool(), 192);
        assert_eq!(geometry.pool_bytes(), 192 * 4096);
    }

    #[test]
    fn the_paper_s_largest_burst() {
        let geometry = Geometry::new(256, 100, 2048).unwrap();
        let burst = geometry.largest_burst(14_880_000.0, 38_844.0).unwrap();
        assert!((burst - 25_667.0).abs() < 1.0, "{burst}");
        assert_eq!(geometry.largest_burst(10.0, 10.0), None);
    }
}
