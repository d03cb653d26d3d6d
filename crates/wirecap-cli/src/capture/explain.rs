//! Settings of the machine that may explain a loss: a line that points to `wirecap doctor`.
//!
//! ```text
//!   report ─► causes of loss of a port ─► rules that may explain them ─┐
//!   interface ─► snapshot ─► findings ─────────────────────────────────┴─► those that are both
//! ```
//!
//! Rule: only findings are named. Where the doctor finds nothing that may explain a loss, there is no line.

use wirecap::{
    Report,
    report::{PortReport, QueueMode},
};
use wirecap_doctor::{Finding, LossCause, Rule, collect, examine};

use crate::text::loss::Losses;

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

    use super::*;

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
