//! Why packets in the file are behind a later one.

use std::fmt;

use wirecap::{Report, Timestamp};
use wirecap_record::{ForcedWrites, WrittenCounts};

use crate::text::units::at_most;

/// A reason that the report gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disorder {
    /// There are trace files among the ports.
    Trace,
    /// The system clock was set back by this, in nanoseconds, and times with it.
    SetBack(u64),
    /// As much was held back as memory allows.
    Memory,
    /// The writer gave up waiting for them.
    Time,
    /// None of these: they took longer into their ring than the merger allows for.
    Delayed,
}

impl Disorder {
    /// All reasons that apply; at least one.
    pub(super) fn of(report: &Report, written: &WrittenCounts) -> impl Iterator<Item = Self> {
        let is_trace = report.ports.iter().any(|port| port.timestamp.source == Timestamp::File);
        let set_back_ns = report.ports.iter().map(|port| port.timestamp.set_back_ns).max().unwrap_or(0);
        reasons(is_trace, set_back_ns, written.forced)
    }
}

fn reasons(is_trace: bool, set_back_ns: u64, forced: ForcedWrites) -> impl Iterator<Item = Disorder> {
    let known = [
        is_trace.then_some(Disorder::Trace),
        (set_back_ns > 0).then_some(Disorder::SetBack(set_back_ns)),
        (forced.memory > 0).then_some(Disorder::Memory),
        (forced.time > 0).then_some(Disorder::Time),
    ];
    let unknown = known.iter().all(Option::is_none).then_some(Disorder::Delayed);
    known.into_iter().chain([unknown]).flatten()
}

impl fmt::Display for Disorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace => f.write_str("a trace has its own times, and a pipe that pauses is not waited for"),
            Self::SetBack(set_back_ns) => {
                write!(f, "the system clock was set back by {}", at_most(*set_back_ns))
            }
            Self::Memory => f.write_str("another queue was so far behind that 64 MiB were held back for it"),
            Self::Time => f.write_str("another queue was not waited for longer than 2 s"),
            Self::Delayed => f.write_str("they were on their way into their ring for unusually long"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_interface_is_not_taken_for_a_trace() {
        let none = ForcedWrites::default();
        let said = |is_trace, set_back_ns, forced| reasons(is_trace, set_back_ns, forced).collect::<Vec<_>>();
        assert_eq!(said(false, 0, none), [Disorder::Delayed]);
        assert_eq!(said(true, 0, none), [Disorder::Trace]);
        assert_eq!(said(false, 7, ForcedWrites { memory: 2, time: 0 }), [Disorder::SetBack(7), Disorder::Memory]);
        assert_eq!(said(false, 0, ForcedWrites { memory: 0, time: 1 }), [Disorder::Time]);
        for reason in [Disorder::SetBack(7), Disorder::Memory, Disorder::Time, Disorder::Delayed] {
            assert!(!reason.to_string().contains("trace"), "{reason}");
        }
    }
}
