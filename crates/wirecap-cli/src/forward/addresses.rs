//! The router's own addresses: which of them speaks to a sender, and which no other host may send from.

use std::net::{IpAddr, Ipv4Addr};

use wirecap_sys::netdev::{Interface, InterfaceAddress};

/// Longest prefix of IPv4 whose last address is that of all hosts (RFC 3021: a /31 has none).
const BROADCAST_PREFIX_MAX: u8 = 30;

/// What the kernel had configured on each port when forwarding began.
#[derive(Debug)]
pub(super) struct Addresses {
    by_port: Vec<Vec<InterfaceAddress>>,
    /// All of them, sorted, since each packet's source is looked for.
    own: Vec<IpAddr>,
    /// Those of all hosts of their networks, sorted as well.
    broadcast: Vec<IpAddr>,
}

impl Addresses {
    pub(super) fn of(interfaces: &[Interface]) -> Self {
        Self::by_port(interfaces.iter().map(|interface| interface.addresses.clone()).collect())
    }

    fn by_port(by_port: Vec<Vec<InterfaceAddress>>) -> Self {
        let all = by_port.iter().flatten();
        let mut own: Vec<_> = all.clone().map(|own| own.address).collect();
        let mut broadcast: Vec<_> = all.filter_map(broadcast_of).collect();
        own.sort_unstable();
        broadcast.sort_unstable();
        Self { by_port, own, broadcast }
    }

    /// Whether it is an address of the router.
    pub(super) fn is_own(&self, address: IpAddr) -> bool {
        self.own.binary_search(&address).is_ok()
    }

    /// The one that speaks to a sender whose packets come in by this port: of the same version and, if there is one, of the same
    /// scope; rather one of this port than of another, rather one of the sender's network than not. A link-local one speaks on its own
    /// port only.
    pub(super) fn for_sender(&self, port: usize, sender: IpAddr) -> Option<IpAddr> {
        let all = self.by_port.iter().enumerate();
        let all = all.flat_map(|(of, addresses)| addresses.iter().map(move |address| (of == port, address)));
        let able = all.filter(|(is_own, candidate)| {
            let address = candidate.address;
            address.is_ipv4() == sender.is_ipv4()
                && !address.is_loopback()
                && (*is_own || !is_link_local(address))
        });
        // From the end, since the last of equals is taken: the first is the primary one.
        let best = able.rev().max_by_key(|(is_own, candidate)| {
            let is_of_scope = is_link_local(candidate.address) == is_link_local(sender);
            (is_of_scope, *is_own, holds(candidate, sender))
        });
        best.map(|(_, candidate)| candidate.address)
    }

    /// Whether it is the address of all hosts of a network that one of the ports is in.
    pub(super) fn is_broadcast(&self, address: IpAddr) -> bool {
        self.broadcast.binary_search(&address).is_ok()
    }
}

/// The address of all hosts of the network that an address is in, if it has one.
fn broadcast_of(own: &InterfaceAddress) -> Option<IpAddr> {
    let IpAddr::V4(address) = own.address else { return None };
    let hosts = u32::MAX.checked_shr(own.prefix_length.into()).unwrap_or(0);
    (own.prefix_length <= BROADCAST_PREFIX_MAX).then(|| Ipv4Addr::from_bits(address.to_bits() | hosts).into())
}

/// Whether an address is in the network of one of the router's.
fn holds(own: &InterfaceAddress, address: IpAddr) -> bool {
    let (bits, len) = match (own.address, address) {
        (IpAddr::V4(own), IpAddr::V4(other)) => ((own.to_bits() ^ other.to_bits()).leading_zeros(), 32),
        (IpAddr::V6(own), IpAddr::V6(other)) => ((own.to_bits() ^ other.to_bits()).leading_zeros(), 128),
        _ => return false,
    };
    bits.min(len) >= own.prefix_length.into()
}

/// Whether it means something on its link only.
pub(super) fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(by_port: &[&[&str]]) -> Addresses {
        let read = |text: &&str| {
            let (address, length) = text.split_once('/').unwrap();
            InterfaceAddress { address: address.parse().unwrap(), prefix_length: length.parse().unwrap() }
        };
        Addresses::by_port(by_port.iter().map(|port| port.iter().map(read).collect()).collect())
    }

    #[test]
    fn the_nearest_address_of_the_right_kind_speaks() {
        let router = addresses(&[
            &["192.0.2.254/24", "10.0.0.1/8", "fe80::1/64", "2001:db8:1::fe/64"],
            &["203.0.113.1/32", "fe80::2/64"],
            &["169.254.0.9/16"],
            &["2001:db8:4::fe/64"],
        ]);
        for (port, sender, expected) in [
            (0, "192.0.2.1", "192.0.2.254"),
            (0, "10.1.2.3", "10.0.0.1"),
            // From behind another router: the first.
            (0, "8.8.8.8", "192.0.2.254"),
            (0, "2001:db8:9::1", "2001:db8:1::fe"),
            (0, "fe80::77", "fe80::1"),
            (1, "192.0.2.1", "203.0.113.1"),
            // None of its own of that scope: one of another port.
            (1, "2001:db8:9::1", "2001:db8:1::fe"),
            (1, "fe80::77", "fe80::2"),
            (2, "192.0.2.1", "192.0.2.254"),
            (2, "169.254.3.4", "169.254.0.9"),
            (3, "fe80::77", "2001:db8:4::fe"),
            (3, "10.1.2.3", "10.0.0.1"),
        ] {
            let spoken = router.for_sender(port, sender.parse().unwrap());
            assert_eq!(spoken, Some(expected.parse().unwrap()), "{sender} by port {port}");
        }
        let only_local = addresses(&[&["fe80::1/64"], &["192.0.2.1/24", "127.0.0.1/8"]]);
        assert_eq!(only_local.for_sender(0, "2001:db8::1".parse().unwrap()), "fe80::1".parse().ok());
        assert_eq!(only_local.for_sender(1, "2001:db8::1".parse().unwrap()), None);
        assert_eq!(only_local.for_sender(0, "127.0.0.2".parse().unwrap()), "192.0.2.1".parse().ok());
        assert_eq!(addresses(&[&[]]).for_sender(0, "192.0.2.1".parse().unwrap()), None);
    }

    #[test]
    fn the_last_address_of_a_network_is_that_of_all_its_hosts() {
        let router = addresses(&[
            &["192.0.2.254/24", "198.51.100.1/31"],
            &["10.1.0.1/16", "203.0.113.9/32", "fd00::1/64"],
        ]);
        for (address, expected) in [
            ("192.0.2.255", true),
            ("192.0.2.254", false),
            ("192.0.3.255", false),
            ("10.1.255.255", true),
            ("10.1.0.255", false),
            ("198.51.100.1", false),
            ("203.0.113.9", false),
            ("fd00::ffff:ffff:ffff:ffff", false),
        ] {
            assert_eq!(router.is_broadcast(address.parse().unwrap()), expected, "{address}");
        }
        let is_own = |address: &str| router.is_own(address.parse().unwrap());
        assert!(is_own("192.0.2.254") && is_own("10.1.0.1") && is_own("fd00::1"));
        assert!(!is_own("192.0.2.253") && !is_own("192.0.2.255") && !is_own("fd00::2"));
    }
}
