//! What may explain a loss: settings of the machine, by a line that points to `wirecap doctor`, and a queue
//! that had most of the packets, by one that says what may help.
//!
//! ```text
//!   report ─┬─► causes of loss of a port ─► rules that may explain them ─┐
//!           │   interface ─► snapshot ─► findings ───────────────────────┴─► those that are both
//!           └─► account ─► findings ─► skewed queues
//! ```
//!
//! Rule: only findings are named. Where the doctor finds nothing that may explain a loss, there is no line.

use wirecap::{
    LossCounts, Report,
    report::{PortReport, QueueMode},
};
use wirecap_doctor::{
    Evidence, Finding, LossCause, Rule, Snapshot, collect, examine,
    snapshot::{AccountSettings, CaptureMode, LostPackets, PortAccount, QueueAccount},
};

use crate::text::{
    doctor::{advice, evidence},
    loss::Losses,
};

/// A line for each interface that lost packets and has such settings.
pub(super) fn pointers(report: &Report) -> Vec<String> {
    let lossy = report.ports.iter().filter(|port| Losses::of_port(port).total() > 0);
    lossy.filter_map(pointer).collect()
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

/// A line for each interface that lost packets of a queue which had most of them: the finding of
/// `wirecap doctor --account`, with its remedy.
pub(super) fn skews(report: &Report) -> Vec<String> {
    let account = report.ports.iter().map(account).collect();
    let findings = examine(&Snapshot { account, account_settings: settings(report), ..Snapshot::default() });
    let line = |finding: &Finding| match &finding.evidence {
        skewed @ Evidence::SkewedQueues { .. } => {
            Some(format!("{}; what may help: {}", evidence::describe(skewed), advice::remedy(skewed)))
        }
        _ => None,
    };
    findings.iter().filter_map(line).collect()
}

fn account(port: &PortReport) -> PortAccount {
    let captured = port.queues.iter().filter(|queue| queue.mode != QueueMode::Host);
    let queues = captured.map(|queue| {
        let LossCounts { no_free_cell, no_free_block, rx_ring_full, too_long, .. } = queue.account.lost;
        let lost = LostPackets { no_free_cell, no_free_block, rx_ring_full, too_long };
        QueueAccount { queue: queue.queue.into(), seen: queue.account.seen, lost }
    });
    PortAccount {
        name: port.name.clone(),
        is_passive: port.is_passive(),
        queues: queues.collect(),
        ..PortAccount::default()
    }
}

fn settings(report: &Report) -> AccountSettings {
    AccountSettings {
        mode: Some(CaptureMode::with_threshold(report.threshold_percent)),
        threshold_percent: report.threshold_percent,
        chunks_per_pool: Some(report.memory.chunks_per_pool),
        workers: u32::try_from(report.workers.len()).ok(),
    }
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
    use wirecap::{Capture, port::null::NullPort};
    use wirecap_doctor::Severity;

    use super::*;

    #[test]
    fn a_queue_that_had_most_of_the_packets_and_lost_some_is_named_with_what_helps() {
        let port = NullPort { queues: 4, packet_bytes: 60, packets_per_queue: 0 };
        let capture = Capture::builder().port(port).cells_per_chunk(64).chunks_per_pool(4).workers(2);
        let mut report = capture.open().unwrap().report();
        report.threshold_percent = Some(60);
        for (queue, seen) in report.ports[0].queues.iter_mut().zip([900, 50, 50, 0]) {
            queue.account.seen = seen;
        }
        assert_eq!(skews(&report), [""; 0], "nothing was lost");
        report.ports[0].queues[0].account.lost.no_free_block = 640;
        let [line] = &skews(&report)[..] else { panic!() };
        let words = "null lost packets in queue 0, which had 90 % of all, of 4 queues (advanced mode, T = 60, R = 4); \
                     what may help: against bursts, larger pools: twice the -R of 4";
        assert!(line.starts_with(words), "{line}");

        let with = |change: &dyn Fn(&mut Report)| {
            let mut changed = report.clone();
            change(&mut changed);
            skews(&changed)
        };
        let basic = with(&|report| report.threshold_percent = None);
        assert!(basic[0].contains("(basic mode, R = 4); what may help: against bursts, larger"), "{basic:?}");
        assert_eq!(with(&|report| report.ports[0].queues[1].account.seen = 900), [""; 0], "two have as many");
        let added = |report: &mut Report| {
            report.ports[0].queues[1..].iter_mut().for_each(|queue| queue.mode = QueueMode::Host);
        };
        assert_eq!(with(&added), [""; 0], "the others were added after the start");
        for mode in [QueueMode::Tap, QueueMode::Packet] {
            let passive =
                |report: &mut Report| report.ports[0].queues.iter_mut().for_each(|queue| queue.mode = mode);
            assert_eq!(with(&passive), [""; 0], "{mode:?}");
        }
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
