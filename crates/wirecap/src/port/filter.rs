//! The filter of a port: in the kernel where that can be had, else in user space.
//!
//! ```text
//!   expression ──libpcap──► Filter ──┬── xdp: a piece of the program, before a packet costs anything   program.rs
//!                                    ├── packet: a socket filter                                      socket_filter.rs
//!                                    └── elsewhere, and what the kernel cannot decide: UserFilter     sieve.rs
//! ```
//!
//! Which way a packet goes, and by which interface, is asked by `inbound`, `outbound` and `ifindex`. A port says what it
//! knows of that before its filter is placed: see [`Knows`].

use std::sync::Arc;

use serde::Serialize;
use wirecap_filter::{DEFAULT_SNAPLEN, Filter, Origin, UserFilter};

use super::sieve::Sieve;
use crate::{
    Diagnostic, Unmatched,
    diagnostic::{Cause, KernelRefusal},
};

/// Where the filter of a port runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FilterPlace {
    /// In the kernel: a packet that is not wanted costs no cell and no copy.
    Kernel,
    /// In user space, as machine code.
    NativeCode,
    /// In user space, instruction by instruction.
    Interpreter,
}

impl FilterPlace {
    /// Of a filter in user space.
    pub(crate) fn of(user: &UserFilter) -> Self {
        if user.interpreted().is_none() { Self::NativeCode } else { Self::Interpreter }
    }

    /// In words, for people.
    pub fn in_words(self) -> &'static str {
        match self {
            FilterPlace::Kernel => "in the kernel",
            FilterPlace::NativeCode => "in user space, as native code",
            FilterPlace::Interpreter => "in user space, interpreted",
        }
    }
}

/// The filter of a port, as it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FilterReport {
    /// The expression.
    pub expression: String,
    /// Where it runs.
    pub runs: FilterPlace,
}

/// What a port knows of where its packets come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Knows {
    /// They are taken from the host, so all come in, by this interface.
    Incoming {
        /// Its number.
        ifindex: u32,
    },
    /// It is told with each packet.
    Each,
    /// Nothing: a file.
    Nothing,
}

/// Packets for the host are of this type (`PACKET_HOST` of <linux/if_packet.h>). What XDP sees has no type yet.
const PACKET_HOST: u32 = 0;

/// What is wanted of the packets of a port.
#[derive(Debug, Clone)]
pub(crate) struct PortFilter {
    pub(crate) filter: Filter,
    pub(crate) unmatched: Unmatched,
    /// It asks which way packets go, and on this port all go the same way.
    one_way: bool,
}

impl PortFilter {
    /// Compiles an expression for packets of a link type of the registry of pcap.
    pub(crate) fn compile(
        expression: &str,
        link_type: u16,
        unmatched: Unmatched,
        knows: Knows,
    ) -> Result<Self, wirecap_filter::Error> {
        let filter = Filter::compile(expression, data_link_type(link_type), DEFAULT_SNAPLEN)?;
        match knows {
            Knows::Incoming { ifindex } => {
                let one_way = filter.program().asks(Origin::PacketType);
                Ok(Self { filter: filter.bound_to(PACKET_HOST, ifindex), unmatched, one_way })
            }
            Knows::Nothing if filter.asks_for_origin() => {
                Err(wirecap_filter::Error::NotLive { expression: expression.into() })
            }
            Knows::Each | Knows::Nothing => Ok(Self { filter, unmatched, one_way: false }),
        }
    }

    /// That it asks for directions on a port where all packets come in.
    fn one_way(&self) -> Option<Diagnostic> {
        self.one_way.then_some(Diagnostic::FilterInboundOnly)
    }

    /// How it is reported.
    pub(crate) fn report(&self, runs: FilterPlace) -> FilterReport {
        FilterReport { expression: self.filter.expression().into(), runs }
    }
}

/// What libpcap's compiler calls a link type of the registry: not the same for raw IP.
fn data_link_type(link_type: u16) -> u16 {
    const LINKTYPE_RAW: u16 = 101;
    const DLT_RAW: u16 = 12;
    if link_type == LINKTYPE_RAW { DLT_RAW } else { link_type }
}

/// What became of the filter of an AF_XDP port, if it has one.
#[derive(Debug)]
pub(crate) struct PlacedFilter {
    /// Where it runs.
    pub(crate) runs: Option<FilterPlace>,
    /// That it runs elsewhere than it should, and what it cannot know.
    pub(crate) fallbacks: Vec<Diagnostic>,
    user: Option<Arc<UserFilter>>,
}

impl PlacedFilter {
    /// `not_in_kernel` says why, if it is not. With `frags`, the kernel sees only the first buffer of a packet, and lets
    /// through what it cannot decide from that.
    pub(crate) fn new(
        filter: Option<&PortFilter>,
        not_in_kernel: Option<KernelRefusal>,
        frags: bool,
    ) -> Self {
        let Some(filter) = filter else { return Self { runs: None, fallbacks: Vec::new(), user: None } };
        let one_way = filter.one_way();
        if not_in_kernel.is_none() && !frags {
            return Self { runs: Some(FilterPlace::Kernel), fallbacks: Vec::from_iter(one_way), user: None };
        }
        let user = UserFilter::new(&filter.filter);
        let runs = not_in_kernel.as_ref().map_or(FilterPlace::Kernel, |_| FilterPlace::of(&user));
        let passes = filter.unmatched == Unmatched::Pass;
        let split = (not_in_kernel.is_none() && passes).then_some(Diagnostic::FilterDropsLongPackets);
        let fallback = not_in_kernel.map(|reason| Diagnostic::FilterNotInKernel {
            reason,
            interpreted: user.interpreted().map(Cause::of),
            drops_unwanted: passes,
        });
        let fallbacks = fallback.or(split).into_iter().chain(one_way).collect();
        Self { runs: Some(runs), fallbacks, user: Some(Arc::new(user)) }
    }

    /// What a queue needs of it in user space.
    pub(crate) fn sieve(&self, cells_per_pool: u32) -> Option<Sieve> {
        self.user.as_ref().map(|user| Sieve::new(Arc::clone(user), cells_per_pool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_raw_ip_are_filtered_as_such() {
        let filter = PortFilter::compile("ip6", 101, Unmatched::Pass, Knows::Nothing).unwrap();
        let user = UserFilter::new(&filter.filter);
        assert_eq!(FilterPlace::of(&user), FilterPlace::NativeCode);
        assert!(user.wants(&[0x60; 40], 40));
        assert!(!user.wants(&[0x45; 40], 40));
    }

    #[test]
    fn what_is_taken_from_the_host_comes_in_and_a_file_does_not_tell() {
        let compile = |expression, knows| PortFilter::compile(expression, 1, Unmatched::Drop, knows);
        for (expression, wanted) in
            [("inbound and ifindex 5", true), ("outbound", false), ("ifindex 6", false)]
        {
            let filter = compile(expression, Knows::Incoming { ifindex: 5 }).unwrap();
            assert_eq!(filter.filter.matches(&[0; 60], 60), wanted, "{expression}");
            let placed = PlacedFilter::new(Some(&filter), None, false);
            assert_eq!(placed.fallbacks.len(), usize::from(expression.contains("bound")), "{placed:?}");
            let told = compile(expression, Knows::Nothing).unwrap_err().to_string();
            assert!(told.contains(expression) && told.contains("reading files"), "{told}");
        }
    }
}
