//! The source of a packet, by which scarce room is shared.
//!
//! Rule: a source is what one sender can be expected to send from. That is one address of IPv4, a /64 of
//! IPv6, which is what a link has, by one port.

use std::net::{IpAddr, Ipv6Addr};

/// Where packets come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Source {
    port: usize,
    network: IpAddr,
}

impl Source {
    /// That of a packet with this source address that came in by a port.
    pub(crate) fn new(port: usize, address: IpAddr) -> Self {
        let network = match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64)).into(),
        };
        Self { port, network }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(port: usize, address: &str) -> Source {
        Source::new(port, address.parse().unwrap())
    }

    #[test]
    fn the_hosts_of_an_ipv6_link_are_one_source() {
        assert_eq!(source(0, "2001:db8:0:1::1"), source(0, "2001:db8:0:1:ffff::2"));
        assert_ne!(source(0, "2001:db8:0:1::1"), source(0, "2001:db8:0:2::1"));
        assert_ne!(source(0, "192.0.2.1"), source(0, "192.0.2.2"));
        assert_ne!(source(0, "192.0.2.1"), source(1, "192.0.2.1"));
    }
}
