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
    Config, UnmatchedPolicy,
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

/// What a filter is compiled from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expressions<'a> {
    wanted: Option<&'a str>,
    excluded: Option<&'a str>,
}

impl<'a> Expressions<'a> {
    /// Those of a configuration; `None` if all packets are wanted.
    pub(crate) fn of(config: &'a Config) -> Option<Self> {
        let (wanted, excluded) = (config.filter.as_deref(), config.excluded.as_deref());
        (wanted.is_some() || excluded.is_some()).then_some(Self { wanted, excluded })
    }

    fn compile(self, link_type: u16) -> Result<Filter, wirecap_filter::Error> {
        let Self { wanted, excluded } = self;
        match excluded {
            Some(excluded) => Filter::compile_except(wanted, excluded, link_type, DEFAULT_SNAPLEN),
            None => Filter::compile(wanted.unwrap_or_default(), link_type, DEFAULT_SNAPLEN),
        }
    }
}

impl<'a> From<&'a str> for Expressions<'a> {
    fn from(wanted: &'a str) -> Self {
        Self { wanted: Some(wanted), excluded: None }
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
    /// Compiles expressions for packets of a link type of the registry of pcap.
    pub(crate) fn compile<'a>(
        expressions: impl Into<Expressions<'a>>,
        link_type: u16,
        unmatched: UnmatchedPolicy,
        origin: OriginInfo,
    ) -> Result<Self, wirecap_filter::Error> {
        let filter = expressions.into().compile(link_type)?;
        match origin {
            OriginInfo::Incoming { ifindex } => {
                let one_way = filter.program().asks(Origin::PacketType);
                let filter = filter.bound_to(packet_type(Direction::In).into(), ifindex);
                Ok(Self { filter, unmatched, one_way })
            }
            OriginInfo::Nothing if filter.asks_for_origin() => {
                Err(wirecap_filter::Error::NotLive(filter.expression().into()))
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
