//! What is not captured is the host's, as before.

use std::{net::UdpSocket, time::Duration};

use wirecap::Capture;
use wirecap_lab::{VethOptions, VethPair};
use wirecap_sys::netdev;
use wirecap_traffic::{FrameSpec, Marks};

use crate::support::{check, crew::Crew, need_root, wire::Wire};

#[test]
fn another_interface_of_the_host_is_not_touched() {
    need_root!("host::another_interface_of_the_host_is_not_touched");
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
    assert_eq!(crew.join().len(), 10, "and nothing of it is captured");
    assert_eq!(check::account_closed(&capture.finish()).seen, 10);
}

#[test]
fn a_queue_that_nobody_captures_goes_to_the_host() {
    need_root!("host::a_queue_that_nobody_captures_goes_to_the_host");
    let addresses_b = vec!["198.19.0.1/15".into()];
    let wire = Wire::new("queues", VethOptions { queues: 4, addresses_b, ..VethOptions::default() });
    wire.veth.a().set_channels(2, 2).unwrap();
    wire.veth.b().set_channels(2, 2).unwrap();
    let mut capture =
        wire.inside.enter(|| Capture::builder().port("xdp:in0").chunks_per_pool(8).open()).unwrap();
    let crew = Crew::eager(capture.take_workers());

    // Queues 2 and 3 come into being while the capture runs: it has no sockets for them.
    wire.veth.b().set_channels(4, 4).unwrap();
    wire.veth.a().set_channels(4, 4).unwrap();
    let listener = wire.inside.enter(|| UdpSocket::bind("198.19.0.1:9")).unwrap();
    listener.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mac = wire.inside.enter(|| netdev::interface("in0")).unwrap().mac.unwrap();
    let spec = FrameSpec { destination_mac: mac.0, ..FrameSpec::default() };
    for queue in 0..4 {
        wire.queue_sender(queue, spec).send(20);
    }
    for expected in (2..4).flat_map(|flow| (0..20).map(move |sequence| Marks { flow, sequence })) {
        let mut payload = [0; 64];
        listener.recv(&mut payload).unwrap();
        let sequence = u64::from_be_bytes(payload[..8].try_into().unwrap());
        let flow = u32::from_be_bytes(payload[8..12].try_into().unwrap());
        assert_eq!(Marks { flow, sequence }, expected);
    }
    crew.wait_for(40);
    capture.stopper().stop();
    let arrivals = crew.join();
    assert!(arrivals.iter().all(|arrival| arrival.queue < 2));
    let account = check::account_closed(&capture.finish());
    assert_eq!((account.seen, account.delivered), (40, 40));
}
