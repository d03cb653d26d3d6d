//! Standard error while a capture runs: the status line, and the lines that interrupt it.

use wirecap::{Capture, Report};

use super::{job::Job, plan::Plan};
use crate::{
    message::Message,
    print::{
        layout::GAP,
        status_line::{Rates, Snapshot, StatusLine},
        stdio::print_message,
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

    /// Writes the status line below a table, if it is due.
    pub(crate) fn show(&mut self, capture: &Capture, job: &mut impl Job) {
        if self.line.is_due() {
            let report = capture.report();
            let now = snapshot(&report);
            let (table, lost) = (job.table(), job.lost_in_all(&report));
            self.line.show_rates_below(&table, now, |rates| fields(&report, now, rates, lost));
        }
    }

    /// Removes the status line.
    pub(crate) fn clear(&mut self) {
        self.line.clear();
    }

    /// Prints what `--quiet` does not suppress: an error, a loss, what the user asked for.
    pub(crate) fn print(&mut self, message: &Message) {
        self.clear();
        print_message(message);
    }

    /// Prints what `--quiet` suppresses.
    pub(crate) fn note(&mut self, message: &Message) {
        if !self.quiet {
            self.print(message);
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

/// The line with the rates since `before`, which becomes the snapshot of this report.
pub(crate) fn line_since(before: &mut Snapshot, capture: &Capture, job: &impl Job) -> String {
    let report = capture.report();
    let now = snapshot(&report);
    fields(&report, now, before.advance(now), job.lost_in_all(&report)).join(GAP)
}

/// The fields of the line. Losses are the first figure: a narrow terminal does not show the last ones.
fn fields(report: &Report, now: Snapshot, Rates { pps, mbps }: Rates, lost: u64) -> Vec<String> {
    // Of several trace files, the one that is read least.
    let read = report.ports.iter().filter_map(|port| port.read_percent).reduce(f64::min);
    let (used, peak) = (report.pool_used_percent(), report.pool_peak_percent());
    let mut fields = vec![
        format!("{:.1} s", now.seconds),
        format!("lost {lost}"),
        counted(now.packets, "packet"),
        rate(pps),
    ];
    fields.extend(read.map(|percent| format!("read {percent:.0} %")));
    fields.push(format!("pool {used:.0} % (peak {peak:.0} %)"));
    fields.push(format!("{mbps:.1} Mbit/s"));
    fields
}

#[cfg(test)]
mod tests {
    use wirecap::report::{MemoryReport, PortReport};

    use super::*;
    use crate::print::layout::fitted;

    fn report(seconds: f64) -> Report {
        let memory = MemoryReport::default();
        Report { seconds, threshold_percent: None, ports: vec![], workers: vec![], memory }
    }

    #[test]
    fn rates_count_from_the_last_line() {
        let report = report(3.0);
        let now = Snapshot { packets: 2_001_000, ..snapshot(&report) };
        let line = fields(&report, now, Rates { pps: 4e6, mbps: 1_920.0 }, 0).join(GAP);
        assert_eq!(line, "3.0 s  lost 0  2001000 packets  4.00 Mpps  pool 0 % (peak 0 %)  1920.0 Mbit/s");
    }

    #[test]
    fn a_narrow_terminal_shows_all_digits_of_the_losses() {
        let port = PortReport { read_percent: Some(7.0), ..PortReport::default() };
        let report = Report { ports: vec![port], ..report(1_234_567.8) };
        let now = Snapshot { packets: 98_765_432_109_876, ..snapshot(&report) };
        let fields = fields(&report, now, Rates { pps: 103.29e3, mbps: 12_345.6 }, 123_456_789_012);
        let start = "1234567.8 s  lost 123456789012";
        assert_eq!(fitted(&fields, 39), start);
        let wide = format!("{start}  98765432109876 packets  103.29 kpps  read 7 %");
        assert_eq!(fitted(&fields, 79), wide);
    }
}
