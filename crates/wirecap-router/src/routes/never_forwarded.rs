//! What no router forwards, and what none forwards unless its routes say so.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Destinations in these are never forwarded.
pub(super) const NEVER_FORWARDED: [IpNet; 10] = [
    v4([0, 0, 0, 0], 8),
    v4([127, 0, 0, 0], 8),
    v4([169, 254, 0, 0], 16),
    v4([224, 0, 0, 0], 4),
    v4([255, 255, 255, 255], 32),
    v6(0, 128),
    v6(1, 128),
    v6(0xffff << 32, 96),
    v6(0xfe80 << 112, 10),
    v6(0xff00 << 112, 8),
];

/// Reserved for a use that never came (RFC 1112, section 4). Has a route only where a line of the table lies
/// within it; a default route does not count.
pub(super) const RESERVED: IpNet = v4([240, 0, 0, 0], 4);

const fn v4([a, b, c, d]: [u8; 4], len: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), len))
}

const fn v6(bits: u128, len: u8) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::from_bits(bits), len))
}

/// The one of [`NEVER_FORWARDED`] that all of a prefix is in.
pub(super) fn never_around(prefix: &IpNet) -> Option<&'static IpNet> {
    NEVER_FORWARDED.iter().find(|never| never.contains(prefix))
}

/// Whether packets from or to this address are not forwarded: it means something on its link only, or
/// nothing.
pub(super) fn is_never_forwarded(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            matches!(v4.octets(), [0 | 127 | 224..=239, ..] | [169, 254, ..] | [255, 255, 255, 255])
        }
        IpAddr::V6(v6) => {
            v6.is_unspecified()
                || v6.is_loopback()
                || v6.is_unicast_link_local()
                || v6.is_multicast()
                || v6.to_ipv4_mapped().is_some()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_of_an_address_matches_the_list() {
        let ends = NEVER_FORWARDED.iter().chain([&RESERVED]).flat_map(|net| match net {
            IpNet::V4(net) => {
                let (first, last) = (net.network().to_bits(), net.broadcast().to_bits());
                [first, last, first.wrapping_sub(1), last.wrapping_add(1)]
                    .map(|bits| IpAddr::from(Ipv4Addr::from_bits(bits)))
            }
            IpNet::V6(net) => {
                let (first, last) = (net.network().to_bits(), net.broadcast().to_bits());
                [first, last, first.wrapping_sub(1), last.wrapping_add(1)]
                    .map(|bits| IpAddr::from(Ipv6Addr::from_bits(bits)))
            }
        });
        for address in ends {
            let is_listed = NEVER_FORWARDED.iter().any(|never| never.contains(&address));
            assert_eq!(is_never_forwarded(address), is_listed, "{address}");
        }
    }
}
