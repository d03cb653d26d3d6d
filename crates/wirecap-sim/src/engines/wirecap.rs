//! wirecap: its engine core, unchanged, with a NIC, capture threads and workers around it.
//!
//! ```text
//!   arrivals ─► fill ring of the NIC ─► Pool ─► Dispatcher ─► capture queue ─► worker of a fixed pace ─► Pool
//!               at most `ring` cells    └── wirecap-core ──┴────────────────┘                            recycle
//! ```
//!
//! An event is the end of a worker's batch, or a look of a capture thread: `look_ns` after the current chunk
//! has become full, or after a packet has come for a worker whose capture queue is empty. Between two events
//! packets only fill cells, many at once. That is the dispatch `push`, as in the paper; capture threads have
//! cores of their own. The dispatch `pull`, wirecap's default, has its picture in `wirecap/pull.rs`.

mod pull;

use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, HashMap, VecDeque},
};

use wirecap_core::{
    BuddyGroup, CaptureConsumer, CaptureProducer, ChunkRange, Descriptor, Dispatcher, Geometry,
    GeometryError, Handover, Load, Mode, Pool, PoolId, PoolNumber, capture_queue,
};

use crate::{
    SECOND_NS,
    outcome::{Outcome, QueueOutcome},
    traffic::{Arrivals, Traffic},
};

/// Bytes of a cell; the simulation allocates no memory for it.
const CELL_BYTES: u32 = 2_048;
/// Length of the packets, which nothing depends on.
const PACKET_BYTES: u32 = 60;

/// Who takes packets out of the rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dispatch {
    /// The workers.
    Pull,
    /// Capture threads, which hand chunks to the workers.
    Push,
}

/// wirecap with one worker for each queue.
#[derive(Debug, Clone, Copy)]
pub struct WirecapEngine {
    /// M.
    pub cells_per_chunk: u32,
    /// R.
    pub chunks_per_pool: u32,
    /// Basic, or advanced with T.
    pub mode: Mode,
    /// Who takes packets out of the rings.
    pub dispatch: Dispatch,
    /// Descriptors of the NIC's ring: cells that it has at once; at least a chunk.
    pub ring: u32,
    /// Packets per second that a worker can handle.
    pub pace_pps: f64,
    /// How long a capture thread takes to see that a chunk is full, or that a packet has come for a worker
    /// whose capture queue is empty; how long an idle worker takes to see a packet, or a buddy in need.
    pub look_ns: f64,
}

impl WirecapEngine {
    /// WireCAP-B of the paper.
    pub fn basic(cells_per_chunk: u32, chunks_per_pool: u32, pace_pps: f64) -> Self {
        let (mode, dispatch) = (Mode::Basic, Dispatch::Push);
        Self { cells_per_chunk, chunks_per_pool, mode, dispatch, ring: 1_024, pace_pps, look_ns: 20_000.0 }
    }

    /// The same with the dispatch `pull`: as by default, the ring has an entry for each cell of the pool, and
    /// an idle worker sleeps 50 µs before it looks again.
    pub fn pulling(self) -> Self {
        let ring = self.cells_per_chunk.saturating_mul(self.chunks_per_pool);
        Self { dispatch: Dispatch::Pull, ring, look_ns: 50_000.0, ..self }
    }

    /// WireCAP-A of the paper.
    pub fn advanced(
        cells_per_chunk: u32,
        chunks_per_pool: u32,
        threshold_percent: u8,
        pace_pps: f64,
    ) -> Self {
        let mode = Mode::Advanced { threshold_percent };
        Self { mode, ..Self::basic(cells_per_chunk, chunks_per_pool, pace_pps) }
    }

    /// Runs it.
    ///
    /// # Errors
    /// M or R is not possible.
    pub fn run(&self, traffic: &Traffic) -> Result<Outcome, GeometryError> {
        let geometry = Geometry::new(self.cells_per_chunk, self.chunks_per_pool, CELL_BYTES)?;
        Ok(match self.dispatch {
            Dispatch::Pull => pull::Machine::new(self, geometry, traffic).run(),
            Dispatch::Push => Machine::new(self, geometry, traffic).run(),
        })
    }
}

/// A receive queue: its packets, its ring, its pool, and its capture thread.
struct Queue<'t> {
    arrivals: Arrivals<'t>,
    /// Cells that the NIC has.
    ring: VecDeque<u64>,
    ring_entries: u32,
    pool: Pool,
    dispatcher: Dispatcher,
    /// A handover that found no room in the capture queue of its worker.
    held_back: Option<Handover>,
    outcome: QueueOutcome,
    /// The look that is planned; an older one is void.
    look: Option<Time>,
    /// Nothing can be handed over before a worker has taken something.
    waits: bool,
}

impl Queue<'_> {
    /// Gives free cells to the NIC.
    fn attach(&mut self) {
        let room = self.ring_entries - self.ring.len() as u32;
        let ring = &mut self.ring;
        self.pool.attach(room, |address| ring.push_back(address));
    }

    /// Takes the packets that have come, up to the room in the current chunk.
    fn fill(&mut self, now: Time) {
        let most = (self.ring.len() as u32).min(self.pool.space());
        let come = self.arrivals.take(now.0, most.into());
        if come > 0 {
            let mut filler = self.pool.filler().expect("a chunk is attached, whose cells the NIC has");
            let cells = self.ring.drain(..come as usize);
            let packet = |address| Descriptor { address, len: PACKET_BYTES, more: false, timestamp_ns: 0 };
            filler.fill_all(cells.map(packet));
            filler.finish();
            self.outcome.offered += come;
        }
    }

    /// Counts packets that came and found no cell as lost.
    fn lose(&mut self, now: Time) {
        if self.ring.is_empty() {
            let lost = self.arrivals.take(now.0, u64::MAX);
            self.outcome.offered += lost;
            self.outcome.not_captured += lost;
        }
    }
}

/// A worker, and its current batch.
#[derive(Default)]
struct Worker {
    batch: Vec<ChunkRange>,
    is_busy: bool,
}

/// A time in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Time(f64);

impl Eq for Time {}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A worker is done with its batch.
    Done(usize),
    /// The capture thread of a queue looks.
    Look(usize),
}

struct Machine<'t> {
    engine: WirecapEngine,
    queues: Vec<Queue<'t>>,
    numbers: HashMap<PoolNumber, usize>,
    workers: Vec<Worker>,
    producers: Vec<CaptureProducer>,
    consumers: Vec<CaptureConsumer>,
    group: BuddyGroup,
    capacity: u64,
    events: BinaryHeap<Reverse<(Time, Event)>>,
    turn: u64,
    offloaded: u64,
}

impl<'t> Machine<'t> {
    fn new(engine: &WirecapEngine, geometry: Geometry, traffic: &'t Traffic) -> Self {
        let count = traffic.queues.len();
        // The room that the engine itself makes for one capture thread.
        let room = 2 * (geometry.chunks_per_pool() as usize + 1) * count;
        let (producers, consumers) = (0..count).map(|_| capture_queue(room)).unzip();
        let queue = |(number, runs): (usize, &'t Vec<_>)| {
            let id = PoolId { nic_id: 0, ring_id: number as u16 };
            let mut pool = Pool::new(id, geometry, 0);
            pool.allow_runs(1);
            Queue {
                arrivals: Arrivals::new(runs),
                ring: VecDeque::new(),
                ring_entries: engine.ring.max(geometry.cells_per_chunk()),
                pool,
                dispatcher: Dispatcher::default(),
                held_back: None,
                outcome: QueueOutcome::default(),
                look: None,
                waits: false,
            }
        };
        let queues: Vec<_> = traffic.queues.iter().enumerate().map(queue).collect();
        Self {
            engine: *engine,
            numbers: queues.iter().enumerate().map(|(at, queue)| (queue.pool.number(), at)).collect(),
            queues,
            workers: (0..count).map(|_| Worker::default()).collect(),
            producers,
            consumers,
            group: BuddyGroup::new((0..count).collect(), engine.mode),
            capacity: geometry.cells_per_pool().into(),
            events: BinaryHeap::new(),
            turn: 0,
            offloaded: 0,
        }
    }

    fn run(mut self) -> Outcome {
        for queue in 0..self.queues.len() {
            self.queues[queue].attach();
            self.plan(queue, Time(0.0));
        }
        while let Some(Reverse((now, event))) = self.events.pop() {
            match event {
                Event::Done(worker) => self.done(worker, now),
                Event::Look(queue) if self.queues[queue].look == Some(now) => {
                    self.queues[queue].look = None;
                    self.serve(queue, now);
                }
                Event::Look(_) => {}
            }
        }
        let queues = self.queues.into_iter().map(|queue| queue.outcome).collect();
        Outcome { queues, offloaded: self.offloaded }
    }

    /// A capture thread: takes the packets that have come, hands over what it can, then gives free cells to
    /// the NIC, which had none of them before.
    fn serve(&mut self, queue: usize, now: Time) {
        loop {
            self.queues[queue].fill(now);
            if !self.hand_over(queue, now) {
                break;
            }
        }
        let at = &mut self.queues[queue];
        at.waits = at.held_back.is_some() || at.pool.filled_cells() > 0;
        at.lose(now);
        at.attach();
        self.plan(queue, now);
    }

    /// Hands over the next packets that can go. Returns whether there were any.
    fn hand_over(&mut self, queue: usize, now: Time) -> bool {
        let Self { queues, producers, consumers, group, capacity, .. } = self;
        let at = &mut queues[queue];
        let load = |worker: usize| Load {
            backlog_cells: consumers[worker].backlog_cells(),
            capacity_cells: *capacity,
            gone: false,
        };
        let (worker, handover) = match at.held_back.take() {
            Some(handover) => (group.destination(queue, load), handover),
            None => {
                let is_idle = |worker: usize| producers[worker].is_empty();
                let flush = at.arrivals.time_ns(0).is_none();
                let worker = at.dispatcher.next(&at.pool, queue, group, load, is_idle, flush);
                let next = worker.and_then(|worker| Some((worker, at.pool.hand_over()?)));
                let Some(next) = next else { return false };
                next
            }
        };
        let packets = handover.packets;
        if let Err(handover) = self.producers[worker].push(self.turn, handover) {
            self.queues[queue].held_back = Some(handover);
            return false;
        }
        self.turn += 1;
        if worker != queue {
            self.offloaded += u64::from(packets);
        }
        if !self.workers[worker].is_busy {
            self.begin(worker, now);
        }
        true
    }

    /// A worker takes its next batch; it is idle without one.
    fn begin(&mut self, worker: usize, now: Time) {
        let Some(handover) = self.consumers[worker].pop() else { return };
        let at = &mut self.workers[worker];
        assert!(!at.is_busy, "a worker has one batch at a time");
        at.is_busy = true;
        let lasts_ns = f64::from(handover.packets) * SECOND_NS as f64 / self.engine.pace_pps;
        at.batch.extend(handover.into_ranges());
        self.events.push(Reverse((Time(now.0 + lasts_ns), Event::Done(worker))));
    }

    fn done(&mut self, worker: usize, now: Time) {
        for range in std::mem::take(&mut self.workers[worker].batch) {
            let home = self.numbers[&range.pool()];
            // Packets that came before could not use these cells.
            self.serve(home, now);
            let at = &mut self.queues[home];
            // A packet has one cell.
            at.outcome.handled += u64::from(range.count());
            at.pool.recycle(range).expect("the worker had the range");
            at.attach();
            self.plan(home, now);
        }
        self.workers[worker].is_busy = false;
        self.begin(worker, now);
        // Its capture queue has room, and may have become empty.
        for queue in 0..self.queues.len() {
            if self.queues[queue].waits {
                self.queues[queue].waits = false;
                self.plan(queue, now);
            }
        }
    }

    /// Plans the next look of a capture thread.
    fn plan(&mut self, queue: usize, now: Time) {
        let at = &self.queues[queue];
        let (space, filled) = (u64::from(at.pool.space()), at.pool.filled_cells() > 0);
        // Without cells, `done` plans the next look when it recycles some.
        let has_cells = !at.ring.is_empty() || filled;
        // When there is something to see: at once, with the next packet, or once the chunk is full.
        let seen_ns = match at.waits {
            true if at.held_back.is_some() || space == 0 => None,
            true => at.arrivals.time_ns(space - 1).filter(|_| at.ring.len() as u64 >= space),
            false if filled || at.held_back.is_some() || at.pool.is_full() => Some(now.0),
            false => at.arrivals.time_ns(0),
        };
        let look = seen_ns.filter(|_| has_cells).map(|at_ns| Time(at_ns.max(now.0) + self.engine.look_ns));
        if look != at.look {
            // The earlier one counts: a thread that looks anyway sees both.
            let next = match (look, at.look) {
                (Some(new), Some(old)) => Some(new.min(old)),
                (new, old) => new.or(old),
            };
            if next != at.look {
                self.queues[queue].look = next;
                self.events.extend(next.map(|next| Reverse((next, Event::Look(queue)))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HANDLER_PPS, WIRE_RATE_PPS, closed_form, traffic::Phase};

    fn closed(outcome: &Outcome, traffic: &Traffic) -> QueueOutcome {
        let total = outcome.total();
        assert_eq!(total.offered, traffic.packets());
        assert_eq!(total.handled + total.lost(), total.offered, "{outcome:?}");
        total
    }

    #[test]
    fn a_burst_loses_what_arithmetic_says() {
        for (cells, chunks) in [(256, 100), (128, 200), (64, 400), (256, 500)] {
            for packets in [1_000, 25_000, 30_000, 100_000, 1_000_000] {
                let traffic = Traffic::burst(packets, WIRE_RATE_PPS);
                let engine = WirecapEngine::basic(cells, chunks, HANDLER_PPS);
                let buffer = u64::from(cells * chunks);
                let expected = closed_form::burst_loss(packets, WIRE_RATE_PPS, HANDLER_PPS, buffer);
                for engine in [engine, engine.pulling()] {
                    let lost = closed(&engine.run(&traffic).unwrap(), &traffic).lost();
                    if expected == 0.0 {
                        assert_eq!(lost, 0, "{engine:?} {packets}");
                    }
                    // A chunk comes home as a whole.
                    let error = 2.0 * f64::from(cells);
                    assert!(
                        (lost as f64 - expected).abs() <= error,
                        "{engine:?} {packets}: {lost} {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn advanced_mode_loses_nothing_where_basic_mode_loses_what_is_too_much() {
        let rates = [80_000.0, 20_000.0, 20_000.0, 20_000.0, 20_000.0, 20_000.0];
        let traffic = Traffic::steady(&rates, 20.0);
        let excess = 20.0 * (80_000.0 - HANDLER_PPS);
        let engines =
            (WirecapEngine::basic(256, 100, HANDLER_PPS), WirecapEngine::advanced(256, 100, 60, HANDLER_PPS));
        for (basic, advanced) in [engines, (engines.0.pulling(), engines.1.pulling())] {
            let basic = basic.run(&traffic).unwrap();
            closed(&basic, &traffic);
            let lost = basic.queues[0].lost() as f64;
            assert!((lost - (excess - 25_600.0)).abs() < 600.0, "{lost} {excess}");
            assert!(basic.queues[1..].iter().all(|queue| queue.lost() == 0));
            let advanced = advanced.run(&traffic).unwrap();
            assert_eq!(closed(&advanced, &traffic).lost(), 0);
            // The excess for one worker, except packets that wait below T.
            assert!((advanced.offloaded as f64 - excess).abs() < 0.05 * excess, "{advanced:?}");
        }
    }

    #[test]
    fn a_worker_that_pulls_helps_only_when_its_own_queue_is_empty() {
        // Each worker has as much as it can handle: nobody is idle, so nothing is offloaded.
        let rates = [2.0 * HANDLER_PPS, 1.1 * HANDLER_PPS, 1.1 * HANDLER_PPS];
        let traffic = Traffic::steady(&rates, 5.0);
        let pull = WirecapEngine::advanced(256, 100, 0, HANDLER_PPS).pulling().run(&traffic).unwrap();
        closed(&pull, &traffic);
        assert!((pull.offloaded as f64) < 0.01 * traffic.packets() as f64, "{pull:?}");
        // In push, the same T sends a part of every queue to whichever buddy is less busy.
        let push = WirecapEngine::advanced(256, 100, 0, HANDLER_PPS).run(&traffic).unwrap();
        assert!(push.offloaded > pull.offloaded, "{push:?}");
    }

    #[test]
    fn a_worker_that_is_faster_than_the_wire_loses_nothing_and_a_slower_one_does() {
        let traffic = Traffic::burst(1_000_000, WIRE_RATE_PPS);
        let lost = |engine: WirecapEngine| closed(&engine.run(&traffic).unwrap(), &traffic).lost();
        let engine = |pace_pps| WirecapEngine::basic(64, 100, pace_pps);
        assert_eq!((lost(engine(25e6)), lost(engine(25e6).pulling())), (0, 0));
        assert!(lost(engine(10e6)) > 300_000 && lost(engine(10e6).pulling()) > 300_000);
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(30))]

        /// Each packet is handled or lost, once, and an idle worker is left no packet.
        #[test]
        fn every_packet_is_accounted_for(
            (m, r, threshold) in (0..3_u32, 2..40_u32, 0..=100_u8),
            rates in proptest::collection::vec(1_000.0..200_000.0_f64, 1..5),
            (pace, ring, seed) in (10_000.0..1e6_f64, 1..2_000_u32, 0..100_u64),
        ) {
            let queues: Vec<_> = rates.iter().map(|&pps| vec![Phase { from_s: 0.0, until_s: 0.2, pps }]).collect();
            let traffic = Traffic::bursty(&queues, 40.0, seed);
            let engine = WirecapEngine { ring, ..WirecapEngine::advanced(64 << m, r, threshold, pace) };
            let advanced = engine.run(&traffic).unwrap();
            closed(&advanced, &traffic);
            let basic = WirecapEngine { mode: Mode::Basic, ..engine }.run(&traffic).unwrap();
            closed(&basic, &traffic);
            proptest::prop_assert_eq!(basic.offloaded, 0);
            let pull = WirecapEngine { ring, ..engine.pulling() };
            closed(&pull.run(&traffic).unwrap(), &traffic);
            let basic = WirecapEngine { mode: Mode::Basic, ..pull }.run(&traffic).unwrap();
            closed(&basic, &traffic);
            proptest::prop_assert_eq!(basic.offloaded, 0);
        }
    }
}
