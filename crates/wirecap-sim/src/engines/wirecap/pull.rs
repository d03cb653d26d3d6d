//! The dispatch `pull`: workers take packets out of the rings themselves, and idle ones help.
//!
//! ```text
//!   arrivals ─► ring of the NIC ─► Pool ─► worker of the queue, after each batch ─┐
//!               all free cells      │      or an idle buddy, if the ring holds    ├─► used cells ─► Pool, when
//!                  wirecap-core ────┘      more than T percent (BuddyGroup)      ─┘                 next looked at
//! ```
//!
//! An event is the end of a worker's batch, a look of an idle worker at its own queue (`look_ns` after a
//! packet has come), or a look of all idle workers at their buddies (`look_ns` after one has come to need
//! help). Used cells go back to the NIC when a worker next looks at their queue, as in the engine.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap, HashMap},
};

use wirecap_core::{BuddyGroup, ChunkRange, Geometry, Handover, Load, PoolNumber};

use super::{WirecapEngine, ring::ReceiveQueue, run::Simulated, time::Time};
use crate::{SECOND_NS, traffic::Traffic};

/// A receive queue, and the cells that come back to it.
struct Queue<'t> {
    receive: ReceiveQueue<'t>,
    /// Used cells that no worker has taken back yet.
    used: Vec<ChunkRange>,
}

impl Queue<'_> {
    /// Takes used cells back, then at most the rest of a chunk of packets.
    fn capture(&mut self, now: Time) -> Option<Handover> {
        let Self { receive, used } = self;
        receive.arrive(now);
        for range in used.drain(..) {
            receive.pool.recycle(range).expect("a worker had the range");
        }
        receive.attach();
        receive.fill(now);
        receive.pool.hand_over()
    }

    /// When the worker of the queue, without anything to do, has a reason to look at it.
    fn next_ns(&self, now: Time) -> Option<f64> {
        if self.used.is_empty() { self.receive.waiting_ns(1, now) } else { Some(now.0) }
    }

    /// When this many packets will wait, if no worker takes any.
    fn backlog_ns(&self, packets: u64, now: Time) -> Option<f64> {
        let filled = self.receive.pool.filled_cells();
        self.receive.waiting_ns(packets.saturating_sub(filled.into()), now)
    }
}

/// A worker, and its current batch.
#[derive(Default)]
struct Worker {
    batch: Vec<ChunkRange>,
    is_busy: bool,
    /// The look that is planned; an older one is void.
    look: Option<Time>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A worker is done with its batch.
    Done(usize),
    /// An idle worker looks at its queue.
    Look(usize),
    /// Idle workers look at their buddies.
    Help,
}

pub(super) struct Machine<'t> {
    engine: WirecapEngine,
    queues: Vec<Queue<'t>>,
    numbers: HashMap<PoolNumber, usize>,
    workers: Vec<Worker>,
    group: BuddyGroup,
    capacity: u64,
    /// When each queue will be over T, the first one first.
    needs: BTreeSet<(Time, usize)>,
    need_of: Vec<Option<Time>>,
    /// The look that is planned for all idle workers; an older one is void.
    help: Option<Time>,
    /// How many workers are idle.
    idle: usize,
    events: BinaryHeap<Reverse<(Time, Event)>>,
    offloaded: u64,
}

impl Simulated for Machine<'_> {
    fn step(&mut self) -> Option<Time> {
        let Reverse((now, event)) = self.events.pop()?;
        match event {
            Event::Done(worker) => self.done(worker, now),
            Event::Look(worker) if self.workers[worker].look == Some(now) => {
                self.workers[worker].look = None;
                self.pull(worker, now);
            }
            Event::Help if self.help == Some(now) => {
                self.help = None;
                self.help_all(now);
            }
            Event::Look(_) | Event::Help => {}
        }
        self.plan_help(now);
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
    pub(super) fn new(engine: &WirecapEngine, geometry: Geometry, traffic: &'t Traffic) -> Self {
        let count = traffic.queues.len();
        let queue = |(number, runs): (usize, &'t Vec<_>)| Queue {
            receive: ReceiveQueue::new(number, runs, geometry, engine.ring),
            used: Vec::new(),
        };
        let queues: Vec<_> = traffic.queues.iter().enumerate().map(queue).collect();
        let mut machine = Self {
            engine: *engine,
            numbers: queues.iter().enumerate().map(|(at, queue)| (queue.receive.pool.number(), at)).collect(),
            queues,
            workers: (0..count).map(|_| Worker::default()).collect(),
            group: BuddyGroup::new((0..count).collect(), engine.mode),
            capacity: geometry.cells_per_pool().into(),
            needs: BTreeSet::new(),
            need_of: vec![None; count],
            help: None,
            idle: count,
            events: BinaryHeap::new(),
            offloaded: 0,
        };
        let start = Time(0.0);
        for queue in 0..count {
            machine.foresee_need(queue, start);
            machine.plan_look(queue, start);
        }
        machine.plan_help(start);
        machine
    }

    /// A worker takes its next batch: from its own queue, or from that of a buddy in need. It is idle without
    /// one.
    fn pull(&mut self, worker: usize, now: Time) {
        if self.workers[worker].is_busy {
            return;
        }
        let own = self.capture(worker, now);
        let taken = own.map(|handover| (worker, handover)).or_else(|| {
            let buddy = self.buddy_in_need(worker, now)?;
            Some((buddy, self.capture(buddy, now)?))
        });
        match taken {
            Some((home, handover)) => self.begin(worker, home, handover, now),
            None => self.plan_look(worker, now),
        }
    }

    fn capture(&mut self, queue: usize, now: Time) -> Option<Handover> {
        let handover = self.queues[queue].capture(now);
        self.foresee_need(queue, now);
        handover
    }

    /// The buddy that the worker helps, by the engine's own rule.
    fn buddy_in_need(&mut self, worker: usize, now: Time) -> Option<usize> {
        // The rule would find none.
        if self.needs.first().is_none_or(|(need, _)| *need > now) {
            return None;
        }
        self.queues.iter_mut().for_each(|queue| queue.receive.arrive(now));
        let Self { queues, capacity, .. } = self;
        let load = |worker: usize| Load {
            backlog_cells: queues[worker].receive.backlog(),
            capacity_cells: *capacity,
            full: false,
            gone: false,
        };
        self.group.buddy_in_need(worker, load)
    }

    fn begin(&mut self, worker: usize, home: usize, handover: Handover, now: Time) {
        if worker != home {
            self.offloaded += u64::from(handover.packets);
        }
        let lasts_ns = f64::from(handover.packets) * SECOND_NS as f64 / self.engine.pace_pps;
        let at = &mut self.workers[worker];
        (at.is_busy, at.look) = (true, None);
        self.idle -= 1;
        at.batch.extend(handover.into_ranges());
        self.events.push(Reverse((Time(now.0 + lasts_ns), Event::Done(worker))));
    }

    fn done(&mut self, worker: usize, now: Time) {
        for range in std::mem::take(&mut self.workers[worker].batch) {
            let home = self.numbers[&range.pool()];
            // A packet has one cell.
            self.queues[home].receive.outcome.handled += u64::from(range.count());
            self.queues[home].used.push(range);
            self.plan_look(home, now);
        }
        self.workers[worker].is_busy = false;
        self.idle += 1;
        self.pull(worker, now);
    }

    /// Every idle worker helps, as long as a buddy needs help.
    fn help_all(&mut self, now: Time) {
        for worker in 0..self.workers.len() {
            if self.needs.first().is_none_or(|(need, _)| *need > now) {
                break;
            }
            self.pull(worker, now);
        }
    }

    /// Plans the next look of a worker at its own queue, if it is idle.
    fn plan_look(&mut self, worker: usize, now: Time) {
        let at = &mut self.workers[worker];
        if at.is_busy {
            return;
        }
        let seen_ns = self.queues[worker].next_ns(now);
        let look = seen_ns.map(|seen_ns| Time(seen_ns.max(now.0) + self.engine.look_ns));
        // The earlier one counts: a worker that looks anyway sees both.
        let next = look.into_iter().chain(at.look).min();
        if next != at.look {
            at.look = next;
            self.events.extend(next.map(|next| Reverse((next, Event::Look(worker)))));
        }
    }

    /// Foresees when a queue will be over T.
    fn foresee_need(&mut self, queue: usize, now: Time) {
        let over = self.group.threshold_percent().map(|percent| self.capacity * u64::from(percent) / 100 + 1);
        let need = over.and_then(|packets| self.queues[queue].backlog_ns(packets, now)).map(Time);
        if let Some(before) = std::mem::replace(&mut self.need_of[queue], need) {
            self.needs.remove(&(before, queue));
        }
        self.needs.extend(need.map(|need| (need, queue)));
    }

    /// Plans when idle workers look at their buddies.
    fn plan_help(&mut self, now: Time) {
        let need = self.needs.first().filter(|_| self.idle > 0);
        let next = need.map(|(need, _)| Time(need.0.max(now.0) + self.engine.look_ns));
        let next = next.into_iter().chain(self.help).min();
        if next != self.help {
            self.help = next;
            self.events.extend(next.map(|next| Reverse((next, Event::Help))));
        }
    }
}
