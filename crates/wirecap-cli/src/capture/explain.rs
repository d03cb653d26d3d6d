//! What may explain a loss: settings of the machine, by a line that points to `wirecap doctor`, and one queue
//! that had most of the packets.
//!
//! ```text
//!   report ─┬─► causes of loss of a port ─► rules that may explain them ─┐
//!           │   interface ─► snapshot ─► findings ───────────────────────┴─► those that are both: a line
//!           └─► account ─► a skew between the queues: a line with what helps
//! ```
//!
//! Rule: only findings are named. Where the doctor finds nothing that may explain a loss, there is no line.

use wirecap::{
    Report,
    report::{PortReport, QueueMode},
};
use wirecap_doctor::{
    Evidence, Finding, LossCause, Rule, Snapshot, collect, examine,
    snapshot::{AccountSettings, CaptureMode, LostPackets, PortAccount, QueueAccount},
};

use crate::text::{
    doctor::{advice, evidence},
    loss::Losses,
    report::row,
};

/// Lines for each interface that lost packets and has such settings, or such a queue.
pub(super) fn pointers(report: &Report) -> Vec<String> {
    let lossy = report.ports.iter().filter(|port| Losses::of_port(port).total() > 0);
    lossy.flat_map(|port| pointer(port).into_iter().chain(skew(report, port))).collect()
}

fn pointer(port: &PortReport) -> Option<String> {
    let is_trace = port.queues.iter().all(|queue| queue.mode == QueueMode::Trace);
    // A port of some queues is called `eth1@0-3`.
    let interface = port.name.split('@').next().filter(|_| !is_trace && !port.removed)?;
    let snapshot = collect::snapshot([interface]).ok()?;
    let suspects = suspects(&Losses::of_port(port).causes_on_machine(), &examine(&snapshot));
    let names: Vec<_> = suspects.iter().map(|rule| rule.as_str()).collect();
    (!names.is_empty()).then(|| {
        let names = names.join(", ");
        format!("settings of this machine may explain the loss of {interface} ({names}): wirecap doctor {interface}")
    })
}

/// That one queue had most of the packets, and what helps; as the doctor says it of the account.
fn skew(report: &Report, port: &PortReport) -> Option<String> {
    // A tap has streams of cores: which core receives a packet is no setting of the interface alone.
    if row(port) != "queue" {
        return None;
    }
    let queues = port.queues.iter().filter(|queue| queue.mode != QueueMode::Host).map(|queue| {
        let lost = &queue.account.lost;
        let lost = LostPackets {
            no_free_cell: lost.no_free_cell,
            no_free_block: lost.no_free_block,
            rx_ring_full: lost.rx_ring_full,
            too_long: lost.too_long,
        };
        QueueAccount { queue: queue.queue.into(), seen: queue.account.seen, lost }
    });
    let account = PortAccount { name: port.name.clone(), queues: queues.collect(), ..PortAccount::default() };
    let mode = if report.threshold_percent.is_some() { CaptureMode::Advanced } else { CaptureMode::Basic };
    let account_settings = AccountSettings {
        mode: Some(mode),
        threshold_percent: report.threshold_percent,
        cells_per_chunk: Some(report.memory.cells_per_chunk),
        chunks_per_pool: Some(report.memory.chunks_per_pool),
        workers: u32::try_from(report.workers.len()).ok(),
    };
    let snapshot = Snapshot { account: vec![account], account_settings, ..Snapshot::default() };
    let findings = examine(&snapshot);
    let skews = |evidence: &&Evidence| matches!(evidence, Evidence::SkewedQueues { .. });
    let evidence = findings.iter().map(|finding| &finding.evidence).find(skews)?;
    Some(format!("{}; what helps: {}", evidence::describe(evidence), advice::remedy(evidence)))
}

/// The rules that have a finding and may explain one of the causes, each once, the likeliest first.
fn suspects(causes: &[LossCause], findings: &[Finding]) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    for rule in causes.iter().flat_map(|cause| cause.suspects()) {
        if findings.iter().any(|finding| finding.rule() == *rule) && !rules.contains(rule) {
            rules.push(*rule);
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use wirecap_doctor::{Evidence, Severity};

    use wirecap::{Capture, port::null::NullPort};

    use super::*;

    #[test]
    fn a_queue_that_had_most_of_the_packets_and_lost_some_is_named_with_what_helps() {
        let port = NullPort { queues: 4, packet_bytes: 60, packets_per_queue: 0 };
        let capture =
            Capture::builder().port(port).cells_per_chunk(64).chunks_per_pool(4).workers(2).open().unwrap();
        let mut report = capture.report();
        report.threshold_percent = Some(60);
        assert_eq!(skew(&report, &report.ports[0]), None);
        for (queue, seen) in report.ports[0].queues.iter_mut().zip([900, 50, 50, 0]) {
            queue.account.seen = seen;
        }
        assert_eq!(skew(&report, &report.ports[0]), None, "nothing was lost");
        report.ports[0].queues[0].account.lost.no_free_block = 640;
        let line = skew(&report, &report.ports[0]).unwrap();
        let words = "null lost packets in queue 0, which had 90 % of all, of 4 queues (advanced mode, T = 60, R = 4); \
                     what helps: larger pools: -R 14, instead of 4, has room for what was lost";
        assert!(line.starts_with(words), "{line}");
        report.threshold_percent = None;
        let line = skew(&report, &report.ports[0]).unwrap();
        assert!(line.contains("(basic mode, R = 4); what helps: advanced mode (-T 60)"), "{line}");
        report.ports[0].queues[1].account.seen = 900;
        assert_eq!(skew(&report, &report.ports[0]), None, "two queues had as much");
    }

    #[test]
    fn only_findings_that_may_explain_the_loss_are_named() {
        let finding =
            |evidence| Finding { interface: None, severity: Severity::Hint, evidence, changes: Vec::new() };
        let findings = [
            finding(Evidence::StealTime { percent: 5.0 }),
            finding(Evidence::RingSize { descriptors: 512, possible: 4096 }),
            finding(Evidence::ClockSynchronisation { source: None }),
        ];
        assert_eq!(suspects(&[LossCause::BeforeXdp], &findings), [Rule::RingSize, Rule::StealTime]);
        assert_eq!(suspects(&[LossCause::RingFull, LossCause::BeforeXdp], &findings).len(), 2, "each once");
        assert_eq!(suspects(&[LossCause::TooLong], &findings), []);
        assert_eq!(suspects(&[], &findings), []);
    }
}
