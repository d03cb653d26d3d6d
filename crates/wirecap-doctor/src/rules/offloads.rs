//! Offloads that change packets before they are captured, and flow control.

use wirecap_sys::netdev::PauseFrames;

use super::of;
use crate::{
    finding::{Evidence, Finding, Severity},
    setting::{Change, Setting, Value},
    snapshot::{Interface, Snapshot},
};

const LRO: &str = "rx-lro";
const HARDWARE_GRO: &str = "rx-gro-hw";
const VLAN_STRIPPING: &str = "rx-vlan-hw-parse";

pub(super) fn examine(_: &Snapshot, interface: &Interface) -> Vec<Finding> {
    let lro = offload(interface, LRO, Severity::Warning, |offload| Evidence::Lro { offload });
    let gro =
        offload(interface, HARDWARE_GRO, Severity::Warning, |offload| Evidence::HardwareGro { offload });
    let hands_tags = interface.xdp.is_some_and(|xdp| xdp.vlan_tags);
    let vlan = (!hands_tags && is_nic(interface)).then(|| {
        offload(interface, VLAN_STRIPPING, Severity::Warning, |offload| Evidence::VlanStripping { offload })
    });
    [lro, gro, vlan.flatten(), pause(interface)].into_iter().flatten().collect()
}

/// Whether packets come from outside this machine by the interface itself. A virtual device hands tags on
/// beside the packet, whatever its setting, and that of a bond or team does not reach its members.
fn is_nic(interface: &Interface) -> bool {
    const VIRTUAL: [&str; 6] = ["veth", "tun", "bridge", "dummy", "bonding", "team"];
    interface.driver.as_deref().is_some_and(|driver| !VIRTUAL.contains(&driver))
}

fn offload(
    interface: &Interface,
    name: &str,
    severity: Severity,
    evidence: impl FnOnce(String) -> Evidence,
) -> Option<Finding> {
    let offload = interface.offload(name).filter(|offload| offload.active)?;
    let change = Change {
        setting: Setting::Offload { interface: interface.name.clone(), name: name.into() },
        from: Value::Switch(true),
        to: Value::Switch(false),
    };
    let changes = if offload.changeable { vec![change] } else { Vec::new() };
    Some(of(interface, severity, evidence(name.into()), changes))
}

fn pause(interface: &Interface) -> Option<Finding> {
    let now = interface.pause.filter(|pause| pause.tx != 0)?;
    let change = Change {
        setting: Setting::Pause { interface: interface.name.clone() },
        from: Value::Pause(now),
        to: Value::Pause(PauseFrames { autoneg: 0, rx: now.rx, tx: 0 }),
    };
    let evidence = Evidence::PauseFrames { negotiated: now.autoneg != 0 };
    Some(of(interface, Severity::Hint, evidence, vec![change]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{finding::Rule, rules::tuned_tests::found_after};

    fn switched_on(name: &str, changeable: bool) -> Vec<Finding> {
        found_after(|snapshot| {
            let offload = snapshot.interfaces[0].offloads.iter_mut().find(|offload| offload.name == name);
            let offload = offload.unwrap();
            (offload.active, offload.changeable) = (true, changeable);
        })
    }

    #[test]
    fn each_offload_that_changes_packets_is_found_and_switched_off_if_that_is_possible() {
        for (name, rule) in
            [(LRO, Rule::Lro), (HARDWARE_GRO, Rule::HardwareGro), (VLAN_STRIPPING, Rule::VlanStripping)]
        {
            let findings = switched_on(name, true);
            assert_eq!((findings.len(), findings[0].rule()), (1, rule));
            assert_eq!(findings[0].changes[0].to, Value::Switch(false), "{name}");
            assert_eq!(switched_on(name, false)[0].changes, [], "{name}: fixed");
        }
        assert_eq!(switched_on("rx-gro", true), [], "software GRO comes after XDP");
    }

    #[test]
    fn tags_that_the_driver_hands_over_are_not_missing() {
        let findings = found_after(|snapshot| {
            let interface = &mut snapshot.interfaces[0];
            interface.offloads.iter_mut().for_each(|offload| offload.active = offload.name == VLAN_STRIPPING);
            interface.xdp.as_mut().unwrap().vlan_tags = true;
        });
        assert_eq!(findings, []);
        let findings = found_after(|snapshot| {
            let interface = &mut snapshot.interfaces[0];
            interface.offloads.iter_mut().for_each(|offload| offload.active = offload.name == VLAN_STRIPPING);
            interface.driver = Some("veth".into());
        });
        assert!(findings.iter().all(|finding| finding.rule() != Rule::VlanStripping), "{findings:?}");
    }

    #[test]
    fn pause_frames_count_if_they_are_sent() {
        let with = |pause| found_after(|snapshot| snapshot.interfaces[0].pause = Some(pause));
        let findings = with(PauseFrames { autoneg: 1, rx: 1, tx: 1 });
        assert_eq!(findings[0].evidence, Evidence::PauseFrames { negotiated: true });
        assert_eq!(findings[0].changes[0].to, Value::Pause(PauseFrames { autoneg: 0, rx: 1, tx: 0 }));
        assert_eq!(with(PauseFrames { autoneg: 1, rx: 1, tx: 0 }), []);
    }
}
