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
use wirecap_filter::{DEFAULT_SNAPLEN, Filter, NativeFilter, Origin, Program};

use super::sieve::Sieve;
use crate::{
    Diagnostic, Unmatched,
    diagnostic::{Cause, KernelRefusal},
};

/// Where the filter of a port runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
/// Types of packets that a socket sees, up to `PACKET_OUTGOING`.
const PACKET_TYPES: u32 = 5;

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
        let (user, no_native) = UserFilter::new(&filter.filter);
        let runs = not_in_kernel.as_ref().map_or(FilterPlace::Kernel, |_| user.place());
        let passes = filter.unmatched == Unmatched::Pass;
        let split = (not_in_kernel.is_none() && passes).then_some(Diagnostic::FilterDropsLongPackets);
        let fallback = not_in_kernel.map(|reason| Diagnostic::FilterNotInKernel {
            reason,
            interpreted: no_native,
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

/// A filter in user space.
#[derive(Debug)]
pub(crate) struct UserFilter {
    /// INVARIANT: not empty. One for all packets, or one for each of the types of packets that there are.
    runners: Vec<Runner>,
}

/// A program, as fast as it can be had.
#[derive(Debug)]
struct Runner {
    program: Program,
    native: Option<NativeFilter>,
}

impl UserFilter {
    /// As native code, else interpreted, with the reason.
    pub(crate) fn new(filter: &Filter) -> (Self, Option<Cause>) {
        Self::of_programs([filter.program().clone()])
    }

    /// The same, for packets that a socket has heard on an interface and tells the type of.
    pub(crate) fn of_socket(filter: &Filter, ifindex: u32) -> (Self, Option<Cause>) {
        let types = if filter.program().asks(Origin::PacketType) { PACKET_TYPES } else { 1 };
        Self::of_programs((0..types).map(|packet_type| filter.program().bound_to(packet_type, ifindex)))
    }

    fn of_programs(programs: impl IntoIterator<Item = Program>) -> (Self, Option<Cause>) {
        let mut reason = None;
        let runners = programs.into_iter().map(|program| {
            let native = NativeFilter::new(&program).map_err(|error| reason = Some(error.into()));
            Runner { program, native: native.ok() }
        });
        let runners = runners.collect();
        (Self { runners }, reason)
    }

    pub(crate) fn place(&self) -> FilterPlace {
        let native = self.runners.iter().all(|runner| runner.native.is_some());
        if native { FilterPlace::NativeCode } else { FilterPlace::Interpreter }
    }

    /// Whether a packet of `wire_len` bytes, of which these were captured, is wanted.
    #[inline]
    pub(crate) fn wants(&self, packet: &[u8], wire_len: u32) -> bool {
        self.wants_of_type(0, packet, wire_len)
    }

    /// The same, for one of a type that a socket tells (`PACKET_…`).
    #[inline]
    pub(crate) fn wants_of_type(&self, packet_type: u8, packet: &[u8], wire_len: u32) -> bool {
        let Runner { program, native } = &self.runners[usize::from(packet_type).min(self.runners.len() - 1)];
        match native {
            Some(native) => native.matches(packet, wire_len) != 0,
            None => program.run(packet, wire_len) != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_raw_ip_are_filtered_as_such() {
        let filter = PortFilter::compile("ip6", 101, Unmatched::Pass, Knows::Nothing).unwrap();
        let (user, reason) = UserFilter::new(&filter.filter);
        assert_eq!((user.place(), reason), (FilterPlace::NativeCode, None));
        assert!(user.wants(&[0x60; 40], 40));
        assert!(!user.wants(&[0x45; 40], 40));
    }

    #[test]
    fn the_interpreter_serves_where_there_is_no_native_code() {
        let filter = PortFilter::compile("arp", 1, Unmatched::Pass, Knows::Each).unwrap().filter;
        let runner = Runner { program: filter.program().clone(), native: None };
        let user = UserFilter { runners: vec![runner] };
        let mut frame = [0; 60];
        assert_eq!((user.place(), user.wants(&frame, 60)), (FilterPlace::Interpreter, false));
        frame[12..14].copy_from_slice(&[8, 6]);
        assert!(user.wants(&frame, 60));
    }
    #[test]
    fn a_socket_tells_which_way_a_packet_goes() {
        const OTHERHOST: u8 = 3;
        const OUTGOING: u8 = 4;
        let filter = |expression| PortFilter::compile(expression, 1, Unmatched::Pass, Knows::Each).unwrap();
        for (expression, for_others, sent) in [
            ("inbound", true, false),
            ("outbound and ifindex 5", false, true),
            ("ifindex 5", true, true),
            ("ifindex 6", false, false),
            ("not inbound", false, true),
        ] {
            let (user, reason) = UserFilter::of_socket(&filter(expression).filter, 5);
            assert_eq!((user.place(), reason), (FilterPlace::NativeCode, None));
            assert_eq!(user.wants_of_type(OTHERHOST, &[0; 60], 60), for_others, "{expression}");
            assert_eq!(user.wants_of_type(OUTGOING, &[0; 60], 60), sent, "{expression}");
        }
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
