//! Next hops, and what is known of them.

use std::net::IpAddr;

use wirecap_headers::MacAddress;

use crate::source::Source;

/// A next hop: a port, and an address on its link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Hop {
    pub(crate) port: usize,
    pub(crate) address: IpAddr,
}

/// A next hop whose Ethernet address a packet waits for, and the source of the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnresolvedHop {
    pub(crate) hop: Hop,
    pub(crate) source: Source,
}

/// What is known of a next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HopStatus {
    Mac(MacAddress),
    /// It is asked for.
    NotYet,
    /// It did not answer a moment ago.
    Silent,
}
