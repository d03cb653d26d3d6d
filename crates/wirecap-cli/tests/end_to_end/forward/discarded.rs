//! What a router discards before routing: damaged headers, addresses that no router forwards from or to, and
//! packets to all hosts.
//!
//! ```text
//!   left 192.0.2.1, fd00:1::1 ══ m0 .254 ─ wirecap forward --route ─ m1 .254 ══ right 198.51.100.1, fd00:2::1
//! ```

use std::{collections::BTreeMap, net::Ipv6Addr};

use wirecap_headers::{MacAddress, checksum};
use wirecap_lab::require_root;

use super::{
    dropped,
    routes::{cause, mac, networks, route},
    way,
};
use crate::lab::read;

/// All addresses have a route.
const TABLE: &str = "
    192.0.2.0/24     dev m0
    fd00:1::/64      dev m0
    default          dev m1 via 198.51.100.1
    ::/0             dev m1 via fd00:2::1
";
/// The UDP port of all packets.
const PORT: [u8; 2] = [0x23, 0x28];

/// Ethernet headers of IPv4 and IPv6.
const V4: [u8; 2] = [0x08, 0x00];
const V6: [u8; 2] = [0x86, 0xdd];

/// An EtherType and IPv4 with these options and UDP, from 192.0.2.1 to 198.51.100.1; the header checksum
/// covers the change.
fn v4(options: &[u8], change: impl Fn(&mut [u8])) -> Vec<u8> {
    let (words, len) = (0x45 + (options.len() / 4) as u8, (30 + options.len()) as u8);
    let mut packet = vec![words, 0, 0, len, 0, 7, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 1];
    packet.extend(options);
    packet.extend([0xc0, 0, PORT[0], PORT[1], 0, 10, 0, 0, 1, 2]);
    change(&mut packet);
    let header_len = (usize::from(packet[0] & 15) * 4).clamp(20, packet.len());
    let checksum = checksum::of(&packet[..header_len]);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    [&V4[..], &packet].concat()
}

fn v4_between(source: [u8; 4], destination: [u8; 4]) -> Vec<u8> {
    v4(&[], |packet| {
        packet[12..16].copy_from_slice(&source);
        packet[16..20].copy_from_slice(&destination);
    })
}

fn v6_between(source: &str, destination: &str) -> Vec<u8> {
    v6(|packet| {
        for (at, address) in [(8, source), (24, destination)] {
            packet[at..at + 16].copy_from_slice(&address.parse::<Ipv6Addr>().unwrap().octets());
        }
    })
}

/// The same for IPv6, from fd00:1::1 to fd00:2::1; all checksums are correct if the change leaves a packet.
fn v6(change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 10, 17, 64];
    for network in [1, 2] {
        packet.extend([0xfd, 0, 0, network, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    }
    packet.extend([0xc0, 0, PORT[0], PORT[1], 0, 10, 0, 0, 1, 2]);
    change(&mut packet);
    let _ = checksum::fill(&mut packet);
    [&V6[..], &packet].concat()
}

/// The cause of packets whose addresses cannot be read: the filter in front leaves them to the host.
const HOST: &str = "left to the host";

/// Packets, each with the cause of its discard; a packet without a cause is forwarded.
fn packets() -> Vec<(&'static str, Vec<u8>)> {
    let (left, right) = ([192, 0, 2, 1], [198, 51, 100, 1]);
    let mut damaged = v4(&[], |_| {});
    damaged[12] ^= 0x40;
    let mut packets = vec![
        ("", v4(&[], |_| {})),
        ("", v4(&[1; 8], |_| {})),
        // With padding, and with a loose source route.
        ("", [v4(&[], |_| {}), vec![0; 16]].concat()),
        ("", v4(&[131, 7, 4, 10, 0, 0, 1, 0], |_| {})),
        ("bad_checksum", damaged),
        ("bad_header", v4(&[], |packet| packet[0] = 0x44)),
        ("bad_header", v4(&[], |packet| packet[0] = 0x4f)),
        ("bad_header", v4(&[], |packet| packet[0] = 0x55)),
        (HOST, v4(&[], |_| {})[..2 + 19].to_vec()),
        ("bad_length", v4(&[], |packet| packet[3] = 19)),
        ("bad_length", v4(&[1; 8], |packet| packet[3] = 27)),
        ("bad_length", v4(&[], |packet| packet[3] = 31)),
        ("bad_length", v4(&[], |packet| packet[2] = 0x05)),
        ("strict_source_route", v4(&[137, 7, 4, 10, 0, 0, 1, 0], |_| {})),
        ("", v6(|_| {})),
        ("", v6(|packet| packet.extend([0; 4]))),
        ("bad_header", v6(|packet| packet[0] = 0x50)),
        (HOST, v6(|packet| packet.truncate(39))),
        ("bad_length", v6(|packet| packet[5] = 11)),
        ("bad_length", v6(|packet| packet.truncate(47))),
    ];
    for source in [[192, 0, 2, 254], [198, 51, 100, 254]] {
        packets.push(("own_source", v4_between(source, right)));
    }
    for source in ["fd00:1::fe", "fd00:2::fe"] {
        packets.push(("own_source", v6_between(source, "fd00:2::1")));
    }
    let martians = [[0, 1, 2, 3], [127, 0, 0, 1], [169, 254, 1, 1], [224, 0, 0, 1], [240, 1, 2, 3], [255; 4]];
    for address in martians {
        packets.push(("martian_source", v4_between(address, right)));
        packets.push(("martian_destination", v4_between(left, address)));
    }
    for address in ["::", "::1", "::ffff:198.51.100.1", "fe80::1234", "ff02::1", "ff0e::1"] {
        packets.push(("martian_source", v6_between(address, "fd00:2::1")));
        packets.push(("martian_destination", v6_between("fd00:1::1", address)));
    }
    for all_hosts in [[192, 0, 2, 255], [198, 51, 100, 255]] {
        packets.push(("martian_source", v4_between(all_hosts, right)));
        packets.push(("directed_broadcast", v4_between(left, all_hosts)));
    }
    packets
}

#[test]
fn packets_that_no_router_forwards_are_discarded_for_their_cause() {
    if !require_root("forward::packets_that_no_router_forwards_are_discarded_for_their_cause") {
        return;
    }
    let cable = networks("discarded");
    let [router, left] = [mac(&cable.middle, "m0"), mac(&cable.left, "l0")];
    let [router, left] = [router, left].map(|mac| mac.parse::<MacAddress>().unwrap().0);
    let running = route(&cable, TABLE, &[]);
    let packets = packets();
    let forwarded = packets.iter().filter(|(cause, _)| cause.is_empty()).count();
    let listener = cable.listen("packet:r0", "arrived.pcapng", &["udp dst port 9000"]);
    let mut sender = cable.sender();
    let mut send = |to: [u8; 6], packet: &[u8]| sender.send(&[&to[..], &left, packet].concat()).unwrap();
    // Frames to all hosts of the link or to a group are never forwarded, although their packets go to one
    // host.
    for to in [[0xff; 6], [1, 0, 0x5e, 0, 0, 1], [0x33, 0x33, 0, 0, 0, 1]] {
        send(to, &v4(&[], |_| {}));
        send(to, &v6(|_| {}));
    }
    packets.iter().for_each(|(_, packet)| send(router, packet));
    // When the pings have come through, so have all packets before them.
    cable.assert_ping(1, &["198.51.100.1"]);
    cable.assert_ping(1, &["fd00:2::1"]);
    let (ended, heard) = (running.stop(), listener.stop());
    assert_eq!((ended.code, heard.code), (Some(0), Some(0)), "{ended:#?} {heard:#?}");
    assert_eq!(read(&cable.path("arrived.pcapng")).packets.len(), forwarded, "{ended:#?}");
    let mut expected: BTreeMap<_, u64> = BTreeMap::new();
    let causes = packets.iter().map(|(cause, _)| *cause).filter(|cause| !["", HOST].contains(cause));
    causes.for_each(|cause| *expected.entry(cause).or_default() += 1);
    for (name, packets) in &expected {
        assert_eq!(cause(&ended, "m0", name), *packets, "{name}: {ended:#?}");
    }
    assert_eq!(dropped(&way(&ended, "m0")), expected.values().sum::<u64>(), "{ended:#?}");
}
