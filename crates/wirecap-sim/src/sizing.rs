//! How large pools have to be: the smallest that lose nothing of a burst, found by simulation.
//!
//! ```text
//!   Demand ─► packets of each queue ─► the engine with R chunks ─┬─ lost some: a larger R
//!                                                                └─ lost none: a smaller R
//! ```
//!
//! Rule: packets of a burst come at a constant rate, and nothing is in the pools before it. A margin has
//! to cover what the answer leaves out: see [`Demand::with_margin`].

use wirecap_core::{
    Geometry, GeometryError, Mode,
    geometry::{MAX_CELLS_PER_POOL, MAX_CHUNKS_PER_POOL},
};

use crate::{
    CELL_BYTES,
    engines::wirecap::{Dispatch, WirecapEngine},
    traffic::Traffic,
};

/// The most packets of a burst that are simulated.
pub const MAX_PACKETS: f64 = 2e8;
/// The fewest chunks of a pool: one that is filled while another is handled.
const MIN_CHUNKS: u32 = 4;

/// Traffic, and what handles it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    /// Receive queues, each of which has a worker.
    pub queues: u32,
    /// Packets per second of all queues together.
    pub total_pps: f64,
    /// How many times the mean the busiest queue gets: from 1 (all alike) to the number of queues (all
    /// packets in one). The others share the rest.
    pub skew: f64,
    /// How long the packets come, in seconds.
    pub burst_s: f64,
    /// Packets per second that a worker handles.
    pub pace_pps: f64,
    /// Whether workers or capture threads take packets out of the rings.
    pub dispatch: Dispatch,
}

impl Demand {
    /// Packets per second of the busiest queue.
    pub fn busiest_pps(&self) -> f64 {
        self.total_pps * self.skew / f64::from(self.queues)
    }

    /// Packets per second that all workers handle together.
    pub fn capacity_pps(&self) -> f64 {
        self.pace_pps * f64::from(self.queues)
    }

    /// Packets of the burst.
    pub fn packets(&self) -> f64 {
        self.total_pps * self.burst_s
    }

    /// The smallest number of chunks of a pool with which the burst is lossless, with chunks of this many
    /// cells, each of which holds a packet; `None` if a pool cannot have that many.
    ///
    /// # Errors
    /// Chunks cannot have this number of cells.
    pub fn least_chunks(&self, cells_per_chunk: u32, mode: Mode) -> Result<Option<u32>, GeometryError> {
        self.least_chunks_counted(cells_per_chunk, mode, &mut 0)
    }

    /// [`Demand::least_chunks`], which adds the packets that it simulated to a count.
    ///
    /// # Errors
    /// See [`Demand::least_chunks`].
    pub fn least_chunks_counted(
        &self,
        cells_per_chunk: u32,
        mode: Mode,
        simulated: &mut u64,
    ) -> Result<Option<u32>, GeometryError> {
        let traffic = self.traffic();
        let mut is_enough = |chunks| {
            *simulated += traffic.packets();
            self.is_lossless(cells_per_chunk, chunks, mode)
        };
        // Pools that hold all packets are enough.
        let all = (self.busiest_pps() * self.burst_s / f64::from(cells_per_chunk)).ceil() + 8.0;
        let most = all.clamp(MIN_CHUNKS.into(), max_chunks(cells_per_chunk).into()) as u32;
        if !is_enough(most)? {
            return Ok(None);
        }
        let (mut too_few, mut enough) = (MIN_CHUNKS - 1, most);
        while enough - too_few > 1 {
            let middle = too_few + (enough - too_few) / 2;
            if is_enough(middle)? {
                enough = middle;
            } else {
                too_few = middle;
            }
        }
        Ok(Some(enough))
    }

    /// How long a burst like this one may last without loss, in seconds, with these pools; `None` if one of
    /// `longest_s` is lossless as well.
    ///
    /// # Errors
    /// See [`Demand::least_chunks`].
    pub fn longest_burst_s(
        &self,
        cells_per_chunk: u32,
        chunks: u32,
        mode: Mode,
        longest_s: f64,
    ) -> Result<Option<f64>, GeometryError> {
        let is_lossless = |burst_s| Self { burst_s, ..*self }.is_lossless(cells_per_chunk, chunks, mode);
        if is_lossless(longest_s)? {
            return Ok(None);
        }
        let (mut fits, mut too_long) = (0.0, longest_s);
        // To one part in a thousand.
        for _ in 0..64 {
            if too_long - fits <= too_long * 1e-3 {
                break;
            }
            let middle = (fits + too_long) / 2.0;
            if is_lossless(middle)? {
                fits = middle;
            } else {
                too_long = middle;
            }
        }
        Ok(Some(fits))
    }

    /// Whether pools of this size lose nothing.
    fn is_lossless(&self, cells_per_chunk: u32, chunks: u32, mode: Mode) -> Result<bool, GeometryError> {
        // Refuses what the engine would refuse.
        Geometry::new(cells_per_chunk, chunks, CELL_BYTES)?;
        let engine = WirecapEngine { mode, ..WirecapEngine::basic(cells_per_chunk, chunks, self.pace_pps) };
        let engine = match self.dispatch {
            Dispatch::Pull => engine.pulling(),
            Dispatch::Push => engine,
        };
        Ok(engine.run(&self.traffic())?.total().lost() == 0)
    }

    /// Packets per second of each other queue.
    fn others_pps(&self) -> f64 {
        (self.total_pps - self.busiest_pps()).max(0.0) / f64::from(self.queues.max(2) - 1)
    }

    /// The traffic of the busiest queue and of some others: the demand on a buddy group of this size.
    pub fn group(&self, size: u32) -> Self {
        let size = size.clamp(1, self.queues.max(1));
        let total_pps = self.busiest_pps() + f64::from(size - 1) * self.others_pps();
        let skew = self.busiest_pps() * f64::from(size) / total_pps;
        Self { queues: size, total_pps, skew, ..*self }
    }

    /// The smallest buddy group of the busiest queue whose workers keep up with its packets however long they
    /// come; `None` if all workers together do not.
    pub fn least_group(&self) -> Option<u32> {
        (1..=self.queues).find(|&size| self.group(size).total_pps <= self.group(size).capacity_pps())
    }

    /// The packets.
    pub fn traffic(&self) -> Traffic {
        let (busiest, others) = (self.busiest_pps(), self.others_pps());
        let rates: Vec<_> = (0..self.queues).map(|queue| if queue == 0 { busiest } else { others }).collect();
        Traffic::steady(&rates, self.burst_s)
    }

    /// This many chunks plus a quarter, for what the simulation leaves out: packets that come in clumps, and
    /// workers whose cores do something else now and then.
    pub fn with_margin(chunks: u32) -> u32 {
        chunks.saturating_add(chunks.div_ceil(4))
    }

    /// The chunks that a closed form gives for a single queue: what comes during the burst, less what is
    /// handled in that time (section 3.2.2 of the paper).
    pub fn chunks_by_arithmetic(&self, cells_per_chunk: u32) -> f64 {
        let excess_pps = (self.busiest_pps() - self.pace_pps).max(0.0);
        excess_pps * self.burst_s / f64::from(cells_per_chunk)
    }
}

/// The most chunks that a pool can have.
pub fn max_chunks(cells_per_chunk: u32) -> u32 {
    let of_cells = MAX_CELLS_PER_POOL / u64::from(cells_per_chunk.max(1));
    of_cells.min(MAX_CHUNKS_PER_POOL.into()) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: u32 = 256;

    fn demand() -> Demand {
        Demand { queues: 8, total_pps: 4e6, skew: 3.0, burst_s: 0.1, pace_pps: 4e5, dispatch: Dispatch::Pull }
    }

    const DISPATCHES: [Dispatch; 2] = [Dispatch::Pull, Dispatch::Push];

    #[test]
    fn a_single_queue_needs_what_arithmetic_says() {
        for dispatch in DISPATCHES {
            let one =
                Demand { queues: 1, total_pps: 14.88e6, skew: 1.0, burst_s: 0.02, pace_pps: 5e6, dispatch };
            let chunks = one.least_chunks(M, Mode::Basic).unwrap().unwrap();
            let expected = one.chunks_by_arithmetic(M);
            // The chunk that is handled comes back whole. In push, the NIC has up to four in its ring; in
            // pull, the worker sleeps while the first three come.
            assert!(
                (expected..expected + 8.0).contains(&f64::from(chunks)),
                "{dispatch:?}: {chunks}, {expected}"
            );
            let longest = one.longest_burst_s(M, chunks, Mode::Basic, 1.0).unwrap().unwrap();
            assert!((0.0199..0.0206).contains(&longest), "{dispatch:?}: {longest}");
        }
    }

    #[test]
    fn buddies_need_less_and_less_than_the_least_loses() {
        for dispatch in DISPATCHES {
            let demand = Demand { dispatch, ..demand() };
            let basic = demand.least_chunks(M, Mode::Basic).unwrap().unwrap();
            let mode = Mode::Advanced { threshold_percent: 60 };
            let advanced = demand.least_chunks(M, mode).unwrap().unwrap();
            assert!(advanced < basic, "{dispatch:?}: {advanced} of {basic}");
            assert!(!demand.is_lossless(M, advanced - 1, mode).unwrap());
            assert!(demand.is_lossless(M, Demand::with_margin(advanced), mode).unwrap());
        }
    }

    #[test]
    fn traffic_that_workers_keep_up_with_needs_little_and_may_last() {
        for dispatch in DISPATCHES {
            let easy = Demand { total_pps: 1e6, dispatch, ..demand() };
            assert!(easy.least_chunks(M, Mode::Basic).unwrap().unwrap() < 10);
            assert_eq!(easy.longest_burst_s(M, 16, Mode::Basic, 10.0).unwrap(), None);
        }
    }

    #[test]
    fn all_packets_are_in_one_queue_with_the_largest_skew() {
        let one = Demand { skew: 8.0, ..demand() };
        let packets: Vec<_> =
            one.traffic().queues.iter().map(|runs| runs.iter().map(|run| run.packets).sum::<u64>()).collect();
        assert_eq!((packets[0], packets[1..].iter().sum::<u64>()), (400_000, 0));
        let sums: u64 = demand().traffic().queues.iter().flatten().map(|run| run.packets).sum();
        assert!((399_990..=400_010).contains(&sums), "{sums}");
    }

    #[test]
    fn a_group_has_the_busiest_queue_and_its_buddies_the_rest() {
        let demand = demand();
        let pair = demand.group(2);
        assert!((pair.busiest_pps() - 1.5e6).abs() < 1.0 && (pair.others_pps() - 2.5e6 / 7.0).abs() < 1.0);
        assert!((demand.group(8).total_pps - demand.total_pps).abs() < 1.0);
        // 1.5 million packets/s, and 357,143 for each other queue: each buddy has 42,857 to spare.
        assert_eq!(demand.least_group(), None);
        let faster = Demand { pace_pps: 6e5, ..demand };
        // 900,000 too many, and 242,857 to spare in each buddy: four of them.
        assert_eq!(faster.least_group(), Some(5));
        assert_eq!(Demand { pace_pps: 2e6, ..demand }.least_group(), Some(1));
    }

    #[test]
    fn what_no_pool_holds_is_no_answer() {
        let endless =
            Demand { burst_s: 10.0, total_pps: 5e5, queues: 1, skew: 1.0, pace_pps: 1.0, ..demand() };
        // Five million packets, and a pool has at most four million cells.
        assert_eq!(endless.least_chunks(M, Mode::Basic).unwrap(), None);
        assert!(demand().least_chunks(3, Mode::Basic).is_err(), "no power of two");
    }
}
