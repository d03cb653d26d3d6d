//! Tapped interfaces: the host keeps its traffic, both directions are visible, and the account closes.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream, UdpSocket},
    thread,
    time::Duration,
};

use wirecap::{
    Batch, Builder, Capture, Diagnostic, Direction, PortEvent, TapHook, Timestamp, WaitOutcome,
    diagnostic::{LengthLimitReason, Recovery},
    report::{FilterPlace, LengthLimit, LengthLimitPolicy, QueueMode},
};
use wirecap_lab::VethOptions;
use wirecap_sys::{
    bpf::{self, Assembler, Link, Program, ProgramKind, ProgramSpec, Reg, XDP_DROP, XdpMode},
    netdev,
};
use wirecap_testing::{
    PacketSender, SendPath, check, crew::Crew, kernel_is_at_least, need_root, wait_until, wire::Wire,
};
use wirecap_traffic::FrameSpec;

use crate::passive::{addressed, all_spoken, spoken, talk};

/// Blocks of 128 KiB, the smallest.
const CELLS: u32 = 64;

/// Returns from the test, and reports that, without root and on a kernel without TCX.
macro_rules! need_tap {
    ($test:literal) => {
        need_root!($test);
        if !kernel_is_at_least(6, 6) {
            return wirecap_lab::skip($test, "this kernel has no TCX programs (Linux 6.6)");
        }
    };
}
pub(crate) use need_tap;

pub(crate) fn builder() -> Builder {
    Capture::builder().workers(1).cells_per_chunk(CELLS).chunks_per_pool(16)
}

pub(crate) fn tap(wire: &Wire, builder: Builder) -> Capture {
    wire.capture_of("tap:in0", builder)
}

/// A packet that was captured.
#[derive(Debug, Clone)]
pub(crate) struct TappedPacket {
    time_ns: u64,
    pub direction: Direction,
    pub bytes: Vec<u8>,
}

fn seen(batch: &Batch) -> Vec<TappedPacket> {
    let seen = |packet: wirecap::Packet<'_>| TappedPacket {
        time_ns: packet.timestamp_ns(),
        direction: packet.known_direction().expect("each record has one"),
        bytes: packet.data().to_vec(),
    };
    batch.into_iter().map(seen).collect()
}

/// All packets until the end of the capture, in the order of their times.
pub(crate) fn all(capture: &mut Capture) -> Vec<TappedPacket> {
    let mut worker = capture.take_workers().remove(0);
    let mut packets = Vec::new();
    while let Some(batch) = worker.next_batch() {
        packets.extend(seen(&batch));
    }
    packets.sort_by_key(|packet| packet.time_ns);
    packets
}

#[test]
fn both_directions_are_captured_and_the_host_keeps_its_packets() {
    need_tap!("tap::both_directions_are_captured_and_the_host_keeps_its_packets");
    for hook in [TapHook::Tcx, TapHook::Xdp] {
        a_talk_is_captured(hook);
    }
}

fn a_talk_is_captured(hook: TapHook) {
    let wire = addressed("tap");
    let mut capture = tap(&wire, builder().tap_hook(hook));
    assert_eq!(wire.is_captured(), hook == TapHook::Xdp, "an XDP program");
    talk(&wire, 100);
    capture.stopper().stop();
    let packets = all(&mut capture);
    let spoken = packets.iter().filter_map(|packet| spoken(packet.direction, &packet.bytes));
    assert_eq!(spoken.collect::<Vec<_>>(), all_spoken(100), "in the order of their times");
    let report = capture.finish();
    check::account_closed(&report);
    check::pools_whole(&report);
    let port = &report.ports[0];
    assert_eq!((port.link_type, port.queues[0].mode), (1, QueueMode::Tap));
    assert!(port.is_passive());
    wire.assert_given_back();
    assert_eq!(port.timestamp.source, Timestamp::Kernel);
}

/// In several buffers of the kernel, longer than the MTU, as the host hands them over and gets them.
#[test]
fn segments_of_a_stream_are_captured_whole() {
    need_tap!("tap::segments_of_a_stream_are_captured_whole");
    const BYTES: usize = 8 << 20;
    let wire = addressed("tapgso");
    let mut capture = tap(&wire, builder().chunks_per_pool(256));
    let received = stream(&wire, "192.0.2.2:7", BYTES);
    capture.stopper().stop();
    let packets = all(&mut capture);
    let account = check::account_closed(&capture.finish());
    assert_eq!(account.lost.total(), 0);
    let mut captured = vec![0; BYTES];
    let mut first = None;
    for packet in packets.iter().filter(|packet| packet.direction == Direction::In) {
        let Some(segment) = tcp_segment(&packet.bytes) else { continue };
        let first = *first.get_or_insert(segment.0);
        // The first has SYN, which is a number of its own.
        let at = segment.0.wrapping_sub(first).wrapping_sub(1) as usize;
        if !segment.1.is_empty() {
            captured[at..at + segment.1.len()].copy_from_slice(segment.1);
        }
    }
    assert!(captured == received, "every byte that the host received");
    let longest = packets.iter().map(|packet| packet.bytes.len()).max();
    assert!(longest > Some(1_514), "{longest:?}: segments are not cut to the MTU");
}

/// Sends a stream to this address of the captured end. Returns what the host has received there.
fn stream(wire: &Wire, to: &str, bytes: usize) -> Vec<u8> {
    let listener = wire.inside.enter(|| TcpListener::bind(to)).unwrap();
    let mut stream = wire.outside.enter(|| TcpStream::connect(to)).unwrap();
    let talker = thread::spawn(move || {
        let text: Vec<u8> = (0..bytes / 4).flat_map(|at| (at as u32).to_be_bytes()).collect();
        stream.write_all(&text).unwrap();
    });
    let mut received = Vec::new();
    listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
    talker.join().unwrap();
    received
}

/// BIG TCP. AF_PACKET has room for such segments in its blocks.
#[test]
fn segments_that_are_too_long_are_announced_cut_and_counted() {
    need_tap!("tap::segments_that_are_too_long_are_announced_cut_and_counted");
    const LONGEST: u32 = 65_984;
    let wire = Wire::new("tapbig", VethOptions { ipv6: true, ..VethOptions::default() });
    for (namespace, end, address) in
        [(&wire.outside, "out0", "2001:db8::1/64"), (&wire.inside, "in0", "2001:db8::2/64")]
    {
        namespace.ip(&["addr", "add", address, "dev", end, "nodad"]).unwrap();
        let sizes = ["gso_max_size", "150000", "gro_max_size", "150000"];
        namespace.ip(&[&["link", "set", "dev", end][..], &sizes].concat()).unwrap();
    }
    for port in ["tap:in0", "packet:in0"] {
        let builder = Capture::builder().workers(1).chunks_per_pool(64);
        let mut capture = wire.capture_of(port, builder);
        stream(&wire, "[2001:db8::2]:7", 16 << 20);
        capture.stopper().stop();
        let mut worker = capture.take_workers().remove(0);
        let (mut longest, mut cut) = (0, 0);
        while let Some(batch) = worker.next_batch() {
            for packet in &batch {
                longest = longest.max(packet.original_len());
                cut += u64::from(packet.len() < packet.original_len());
                assert!(packet.len() == packet.original_len() || packet.len() == LONGEST as usize);
            }
        }
        drop(worker);
        let report = capture.finish();
        check::account_closed(&report);
        let port_report = &report.ports[0];
        assert!(longest > LONGEST as usize, "{port}: {longest} bytes are no BIG TCP");
        assert_eq!(port_report.cut, Some(cut), "{port}");
        let limit = LengthLimit { bytes: LONGEST, beyond: LengthLimitPolicy::Cut };
        let reason = LengthLimitReason::LongSegments { longest: 150_022 };
        let announced = port_report.fallbacks.contains(&Diagnostic::PacketsTooLong { limit, reason });
        let warned = port_report.warnings.contains(&Diagnostic::PacketsCut { packets: cut });
        let is_tap = port == "tap:in0";
        assert_eq!((cut > 0, announced, warned), (is_tap, is_tap, is_tap), "{port}: {port_report:#?}");
        assert_eq!(port_report.length_limit, is_tap.then_some(limit));
    }
}

/// The sequence number and the data of a TCP segment of IPv4.
fn tcp_segment(frame: &[u8]) -> Option<(u32, &[u8])> {
    if frame.get(12..14)? != [8, 0] || *frame.get(23)? != 6 {
        return None;
    }
    let ip = 14 + usize::from(frame[14] & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
    let data = ip + usize::from(frame[ip + 12] >> 4) * 4;
    // A segment of the kernel's may be longer than the field can say.
    let end = if total == 0 { frame.len() } else { 14 + total };
    Some((u32::from_be_bytes(frame[ip + 4..ip + 8].try_into().unwrap()), &frame[data..end]))
}

pub(crate) fn tagged(tags: &[[u8; 4]], number: u8) -> Vec<u8> {
    let mut frame = [[0xff; 6], [2, 0, 0, 0, 0, 1]].concat();
    frame.extend(tags.iter().flatten());
    frame.extend([0x88, 0xb5]);
    frame.extend([number; 50]);
    frame
}

/// The kernel takes the outermost tag off before traffic control sees the packet.
#[test]
fn vlan_tags_are_put_back() {
    need_tap!("tap::vlan_tags_are_put_back");
    const CVLAN: [u8; 4] = [0x81, 0, 0x60, 7];
    const SVLAN: [u8; 4] = [0x88, 0xa8, 0, 5];
    let frames = [tagged(&[], 0), tagged(&[CVLAN], 1), tagged(&[SVLAN], 2), tagged(&[SVLAN, CVLAN], 3)];
    let wire = Wire::with_queues("taptags", 1);
    let ifindex = wire.veth.b().ifindex().unwrap();
    // A filter that the kernel would get wrong without the tag.
    for (filter, wanted, hook) in [
        (None, &[0, 1, 2, 3][..], TapHook::Tcx),
        (None, &[0, 1, 2, 3], TapHook::Xdp),
        (Some("vlan 7"), &[1], TapHook::Tcx),
        (Some("not vlan"), &[0], TapHook::Tcx),
        // As of a packet in a file: what is behind a tag matches only after `vlan`.
        (Some("ether proto 0x88b5"), &[0], TapHook::Tcx),
    ] {
        let builder = filter.map_or_else(builder, |filter| builder().filter(filter)).tap_hook(hook);
        let mut capture = tap(&wire, builder);
        let mut outside = wire.packet_sender();
        let mut inside = wire.inside.enter(|| PacketSender::open(ifindex, SendPath::Queueing)).unwrap();
        for frame in &frames {
            outside.send(frame).unwrap();
            inside.send(frame).unwrap();
        }
        wait_until("all frames are filtered or captured", || {
            let account = capture.report().total();
            account.seen >= 8 && account.lost.total() == 0
        });
        capture.stopper().stop();
        let packets = all(&mut capture);
        check::account_closed(&capture.finish());
        for direction in [Direction::In, Direction::Out] {
            let got: Vec<_> = packets
                .iter()
                .filter(|packet| packet.direction == direction && packet.bytes.len() > 60)
                .collect();
            let got: Vec<_> = got.into_iter().filter(|packet| packet.bytes[..6] == [0xff; 6]).collect();
            let expected: Vec<_> = wanted.iter().map(|&number: &usize| &frames[number]).collect();
            assert_eq!(
                got.iter().map(|packet| &packet.bytes).collect::<Vec<_>>(),
                expected,
                "{filter:?}, {direction:?}"
            );
        }
    }
}

#[test]
fn filters_run_in_the_kernel_and_know_the_direction() {
    need_tap!("tap::filters_run_in_the_kernel_and_know_the_direction");
    const EACH: u64 = 100;
    let wire = Wire::with_queues("tapfilter", 1);
    let ifindex = wire.veth.b().ifindex().unwrap();
    /// A loop, which no kernel takes.
    const LOOPS: &str = "ip6 protochain 132";
    for (expression, inbound, outbound) in [
        ("ether proto 0x88b5".to_owned(), EACH, EACH),
        ("inbound and ether proto 0x88b5".into(), EACH, 0),
        ("outbound and ether proto 0x88b5".into(), 0, EACH),
        (format!("not ifindex {ifindex}"), 0, 0),
        ("ether[60] = 9".into(), 0, 0),
        ("ether proto 0x88b5 and ether[50] = 7".into(), EACH, EACH),
    ] {
        for (expression, place, hook) in [
            (expression.clone(), FilterPlace::Kernel, TapHook::Tcx),
            (expression.clone(), FilterPlace::Kernel, TapHook::Xdp),
            (format!("({expression}) or {LOOPS}"), FilterPlace::NativeCode, TapHook::Tcx),
        ] {
            let mut capture = tap(&wire, builder().filter(&expression).tap_hook(hook));
            let mut outside = wire.packet_sender();
            let mut inside = wire.inside.enter(|| PacketSender::open(ifindex, SendPath::Queueing)).unwrap();
            for _ in 0..EACH {
                outside.send(&tagged(&[], 7)).unwrap();
                inside.send(&tagged(&[], 7)).unwrap();
            }
            wait_until("all frames are seen", || capture.report().total().seen >= 2 * EACH);
            capture.stopper().stop();
            let packets = all(&mut capture);
            let report = capture.finish();
            let account = check::account_closed(&report);
            assert_eq!(account.lost.total(), 0);
            let count =
                |direction| packets.iter().filter(|packet| packet.direction == direction).count() as u64;
            assert_eq!((count(Direction::In), count(Direction::Out)), (inbound, outbound), "{expression}");
            assert_eq!(report.ports[0].filter.as_ref().unwrap().runs, place, "{expression}");
            assert_eq!(report.ports[0].fallbacks.is_empty(), place == FilterPlace::Kernel, "{expression}");
        }
    }
}

#[test]
fn packets_without_a_block_are_counted_and_the_host_has_them() {
    need_tap!("tap::packets_without_a_block_are_counted_and_the_host_has_them");
    // More than the blocks of two cores hold, on which the sender may run in turn.
    const FRAMES: u64 = 10_000;
    let wire = Wire::with_queues("tapfull", 1);
    let mut capture = tap(&wire, builder().chunks_per_pool(2));
    let mut host = wire.inside.enter(|| Capture::builder().workers(1).port("packet:in0").open()).unwrap();
    let heard = Crew::eager(host.take_workers());
    let mut worker = capture.take_workers().remove(0);
    let mut sender = wire.queue_sender(0, FrameSpec::default());
    sender.send(FRAMES);
    heard.wait_for(FRAMES);
    let mut held = Vec::new();
    wait_until("the rest is lost", || {
        while let WaitOutcome::Batch(batch) = worker.next_batch_within(Duration::from_millis(10)) {
            held.push(batch);
        }
        capture.report().total().unexplained() == 0
    });
    let account = capture.report().total();
    assert_eq!((account.seen, account.unexplained()), (FRAMES, 0), "{account:#?}");
    // Two blocks of 128 KiB.
    assert!(account.lost.total() > FRAMES / 4, "{account:#?}");
    drop(held);
    wait_until("the blocks are given back", || {
        matches!(worker.next_batch_within(Duration::ZERO), WaitOutcome::Idle)
            && capture.report().pool_used_percent() < 50.0
    });
    sender.send(10);
    let mut again = 0;
    wait_until("packets arrive again", || {
        if let WaitOutcome::Batch(batch) = worker.next_batch_within(Duration::from_millis(10)) {
            again += batch.len();
        }
        again == 10
    });
    drop(worker);
    capture.stopper().stop();
    assert_eq!(check::account_closed(&capture.finish()).seen, FRAMES + 10);
    host.stopper().stop();
    heard.join();
}

#[test]
fn loopback_and_tunnels_have_each_packet_once() {
    need_tap!("tap::loopback_and_tunnels_have_each_packet_once");
    let wire = Wire::with_queues("taptypes", 1);
    wire.inside.ip(&["tuntap", "add", "dev", "tun0", "mode", "tun"]).unwrap();
    wire.inside.ip(&["link", "set", "dev", "tun0", "up"]).unwrap();
    wire.inside.ip(&["link", "set", "dev", "lo", "up"]).unwrap();
    let open = || builder().port("tap:lo").port("tap:tun0").filter("udp").open();
    let mut capture = wire.inside.enter(open).unwrap();
    let types: Vec<_> = capture.report().ports.iter().map(|port| port.link_type).collect();
    assert_eq!(types, [1, 101]);
    let talker = wire.inside.enter(|| UdpSocket::bind("127.0.0.1:0")).unwrap();
    let to = talker.local_addr().unwrap();
    for round in 0..10 {
        talker.send_to(&[round; 20], to).unwrap();
    }
    capture.stopper().stop();
    let rounds: Vec<u8> = all(&mut capture).iter().map(|packet| packet.bytes[42]).collect();
    assert_eq!(rounds, (0..10).collect::<Vec<_>>(), "each packet once, although it goes out and comes in");
    check::account_closed(&capture.finish());
}

/// The programs of taps on the captured end.
pub(crate) fn programs(wire: &Wire) -> Vec<u32> {
    let ifindex = wire.veth.b().ifindex().unwrap();
    wire.inside.enter(|| bpf::ingress_programs(ifindex)).unwrap()
}

#[test]
fn several_taps_see_the_same_and_leave_nothing() {
    need_tap!("tap::several_taps_see_the_same_and_leave_nothing");
    let wire = Wire::with_queues("taptwice", 1);
    let mut captures = [0, 1].map(|_| tap(&wire, builder()));
    assert_eq!(programs(&wire).len(), 2);
    wire.queue_sender(0, FrameSpec::default()).send(1_000);
    for capture in &mut captures {
        wait_until("all is seen", || capture.report().total().seen >= 1_000);
        capture.stopper().stop();
        let packets = all(capture);
        assert_eq!(packets.iter().filter(|packet| packet.direction == Direction::In).count(), 1_000);
    }
    for capture in captures {
        check::account_closed(&capture.finish());
    }
    assert!(programs(&wire).is_empty());
}

#[test]
fn a_tap_detached_by_force_is_attached_again() {
    need_tap!("tap::a_tap_detached_by_force_is_attached_again");
    let wire = Wire::with_queues("tapgone", 1);
    let mut capture = tap(&wire, builder());
    let [program] = programs(&wire)[..] else { panic!("one program") };
    assert_eq!(Program::name_by_id(program).unwrap(), "wirecap_tap");
    Link::of_program(program).unwrap().expect("a link").detach().unwrap();
    assert!(programs(&wire).is_empty());
    let warning = Diagnostic::TapDetached { recovery: Recovery::Restored };
    let reported = PortEvent::Warning { port: "in0".into(), warning: warning.clone() };
    wait_until("the detachment is reported", || capture.events().contains(&reported));
    assert_eq!(programs(&wire).len(), 1);
    wire.queue_sender(0, FrameSpec::default()).send(100);
    wait_until("packets are seen again", || capture.report().total().seen >= 100);
    capture.stopper().stop();
    assert!(all(&mut capture).len() >= 100);
    let report = capture.finish();
    check::account_closed(&report);
    assert_eq!(report.ports[0].warnings, [warning]);
}

/// XDP runs before traffic control and before AF_PACKET.
#[test]
fn an_xdp_program_that_comes_later_is_reported_once() {
    need_tap!("tap::an_xdp_program_that_comes_later_is_reported_once");
    let mut drop_all = Assembler::new();
    drop_all.mov_imm(Reg::R0, XDP_DROP).exit();
    let drop_all = drop_all.finish().unwrap();
    let drop_all = Program::load(&ProgramSpec::new(ProgramKind::Xdp, "drop_all", &drop_all)).unwrap();
    for port in ["tap:in0", "packet:in0"] {
        let wire = Wire::with_queues("tapblind", 1);
        let ifindex = wire.veth.b().ifindex().unwrap();
        let mut capture = wire.capture_of(port, builder());
        assert_eq!(capture.report().ports[0].warnings, []);
        let _link = wire.inside.enter(|| Link::attach_xdp(&drop_all, ifindex, XdpMode::Native)).unwrap();
        let [attached] = wire.inside.enter(|| netdev::xdp_programs(ifindex)).unwrap()[..] else {
            panic!("one program")
        };
        let program_id = attached.program_id;
        let warning = Diagnostic::XdpProgramAttached { program_id, program: Some("drop_all".into()) };
        let mut warnings = Vec::new();
        let mut look = |capture: &mut Capture| {
            let events = capture.events().into_iter();
            warnings.extend(events.filter(|event| matches!(event, PortEvent::Warning { .. })));
            !warnings.is_empty()
        };
        wait_until("the program is reported", || look(&mut capture));
        look(&mut capture);
        assert_eq!(warnings, [PortEvent::Warning { port: "in0".into(), warning: warning.clone() }], "{port}");
        assert_eq!(capture.finish().ports[0].warnings, [warning], "{port}");
    }
}
