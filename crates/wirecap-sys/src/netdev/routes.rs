//! Routes over one interface: RTM_GETROUTE, of which the kernel gives only those that use it.
//!
//! ```text
//!   RTM_GETROUTE, NLM_F_DUMP, RTA_OIF = ifindex ──► kernel: all tables, also of several hops and of next-hop objects
//!   RTM_NEWROUTE = rtmsg (12 bytes) + RTA_DST, RTA_TABLE
//! ```
//!
//! Rule: a machine may have a million routes, so the kernel chooses, and reading ends with the first that is
//! wanted.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use libc::{AF_INET, AF_INET6, RTA_DST, RTA_OIF, RTA_TABLE, RTM_GETROUTE, RTPROT_KERNEL};
use netlink_packet_core::{parse_ip, parse_u32};

use super::error::Result;
use super::link;
use super::netlink::{Message, each_attribute, split_header};

const ACTION: &str = "asking for the routes over an interface";
/// Bytes of `struct rtmsg` (linux/rtnetlink.h): family, lengths of destination and source, type of service,
/// table, protocol, scope and type u8 each, flags u32.
const HEADER_BYTES: usize = 12;

/// A route that uses an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Where it leads: the network's address.
    pub destination: IpAddr,
    /// Length of the network's prefix in bits; 0 is the default route.
    pub prefix_length: u8,
    /// Number of its table; 254 is the main one.
    pub table: u32,
    /// Whether the kernel has made it by itself, for an address or because the interface is up.
    pub by_kernel: bool,
}

impl Route {
    /// Whether it is one that comes by itself with IPv6: of link-local addresses or multicast.
    #[must_use]
    pub fn is_automatic(&self) -> bool {
        match self.destination {
            IpAddr::V6(address) => {
                self.by_kernel && (address.is_unicast_link_local() || address.is_multicast())
            }
            IpAddr::V4(_) => false,
        }
    }
}

impl fmt::Display for Route {
    /// `198.51.100.0/24`, `default`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix_length {
            0 => f.write_str("default"),
            length => write!(f, "{}/{length}", self.destination),
        }
    }
}

/// The first route of any table over the interface with index `ifindex` that is `wanted`, of IPv4 before
/// IPv6.
///
/// # Errors
/// As [`interfaces`](super::interfaces).
pub fn find_route(ifindex: u32, wanted: impl Fn(&Route) -> bool) -> Result<Option<Route>> {
    for family in [AF_INET, AF_INET6] {
        let found = link::open()?.strict()?.find(ACTION, &request(family, ifindex), |reply| {
            Ok(parse(&reply.payload, ifindex)?.filter(&wanted))
        })?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn request(family: i32, ifindex: u32) -> Message {
    let mut header = [0; HEADER_BYTES];
    header[0] = family as u8;
    Message::new(RTM_GETROUTE, &header).with(RTA_OIF, &ifindex.to_ne_bytes())
}

/// `None` for a route of another family, or over another interface.
fn parse(payload: &[u8], ifindex: u32) -> Result<Option<Route>> {
    let (header, attributes) = split_header::<HEADER_BYTES>(ACTION, payload)?;
    let [family, prefix_length, _, _, table, protocol, ..] = *header;
    let mut route = Route {
        destination: match i32::from(family) {
            AF_INET => Ipv4Addr::UNSPECIFIED.into(),
            AF_INET6 => Ipv6Addr::UNSPECIFIED.into(),
            _ => return Ok(None),
        },
        prefix_length,
        table: table.into(),
        by_kernel: protocol == RTPROT_KERNEL,
    };
    let mut over = ifindex;
    each_attribute(ACTION, attributes, |kind, value| {
        match kind {
            RTA_DST => route.destination = parse_ip(value)?,
            RTA_TABLE => route.table = parse_u32(value)?,
            RTA_OIF => over = parse_u32(value)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok((over == ifindex).then_some(route))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(family: i32, destination: &[u8], prefix_length: u8, protocol: u8) -> Route {
        let mut header = [0; HEADER_BYTES];
        (header[0], header[1], header[4], header[5]) = (family as u8, prefix_length, 254, protocol);
        let message = Message::new(0, &header).with(RTA_OIF, &7_u32.to_ne_bytes());
        let message = if destination.is_empty() { message } else { message.with(RTA_DST, destination) };
        parse(&message.payload, 7).unwrap().unwrap()
    }

    #[test]
    fn the_kernels_ipv6_link_local_and_multicast_routes_are_automatic() {
        let (mut link_local, mut multicast) = ([0; 16], [0; 16]);
        link_local[..2].copy_from_slice(&[0xfe, 0x80]);
        multicast[0] = 0xff;
        const STATIC: u8 = 4;
        assert!(route(AF_INET6, &link_local, 64, RTPROT_KERNEL).is_automatic());
        assert!(route(AF_INET6, &multicast, 8, RTPROT_KERNEL).is_automatic());
        assert!(!route(AF_INET6, &link_local, 64, STATIC).is_automatic());
        assert!(!route(AF_INET6, &[], 0, RTPROT_KERNEL).is_automatic());
        assert!(!route(AF_INET, &[224, 0, 0, 0], 4, RTPROT_KERNEL).is_automatic());
    }

    #[test]
    fn a_route_is_named_by_its_network() {
        assert_eq!(route(AF_INET, &[198, 51, 100, 0], 24, 4).to_string(), "198.51.100.0/24");
        assert_eq!(route(AF_INET6, &[], 0, 4).to_string(), "default");
    }

    #[test]
    fn routes_of_other_interfaces_are_skipped() {
        let mut header = [0; HEADER_BYTES];
        header[0] = AF_INET as u8;
        let of_other = Message::new(0, &header).with(RTA_OIF, &8_u32.to_ne_bytes());
        assert_eq!(parse(&of_other.payload, 7).unwrap(), None);
        // A route with several hops or a next-hop object names its interfaces elsewhere; the kernel has
        // selected it by interface.
        assert!(parse(&Message::new(0, &header).payload, 7).unwrap().is_some());
        header[0] = libc::AF_BRIDGE as u8;
        assert_eq!(parse(&Message::new(0, &header).payload, 7).unwrap(), None);
    }
}
