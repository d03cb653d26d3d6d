//! Tests of what heirs take: histories of a buddy group in virtual time, one event after another.
//!
//! ```text
//!   look ──► destination by the current loads         anything may happen in between, so that
//!   push ──► the queue of that worker                  hand-overs reach queues whose worker has just left
//! ```

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{
    capture_queue::{CaptureProducer, capture_queue},
    chunk::{ChunkRange, PoolNumber},
    group::{BuddyGroup, Load},
    mode::Mode,
};

const WORKERS: usize = 3;
const QUEUES: usize = 4;
const THREADS: usize = 2;
/// Hand-overs of one cell that may wait for a worker before it is over T = 50.
const CAPACITY: u64 = 8;
/// Hand-overs that fit a queue: all of a history.
const ROOM: usize = if cfg!(miri) { 16 } else { 1024 };

#[derive(Debug, Clone, Copy)]
enum Event {
    /// A capture thread decides where the next hand-over of a receive queue goes.
    Look(usize),
    /// It pushes what it has decided.
    Push(usize),
    Pop(usize),
    Leave(usize),
}

fn events(leaves: u32) -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        10 => (0..QUEUES).prop_map(Event::Look),
        10 => (0..THREADS).prop_map(Event::Push),
        8 => (0..WORKERS).prop_map(Event::Pop),
        leaves => (0..WORKERS).prop_map(Event::Leave),
    ];
    prop::collection::vec(event, 0..if cfg!(miri) { 12 } else { 300 })
}

/// A hand-over that was delivered.
#[derive(Debug, Clone, Copy)]
struct Delivery {
    worker: usize,
    queue: usize,
    number: u64,
    /// When it was delivered, counted in events.
    at: usize,
}

struct Bench {
    group: BuddyGroup,
    capacity_cells: u64,
    /// The producers of each capture thread, by worker.
    producers: Vec<Vec<CaptureProducer>>,
    turns: [u64; THREADS],
    /// What each capture thread has decided: worker, queue, number.
    decided: [Option<(usize, usize, u64)>; THREADS],
    numbers: [u64; QUEUES],
    /// `None` once it has left.
    workers: Vec<Option<CaptureQueues>>,
    orphans: Orphans,
    gone: [AtomicBool; WORKERS],
    /// When each worker left.
    left: [Option<usize>; WORKERS],
    /// To which worker each hand-over was pushed.
    pushed: BTreeMap<(usize, u64), usize>,
    deliveries: Vec<Delivery>,
    now: usize,
}

impl Bench {
    fn new(threshold_percent: u8, capacity_cells: u64) -> Self {
        let mut producers: Vec<Vec<_>> = (0..THREADS).map(|_| Vec::new()).collect();
        let workers = (0..WORKERS).map(|_| {
            let (of_worker, consumers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| capture_queue(ROOM)).unzip();
            producers.iter_mut().zip(of_worker).for_each(|(of_thread, producer)| of_thread.push(producer));
            Some(CaptureQueues::new(consumers))
        });
        Self {
            workers: workers.collect(),
            group: BuddyGroup::new((0..WORKERS).collect(), Mode::Advanced { threshold_percent }),
            capacity_cells,
            producers,
            turns: [0; THREADS],
            decided: [None; THREADS],
            numbers: [0; QUEUES],
            orphans: Orphans::default(),
            gone: std::array::from_fn(|_| AtomicBool::new(false)),
            left: [None; WORKERS],
            pushed: BTreeMap::new(),
            deliveries: Vec::new(),
            now: 0,
        }
    }

    fn load(&self, worker: usize) -> Load {
        Load {
            backlog_cells: self.producers.iter().map(|queues| queues[worker].gauge().cells()).sum(),
            capacity_cells: self.capacity_cells,
            full: false,
            gone: self.gone[worker].load(Ordering::Acquire),
        }
    }

    fn step(&mut self, event: Event) {
        self.now += 1;
        match event {
            Event::Look(queue) => self.look(queue),
            Event::Push(thread) => self.push(thread),
            Event::Pop(worker) => self.pop(worker),
            Event::Leave(worker) => {
                // One worker stays, so that everything has an heir.
                let others = self.workers.iter().flatten().count() > 1;
                if let Some(own) = self.workers[worker].take_if(|_| others) {
                    self.orphans.leave(0, own, &self.gone[worker]);
                    self.left[worker] = Some(self.now);
                }
            }
        }
    }

    /// The capture thread of the queue decides, unless it still has a hand-over to push.
    fn look(&mut self, queue: usize) {
        let thread = queue % THREADS;
        if self.decided[thread].is_none() {
            let home = queue % WORKERS;
            let worker = self.group.destination(home, |worker| self.load(worker));
            self.decided[thread] = Some((worker, queue, self.numbers[queue]));
            self.numbers[queue] += 1;
        }
    }

    fn push(&mut self, thread: usize) {
        let Some((worker, queue, number)) = self.decided[thread].take() else { return };
        let range = ChunkRange::new(PoolNumber::of_test(queue as u32), 0, 1);
        let handover =
            Handover { lead: None, range, first_number: number, packets: 1, bytes: 60, uncertainty_ns: 0 };
        self.producers[thread][worker].push(self.turns[thread], handover).expect("room for every hand-over");
        self.turns[thread] += 1;
        self.pushed.insert((queue, number), worker);
    }

    fn pop(&mut self, worker: usize) {
        let Some(own) = &mut self.workers[worker] else { return };
        if let Some(handover) = own.pop(0, &self.orphans) {
            let (queue, number) = (handover.pool().get() as usize, handover.first_number);
            self.deliveries.push(Delivery { worker, queue, number, at: self.now });
        }
    }

    /// The remaining workers take everything.
    fn finish(&mut self) {
        (0..THREADS).for_each(|thread| self.push(thread));
        for worker in (0..WORKERS).cycle() {
            let before = self.deliveries.len();
            self.step(Event::Pop(worker));
            if self.deliveries.len() == before
                && self.workers.iter().flatten().all(CaptureQueues::is_empty)
                && !self.orphans.wait_for(0)
            {
                break;
            }
        }
    }

    /// Pairs of hand-overs of one queue that one worker got in the wrong order: the later number first.
    fn inversions(&self) -> impl Iterator<Item = (Delivery, Delivery)> + '_ {
        self.deliveries.iter().enumerate().flat_map(|(index, &behind)| {
            let before = self.deliveries[..index].iter().copied();
            let of_same =
                move |first: &Delivery| (first.worker, first.queue) == (behind.worker, behind.queue);
            before
                .filter(move |first| of_same(first) && first.number > behind.number)
                .map(move |first| (first, behind))
        })
    }
}

fn run(threshold_percent: u8, events: Vec<Event>) -> Bench {
    let mut bench = Bench::new(threshold_percent, CAPACITY);
    events.into_iter().for_each(|event| bench.step(event));
    bench.finish();
    bench
}

/// Fewer under miri, which is a hundred times slower.
const CASES: u32 = if cfg!(miri) { 2 } else { 1_000 };

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, ..ProptestConfig::default() })]

    /// Later packets come first only if the heir got them while the worker that the earlier ones waited for
    /// was still there.
    #[test]
    fn no_packet_overtakes_one_that_waits_for_an_heir(events in events(1)) {
        let bench = run(50, events);
        for (first, behind) in bench.inversions() {
            let waited_for = bench.pushed[&(behind.queue, behind.number)];
            let left = bench.left[waited_for].expect("only orphans are inherited");
            prop_assert!(first.at < left, "{first:?}, then {behind:?} of worker {waited_for}, which left at {left}");
        }
    }

    /// A worker that was never over T kept all its queues; its only heir gets them in order.
    #[test]
    fn an_only_heir_gets_a_queue_in_order_unless_chunks_were_offloaded(before in events(0), after in events(0)) {
        let mut bench = Bench::new(50, u64::MAX / 100);
        bench.step(Event::Leave(2));
        before.into_iter().for_each(|event| bench.step(event));
        bench.step(Event::Leave(0));
        after.into_iter().for_each(|event| bench.step(event));
        bench.finish();
        let wrong = bench.inversions().find(|(first, _)| first.queue % WORKERS != 2);
        prop_assert!(wrong.is_none(), "{wrong:?}");
    }

    #[test]
    fn everything_is_delivered_once(threshold_percent in 0..=100_u8, events in events(2)) {
        let bench = run(threshold_percent, events);
        let mut delivered: Vec<_> = bench.deliveries.iter().map(|delivery| (delivery.queue, delivery.number)).collect();
        delivered.sort_unstable();
        let all = (0..QUEUES).flat_map(|queue| (0..bench.numbers[queue]).map(move |number| (queue, number)));
        // Each thread has pushed its last decision.
        prop_assert_eq!(delivered, all.collect::<Vec<_>>());
    }
}

#[test]
fn an_heir_takes_nothing_of_another_group_or_thread() {
    let mut bench = Bench::new(50, CAPACITY);
    for queue in [0, 3] {
        bench.step(Event::Look(queue));
        bench.step(Event::Push(queue % THREADS));
    }
    let own = bench.workers[0].take().unwrap();
    bench.orphans.leave(7, own, &bench.gone[0]);
    bench.step(Event::Pop(1));
    assert!(bench.deliveries.is_empty() && !bench.orphans.wait_for(0) && bench.orphans.wait_for(7));
    assert!(bench.orphans.pop(7, 0, 0).is_none(), "the heir's own hand-overs come first");
    for (thread, queue) in [(0, 0), (1, 3)] {
        let handover = bench.orphans.pop(7, thread, u64::MAX).unwrap();
        assert_eq!(handover.pool().get() as usize, queue);
    }
    assert!(!bench.orphans.wait_for(7));
}

/// A capture thread that always has something does not keep a worker from the others.
#[test]
fn a_worker_takes_from_its_capture_threads_in_turn() {
    let mut bench = Bench::new(50, u64::MAX / 100);
    // Queue 0 is of thread 0 and queue 3 of thread 1; both are of worker 0.
    for queue in [0, 0, 0, 3, 3, 3] {
        bench.step(Event::Look(queue));
        bench.step(Event::Push(queue % THREADS));
    }
    (0..6).for_each(|_| bench.step(Event::Pop(0)));
    let queues: Vec<_> = bench.deliveries.iter().map(|delivery| delivery.queue).collect();
    assert_eq!(queues, [0, 3, 0, 3, 0, 3]);
}

/// Captures that lose no worker never wait for the lock.
#[test]
fn nothing_is_looked_for_until_a_worker_has_marked_that_it_is_gone() {
    let mut bench = Bench::new(50, CAPACITY);
    bench.step(Event::Look(0));
    bench.step(Event::Push(0));
    bench.step(Event::Leave(0));
    assert!(bench.orphans.wait_for(0));
    bench.orphans.any.store(false, Ordering::Relaxed);
    assert!(!bench.orphans.wait_for(0) && bench.orphans.pop(0, 0, u64::MAX).is_none());
}

#[test]
fn a_worker_can_take_all_that_waits_for_it_alone() {
    let mut bench = Bench::new(50, u64::MAX / 100);
    for queue in [0, 1, 3] {
        bench.step(Event::Look(queue));
        bench.step(Event::Push(queue % THREADS));
    }
    let own = bench.workers[0].as_mut().unwrap();
    let taken: Vec<_> = std::iter::from_fn(|| own.pop_own()).map(|handover| handover.pool().get()).collect();
    assert_eq!((taken, own.is_empty()), (vec![0, 3], true), "queue 1 is of another worker");
}
