//! The filter of a port: in the kernel where that can be had, else in user space.
//!
//! ```text
//!   expression ──libpcap──► Filter ──┬── xdp: a piece of the program, before a packet costs anything   program.rs
//!                                    ├── packet: a socket filter                                      socket_filter.rs
//!                                    └── elsewhere, and what the kernel cannot decide: UserFilter     sieve.rs
//! ```

use std::sync::Arc;

use serde::Serialize;
use wirecap_filter::{DEFAULT_SNAPLEN, Filter, NativeFilter};
use wirecap_sys::bpf;

use super::sieve::Sieve;

/// What becomes of packets that the filter does not want, on a port that takes packets from the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unmatched {
    /// The host gets them. What a filter in user space does not want has been taken from the host already and is
    /// dropped.
    #[default]
    Pass,
    /// Nobody gets them.
    Drop,
}

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

/// What is wanted of the packets of a port.
#[derive(Debug, Clone)]
pub(crate) struct PortFilter {
    pub(crate) filter: Filter,
    pub(crate) unmatched: Unmatched,
}

impl PortFilter {
    /// Compiles an expression for packets of a link type of the registry of pcap.
    pub(crate) fn compile(
        expression: &str,
        link_type: u16,
        unmatched: Unmatched,
    ) -> Result<Self, wirecap_filter::Error> {
        let filter = Filter::compile(expression, data_link_type(link_type), DEFAULT_SNAPLEN)?;
        Ok(Self { filter, unmatched })
    }

    /// How it is reported.
    pub(crate) fn report(&self, runs: FilterPlace) -> FilterReport {
        FilterReport { expression: self.filter.expression().into(), runs }
    }
}

/// What is told of a filter that runs in user space: why it is not in the kernel, and why not as native code.
pub(crate) fn told(not_in_kernel: &str, no_native: Option<String>) -> String {
    let interpreted = no_native.map(|reason| format!("; {reason}")).unwrap_or_default();
    format!("{not_in_kernel}{interpreted}")
}

/// Why a filter is not in the kernel, in words.
pub(crate) fn not_in_kernel(error: &wirecap_filter::Error) -> String {
    use wirecap_filter::Error::{Kernel, KernelPrivilege, OffsetTooFar};
    let reason = match error {
        OffsetTooFar { end, limit, .. } => {
            format!("it looks at byte {end} of a packet, and the kernel's instructions reach {limit}")
        }
        KernelPrivilege { .. } => "that takes CAP_PERFMON, which this process lacks".into(),
        Kernel { cause: bpf::Error::Rejected { cause, .. } } => format!("the verifier refuses it ({cause})"),
        Kernel { cause } => cause.to_string(),
        error => error.to_string(),
    };
    format!("the filter is not in the kernel: {reason}")
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
    /// What to tell if that is not where it should.
    pub(crate) fallback: Option<String>,
    user: Option<Arc<UserFilter>>,
}

impl PlacedFilter {
    /// `not_in_kernel` says why, if it is not. With `frags`, the kernel sees only the first buffer of a packet, and lets
    /// through what it cannot decide from that.
    pub(crate) fn new(filter: Option<&PortFilter>, not_in_kernel: Option<String>, frags: bool) -> Self {
        let Some(filter) = filter else { return Self { runs: None, fallback: None, user: None } };
        if not_in_kernel.is_none() && !frags {
            return Self { runs: Some(FilterPlace::Kernel), fallback: None, user: None };
        }
        let (user, no_native) = UserFilter::new(&filter.filter);
        let runs = not_in_kernel.as_ref().map_or(FilterPlace::Kernel, |_| user.place());
        let split = (not_in_kernel.is_none() && filter.unmatched == Unmatched::Pass).then(|| {
            "packets that the filter can judge only by what is behind their first buffer are dropped if it does not want \
             them, not left to the host"
                .to_owned()
        });
        let fallback = not_in_kernel.map(|reason| {
            let dropped = match filter.unmatched {
                Unmatched::Pass => "; packets it does not want are dropped, not left to the host",
                Unmatched::Drop => "",
            };
            told(&reason, no_native) + dropped
        });
        Self { runs: Some(runs), fallback: fallback.or(split), user: Some(Arc::new(user)) }
    }

    /// What a queue needs of it in user space.
    pub(crate) fn sieve(&self, cells_per_pool: u32) -> Option<Sieve> {
        self.user.as_ref().map(|user| Sieve::new(Arc::clone(user), cells_per_pool))
    }
}

/// A filter in user space.
#[derive(Debug)]
pub(crate) struct UserFilter {
    filter: Filter,
    native: Option<NativeFilter>,
}

impl UserFilter {
    /// As native code, else interpreted, with the reason.
    pub(crate) fn new(filter: &Filter) -> (Self, Option<String>) {
        let (native, reason) = match NativeFilter::new(filter.program()) {
            Ok(native) => (Some(native), None),
            Err(error) => (None, Some(error.to_string())),
        };
        (Self { filter: filter.clone(), native }, reason)
    }

    pub(crate) fn place(&self) -> FilterPlace {
        if self.native.is_some() { FilterPlace::NativeCode } else { FilterPlace::Interpreter }
    }

    /// Whether a packet of `wire_len` bytes, of which these were captured, is wanted.
    #[inline]
    pub(crate) fn wants(&self, packet: &[u8], wire_len: u32) -> bool {
        match &self.native {
            Some(native) => native.matches(packet, wire_len) != 0,
            None => self.filter.matches(packet, wire_len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_raw_ip_are_filtered_as_such() {
        let filter = PortFilter::compile("ip6", 101, Unmatched::Pass).unwrap();
        let (user, reason) = UserFilter::new(&filter.filter);
        assert_eq!((user.place(), reason), (FilterPlace::NativeCode, None));
        assert!(user.wants(&[0x60; 40], 40));
        assert!(!user.wants(&[0x45; 40], 40));
    }

    #[test]
    fn why_a_filter_is_not_in_the_kernel_is_told_in_short() {
        let cause = std::io::Error::from_raw_os_error(7);
        let refused = bpf::Error::Rejected { name: "wirecap".into(), cause, log: "line\n".repeat(1_000) };
        let told = not_in_kernel(&wirecap_filter::Error::from(refused));
        assert!(told.contains("verifier") && told.contains("os error 7") && told.len() < 120, "{told}");
    }

    #[test]
    fn the_interpreter_serves_where_there_is_no_native_code() {
        let filter = PortFilter::compile("arp", 1, Unmatched::Pass).unwrap().filter;
        let user = UserFilter { filter, native: None };
        let mut frame = [0; 60];
        assert_eq!((user.place(), user.wants(&frame, 60)), (FilterPlace::Interpreter, false));
        frame[12..14].copy_from_slice(&[8, 6]);
        assert!(user.wants(&frame, 60));
    }
}
