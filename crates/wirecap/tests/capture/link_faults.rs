//! Links that go down, and interfaces that are deleted during the capture.

use wirecap::{Capture, Dispatch, PortEvent};
use wirecap_traffic::FrameSpec;

use wirecap_testing::{check, crew::Crew, need_root, wait_until, wire::Wire};

fn builder(dispatch: Dispatch) -> wirecap::Builder {
    Capture::builder().chunks_per_pool(32).dispatch(dispatch)
}

/// Waits for `expected` among the events of the capture; kernels report some events twice.
fn wait_for_event(capture: &mut Capture, expected: &PortEvent) {
    let mut seen = Vec::new();
    wait_until(&format!("{expected:?}"), || {
        seen.extend(capture.events());
        seen.contains(expected)
    });
    assert_eq!(seen.last(), Some(expected), "the last event is the current state");
}

#[test]
fn a_capture_goes_on_when_the_link_is_up_again() {
    need_root!("link_faults::a_capture_goes_on_when_the_link_is_up_again");
    for dispatch in [Dispatch::Pull, Dispatch::Push] {
        let wire = Wire::with_queues("updown", 2);
        let mut capture = wire.capture(builder(dispatch));
        let crew = Crew::eager(capture.take_workers());
        let mut generator = wire.generator(FrameSpec::default());
        let mut expected = 0;
        let captures = |expected: &mut u64, generator: &mut _| {
            let sent = wire.live(generator, 0, 1_000);
            *expected += sent.frames - sent.dropped;
            crew.wait_for(*expected);
        };
        captures(&mut expected, &mut generator);
        // First the captured end goes down, then the other one, which takes the carrier away.
        let name = || "in0".to_owned();
        let ends = [(wire.veth.b(), PortEvent::Down(name())), (wire.veth.a(), PortEvent::NoCarrier(name()))];
        for (end, event) in ends {
            end.set_down().unwrap();
            wait_for_event(&mut capture, &event);
            assert!(!capture.all_ports_gone());
            end.set_up().unwrap();
            wait_for_event(&mut capture, &PortEvent::Up("in0".into()));
            captures(&mut expected, &mut generator);
        }
        capture.stopper().stop();
        let arrivals = crew.join();
        let account = check::account_closed(&capture.finish());
        assert_eq!((account.delivered, account.lost.total()), (expected, 0), "{dispatch:?}");
        check::in_order(&arrivals);
        check::increasing(&check::intact(&arrivals, FrameSpec::default()));
    }
}

#[test]
fn packets_from_before_the_interface_was_deleted_are_kept() {
    need_root!("link_faults::packets_from_before_the_interface_was_deleted_are_kept");
    for dispatch in [Dispatch::Pull, Dispatch::Push] {
        let wire = Wire::with_queues("deleted", 2);
        let mut capture = wire.capture(builder(dispatch));
        let workers = capture.take_workers();
        let mut generator = wire.generator(FrameSpec::default());
        let sent = wire.live(&mut generator, 0, 2_000);
        let seen = sent.frames - sent.dropped;
        wait_until("all frames are seen", || capture.report().total().seen == seen);

        let Wire { veth, .. } = wire;
        drop(veth);
        wait_for_event(&mut capture, &PortEvent::Removed("in0".into()));
        assert!(capture.all_ports_gone());

        // The worker reads packets only now.
        let crew = Crew::eager(workers);
        crew.wait_for(seen);
        capture.stopper().stop();
        let arrivals = crew.join();
        let report = capture.finish();
        let account = check::account_closed(&report);
        assert_eq!((account.seen, account.delivered), (seen, seen), "{dispatch:?}");
        assert!(report.ports[0].removed);
        check::increasing(&check::intact(&arrivals, FrameSpec::default()));
        check::in_order(&arrivals);
    }
}

#[test]
fn deleting_an_interface_under_full_load_leaves_nothing_unexplained() {
    need_root!("link_faults::deleting_an_interface_under_full_load_leaves_nothing_unexplained");
    for dispatch in [Dispatch::Pull, Dispatch::Push] {
        let wire = Wire::with_queues("load", 1);
        let mut capture = wire.capture(builder(dispatch));
        let crew = Crew::eager(capture.take_workers());
        let mut generator = wire.generator(FrameSpec::default());
        std::thread::scope(|scope| {
            // Sending fails, or most frames go nowhere: the interface vanishes in the middle of it.
            scope.spawn(|| wire.outside.enter(|| generator.run(2_000_000).is_ok()));
            crew.wait_for(10_000);
            wire.outside.ip(&["link", "del", "dev", "out0"]).unwrap();
        });
        wait_for_event(&mut capture, &PortEvent::Removed("in0".into()));
        capture.stopper().stop();
        let arrivals = crew.join();
        let account = check::account_closed(&capture.finish());
        assert_eq!(account.delivered, arrivals.len() as u64);
        check::in_order(&arrivals);
        check::increasing(&check::intact(&arrivals, FrameSpec::default()));
    }
}

#[test]
fn with_two_ports_the_other_goes_on() {
    need_root!("link_faults::with_two_ports_the_other_goes_on");
    let wire = Wire::with_queues("two", 1);
    let second = wirecap_lab::VethPair::new(
        &wire.outside,
        "out1",
        &wire.inside,
        "in1",
        wirecap_lab::VethOptions::default(),
    )
    .unwrap();
    let mut capture = wire.inside.enter(|| builder(Dispatch::Pull).port("in1").port("in0").open()).unwrap();
    let crew = Crew::eager(capture.take_workers());
    drop(second);
    wait_for_event(&mut capture, &PortEvent::Removed("in1".into()));
    assert!(!capture.all_ports_gone(), "in0 is still there");
    wire.queue_sender(0, FrameSpec::default()).send(500);
    crew.wait_for(500);
    capture.stopper().stop();
    crew.join();
    let report = capture.finish();
    check::account_closed(&report);
    assert_eq!((report.ports[0].removed, report.ports[1].removed), (true, false));
    assert_eq!(report.ports[1].queues[0].account.delivered, 500);
}

#[test]
fn after_news_was_lost_an_interface_is_looked_for_in_its_own_namespace() {
    need_root!("link_faults::after_news_was_lost_an_interface_is_looked_for_in_its_own_namespace");
    let wire = Wire::with_queues("lostnews", 1);
    let mut capture = wire.capture(builder(Dispatch::Pull));
    // More than the kernel keeps for a subscriber.
    let news: String = (0..1_000).map(|number| format!("link set dev lo alias news-{number}\n")).collect();
    let directory = tempfile::tempdir().unwrap();
    let batch = directory.path().join("batch");
    std::fs::write(&batch, news).unwrap();
    wire.inside.ip(&["-batch", batch.to_str().unwrap()]).unwrap();
    // No interface but lo, so none of this index.
    let elsewhere = wirecap_lab::Namespace::new("elsewhere").unwrap();
    let events = elsewhere.enter(|| capture.events());
    assert!(!events.contains(&PortEvent::Removed("in0".into())), "{events:?}");
    assert!(!capture.all_ports_gone());
    wire.inside.ip(&["link", "del", "dev", "in0"]).unwrap();
    wait_for_event(&mut capture, &PortEvent::Removed("in0".into()));
}
