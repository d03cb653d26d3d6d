//! The line on the terminal that says how it goes.

use std::{
    fmt::Display,
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use wirecap::{Capture, Report};
use wirecap_core::words::counted;

use crate::{exit::tell, plan::Plan};

/// How often it is written.
const PERIOD: Duration = Duration::from_millis(500);
/// Back to the start of the line, and clear it.
const CLEAR: &str = "\r\x1b[K";

/// The progress line. Silent unless standard error is a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    enabled: bool,
    /// Whether the line is on the screen now.
    shown: bool,
    last: Instant,
    before: Volume,
}

/// What had been delivered at some time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Volume {
    seconds: f64,
    packets: u64,
    bytes: u64,
}

impl Progress {
    pub(crate) fn new(plan: &Plan) -> Self {
        let enabled = io::stderr().is_terminal() && !plan.quiet && !plan.json;
        Self { enabled, shown: false, last: Instant::now(), before: Volume::default() }
    }

    /// Writes the line, if it is time.
    pub(crate) fn show(&mut self, capture: &Capture) {
        if !self.enabled || self.last.elapsed() < PERIOD {
            return;
        }
        self.last = Instant::now();
        let report = capture.report();
        let now = Volume::of(&report);
        let _ = write!(io::stderr(), "{CLEAR}{}", line(&report, self.before, now));
        self.shown = true;
        self.before = now;
    }

    /// Takes the line away.
    pub(crate) fn clear(&mut self) {
        if self.shown {
            let _ = write!(io::stderr(), "{CLEAR}");
            self.shown = false;
        }
    }

    /// Writes something else to standard error.
    pub(crate) fn tell(&mut self, line: impl Display) {
        self.clear();
        tell(line);
    }
}

impl Volume {
    fn of(report: &Report) -> Self {
        Self {
            seconds: report.seconds,
            packets: report.workers.iter().map(|worker| worker.packets).sum(),
            bytes: report.workers.iter().map(|worker| worker.bytes).sum(),
        }
    }
}

fn line(report: &Report, before: Volume, now: Volume) -> String {
    let seconds = (now.seconds - before.seconds).max(1e-3);
    let pps = (now.packets - before.packets) as f64 / seconds;
    let mbps = (now.bytes - before.bytes) as f64 * 8.0 / seconds / 1e6;
    let early: u64 = report.ports.iter().map(|port| port.dropped_before_xdp).sum();
    let mut line = format!(
        "{:.1} s  {}  {}  {mbps:.1} Mbit/s  pool {:.0} %  lost {}",
        now.seconds,
        counted(now.packets, "packet"),
        rate(pps),
        report.pool_used_percent(),
        report.total().lost.total() + early,
    );
    // Of several traces the one that has furthest to go.
    if let Some(percent) = report.ports.iter().filter_map(|port| port.read_percent).reduce(f64::min) {
        line.push_str(&format!("  read {percent:.0} %"));
    }
    line
}

/// Packets per second, in the unit that fits.
pub(crate) fn rate(pps: f64) -> String {
    match pps {
        1e6.. => format!("{:.2} Mpps", pps / 1e6),
        1e3.. => format!("{:.2} kpps", pps / 1e3),
        _ => counted(pps.round() as u64, "packet") + "/s",
    }
}

#[cfg(test)]
mod tests {
    use wirecap::report::MemoryReport;

    use super::*;

    #[test]
    fn rates_are_those_since_the_last_line() {
        let memory =
            MemoryReport { cells_bytes: 0, pages: String::new(), fallbacks: vec![], ring_entries: 0 };
        let report = Report { seconds: 3.0, ports: vec![], workers: vec![], memory };
        let before = Volume { seconds: 2.5, packets: 1_000, bytes: 60_000 };
        let now = Volume { seconds: 3.0, packets: 2_001_000, bytes: 120_060_000 };
        let line = line(&report, before, now);
        assert_eq!(line, "3.0 s  2001000 packets  4.00 Mpps  1920.0 Mbit/s  pool 0 %  lost 0");
        assert_eq!((rate(1_500.0), rate(3.2)), ("1.50 kpps".into(), "3 packets/s".into()));
        assert_eq!(rate(0.9), "1 packet/s");
    }
}
