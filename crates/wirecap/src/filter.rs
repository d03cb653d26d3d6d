//! The filter of a port: in the kernel if possible, else in user space.
//!
//! ```text
//!   expression ──libpcap──► Filter ──┬── xdp: a piece of the program, before a packet costs anything   program/
//!                                    ├── packet: a socket filter                                      program/socket_filter.rs
//!                                    └── elsewhere, and what the kernel cannot decide: UserFilter     sieve.rs
//! ```
//!
//! `inbound`, `outbound` and `ifindex` ask which way a packet goes, and by which interface. A port states
//! what it knows of that before its filter is placed: see [`OriginInfo`].

use wirecap_core::Direction;
use wirecap_filter::{DEFAULT_SNAPLEN, Filter, Origin, UserFilter};

use crate::{
    UnmatchedPolicy,
    report::{FilterPlace, FilterReport},
};

/// What a port knows of the origin of its packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OriginInfo {
    /// All come in by this interface, since they are taken from the host.
    Incoming {
        /// Its number.
        ifindex: u32,
    },
    /// Each packet carries its origin.
    Each,
    /// Nothing: a file.
    Nothing,
}

/// The type by which a filter knows the direction of a packet: `PACKET_HOST` or `PACKET_OUTGOING` of
/// <linux/if_packet.h>. What XDP sees has no type yet, and comes in.
pub(crate) fn packet_type(direction: Direction) -> u8 {
    match direction {
        Direction::In => 0,
        Direction::Out => 4,
    }
}

/// What is wanted of the packets of a port.
#[derive(Debug, Clone)]
pub(crate) struct PortFilter {
    pub(crate) filter: Filter,
    pub(crate) unmatched: UnmatchedPolicy,
    /// Whether the filter asks for directions on a port where all packets come in.
    pub(crate) one_way: bool,
}

impl PortFilter {
    /// Compiles an expression for packets of a link type of the registry of pcap.
    pub(crate) fn compile(
        expression: &str,
        link_type: u16,
        unmatched: UnmatchedPolicy,
        origin: OriginInfo,
    ) -> Result<Self, wirecap_filter::Error> {
        let filter = Filter::compile(expression, link_type, DEFAULT_SNAPLEN)?;
        match origin {
            OriginInfo::Incoming { ifindex } => {
                let one_way = filter.program().asks(Origin::PacketType);
                let filter = filter.bound_to(packet_type(Direction::In).into(), ifindex);
                Ok(Self { filter, unmatched, one_way })
            }
            OriginInfo::Nothing if filter.asks_for_origin() => {
                Err(wirecap_filter::Error::NotLive(expression.into()))
            }
            OriginInfo::Each | OriginInfo::Nothing => Ok(Self { filter, unmatched, one_way: false }),
        }
    }

    /// The filter for the packets of an interface that go in one direction.
    pub(crate) fn of_direction(&self, direction: Direction, ifindex: u32) -> Filter {
        self.filter.bound_to(packet_type(direction).into(), ifindex)
    }

    /// How it is reported.
    pub(crate) fn report(&self, runs: FilterPlace) -> FilterReport {
        FilterReport { expression: self.filter.expression().into(), runs }
    }
}

impl FilterPlace {
    /// Where a filter in user space runs.
    pub(crate) fn of(user: &UserFilter) -> Self {
        if user.interpreted().is_none() { Self::NativeCode } else { Self::Interpreter }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_ip_packets_are_filtered_as_raw_ip() {
        let filter = PortFilter::compile("ip6", 101, UnmatchedPolicy::Pass, OriginInfo::Nothing).unwrap();
        let user = UserFilter::new(&filter.filter);
        assert_eq!(FilterPlace::of(&user), FilterPlace::NativeCode);
        assert!(user.wants(&[0x60; 40], 40));
        assert!(!user.wants(&[0x45; 40], 40));
    }

    #[test]
    fn packets_taken_from_the_host_are_inbound_and_a_file_has_no_directions() {
        let compile = |expression, origin| PortFilter::compile(expression, 1, UnmatchedPolicy::Drop, origin);
        for (expression, wanted) in
            [("inbound and ifindex 5", true), ("outbound", false), ("ifindex 6", false)]
        {
            let filter = compile(expression, OriginInfo::Incoming { ifindex: 5 }).unwrap();
            assert_eq!(filter.filter.matches(&[0; 60], 60), wanted, "{expression}");
            assert_eq!(filter.one_way, expression.contains("bound"), "{expression}");
            let error = compile(expression, OriginInfo::Nothing).unwrap_err().to_string();
            assert!(error.contains(expression) && error.contains("reading files"), "{error}");
        }
    }
}
