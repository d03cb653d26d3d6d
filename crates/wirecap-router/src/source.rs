//! The source of a packet, by which what is scarce is shared.
//!
//! Rule: a source is what one host sends from, as far as its packets tell. That is one address of IPv4, by
//! one port. Of IPv6, a host has all addresses of its link's /64 to choose from, so it is that /64 with an
//! Ethernet address: the hosts of an attached link are told apart, those behind a router are one source.

use std::net::{IpAddr, Ipv4Addr};

use wirecap_headers::MacAddress;

/// Where packets come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Source {
    port: usize,
    sender: Sender,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Sender {
    V4(Ipv4Addr),
    V6 { prefix: u64, mac: MacAddress },
}

impl Source {
    /// That of a packet with these source addresses that came in by a port.
    pub(crate) fn new(port: usize, mac: MacAddress, address: IpAddr) -> Self {
        let sender = match address {
            IpAddr::V4(v4) => Sender::V4(v4),
            IpAddr::V6(v6) => Sender::V6 { prefix: (v6.to_bits() >> 64) as u64, mac },
        };
        Self { port, sender }
    }

    /// A source of IPv4.
    #[cfg(test)]
    pub(crate) fn v4(port: usize, address: impl Into<Ipv4Addr>) -> Self {
        Self { port, sender: Sender::V4(address.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(port: usize, host: u8, address: &str) -> Source {
        Source::new(port, MacAddress([2, 0, 0, 0, 0, host]), address.parse().unwrap())
    }

    #[test]
    fn a_host_of_ipv6_is_one_source_by_all_addresses_of_its_link() {
        assert_eq!(source(0, 1, "2001:db8:0:1::1"), source(0, 1, "2001:db8:0:1:ffff::2"));
        assert_ne!(source(0, 1, "2001:db8:0:1::1"), source(0, 1, "2001:db8:0:2::1"));
        assert_ne!(source(0, 1, "2001:db8:0:1::1"), source(0, 2, "2001:db8:0:1::2"), "two hosts of a link");
        assert_ne!(source(0, 1, "192.0.2.1"), source(0, 1, "192.0.2.2"));
        assert_ne!(source(0, 1, "192.0.2.1"), source(1, 1, "192.0.2.1"));
        assert_eq!(source(0, 1, "192.0.2.1"), Source::v4(0, [192, 0, 2, 1]));
    }
}
