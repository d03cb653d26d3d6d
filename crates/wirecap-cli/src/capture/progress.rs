//! The line on the terminal that says how it goes, and all else that is said while it does.

use std::fmt::Display;

use wirecap::{Capture, Report};

use super::plan::Plan;
use crate::{
    print::{status_line::StatusLine, stdio::print_stderr},
    text::{plural::counted, units::rate},
};

/// How a capture goes.
#[derive(Debug)]
pub(crate) struct Progress {
    line: StatusLine,
    rates: Rates,
    quiet: bool,
}

/// What had been delivered when the last line was made.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Rates {
    seconds: f64,
    packets: u64,
    bytes: u64,
}

impl Progress {
    pub(crate) fn new(plan: &Plan) -> Self {
        let line = StatusLine::new(plan.output.quiet, plan.output.json);
        Self { line, rates: Rates::default(), quiet: plan.output.quiet }
    }

    /// Writes the line, if it is time.
    pub(crate) fn show(&mut self, capture: &Capture) {
        if self.line.is_due() {
            self.line.show(&self.rates.line(&capture.report()));
        }
    }

    /// Takes the line away.
    pub(crate) fn clear(&mut self) {
        self.line.clear();
    }

    /// Prints what `--quiet` does not suppress: an error, a loss, what the user asked for.
    pub(crate) fn print(&mut self, line: impl Display) {
        self.clear();
        print_stderr(line);
    }

    /// Says what may be of interest.
    pub(crate) fn note(&mut self, line: impl Display) {
        if !self.quiet {
            self.print(line);
        }
    }
}

impl Rates {
    /// How it goes, with the rates since the last line.
    pub(crate) fn line(&mut self, report: &Report) -> String {
        let now = Self::of(report);
        line(report, std::mem::replace(self, now), now)
    }

    fn of(report: &Report) -> Self {
        Self {
            seconds: report.seconds,
            packets: report.workers.iter().map(|worker| worker.packets).sum(),
            bytes: report.workers.iter().map(|worker| worker.bytes).sum(),
        }
    }
}

fn line(report: &Report, before: Rates, now: Rates) -> String {
    let seconds = (now.seconds - before.seconds).max(1e-3);
    let pps = (now.packets - before.packets) as f64 / seconds;
    let mbps = (now.bytes - before.bytes) as f64 * 8.0 / seconds / 1e6;
    let early: u64 = report.ports.iter().map(|port| port.dropped_before_xdp).sum();
    let mut line = format!(
        "{:.1} s  {}  {}  {mbps:.1} Mbit/s  pool {:.0} % (peak {:.0} %)  lost {}",
        now.seconds,
        counted(now.packets, "packet"),
        rate(pps),
        report.pool_used_percent(),
        report.pool_peak_percent(),
        report.total().lost.total() + early,
    );
    // Of several traces the one that has furthest to go.
    if let Some(percent) = report.ports.iter().filter_map(|port| port.read_percent).reduce(f64::min) {
        line.push_str(&format!("  read {percent:.0} %"));
    }
    line
}

#[cfg(test)]
mod tests {
    use wirecap::report::MemoryReport;

    use super::*;

    #[test]
    fn rates_are_those_since_the_last_line() {
        let memory = MemoryReport::default();
        let report = Report { seconds: 3.0, ports: vec![], workers: vec![], memory };
        let before = Rates { seconds: 2.5, packets: 1_000, bytes: 60_000 };
        let now = Rates { seconds: 3.0, packets: 2_001_000, bytes: 120_060_000 };
        let line = line(&report, before, now);
        assert_eq!(line, "3.0 s  2001000 packets  4.00 Mpps  1920.0 Mbit/s  pool 0 % (peak 0 %)  lost 0");
    }
}
