//! Microsoft's verification suite, and packets of every kind.

use std::net::{IpAddr, SocketAddr};

use proptest::{collection::vec, prelude::*};

use super::*;

/// From "Verifying the RSS Hash Calculation": source, destination, hash of addresses, hash with ports.
const VECTORS: [(&str, &str, u32, u32); 8] = [
    ("66.9.149.187:2794", "161.142.100.80:1766", 0x323e_8fc2, 0x51cc_c178),
    ("199.92.111.2:14230", "65.69.140.83:4739", 0xd718_262a, 0xc626_b0ea),
    ("24.19.198.95:12898", "12.22.207.184:38024", 0xd2d0_a5de, 0x5c2b_394a),
    ("38.27.205.30:48228", "209.142.163.6:2217", 0x8298_9176, 0xafc7_327f),
    ("153.39.163.191:44251", "202.188.127.2:1303", 0x5d18_09c5, 0x10e8_28a2),
    ("[3ffe:2501:200:1fff::7]:2794", "[3ffe:2501:200:3::1]:1766", 0x2cc1_8cd5, 0x4020_7d3d),
    ("[3ffe:501:8::260:97ff:fe40:efab]:14230", "[ff02::1]:4739", 0x0f0c_461c, 0xdde5_1bbf),
    (
        "[3ffe:1900:4545:3:200:f8ff:fe21:67cf]:44251",
        "[fe80::200:f8ff:fe21:67cf]:38024",
        0x4b61_e985,
        0x02d1_feef,
    ),
];

fn bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().into(),
        IpAddr::V6(address) => address.octets().into(),
    }
}

/// An IP packet of TCP, UDP or another protocol; `fragment` are the flags and the offset of IPv4.
fn packet(source: SocketAddr, destination: SocketAddr, protocol: u8, fragment: [u8; 2]) -> Vec<u8> {
    let mut packet = match source {
        SocketAddr::V4(_) => vec![0x45, 0, 0, 28, 0, 0, fragment[0], fragment[1], 64, protocol, 0, 0],
        SocketAddr::V6(_) => vec![0x60, 0, 0, 0, 0, 8, protocol, 64],
    };
    packet.extend([bytes(source.ip()), bytes(destination.ip())].concat());
    packet.extend([source.port().to_be_bytes(), destination.port().to_be_bytes(), [0; 2], [0; 2]].concat());
    packet
}

fn framed(packet: &[u8]) -> Vec<u8> {
    let ether_type = if packet[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xdd] };
    [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1][..], &[0x81, 0, 0, 7], &ether_type, packet].concat()
}

fn rss(key: &RssKey, fields: HashFields) -> Rss {
    Rss::new(key, IndirectionTable::equal(4).unwrap(), fields)
}

#[test]
fn the_verification_suite_of_microsoft() {
    let key = RssKey::default();
    for (source, destination, of_addresses, with_ports) in VECTORS {
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        for (protocol, fields, expected) in [
            (TCP, HashFields::Ports, with_ports),
            (UDP, HashFields::Ports, with_ports),
            (TCP, HashFields::TcpPorts, with_ports),
            (UDP, HashFields::TcpPorts, of_addresses),
            (TCP, HashFields::Addresses, of_addresses),
            (1, HashFields::Ports, of_addresses),
        ] {
            let (rss, packet) = (rss(&key, fields), packet(source, destination, protocol, [0x40, 0]));
            assert_eq!(rss.hash(&packet, FirstHeader::Ip), Some(expected), "{source} {protocol} {fields}");
            // Behind a VLAN tag, too.
            assert_eq!(rss.hash(&framed(&packet), FirstHeader::Ethernet), Some(expected), "{source}");
            assert_eq!(rss.queue(&packet, FirstHeader::Ip), expected as usize % 4);
        }
    }
}

const TCP: u8 = 6;
const UDP: u8 = 17;

#[test]
fn fragments_and_cut_packets_are_hashed_by_addresses_and_what_is_not_ip_not_at_all() {
    let (source, destination, of_addresses, with_ports) = VECTORS[0];
    let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
    let rss = rss(&RssKey::default(), HashFields::Ports);
    let hash = |packet: &[u8]| rss.hash(&framed(packet), FirstHeader::Ethernet);
    // The first fragment, which has the ports, and a later one.
    for fragment in [[0x20, 0], [0x20, 1], [0, 1]] {
        assert_eq!(hash(&packet(source, destination, UDP, fragment)), Some(of_addresses));
    }
    let whole = packet(source, destination, UDP, [0, 0]);
    assert_eq!(hash(&whole[..24]), Some(with_ports));
    assert_eq!(hash(&whole[..23]), Some(of_addresses));
    assert_eq!(hash(&whole[..19]), None);
    let arp = [&[0xff; 12][..], &[0x08, 0x06], &[0; 28]].concat();
    assert_eq!((rss.hash(&arp, FirstHeader::Ethernet), rss.queue(&arp, FirstHeader::Ethernet)), (None, 0));
}

#[test]
fn both_directions_have_one_hash_with_the_symmetric_key_only() {
    let of = |key: &RssKey, source: &str, destination: &str| {
        let packet = packet(source.parse().unwrap(), destination.parse().unwrap(), TCP, [0, 0]);
        rss(key, HashFields::Ports).hash(&packet, FirstHeader::Ip)
    };
    for (source, destination, ..) in VECTORS {
        let symmetric = RssKey::symmetric();
        assert_eq!(of(&symmetric, source, destination), of(&symmetric, destination, source));
        let usual = RssKey::default();
        assert_ne!(of(&usual, source, destination), of(&usual, destination, source));
    }
}

#[test]
fn only_link_types_of_networks_with_rss_have_a_first_header() {
    let first = [1, 101, 228, 113, 105].map(FirstHeader::of_link_type);
    let (ethernet, ip) = (Some(FirstHeader::Ethernet), Some(FirstHeader::Ip));
    assert_eq!(first, [ethernet, ip, ip, None, None]);
}

proptest! {
    #[test]
    fn any_bytes_have_a_queue(bytes in vec(any::<u8>(), 0..120), version in 0usize..4) {
        let mut bytes = bytes;
        let begin: &[u8] = [&[][..], &[0x45], &[0x60], &[0x4f]][version];
        bytes.iter_mut().zip(begin).for_each(|(byte, begin)| *byte = *begin);
        let rss = rss(&RssKey::default(), HashFields::Ports);
        for first in [FirstHeader::Ip, FirstHeader::Ethernet] {
            prop_assert!(rss.queue(&bytes, first) < 4);
        }
    }
}
