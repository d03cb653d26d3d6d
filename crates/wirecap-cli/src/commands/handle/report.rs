//! What is printed at the end: a row for each thread, and what became of packets that were sent on.

use serde::Serialize;
use wirecap::Report;

use super::{counts::ThreadRecord, onward::SentOn};
use crate::{
    commands::forward::unsent,
    print::{
        layout::paragraph,
        table::{Table, grouped},
    },
    text::plural::{counted, was},
};

/// How packets were handled.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct HandleRecord {
    /// The filter that was applied to each packet; null with a pace.
    pub(super) filter: Option<FilterRecord>,
    /// Packets per second that a thread handled at most; null with a filter.
    pub(super) pace_pps: Option<u64>,
    /// The threads.
    pub(super) threads: Vec<ThreadRecord>,
    /// Packets that were captured and not handled, because a signal gave them up.
    pub(super) unhandled: u64,
    /// What became of packets that were to be sent on; null without `--forward`.
    pub(super) sent_on: Option<SentOn>,
}

/// A filter that was applied to each packet.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct FilterRecord {
    /// Its expression.
    pub(super) filter: String,
    /// How many times it was applied to each packet.
    pub(super) runs: u64,
    /// Whether it ran as machine code; it was interpreted otherwise.
    pub(super) native: bool,
}

/// What each packet costs, as text.
pub(super) fn describe_load(record: &HandleRecord) -> String {
    match (&record.filter, record.pace_pps) {
        (Some(FilterRecord { runs: 0, .. }), _) => "packets are not read (-x 0)".into(),
        (Some(FilterRecord { filter, runs, native }), _) => {
            let (runs, code) =
                (counted(*runs, "run"), if *native { "as machine code" } else { "interpreted" });
            format!("each packet: {runs} of the filter {filter:?}, {code}")
        }
        (None, pace) => {
            format!("each thread handles at most {}, and sleeps in between", pace_of(pace.unwrap_or(0)))
        }
    }
}

fn pace_of(pps: u64) -> String {
    format!("{} per second", counted(pps, "packet"))
}

/// The figures as text, for people.
pub(super) fn describe(record: &HandleRecord, report: &Report) -> String {
    let mut text = format!("\n{}\n{}", paragraph(&describe_load(record)), table(record));
    let Some(SentOn { to, packets, bytes, dropped, ignored }) = &record.sent_on else { return text };
    text += "\n";
    let mut say = |line: String| text += &paragraph(&line);
    say(format!("{} sent on to {to}, {}", counted(*packets, "packet"), counted(*bytes, "byte")));
    if dropped.total() > 0 {
        let from = report.ports.split_last().map_or(&[][..], |(_, others)| others);
        let from: Vec<_> = from.iter().map(|port| port.name.as_str()).collect();
        say(format!("dropped from {}: {}", from.join(", "), dropped.describe()));
    }
    if let Some((not_sent @ 1.., by_whom)) = report.ports.last().map(unsent) {
        say(format!("{to} did not send {} that it got: {by_whom}", counted(not_sent, "packet")));
    }
    if *ignored > 0 {
        say(format!("{} came in by {to} and {} dropped", counted(*ignored, "packet"), was(*ignored)));
    }
    text
}

/// A row for each thread with packets, and one for all others.
fn table(record: &HandleRecord) -> Table {
    let has_matches = record.threads.iter().any(|thread| thread.matched.is_some());
    let has_pace = record.pace_pps.is_some();
    let heads = [
        (true, "thread"),
        (true, "packets"),
        (has_matches, "matched"),
        (true, "busy_s"),
        (true, "busy_pps"),
        (true, "cpu_ns"),
        (has_pace, "late_ms"),
    ];
    let heads: Vec<_> = heads.iter().filter(|(is_shown, _)| *is_shown).map(|(_, head)| *head).collect();
    let mut table = Table::new(&heads);
    let threads = record.threads.iter().map(|thread| (thread.thread as u64, thread));
    for (label, threads) in grouped(threads, |thread: &&ThreadRecord| thread.packets == 0) {
        let thread = threads[0];
        let rounded =
            |figure: Option<f64>| figure.map_or_else(|| "-".into(), |figure| format!("{figure:.0}"));
        let cells = [Some(label), Some(thread.packets.to_string())].into_iter();
        let cells = cells.chain([
            thread.matched.map(|matched| matched.to_string()),
            Some(format!("{:.3}", thread.busy_seconds)),
            Some(rounded(thread.busy_pps)),
            Some(rounded(thread.cpu_ns_per_packet)),
            thread.late_ms.map(|late_ms| format!("{late_ms:.1}")),
        ]);
        table.row(cells.flatten().collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use wirecap::report::MemoryReport;

    use super::*;

    fn thread(thread: usize, packets: u64, matched: Option<u64>, late_ms: Option<f64>) -> ThreadRecord {
        let figure = |figure| (packets > 0).then_some(figure);
        ThreadRecord {
            thread,
            packets,
            bytes: 60 * packets,
            matched,
            busy_seconds: packets as f64 / 1e6,
            busy_pps: figure(1e6),
            cpu_ns_per_packet: figure(812.4),
            late_ms,
        }
    }

    fn report() -> Report {
        let (ports, workers, memory) = (Vec::new(), Vec::new(), MemoryReport::default());
        Report { seconds: 1.0, threshold_percent: None, ports, workers, memory }
    }

    fn record(filter: Option<FilterRecord>, threads: Vec<ThreadRecord>) -> HandleRecord {
        let pace_pps = filter.is_none().then_some(38_844);
        HandleRecord { filter, pace_pps, threads, unhandled: 0, sent_on: None }
    }

    #[test]
    fn a_filter_has_matches_and_a_pace_has_delays() {
        let filter = FilterRecord { filter: "net 131.225.2 and udp".into(), runs: 300, native: false };
        let threads = vec![thread(0, 3_000, Some(17), None), thread(1, 0, Some(0), None)];
        let expected = "
each packet: 300 runs of the filter \"net 131.225.2 and udp\", interpreted

thread  packets  matched  busy_s  busy_pps  cpu_ns
     0     3000       17   0.003   1000000     812
     1        0        0   0.000         -       -
";
        assert_eq!(describe(&record(Some(filter), threads), &report()), expected);
        let expected = "
each thread handles at most 38844 packets per second, and sleeps in between

thread  packets  busy_s  busy_pps  cpu_ns  late_ms
     0     3000   0.003   1000000     812      0.3
";
        assert_eq!(describe(&record(None, vec![thread(0, 3_000, None, Some(0.26))]), &report()), expected);
    }

    #[test]
    fn no_run_reads_no_packet() {
        let filter = FilterRecord { filter: "udp".into(), runs: 0, native: false };
        assert!(describe(&record(Some(filter), vec![]), &report()).contains("packets are not read (-x 0)"));
    }
}
