//! Processors: how fast they are when a packet comes.

use super::of_machine;
use crate::{
    finding::{Evidence, Finding, Severity},
    setting::{Change, Setting},
    snapshot::{Cpus, Snapshot},
};

/// A state that takes longer to leave than this costs packets: at 10 Gbit/s some 750 of the shortest come.
const LONG_LATENCY_US: u32 = 50;
/// Percent of the time from which on a hypervisor is in the way.
const MUCH_STEAL: f64 = 1.0;
const PERFORMANCE: &str = "performance";

pub(super) fn examine(snapshot: &Snapshot) -> Vec<Finding> {
    let cpus = &snapshot.machine.cpus;
    [governor(cpus), idle_states(cpus), steal(cpus), isolated(snapshot)].into_iter().flatten().collect()
}

fn governor(cpus: &Cpus) -> Option<Finding> {
    let slow: Vec<_> = cpus.governors.iter().filter(|(_, name)| *name != PERFORMANCE).collect();
    let (_, governor) = slow.first()?;
    let change =
        |(cpu, name): &(&u32, &String)| Change::text(Setting::Governor { cpu: **cpu }, name, PERFORMANCE);
    let evidence = Evidence::Governor {
        governor: (*governor).clone(),
        cpus: slow.iter().map(|(cpu, _)| **cpu).collect(),
    };
    Some(of_machine(Severity::Hint, evidence, slow.iter().map(change).collect()))
}

fn idle_states(cpus: &Cpus) -> Option<Finding> {
    let is_slow = |latency: u32| latency > LONG_LATENCY_US;
    let slow: Vec<_> =
        cpus.idle_states.iter().filter(|state| state.enabled && is_slow(state.latency_us)).collect();
    let slowest = slow.iter().max_by_key(|state| state.latency_us)?;
    let mut numbers: Vec<_> = slow.iter().map(|state| state.cpu).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let change = |state: &&crate::snapshot::IdleState| {
        Change::text(Setting::IdleState { cpu: state.cpu, state: state.state }, 0, 1)
    };
    let evidence =
        Evidence::IdleStates { name: slowest.name.clone(), latency_us: slowest.latency_us, cpus: numbers };
    Some(of_machine(Severity::Hint, evidence, slow.iter().map(change).collect()))
}

fn steal(cpus: &Cpus) -> Option<Finding> {
    let percent = cpus.steal_percent.filter(|percent| *percent > MUCH_STEAL)?;
    Some(of_machine(Severity::Warning, Evidence::StealTime { percent }, Vec::new()))
}

fn isolated(snapshot: &Snapshot) -> Option<Finding> {
    let cpus = &snapshot.machine.cpus;
    let node = snapshot.interfaces.iter().find_map(|interface| interface.numa_node)?;
    let near = cpus.nodes.get(&node)?;
    let isolated = cpus.isolated.clone();
    let is_far = !isolated.is_empty() && isolated.iter().all(|cpu| !near.contains(cpu));
    is_far.then(|| of_machine(Severity::Hint, Evidence::IsolatedCores { node, isolated }, Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        finding::Rule,
        rules::tuned_tests::{found_after, found_in},
        setting::Value,
        snapshot::IdleState,
    };

    #[test]
    fn processors_that_save_power_are_found() {
        let findings = found_after(|snapshot| {
            snapshot.machine.cpus.governors.insert(5, "powersave".into());
        });
        assert_eq!(findings[0].evidence, Evidence::Governor { governor: "powersave".into(), cpus: vec![5] });
        assert_eq!(findings[0].changes[0].to, Value::Text("performance".into()));
        let with = |latency_us, enabled| {
            found_after(|snapshot| {
                let state = IdleState { cpu: 3, state: 4, name: "C6".into(), latency_us, enabled };
                snapshot.machine.cpus.idle_states.push(state);
            })
        };
        let expected = Evidence::IdleStates { name: "C6".into(), latency_us: 133, cpus: vec![3] };
        assert_eq!(with(133, true)[0].evidence, expected);
        assert_eq!(with(133, true)[0].changes[0].setting, Setting::IdleState { cpu: 3, state: 4 });
        assert_eq!((with(133, false), with(50, true)), (Vec::new(), Vec::new()));
    }

    #[test]
    fn time_for_others_counts_from_one_percent() {
        let with = |percent| found_in(|snapshot| snapshot.machine.cpus.steal_percent = Some(percent));
        assert_eq!((with(1.5), with(0.4)), (vec![Rule::StealTime], vec![]));
    }

    #[test]
    fn isolated_cores_help_if_one_is_near_the_nic() {
        let with = |isolated: &[u32]| found_in(|snapshot| snapshot.machine.cpus.isolated = isolated.to_vec());
        assert_eq!((with(&[12, 13]), with(&[7, 12])), (vec![Rule::IsolatedCores], vec![]));
    }
}
