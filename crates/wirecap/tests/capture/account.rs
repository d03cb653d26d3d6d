//! Every frame sent arrives once, in order, intact, and is accounted for.

use std::thread;

use wirecap::{Capture, Dispatch, Mode};
use wirecap_traffic::FrameSpec;

use wirecap_testing::{
    check,
    crew::{Arrival, Crew},
    kernel_is_at_least, need_root, wait_until,
    wire::Wire,
};

/// Live frames per test.
const FRAMES: u64 = 100_000;
/// Live frames at once: a pool holds three times as many, so it cannot overflow even while the cells of the
/// previous burst are still on their way home.
const BURST: u64 = 5_000;
/// Frames into each queue for which no core of a small machine generates frames.
const EXTRA: u64 = 1_000;
const SPEC: fn() -> FrameSpec = FrameSpec::default;

#[test]
fn pull_basic() {
    need_root!("account::pull_basic");
    captures_everything(Dispatch::Pull, Mode::Basic, 1);
    captures_everything(Dispatch::Pull, Mode::Basic, 4);
}

#[test]
fn pull_advanced() {
    need_root!("account::pull_advanced");
    captures_everything(Dispatch::Pull, Mode::Advanced { threshold_percent: 60 }, 1);
    captures_everything(Dispatch::Pull, Mode::Advanced { threshold_percent: 60 }, 4);
}

#[test]
fn push_basic() {
    need_root!("account::push_basic");
    captures_everything(Dispatch::Push, Mode::Basic, 1);
    captures_everything(Dispatch::Push, Mode::Basic, 4);
}

#[test]
fn push_advanced() {
    need_root!("account::push_advanced");
    captures_everything(Dispatch::Push, Mode::Advanced { threshold_percent: 60 }, 1);
    captures_everything(Dispatch::Push, Mode::Advanced { threshold_percent: 60 }, 4);
}

#[test]
fn fewer_workers_than_queues_with_several_capture_threads() {
    need_root!("account::fewer_workers_than_queues_with_several_capture_threads");
    let wire = Wire::with_queues("threads", 4);
    for (dispatch, workers, threads) in
        [(Dispatch::Pull, 2, 1), (Dispatch::Pull, 3, 1), (Dispatch::Push, 2, 4), (Dispatch::Push, 6, 3)]
    {
        let builder = Capture::builder().chunks_per_pool(8).dispatch(dispatch).workers(workers);
        let mut capture = wire.capture(builder.capture_threads(threads));
        let crew = Crew::eager(capture.take_workers());
        for queue in 0..4 {
            wire.queue_sender(queue, SPEC()).send(EXTRA);
        }
        crew.wait_for(4 * EXTRA);
        capture.stopper().stop();
        let arrivals = crew.join();
        let report = capture.finish();
        assert_eq!(check::account_closed(&report).delivered, 4 * EXTRA, "{dispatch:?}, {workers} workers");
        for packets in check::in_order(&arrivals).values() {
            check::increasing(&check::intact(packets.iter().copied(), SPEC()));
        }
    }
}

fn captures_everything(dispatch: Dispatch, mode: Mode, queues: u32) {
    let wire = Wire::with_queues("account", queues);
    let builder = Capture::builder().chunks_per_pool(64).dispatch(dispatch).mode(mode);
    let mut capture = wire.capture(builder);
    let crew = Crew::eager(capture.take_workers());

    // Live frames enter the queue of the core they are generated on. Old kernels make none.
    let live = if kernel_is_at_least(5, 18) { FRAMES } else { 0 };
    let cores =
        if live > 0 { thread::available_parallelism().unwrap().get().min(queues as usize) } else { 0 };
    let mut generator = wire.generator(SPEC());
    let (mut taken, mut dropped) = (0, 0);
    for burst in 0..live / BURST {
        let sent = wire.live(&mut generator, burst as usize % cores, BURST);
        taken += BURST - sent.dropped;
        dropped += sent.dropped;
        crew.wait_for(taken);
    }
    let extra = u64::from(queues) - cores as u64;
    for queue in cores as u16..queues as u16 {
        wire.queue_sender(queue, SPEC()).send(EXTRA);
    }
    crew.wait_for(taken + extra * EXTRA);
    wait_until("all cells are home", || capture.report().pool_used_percent() == 0.0);
    capture.stopper().stop();

    let arrivals = crew.join();
    let report = capture.finish();
    let account = check::account_closed(&report);
    assert_eq!(account.seen, taken + extra * EXTRA, "every frame that the wire took was seen");
    assert_eq!(account.delivered, account.seen, "{report:#?}");
    check::pools_whole(&report);
    check_frames(&arrivals, cores, queues, live - dropped);
}

/// Checks the frames of the live generator in the queues of the cores, numbered across them, and in the other
/// queues the frames numbered per queue.
fn check_frames(arrivals: &[Arrival], cores: usize, queues: u32, live: u64) {
    let by_queue = check::in_order(arrivals);
    assert_eq!(by_queue.len(), queues as usize);
    let mut of_cores = Vec::new();
    for (&(port, queue), packets) in &by_queue {
        let sequences = check::intact(packets.iter().copied(), SPEC());
        check::increasing(&sequences);
        assert_eq!(port, 0);
        if usize::from(queue) < cores {
            of_cores.extend(sequences);
        } else {
            check::each_once(sequences, EXTRA, 0);
        }
    }
    check::each_once(of_cores, FRAMES, FRAMES - live);
}
