//! What is printed at the end: the figures, and what they mean.

use std::time::Duration;

use serde::Serialize;
use wirecap::{Report, report::QueueMode};
use wirecap_profile::{
    Burst, Findings, LongTerm, Peak, Profiler, QueueSummary, Series, ShortTerm, Summary, may_close_early,
    rss::QUEUE_WITHOUT_HASH,
};

use super::{
    jumps,
    queues::{QueueName, RssRecord},
    worker::SpecialPackets,
};
use crate::{
    print::{
        layout::paragraph,
        table::{Table, grouped},
    },
    text::{
        plural::{counted, is, was},
        report::RowKind,
        units::length,
    },
};

/// Bursts that are described; the table has all queues.
const MAX_BURSTS: usize = 3;
/// Figures of this age or more are old enough to say so.
const STALE: Duration = Duration::from_secs(1);
/// What absorbs a burst.
const REMEDY: &str = "a pool of as many packets (-R x -M) holds them until a worker has time";

/// The profile.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ProfileRecord {
    #[serde(flatten)]
    summary: Summary,
    /// Which imbalance there is.
    findings: Findings,
    /// The settings of RSS with which queues were computed; null if packets count for the queue that they
    /// came in on.
    rss: Option<RssRecord>,
    /// Packets that left the host; no receive queue has them, and they are left out.
    outgoing: u64,
    /// Packets for which the trace has no time; the bin of 1970 has them.
    untimed: u64,
    /// The queues.
    queues: Vec<QueueRecord>,
    /// The whole time in at most 800 points, for pictures.
    series: Series,
}

/// The packets of a queue.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct QueueRecord {
    /// Name of the port.
    port: String,
    /// Number of the queue; on a passive port, of the core or socket.
    queue: u64,
    /// What the number counts.
    #[serde(skip)]
    kind: RowKind,
    #[serde(flatten)]
    summary: QueueSummary,
}

impl ProfileRecord {
    pub(super) fn new(
        names: &[QueueName],
        rss: Option<RssRecord>,
        profiler: &Profiler,
        special: SpecialPackets,
    ) -> Self {
        let SpecialPackets { outgoing, untimed, .. } = special;
        let mut summary = profiler.summary();
        let findings = Findings::of(&summary);
        let queues = names.iter().zip(std::mem::take(&mut summary.queues)).map(|(name, summary)| {
            let QueueName { port, kind, number } = name.clone();
            QueueRecord { port, queue: number, kind, summary }
        });
        let queues = queues.collect();
        Self { summary, findings, rss, outgoing, untimed, queues, series: profiler.series().clone() }
    }

    fn label(&self, position: usize) -> String {
        let QueueRecord { port, queue, kind, .. } = &self.queues[position];
        let is_one = self.queues.iter().all(|other| other.port == *port);
        if is_one { format!("{kind} {queue}") } else { format!("{kind} {queue} of {port}") }
    }
}

/// The profile as text, for people, with figures of this age.
pub(super) fn describe(record: &ProfileRecord, age: Duration, report: &Report) -> String {
    let summary = &record.summary;
    let mut text = format!("\n{}\n{}", paragraph(&heading(record)), table(record));
    text.push('\n');
    let mut say = |line: String| text += &paragraph(&line);
    if age >= STALE {
        say(format!(
            "these figures are {} old; newer ones are in use, as they are while rows of --csv wait for the disk",
            length(age)
        ));
    }
    long_term(record).into_iter().for_each(&mut say);
    short_term(record).into_iter().for_each(&mut say);
    if record.queues.len() > 1 && summary.short_term_factor > 0.0 {
        say(format!(
            "within {}, the busiest queue has {:.1} times an even share, as the average packet finds it (Gini {:.2}; in the \
             whole time {:.1} times, Gini {:.2})",
            time(summary.window_ns),
            summary.short_term_factor,
            summary.short_term_gini,
            summary.long_term_factor,
            summary.long_term_gini
        ));
    }
    caveats(record, report).into_iter().for_each(&mut say);
    text
}

fn heading(record: &ProfileRecord) -> String {
    let bin = time(record.summary.bin_ns);
    match &record.rss {
        None => format!("packets in bins of {bin}:"),
        Some(RssRecord { key, fields, entries, .. }) => format!(
            "packets in bins of {bin}, by the queues that RSS chooses (key {key}, {fields} hashed, a table of {entries}):"
        ),
    }
}

/// A row for each queue with packets, and one for all others.
fn table(record: &ProfileRecord) -> Table {
    let window = time(record.summary.window_ns);
    let burst = format!("in {window}");
    let heads = ["port", "queue", "packets", "%", "mean", "max", "times", "at s", &burst, "times", "at s"];
    // The name of the only port is in the account.
    let skipped = usize::from(record.queues.iter().all(|queue| queue.port == record.queues[0].port));
    let mut table = Table::new(&heads[skipped..]).with_keys(2 - skipped);
    let mut rest = record.queues.as_slice();
    while let Some(first) = rest.first() {
        let len = rest.iter().take_while(|queue| queue.port == first.port).count();
        let (of_port, others) = rest.split_at(len);
        rest = others;
        let numbered = of_port.iter().map(|queue| (queue.queue, &queue.summary));
        for (label, queues) in grouped(numbered, |queue: &&QueueSummary| queue.packets == 0) {
            let row = [first.port.clone(), label].into_iter().chain(figures(queues[0]));
            table.row(row.skip(skipped).collect());
        }
    }
    table
}

fn figures(queue: &QueueSummary) -> [String; 9] {
    let peak = |peak: Option<Peak>| {
        let [packets, to_mean, seconds] = peak.map_or_else(Default::default, |peak| {
            [peak.packets.to_string(), format!("{:.1}", peak.to_mean), format!("{:.3}", peak.seconds)]
        });
        [packets, to_mean, seconds].map(|figure| if figure.is_empty() { "-".into() } else { figure })
    };
    let ([max, to_mean, at], [burst, burst_to_mean, burst_at]) = (peak(queue.peak), peak(queue.burst));
    let share = format!("{:.1}", queue.share * 100.0);
    let mean = format!("{:.1}", queue.mean_per_bin);
    [queue.packets.to_string(), share, mean, max, to_mean, at, burst, burst_to_mean, burst_at]
}

fn long_term(record: &ProfileRecord) -> Option<String> {
    Some(match record.findings.long_term {
        LongTerm::NotComparable => return None,
        LongTerm::Even => {
            "no long-term imbalance: over the whole time, no queue has 1.5 times an even share beyond what chance explains"
                .into()
        }
        LongTerm::Skewed { queue, share, factor } => format!(
            "long-term imbalance: {} has {:.1} % of all packets, {factor:.1} times an even share; workers that help each other \
             (-T) level it{}",
            record.label(queue),
            share * 100.0,
            of_settings(record, queue)
        ),
    })
}

/// What settings do about a queue with too many packets.
fn of_settings(record: &ProfileRecord, queue: usize) -> String {
    let packets = record.queues[queue].summary.packets;
    match &record.rss {
        Some(rss) if queue == QUEUE_WITHOUT_HASH && 2 * rss.without_hash > packets => format!(
            "; {:.1} % of its packets have no hash (not IP), which no key or table changes",
            rss.without_hash as f64 * 100.0 / packets as f64
        ),
        _ => match record.queues[queue].kind {
            RowKind::Queue => ", or another key or table (ethtool -X)".into(),
            // The kernel chooses the core, and not by the NIC's table alone.
            RowKind::Core => String::new(),
            RowKind::Socket => ", or another --fanout".into(),
        },
    }
}

fn short_term(record: &ProfileRecord) -> Vec<String> {
    let window = time(record.summary.window_ns);
    match record.findings.short_term {
        ShortTerm::NoPackets => return vec![],
        ShortTerm::Unknown { .. } if !record.summary.has_closed_bins() => {
            return vec![
                "short-term imbalance is unknown: no bin is closed yet; packets that come a second after it close one"
                    .into(),
            ];
        }
        ShortTerm::Unknown { in_no_bin } => {
            let packets = counted(record.summary.packets, "packet");
            return vec![format!("short-term imbalance is unknown: {in_no_bin} of {packets} are in no bin")];
        }
        ShortTerm::Even | ShortTerm::Uneven => {}
    }
    let (of_most, own): (Vec<_>, Vec<_>) =
        record.findings.bursts.iter().partition(|burst| burst.is_of_most());
    let describe = |&&Burst { queue, packets, seconds, to_mean, .. }: &&Burst| {
        let queue = record.label(queue);
        format!(
            "{queue} has {packets} packets within {window} at {seconds:.3} s, {to_mean:.1} times its mean"
        )
    };
    let mut lines: Vec<_> = own
        .iter()
        .take(MAX_BURSTS)
        .map(|burst| format!("short-term imbalance: {}; {REMEDY}", describe(burst)))
        .collect();
    let more = own.len().saturating_sub(MAX_BURSTS);
    if more > 0 {
        lines.push(format!(
            "{} besides these {} bursts of 3 times the mean or more",
            counted(more as u64, "queue"),
            has(more)
        ));
    }
    if let Some(largest) = of_most.first() {
        let Burst { others, along, .. } = largest;
        lines.push(format!(
            "bursts of the traffic: {}, with bursts of {along} of {} at the same time; {REMEDY}",
            describe(largest),
            counted(*others as u64, "other queue")
        ));
    }
    if record.findings.short_term == ShortTerm::Even {
        lines.push(if of_most.is_empty() {
            format!(
                "no short-term imbalance: no queue has 3 times its mean within {window} beyond what chance explains"
            )
        } else {
            "no short-term imbalance: most other queues share every burst".into()
        });
    }
    lines
}

fn has(number: usize) -> &'static str {
    if number == 1 { "has" } else { "have" }
}

/// What limits the meaning of the figures.
fn caveats(record: &ProfileRecord, report: &Report) -> Vec<String> {
    let mut lines = Vec::from_iter(reach(&record.summary));
    let early: u64 = report.ports.iter().map(|port| port.dropped_before_xdp).sum();
    let lost = report.total().lost.total() + early;
    if lost > 0 {
        lines.push(format!(
            "{} {} lost, as the account says, and {} in no bin: peaks were higher than shown; a larger pool (-R) loses less",
            counted(lost, "packet"),
            was(lost),
            is(lost)
        ));
    }
    lines.extend(jumps::describe(&record.summary.jumps));
    let sum = |of: fn(&QueueSummary) -> u64| record.queues.iter().map(|queue| of(&queue.summary)).sum();
    let may_close_early = may_close_early(record.queues.len(), record.summary.bin_ns);
    lines.extend(jumps::outliers(sum(|queue| queue.late), sum(|queue| queue.ahead), may_close_early));
    if record.untimed > 0 {
        lines.push(format!(
            "the trace has no time for {}: the bin of 1970 has them, and figures over time say nothing about them",
            counted(record.untimed, "packet")
        ));
    }
    if record.outgoing > 0 {
        let outgoing = record.outgoing;
        lines.push(format!(
            "{} left the host and {} not in the profile: they pass no receive queue",
            counted(outgoing, "packet"),
            is(outgoing)
        ));
    }
    let is_passive = |mode| matches!(mode, QueueMode::Tap | QueueMode::Packet);
    let mut queues = report.ports.iter().flat_map(|port| &port.queues);
    if record.rss.is_none() && queues.any(|queue| is_passive(queue.mode)) {
        lines.push(
            "an interface that the host keeps is profiled by core or socket, not by receive queue; with xdp:NAME, wirecap \
             takes it and profiles its receive queues"
                .into(),
        );
    }
    lines
}

/// How far the bins of a profile reach that goes on, if any is closed.
fn reach(summary: &Summary) -> Option<String> {
    let open = summary.in_open_bins;
    (summary.has_closed_bins() && open > 0).then(|| {
        format!(
            "so far, the bins reach to {:.3} s; {} {} in bins that are still open, and only in the shares",
            summary.seconds,
            counted(open, "packet"),
            is(open)
        )
    })
}

/// A width of time: 10 ms.
fn time(ns: u64) -> String {
    match ns {
        _ if ns % 1_000_000_000 == 0 => format!("{} s", ns / 1_000_000_000),
        1_000_000.. => format!("{} ms", ns as f64 / 1e6),
        _ => format!("{} us", ns as f64 / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use wirecap::report::MemoryReport;
    use wirecap_profile::{BinSettings, Tally};

    use super::*;

    fn record(rss: Option<RssRecord>) -> ProfileRecord {
        let mut profiler = Profiler::new(4, BinSettings::new(10_000_000, 100_000_000));
        let mut tally = Tally::new(10_000_000);
        for bin in 0..1_000_u64 {
            let burst = if (386..397).contains(&bin) { 247 } else { 0 };
            for (queue, packets) in [(0, 80), (1, 20), (3, 20 + burst)] {
                (0..packets).for_each(|_| tally.count(bin * 10_000_000, queue));
            }
        }
        profiler.add(&tally, |_| {});
        profiler.close(|_| {});
        let name = |number| QueueName { port: "x.pcap".into(), kind: RowKind::Queue, number };
        ProfileRecord::new(&(0..4).map(name).collect::<Vec<_>>(), rss, &profiler, SpecialPackets::default())
    }

    fn rss(without_hash: u64) -> RssRecord {
        RssRecord { key: "microsoft".into(), fields: "ports".into(), entries: 128, without_hash }
    }

    fn report() -> Report {
        let (ports, workers, memory) = (Vec::new(), Vec::new(), MemoryReport::default());
        Report { seconds: 10.0, threshold_percent: None, ports, workers, memory }
    }

    #[test]
    fn advice_on_settings_is_for_what_the_rows_are() {
        let mut record = record(None);
        for (kind, advice) in [
            (RowKind::Queue, ", or another key or table (ethtool -X)"),
            (RowKind::Core, ""),
            (RowKind::Socket, ", or another --fanout"),
        ] {
            record.queues.iter_mut().for_each(|queue| queue.kind = kind);
            let said = long_term(&record).unwrap();
            assert!(said.ends_with(&format!("(-T) level it{advice}")), "{said}");
        }
    }

    #[test]
    fn the_summary_names_both_kinds_of_imbalance() {
        let text = describe(&record(Some(rss(0))), Duration::ZERO, &report());
        let expected = "
packets in bins of 10 ms, by the queues that RSS chooses (key microsoft, ports
    hashed, a table of 128):

queue  packets     %  mean  max  times   at s  in 100 ms  times   at s
    0    80000  65.2  80.0   80    1.0  0.000        800    1.0  0.000
    1    20000  16.3  20.0   20    1.0  0.000        200    1.0  0.000
    2        0   0.0   0.0    -      -      -          -      -      -
    3    22717  18.5  22.7  267   11.8  3.860       2670   11.8  3.860

long-term imbalance: queue 0 has 65.2 % of all packets, 2.6 times an even share;
    workers that help each other (-T) level it, or another key or table (ethtool
    -X)
short-term imbalance: queue 3 has 2670 packets within 100 ms at 3.860 s, 11.8
    times its mean; a pool of as many packets (-R x -M) holds them until a
    worker has time
";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn bursts_of_the_traffic_are_no_imbalance_and_unknown_times_no_finding() {
        let mut record = record(None);
        record.findings.bursts[0].along = 2;
        record.findings.short_term = ShortTerm::Even;
        assert_eq!(
            short_term(&record),
            [
                "bursts of the traffic: queue 3 has 2670 packets within 100 ms at 3.860 s, 11.8 times its mean, with bursts of \
                 2 of 2 other queues at the same time; a pool of as many packets (-R x -M) holds them until a worker has time",
                "no short-term imbalance: most other queues share every burst",
            ]
        );
        record.findings.short_term = ShortTerm::Unknown { in_no_bin: 13_000 };
        assert_eq!(
            short_term(&record),
            ["short-term imbalance is unknown: 13000 of 122717 packets are in no bin"]
        );
    }

    #[test]
    fn packets_without_a_hash_are_not_blamed_on_key_and_table() {
        // Queue 0 has 80,000 packets.
        for (without_hash, words) in [
            (
                80_000,
                "(-T) level it; 100.0 % of its packets have no hash (not IP), which no key or table changes",
            ),
            (40_001, "(-T) level it; 50.0 % of its packets have no hash"),
            (40_000, "(-T) level it, or another key or table (ethtool -X)"),
        ] {
            let line = long_term(&record(Some(rss(without_hash)))).unwrap();
            assert!(line.contains(words), "{line}");
        }
    }

    #[test]
    fn an_unfinished_profile_says_how_far_it_reaches() {
        let mut record = record(None);
        record.summary.in_open_bins = 7;
        let lines = caveats(&record, &report());
        assert_eq!(
            lines,
            [
                "so far, the bins reach to 10.000 s; 7 packets are in bins that are still open, and only in the shares"
            ]
        );
        let text = describe(&record, Duration::from_secs(90), &report());
        assert!(text.contains("\nthese figures are 1 min 30 s old; newer ones are in use"), "{text}");
        record.summary.first_ns = None;
        record.findings.short_term = ShortTerm::Unknown { in_no_bin: 0 };
        assert_eq!(caveats(&record, &report()), [""; 0]);
        assert!(short_term(&record)[0].starts_with("short-term imbalance is unknown: no bin is closed yet"));
    }

    #[test]
    fn what_is_missing_is_said() {
        let mut report = report();
        let mut port = wirecap::report::PortReport { dropped_before_xdp: 3, ..Default::default() };
        port.queues.push(wirecap::report::QueueReport { mode: QueueMode::Tap, ..Default::default() });
        report.ports.push(port);
        let mut record = record(None);
        record.queues[1].summary.late = 1;
        record.queues[0].summary.ahead = 2;
        (record.outgoing, record.untimed) = (2, 4);
        let lines = caveats(&record, &report);
        for (line, words) in lines.iter().zip([
            "3 packets were lost, as the account says, and are in no bin",
            "3 packets are in no bin, only in the shares",
            "the trace has no time for 4 packets: the bin of 1970 has them",
            "2 packets left the host and are not in the profile",
            "is profiled by core or socket, not by receive queue",
        ]) {
            assert!(line.contains(words), "{line}");
        }
        assert_eq!(lines.len(), 5);
    }
}
