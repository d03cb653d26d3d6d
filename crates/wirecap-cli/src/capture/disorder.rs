//! Why packets in the file are after a later one.

use std::fmt;

use wirecap::{Report, Timestamp};
use wirecap_record::{ForcedWrites, WrittenCounts};

use crate::text::units::at_most;

/// A reason, from the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disorder {
    /// Some ports are trace files.
    Trace,
    /// The system clock was set back by this, in nanoseconds, and times with it.
    SetBack(u64),
    /// The limit on held packets was reached.
    Memory,
    /// The writer waited too long.
    Time,
    /// None of these: packets reached their ring later than the merger allows for.
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
            Self::Trace => {
                f.write_str("a trace has its own times, and wirecap does not wait for a pipe that pauses")
            }
            Self::SetBack(set_back_ns) => {
                write!(f, "the system clock was set back by {}", at_most(*set_back_ns))
            }
            Self::Memory => f.write_str("another queue was so far behind that 64 MiB were held back for it"),
            Self::Time => f.write_str("wirecap waited for another queue for 2 s, and no longer"),
            Self::Delayed => f.write_str("they took unusually long to reach their ring"),
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
        assert_eq!(
            said(false, 7, ForcedWrites { memory: 2, time: 0 }),
            [Disorder::SetBack(7), Disorder::Memory]
        );
        assert_eq!(said(false, 0, ForcedWrites { memory: 0, time: 1 }), [Disorder::Time]);
        for reason in [Disorder::SetBack(7), Disorder::Memory, Disorder::Time, Disorder::Delayed] {
            assert!(!reason.to_string().contains("trace"), "{reason}");
        }
    }
}
