//! Horizons: every promise about future packets is kept.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use wirecap::{Builder, Capture, Dispatch, Horizon, Mode, Modes, Report, Timestamp};
use wirecap_traffic::FrameSpec;

use wirecap_testing::{check, crew::Crew, need_root, wait_until, wire::Wire};

/// A burst of each length, each followed by a pause.
const BURSTS: u64 = 50;
const FRAMES: u64 = BURSTS * (BURSTS + 1) / 2;
const QUEUES: u16 = 2;

/// Captures while a thread asks for horizons, and checks that every promise was kept.
fn keeps_its_promises(label: &str, port: &str, builder: Builder) -> Report {
    let wire = Wire::with_queues(label, u32::from(QUEUES));
    let builder = builder.mode(Mode::Advanced { threshold_percent: 0 }).workers(2).port(port);
    let mut capture = wire.inside.enter(|| builder.open()).unwrap();
    let horizons = capture.horizons();
    let crew = Crew::eager(capture.take_workers());
    let done = AtomicBool::new(false);
    let promises: Vec<(u16, Horizon)> = thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut promises = Vec::new();
            while !done.load(Ordering::Relaxed) {
                let each = (0..QUEUES).filter_map(|queue| Some((queue, horizons.of(0, queue)?)));
                promises.extend(each);
                thread::sleep(Duration::from_micros(50));
            }
            promises
        });
        let mut senders: Vec<_> =
            (0..QUEUES).map(|queue| wire.queue_sender(queue, FrameSpec::default())).collect();
        for frames in 1..=BURSTS {
            senders.iter_mut().for_each(|sender| sender.send(frames));
            // Partly filled blocks are handed over, and some queue has nothing waiting.
            thread::sleep(Duration::from_millis(10));
        }
        crew.wait_for(FRAMES * u64::from(QUEUES));
        done.store(true, Ordering::Relaxed);
        asking.join().unwrap()
    });
    capture.stopper().stop();
    let arrivals = crew.join();
    for queue in 0..QUEUES {
        let horizon = horizons.of(0, queue).expect("nothing waits at the end");
        assert_eq!(horizon.time_ns, u64::MAX);
    }
    let report = capture.finish();
    check::account_closed(&report);

    let queues = check::in_order(&arrivals);
    let mut between = 0;
    for (queue, horizon) in promises {
        let Some(packets) = queues.get(&(0, queue)) else { continue };
        if let Some(next) = packets.get(horizon.number as usize) {
            assert!(next.timestamp_ns > horizon.time_ns, "{queue}: {horizon:?}, and then {next:?}");
            between += u64::from(horizon.number > 0);
        }
    }
    assert!(between > 0, "no promise was made while packets came");
    report
}

/// Stops a capture whose worker has taken nothing yet, and asks for the horizon before each batch: the next
/// batch keeps the promise.
fn keeps_its_promises_after_a_stop(port: &str, builder: Builder) -> Report {
    const FRAMES: u64 = 500;
    let wire = Wire::with_queues("stopped", 1);
    let builder = builder.cells_per_chunk(64).chunks_per_pool(16).workers(1);
    let mut capture = wire.capture_of(port, builder);
    let (horizons, mut worker) = (capture.horizons(), capture.take_workers().remove(0));
    wire.queue_sender(0, FrameSpec::default()).send(FRAMES);
    wait_until("all frames are seen", || capture.report().total().seen >= FRAMES);
    capture.stopper().stop();
    let mut taken = 0;
    loop {
        let horizon = horizons.of(0, 0);
        let Some(batch) = worker.next_batch() else { break };
        let first = batch.packets().next().expect("a batch is not empty");
        let is_kept = horizon.is_none_or(|horizon| first.timestamp_ns() > horizon.time_ns);
        assert!(is_kept, "{port}: {horizon:?} after {taken} packets, and then {first:?}");
        taken += batch.len() as u64;
    }
    assert_eq!(horizons.of(0, 0), Some(Horizon { number: taken, time_ns: u64::MAX }), "{port}");
    drop(worker);
    let report = capture.finish();
    assert_eq!(check::account_closed(&report).delivered, taken, "{port}");
    assert!(taken >= FRAMES, "{port}: {taken}");
    report
}

#[test]
fn after_a_stop_waiting_packets_are_still_to_come() {
    need_root!("horizon::after_a_stop_waiting_packets_are_still_to_come");
    for modes in [Modes::Copy, Modes::Best] {
        let builder = || Capture::builder().modes(modes);
        for (port, builder) in [
            ("xdp:in0", builder()),
            ("xdp:in0", builder().timestamp(Timestamp::Kernel)),
            // A filter in user space keeps packets in a separate place.
            ("xdp:in0", builder().filter("not protochain 99")),
            ("xdp:in0@0", builder()),
        ] {
            check::mode(&keeps_its_promises_after_a_stop(port, builder), modes);
        }
    }
    keeps_its_promises_after_a_stop("packet:in0", Capture::builder());
}

#[test]
fn of_an_interface_that_is_taken() {
    need_root!("horizon::of_an_interface_that_is_taken");
    for modes in [Modes::Copy, Modes::Best] {
        let builder = || Capture::builder().chunks_per_pool(16).modes(modes);
        for (label, builder) in [
            ("taken_pull", builder()),
            ("taken_push", builder().dispatch(Dispatch::Push)),
            ("taken_stamped", builder().timestamp(Timestamp::Kernel)),
        ] {
            check::mode(&keeps_its_promises(label, "xdp:in0", builder), modes);
        }
    }
}

#[test]
fn of_an_interface_that_the_host_keeps() {
    need_root!("horizon::of_an_interface_that_the_host_keeps");
    keeps_its_promises("beside", "packet:in0", Capture::builder().chunks_per_pool(16));
}
