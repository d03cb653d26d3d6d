//! Workers that panic, or leave during the capture.

use std::{panic, thread, time::Duration};

use wirecap::{Capture, Dispatch, Mode, Modes, WaitOutcome, Worker};
use wirecap_traffic::FrameSpec;

use wirecap_testing::{check, crew::Crew, need_root, wait_or_explain, wait_until, wire::Wire};

/// M × R.
const POOL: u64 = 64 * 16;

fn builder(dispatch: Dispatch, mode: Mode) -> wirecap::Builder {
    Capture::builder().cells_per_chunk(64).chunks_per_pool(16).dispatch(dispatch).mode(mode)
}

/// Both dispatches, with packets in cells and in blocks.
fn ways() -> impl Iterator<Item = (Dispatch, Modes)> {
    let both = [Dispatch::Pull, Dispatch::Push].into_iter();
    both.flat_map(|dispatch| [Modes::Copy, Modes::Best].map(|modes| (dispatch, modes)))
}

/// Takes one batch and panics while holding it. Returns the number of packets in it.
fn panic_with_a_batch(mut worker: Worker) -> u64 {
    let thread = thread::spawn(move || {
        let batch = worker.next_batch().expect("a batch");
        // Unlike panic!, this prints nothing on standard error, where it would look like a failure.
        panic::resume_unwind(Box::new(batch.len() as u64));
    });
    let payload: Box<u64> =
        thread.join().expect_err("the worker panicked").downcast().expect("a number of packets");
    *payload
}

#[test]
fn buddies_take_over_from_a_worker_that_panicked() {
    need_root!("worker_end::buddies_take_over_from_a_worker_that_panicked");
    for (dispatch, modes) in ways() {
        let wire = Wire::with_queues("panic", 2);
        let mut capture = wire.capture(builder(dispatch, Mode::advanced(60).unwrap()).modes(modes));
        let mut workers = capture.take_workers();
        let mut sender = wire.queue_sender(0, FrameSpec::default());
        sender.send(1);
        assert_eq!(panic_with_a_batch(workers.remove(0)), 1);

        // Worker 1 remains, and gets all of queue 0, several pools' worth.
        let crew = Crew::eager(workers);
        sender.send_while(4 * POOL, |sent| sent > crew.arrived() + POOL / 4);
        crew.wait_for(4 * POOL);
        capture.stopper().stop();
        let arrivals = crew.join();
        let report = capture.finish();
        let account = check::account_closed(&report);
        assert_eq!((account.delivered, account.lost.total()), (1 + 4 * POOL, 0), "{dispatch:?}, {modes:?}");
        assert_eq!(report.workers[1].offloaded_in, 4 * POOL);
        check::increasing(&check::intact(&arrivals, FrameSpec::default()));
        check::pools_whole(&report);
        check::mode(&report, modes);
    }
}

#[test]
fn packets_that_wait_for_a_leaving_worker_are_taken_over() {
    need_root!("worker_end::packets_that_wait_for_a_leaving_worker_are_taken_over");
    for (dispatch, modes) in ways() {
        let wire = Wire::with_queues("backlog", 2);
        let mut capture = wire.capture(builder(dispatch, Mode::advanced(90).unwrap()).modes(modes));
        let mut workers = capture.take_workers();
        let mut sender = wire.queue_sender(0, FrameSpec::default());
        sender.send(POOL / 4);
        wait_until("all frames are seen", || capture.report().total().seen == POOL / 4);
        drop(workers.remove(0));

        let crew = Crew::eager(workers);
        crew.wait_for(POOL / 4);
        wait_until("all cells are home", || capture.report().pool_used_percent() == 0.0);
        // Several pools' worth pass again, a quarter at a time.
        let (before, first) = (crew.arrived(), sender.sent());
        sender.send_while(4 * POOL, |sent| sent - first > crew.arrived() - before + POOL / 4 - 64);
        crew.wait_for(before + 4 * POOL);
        capture.stopper().stop();
        let arrivals = crew.join();
        let report = capture.finish();
        check::mode(&report, modes);
        let account = check::account_closed(&report);
        assert_eq!((account.delivered, account.lost.total()), (sender.sent(), 0), "{dispatch:?}, {modes:?}");
        check::increasing(&check::intact(&arrivals, FrameSpec::default()));
    }
}

#[test]
fn a_pool_of_one_chunk_circulates_without_its_worker() {
    need_root!("worker_end::a_pool_of_one_chunk_circulates_without_its_worker");
    // The worker that leaves has one queue, or two, of which one has no packets.
    let both = [Dispatch::Pull, Dispatch::Push].into_iter();
    for (dispatch, queues) in both.flat_map(|dispatch| [(dispatch, 2), (dispatch, 4)]) {
        let wire = Wire::with_queues("one", queues);
        let builder = builder(dispatch, Mode::advanced(60).unwrap()).chunks_per_pool(1).workers(2);
        let mut capture = wire.capture(builder);
        let mut workers = capture.take_workers();
        drop(workers.remove(0));
        let crew = Crew::eager(workers);
        let mut sender = wire.queue_sender(0, FrameSpec::default());
        // Each cell has to be given back several times. One packet at a time, and it may be lost: all cells
        // may be home already, and wait to be given to the kernel.
        let lost = || capture.report().total().lost.total();
        while crew.arrived() < 5 * 64 {
            sender.send(1);
            let explain =
                || format!("packet {}, {dispatch:?}, {queues} queues: {:?}", sender.sent(), capture.report());
            wait_or_explain(explain, || crew.arrived() + lost() >= sender.sent());
            assert!(lost() <= crew.arrived() + POOL, "{}", explain());
        }
        wait_until("all cells are home", || capture.report().pool_used_percent() == 0.0);
        capture.stopper().stop();
        let arrivals = crew.join();
        let report = capture.finish();
        // Blocks take at least two.
        check::mode(&report, Modes::Copy);
        let account = check::account_closed(&report);
        assert_eq!(account.delivered, 5 * 64, "{dispatch:?}");
        check::each_once(check::intact(&arrivals, FrameSpec::default()), sender.sent(), account.lost.total());
    }
}

#[test]
fn in_basic_mode_the_queue_of_a_gone_worker_fills_up() {
    need_root!("worker_end::in_basic_mode_the_queue_of_a_gone_worker_fills_up");
    for dispatch in [Dispatch::Pull, Dispatch::Push] {
        let wire = Wire::with_queues("gone", 2);
        let mut capture = wire.capture(builder(dispatch, Mode::Basic).modes(Modes::Copy));
        let mut workers = capture.take_workers();
        let mut worker = workers.remove(0);
        let mut lonely = wire.queue_sender(0, FrameSpec::default());
        lonely.send(1);
        wait_until("the first frame", || {
            matches!(worker.next_batch_within(Duration::from_millis(1)), WaitOutcome::Batch(_))
        });
        drop(worker);

        let crew = Crew::eager(workers);
        lonely.send(2 * POOL);
        wire.queue_sender(1, FrameSpec::default()).send(500);
        crew.wait_for(500);
        wait_until("all frames are seen", || capture.report().total().seen == lonely.sent() + 500);
        capture.stopper().stop();
        assert_eq!(crew.join().len(), 500);
        let report = capture.finish();
        check::account_closed(&report);
        let [gone, other] = &report.ports[0].queues[..] else { panic!("two queues") };
        let (gone, other) = (gone.account, other.account);
        assert_eq!((gone.seen, gone.delivered), (1 + 2 * POOL, 1), "{dispatch:?}");
        assert_eq!(gone.lost.no_free_cell + gone.lost.left_at_stop, 2 * POOL);
        // The first packet's cell may or may not have been home in time.
        assert!((POOL - 64..=POOL).contains(&gone.lost.left_at_stop), "{gone:?}");
        assert_eq!((other.delivered, other.lost.total()), (500, 0));
    }
}

#[test]
fn a_capture_ends_although_every_worker_panicked() {
    need_root!("worker_end::a_capture_ends_although_every_worker_panicked");
    for (dispatch, modes) in ways() {
        let wire = Wire::with_queues("all", 2);
        let mut capture = wire.capture(builder(dispatch, Mode::advanced(0).unwrap()).modes(modes));
        let workers = capture.take_workers();
        let mut delivered = 0;
        for (queue, worker) in workers.into_iter().enumerate() {
            wire.queue_sender(queue as u16, FrameSpec::default()).send(10);
            delivered += panic_with_a_batch(worker);
        }
        // Finishing must not wait for workers that are gone.
        let report = capture.finish();
        check::mode(&report, modes);
        let account = check::account_closed(&report);
        assert_eq!((account.seen, account.delivered), (20, delivered), "{dispatch:?}, {modes:?}");
        assert_eq!(account.lost.left_at_stop, 20 - delivered);
    }
}
