//! `inbound`, `outbound` and `ifindex`: on a passive port the socket knows the answer, and packets taken from
//! the host are all inbound. And offsets that equal the numbers with which libpcap asks for these.

use wirecap::{Capture, Diagnostic, Report, report::FilterPlace};
use wirecap_testing::{PacketSender, SendPath};

use crate::filters::{frames, run, runs, small_pool, wanted};
use wirecap_testing::{check, crew::Crew, need_root, wait_until, wire::Wire};

/// A loop that matches no frame, so that everything is decided in user space.
const LOOPS: &str = "ip6 protochain 132";

/// Sends frames through the interface in both directions, in turn; returns how many of each were wanted.
fn both_ways(wire: &Wire, expression: &str, sent: usize) -> (usize, usize, Report) {
    let (coming, going) = (frames(2 * sent, &[60, 300]), wire.veth.b().ifindex().unwrap());
    let builder = small_pool().chunks_per_pool(64).filter(expression);
    let mut capture = wire.inside.enter(|| builder.port("packet:in0").open()).unwrap();
    let crew = Crew::eager(capture.take_workers());
    let mut outside = wire.packet_sender();
    let mut inside = wire.inside.enter(|| PacketSender::open(going, SendPath::Queueing)).unwrap();
    for pair in coming.chunks(2) {
        outside.send(&pair[0]).unwrap();
        inside.send(&pair[1]).unwrap();
    }
    wait_until("all frames are filtered or delivered", || {
        let account = capture.report().total();
        account.filtered + account.delivered >= 2 * sent as u64
    });
    capture.stopper().stop();
    let arrivals = crew.join();
    let report = capture.finish();
    let account = check::account_closed(&report);
    assert_eq!((account.seen, account.lost.total()), (2 * sent as u64, 0), "{expression}");
    let is_of =
        |parity: usize, bytes: &Vec<u8>| coming.iter().skip(parity).step_by(2).any(|frame| frame == bytes);
    let [came, went] =
        [0, 1].map(|parity| arrivals.iter().filter(|arrival| is_of(parity, &arrival.bytes)).count());
    assert_eq!(came + went, arrivals.len(), "{expression}");
    (came, went, report)
}

#[test]
fn beside_the_host_the_socket_knows_the_direction_of_packets() {
    need_root!("filters_origin::beside_the_host_the_socket_knows_the_direction_of_packets");
    const EACH: usize = 100;
    let wire = Wire::with_queues("origin", 1);
    let ifindex = wire.veth.b().ifindex().unwrap();
    for (expression, came, went) in [
        ("inbound".to_owned(), EACH, 0),
        ("outbound".to_owned(), 0, EACH),
        ("not inbound".to_owned(), 0, EACH),
        ("outbound or inbound".to_owned(), EACH, EACH),
        (format!("ifindex {ifindex}"), EACH, EACH),
        (format!("not ifindex {ifindex}"), 0, 0),
        (format!("outbound and ifindex {ifindex} and less 100"), 0, 0),
        (format!("inbound and not ifindex {} and less 100", ifindex + 1), EACH, 0),
    ] {
        let (counted_in, counted_out, report) = both_ways(&wire, &expression, EACH);
        assert_eq!((counted_in, counted_out), (came, went), "{expression}");
        runs(&report, FilterPlace::Kernel, &expression);
        assert!(report.ports[0].fallbacks.is_empty(), "{:?}", report.ports[0].fallbacks);
        let in_user_space = format!("({expression}) or {LOOPS}");
        let (counted_in, counted_out, report) = both_ways(&wire, &in_user_space, EACH);
        assert_eq!((counted_in, counted_out), (came, went), "{in_user_space}");
        runs(&report, FilterPlace::NativeCode, &in_user_space);
    }
}

#[test]
fn packets_taken_from_the_host_are_inbound() {
    need_root!("filters_origin::packets_taken_from_the_host_are_inbound");
    let frames = frames(300, &[60, 300]);
    let wire = Wire::with_queues("xdporigin", 1);
    let ifindex = wire.veth.b().ifindex().unwrap();
    for (expression, by_bytes, place) in [
        ("inbound and udp port 53".to_owned(), "udp port 53", FilterPlace::Kernel),
        (format!("ifindex {ifindex} and ip6"), "ip6", FilterPlace::Kernel),
        (
            format!("outbound or udp port 41 and not ifindex {}", ifindex + 1),
            "udp port 41",
            FilterPlace::Kernel,
        ),
        (format!("inbound and ip6 or {LOOPS}"), "ip6", FilterPlace::NativeCode),
    ] {
        let (got, report) = run(&wire, small_pool().filter(&expression), "xdp:in0", &frames);
        runs(&report, place, &expression);
        assert!(got == wanted(&frames, by_bytes), "{expression}: {}", got.len());
        let fallbacks = &report.ports[0].fallbacks;
        let asks = expression.contains("bound");
        assert_eq!(fallbacks.contains(&Diagnostic::FilterInboundOnly), asks, "{fallbacks:?}");
    }
    let (got, _) = run(&wire, small_pool().filter("outbound"), "xdp:in0", &frames);
    assert!(got.is_empty());
}

/// One filter for all ports: each port evaluates it for itself.
#[test]
fn each_port_of_a_capture_answers_for_itself() {
    need_root!("filters_origin::each_port_of_a_capture_answers_for_itself");
    let wire = Wire::with_queues("joined", 1);
    let expression = format!("inbound and not ifindex {}", wire.veth.b().ifindex().unwrap());
    wire.inside.ip(&["link", "set", "dev", "lo", "up"]).unwrap();
    let open = || small_pool().port("xdp:in0").port("lo").filter(&expression).open();
    let mut capture = wire.inside.enter(open).unwrap();
    let crew = Crew::eager(capture.take_workers());
    let talker = wire.inside.enter(|| std::net::UdpSocket::bind("127.0.0.1:0")).unwrap();
    let mut sender = wire.packet_sender();
    for frame in frames(20, &[60]) {
        sender.send(&frame).unwrap();
        talker.send_to(&[7], "127.0.0.1:5300").unwrap();
    }
    wait_until("all frames are filtered", || capture.report().ports[0].queues[0].account.filtered == 20);
    // Each frame is answered, since no program listens there.
    crew.wait_for(40);
    capture.stopper().stop();
    assert!(crew.join().iter().all(|arrival| arrival.port == 1));
    check::account_closed(&capture.finish());
}

/// As in `bpf_filter`, a filter on bytes outside the packet does not match, on any port.
#[test]
fn offsets_in_front_of_the_packet_do_not_match() {
    need_root!("filters_origin::offsets_in_front_of_the_packet_do_not_match");
    let frames = frames(200, &[60, 300]);
    for port in ["xdp:in0", "packet:in0"] {
        let wire = Wire::with_queues("offsets", 1);
        for expression in
            ["ip6 or link[-5] = 1", "udp port 53 or ether[4294967295] < 7", "vlan or ether[0xfffff02c:2] = 5"]
        {
            let (got, report) =
                run(&wire, small_pool().chunks_per_pool(64).filter(expression), port, &frames);
            runs(&report, FilterPlace::Kernel, expression);
            assert!(got == wanted(&frames, expression), "{port}, {expression}: {}", got.len());
        }
        let (got, _) = run(&wire, small_pool().filter("not ether[-1] = 1"), port, &frames);
        assert!(got.is_empty(), "{port}");
    }
}

#[test]
fn a_refused_filter_opens_no_port() {
    need_root!("filters_origin::a_refused_filter_opens_no_port");
    let wire = Wire::with_queues("nofile", 1);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("empty.pcap");
    let mut file = Vec::new();
    wirecap_file::pcap::file_header(&mut file, 1, 0);
    std::fs::write(&path, file).unwrap();
    let port = wirecap::PortSpec::Trace { path };
    let open = || Capture::builder().port("xdp:in0").port(port.clone()).filter("outbound and udp").open();
    let error = wire.inside.enter(open).unwrap_err().to_string();
    assert!(
        error.contains("`outbound and udp`") && error.contains("not supported when reading files"),
        "{error}"
    );
    wire.assert_given_back();
}
