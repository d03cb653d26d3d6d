//! Tests of the dispatcher: single decisions, and long runs of a whole buddy group in virtual time.
//!
//! ```text
//!   arrivals ──► fill ring ──► pool ──► Dispatcher ──► capture queue ──► worker of a fixed pace ──► pool
//!                every 1 ms: all that arrived since, as a sleeping capture thread sees it
//! ```

use std::collections::VecDeque;

use super::*;
use crate::{
    capture_queue::{CaptureConsumer, CaptureProducer, capture_queue},
    chunk::{ChunkRange, PoolId},
    geometry::Geometry,
    mode::Mode,
    slots::Descriptor,
};

/// A receive queue with a kernel that fills the cells it was given, in order.
struct Queue {
    pool: Pool,
    fill_ring: VecDeque<u64>,
    dispatcher: Dispatcher,
    lost: u64,
}

impl Queue {
    fn new(ring_id: u16, geometry: Geometry) -> Self {
        let mut pool = Pool::new(PoolId { nic_id: 0, ring_id }, geometry, 0);
        pool.allow_runs(1);
        Self { pool, fill_ring: VecDeque::new(), dispatcher: Dispatcher::default(), lost: 0 }
    }

    fn attach(&mut self) {
        self.pool.attach(u32::MAX, |address| self.fill_ring.push_back(address));
    }

    /// A packet arrives. It has space, since full chunks were handed over.
    fn arrive(&mut self) {
        match self.fill_ring.pop_front() {
            None => self.lost += 1,
            Some(address) => {
                let mut filler = self.pool.filler().expect("its chunk is attached");
                assert!(filler.fill(Descriptor { address, len: 60, more: false, timestamp_ns: 0 }));
                filler.finish();
            }
        }
    }
}

/// A worker that works at a fixed pace, one batch at a time.
#[derive(Default)]
struct Worker {
    batch: Vec<ChunkRange>,
    /// Packets it could have handled since the start of its batch.
    credit: f64,
    batch_packets: f64,
}

struct Bench {
    queues: Vec<Queue>,
    crew: Workers,
    workers: Vec<Worker>,
    group: BuddyGroup,
    /// The number of the next hand-over.
    turn: u64,
}

/// The workers as the dispatcher sees them.
struct Workers {
    producers: Vec<CaptureProducer>,
    consumers: Vec<CaptureConsumer>,
    capacity: u64,
    gone: Vec<bool>,
}

impl Workers {
    fn load(&self, worker: usize) -> Load {
        let backlog_cells = self.consumers[worker].backlog_cells();
        Load { backlog_cells, capacity_cells: self.capacity, full: false, gone: self.gone[worker] }
    }

    fn is_idle(&self, worker: usize) -> bool {
        self.producers[worker].is_empty()
    }
}

impl Bench {
    fn new(queues: usize, geometry: Geometry, mode: Mode) -> Self {
        let hand_overs = 2 * queues * geometry.chunks_per_pool() as usize;
        let (producers, consumers) = (0..queues).map(|_| capture_queue(hand_overs)).unzip();
        let capacity = u64::from(geometry.cells_per_pool());
        Self {
            queues: (0..queues).map(|queue| Queue::new(queue as u16, geometry)).collect(),
            crew: Workers { producers, consumers, capacity, gone: vec![false; queues] },
            workers: (0..queues).map(|_| Worker::default()).collect(),
            group: BuddyGroup::new((0..queues).collect(), mode),
            turn: 0,
        }
    }

    /// What the capture thread does with one queue after `arrived` packets.
    fn serve(&mut self, queue: usize, arrived: u64) {
        self.queues[queue].attach();
        for _ in 0..arrived {
            self.queues[queue].arrive();
            self.dispatch(queue, false);
        }
        self.dispatch(queue, true);
    }

    /// Hands over full chunks, and with `all` also what goes to an idle worker.
    fn dispatch(&mut self, queue: usize, all: bool) {
        let Self { queues, crew, group, turn, .. } = self;
        let at = &mut queues[queue];
        while all || at.pool.is_full() {
            let worker = at.dispatcher.next(
                &at.pool,
                queue,
                group,
                |one| crew.load(one),
                |one| crew.is_idle(one),
                false,
            );
            let next = worker.and_then(|worker| Some((worker, at.pool.hand_over()?)));
            let Some((worker, handover)) = next else { break };
            crew.producers[worker].push(*turn, handover).expect("room for every hand-over");
            *turn += 1;
        }
    }

    /// Lets a worker handle packets.
    fn work(&mut self, worker: usize, packets: f64) {
        let at = &mut self.workers[worker];
        at.credit += packets;
        while at.credit >= at.batch_packets {
            at.credit -= at.batch_packets;
            at.batch_packets = 0.0;
            for range in at.batch.drain(..) {
                let mut pools = self.queues.iter_mut().map(|queue| &mut queue.pool);
                let home = pools.find(|pool| pool.number() == range.pool()).expect("a pool of this bench");
                home.recycle(range).expect("the range was captured");
            }
            let Some(handover) = self.crew.consumers[worker].pop() else {
                at.credit = 0.0;
                return;
            };
            at.batch_packets = f64::from(handover.packets);
            at.batch.extend(handover.into_ranges());
        }
    }

    fn lost(&self) -> Vec<u64> {
        self.queues.iter().map(|queue| queue.lost).collect()
    }
}

/// Packets of each queue per millisecond. One queue is hot: it gets twice as many as a worker handles in that
/// time, which is `PACE`. All workers together can handle the traffic. Under miri everything is smaller.
const ARRIVALS: [u64; 6] = if cfg!(miri) { [8, 2, 2, 2, 2, 2] } else { [80, 20, 20, 20, 20, 20] };
const PACE: f64 = if cfg!(miri) { 3.8844 } else { 38.844 };
const M: u32 = if cfg!(miri) { 8 } else { 256 };
const R: u32 = if cfg!(miri) { 20 } else { 100 };
const MILLISECONDS: u64 = if cfg!(miri) { 30 } else { 8_000 };

fn skewed_bench(mode: Mode) -> Bench {
    Bench::new(6, Geometry::new(M, R, 2048).unwrap(), mode)
}

/// Runs the skewed traffic; returns the greatest number of chunks of the hot pool that were away at once.
fn run_skewed(bench: &mut Bench) -> u32 {
    let mut most_away = 0;
    for _ in 0..MILLISECONDS {
        for (queue, arrived) in ARRIVALS.into_iter().enumerate() {
            bench.serve(queue, arrived);
        }
        for worker in 0..bench.workers.len() {
            bench.work(worker, PACE);
        }
        most_away = most_away.max(bench.queues[0].pool.levels().captured_chunks);
    }
    most_away
}

#[test]
fn long_term_skew_costs_nothing_and_a_backlog_keeps_no_more_chunks_than_it_fills() {
    for threshold_percent in if cfg!(miri) { vec![20] } else { vec![0, 20, 60, 80] } {
        let mut bench = skewed_bench(Mode::Advanced { threshold_percent });
        let most_away = run_skewed(&mut bench);
        assert_eq!(bench.lost(), [0; 6], "T = {threshold_percent}");
        // T percent of the pool wait; each worker has a chunk in its hands and up to two in its queue.
        assert!(
            most_away <= u32::from(threshold_percent) * R / 100 + 6 * 3,
            "{most_away} of {R} chunks away"
        );
    }
}

#[cfg(not(miri))] // The test above runs the same code, and 30 ms lose nothing.
#[test]
fn basic_mode_loses_as_many_packets_as_predicted() {
    let mut bench = skewed_bench(Mode::Basic);
    run_skewed(&mut bench);
    let predicted = (ARRIVALS[0] as f64 - PACE) * MILLISECONDS as f64 - f64::from(M * R);
    let lost = bench.lost();
    assert!((lost[0] as f64 - predicted).abs() <= f64::from(2 * M), "{} and {predicted}", lost[0]);
    assert_eq!(lost[1..], [0; 5]);
}

#[test]
fn the_rest_of_a_chunk_follows_its_first_cells_unless_their_worker_is_gone() {
    let mut bench =
        Bench::new(3, Geometry::new(8, 2, 2048).unwrap(), Mode::Advanced { threshold_percent: 0 });
    bench.serve(1, 6);
    bench.serve(0, 2);
    assert_eq!(backlogs(&bench), [2, 6, 0], "idle workers get the packets of their own queues at once");
    bench.serve(0, 3);
    assert_eq!(backlogs(&bench), [2, 6, 0], "over T, but the chunk has begun with worker 0");
    bench.serve(0, 4);
    assert_eq!(backlogs(&bench), [8, 6, 1], "the full chunk follows; the next one goes to a buddy");
    bench.crew.gone[2] = true;
    bench.serve(0, 7);
    assert_eq!(backlogs(&bench), [8, 13, 1], "its worker is gone, so another one is chosen");
}

/// A chunk may hold only the beginning of one packet: none of it is handed over, and yet the next chunk is
/// filled.
#[test]
fn a_chunk_that_holds_no_whole_packet_makes_room_for_the_next() {
    let mut bench = Bench::new(1, Geometry::new(4, 3, 2048).unwrap(), Mode::Basic);
    bench.queues[0].attach();
    let Queue { pool, fill_ring, dispatcher, .. } = &mut bench.queues[0];
    for part in 0..4 {
        let address = fill_ring.pop_front().unwrap();
        let mut filler = pool.filler().unwrap();
        assert!(filler.fill(Descriptor { address, len: 60, more: true, timestamp_ns: part }));
        filler.finish();
    }
    assert!(pool.is_full());
    assert_eq!(
        dispatcher.next(
            pool,
            0,
            &bench.group,
            |one| bench.crew.load(one),
            |one| bench.crew.is_idle(one),
            false
        ),
        Some(0),
        "the chunk is full"
    );
    assert!(pool.hand_over().is_none(), "no whole packet yet");
    assert!(!pool.is_full(), "the next chunk is filled from now on");
    let mut filler = pool.filler().unwrap();
    let address = fill_ring.pop_front().unwrap();
    assert!(filler.fill(Descriptor { address, len: 60, more: false, timestamp_ns: 4 }));
    filler.finish();
    let worker = dispatcher
        .next(pool, 0, &bench.group, |one| bench.crew.load(one), |one| bench.crew.is_idle(one), false)
        .unwrap();
    let handover = pool.hand_over().unwrap();
    assert_eq!((worker, handover.packets, handover.bytes, handover.cells()), (0, 1, 300, 5));
}

fn backlogs(bench: &Bench) -> Vec<u64> {
    (0..bench.workers.len()).map(|worker| bench.crew.load(worker).backlog_cells).collect()
}
