//! How large pools have to be: the smallest that lose nothing of a burst, found by simulation.
//!
//! ```text
//!   Demand ─► packets of each queue ─► the engine with R chunks ─┬─ lost some: a larger R
//!                                                                └─ lost none: a smaller R
//! ```
//!
//! Rule: packets of a burst come at a constant rate, and nothing is in the pools before it. A margin has
//! to cover what the answer leaves out: see [`Demand::with_margin`].
//!
//! Where buddies help, a larger pool may lose what a smaller one does not: they begin later, by T percent of
//! a larger pool. So the R that bisection finds says nothing of those above it; [`Demand::safe_chunks`] tries
//! them.

use wirecap_core::{
    GeometryError, Mode,
    geometry::{MAX_CELLS_PER_POOL, MAX_CHUNKS_PER_POOL},
};

use crate::{
    SECOND_NS,
    engines::wirecap::{Dispatch, WirecapEngine},
    traffic::Traffic,
};

/// The most packets of a burst that are simulated.
pub const MAX_PACKETS: f64 = 2e8;
/// The fewest chunks of a pool: one that is filled while another is handled.
const MIN_CHUNKS: u32 = 4;
/// How busy workers may be that keep up with a rate that lasts. Where they have no time to spare, what waits
/// after each pause and each clump of packets adds up.
const MAX_LOAD: f64 = 0.95;
/// How many numbers of chunks above the one that is recommended are lossless, too.
const SAFE_ABOVE: u32 = 3;

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
    /// Descriptors of the NIC's ring, with the dispatch `push`; `None` if it has one for each cell of the
    /// pool, as with wirecap.
    pub ring: Option<u32>,
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

    /// Whether all workers together keep up with the rate however long it lasts, with a reserve.
    pub fn workers_keep_up(&self) -> bool {
        self.total_pps <= MAX_LOAD * self.capacity_pps()
    }

    /// The least number of workers that keep up with the rate of all queues, with a reserve.
    pub fn least_workers(&self) -> u64 {
        (self.total_pps / (MAX_LOAD * self.pace_pps)).ceil() as u64
    }

    /// Packets of the burst.
    pub fn packets(&self) -> f64 {
        self.total_pps * self.burst_s
    }

    /// The smallest number of chunks of a pool, at most `most`, with which the burst is lossless, with
    /// chunks of this many cells, each of which holds a packet; `None` if a pool needs more. `step` is
    /// called as by [`WirecapEngine::first_loss_ns`].
    ///
    /// # Errors
    /// Chunks cannot have this number of cells, or `step` failed.
    pub fn least_chunks<E: From<GeometryError>>(
        &self,
        cells_per_chunk: u32,
        mode: Mode,
        most: u32,
        step: &mut impl FnMut(u64) -> Result<(), E>,
    ) -> Result<Option<u32>, E> {
        let most = most.min(self.ample_chunks(cells_per_chunk));
        let mut is_enough =
            |chunks| self.first_loss_s(cells_per_chunk, chunks, mode, step).map(|lost_s| lost_s.is_none());
        // From small pools on: one that loses packets is simulated until then only.
        let (mut too_few, mut enough) = (MIN_CHUNKS - 1, MIN_CHUNKS);
        while enough <= most && !is_enough(enough)? {
            too_few = enough;
            enough = enough.saturating_mul(2).min(most.max(enough + 1));
        }
        if enough > most { Ok(None) } else { bisect(too_few, enough, is_enough).map(Some) }
    }

    /// [`Demand::least_chunks`] of any pool that is possible, which adds the packets that it simulated to a
    /// count.
    ///
    /// # Errors
    /// Chunks cannot have this number of cells.
    pub fn least_chunks_counted(
        &self,
        cells_per_chunk: u32,
        mode: Mode,
        simulated: &mut u64,
    ) -> Result<Option<u32>, GeometryError> {
        let mut is_enough = |chunks| {
            let lost_s = self.first_loss_s(cells_per_chunk, chunks, mode, &mut |_| Ok(()))?;
            *simulated += (self.total_pps * lost_s.unwrap_or(self.burst_s)) as u64;
            Ok(lost_s.is_none())
        };
        let most = self.ample_chunks(cells_per_chunk);
        if is_enough(most)? { bisect(MIN_CHUNKS - 1, most, is_enough).map(Some) } else { Ok(None) }
    }

    /// Chunks of a pool that holds all packets of the burst, or of the largest one that is possible.
    fn ample_chunks(&self, cells_per_chunk: u32) -> u32 {
        let all = (self.busiest_pps() * self.burst_s / f64::from(cells_per_chunk)).ceil() + 8.0;
        all.clamp(MIN_CHUNKS.into(), max_chunks(cells_per_chunk).into()) as u32
    }

    /// The first number of chunks from `from` to `most` with which the burst is lossless, as it is with
    /// each of the next few; `None` if no number up to `most` is enough.
    ///
    /// # Errors
    /// See [`Demand::least_chunks`].
    pub fn safe_chunks<E: From<GeometryError>>(
        &self,
        cells_per_chunk: u32,
        mode: Mode,
        (from, most): (u32, u32),
        step: &mut impl FnMut(u64) -> Result<(), E>,
    ) -> Result<Option<u32>, E> {
        let mut first = from;
        let mut chunks = from;
        while chunks <= most && chunks - first <= SAFE_ABOVE {
            if self.first_loss_s(cells_per_chunk, chunks, mode, step)?.is_some() {
                // Of large pools, the next one is not much different.
                first = chunks + 1 + chunks / 32;
                chunks = first;
            } else {
                chunks += 1;
            }
        }
        Ok((first <= most).then_some(first))
    }

    /// When the first packet comes that these pools lose, in seconds; `None` if they lose none of the
    /// burst. So a burst that lasts so long is lossless.
    ///
    /// # Errors
    /// See [`Demand::least_chunks`].
    pub fn first_loss_s<E: From<GeometryError>>(
        &self,
        cells_per_chunk: u32,
        chunks: u32,
        mode: Mode,
        step: &mut impl FnMut(u64) -> Result<(), E>,
    ) -> Result<Option<f64>, E> {
        let engine = WirecapEngine { mode, ..WirecapEngine::basic(cells_per_chunk, chunks, self.pace_pps) };
        let engine = match self.dispatch {
            Dispatch::Pull => engine.pulling(),
            Dispatch::Push => {
                let ring = self.ring.unwrap_or(cells_per_chunk.saturating_mul(chunks));
                WirecapEngine { ring, ..engine }
            }
        };
        Ok(engine.first_loss_ns(&self.traffic(), step)?.map(|lost_ns| lost_ns / SECOND_NS as f64))
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

/// A number of chunks that is enough, while one less is not, between two of which this is known.
fn bisect<E>(
    mut too_few: u32,
    mut enough: u32,
    mut is_enough: impl FnMut(u32) -> Result<bool, E>,
) -> Result<u32, E> {
    while enough - too_few > 1 {
        let middle = too_few + (enough - too_few) / 2;
        if is_enough(middle)? {
            enough = middle;
        } else {
            too_few = middle;
        }
    }
    Ok(enough)
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
        Demand {
            queues: 8,
            total_pps: 4e6,
            skew: 3.0,
            burst_s: 0.1,
            pace_pps: 4e5,
            dispatch: Dispatch::Pull,
            ring: None,
        }
    }

    const DISPATCHES: [Dispatch; 2] = [Dispatch::Pull, Dispatch::Push];

    fn forever(_: u64) -> Result<(), GeometryError> {
        Ok(())
    }

    fn least_chunks(demand: &Demand, mode: Mode) -> Option<u32> {
        demand.least_chunks(M, mode, u32::MAX, &mut forever).unwrap()
    }

    fn first_loss_s(demand: &Demand, chunks: u32, mode: Mode) -> Option<f64> {
        demand.first_loss_s(M, chunks, mode, &mut forever).unwrap()
    }

    #[test]
    fn a_single_queue_needs_what_arithmetic_says() {
        for dispatch in DISPATCHES {
            let one = Demand {
                queues: 1,
                total_pps: 14.88e6,
                skew: 1.0,
                burst_s: 0.02,
                pace_pps: 5e6,
                dispatch,
                ring: None,
            };
            let chunks = least_chunks(&one, Mode::Basic).unwrap();
            let expected = one.chunks_by_arithmetic(M);
            // The chunk that is handled comes back whole. In push, a capture thread sees what came only after
            // a while; in pull, the worker sleeps while the first three come.
            assert!(
                (expected..expected + 8.0).contains(&f64::from(chunks)),
                "{dispatch:?}: {chunks}, {expected}"
            );
            let longest = first_loss_s(&Demand { burst_s: 1.0, ..one }, chunks, Mode::Basic).unwrap();
            assert!((0.02..0.0206).contains(&longest), "{dispatch:?}: {longest}");
        }
    }

    #[test]
    fn buddies_need_less_and_less_than_the_least_loses() {
        for dispatch in DISPATCHES {
            let demand = Demand { dispatch, ..demand() };
            let basic = least_chunks(&demand, Mode::Basic).unwrap();
            let mode = Mode::Advanced { threshold_percent: 60 };
            let advanced = least_chunks(&demand, mode).unwrap();
            assert!(advanced < basic, "{dispatch:?}: {advanced} of {basic}");
            assert!(first_loss_s(&demand, advanced - 1, mode).is_some());
            assert_eq!(first_loss_s(&demand, Demand::with_margin(advanced), mode), None);
        }
    }

    #[test]
    fn traffic_that_workers_keep_up_with_needs_little_and_may_last() {
        for dispatch in DISPATCHES {
            let easy = Demand { total_pps: 1e6, dispatch, ..demand() };
            assert!(least_chunks(&easy, Mode::Basic).unwrap() < 10);
            assert_eq!(first_loss_s(&Demand { burst_s: 10.0, ..easy }, 16, Mode::Basic), None);
        }
    }

    /// In push, too, the NIC has all free chunks, so that nothing is lost while a capture thread does not
    /// look: a ring of 1,024 lasts 6.9 µs at this rate.
    #[test]
    fn the_ring_of_the_nic_has_the_whole_pool() {
        let fast = Demand {
            queues: 1,
            total_pps: 148.8e6,
            skew: 1.0,
            burst_s: 0.001,
            pace_pps: 10e6,
            dispatch: Dispatch::Push,
            ring: None,
        };
        let pull = least_chunks(&Demand { dispatch: Dispatch::Pull, ..fast }, Mode::Basic).unwrap();
        assert!(least_chunks(&fast, Mode::Basic).unwrap().abs_diff(pull) < 16);
        assert_eq!(least_chunks(&Demand { ring: Some(1_024), ..fast }, Mode::Basic), None);
    }

    /// T is a part of the pool, so buddies of a larger one help later: with five chunks too late.
    #[test]
    fn a_larger_pool_may_lose_what_a_smaller_one_does_not() {
        let demand =
            Demand { total_pps: 244_066.0, skew: 5.52, burst_s: 0.03, pace_pps: 44_228.0, ..demand() };
        let mode = Mode::Advanced { threshold_percent: 20 };
        let is_lossless = |chunks| first_loss_s(&demand, chunks, mode).is_none();
        assert!(is_lossless(4) && !is_lossless(5) && is_lossless(6));
        let safe = |range| demand.safe_chunks(M, mode, range, &mut forever).unwrap();
        assert_eq!((safe((4, 100)), safe((5, 100)), safe((4, 5))), (Some(6), Some(6), None));
        assert!((6..=10).all(is_lossless));
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(60))]

        /// What is recommended loses nothing of the burst, nor do pools that are somewhat larger.
        #[test]
        fn what_is_safe_lasts_for_the_burst(
            (queues, skew, cells) in (2..9_u32, 0.0..1.0_f64, 4..9_u32),
            (total_pps, load, burst_s) in (1e5..5e6_f64, 0.5..1.5_f64, 0.001..0.03_f64),
            (threshold_percent, pull) in (10..=90_u8, proptest::bool::ANY),
        ) {
            let demand = Demand {
                queues,
                total_pps,
                skew: 1.0 + skew * f64::from(queues - 1),
                burst_s,
                pace_pps: total_pps / load / f64::from(queues),
                dispatch: if pull { Dispatch::Pull } else { Dispatch::Push },
                ring: None,
            };
            let (cells, mode) = (1 << cells, Mode::Advanced { threshold_percent });
            let least = demand.least_chunks(cells, mode, u32::MAX, &mut forever).unwrap().unwrap();
            let range = (Demand::with_margin(least), u32::MAX);
            let safe = demand.safe_chunks(cells, mode, range, &mut forever).unwrap().unwrap();
            for chunks in safe..=safe + SAFE_ABOVE {
                proptest::prop_assert_eq!(
                    demand.first_loss_s(cells, chunks, mode, &mut forever).unwrap(), None
                );
            }
            // Of a burst that is longer, nothing is lost that comes in the time of the given one.
            let longer = Demand { burst_s: 4.0 * burst_s, ..demand };
            let lasts_s = longer.first_loss_s(cells, safe, mode, &mut forever).unwrap();
            proptest::prop_assert!(lasts_s.is_none_or(|lasts_s| lasts_s >= burst_s), "{:?}", lasts_s);
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
    fn workers_that_are_always_busy_do_not_keep_up() {
        let load = |load| Demand { total_pps: load * 3.2e6, ..demand() };
        assert!(load(0.94).workers_keep_up() && !load(0.96).workers_keep_up());
        assert_eq!([0.94, 1.0, 2.0].map(|part| load(part).least_workers()), [8, 9, 17]);
    }

    #[test]
    fn what_no_pool_holds_is_no_answer() {
        let endless =
            Demand { burst_s: 10.0, total_pps: 5e5, queues: 1, skew: 1.0, pace_pps: 1.0, ..demand() };
        // Five million packets, and a pool has at most four million cells.
        assert_eq!(least_chunks(&endless, Mode::Basic), None);
        let three_cells = demand().least_chunks(3, Mode::Basic, u32::MAX, &mut forever);
        assert!(three_cells.is_err(), "no power of two");
    }
}
