//! Warns about the times of packets while a capture runs, and reports at the end how exact they were.
//!
//! ```text
//!   report, once a second ──► TimeTrouble ──► a line, if it is new or ten times worse
//!   report, at the end    ──► lines of the account, comments in the file
//! ```
//!
//! Rule: every bound that is printed or recorded was measured.

use std::{
    collections::HashMap,
    fmt,
    mem::{Discriminant, discriminant},
};

use wirecap::{
    Diagnostic, Report, Timestamp, TimestampReport, Uncertainty,
    report::{PortReport, QueueMode},
};

use super::plan::Plan;
use crate::{
    message::Message,
    text::{diagnostic::describe, plural::counted, units::at_most},
};

/// Times of batches that are more uncertain than this are worth a warning. A worker sleeps for a few
/// milliseconds at most.
const EXPECTED_NS: u64 = 10_000_000;

/// A problem with the times of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimeTrouble {
    /// This source, which stamps each packet, did not stamp this number of packets.
    Unstamped(Timestamp, u64),
    /// By how much packets may have arrived before the time of their batch, in nanoseconds.
    Uncertain(u64),
    /// By how much the system clock was set back, in nanoseconds.
    SetBack(u64),
}

impl TimeTrouble {
    /// All problems of a port. Uncertain times do not count where times are not kept.
    fn of(port: &PortReport, are_kept: bool) -> impl Iterator<Item = Self> {
        let TimestampReport { source, unstamped, uncertainty, set_back_ns, .. } = port.timestamp;
        let unstamped = (stamps_packets(port) && unstamped > 0).then_some(Self::Unstamped(source, unstamped));
        let uncertain = uncertainty.filter(|_| source == Timestamp::Batch && are_kept);
        let uncertain =
            uncertain.map(|uncertainty| uncertainty.max_ns).filter(|&max_ns| max_ns > EXPECTED_NS);
        let set_back = (set_back_ns > 0 && are_kept).then_some(Self::SetBack(set_back_ns));
        [unstamped, uncertain.map(Self::Uncertain), set_back].into_iter().flatten()
    }

    /// The size from which the problem is worth another warning.
    fn next(self) -> u64 {
        match self {
            Self::Unstamped(..) => u64::MAX,
            Self::Uncertain(max_ns) => max_ns.saturating_mul(10),
            Self::SetBack(set_back_ns) => set_back_ns + 1,
        }
    }

    fn size(self) -> u64 {
        match self {
            Self::Unstamped(_, size) | Self::Uncertain(size) | Self::SetBack(size) => size,
        }
    }
}

impl fmt::Display for TimeTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            &Self::Unstamped(source, packets) => {
                f.write_str(&describe(&Diagnostic::Unstamped { source, packets }))
            }
            Self::Uncertain(max_ns) => write!(
                f,
                "so far, packets may have arrived up to {} before their timestamps: that is the time since the previous look at their \
                 queue, also in silence; --timestamp kernel stamps each packet",
                at_most(*max_ns)
            ),
            Self::SetBack(set_back_ns) => write!(
                f,
                "the system clock was set back by {}, and the times of packets with it",
                at_most(*set_back_ns)
            ),
        }
    }
}

/// Warns about the times of packets.
#[derive(Debug)]
pub(crate) struct Times {
    /// Whether times are written or verified.
    are_kept: bool,
    /// By port and kind of problem, the size from which to warn again.
    warned: HashMap<(String, Discriminant<TimeTrouble>), u64>,
}

impl Times {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self { are_kept: plan.output.keeps_times(), warned: HashMap::new() }
    }

    /// New warnings.
    pub(super) fn warnings(&mut self, report: &Report) -> Vec<Message> {
        let mut warnings = Vec::new();
        for port in &report.ports {
            for trouble in TimeTrouble::of(port, self.are_kept) {
                let next = self.warned.entry((port.name.clone(), discriminant(&trouble))).or_default();
                if trouble.size() >= *next {
                    *next = trouble.next();
                    warnings.push(Message::warning(format!("{}: {trouble}", port.name)));
                }
            }
        }
        warnings
    }
}

/// Whether each packet of the port is stamped, which may fail.
fn stamps_packets(port: &PortReport) -> bool {
    matches!(port.timestamp.source, Timestamp::Hardware | Timestamp::Kernel)
        && port.queues.iter().any(|queue| queue.mode != QueueMode::Packet)
}

/// The measured bounds of the times of a port, one line each, for the file.
pub(crate) fn bounds(timestamp: &TimestampReport) -> Vec<String> {
    let mut lines = remarks(timestamp);
    if let Some(bound_ns) = timestamp.error_bound_ns {
        lines.push(format!("the clock was within {bound_ns} ns of the system clock"));
    }
    lines
}

/// What users of these times have to know, one line each.
pub(crate) fn remarks(timestamp: &TimestampReport) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(Uncertainty { packets, p50_ns, p99_ns, max_ns }) = timestamp.uncertainty {
        let (packets, max) = (counted(packets, "packet"), at_most(max_ns));
        let (half, most) = (at_most(p50_ns), at_most(p99_ns));
        lines.push(format!(
            "{packets} with the time of a batch may have arrived up to {max} before it (half of them up to {half}, 99 % up to {most})"
        ));
    }
    if timestamp.set_back_ns > 0 {
        lines.push(TimeTrouble::SetBack(timestamp.set_back_ns).to_string());
    }
    lines
}

#[cfg(test)]
mod tests;
