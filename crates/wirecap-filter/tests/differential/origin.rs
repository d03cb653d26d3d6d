//! What a socket knows about a packet besides its bytes: `inbound`, `outbound`, `ifindex`.

use wirecap_filter::{DEFAULT_SNAPLEN, Filter, LINK_TYPE_ETHERNET, NativeFilter, Origin};
use wirecap_lab::require_root;
use wirecap_sys::pcap;

use crate::packets::generated;
use crate::sockets;
use crate::trial::{Verdict, trial, trial_for_socket};

const PACKET_HOST: u32 = 0;
const PACKET_OTHERHOST: u32 = 3;
const PACKET_OUTGOING: u32 = 4;
/// Radio: 802.11, with and without a header of variable length in front.
const RADIOTAP: u16 = 127;
const IEEE802_11: u16 = 105;

fn compile(expression: &str, link_type: u16) -> Filter {
    Filter::compile(expression, link_type, DEFAULT_SNAPLEN).unwrap()
}

/// Whether a filter bound to a packet type and an interface matches, by interpreter and native code.
fn matches_bound(filter: &Filter, packet: &[u8], packet_type: u32, ifindex: u32) -> bool {
    let (bound, len) = (filter.bound_to(packet_type, ifindex), packet.len() as u32);
    assert!(!bound.asks_for_origin());
    assert_eq!(bound.expression(), filter.expression());
    let libpcap =
        pcap::library().unwrap().filter(&bound.program().insns().unwrap()).unwrap().run(packet, len);
    let native = NativeFilter::new(bound.program()).unwrap().matches(packet, len);
    assert_eq!((native, bound.program().run(packet, len)), (libpcap, libpcap), "{}", filter.expression());
    libpcap != 0
}

#[test]
fn directions_and_interfaces_are_those_the_filter_is_bound_to() {
    let radiotap = [vec![0, 0, 8, 0, 0, 0, 0, 0], vec![0x08; 60]].concat();
    for (link_type, packet) in [
        (LINK_TYPE_ETHERNET, vec![0; 60]),
        (12, vec![0x45; 60]),
        (RADIOTAP, radiotap),
        (IEEE802_11, vec![8; 60]),
    ] {
        let [inbound, outbound] = ["inbound", "outbound"].map(|expression| compile(expression, link_type));
        for packet_type in PACKET_HOST..=PACKET_OUTGOING {
            let sent = packet_type == PACKET_OUTGOING;
            assert_eq!(matches_bound(&inbound, &packet, packet_type, 1), !sent, "{link_type}, {packet_type}");
            assert_eq!(matches_bound(&outbound, &packet, packet_type, 1), sent, "{link_type}, {packet_type}");
        }
        assert!(inbound.program().asks(Origin::PacketType) && !inbound.program().asks(Origin::Interface));
        let seven = compile("ifindex 7", link_type);
        assert!(
            matches_bound(&seven, &packet, PACKET_HOST, 7) && !matches_bound(&seven, &packet, PACKET_HOST, 8),
            "{link_type}"
        );
        assert!(seven.program().asks(Origin::Interface) && !seven.program().asks(Origin::PacketType));
    }
}

/// On some link types the direction is in the packet, so filters read it there.
#[test]
fn a_direction_in_the_packet_needs_no_socket() {
    const COOKED: u16 = 113;
    let outbound = compile("outbound", COOKED);
    assert!(!outbound.asks_for_origin());
    let sent = [&[0, 4][..], &[0; 30]].concat();
    assert!(outbound.matches(&sent, 32) && !outbound.matches(&[0; 32], 32));
    assert!(!compile("link[-5] = 1 or ether[0xfffff02c] = 1", LINK_TYPE_ETHERNET).asks_for_origin());
}

/// On raw IP there is no link-level header for a negative offset to reach.
#[test]
fn raw_ip_has_nothing_in_front() {
    for (expression, matches_tcp) in
        [("ip[-1] = 1", false), ("not ip[-1] = 1", false), ("tcp or ip[-1] = 1", true)]
    {
        let filter = compile(expression, 12);
        let program = filter.program();
        let insns = program.insns().unwrap();
        let libpcap = pcap::library().unwrap().filter(&insns).unwrap();
        let native = NativeFilter::new(program).unwrap();
        for protocol in [6, 17] {
            let packet = [&[0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol][..], &[1; 50]].concat();
            let len = packet.len() as u32;
            let expected = libpcap.run(&packet, len);
            assert_eq!(expected != 0, matches_tcp && protocol == 6, "{expression}");
            assert_eq!(
                (program.run(&packet, len), native.matches(&packet, len)),
                (expected, expected),
                "{expression}"
            );
        }
    }
}

#[test]
fn an_unbound_filter_refuses_as_libpcap_does() {
    for (expression, link_type) in
        [("inbound", 1), ("outbound", 1), ("not ifindex 7", 1), ("inbound", RADIOTAP)]
    {
        let filter = compile(expression, link_type);
        let insns = filter.program().insns().unwrap();
        let libpcap = pcap::library().unwrap().filter(&insns).unwrap();
        let native = NativeFilter::new(filter.program()).unwrap();
        for packet in generated(50) {
            let verdicts = (
                libpcap.run(&packet.bytes, 60),
                filter.program().run(&packet.bytes, 60),
                native.matches(&packet.bytes, 60),
            );
            assert_eq!(verdicts, (0, 0, 0), "{expression}");
        }
    }
}

/// In the kernel's test run, packets are for the host, on the loopback interface of the namespace.
#[test]
fn a_socket_filter_gets_directions_from_the_kernel() {
    if !require_root("a_socket_filter_gets_directions_from_the_kernel") {
        return;
    }
    let packet = [[0; 12].as_slice(), &[8, 0, 0x45], &[0; 60]].concat();
    let lo = std::fs::read_to_string("/sys/class/net/lo/ifindex").unwrap();
    let lo = lo.trim();
    for (expression, expected) in [
        ("inbound", true),
        ("outbound", false),
        ("not outbound and ip", true),
        ("outbound or arp", false),
        ("link[0xfffff004:2] = 0", true),
        (&format!("ifindex {lo}"), true),
        (&format!("ifindex {lo} and inbound and ip"), true),
        ("ifindex 12345", false),
        ("ip or ifindex 12345", true),
    ] {
        let filter = compile(expression, LINK_TYPE_ETHERNET);
        let program =
            trial_for_socket(filter.program()).unwrap_or_else(|error| panic!("{expression}: {error}"));
        assert_eq!(sockets::verdict(&program, &packet), expected, "{expression}");
        // An XDP program knows only what the filter is bound to.
        for frags in [false, true] {
            let xdp = filter.bound_to(PACKET_OTHERHOST, 12_345);
            let expected = xdp.matches(&packet, packet.len() as u32);
            let xdp = trial(xdp.program(), frags).unwrap_or_else(|error| panic!("{expression}: {error}"));
            let action = xdp.test_run(&packet, 1).unwrap().action;
            assert_eq!(action == Verdict::Matches as u32, expected, "{expression}");
        }
    }
    let radio = trial_for_socket(compile("inbound", RADIOTAP).program()).unwrap();
    assert!(sockets::verdict(&radio, &[vec![0, 0, 8, 0], vec![0; 60]].concat()));
}
