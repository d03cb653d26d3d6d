//! What a line of the table says about packets to its prefix.

use std::net::IpAddr;

use wirecap_headers::MacAddress;

/// What becomes of packets to a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// They go no further.
    Drop,
    /// They are sent.
    Via {
        /// By which device: index into [`Routes::devices`](crate::Routes::devices).
        device: usize,
        /// To which next hop.
        next_hop: NextHop,
    },
}

/// Where a packet is sent next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NextHop {
    /// To the host with this Ethernet address.
    Mac(MacAddress),
    /// To the router of this address, whose Ethernet address has to be asked for.
    Address(IpAddr),
    /// To the destination of the packet, which is on the link, and whose Ethernet address has to be asked
    /// for.
    Direct,
}
