//! What is said at the end, as a table or as JSON.

use std::time::Duration;

use serde::Serialize;
use wirecap_replay::{End, Held, Quantiles, Report};
use wirecap_send::LaneReport;

use super::announce::warnings;
use crate::{
    exit::{Exit, tell},
    flags::SendFlags,
    head::Head,
    printable::json,
    stdio::{Stream, print as print_to},
    table::Table,
    terminal::rate,
    text::{paragraph, plural::counted, ranges},
};

/// A report as JSON.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Record<'a> {
    #[serde(flatten)]
    head: Head,
    /// What was not as asked for, in words; null if the exit code is 0.
    error: Option<String>,
    #[serde(flatten)]
    report: &'a Report,
}

/// Prints the report to standard output, and on standard error what went wrong. The exit code is that of the replay. Quiet
/// people get errors and losses only.
pub(super) fn print(report: &Report, head: Head, flags: &SendFlags) -> Exit {
    let errors = errors(report);
    let text = match (flags.json, flags.quiet) {
        (true, _) => as_json(report, head, &errors),
        (false, true) => String::new(),
        (false, false) => in_words(report),
    };
    let printed = print_to(Stream::Stdout, &text);
    if let Err(cause) = &printed {
        tell(format_args!("wirecap: cannot print the report: {cause}"));
    }
    if let Some(warning) = not_sent(report) {
        tell(format_args!("wirecap: WARNING: {warning}"));
    }
    // Last, since that is why it ended.
    errors.iter().for_each(|error| tell(format_args!("wirecap: {error}")));
    if errors.is_empty() && printed.is_ok() { Exit::Fine } else { Exit::Failed }
}

/// Why the exit code is not 0.
fn errors(report: &Report) -> Vec<String> {
    // Files without packets are sent well.
    let nothing = report.packets == 0 && report.end == End::Complete && report.trace.packets > 0;
    if nothing && report.failures.is_empty() {
        vec!["nothing was sent: all packets of the files were left out".into()]
    } else {
        report.failures.clone()
    }
}

/// Packets that the interface has not sent though it was given them: they are among those of the report.
fn not_sent(report: &Report) -> Option<String> {
    let counted_by_it = report.counters?;
    let lost = counted_by_it.dropped + counted_by_it.errors;
    let advice = if report.failures.is_empty() { "; send more slowly" } else { "" };
    (lost > 0).then(|| {
        format!("{} did not send {} that it was given{advice}", report.interface, counted(lost, "packet"))
    })
}

fn as_json(report: &Report, head: Head, errors: &[String]) -> String {
    let error = (!errors.is_empty()).then(|| errors.join("; "));
    json(&Record { head, error, report })
}

fn in_words(report: &Report) -> String {
    let mut table = Table::new(&["queue", "mode", "packets", "bytes", "refused", "in flight"]);
    let is_idle = |queue: &LaneReport| (queue.packets, queue.refused) == (0, 0) && queue.in_flight == 0;
    let (idle, busy): (Vec<_>, Vec<_>) = report.queues.iter().partition(|queue| is_idle(queue));
    for queue in busy {
        table.row(vec![
            queue.queue.to_string(),
            queue.mode.into(),
            queue.packets.to_string(),
            queue.bytes.to_string(),
            queue.refused.to_string(),
            queue.in_flight.to_string(),
        ]);
    }
    if let Some(first) = idle.first() {
        let numbers = ranges(idle.iter().map(|queue| queue.queue.into()));
        let zeros = (0..4).map(|_| "0".to_owned());
        table.row([numbers, first.mode.into()].into_iter().chain(zeros).collect());
    }
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
    if let Held::Streamed { starved, .. } = report.held {
        text += &format!("the file was behind {starved} times\n");
        for warning in warnings(&report.trace, report.end == End::Complete, &report.interface) {
            text += &paragraph(&format!("WARNING: {warning}"));
        }
    }
    text
}

fn quantiles(values: Quantiles) -> String {
    format!("{} (p50), {} (p99), {} (most)", short(values.p50), short(values.p99), short(values.max))
}

/// A short time, in the unit that fits.
fn short(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

fn bit_rate(bps: f64) -> String {
    if bps >= 1e9 { format!("{:.2} Gbit/s", bps / 1e9) } else { format!("{:.2} Mbit/s", bps / 1e6) }
}

/// A long time, in the units that fit.
pub(super) fn length(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} days {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// Memory, in the unit that fits.
pub(super) fn size(bytes: u64) -> String {
    if bytes < 1 << 20 {
        format!("{} KiB", bytes.div_ceil(1 << 10))
    } else {
        format!("{} MiB", bytes.div_ceil(1 << 20))
    }
}

#[cfg(test)]
mod tests {
    use wirecap_replay::{Counters, Cut, Tally};

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
            held: Held::Streamed { cells_bytes: 0, starved: 0 },
            pacing: None,
            queues: Vec::new(),
            trace: Tally { packets, ..Tally::default() },
            truncated: Cut::default(),
            counters: None,
            fallbacks: Vec::new(),
            failures: Vec::new(),
        }
    }

    #[test]
    fn files_are_called_empty_only_if_they_were_read_to_their_end() {
        let words = "no packets in the files";
        assert!(in_words(&streamed(End::Complete, 0)).contains(words));
        assert!(!in_words(&streamed(End::Complete, 1)).contains(words));
        for end in [End::Stopped, End::Duration, End::Failed] {
            assert!(!in_words(&streamed(end, 0)).contains(words));
        }
    }

    #[test]
    fn what_the_interface_did_not_send_is_warned_of() {
        let report = |dropped, errors| {
            let counters = Some(Counters { packets: 5, dropped, errors, ..Counters::default() });
            Report { counters, ..streamed(End::Complete, 8) }
        };
        let warning = not_sent(&report(2, 1)).unwrap();
        assert_eq!(warning, "eth1 did not send 3 packets that it was given; send more slowly");
        let failed = Report { failures: vec!["the link is down".into()], ..report(1, 0) };
        assert_eq!(not_sent(&failed).unwrap(), "eth1 did not send 1 packet that it was given");
        assert_eq!((not_sent(&report(0, 0)), not_sent(&streamed(End::Complete, 8))), (None, None));
    }

    #[test]
    fn times_are_told_in_the_unit_that_fits() {
        assert_eq!(
            (short(999), short(1_500), short(2_500_000), short(61_000_000_000)),
            ("999 ns".into(), "1.5 µs".into(), "2.5 ms".into(), "61.0 s".into())
        );
        let of = |seconds| length(Duration::from_secs(seconds));
        assert_eq!(
            (of(3), of(42), of(90), of(3_700), of(90_000)),
            ("3.0 s".into(), "42 s".into(), "1 min 30 s".into(), "1 h 1 min".into(), "1 days 1 h".into())
        );
        assert_eq!(
            (bit_rate(1.5e9), bit_rate(2e6), size(4096), size(3 << 20)),
            ("1.50 Gbit/s".into(), "2.00 Mbit/s".into(), "4 KiB".into(), "3 MiB".into())
        );
    }
}
