//! Settings of the kernel, and what it has counted.

use super::of_machine;
use crate::{
    finding::{Evidence, Finding, Severity},
    setting::{Change, Setting},
    snapshot::{Machine, Snapshot, Sysctl},
};

/// Enough for bursts; more lets one device keep others waiting.
const ENOUGH_BUDGET: u64 = 600;
const ENOUGH_BUDGET_USECS: u64 = 8000;
const ENOUGH_BACKLOG: u64 = 10_000;
/// Fewer rounds that end early than one in this number of packets are not reported.
const PACKETS_PER_SQUEEZE: u64 = 10_000;
/// Fewer dropped packets than one in this number are not reported.
const PACKETS_PER_DROP: u64 = 100_000;
/// Clocks that cost a system call, or an access to a device, for each reading.
const SLOW_CLOCKS: [&str; 6] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit", "xen"];
const TSC: &str = "tsc";

pub(super) fn examine(snapshot: &Snapshot) -> Vec<Finding> {
    let machine = &snapshot.machine;
    let rules = [interpreted, hardening, statistics, softirq, backlog, clock_source, synchronisation];
    let found = rules.iter().filter_map(|rule| rule(machine));
    let polls = [Sysctl::BusyRead, Sysctl::BusyPoll];
    found.chain(polls.into_iter().filter_map(|sysctl| busy_poll(machine, sysctl))).collect()
}

/// The change of a setting to another number.
fn set(machine: &Machine, name: Sysctl, to: u64) -> Option<Change> {
    let from = machine.sysctls.get(&name)?;
    Some(Change::text(Setting::Kernel { name }, from, to))
}

/// The change of a setting to at least this number.
fn raise(machine: &Machine, name: Sysctl, to: u64) -> Option<Change> {
    if machine.number(name)? < to { set(machine, name, to) } else { None }
}

fn interpreted(machine: &Machine) -> Option<Finding> {
    let sysctl = Sysctl::BpfJit;
    (machine.number(sysctl)? == 0).then(|| {
        let changes = Vec::from_iter(set(machine, sysctl, 1));
        of_machine(Severity::Warning, Evidence::BpfInterpreted { sysctl }, changes)
    })
}

fn hardening(machine: &Machine) -> Option<Finding> {
    let sysctl = Sysctl::BpfJitHarden;
    (machine.number(sysctl)? == 2).then(|| {
        let changes = Vec::from_iter(set(machine, sysctl, 1));
        of_machine(Severity::Warning, Evidence::BpfHardening { sysctl }, changes)
    })
}

fn statistics(machine: &Machine) -> Option<Finding> {
    let sysctl = Sysctl::BpfStatistics;
    (machine.number(sysctl)? != 0).then(|| {
        let changes = Vec::from_iter(set(machine, sysctl, 0));
        of_machine(Severity::Hint, Evidence::BpfStatistics { sysctl }, changes)
    })
}

fn busy_poll(machine: &Machine, sysctl: Sysctl) -> Option<Finding> {
    let usecs = machine.number(sysctl).filter(|usecs| *usecs > 0)?;
    let changes = Vec::from_iter(set(machine, sysctl, 0));
    Some(of_machine(Severity::Hint, Evidence::BusyPoll { sysctl, usecs }, changes))
}

fn softirq(machine: &Machine) -> Option<Finding> {
    let softirq = machine.softirq?;
    let (squeezed, processed) = (softirq.squeezed, softirq.processed);
    let budget = machine.number(Sysctl::NetdevBudget);
    let raised = [(Sysctl::NetdevBudget, ENOUGH_BUDGET), (Sysctl::NetdevBudgetUsecs, ENOUGH_BUDGET_USECS)];
    let changes: Vec<_> = raised.into_iter().filter_map(|(name, to)| raise(machine, name, to)).collect();
    // Rounds end early now and then; where the budget is raised, they were counted before, or nothing helps.
    let is_much = squeezed > processed / PACKETS_PER_SQUEEZE && squeezed > 100;
    (is_much && (budget.is_none() || !changes.is_empty())).then(|| {
        let evidence = Evidence::SoftirqBudget { squeezed, processed, budget };
        of_machine(Severity::Hint, evidence, changes)
    })
}

fn backlog(machine: &Machine) -> Option<Finding> {
    let softirq = machine.softirq?;
    let (dropped, processed) = (softirq.dropped, softirq.processed);
    let limit = machine.number(Sysctl::NetdevMaxBacklog);
    let changes = Vec::from_iter(raise(machine, Sysctl::NetdevMaxBacklog, ENOUGH_BACKLOG));
    let is_much = dropped > processed / PACKETS_PER_DROP;
    (is_much && (limit.is_none() || !changes.is_empty())).then(|| {
        let evidence = Evidence::Backlog { dropped, processed, limit };
        of_machine(Severity::Warning, evidence, changes)
    })
}

fn clock_source(machine: &Machine) -> Option<Finding> {
    let source = machine.clock.source.clone()?;
    let faster = machine.clock.available.iter().find(|clock| *clock == TSC).cloned();
    SLOW_CLOCKS
        .contains(&source.as_str())
        .then(|| of_machine(Severity::Warning, Evidence::ClockSource { source, faster }, Vec::new()))
}

fn synchronisation(machine: &Machine) -> Option<Finding> {
    let source = machine.clock.source.clone();
    (machine.clock.synchronised == Some(false))
        .then(|| of_machine(Severity::Hint, Evidence::ClockSynchronisation { source }, Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        finding::Rule,
        rules::tuned_tests::{found_after, found_in},
        setting::Value,
        snapshot::Softirq,
    };

    #[test]
    fn settings_of_the_kernel_are_found_and_set_back() {
        for (sysctl, value, rule, wanted) in [
            (Sysctl::BpfJit, "0", Rule::BpfInterpreted, "1"),
            (Sysctl::BpfJitHarden, "2", Rule::BpfHardening, "1"),
            (Sysctl::BpfStatistics, "1", Rule::BpfStatistics, "0"),
            (Sysctl::BusyPoll, "50", Rule::BusyPoll, "0"),
            (Sysctl::BusyRead, "50", Rule::BusyPoll, "0"),
        ] {
            let findings = found_after(|snapshot| {
                snapshot.machine.sysctls.insert(sysctl, value.into());
            });
            assert_eq!((findings.len(), findings[0].rule()), (1, rule), "{sysctl}");
            let change = &findings[0].changes[0];
            assert_eq!((&change.from, &change.to), (&Value::Text(value.into()), &Value::Text(wanted.into())));
            let unknown = found_in(|snapshot| _ = snapshot.machine.sysctls.remove(&sysctl));
            assert_eq!(unknown, [], "{sysctl}");
        }
        let hardened = found_in(|snapshot| {
            snapshot.machine.sysctls.insert(Sysctl::BpfJitHarden, "1".into());
        });
        assert_eq!(hardened, [], "1 hides the constants of users only");
    }

    #[test]
    fn counts_of_the_kernel_need_a_cause_that_can_be_changed() {
        let with = |softirq, budget: &str, backlog: &str| {
            found_after(|snapshot| {
                let machine = &mut snapshot.machine;
                machine.softirq = Some(softirq);
                machine.sysctls.insert(Sysctl::NetdevBudget, budget.into());
                machine.sysctls.insert(Sysctl::NetdevMaxBacklog, backlog.into());
            })
        };
        let much = Softirq { processed: 1_000_000, dropped: 500, squeezed: 4_000 };
        let findings = with(much, "300", "1000");
        let rules: Vec<_> = findings.iter().map(|finding| finding.rule()).collect();
        assert_eq!(rules, [Rule::Backlog, Rule::SoftirqBudget]);
        assert_eq!(findings[1].changes.len(), 1, "the time is long enough");
        assert_eq!(with(much, "600", "10000"), []);
        assert_eq!(with(Softirq { processed: 1_000_000, dropped: 10, squeezed: 100 }, "300", "1000"), []);
    }

    #[test]
    fn slow_and_free_running_clocks_are_found() {
        let with = |source: &str| {
            found_after(|snapshot| {
                snapshot.machine.clock.source = Some(source.into());
                snapshot.machine.clock.available = vec!["tsc".into(), source.into()];
            })
        };
        let expected = Evidence::ClockSource { source: "hpet".into(), faster: Some("tsc".into()) };
        assert_eq!(with("hpet")[0].evidence, expected);
        assert_eq!((with("kvm-clock"), with("tsc")), (Vec::new(), Vec::new()));
        let with = |synchronised| found_in(|snapshot| snapshot.machine.clock.synchronised = synchronised);
        assert_eq!(with(Some(false)), [Rule::ClockSynchronisation]);
        assert_eq!(with(None), []);
    }
}
