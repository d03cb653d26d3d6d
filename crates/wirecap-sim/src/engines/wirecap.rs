//! wirecap: its engine core, unchanged, with a NIC, capture threads and workers around it.
//!
//! ```text
//!   arrivals ─► fill ring of the NIC ─► Pool ─► Dispatcher ─► capture queue ─► worker of a fixed pace ─► Pool
//!               at most `ring` cells    └── wirecap-core ──┴────────────────┘                            recycle
//! ```
//!
//! An event is the end of a worker's batch, or a look of a capture thread: `look_ns` after the current chunk
//! has become full, or after a packet has come for a worker whose capture queue is empty. Between two events
//! packets only fill cells, many at once. A worker that forwards gives its batch to a wire, and the cells
//! come home once they are sent. That is the dispatch `push`, as in the paper; capture threads have cores of
//! their own. The dispatch `pull`, wirecap's default, has its picture in `wirecap/pull.rs`.

mod pull;
mod ring;
mod run;
mod time;

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
};

use wirecap_core::{
    BuddyGroup, CaptureConsumer, CaptureProducer, ChunkRange, Dispatcher, Geometry, GeometryError, Handover,
    Load, Mode, PoolNumber, capture_queue,
};

use self::{
    ring::ReceiveQueue,
    run::{Simulated, to_a_loss, to_the_end},
    time::Time,
};
use crate::{CELL_BYTES, SECOND_NS, outcome::Outcome, traffic::Traffic};

/// Whether workers or capture threads take packets out of the rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dispatch {
    /// The workers.
    Pull,
    /// Capture threads, which hand chunks to the workers.
    Push,
}

/// Where handled packets are sent: a wire that all workers share, and a transmit ring for each of them.
#[derive(Debug, Clone, Copy)]
pub struct Transmit {
    /// Descriptors of a transmit ring: a worker waits while this many of its packets are not sent.
    pub ring: u32,
    /// Packets per second that the wire carries.
    pub wire_pps: f64,
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
    /// Whether workers or capture threads take packets out of the rings.
    pub dispatch: Dispatch,
    /// Descriptors of the NIC's ring: cells that it has at once; at least a chunk.
    pub ring: u32,
    /// Packets per second that a worker can handle.
    pub pace_pps: f64,
    /// How long a capture thread takes to see that a chunk is full, or that a packet has come for a worker
    /// whose capture queue is empty; how long an idle worker takes to see a packet, or a buddy in need.
    pub look_ns: f64,
    /// Where handled packets go, with the dispatch `push`; they are discarded without it.
    pub transmit: Option<Transmit>,
}

impl WirecapEngine {
    /// WireCAP-B of the paper.
    pub fn basic(cells_per_chunk: u32, chunks_per_pool: u32, pace_pps: f64) -> Self {
        Self {
            cells_per_chunk,
            chunks_per_pool,
            mode: Mode::Basic,
            dispatch: Dispatch::Push,
            ring: 1_024,
            pace_pps,
            look_ns: 20_000.0,
            transmit: None,
        }
    }

    /// The same with the dispatch `pull`: as by default, the ring has an entry for each cell of the pool, and
    /// an idle worker sleeps 50 µs before it looks again. Such a worker discards its packets.
    pub fn pulling(self) -> Self {
        let ring = self.cells_per_chunk.saturating_mul(self.chunks_per_pool);
        Self { dispatch: Dispatch::Pull, ring, look_ns: 50_000.0, transmit: None, ..self }
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
            Dispatch::Pull => to_the_end(pull::Machine::new(self, geometry, traffic)),
            Dispatch::Push => to_the_end(Machine::new(self, geometry, traffic)),
        })
    }

    /// Runs it until it loses a packet. Returns when that packet came, in nanoseconds; `None` if it loses
    /// none. `step` is called now and then with the work since the last call: events and packets, each
    /// of which takes about as long as the other.
    ///
    /// # Errors
    /// M or R is not possible, or `step` failed.
    pub fn first_loss_ns<E: From<GeometryError>>(
        &self,
        traffic: &Traffic,
        step: &mut impl FnMut(u64) -> Result<(), E>,
    ) -> Result<Option<f64>, E> {
        let geometry = Geometry::new(self.cells_per_chunk, self.chunks_per_pool, CELL_BYTES)?;
        let queues = traffic.queues.len() as u64;
        match self.dispatch {
            Dispatch::Pull => to_a_loss(pull::Machine::new(self, geometry, traffic), queues, step),
            Dispatch::Push => to_a_loss(Machine::new(self, geometry, traffic), queues, step),
        }
    }
}

/// A receive queue, and its capture thread.
struct Queue<'t> {
    receive: ReceiveQueue<'t>,
    dispatcher: Dispatcher,
    /// A handover that found no room in the capture queue of its worker.
    held_back: Option<Handover>,
    /// The look that is planned; an older one is void.
    look: Option<Time>,
    /// Nothing can be handed over before a worker has taken something.
    waits: bool,
}

/// A worker, and its current batch.
#[derive(Default)]
struct Worker {
    batch: Vec<ChunkRange>,
    is_busy: bool,
    /// Batches that its transmit ring has, in the order in which they are sent.
    unsent: VecDeque<Vec<ChunkRange>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A worker is done with its batch.
    Done(usize),
    /// The capture thread of a queue looks.
    Look(usize),
    /// The oldest batch of a worker's transmit ring is sent.
    Sent(usize),
    /// The transmit ring of a worker has room again.
    Ready(usize),
}

struct Machine<'t> {
    engine: WirecapEngine,
    queues: Vec<Queue<'t>>,
    numbers: HashMap<PoolNumber, usize>,
    workers: Vec<Worker>,
    /// The capture queues of each worker, as one: what was handed over first is taken first.
    producers: Vec<CaptureProducer>,
    consumers: Vec<CaptureConsumer>,
    /// Hand-overs that the capture queue between a capture thread and a worker has room for.
    room: usize,
    /// Those in it, by worker, then by capture thread.
    queued: Vec<usize>,
    group: BuddyGroup,
    capacity: u64,
    events: BinaryHeap<Reverse<(Time, Event)>>,
    /// When the wire has sent all it was given.
    wire_free: Time,
    turn: u64,
    offloaded: u64,
}

impl Simulated for Machine<'_> {
    fn step(&mut self) -> Option<Time> {
        let Reverse((now, event)) = self.events.pop()?;
        match event {
            Event::Done(worker) => self.done(worker, now),
            Event::Look(queue) if self.queues[queue].look == Some(now) => {
                self.queues[queue].look = None;
                self.serve(queue, now);
            }
            Event::Look(_) => {}
            Event::Sent(worker) => self.sent(worker, now),
            Event::Ready(worker) => self.go_on(worker, now),
        }
        Some(now)
    }

    fn queues(&self) -> impl Iterator<Item = &ReceiveQueue<'_>> {
        self.queues.iter().map(|queue| &queue.receive)
    }

    fn offloaded(&self) -> u64 {
        self.offloaded
    }
}

impl<'t> Machine<'t> {
    fn new(engine: &WirecapEngine, geometry: Geometry, traffic: &'t Traffic) -> Self {
        let count = traffic.queues.len();
        // The room that the engine itself makes for one capture thread and one worker.
        let room = (2 * (geometry.chunks_per_pool() as usize + 1)).next_power_of_two();
        let (producers, consumers) = (0..count).map(|_| capture_queue(room * count)).unzip();
        let queue = |(number, runs): (usize, &'t Vec<_>)| Queue {
            receive: ReceiveQueue::new(number, runs, geometry, engine.ring),
            dispatcher: Dispatcher::default(),
            held_back: None,
            look: None,
            waits: false,
        };
        let queues: Vec<_> = traffic.queues.iter().enumerate().map(queue).collect();
        let mut machine = Self {
            engine: *engine,
            numbers: queues.iter().enumerate().map(|(at, queue)| (queue.receive.pool.number(), at)).collect(),
            queues,
            workers: (0..count).map(|_| Worker::default()).collect(),
            producers,
            consumers,
            room,
            queued: vec![0; count * count],
            group: BuddyGroup::new((0..count).collect(), engine.mode),
            capacity: geometry.cells_per_pool().into(),
            events: BinaryHeap::new(),
            wire_free: Time(0.0),
            turn: 0,
            offloaded: 0,
        };
        for queue in 0..count {
            machine.plan(queue, Time(0.0));
        }
        machine
    }

    /// A capture thread: takes the packets that have come, hands over what it can, then gives free cells to
    /// the NIC, which had none of them before.
    fn serve(&mut self, queue: usize, now: Time) {
        loop {
            self.queues[queue].receive.fill(now);
            if !self.hand_over(queue, now) {
                break;
            }
        }
        let at = &mut self.queues[queue];
        at.waits = at.held_back.is_some() || at.receive.pool.filled_cells() > 0;
        at.receive.attach();
        self.plan(queue, now);
    }

    /// Hands over the next packets that can go. Returns whether there were any.
    fn hand_over(&mut self, queue: usize, now: Time) -> bool {
        let Self { queues, producers, consumers, queued, group, capacity, room, .. } = self;
        let at = &mut queues[queue];
        let place = |worker: usize| worker * producers.len() + queue;
        let load = |worker: usize| Load {
            backlog_cells: consumers[worker].backlog_cells(),
            capacity_cells: *capacity,
            full: queued[place(worker)] + 2 > *room,
            gone: false,
        };
        let (worker, handover) = match at.held_back.take() {
            Some(handover) => (group.destination(queue, load), handover),
            None => {
                let is_idle = |worker: usize| producers[worker].is_empty();
                let flush = at.receive.arrivals.time_ns(0).is_none();
                let worker = at.dispatcher.next(&at.receive.pool, queue, group, load, is_idle, flush);
                let next = worker.and_then(|worker| Some((worker, at.receive.pool.hand_over()?)));
                let Some(next) = next else { return false };
                next
            }
        };
        if queued[place(worker)] == *room {
            // The worker that has the rest of the chunk has no room: it may go to another one.
            let goes_on = group.destination(queue, load) != worker;
            at.held_back = Some(handover);
            return goes_on;
        }
        let packets = handover.packets;
        queued[place(worker)] += 1;
        producers[worker].push(self.turn, handover).expect("room of all capture threads together");
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
        let queue = self.numbers[&handover.range.pool()];
        self.queued[worker * self.queues.len() + queue] -= 1;
        let at = &mut self.workers[worker];
        assert!(!at.is_busy, "a worker has one batch at a time");
        at.is_busy = true;
        let lasts_ns = f64::from(handover.packets) * SECOND_NS as f64 / self.engine.pace_pps;
        at.batch.extend(handover.into_ranges());
        self.events.push(Reverse((Time(now.0 + lasts_ns), Event::Done(worker))));
    }

    fn done(&mut self, worker: usize, now: Time) {
        let batch = std::mem::take(&mut self.workers[worker].batch);
        let Some(Transmit { ring, wire_pps }) = self.engine.transmit else {
            self.recycle(batch, now);
            return self.go_on(worker, now);
        };
        let gap_ns = SECOND_NS as f64 / wire_pps;
        let packets: u32 = batch.iter().map(ChunkRange::count).sum();
        // The last packet was handled just now; those before it went out as the wire was free.
        self.wire_free = Time((self.wire_free.0 + f64::from(packets) * gap_ns).max(now.0 + gap_ns));
        self.workers[worker].unsent.push_back(batch);
        self.events.push(Reverse((self.wire_free, Event::Sent(worker))));
        let room = Time(self.wire_free.0 - f64::from(ring) * gap_ns);
        if room > now {
            self.events.push(Reverse((room, Event::Ready(worker))));
        } else {
            self.go_on(worker, now);
        }
    }

    fn sent(&mut self, worker: usize, now: Time) {
        let batch = self.workers[worker].unsent.pop_front().expect("a batch for each event");
        self.recycle(batch, now);
        self.wake(now);
    }

    /// Packets are done with: their cells go home.
    fn recycle(&mut self, batch: Vec<ChunkRange>, now: Time) {
        for range in batch {
            let home = self.numbers[&range.pool()];
            // Packets that came before could not use these cells.
            self.serve(home, now);
            let receive = &mut self.queues[home].receive;
            // A packet has one cell.
            receive.outcome.handled += u64::from(range.count());
            receive.pool.recycle(range).expect("the worker had the range");
            receive.attach();
            self.plan(home, now);
        }
    }

    /// A worker that is done takes its next batch.
    fn go_on(&mut self, worker: usize, now: Time) {
        self.workers[worker].is_busy = false;
        self.begin(worker, now);
        self.wake(now);
    }

    /// Capture queues have room, and may have become empty.
    fn wake(&mut self, now: Time) {
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
        let (receive, holds) = (&at.receive, at.held_back.is_some());
        let (space, filled) = (u64::from(receive.pool.space()), receive.pool.filled_cells() > 0);
        // When there is something to see: at once, with the next packet, or once the chunk is full.
        let seen_ns = match at.waits {
            true if holds || space == 0 => None,
            true => receive.waiting_ns(space, now),
            false if filled || holds || receive.pool.is_full() => Some(now.0),
            false => receive.waiting_ns(1, now),
        };
        // Without cells, `done` plans the next look when it recycles some.
        let has_cells = receive.has_cells() || filled;
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
mod tests;
