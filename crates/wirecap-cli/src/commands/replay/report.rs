//! The report at the end, as a table or as JSON.

use serde::Serialize;
use wirecap::PassiveReason;
use wirecap_replay::{End, Quantiles, Report, Storage};
use wirecap_send::LaneReport;

use super::announce::{fallbacks, warnings};
use crate::{
    exit::Exit,
    flags::SendFlags,
    print::{
        head::Head,
        layout::paragraph,
        printable::json,
        report::ReportFormat,
        stdio::Stream,
        table::{QueueRow, Table},
    },
    text::{
        DiagnosticWithText,
        plural::counted,
        sending::{Fallback, describe as describe_fallback},
        units::{at_most, bit_rate, rate},
    },
};

/// A report as JSON.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Record<'a> {
    #[serde(flatten)]
    head: Head,
    /// What went wrong, as text; null if the exit code is 0.
    error: Option<String>,
    /// Its own list of fallbacks is empty, and therefore not serialised.
    #[serde(flatten)]
    report: &'a Report,
    /// Requests that were not met, or not as well as possible.
    fallbacks: Vec<DiagnosticWithText<Fallback>>,
}

/// Prints the report to standard output, and failures to standard error. With `--quiet` it prints only errors
/// and losses. Returns the exit code.
pub(super) fn print(
    mut report: Report,
    spared: Option<&PassiveReason>,
    head: Head,
    flags: &SendFlags,
) -> Exit {
    let errors = errors(&report);
    let fallbacks = fallbacks(spared, &std::mem::take(&mut report.fallbacks));
    let as_json = || {
        let error = (!errors.is_empty()).then(|| errors.join("; "));
        let fallbacks =
            fallbacks.into_iter().map(|fallback| DiagnosticWithText::new(fallback, describe_fallback));
        json(&Record { head, error, report: &report, fallbacks: fallbacks.collect() })
    };
    let format = ReportFormat { stream: Stream::Stdout, json: flags.json, quiet: flags.quiet };
    let is_printed = format.print("the report", as_json, || describe(&report));
    if let Some(warning) = not_sent(&report) {
        warn!("{warning}");
    }
    // Last, because they are why it ended.
    errors.iter().for_each(|error| fail!("{error}"));
    if errors.is_empty() && is_printed { Exit::Fine } else { Exit::Failed }
}

/// Why the exit code is not 0.
fn errors(report: &Report) -> Vec<String> {
    // Sending files without packets succeeds.
    let nothing = report.packets == 0 && report.end == End::Complete && report.trace.packets > 0;
    if nothing && report.failures.is_empty() {
        vec!["nothing was sent: all packets of the files were skipped".into()]
    } else {
        report.failures.iter().map(|failure| failure.text.clone()).collect()
    }
}

/// A warning about packets that the interface got but did not send: the report counts them as sent.
fn not_sent(report: &Report) -> Option<String> {
    let counted_by_it = report.counters?;
    let lost = counted_by_it.dropped + counted_by_it.errors;
    let advice = if report.failures.is_empty() { "; send more slowly" } else { "" };
    (lost > 0)
        .then(|| format!("{} did not send {} that it got{advice}", report.interface, counted(lost, "packet")))
}

fn describe(report: &Report) -> String {
    let queues = report.queues.iter().map(|queue| {
        let LaneReport { queue, mode, packets, bytes, refused, in_flight } = *queue;
        QueueRow { queue, mode, figures: [packets, bytes, refused, in_flight.into()] }
    });
    let table = Table::of_queues(["packets", "bytes", "refused", "in flight"], queues.collect());
    let mut text = format!("{table}\n");
    text += &format!(
        "{} packets, {} bytes in {:.3} s: {}, {}{}\n",
        report.packets,
        report.bytes,
        report.seconds,
        rate(report.pps),
        bit_rate(report.bps),
        if report.passes > 1 { format!(", {} passes", report.passes) } else { String::new() }
    );
    if let Some(pacing) = &report.pacing {
        text += &paragraph(&format!("gaps differ from the plan by {}", quantiles(pacing.gap_error_ns)));
        text += &paragraph(&format!("departures were late by {}", quantiles(pacing.late_ns)));
    }
    if let Some(counted) = &report.counters {
        text += &paragraph(&format!(
            "{} counted {} packets and {} bytes sent, {} dropped, {} errors",
            report.interface, counted.packets, counted.bytes, counted.dropped, counted.errors
        ));
    }
    if let Storage::Streamed { starved, .. } = report.held {
        text += &format!("reading fell behind {starved} times\n");
        for warning in warnings(&report.trace, report.end == End::Complete, &report.interface) {
            text += &paragraph(&format!("WARNING: {warning}"));
        }
    }
    text
}

fn quantiles(values: Quantiles) -> String {
    format!("{} (p50), {} (p99), {} (max)", at_most(values.p50), at_most(values.p99), at_most(values.max))
}

#[cfg(test)]
mod tests {
    use wirecap_replay::{CutPolicy, Failure, FailureCode, Tally};
    use wirecap_send::TxDelta;

    use super::*;

    /// The report of a trace that was read while it was sent.
    fn streamed(end: End, packets: u64) -> Report {
        Report {
            interface: "eth1".into(),
            end,
            packets,
            bytes: 0,
            seconds: 0.0,
            pps: 0.0,
            bps: 0.0,
            passes: 0,
            held: Storage::Streamed { cells_bytes: 0, starved: 0 },
            pacing: None,
            queues: Vec::new(),
            trace: Tally { packets, ..Tally::default() },
            truncated: CutPolicy::default(),
            counters: None,
            fallbacks: Vec::new(),
            failures: Vec::new(),
        }
    }

    #[test]
    fn files_are_called_empty_only_if_they_were_read_to_their_end() {
        let words = "no packets in the files";
        assert!(describe(&streamed(End::Complete, 0)).contains(words));
        assert!(!describe(&streamed(End::Complete, 1)).contains(words));
        for end in [End::Stopped, End::Duration, End::Failed] {
            assert!(!describe(&streamed(end, 0)).contains(words));
        }
    }

    #[test]
    fn packets_that_the_interface_did_not_send_cause_a_warning() {
        let report = |dropped, errors| {
            let counters = Some(TxDelta { packets: 5, dropped, errors, ..TxDelta::default() });
            Report { counters, ..streamed(End::Complete, 8) }
        };
        let warning = not_sent(&report(2, 1)).unwrap();
        assert_eq!(warning, "eth1 did not send 3 packets that it got; send more slowly");
        let failure = Failure { code: FailureCode::LinkLost, text: "the link is down".into() };
        let failed = Report { failures: vec![failure], ..report(1, 0) };
        assert_eq!(not_sent(&failed).unwrap(), "eth1 did not send 1 packet that it got");
        assert_eq!((not_sent(&report(0, 0)), not_sent(&streamed(End::Complete, 8))), (None, None));
    }
}
