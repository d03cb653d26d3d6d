//! The ways of waiting: packets that come one at a time arrive, and waiting for them costs little, in silence
//! nothing. This is a separate test binary because it measures the CPU time of the whole process, so no two
//! tests run at the same time. Needs root; without, each test reports that and returns.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use wirecap::{Builder, Capture, Dispatch, Mode, Modes, Report, Wait, WaitOutcome, report::QueueMode};
use wirecap_testing::{
    check,
    cpu_time::{least_share, process_cpu_seconds},
    crew::Crew,
    gate::Gate,
    kernel_is_at_least, need_root, wait_until,
    wire::{Wire, give_it_a_chance},
};
use wirecap_traffic::FrameSpec;

/// The longest time for a packet on a busy machine. Waiting itself takes a hundredth of it at most.
const BOUND: Duration = Duration::from_secs(2);
/// A window in which the CPU time of idle threads is measured.
const IDLE: Duration = Duration::from_millis(500);
/// The share of a core that waiting may take soon after a packet, and after a while of silence.
const IDLE_SHARE: f64 = 0.25;
const SILENCE_SHARE: f64 = 0.01;
const PACKETS: u64 = 20;

/// Held by the test that runs.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn single_packets_arrive_and_idling_is_cheap() {
    need_root!("waits::single_packets_arrive_and_idling_is_cheap");
    let _alone = alone();
    let wire = Wire::with_queues("waits", 2);
    for wait in [Wait::Busy, Wait::Sleep, Wait::Block] {
        for dispatch in [Dispatch::Pull, Dispatch::Push] {
            let mut capture = wire.capture(Capture::builder().wait(wait).dispatch(dispatch));
            let crew = Crew::eager(capture.take_workers());
            let mut senders = [0, 1].map(|queue| wire.queue_sender(queue, FrameSpec::default()));
            for packet in 0..PACKETS {
                let begun = Instant::now();
                senders[packet as usize % 2].send(1);
                crew.wait_for(packet + 1);
                assert!(begun.elapsed() < BOUND, "{wait:?} {dispatch:?}: {:?}", begun.elapsed());
            }

            if wait != Wait::Busy {
                let share = least_share(process_cpu_seconds, IDLE, IDLE_SHARE);
                assert!(
                    share < IDLE_SHARE,
                    "{wait:?} {dispatch:?}: {:.0} % of a core while idle",
                    share * 100.0
                );
            }

            let begun = Instant::now();
            capture.stopper().stop();
            let arrivals = crew.join();
            assert!(begun.elapsed() < BOUND, "{wait:?} {dispatch:?}: ended after {:?}", begun.elapsed());
            let report = capture.finish();
            assert_eq!(check::account_closed(&report).delivered, PACKETS, "{wait:?} {dispatch:?}");
            assert_eq!(check::in_order(&arrivals).len(), 2);
            check::intact(&arrivals, FrameSpec::default());
        }
    }
}

/// Captures four queues: first nothing, then a burst of a whole pool at once.
fn waits_for_nothing(wire: &Wire, port: &str, builder: Builder, pool: u64, what: &str) -> Report {
    let mut capture = wire.capture_of(port, builder);
    let crew = Crew::eager(capture.take_workers());
    // Until the effects of the start are over.
    give_it_a_chance();
    let share = least_share(process_cpu_seconds, Duration::from_secs(1), SILENCE_SHARE);
    assert!(share < SILENCE_SHARE, "{what}: {:.2} % of a core in silence", share * 100.0);

    let mut sender = wire.queue_sender(3, FrameSpec::default());
    let burst = if port.starts_with("xdp") {
        let sent = wire.live(&mut wire.generator(FrameSpec::default()), 0, pool);
        sent.frames - sent.dropped
    } else {
        // Live frames do not reach the host.
        sender.send(pool.min(4096));
        sender.sent()
    };
    crew.wait_for(burst);
    // Then more than the pool, as fast as it is taken.
    let before = burst - sender.sent();
    sender.send_while(2 * pool.min(4096), |sent| before + sent > crew.arrived() + pool / 4);
    crew.wait_for(before + sender.sent());
    capture.stopper().stop();
    crew.join();
    let report = capture.finish();
    let account = check::account_closed(&report);
    assert_eq!((account.delivered, account.lost.total()), (before + sender.sent(), 0), "{what}");
    report
}

#[test]
fn silence_takes_no_cpu_time_and_a_burst_after_it_is_not_lost() {
    need_root!("waits::silence_takes_no_cpu_time_and_a_burst_after_it_is_not_lost");
    let _alone = alone();
    let wire = Wire::with_queues("silence", 4);
    let taken = [
        (Dispatch::Pull, 4, Wait::Sleep),
        (Dispatch::Pull, 2, Wait::Block),
        (Dispatch::Push, 3, Wait::Sleep),
    ];
    let taken = taken
        .into_iter()
        .flat_map(|way| [("xdp:in0", Some(Modes::Copy), way), ("xdp:in0", Some(Modes::Best), way)]);
    let kept = ["packet:in0", "tap:in0"].map(|port| (port, None, (Dispatch::Pull, 4, Wait::Sleep)));
    let kept = kept.into_iter().filter(|(port, ..)| *port != "tap:in0" || kernel_is_at_least(6, 6));
    let ways: Vec<_> = taken.chain(kept).collect();
    for (cells, chunks) in [(64, 4), (256, 8), (256, 128)] {
        for (port, modes, (dispatch, workers, wait)) in &ways {
            let builder = Capture::builder().cells_per_chunk(cells).chunks_per_pool(chunks);
            let builder =
                builder.dispatch(*dispatch).workers(*workers).wait(*wait).modes(modes.unwrap_or_default());
            let what = format!(
                "M = {cells}, R = {chunks}, {port}, {modes:?}, {dispatch:?}, {workers} workers, {wait:?}"
            );
            let report = waits_for_nothing(&wire, port, builder, u64::from(cells * chunks), &what);
            if let Some(modes) = modes {
                check::mode(&report, *modes);
            }
        }
    }
}

/// Worker 0 stalls with a batch in its hands. The next packets are for its buddy, which has been waiting in
/// the kernel.
#[test]
fn a_buddy_that_waits_in_the_kernel_helps() {
    need_root!("waits::a_buddy_that_waits_in_the_kernel_helps");
    let _alone = alone();
    // The packets that a pool holds, about: a cell for each, or 104 bytes of a block.
    let ways = [(Modes::Copy, 64 * 16), (Modes::Best, 16_000)];
    for (dispatch, (modes, pool)) in
        [Dispatch::Pull, Dispatch::Push].into_iter().flat_map(|dispatch| ways.map(|way| (dispatch, way)))
    {
        let wire = Wire::with_queues("dozing", 2);
        let builder = Capture::builder().cells_per_chunk(64).chunks_per_pool(16).dispatch(dispatch);
        let builder = builder.modes(modes);
        let mut capture = wire.capture(builder.mode(Mode::advanced(20).unwrap()));
        let gate = Gate::closed();
        let at_gate = gate.clone();
        let crew = Crew::start(capture.take_workers(), move |worker, _| {
            if worker == 0 {
                at_gate.pass();
            }
        });
        let mut sender = wire.queue_sender(0, FrameSpec::default());
        sender.send(1);
        give_it_a_chance();
        sender.send_while(4 * pool, |sent| sent > crew.arrived() + pool / 2);
        gate.open();
        crew.wait_for(sender.sent());
        capture.stopper().stop();
        crew.join();
        let report = capture.finish();
        let account = check::account_closed(&report);
        assert_eq!((account.delivered, account.lost.total()), (sender.sent(), 0), "{dispatch:?}");
        assert!(report.workers[1].offloaded_in >= pool, "{dispatch:?}, {modes}: {report:#?}");
    }
}

/// The kernel has no cell left, so no packet wakes any thread; cells that come home are still given to the
/// kernel.
#[test]
fn cells_that_come_home_in_silence_are_given_to_the_kernel() {
    need_root!("waits::cells_that_come_home_in_silence_are_given_to_the_kernel");
    const POOL: u64 = 64 * 4;
    let _alone = alone();
    for dispatch in [Dispatch::Pull, Dispatch::Push] {
        let wire = Wire::with_queues("home", 1);
        let builder = Capture::builder().cells_per_chunk(64).chunks_per_pool(4).dispatch(dispatch);
        let mut capture = wire.capture(builder.modes(Modes::Copy));
        let mut worker = capture.take_workers().remove(0);
        let mut sender = wire.queue_sender(0, FrameSpec::default());
        sender.send(POOL);
        let (mut held, mut taken) = (Vec::new(), 0);
        wait_until("the worker has all of the pool", || {
            if let WaitOutcome::Batch(batch) = worker.next_batch_within(Duration::from_millis(1)) {
                taken += batch.len() as u64;
                held.push(batch);
            }
            taken == POOL
        });
        let crew = Crew::eager(vec![worker]);
        give_it_a_chance();
        assert_eq!(capture.report().pool_used_percent(), 100.0, "{dispatch:?}");
        drop(held);
        wait_until("all cells are home", || capture.report().pool_used_percent() == 0.0);
        sender.send(POOL);
        crew.wait_for(POOL);
        capture.stopper().stop();
        crew.join();
        let account = check::account_closed(&capture.finish());
        assert_eq!((account.delivered, account.lost.total()), (2 * POOL, 0), "{dispatch:?}");
    }
}

/// The same with blocks: the program has none, so no packet wakes any thread.
#[test]
fn blocks_that_come_home_in_silence_are_given_to_the_program() {
    need_root!("waits::blocks_that_come_home_in_silence_are_given_to_the_program");
    let _alone = alone();
    for dispatch in [Dispatch::Pull, Dispatch::Push] {
        let wire = Wire::with_queues("home", 1);
        let builder = Capture::builder().cells_per_chunk(64).chunks_per_pool(4).dispatch(dispatch);
        let mut capture = wire.capture(builder);
        if capture.report().ports[0].queues[0].mode != QueueMode::Packed {
            let test = "waits::blocks_that_come_home_in_silence_are_given_to_the_program";
            return wirecap_lab::skip(test, "packets are not packed on this kernel (Linux 6.3)");
        }
        let mut worker = capture.take_workers().remove(0);
        let mut sender = wire.queue_sender(0, FrameSpec::default());
        let mut held = Vec::new();
        let mut take = || {
            while let WaitOutcome::Batch(batch) = worker.next_batch_within(Duration::from_millis(10)) {
                held.push(batch);
            }
        };
        wait_until("the worker has all blocks", || {
            sender.send(256);
            take();
            capture.report().total().lost.no_free_block > 0
        });
        take();
        let crew = Crew::eager(vec![worker]);
        give_it_a_chance();
        let lost = capture.report().total().lost.no_free_block;
        drop(held);
        wait_until("blocks are home", || capture.report().pool_used_percent() < 50.0);
        sender.send(1_000);
        crew.wait_for(1_000);
        capture.stopper().stop();
        crew.join();
        let account = check::account_closed(&capture.finish());
        assert_eq!(account.lost.total(), lost, "{dispatch:?}");
        assert_eq!(account.delivered, sender.sent() - lost, "{dispatch:?}");
    }
}
