//! How full a pool is: what an operator alarms on.
//!
//! ```text
//!   cells of a pool:   with the kernel, empty │ with the kernel, filled │ in the pool, filled │ with workers │ home, but kept by
//!                      ◄──── available ─────► ◄──────────────────────── used ────────────────────────────►  others of their chunk
//! ```
//!
//! Rule: 0 % when nothing is on its way, 100 % exactly when the kernel has no cell for the next packet. So it
//! rises before the first loss, wherever packets wait: also in a ring that no thread looks at.
//!
//! Blocks that a program packs count by cells, too. The rest of a block that the program has left, since the
//! next packet did not fit, counts as used while packets wait. At 100 % no block has room for a packet of up
//! to about 1,900 bytes. A longer one may be lost earlier, by as much as the rest of the last block is of the
//! pool.
//!
//! The chunk that is being filled may have cells that are home already. They can take no packet before the
//! rest of the chunk is filled, and are no sign of trouble: they count neither as used nor as part of the
//! pool.

use wirecap_core::PoolLevels;

use super::wait::Rest;

/// How much of a pool is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Gauge {
    used_cells: u32,
    /// INVARIANT: at least `used_cells`.
    of_cells: u32,
}

impl Gauge {
    /// For a pool of which the kernel can have `ring_cells` at once. Of the cells that the pool counts as
    /// attached, `unreceived` are filled. `free_cells` are those of free chunks if the kernel needs no more
    /// cells, else 0.
    pub(crate) fn new(levels: PoolLevels, ring_cells: u32, unreceived: u32, free_cells: u32) -> Self {
        let empty_cells = levels.attached_cells.saturating_sub(unreceived) + free_cells;
        let of_cells = ring_cells.saturating_sub(levels.resting_cells);
        // The receive ring is as long as the fill ring.
        let available = empty_cells.min(ring_cells.saturating_sub(unreceived)).min(of_cells);
        Self { used_cells: of_cells - available, of_cells }
    }

    /// In percent.
    pub(crate) fn percent(self) -> f64 {
        if self.of_cells == 0 { 0.0 } else { 100.0 * f64::from(self.used_cells) / f64::from(self.of_cells) }
    }

    /// Whether the thread that looks after the pool may leave it alone until a packet comes: the kernel has
    /// all cells, or at least three quarters of them.
    pub(crate) fn rest(self) -> Option<Rest> {
        match self.used_cells {
            0 => Some(Rest::Long),
            used => (used <= self.of_cells / 4).then_some(Rest::Short),
        }
    }

    /// The fuller of two.
    pub(crate) fn max(self, other: Self) -> Self {
        let share = |a: Self, b: Self| u64::from(a.used_cells) * u64::from(b.of_cells);
        if share(other, self) > share(self, other) || self.of_cells == 0 { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirecap_core::{Descriptor, Geometry, Handover, Pool, PoolId};

    const M: u32 = 8;

    /// A pool, and a kernel that fills its cells in order.
    struct Bench {
        pool: Pool,
        ring: std::collections::VecDeque<u64>,
        ring_cells: u32,
        unreceived: u32,
        held: Vec<Handover>,
    }

    impl Bench {
        fn new(chunks: u32, ring_cells: u32) -> Self {
            let geometry = Geometry::new(M, chunks, 2048).unwrap();
            let pool = Pool::new(PoolId { nic_id: 0, ring_id: 0 }, geometry, 0);
            let mut bench =
                Self { pool, ring: Default::default(), ring_cells, unreceived: 0, held: Vec::new() };
            bench.attach();
            bench
        }

        fn attach(&mut self) {
            let room = self.ring_cells - self.ring.len() as u32;
            self.pool.attach(room, |cell| self.ring.push_back(cell));
        }

        /// Packets arrive unseen. Returns whether there was a cell for each.
        fn arrive(&mut self, packets: u32) -> bool {
            let empty = self.pool.levels().attached_cells - self.unreceived;
            let room = empty.min(self.ring_cells - self.unreceived);
            self.unreceived += packets.min(room);
            packets <= room
        }

        /// A worker takes and keeps at most `max` of the waiting packets.
        fn take(&mut self, max: u32) {
            let count = self.unreceived.min(max).min(self.pool.space());
            let mut filler = self.pool.filler().unwrap();
            let cells = self.ring.drain(..count as usize);
            let cell = |address| Descriptor { address, len: 60, more: false, timestamp_ns: 0 };
            filler.fill_all(cells.map(cell));
            filler.finish();
            self.unreceived -= count;
            self.held.extend(self.pool.hand_over());
        }

        fn give_back(&mut self) {
            for range in self.held.drain(..).flat_map(Handover::into_ranges) {
                self.pool.recycle(range).unwrap();
            }
        }

        fn percent(&self) -> f64 {
            Gauge::new(self.pool.levels(), self.ring_cells, self.unreceived, 0).percent()
        }
    }

    #[test]
    fn the_gauge_rises_with_waiting_packets_and_is_full_just_before_the_first_loss() {
        // The last ring is shorter than the pool.
        for (chunks, ring_cells) in [(1, M), (2, 2 * M), (4, 4 * M), (50, 50 * M), (8, 2 * M)] {
            for at_rest in 0..M {
                let mut bench = Bench::new(chunks, ring_cells);
                if at_rest > 0 {
                    bench.arrive(at_rest);
                    bench.take(at_rest);
                    assert!(bench.percent() > 0.0, "a worker has {at_rest} of {chunks} chunks");
                    bench.give_back();
                    bench.attach();
                }
                assert_eq!(bench.percent(), 0.0, "all {at_rest} are home");
                let mut before = 0.0;
                while bench.percent() < 100.0 {
                    assert!(bench.arrive(1), "a loss at {before} % of {chunks} chunks");
                    assert!(bench.percent() > before);
                    before = bench.percent();
                }
                assert!(!bench.arrive(1), "100 % comes no earlier than necessary");
            }
        }
    }

    #[test]
    fn a_chunk_kept_by_one_packet_counts_as_used_as_a_whole() {
        let mut bench = Bench::new(4, 4 * M);
        bench.arrive(M);
        bench.take(1);
        let kept = bench.held.pop().unwrap();
        bench.take(M);
        bench.give_back();
        assert_eq!((bench.pool.levels().outstanding_cells, bench.percent()), (1, 25.0));
        bench.held.push(kept);
        bench.give_back();
        bench.attach();
        assert_eq!(bench.percent(), 0.0);
    }

    #[test]
    fn chunks_that_the_kernel_no_longer_needs_do_not_count_as_used() {
        let mut bench = Bench::new(4, 4 * M);
        bench.arrive(M);
        bench.take(M);
        bench.give_back();
        let levels = bench.pool.levels();
        assert_eq!(Gauge::new(levels, 4 * M, 0, 0).percent(), 25.0, "the chunk is missing in the ring");
        assert_eq!(
            Gauge::new(levels, 4 * M, 0, levels.free_chunks * M).percent(),
            0.0,
            "the capture has ended"
        );
    }

    #[test]
    fn a_pool_may_be_left_alone_while_the_kernel_has_three_quarters_of_it() {
        let gauge = |used_cells| Gauge { used_cells, of_cells: 1000 };
        assert_eq!(gauge(0).rest(), Some(Rest::Long));
        assert_eq!([gauge(1).rest(), gauge(250).rest()], [Some(Rest::Short); 2]);
        assert_eq!([gauge(251).rest(), gauge(1000).rest()], [None; 2]);
    }

    #[test]
    fn the_fuller_gauge_is_the_one_with_the_greater_share() {
        let gauge = |used_cells, of_cells| Gauge { used_cells, of_cells };
        assert_eq!(Gauge::default().max(gauge(0, 8)), gauge(0, 8));
        assert_eq!(gauge(1, 8).max(gauge(2, 17)), gauge(1, 8));
        assert_eq!(gauge(1, 8).max(gauge(3, 17)), gauge(3, 17));
        assert_eq!(Gauge::default().percent(), 0.0);
    }
}
