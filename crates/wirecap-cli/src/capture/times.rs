//! What is wrong with the times of packets, while a capture runs and at its end.
//!
//! ```text
//!   report, once a second ──► TimeTrouble ──► a line, when it is new or ten times worse
//!   report, at the end    ──► lines of the account, comments in the file
//! ```
//!
//! Rule: a bound that is printed or recorded was measured, and holds.

use std::{
    collections::HashMap,
    fmt,
    time::{Duration, Instant},
};

use wirecap::{
    Capture, Report, Timestamp, TimestampReport, Uncertainty,
    report::{PortReport, QueueMode},
};
use wirecap_core::words::counted;

use crate::{plan::Plan, terminal::at_most};

/// How often it is looked for: the counters of all queues are read.
const PERIOD: Duration = Duration::from_secs(1);
/// Times of batches that may be off by this are warned of, where they are kept. A worker sleeps a millisecond at most.
const EXPECTED_NS: u64 = 10_000_000;

/// Why times of a port are not what they seem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimeTrouble {
    /// So many packets have no time of their own, though they were to have one from this source.
    Unstamped(Timestamp, u64),
    /// Packets may have come so much earlier than the times of their batches say.
    Uncertain(u64),
    /// The system clock was set back by so much.
    SetBack(u64),
}

impl TimeTrouble {
    /// All there is of a port. Uncertain times are none where they are not kept.
    fn of(port: &PortReport, are_kept: bool) -> impl Iterator<Item = Self> {
        let TimestampReport { source, unstamped, uncertainty, set_back_ns, .. } = port.timestamp;
        let unstamped = (stamps_packets(port) && unstamped > 0).then_some(Self::Unstamped(source, unstamped));
        let uncertain = uncertainty.filter(|_| source == Timestamp::Batch && are_kept);
        let uncertain =
            uncertain.map(|uncertainty| uncertainty.max_ns).filter(|&max_ns| max_ns > EXPECTED_NS);
        let set_back = (set_back_ns > 0 && are_kept).then_some(Self::SetBack(set_back_ns));
        [unstamped, uncertain.map(Self::Uncertain), set_back].into_iter().flatten()
    }

    /// Which of them it is.
    fn kind(self) -> usize {
        match self {
            Self::Unstamped(..) => 0,
            Self::Uncertain(_) => 1,
            Self::SetBack(_) => 2,
        }
    }

    /// How bad it has to be to be told of again.
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
            Self::Unstamped(source, packets) => write!(
                f,
                "packets have no {} time, {packets} so far: they bear the time at which their batch was seen",
                source.as_str()
            ),
            Self::Uncertain(max_ns) => write!(
                f,
                "packets came up to {} before the times they bear, since their queue was not looked at for so long; \
                 --timestamp kernel stamps each",
                at_most(*max_ns)
            ),
            Self::SetBack(set_back_ns) => write!(
                f,
                "the system clock was set back by {}: the times of packets go back with it",
                at_most(*set_back_ns)
            ),
        }
    }
}

/// Looks for trouble with times.
#[derive(Debug)]
pub(crate) struct Times {
    /// Whether times are kept: written, or judged.
    are_kept: bool,
    /// `None` when there is nothing left to find.
    next_look: Option<Instant>,
    /// What was told of each port, by kind, and how bad it has to be to be told of again.
    told: HashMap<(String, usize), u64>,
}

impl Times {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self { are_kept: plan.keeps_times, next_look: Some(Instant::now()), told: HashMap::new() }
    }

    /// Lines about what is new, if it is time to look.
    pub(crate) fn look(&mut self, capture: &Capture) -> Vec<String> {
        let now = Instant::now();
        if self.next_look.is_none_or(|next| now < next) {
            return Vec::new();
        }
        let report = capture.report();
        let lines = self.lines(&report);
        let is_left =
            self.are_kept || report.ports.iter().any(|port| stamps_packets(port) && !self.was_told(port));
        self.next_look = is_left.then(|| now + PERIOD);
        lines
    }

    /// Whether packets without a stamp were told of.
    fn was_told(&self, port: &PortReport) -> bool {
        self.told.contains_key(&(port.name.clone(), TimeTrouble::Unstamped(Timestamp::Kernel, 0).kind()))
    }

    fn lines(&mut self, report: &Report) -> Vec<String> {
        let mut lines = Vec::new();
        for port in &report.ports {
            for trouble in TimeTrouble::of(port, self.are_kept) {
                let next = self.told.entry((port.name.clone(), trouble.kind())).or_default();
                if trouble.size() >= *next {
                    *next = trouble.next();
                    lines.push(format!("wirecap: WARNING: {}: {trouble}", port.name));
                }
            }
        }
        lines
    }
}

/// Whether its packets are stamped one by one, and may fail to be.
fn stamps_packets(port: &PortReport) -> bool {
    matches!(port.timestamp.source, Timestamp::Hardware | Timestamp::Kernel)
        && port.queues.iter().any(|queue| queue.mode != QueueMode::Packet)
}

/// How exact the times of a port were, all of it measured, a line for each bound: for the file.
pub(crate) fn bounds(timestamp: &TimestampReport) -> Vec<String> {
    let mut lines = remarks(timestamp);
    if let Some(bound_ns) = timestamp.error_bound_ns {
        lines.push(format!("the clock was within {bound_ns} ns of the system clock"));
    }
    lines
}

/// What one should know of the times of a port before using them, a line for each.
pub(crate) fn remarks(timestamp: &TimestampReport) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(Uncertainty { packets, p50_ns, p99_ns, max_ns }) = timestamp.uncertainty {
        let (packets, max) = (counted(packets, "packet"), at_most(max_ns));
        let (half, most) = (at_most(p50_ns), at_most(p99_ns));
        lines.push(format!(
            "{packets} with the time of a batch came up to {max} before it (half of them up to {half}, 99 % up to {most})"
        ));
    }
    if timestamp.set_back_ns > 0 {
        lines.push(TimeTrouble::SetBack(timestamp.set_back_ns).to_string());
    }
    lines
}

#[cfg(test)]
#[path = "times_tests.rs"]
mod tests;
