//! The router's own addresses: which of them answers a sender, and which no other host may send from.

use std::net::IpAddr;

use ipnet::IpNet;

/// Longest prefix of IPv4 whose last address is that of all hosts (RFC 3021: a /31 has none).
const MAX_BROADCAST_PREFIX: u8 = 30;

/// What was configured on each port when the router was made.
#[derive(Debug)]
pub(crate) struct Addresses {
    by_port: Vec<Vec<IpNet>>,
    /// All of them, sorted, since each packet's source is looked for.
    own: Vec<IpAddr>,
    /// Those of all hosts of their networks, sorted as well.
    broadcast: Vec<IpAddr>,
}

impl Addresses {
    /// Each with the length of its network's prefix.
    pub(crate) fn new(by_port: Vec<Vec<IpNet>>) -> Self {
        let all = by_port.iter().flatten();
        let mut own: Vec<_> = all.clone().map(IpNet::addr).collect();
        let mut broadcast: Vec<_> = all.filter_map(broadcast_of).collect();
        own.sort_unstable();
        broadcast.sort_unstable();
        Self { by_port, own, broadcast }
    }

    /// All addresses of the router, by port.
    pub(crate) fn all(&self) -> impl Iterator<Item = IpAddr> {
        self.by_port.iter().flatten().map(IpNet::addr)
    }

    /// Whether it is an address of the router.
    pub(crate) fn is_own(&self, address: IpAddr) -> bool {
        self.own.binary_search(&address).is_ok()
    }

    /// The address that answers a sender whose packets come in by a port: of the same version and, if there
    /// is one, of the same scope; rather one of this port than of another, rather one of the sender's network
    /// than not. A link-local address answers on its own port only.
    pub(crate) fn for_sender(&self, port: usize, sender: IpAddr) -> Option<IpAddr> {
        let all = self.by_port.iter().enumerate();
        let all = all.flat_map(|(of, networks)| networks.iter().map(move |network| (of == port, network)));
        let able = all.filter(|(is_own, network)| {
            let address = network.addr();
            address.is_ipv4() == sender.is_ipv4()
                && !address.is_loopback()
                && (*is_own || !is_link_local(address))
        });
        // `max_by_key` returns the last maximum; reversing makes the primary address win ties.
        let best = able.rev().max_by_key(|(is_own, network)| {
            let is_of_scope = is_link_local(network.addr()) == is_link_local(sender);
            (is_of_scope, *is_own, network.contains(&sender))
        });
        best.map(|(_, network)| network.addr())
    }

    /// Whether it is the address of all hosts of a network that one of the ports is in.
    pub(crate) fn is_broadcast(&self, address: IpAddr) -> bool {
        self.broadcast.binary_search(&address).is_ok()
    }
}

/// The address of all hosts of a network, if it has one.
fn broadcast_of(network: &IpNet) -> Option<IpAddr> {
    match network {
        IpNet::V4(v4) if v4.prefix_len() <= MAX_BROADCAST_PREFIX => Some(v4.broadcast().into()),
        _ => None,
    }
}

/// Whether it means something on its link only.
pub(crate) fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(by_port: &[&[&str]]) -> Addresses {
        let read = |text: &&str| text.parse().unwrap();
        Addresses::new(by_port.iter().map(|port| port.iter().map(read).collect()).collect())
    }

    #[test]
    fn the_nearest_suitable_address_answers() {
        let router = addresses(&[
            &["192.0.2.254/24", "10.0.0.1/8", "fe80::1/64", "2001:db8:1::fe/64"],
            &["203.0.113.1/32", "fe80::2/64"],
            &["169.254.0.9/16"],
            &["2001:db8:4::fe/64"],
        ]);
        for (port, sender, expected) in [
            (0, "192.0.2.1", "192.0.2.254"),
            (0, "10.1.2.3", "10.0.0.1"),
            // A sender behind another router: the first address of the port.
            (0, "8.8.8.8", "192.0.2.254"),
            (0, "2001:db8:9::1", "2001:db8:1::fe"),
            (0, "fe80::77", "fe80::1"),
            (1, "192.0.2.1", "203.0.113.1"),
            // The port has no address of that scope: one of another port.
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
    fn the_last_address_of_a_network_is_its_broadcast() {
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
