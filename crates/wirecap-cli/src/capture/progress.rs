//! Standard error while a capture runs: the status line, and the lines that interrupt it.

use std::fmt::Display;

use wirecap::{Capture, Report};

use super::plan::Plan;
use crate::{
    print::{
        status_line::{Rates, Snapshot, StatusLine},
        stdio::print_stderr,
    },
    text::{plural::counted, units::rate},
};

/// Prints while a capture runs.
#[derive(Debug)]
pub(crate) struct Progress {
    line: StatusLine,
    quiet: bool,
}

impl Progress {
    pub(crate) fn new(plan: &Plan) -> Self {
        let line = StatusLine::new(plan.output.quiet, plan.output.json);
        Self { line, quiet: plan.output.quiet }
    }

    /// Writes the status line, if it is due.
    pub(crate) fn show(&mut self, capture: &Capture) {
        if self.line.is_due() {
            let report = capture.report();
            let now = snapshot(&report);
            self.line.show_rates(now, |rates| line(&report, now, rates));
        }
    }

    /// Removes the status line.
    pub(crate) fn clear(&mut self) {
        self.line.clear();
    }

    /// Prints what `--quiet` does not suppress: an error, a loss, what the user asked for.
    pub(crate) fn print(&mut self, line: impl Display) {
        self.clear();
        print_stderr(line);
    }

    /// Prints what `--quiet` suppresses.
    pub(crate) fn note(&mut self, line: impl Display) {
        if !self.quiet {
            self.print(line);
        }
    }
}

/// What was delivered so far.
fn snapshot(report: &Report) -> Snapshot {
    Snapshot {
        seconds: report.seconds,
        packets: report.workers.iter().map(|worker| worker.packets).sum(),
        bits: report.workers.iter().map(|worker| 8 * worker.bytes).sum(),
    }
}

/// The status line with the rates since `before`, which becomes the snapshot of this report.
pub(crate) fn line_since(before: &mut Snapshot, report: &Report) -> String {
    let now = snapshot(report);
    line(report, now, before.advance(now))
}

fn line(report: &Report, now: Snapshot, Rates { pps, mbps }: Rates) -> String {
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
    // Of several trace files, the one that is read least.
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
        let now = Snapshot { packets: 2_001_000, ..snapshot(&report) };
        let line = line(&report, now, Rates { pps: 4e6, mbps: 1_920.0 });
        assert_eq!(line, "3.0 s  2001000 packets  4.00 Mpps  1920.0 Mbit/s  pool 0 % (peak 0 %)  lost 0");
    }
}
