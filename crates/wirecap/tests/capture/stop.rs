//! The end of a capture: packets captured before it are delivered, or counted.

use wirecap::{Capture, Dispatch, Mode, port::null::NullPort};
use wirecap_traffic::FrameSpec;

use wirecap_testing::{check, crew::Crew, gate::Gate, need_root, wait_until, wire::Wire};

const FRAMES: u64 = 700;

fn builder(dispatch: Dispatch) -> wirecap::Builder {
    Capture::builder().cells_per_chunk(64).chunks_per_pool(16).dispatch(dispatch)
}

#[test]
fn workers_get_the_packets_captured_before_the_stop() {
    need_root!("stop::workers_get_the_packets_captured_before_the_stop");
    for dispatch in [Dispatch::Pull, Dispatch::Push] {
        for mode in [Mode::Basic, Mode::advanced(60).unwrap()] {
            let wire = Wire::with_queues("stop", 2);
            let mut capture = wire.capture(builder(dispatch).mode(mode));
            let gate = Gate::closed();
            let at_gate = gate.clone();
            let crew = Crew::start(capture.take_workers(), move |_, _| at_gate.pass());
            for queue in 0..2 {
                wire.queue_sender(queue, FrameSpec::default()).send(FRAMES);
            }
            wait_until("all frames are seen", || capture.report().total().seen == 2 * FRAMES);
            capture.stopper().stop();
            wire.assert_given_back();
            capture.stopper().stop();
            gate.open();

            let arrivals = crew.join();
            let report = capture.finish();
            let account = check::account_closed(&report);
            assert_eq!((account.delivered, account.lost.total()), (2 * FRAMES, 0), "{dispatch:?} {mode:?}");
            let queues = check::in_order(&arrivals);
            for packets in queues.values() {
                check::each_once(check::intact(packets.iter().copied(), FrameSpec::default()), FRAMES, 0);
            }
            check::pools_whole(&report);
        }
    }
}

#[test]
fn packets_that_no_worker_reads_are_left_at_the_stop() {
    need_root!("stop::packets_that_no_worker_reads_are_left_at_the_stop");
    for dispatch in [Dispatch::Pull, Dispatch::Push] {
        let wire = Wire::with_queues("unread", 2);
        let capture = wire.capture(builder(dispatch));
        wire.queue_sender(0, FrameSpec::default()).send(FRAMES);
        wire.queue_sender(1, FrameSpec::default()).send(10);
        wait_until("all frames are seen", || capture.report().total().seen == FRAMES + 10);
        let report = capture.finish();
        let account = check::account_closed(&report);
        assert_eq!((account.delivered, account.lost.total()), (0, FRAMES + 10), "{dispatch:?}");
        let left: Vec<u64> =
            report.ports[0].queues.iter().map(|queue| queue.account.lost.left_at_stop).collect();
        assert_eq!(left, [FRAMES, 10], "{dispatch:?}");
    }
}

#[test]
fn frames_that_come_during_the_stop_are_captured_or_not_seen() {
    need_root!("stop::frames_that_come_during_the_stop_are_captured_or_not_seen");
    for dispatch in [Dispatch::Pull, Dispatch::Push].repeat(3) {
        let wire = Wire::with_queues("traffic", 1);
        // Without the capture's program, the receiving end of the pair needs this to go on receiving.
        wire.veth.b().set_gro(true).unwrap();
        let mut capture = wire.capture(builder(dispatch).chunks_per_pool(256));
        let crew = Crew::eager(capture.take_workers());
        let stopper = capture.stopper();
        let mut generator = wire.generator(FrameSpec::default());
        let sent = std::thread::scope(|scope| {
            scope.spawn(|| {
                crew.wait_for(20_000);
                stopper.stop();
            });
            wire.live(&mut generator, 0, 400_000)
        });
        let arrivals = crew.join();
        let report = capture.finish();
        let account = check::account_closed(&report);
        assert!((20_000..=sent.frames).contains(&account.seen), "{account:?}");
        assert_eq!(arrivals.len() as u64, account.delivered);
        assert_eq!(account.lost.left_at_stop, 0, "the workers have read to the end");
        check::increasing(&check::intact(&arrivals, FrameSpec::default()));
    }
}

#[test]
fn a_dropped_capture_gives_the_interface_back() {
    need_root!("stop::a_dropped_capture_gives_the_interface_back");
    let wire = Wire::with_queues("dropped", 2);
    for dispatch in [Dispatch::Pull, Dispatch::Push] {
        let mut capture = wire.capture(builder(dispatch));
        let crew = Crew::eager(capture.take_workers());
        assert!(wire.is_captured());
        let captured = wire.inside.enter(|| wirecap_sys::netdev::interface("in0")).unwrap();
        assert!(captured.promiscuity > 0);
        drop(capture);
        assert!(crew.join().is_empty(), "the workers end, too");
        wire.assert_given_back();
        // A process that another test is just starting has our descriptors until it executes its program.
        wait_until("promiscuous mode ends", || {
            wire.inside.enter(|| wirecap_sys::netdev::interface("in0")).unwrap().promiscuity == 0
        });
    }
}

#[test]
fn an_interface_can_be_opened_again_at_once() {
    need_root!("stop::an_interface_can_be_opened_again_at_once");
    let wire = Wire::with_queues("again", 2);
    let mut sender = wire.queue_sender(1, FrameSpec::default());
    for round in 1..=20 {
        let mut capture = wire.capture(builder(Dispatch::Pull));
        let crew = Crew::eager(capture.take_workers());
        sender.send(5);
        crew.wait_for(5);
        capture.stopper().stop();
        crew.join();
        assert_eq!(check::account_closed(&capture.finish()).delivered, 5, "round {round}");
    }
}

/// The end does not wait until a port falls silent.
#[test]
fn an_endless_port_ends_at_the_stop() {
    for dispatch in [Dispatch::Pull, Dispatch::Push] {
        let port = NullPort { queues: 2, packet_bytes: 60, packets_per_queue: u64::MAX };
        let mut capture = builder(dispatch).port(port).open().unwrap();
        let crew = Crew::start(capture.take_workers(), |_, _| ());
        wait_until("packets come", || crew.arrived() > 10_000);
        capture.stopper().stop();
        crew.join();
        let report = capture.finish();
        assert!(check::account_closed(&report).delivered > 10_000);
    }
}
