//! What no router forwards.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Destinations in these are never forwarded.
pub(super) const NEVER: [IpNet; 9] = [
    v4([0, 0, 0, 0], 8),
    v4([127, 0, 0, 0], 8),
    v4([169, 254, 0, 0], 16),
    v4([224, 0, 0, 0], 4),
    v4([255, 255, 255, 255], 32),
    v6(0, 128),
    v6(1, 128),
    v6(0xfe80 << 112, 10),
    v6(0xff00 << 112, 8),
];

const fn v4([a, b, c, d]: [u8; 4], len: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), len))
}

const fn v6(bits: u128, len: u8) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::from_bits(bits), len))
}

/// The one of [`NEVER`] that all of a prefix is in.
pub(super) fn never_around(prefix: &IpNet) -> Option<&'static IpNet> {
    NEVER.iter().find(|never| never.contains(prefix))
}

/// Whether what comes from this address is not forwarded: it means something on its link only, or nothing.
pub(super) fn is_never_forwarded_from(source: IpAddr) -> bool {
    match source {
        IpAddr::V4(v4) => {
            let is_this_network = v4.octets()[0] == 0;
            is_this_network
                || v4.is_loopback()
                || v4.is_link_local()
                || v4.is_multicast()
                || v4.is_broadcast()
        }
        IpAddr::V6(v6) => {
            v6.is_unspecified() || v6.is_loopback() || v6.is_unicast_link_local() || v6.is_multicast()
        }
    }
}
