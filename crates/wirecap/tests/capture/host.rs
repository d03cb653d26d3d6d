//! Packets that are not captured go to the host, as before the capture.

use std::{collections::BTreeSet, net::UdpSocket, time::Duration};

use wirecap::{Capture, Diagnostic, Modes, PortEvent, Report, report::QueueMode};
use wirecap_lab::{VethOptions, VethPair};
use wirecap_sys::netdev;
use wirecap_traffic::FrameSpec;

use wirecap_testing::{check, crew::Crew, need_root, wait_until, wire::Wire};

#[test]
fn another_interface_of_the_host_is_left_alone() {
    need_root!("host::another_interface_of_the_host_is_left_alone");
    let wire = Wire::with_queues("other", 1);
    let options = VethOptions {
        addresses_a: vec!["192.0.2.1/24".into()],
        addresses_b: vec!["192.0.2.2/24".into()],
        ..VethOptions::default()
    };
    let _second = VethPair::new(&wire.outside, "out1", &wire.inside, "in1", options).unwrap();
    let mut capture = wire.capture(Capture::builder().chunks_per_pool(8));
    let crew = Crew::eager(capture.take_workers());
    let listener = wire.inside.enter(|| UdpSocket::bind("192.0.2.2:9")).unwrap();
    let talker = wire.outside.enter(|| UdpSocket::bind("192.0.2.1:0")).unwrap();
    listener.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    for round in 0..10u8 {
        talker.send_to(&[round], "192.0.2.2:9").unwrap();
        let mut buffer = [0; 8];
        let (len, from) = listener.recv_from(&mut buffer).unwrap();
        assert_eq!((len, buffer[0], from), (1, round, talker.local_addr().unwrap()));
    }
    wire.queue_sender(0, FrameSpec::default()).send(10);
    crew.wait_for(10);
    capture.stopper().stop();
    assert_eq!(crew.join().len(), 10, "no packet of the other interface is captured");
    assert_eq!(check::account_closed(&capture.finish()).seen, 10);
}

#[test]
fn added_queues_go_to_the_host() {
    need_root!("host::added_queues_go_to_the_host");
    for modes in [Modes::Copy, Modes::Packed] {
        let (report, to_host) = add_queues(modes);
        let account = check::account_closed(&report);
        assert_eq!((account.delivered, to_host), (40, 40), "{modes:?}: {report:#?}");
        // No kernel's veth gives its native program to added queues so far (veth_enable_range_safe() of
        // drivers/net/veth.c): packets that the program does not see are not in the account.
        assert!([0, to_host].contains(&account.passed), "{modes:?}: {report:#?}");
    }
}

#[test]
fn added_queues_are_in_the_account() {
    need_root!("host::added_queues_are_in_the_account");
    let (report, to_host) = add_queues(Modes::Generic);
    let account = check::account_closed(&report);
    assert_eq!((account.seen, account.passed), (80, to_host), "{report:#?}");
    // veth numbers the queues of the generic program one too low: queue 3 stays empty.
    let [first, second, added] = report.ports[0].queues.as_slice() else { panic!("{report:#?}") };
    assert_eq!(
        (first.mode, first.account.passed, second.mode, second.account.passed),
        (QueueMode::Generic, 0, QueueMode::Generic, 0)
    );
    assert_eq!((added.queue, added.mode, added.account.delivered), (2, QueueMode::Host, 0));
    assert_eq!((added.account.seen, added.account.passed), (to_host, to_host));
    assert!(to_host > 0);
}

/// Captures two queues, adds two more, and sends 20 frames into each: the capture reports the change, and
/// frames that are not captured reach the host. Returns the report, and the number of these frames.
fn add_queues(modes: Modes) -> (Report, u64) {
    let addresses_b = vec!["198.19.0.1/15".into()];
    let wire = Wire::new("queues", VethOptions { queues: 4, addresses_b, ..VethOptions::default() });
    wire.veth.a().set_channels(2, 2).unwrap();
    wire.veth.b().set_channels(2, 2).unwrap();
    let builder = Capture::builder().port("xdp:in0").chunks_per_pool(8).modes(modes);
    let mut capture = wire.inside.enter(|| builder.open()).unwrap();
    let crew = Crew::eager(capture.take_workers());
    assert_eq!(capture.report().ports[0].warnings, []);

    wire.veth.b().set_channels(4, 4).unwrap();
    wire.veth.a().set_channels(4, 4).unwrap();
    let expected = PortEvent::Warning {
        port: "in0".into(),
        warning: Diagnostic::QueuesNotCaptured { captured: 2, queues: 4 },
    };
    wait_until("the new queues are reported", || capture.events().contains(&expected));
    let listener = wire.inside.enter(|| UdpSocket::bind("198.19.0.1:9")).unwrap();
    listener.set_nonblocking(true).unwrap();
    let mac = wire.inside.enter(|| netdev::interface("in0")).unwrap().mac.unwrap();
    let spec = FrameSpec { destination_mac: mac.0, ..FrameSpec::default() };
    for queue in 0..4 {
        wire.queue_sender(queue, spec).send(20);
    }
    let mut to_host = BTreeSet::new();
    wait_until("every frame is captured or reaches the host", || {
        // The address identifies the flow, the payload the frame.
        let mut marks = [0; 18];
        while let Ok((_, from)) = listener.recv_from(&mut marks) {
            to_host.insert((from, marks));
        }
        crew.arrived() + to_host.len() as u64 == 80
    });
    capture.stopper().stop();
    assert!(crew.join().iter().all(|arrival| arrival.queue < 2));
    let report = capture.finish();
    let [warning] = report.ports[0].warnings.as_slice() else { panic!("{:?}", report.ports[0].warnings) };
    assert_eq!(*warning, Diagnostic::QueuesNotCaptured { captured: 2, queues: 4 });
    (report, to_host.len() as u64)
}
