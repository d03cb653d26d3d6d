//! The work-queue pair and the hand-over of a chunk under the loom model checker: every
//! interleaving and every allowed reordering at small sizes.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p wirecap-core --release loom`

use loom::thread;

use crate::{
    CaptureQueues, Geometry, Orphans, Pool, PoolId, RecycleQueue, capture_queue,
    chunk::{ChunkRange, Handover, PoolNumber},
    slots::Descriptor,
    sync::{Arc, AtomicBool, Ordering},
};

const ID: PoolId = PoolId { nic_id: 0, ring_id: 0 };

fn handover(index: u32, lead: bool) -> Handover {
    let range = |first| ChunkRange::new(PoolNumber::of_test(0), first, 1);
    Handover {
        lead: lead.then(|| range(index + 100)),
        range: range(index),
        first_number: u64::from(index),
        packets: 1,
        bytes: 60,
        uncertainty_ns: 0,
    }
}

/// Everything pushed is popped once, in order, whole; a full queue gives the token back.
#[test]
fn loom_capture_queue() {
    loom::model(|| {
        let (mut producer, mut consumer) = capture_queue(2);
        let pusher = thread::spawn(move || {
            let mut pushed = 0;
            for chunk_id in 0..3 {
                match producer.push(chunk_id.into(), handover(chunk_id, chunk_id == 1)) {
                    Ok(()) => pushed |= 1 << chunk_id,
                    Err(back) => assert_eq!(back, handover(chunk_id, chunk_id == 1)),
                }
            }
            (pushed, producer)
        });
        let mut popped = Vec::new();
        for _ in 0..2 {
            popped.extend(consumer.pop());
        }
        let (pushed, producer) = pusher.join().unwrap();
        popped.extend(std::iter::from_fn(|| consumer.pop()));
        let expected: Vec<_> =
            (0..3).filter(|id| pushed & (1 << id) != 0).map(|id| handover(id, id == 1)).collect();
        assert_eq!(popped, expected);
        assert!(producer.is_empty());
        assert_eq!(consumer.backlog_cells(), 0);
    });
}

/// Bounds the switches between threads, so that a test with loops takes seconds; two switches are enough to
/// find any missing release or acquire here (tried by weakening each).
fn bounded_model(test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(test);
}

/// Two workers recycle while the owner takes: each range arrives exactly once, and its node can be used
/// again.
#[test]
fn loom_recycle_queue() {
    bounded_model(|| {
        let pool = Pool::new(ID, Geometry::new(2, 1, 2048).unwrap(), 0);
        let (queue, number) = (Arc::new(RecycleQueue::new(&pool)), pool.number());
        let range = move |first| ChunkRange::new(number, first, 1);
        let workers: Vec<_> = (0..2)
            .map(|first| {
                let queue = Arc::clone(&queue);
                thread::spawn(move || {
                    queue.push(range(first)).unwrap();
                    first == 0 && queue.push(range(first)).is_ok()
                })
            })
            .collect();
        let mut taken = [0u32; 2];
        while taken.iter().sum::<u32>() < 2 {
            queue.take_all(|range| taken[range.first() as usize] += 1);
            thread::yield_now();
        }
        let again = workers.into_iter().map(|worker| worker.join().unwrap()).filter(|&ok| ok).count() as u32;
        queue.take_all(|range| taken[range.first() as usize] += 1);
        assert_eq!(taken, [1 + again, 1]);
        assert!(queue.is_empty());
    });
}

/// The whole cycle of a chunk: filled by the owner, handed to a worker, read there, recycled, filled again.
/// The worker must see what was written for it, never what is written later.
#[test]
fn loom_chunk_hand_over() {
    bounded_model(|| {
        let geometry = Geometry::new(1, 1, 2048).unwrap();
        let mut pool = Pool::new(ID, geometry, 0);
        let slots = pool.slots();
        let recycle = Arc::new(RecycleQueue::new(&pool));
        let (mut producer, mut consumer) = capture_queue(2);
        let worker = {
            let recycle = Arc::clone(&recycle);
            thread::spawn(move || {
                let mut seen = 0;
                while seen < 2 {
                    let Some(handover) = consumer.pop() else {
                        thread::yield_now();
                        continue;
                    };
                    let slot = slots.get(&handover.range, 0).unwrap();
                    assert_eq!(u64::from(slot.len), handover.first_number + 1);
                    recycle.push(handover.range).unwrap();
                    seen += 1;
                }
            })
        };
        let mut filled = 0;
        while filled < 2 {
            recycle.take_all(|range| pool.recycle(range).unwrap());
            pool.attach(1, |_| ());
            if pool.space() > 0 {
                filled += 1;
                let mut filler = pool.filler().unwrap();
                assert!(filler.fill(Descriptor { address: 256, len: filled, more: false, timestamp_ns: 0 }));
                filler.finish();
                producer.push(filled.into(), pool.hand_over().unwrap()).unwrap();
            }
            thread::yield_now();
        }
        worker.join().unwrap();
        recycle.take_all(|range| pool.recycle(range).unwrap());
        assert_eq!(pool.levels().outstanding_cells, 0);
        assert_eq!(pool.refused(), 0);
    });
}

/// A worker keeps one cell of a chunk and recycles the other, which is filled again as a run: the worker sees
/// what was written for it, and the kept cell stays unchanged.
#[test]
fn loom_run_hand_over() {
    bounded_model(|| {
        let geometry = Geometry::new(2, 1, 2048).unwrap();
        let mut pool = Pool::new(ID, geometry, 0);
        pool.allow_runs(1);
        let slots = pool.slots();
        let recycle = Arc::new(RecycleQueue::new(&pool));
        let (mut producer, mut consumer) = capture_queue(2);
        let worker = {
            let recycle = Arc::clone(&recycle);
            thread::spawn(move || {
                let mut next = || loop {
                    match consumer.pop() {
                        Some(handover) => return handover,
                        None => thread::yield_now(),
                    }
                };
                let (kept, rest) = next().range.split_at(1);
                recycle.push(rest.expect("two cells")).unwrap();
                let again = next().range;
                assert_eq!((again.first(), again.count()), (1, 1));
                let lengths = [&kept, &again].map(|range| slots.get(range, 0).unwrap().len);
                assert_eq!(lengths, [1, 3]);
                recycle.push(kept).unwrap();
                recycle.push(again).unwrap();
            })
        };
        let mut filled = 0;
        while filled < 3 {
            recycle.take_all(|range| pool.recycle(range).unwrap());
            pool.attach(2, |_| ());
            while pool.space() > 0 {
                filled += 1;
                let mut filler = pool.filler().unwrap();
                assert!(filler.fill(Descriptor { address: 256, len: filled, more: false, timestamp_ns: 0 }));
                filler.finish();
                if pool.is_full() {
                    producer.push(filled.into(), pool.hand_over().unwrap()).unwrap();
                }
            }
            thread::yield_now();
        }
        worker.join().unwrap();
        recycle.take_all(|range| pool.recycle(range).unwrap());
        assert_eq!((pool.levels().free_chunks, pool.refused()), (1, 0));
    });
}

/// A worker leaves while a capture thread pushes: its buddy gets everything in order, although hand-overs
/// pushed after the thread saw the mark go to the buddy's own queue.
#[test]
fn loom_an_heir_takes_over_in_order() {
    bounded_model(|| {
        let (mut to_leaver, left) = capture_queue(2);
        let (mut to_heir, inherits) = capture_queue(2);
        let (orphans, gone) = (Arc::new(Orphans::default()), Arc::new(AtomicBool::new(false)));
        let capture_thread = {
            let gone = Arc::clone(&gone);
            thread::spawn(move || {
                for turn in 0..2 {
                    let is_gone = gone.load(Ordering::Acquire);
                    let destination = if is_gone { &mut to_heir } else { &mut to_leaver };
                    destination.push(turn, handover(turn as u32, false)).unwrap();
                }
            })
        };
        let leaver = {
            let (orphans, gone) = (Arc::clone(&orphans), Arc::clone(&gone));
            thread::spawn(move || orphans.leave(0, CaptureQueues::new(vec![left]), &gone))
        };
        let mut heir = CaptureQueues::new(vec![inherits]);
        let mut taken = Vec::new();
        for _ in 0..2 {
            taken.extend(heir.pop(0, &orphans));
        }
        capture_thread.join().unwrap();
        leaver.join().unwrap();
        taken.extend(std::iter::from_fn(|| heir.pop(0, &orphans)));
        assert_eq!(taken, [handover(0, false), handover(1, false)]);
        assert!(heir.is_empty() && !orphans.wait_for(0));
    });
}
