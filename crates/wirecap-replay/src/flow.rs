//! Flows: a number for each, the same for both directions.
//!
//! ```text
//!   Ethernet ─► VLAN tags ─┬► IPv4 / IPv6 ─┬► TCP, UDP, SCTP, DCCP, UDP-Lite   addresses, protocol, ports
//!                          │               ├► fragments, all of a packet       addresses
//!                          │               └► anything else                    addresses, protocol
//!                          └► anything else                                    both MAC addresses, EtherType
//! ```
//!
//! Rule: source and destination are mixed symmetrically. Damaged packets have a number, too, from what can be
//! read of them.

use std::net::IpAddr;

use wirecap_headers::Layout;

/// TCP, UDP, DCCP, SCTP, UDP-Lite: ports are the first four bytes of each.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// The number of the flow an Ethernet frame belongs to, the same for both directions.
///
/// ```
/// use wirecap_replay::flow_hash;
///
/// // Two frames without IP, there and back.
/// let there = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]].concat();
/// let back = [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]].concat();
/// assert_eq!(flow_hash(&there), flow_hash(&back));
/// ```
pub fn flow_hash(frame: &[u8]) -> u64 {
    let layout = Layout::of(frame);
    let network = layout.as_ref().and_then(|layout| network(frame, layout));
    network.unwrap_or_else(|| {
        let both = both(bytes(frame, 0, 6), bytes(frame, 6, 6));
        mix(both ^ u64::from(layout.map_or(0, |layout| layout.ether_type())))
    })
}

/// The number of an IP packet. For fragments it ignores protocol and ports, as only the first has ports.
fn network(frame: &[u8], layout: &Layout) -> Option<u64> {
    let ip = layout.ip()?;
    let addresses = both(&octets(ip.source(frame)?), &octets(ip.destination(frame)?));
    if ip.is_fragment() {
        return Some(mix(addresses));
    }
    let ports = ip.transport().filter(|_| WITH_PORTS.contains(&ip.protocol()));
    let ports = ports.map_or(0, |at| both(bytes(frame, at, 2), bytes(frame, at + 2, 2)));
    Some(mix(addresses ^ mix(ports ^ u64::from(ip.protocol()))))
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// Symmetric in its arguments. Not exclusive or, which would be 0 for every packet that a host sends to
/// itself.
fn both(one: &[u8], other: &[u8]) -> u64 {
    digest(one).wrapping_add(digest(other))
}

fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0x9e37_79b9_7f4a_7c15, |digest, &byte| mix(digest ^ u64::from(byte)))
}

/// The finalizer of SplitMix64.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The existing part of `len` bytes from `at` on.
fn bytes(frame: &[u8], at: usize, len: usize) -> &[u8] {
    let end = frame.len().min(at + len);
    &frame[at.min(end)..end]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    const IPV4: u16 = 0x0800;
    const IPV6: u16 = 0x86dd;
    const FRAGMENT: u8 = 44;
    const MACS: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

    fn frame(tags: usize, kind: u16, rest: &[u8]) -> Vec<u8> {
        let tags = [0x81, 0x00, 0x00, 0x05].repeat(tags);
        [&MACS, tags.as_slice(), &kind.to_be_bytes(), rest].concat()
    }

    fn packet4(source: u8, destination: u8, protocol: u8, fragment: u16, ports: [u16; 2]) -> Vec<u8> {
        let mut header = [0; 24];
        (header[0], header[9], header[15], header[19]) = (0x45, protocol, source, destination);
        header[6..8].copy_from_slice(&fragment.to_be_bytes());
        header[20..22].copy_from_slice(&ports[0].to_be_bytes());
        header[22..].copy_from_slice(&ports[1].to_be_bytes());
        header.to_vec()
    }

    fn packet6(source: u8, destination: u8, extension: Option<u8>, ports: [u16; 2]) -> Vec<u8> {
        let mut header = vec![0; 40];
        (header[0], header[6], header[23], header[39]) = (0x60, extension.unwrap_or(17), source, destination);
        if extension.is_some() {
            // As a fragment header: the first fragment, with more to follow.
            header.extend([17, 0, 0, 1, 0, 0, 0, 0]);
        }
        header.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        header
    }

    #[test]
    fn both_directions_are_one_flow_with_any_tags() {
        for tags in 0..3 {
            let there = flow_hash(&frame(tags, IPV4, &packet4(1, 2, 6, 0, [1_000, 80])));
            assert_eq!(there, flow_hash(&frame(tags, IPV4, &packet4(2, 1, 6, 0, [80, 1_000]))));
            assert_eq!(
                there,
                flow_hash(&frame(0, IPV4, &packet4(1, 2, 6, 0x4000, [1_000, 80]))),
                "don't fragment"
            );
            let there = flow_hash(&frame(tags, IPV6, &packet6(1, 2, None, [53, 5_000])));
            assert_eq!(
                there,
                flow_hash(&frame(tags, IPV6, &packet6(2, 1, Some(0), [5_000, 53]))),
                "an extension"
            );
        }
    }

    #[test]
    fn a_difference_in_any_field_is_another_flow() {
        let packets = [
            frame(0, IPV4, &packet4(1, 2, 6, 0, [1_000, 80])),
            frame(0, IPV4, &packet4(1, 2, 17, 0, [1_000, 80])),
            frame(0, IPV4, &packet4(1, 3, 6, 0, [1_000, 80])),
            frame(0, IPV4, &packet4(1, 2, 6, 0, [1_001, 80])),
            frame(0, IPV4, &packet4(1, 1, 6, 0, [80, 80])),
            frame(0, IPV4, &packet4(2, 2, 6, 0, [80, 80])),
            frame(0, IPV6, &packet6(1, 2, None, [1_000, 80])),
            frame(0, 0x0806, &[]),
            frame(0, 0x88cc, &[]),
        ];
        let numbers: HashSet<u64> = packets.iter().map(|packet| flow_hash(packet)).collect();
        assert_eq!(numbers.len(), packets.len());
    }

    #[test]
    fn all_fragments_of_a_packet_share_a_flow() {
        let first = flow_hash(&frame(0, IPV4, &packet4(1, 2, 17, 0x2000, [1_000, 80])));
        assert_eq!(first, flow_hash(&frame(0, IPV4, &packet4(1, 2, 17, 0x00b9, [7, 7]))));
        let first = flow_hash(&frame(0, IPV6, &packet6(1, 2, Some(FRAGMENT), [1_000, 80])));
        assert_eq!(first, flow_hash(&frame(0, IPV6, &packet6(1, 2, Some(FRAGMENT), [7, 7]))));
    }

    #[test]
    fn flows_are_spread_evenly() {
        let mut queues = [0; 4];
        for port in 0..4_000 {
            queues[(flow_hash(&frame(0, IPV4, &packet4(1, 2, 6, 0, [port, 80]))) % 4) as usize] += 1;
        }
        assert!(queues.iter().all(|flows| (900..1_100).contains(flows)), "{queues:?}");
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_hash(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0_usize..4) {
            let mut bytes = bytes;
            if let (Some(place), Some(kind)) = (bytes.get_mut(12..14), [IPV4, IPV6, 0x8100].get(kind)) {
                place.copy_from_slice(&kind.to_be_bytes());
            }
            prop_assert_eq!(flow_hash(&bytes), flow_hash(&bytes.clone()));
        }
    }
}
