//! Passive capture: the host keeps its traffic, both directions are visible, and the account closes.

use std::{net::UdpSocket, time::Duration};

use wirecap::{
    Capture, Diagnostic, Direction, Dispatch, Fanout, Mode, WaitOutcome,
    report::{PortReport, QueueMode},
};
use wirecap_lab::VethOptions;
use wirecap_traffic::FrameSpec;

use wirecap_testing::{check, crew::Crew, kernel_is_at_least, need_root, wait_until, wire::Wire};

/// A veth pair whose ends have addresses.
pub fn addressed(label: &str) -> Wire {
    let options = VethOptions {
        addresses_a: vec!["192.0.2.1/24".into()],
        addresses_b: vec!["192.0.2.2/24".into()],
        ..VethOptions::default()
    };
    Wire::new(label, options)
}

/// A datagram of a [`talk`]: its direction at the captured end, `q` or `a`, and its round.
pub type TalkPacket = (Direction, u8, u8);

/// In each round a question comes in at the captured end, and an answer leaves.
pub fn talk(wire: &Wire, rounds: u8) {
    let listener = wire.inside.enter(|| UdpSocket::bind("192.0.2.2:7")).unwrap();
    let talker = wire.outside.enter(|| UdpSocket::bind("192.0.2.1:0")).unwrap();
    for socket in [&listener, &talker] {
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    }
    for round in 0..rounds {
        let mut buffer = [0; 8];
        talker.send_to(&[b'q', round], "192.0.2.2:7").unwrap();
        let (_, from) = listener.recv_from(&mut buffer).unwrap();
        listener.send_to(&[b'a', round], from).unwrap();
        assert_eq!(talker.recv(&mut buffer).unwrap(), 2);
    }
}

/// The datagram of a talk that a captured frame has, if it has one.
pub fn spoken(direction: Direction, frame: &[u8]) -> Option<TalkPacket> {
    // 14 bytes of Ethernet, 20 of IPv4, 8 of UDP.
    match frame.get(42..)? {
        &[kind @ (b'q' | b'a'), round, ..] => Some((direction, kind, round)),
        _ => None,
    }
}

/// All datagrams of a talk, in order.
pub fn all_spoken(rounds: u8) -> Vec<TalkPacket> {
    (0..rounds).flat_map(|round| [(Direction::In, b'q', round), (Direction::Out, b'a', round)]).collect()
}

#[test]
fn an_interface_in_use_is_left_to_the_host_and_both_directions_are_captured() {
    need_root!("passive::an_interface_in_use_is_left_to_the_host_and_both_directions_are_captured");
    let wire = addressed("passive");
    let mut capture = wire.capture(Capture::builder().workers(1).chunks_per_pool(4));
    assert!(!wire.is_captured(), "no XDP program");
    talk(&wire, 10);
    capture.stopper().stop();
    let mut worker = capture.take_workers().remove(0);
    let mut seen = Vec::new();
    while let Some(batch) = worker.next_batch() {
        for packet in &batch {
            if let Some(spoken) = spoken(packet.direction(), packet.data()) {
                assert_eq!(packet.original_len(), packet.len());
                seen.push((packet.timestamp_ns(), spoken));
            }
        }
    }
    // A tap has a stream for each core.
    seen.sort_unstable_by_key(|&(time_ns, _)| time_ns);
    assert_eq!(seen.into_iter().map(|(_, spoken)| spoken).collect::<Vec<_>>(), all_spoken(10));
    drop(worker);
    let report = capture.finish();
    check::account_closed(&report);
    check::pools_whole(&report);
    assert_eq!((report.memory.pages, report.memory.ring_entries), (None, None), "no packet memory");
    let port = &report.ports[0];
    let mode = if kernel_is_at_least(6, 6) { QueueMode::Tap } else { QueueMode::Packet };
    assert_eq!((port.link_type, port.queues[0].mode), (1, mode));
    assert!(reason(port).contains("192.0.2.2/24"), "{:?}", port.fallbacks);
}

#[test]
fn workers_share_the_packets_each_once_and_each_flow_in_order() {
    need_root!("passive::workers_share_the_packets_each_once_and_each_flow_in_order");
    const FRAMES: u64 = 20_000;
    for (fanout, dispatch) in
        [(Fanout::Hash, Dispatch::Pull), (Fanout::Hash, Dispatch::Push), (Fanout::Queue, Dispatch::Pull)]
    {
        let wire = Wire::with_queues("fanout", 2);
        let builder = Capture::builder().fanout(fanout).dispatch(dispatch).workers(2).chunks_per_pool(16);
        let mut capture = wire.inside.enter(|| builder.port("packet:in0").open()).unwrap();
        assert_eq!(capture.report().ports[0].fallbacks, [], "passive capture was requested");
        let crew = Crew::eager(capture.take_workers());
        let mut senders = [0, 1].map(|queue| wire.queue_sender(queue, FrameSpec::default()));
        for sender in &mut senders {
            sender.send(FRAMES / 2);
        }
        crew.wait_for(FRAMES);
        capture.stopper().stop();
        let arrivals = crew.join();
        let report = capture.finish();
        let account = check::account_closed(&report);
        assert_eq!((account.seen, account.delivered), (FRAMES, FRAMES), "{fanout:?}, {dispatch:?}");
        check::pools_whole(&report);
        let queues = check::in_order(&arrivals);
        let mut all = Vec::new();
        for packets in queues.into_values() {
            all.extend(check::intact(packets, FrameSpec::default()));
        }
        all.sort_unstable();
        assert!(all.chunks(2).enumerate().all(|(number, pair)| pair == [number as u64; 2]), "{fanout:?}");
    }
}

#[test]
fn packets_without_a_block_are_counted() {
    need_root!("passive::packets_without_a_block_are_counted");
    const FRAMES: u64 = 5_000;
    let wire = Wire::with_queues("blocks", 1);
    // Four blocks of 8 KiB, so that the kernel loses no packet while blocks are free.
    let builder = Capture::builder().cells_per_chunk(4).chunks_per_pool(4).workers(1);
    let mut capture = wire.inside.enter(|| builder.port("packet:in0").open()).unwrap();
    assert_eq!(capture.report().ports[0].fallbacks, []);
    let mut worker = capture.take_workers().remove(0);
    let mut sender = wire.queue_sender(0, FrameSpec::default());
    sender.send(FRAMES);
    let mut held = Vec::new();
    wait_until("all blocks are held", || {
        if let WaitOutcome::Batch(batch) = worker.next_batch_within(Duration::from_millis(10)) {
            held.push(batch);
        }
        held.len() == 4
    });
    assert!(matches!(worker.next_batch_within(Duration::from_millis(100)), WaitOutcome::Idle));
    let report = capture.report();
    assert_eq!(report.pool_used_percent(), 100.0);
    let account = report.total();
    assert_eq!((account.seen, account.unexplained()), (FRAMES, 0), "{report:#?}");
    assert!(account.lost.no_free_block > FRAMES / 2, "{report:#?}");
    drop(held);
    // There is room again. The first look at the ring gives the blocks back.
    assert!(matches!(worker.next_batch_within(Duration::ZERO), WaitOutcome::Idle));
    sender.send(10);
    // The kernel may hand over a block before all have come.
    let mut again = 0;
    wait_until("packets arrive again", || {
        if let WaitOutcome::Batch(batch) = worker.next_batch_within(Duration::from_millis(10)) {
            again += batch.len();
        }
        again == 10
    });
    drop(worker);
    capture.stopper().stop();
    let account = check::account_closed(&capture.finish());
    assert_eq!(account.seen, FRAMES + 10);
}

#[test]
fn buddies_help_with_blocks() {
    need_root!("passive::buddies_help_with_blocks");
    const FRAMES: u64 = 10_000;
    for dispatch in [Dispatch::Pull, Dispatch::Push] {
        let wire = Wire::with_queues("buddies", 2);
        // All packets arrive in queue 0, so in socket 0; worker 0 is slow. There are enough blocks that the
        // kernel does not reach one that the worker holds.
        let builder = Capture::builder().fanout(Fanout::Queue).dispatch(dispatch).workers(2);
        let builder = builder.cells_per_chunk(4).chunks_per_pool(512).mode(Mode::advanced(2).unwrap());
        let mut capture = wire.inside.enter(|| builder.port("packet:in0").open()).unwrap();
        let crew = Crew::start(capture.take_workers(), |worker, _| {
            if worker == 0 {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let mut sender = wire.queue_sender(0, FrameSpec::default());
        sender.send_while(FRAMES, |sent| sent > crew.arrived() + 1_000);
        crew.wait_for(FRAMES);
        capture.stopper().stop();
        let arrivals = crew.join();
        let report = capture.finish();
        let account = check::account_closed(&report);
        assert_eq!((account.seen, account.delivered), (FRAMES, FRAMES), "{dispatch:?}");
        assert!(report.workers[1].offloaded_in > 0, "{dispatch:?}: {:#?}", report.workers);
        assert_eq!(report.workers[1].offloaded_in, report.workers[0].offloaded_out);
        check::in_order(&arrivals);
        check::pools_whole(&report);
    }
}

#[test]
fn loopback_and_tunnels_have_their_own_link_type() {
    need_root!("passive::loopback_and_tunnels_have_their_own_link_type");
    let wire = addressed("types");
    wire.inside.ip(&["tuntap", "add", "dev", "tun0", "mode", "tun"]).unwrap();
    wire.inside.ip(&["link", "set", "dev", "tun0", "up"]).unwrap();
    wire.inside.ip(&["link", "set", "dev", "lo", "up"]).unwrap();
    let builder = || Capture::builder().workers(1).chunks_per_pool(4);
    let capture = wire.inside.enter(|| builder().port("lo").port("tun0").open()).unwrap();
    let types: Vec<_> = capture.report().ports.iter().map(|port| port.link_type).collect();
    assert_eq!(types, [1, 101]);
    drop(capture);
    // In a fanout group, too, each packet comes once.
    let mut capture =
        wire.inside.enter(|| builder().workers(2).port("packet:lo").port("packet:tun0").open()).unwrap();
    let crew = Crew::eager(capture.take_workers());
    let talker = wire.inside.enter(|| UdpSocket::bind("127.0.0.1:0")).unwrap();
    let to = talker.local_addr().unwrap();
    for round in 0..10 {
        talker.send_to(&[round; 20], to).unwrap();
    }
    crew.wait_for(10);
    capture.stopper().stop();
    let arrivals = crew.join();
    let rounds: Vec<u8> = arrivals.iter().map(|arrival| arrival.bytes[42]).collect();
    assert_eq!(rounds, (0..10).collect::<Vec<_>>(), "each packet once, although it goes out and comes in");
    assert_eq!(check::account_closed(&capture.finish()).seen, 10);
}

/// The reason why a port is left to the host, as JSON.
fn reason(port: &PortReport) -> String {
    let reasons = port.fallbacks.iter().filter_map(|fallback| match fallback {
        Diagnostic::Passive { reason } => serde_json::to_string(reason).ok(),
        _ => None,
    });
    reasons.collect()
}

/// Asserts that this port is left to the host, for a reason with all of `words` in its JSON.
#[track_caller]
pub fn left_to_the_host(wire: &Wire, words: &[&str]) {
    let capture = wire.capture(Capture::builder().chunks_per_pool(4));
    let port = &capture.report().ports[0];
    assert!(port.is_passive(), "{:?}", port.fallbacks);
    let reason = reason(port);
    assert!(words.iter().all(|word| reason.contains(word)), "{words:?} in: {reason}");
    wire.assert_given_back();
}

/// Asserts that this port is taken from the host.
#[track_caller]
pub fn taken(wire: &Wire, port: &str) {
    let capture = wire.inside.enter(|| Capture::builder().chunks_per_pool(4).port(port).open()).unwrap();
    assert!(!capture.report().ports[0].is_passive());
    assert!(wire.is_captured());
}

#[test]
fn interfaces_in_use_are_reported_and_can_be_taken() {
    need_root!("passive::interfaces_in_use_are_reported_and_can_be_taken");
    let wire = addressed("reasons");
    let ip = |line: &str| wire.inside.ip(&line.split(' ').collect::<Vec<_>>()).unwrap();
    left_to_the_host(&wire, &["in_use", "address", "192.0.2.2/24"]);
    taken(&wire, "xdp:in0");
    ip("address flush dev in0");
    taken(&wire, "in0");
    ip("link add dev bridge0 type bridge");
    ip("link set dev in0 master bridge0");
    left_to_the_host(&wire, &["bridge0", "\"is_master\":true"]);
    taken(&wire, "xdp:in0");
    wire.assert_given_back();
}

#[test]
fn an_interface_on_top_of_another_is_use_of_it() {
    need_root!("passive::an_interface_on_top_of_another_is_use_of_it");
    let wire = Wire::with_queues("uppers", 1);
    let ip = |line: &str| wire.inside.ip(&line.split(' ').collect::<Vec<_>>()).unwrap();
    // The kernel may lack VLANs; for the interface below, a macvlan is like a VLAN.
    ip("link add link in0 name mac0 type macvlan");
    taken(&wire, "in0");
    ip("link set dev mac0 up");
    left_to_the_host(&wire, &["mac0", "\"is_master\":false,\"address\":null"]);
    ip("link set dev mac0 down");
    ip("address add 192.0.2.5/24 dev mac0");
    left_to_the_host(&wire, &["mac0", "\"is_master\":false", "192.0.2.5/24"]);
    ip("address flush dev mac0");

    // Two levels: the macvlan is a member of a bridge, which has a macvlan with an address.
    ip("link add dev bridge0 type bridge");
    ip("link set dev mac0 master bridge0");
    left_to_the_host(&wire, &["bridge0", "\"is_master\":true"]);
    ip("address add 192.0.2.6/24 dev bridge0");
    left_to_the_host(&wire, &["bridge0", "\"is_master\":true", "192.0.2.6/24"]);
    ip("address flush dev bridge0");
    ip("link add link bridge0 name mac1 type macvlan");
    ip("address add 192.0.2.7/24 dev mac1");
    left_to_the_host(&wire, &["mac1", "\"is_master\":false", "192.0.2.7/24"]);
    taken(&wire, "xdp:in0");
}
