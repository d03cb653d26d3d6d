//! wirecap: its engine core, unchanged, with a NIC, capture threads and workers around it.
//!
//! ```text
//!   arrivals ─► fill ring of the NIC ─► Pool ─► Dispatcher ─► capture queue ─► worker of a fixed pace ─► Pool
//!               at most `ring` cells    └── wirecap-core ──┴────────────────┘                            recycle
//! ```
//!
//! An event is the end of a worker's batch, or a look of a capture thread: when the chunk that is filled
//! becomes full, or a while after a packet has come for an idle worker. Between two events packets only fill
//! cells, many at once.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, VecDeque},
};

use wirecap_core::{
    BuddyGroup, CaptureConsumer, CaptureProducer, ChunkRange, Descriptor, Dispatcher, Geometry,
    GeometryError, Handover, Load, Mode, Pool, PoolId, capture_queue,
};

use crate::{
    SECOND_NS,
    outcome::{Outcome, QueueOutcome},
    traffic::{Arrivals, Traffic},
};

/// Bytes of a cell, of which the simulation has no memory.
const CELL_BYTES: u32 = 2_048;
/// Length of the packets, which nothing depends on.
const PACKET_BYTES: u32 = 60;

/// wirecap with one worker for each queue.
#[derive(Debug, Clone, Copy)]
pub struct WirecapEngine {
    /// M.
    pub cells_per_chunk: u32,
    /// R.
    pub chunks_per_pool: u32,
    /// Basic, or advanced with T.
    pub mode: Mode,
    /// Descriptors of the NIC's ring: cells that it has at once.
    pub ring: u32,
    /// Packets per second that a worker can handle.
    pub pace_pps: f64,
    /// How long a capture thread may take to see a packet for an idle worker.
    pub look_ns: f64,
}

impl WirecapEngine {
    /// WireCAP-B of the paper.
    pub fn basic(cells_per_chunk: u32, chunks_per_pool: u32, pace_pps: f64) -> Self {
        Self { cells_per_chunk, chunks_per_pool, mode: Mode::Basic, ring: 1_024, pace_pps, look_ns: 20_000.0 }
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
        Ok(Machine::new(self, geometry, traffic).run())
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
    outcome: QueueOutcome,
    /// The look that is planned; an older one is void.
    look: Option<Time>,
}

impl Queue<'_> {
    /// Gives free cells to the NIC.
    fn attach(&mut self) {
        let room = self.ring_entries.saturating_sub(self.ring.len() as u32);
        let ring = &mut self.ring;
        self.pool.attach(room, |address| ring.push_back(address));
    }

    /// Takes the packets that have come, as far as the chunk that is filled has room; `true` if it is full.
    fn fill(&mut self, now: Time) -> bool {
        let space = self.pool.space();
        let most = (self.ring.len() as u32).min(space);
        if most == 0 {
            return space == 0 && self.pool.is_full();
        }
        let come = self.arrivals.take(now.0, most.into());
        if come > 0 {
            let mut filler = self.pool.filler().expect("a chunk is attached, whose cells the NIC has");
            let cells = self.ring.drain(..come as usize);
            let packet = |address| Descriptor { address, len: PACKET_BYTES, more: false, timestamp_ns: 0 };
            filler.fill_all(cells.map(packet));
            filler.finish();
            self.outcome.offered += come;
        }
        self.pool.is_full()
    }

    /// The NIC has no cell: what has come is lost.
    fn lose(&mut self, now: Time) {
        if self.ring.is_empty() {
            let lost = self.arrivals.take(now.0, u64::MAX);
            self.outcome.offered += lost;
            self.outcome.not_captured += lost;
        }
    }
}

/// A worker, and what it has in its hands.
struct Worker {
    batch: Vec<ChunkRange>,
    packets: u32,
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
        // As many hand-overs as there can be at once: cells of all pools, one each.
        let hand_overs = count * geometry.cells_per_pool() as usize;
        let (producers, consumers) = (0..count).map(|_| capture_queue(hand_overs)).unzip();
        let queue = |(number, runs): (usize, &'t Vec<_>)| {
            let id = PoolId { nic_id: 0, ring_id: number as u16 };
            let mut pool = Pool::new(id, geometry, 0);
            pool.allow_runs(1);
            Queue {
                arrivals: Arrivals::new(runs),
                ring: VecDeque::new(),
                ring_entries: engine.ring,
                pool,
                dispatcher: Dispatcher::default(),
                outcome: QueueOutcome::default(),
                look: None,
            }
        };
        Self {
            engine: *engine,
            queues: traffic.queues.iter().enumerate().map(queue).collect(),
            workers: (0..count).map(|_| Worker { batch: Vec::new(), packets: 0, is_busy: false }).collect(),
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

    /// A capture thread: cells are filled, handed over, and attached, until nothing more has come.
    fn serve(&mut self, queue: usize, now: Time) {
        loop {
            let at = &mut self.queues[queue];
            at.attach();
            let is_full = at.fill(now);
            if !self.hand_over(queue, now) && !is_full {
                break;
            }
        }
        self.queues[queue].lose(now);
        self.plan(queue, now);
    }

    /// Hands over what may go. Returns whether something did.
    fn hand_over(&mut self, queue: usize, now: Time) -> bool {
        let Self { queues, producers, consumers, workers, group, capacity, .. } = self;
        let at = &mut queues[queue];
        let load = |worker: usize| Load {
            backlog_cells: CaptureConsumer::backlog_cells(&consumers[worker]),
            capacity_cells: *capacity,
            gone: false,
        };
        let is_idle = |worker: usize| producers[worker].is_empty() && !workers[worker].is_busy;
        let worker = at.dispatcher.next(&at.pool, queue, group, load, is_idle, false);
        let Some(worker) = worker else { return false };
        let Some(handover) = at.pool.hand_over() else { return false };
        if worker != queue {
            self.offloaded += u64::from(handover.packets);
        }
        self.producers[worker].push(self.turn, handover).expect("there is room for every cell of every pool");
        self.turn += 1;
        if !self.workers[worker].is_busy {
            self.begin(worker, now);
        }
        true
    }

    /// A worker takes its next batch; it is idle without one.
    fn begin(&mut self, worker: usize, now: Time) {
        let Some(handover) = self.consumers[worker].pop() else { return };
        let Handover { packets, .. } = handover;
        let at = &mut self.workers[worker];
        (at.packets, at.is_busy) = (packets, true);
        at.batch.extend(handover.into_ranges());
        let lasts_ns = f64::from(packets) * SECOND_NS as f64 / self.engine.pace_pps;
        self.events.push(Reverse((Time(now.0 + lasts_ns), Event::Done(worker))));
    }

    fn done(&mut self, worker: usize, now: Time) {
        let at = &mut self.workers[worker];
        let (batch, packets) = (std::mem::take(&mut at.batch), at.packets);
        at.is_busy = false;
        for range in batch {
            let home = self.queues.iter().position(|queue| queue.pool.number() == range.pool());
            let home = home.expect("the range is of one of these pools");
            // What came before had to do without these cells.
            self.serve(home, now);
            let at = &mut self.queues[home];
            at.outcome.handled += u64::from(packets);
            at.pool.recycle(range).expect("the worker had the range");
            at.attach();
            self.plan(home, now);
        }
        self.begin(worker, now);
        if !self.workers[worker].is_busy {
            // Its capture threads look whether there is a part of a chunk for it.
            self.serve(worker, now);
        }
    }

    /// Plans the next look of a capture thread: once the chunk is full, or, for an idle worker, a while after
    /// the next packet; without cells, at the next packet, which is lost.
    fn plan(&mut self, queue: usize, now: Time) {
        let at = &self.queues[queue];
        let (space, cells) = (u64::from(at.pool.space()), at.ring.len() as u64);
        let full_ns = match space.min(cells) {
            // Whoever recycles a chunk looks then.
            0 => None,
            room if room == space => at.arrivals.time_ns(room - 1),
            _ => None,
        };
        let is_idle = !self.workers[queue].is_busy && self.producers[queue].is_empty();
        let idle_ns = if is_idle && cells > 0 { at.arrivals.time_ns(0) } else { None };
        let idle_ns = idle_ns.map(|next_ns| next_ns.max(now.0) + self.engine.look_ns);
        let next = [full_ns, idle_ns].into_iter().flatten().map(|at_ns| Time(at_ns.max(now.0))).min();
        if next != at.look {
            self.queues[queue].look = next;
            self.events.extend(next.map(|next| Reverse((next, Event::Look(queue)))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HANDLER_PPS, WIRE_RATE_PPS, closed_form};

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
                let outcome = WirecapEngine::basic(cells, chunks, HANDLER_PPS).run(&traffic).unwrap();
                let lost = closed(&outcome, &traffic).lost();
                let buffer = u64::from(cells * chunks);
                let expected = closed_form::burst_loss(packets, WIRE_RATE_PPS, HANDLER_PPS, buffer);
                // A chunk comes home as a whole.
                let error = 2.0 * f64::from(cells);
                assert!(
                    (lost as f64 - expected).abs() <= error,
                    "{cells} {chunks} {packets}: {lost} {expected}"
                );
            }
        }
    }

    #[test]
    fn advanced_mode_loses_nothing_where_basic_mode_loses_what_is_too_much() {
        let rates = [80_000.0, 20_000.0, 20_000.0, 20_000.0, 20_000.0, 20_000.0];
        let traffic = Traffic::steady(&rates, 20.0);
        let basic = WirecapEngine::basic(256, 100, HANDLER_PPS).run(&traffic).unwrap();
        closed(&basic, &traffic);
        let expected = 20.0 * (80_000.0 - HANDLER_PPS) - 25_600.0;
        let lost = basic.queues[0].lost() as f64;
        assert!((lost - expected).abs() < 600.0, "{lost} {expected}");
        assert!(basic.queues[1..].iter().all(|queue| queue.lost() == 0));
        let advanced = WirecapEngine::advanced(256, 100, 60, HANDLER_PPS).run(&traffic).unwrap();
        assert_eq!(closed(&advanced, &traffic).lost(), 0);
        assert!(advanced.offloaded > 700_000, "{advanced:?}");
    }

    #[test]
    fn no_load_loses_nothing_at_wire_rate() {
        let traffic = Traffic::burst(1_000_000, WIRE_RATE_PPS);
        let outcome = WirecapEngine::basic(64, 100, 50e6).run(&traffic).unwrap();
        assert_eq!(closed(&outcome, &traffic).lost(), 0);
    }
}
