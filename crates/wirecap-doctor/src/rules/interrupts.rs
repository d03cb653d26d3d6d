//! Which processors serve the interrupts of receive queues.

use std::collections::BTreeMap;

use super::{of, of_machine as of_the_machine};
use crate::{
    finding::{Evidence, Finding, Severity},
    setting::{Change, Setting},
    snapshot::{Cpus, Interface, Interrupt, Snapshot},
};

pub(super) fn examine(snapshot: &Snapshot, interface: &Interface) -> Vec<Finding> {
    let cpus = &snapshot.machine.cpus;
    let interrupts: Vec<_> = of_queues(interface).collect();
    let local = local_cpus(cpus, interface);
    let free = free_cpus(cpus, &interrupts, &local);
    let found = [sharing(interface, &interrupts, &free), node(interface, &interrupts, cpus, &local, &free)];
    found.into_iter().flatten().collect()
}

fn of_queues(interface: &Interface) -> impl Iterator<Item = &Interrupt> {
    interface.interrupts.iter().filter(|interrupt| interrupt.is_of_receive_queue())
}

/// The processors near the NIC; all, if it is near none.
fn local_cpus(cpus: &Cpus, interface: &Interface) -> Vec<u32> {
    let near = interface.numa_node.and_then(|node| cpus.nodes.get(&node)).filter(|near| !near.is_empty());
    let is_online = |cpu: &&u32| cpus.online.contains(cpu);
    near.unwrap_or(&cpus.online).iter().filter(is_online).copied().collect()
}

/// Those of them that may serve interrupts. Isolated ones are kept for something else, and an interrupt would
/// disturb it, unless interrupts of the NIC were put there already.
fn free_cpus(cpus: &Cpus, interrupts: &[&Interrupt], local: &[u32]) -> Vec<u32> {
    let is_isolated = |cpu: &u32| cpus.isolated.contains(cpu);
    // One that may go to any processor was not put anywhere.
    let put = interrupts.iter().filter(|interrupt| interrupt.cpus.iter().all(is_isolated));
    let meant: Vec<_> = put.flat_map(|interrupt| &interrupt.cpus).collect();
    local.iter().filter(|cpu| !is_isolated(cpu) || meant.contains(cpu)).copied().collect()
}

fn sharing(interface: &Interface, interrupts: &[&Interrupt], free: &[u32]) -> Option<Finding> {
    let mut served: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for interrupt in interrupts {
        // One that may go to several goes to the first that takes it.
        if let [cpu] = interrupt.cpus[..] {
            served.entry(cpu).or_default().push(interrupt.number);
        }
    }
    let idle_cpus: Vec<_> = free.iter().filter(|cpu| !served.contains_key(cpu)).copied().collect();
    let (cpu, interrupts_of_it) = served.into_iter().max_by_key(|(_, interrupts)| interrupts.len())?;
    (interrupts_of_it.len() > 1 && !idle_cpus.is_empty()).then(|| {
        let evidence = Evidence::InterruptSharing { cpu, interrupts: interrupts_of_it, idle_cpus };
        of(interface, Severity::Warning, evidence, spread(interrupts, free))
    })
}

fn node(
    interface: &Interface,
    interrupts: &[&Interrupt],
    cpus: &Cpus,
    local: &[u32],
    free: &[u32],
) -> Option<Finding> {
    let node = interface.numa_node.filter(|_| cpus.nodes.len() > 1)?;
    let is_far = |interrupt: &&&Interrupt| {
        !interrupt.cpus.is_empty() && interrupt.cpus.iter().all(|cpu| !local.contains(cpu))
    };
    let far: Vec<_> = interrupts.iter().filter(is_far).map(|interrupt| interrupt.number).collect();
    (!far.is_empty()).then(|| {
        let evidence = Evidence::InterruptNode { node, interrupts: far };
        of(interface, Severity::Warning, evidence, spread(interrupts, free))
    })
}

/// The changes that give each interrupt a processor of its own, as far as there are enough.
fn spread(interrupts: &[&Interrupt], cpus: &[u32]) -> Vec<Change> {
    let wanted = interrupts.iter().zip(cpus.iter().cycle());
    let change = |(interrupt, cpu): (&&Interrupt, &u32)| {
        let mask = mask_of(*cpu, &interrupt.mask)?;
        let setting = Setting::InterruptMask { number: interrupt.number };
        (mask != interrupt.mask).then(|| Change::text(setting, &interrupt.mask, mask))
    };
    wanted.filter_map(change).collect()
}

/// The mask of one processor, as long as another mask; `None` if that has no digit for it.
fn mask_of(cpu: u32, like: &str) -> Option<String> {
    let digits = like.bytes().filter(|byte| *byte != b',').count();
    let from_left = digits.checked_sub(1 + cpu as usize / 4)?;
    let mut position = 0;
    let mask = like.chars().map(|letter| {
        if letter == ',' {
            return letter;
        }
        position += 1;
        if position - 1 == from_left { char::from(b"1248"[cpu as usize % 4]) } else { '0' }
    });
    Some(mask.collect())
}

/// Rules about the whole machine.
pub(super) fn of_machine(snapshot: &Snapshot) -> Vec<Finding> {
    let interrupts = snapshot.interfaces.iter().flat_map(of_queues).count() as u32;
    let runs = snapshot.machine.irqbalance == Some(true) && interrupts > 0;
    let evidence = Evidence::Irqbalance { interrupts };
    Vec::from_iter(runs.then(|| of_the_machine(Severity::Hint, evidence, Vec::new())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        finding::Rule,
        rules::tuned_tests::{found_after, found_in},
        setting::Value,
    };

    #[test]
    fn masks_have_the_shape_of_the_old_one() {
        for (cpu, like, expected) in [
            (0, "3", "1"),
            (1, "3", "2"),
            (3, "ff", "08"),
            (5, "ff", "20"),
            (33, "ffff,ffffffff", "0002,00000000"),
        ] {
            assert_eq!(mask_of(cpu, like).as_deref(), Some(expected), "{cpu} like {like}");
        }
        assert_eq!((mask_of(4, "f"), mask_of(0, "")), (None, None));
    }

    #[test]
    fn interrupts_that_share_a_processor_are_spread_over_those_near_the_nic() {
        let findings = found_after(|snapshot| {
            snapshot.machine.cpus.isolated.clear();
            let interrupts = &mut snapshot.interfaces[0].interrupts;
            interrupts.iter_mut().for_each(|interrupt| {
                (interrupt.cpus, interrupt.mask) = (vec![2], "0004".into());
            });
        });
        let Evidence::InterruptSharing { cpu, interrupts, idle_cpus } = &findings[0].evidence else {
            panic!("{findings:?}")
        };
        assert_eq!((*cpu, interrupts.len(), idle_cpus), (2, 8, &vec![0, 1, 3, 4, 5, 6, 7]));
        let masks: Vec<_> = findings[0].changes.iter().map(|change| change.to.clone()).collect();
        // The third stays where it is.
        let text = |mask: &str| Value::Text(mask.into());
        assert_eq!((masks.len(), &masks[0], &masks[6]), (7, &text("0001"), &text("0080")));
        // If a processor has two because there are not enough, nothing is idle.
        let findings = found_in(|snapshot| {
            let cpus = &mut snapshot.machine.cpus;
            cpus.isolated.clear();
            cpus.nodes.insert(0, vec![0, 1]);
            let interrupts = &mut snapshot.interfaces[0].interrupts;
            for (index, interrupt) in interrupts.iter_mut().enumerate() {
                interrupt.cpus = vec![index as u32 % 2];
            }
        });
        assert_eq!(findings, []);
    }

    #[test]
    fn interrupts_are_not_moved_to_isolated_processors() {
        let masks = |findings: &[Finding]| -> Vec<Value> {
            findings[0].changes.iter().map(|change| change.to.clone()).collect()
        };
        let on = |interrupt: &mut Interrupt, cpu: u32| {
            (interrupt.cpus, interrupt.mask) = (vec![cpu], format!("{:04x}", 1 << cpu));
        };
        let isolated = [Value::Text("0040".into()), Value::Text("0080".into())];
        // All share one: 6 and 7 are isolated.
        let findings = found_after(|snapshot| {
            snapshot.interfaces[0].interrupts.iter_mut().for_each(|interrupt| on(interrupt, 2));
        });
        let Evidence::InterruptSharing { idle_cpus, .. } = &findings[0].evidence else {
            panic!("{findings:?}")
        };
        assert_eq!(idle_cpus, &[0, 1, 3, 4, 5]);
        assert!(!masks(&findings).iter().any(|mask| isolated.contains(mask)), "{findings:?}");
        // Nor are those of another node, nor those that may go anywhere.
        let findings = found_after(|snapshot| {
            let interrupts = &mut snapshot.interfaces[0].interrupts;
            interrupts.iter_mut().for_each(|interrupt| interrupt.cpus = (0..16).collect());
            interrupts.iter_mut().for_each(|interrupt| interrupt.mask = "ffff".into());
            on(&mut interrupts[6], 12);
        });
        assert!(matches!(findings[0].evidence, Evidence::InterruptNode { .. }), "{findings:?}");
        assert!(!masks(&findings).iter().any(|mask| isolated.contains(mask)), "{findings:?}");
        // Where one is isolated for interrupts, it may have them.
        let findings = found_after(|snapshot| {
            snapshot.interfaces[0].interrupts.iter_mut().for_each(|interrupt| on(interrupt, 6));
        });
        assert!(masks(&findings).contains(&Value::Text("0001".into())));
    }

    #[test]
    fn interrupts_of_another_node_are_found() {
        let findings = found_after(|snapshot| {
            snapshot.interfaces[0].interrupts[3].cpus = vec![12];
            snapshot.interfaces[0].interrupts[3].mask = "1000".into();
        });
        assert_eq!(findings[0].evidence, Evidence::InterruptNode { node: 0, interrupts: vec![103] });
        assert_eq!(findings[0].changes[0].to, Value::Text("0008".into()));
        let findings = found_in(|snapshot| {
            snapshot.interfaces[0].interrupts[3].cpus = vec![12];
            snapshot.interfaces[0].numa_node = None;
        });
        assert_eq!(findings, [], "the NIC is near no node");
    }

    #[test]
    fn a_daemon_that_moves_interrupts_counts_if_there_are_any() {
        assert_eq!(found_in(|snapshot| snapshot.machine.irqbalance = Some(true)), [Rule::Irqbalance]);
        let findings = found_in(|snapshot| {
            snapshot.machine.irqbalance = Some(true);
            snapshot.interfaces[0].interrupts.clear();
        });
        assert_eq!(findings, []);
    }
}
