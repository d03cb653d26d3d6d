//! What prevents capture by XDP, or slows it down: the driver, the kernel, the MTU, other programs.

use super::{is_veth, of, queues};
use crate::{
    finding::{DriverDefect, Evidence, Finding, Severity},
    snapshot::{Interface, KernelVersion, Snapshot},
};

/// About the longest packet that a driver without packets of several buffers takes with an XDP program: a
/// page, less what XDP and the kernel keep of it.
const MAX_MTU_OF_A_PAGE: u32 = 3498;
/// Bytes of a cell before a frame.
const HEAD_ROOM_BYTES: u32 = 256;
/// An Ethernet header, and one VLAN tag.
const HEADER_BYTES: u32 = 14 + 4;
const KIB: u32 = 1024;
/// Drivers that use whole KiB of a cell in zero-copy.
const ROOM_IN_KIB: [&str; 3] = ["igb", "igc", "ixgbe"];
const VIRTIO: &str = "virtio_net";

/// Drivers that got zero-copy after the oldest kernel that wirecap runs on.
const ZERO_COPY_SINCE: [(&str, KernelVersion); 6] = [
    ("nfp", KernelVersion::new(5, 18)),
    ("fsl_dpaa2_eth", KernelVersion::new(6, 2)),
    ("gve", KernelVersion::new(6, 4)),
    ("tsnep", KernelVersion::new(6, 4)),
    (VIRTIO, KernelVersion::new(6, 13)),
    ("igb", KernelVersion::new(6, 14)),
];

/// Defects: the driver, and the first kernel without it.
const DEFECTS: [(&str, DriverDefect, KernelVersion); 1] =
    [("ice", DriverDefect::IceQueueRestart, KernelVersion::new(6, 11))];

pub(super) fn examine(snapshot: &Snapshot, interface: &Interface) -> Vec<Finding> {
    let rules = [mtu_beyond_xdp, mtu_beyond_cell, generic, zero_copy_kernel, zero_copy_cells, virtio, defect];
    let found = rules.iter().filter_map(|rule| {
        let (severity, evidence) = rule(snapshot, interface)?;
        Some(of(interface, severity, evidence, Vec::new()))
    });
    found.chain(veth_queues(interface)).chain(other_programs(interface)).collect()
}

/// What a rule found, if it did.
type Found = Option<(Severity, Evidence)>;

fn mtu_beyond_xdp(_: &Snapshot, interface: &Interface) -> Found {
    let (mtu, limit) = (interface.mtu, MAX_MTU_OF_A_PAGE);
    let xdp = interface.xdp.filter(|xdp| xdp.native && !xdp.multi_buffer)?;
    (mtu > limit && !xdp.multi_buffer).then_some((Severity::Problem, Evidence::MtuBeyondXdp { mtu, limit }))
}

fn mtu_beyond_cell(snapshot: &Snapshot, interface: &Interface) -> Found {
    let xdp = interface.xdp.filter(|xdp| xdp.zero_copy)?;
    let spans_cells = xdp.multi_buffer && xdp.zero_copy_max_segments.is_none_or(|segments| segments > 1);
    let (mtu, cell_bytes, room) = (interface.mtu, snapshot.cell_bytes, room(snapshot));
    (!spans_cells && mtu + HEADER_BYTES > room)
        .then_some((Severity::Problem, Evidence::MtuBeyondCell { mtu, cell_bytes, room }))
}

fn room(snapshot: &Snapshot) -> u32 {
    snapshot.cell_bytes.saturating_sub(HEAD_ROOM_BYTES)
}

/// Drivers that run a program on other interfaces, their members, though the kernel calls that native.
pub const ON_MEMBERS: [&str; 2] = ["bonding", "hv_netvsc"];

/// Of veth, [`veth_queues`] knows the reason.
fn generic(_: &Snapshot, interface: &Interface) -> Found {
    let driver = interface.driver.clone().filter(|_| !is_veth(interface))?;
    let is_native = interface.xdp?.native && !ON_MEMBERS.contains(&driver.as_str());
    (!is_native).then_some((Severity::Warning, Evidence::GenericXdp { driver }))
}

/// `veth_set_xdp_features()` of drivers/net/veth.c: the other end, which may be in another namespace, has
/// more transmit queues.
fn veth_queues(interface: &Interface) -> Option<Finding> {
    let is_generic = is_veth(interface) && !interface.xdp?.native;
    is_generic.then(|| {
        let (queues, possible) = (interface.queues, queues::possible(interface).unwrap_or(interface.queues));
        let changes = if possible > queues { queues::channels(interface, possible) } else { Vec::new() };
        of(interface, Severity::Warning, Evidence::VethQueues { queues, possible }, changes)
    })
}

fn zero_copy_kernel(snapshot: &Snapshot, interface: &Interface) -> Found {
    let (driver, running) = (interface.driver.clone()?, snapshot.machine.kernel);
    let (_, since) = *ZERO_COPY_SINCE.iter().find(|(name, _)| *name == driver)?;
    // Unless the distribution has brought it to this kernel.
    let has_it = interface.xdp.is_some_and(|xdp| xdp.zero_copy);
    (!has_it && is_before(running, since))
        .then_some((Severity::Hint, Evidence::ZeroCopyKernel { driver, since, running }))
}

/// Whether a version is known and older.
fn is_before(running: KernelVersion, version: KernelVersion) -> bool {
    running != KernelVersion::default() && running < version
}

fn zero_copy_cells(snapshot: &Snapshot, interface: &Interface) -> Found {
    let driver = interface.driver.clone().filter(|driver| ROOM_IN_KIB.contains(&driver.as_str()))?;
    let (cell_bytes, longest) = (snapshot.cell_bytes, interface.mtu + HEADER_BYTES);
    let room = room(snapshot) / KIB * KIB;
    (interface.xdp?.zero_copy && longest > room)
        .then_some((Severity::Warning, Evidence::ZeroCopyCells { driver, cell_bytes, room, longest }))
}

fn virtio(_: &Snapshot, interface: &Interface) -> Found {
    let driver = interface.driver.clone().filter(|driver| driver == VIRTIO)?;
    (interface.xdp?.zero_copy && !interface.access_platform?)
        .then_some((Severity::Hint, Evidence::VirtioZeroCopy { driver }))
}

fn defect(snapshot: &Snapshot, interface: &Interface) -> Found {
    let (driver, running) = (interface.driver.clone()?, snapshot.machine.kernel);
    let has_it = |(name, _, fixed_in): &&(&str, _, _)| *name == driver && is_before(running, *fixed_in);
    let (_, defect, fixed_in) = *DEFECTS.iter().find(has_it)?;
    interface
        .xdp
        .is_some_and(|xdp| xdp.zero_copy)
        .then_some((Severity::Warning, Evidence::DriverDefect { driver, defect, fixed_in, running }))
}

fn other_programs(interface: &Interface) -> impl Iterator<Item = Finding> {
    let is_other = |name: &Option<String>| name.as_deref().is_none_or(|name| !name.starts_with("wirecap"));
    interface.programs.iter().filter(move |program| is_other(&program.name)).map(|program| {
        let (id, name, processes) = (program.id, program.name.clone(), program.processes.clone());
        let evidence = Evidence::OtherXdpProgram { id, name, processes };
        of(interface, Severity::Problem, evidence, Vec::new())
    })
}

#[cfg(test)]
mod tests {
    use wirecap_sys::netdev::ChannelCounts;

    use super::*;
    use crate::{
        finding::Rule,
        rules::tuned_tests::{found_after, found_in},
        setting::Value,
        snapshot::{Xdp, XdpProgram},
    };

    fn rules(findings: &[Finding]) -> Vec<Rule> {
        findings.iter().map(Finding::rule).collect()
    }

    #[test]
    fn a_large_mtu_needs_packets_of_several_buffers() {
        let with = |mtu, multi_buffer, zero_copy, segments| {
            let findings = found_after(|snapshot| {
                let interface = &mut snapshot.interfaces[0];
                (interface.mtu, interface.driver) = (mtu, Some("ena".into()));
                let zero_copy_max_segments = Some(segments);
                interface.xdp = Some(Xdp {
                    native: true,
                    zero_copy,
                    multi_buffer,
                    zero_copy_max_segments,
                    vlan_tags: false,
                });
            });
            rules(&findings)
        };
        assert_eq!(with(9000, false, false, 1), [Rule::MtuBeyondXdp]);
        assert_eq!(with(9000, true, true, 1), [Rule::MtuBeyondCell]);
        assert_eq!((with(9000, true, true, 8), with(9000, true, false, 1)), (vec![], vec![]));
        assert_eq!((with(3498, false, false, 1), with(1500, false, true, 1)), (vec![], vec![]));
    }

    #[test]
    fn cells_count_by_whole_kib_in_three_drivers() {
        let with = |driver: &str, cell_bytes, zero_copy| {
            found_after(|snapshot| {
                snapshot.cell_bytes = cell_bytes;
                snapshot.interfaces[0].driver = Some(driver.into());
                snapshot.interfaces[0].xdp.as_mut().unwrap().zero_copy = zero_copy;
            })
        };
        let expected =
            Evidence::ZeroCopyCells { driver: "igc".into(), cell_bytes: 2048, room: 1024, longest: 1518 };
        assert_eq!(with("igc", 2048, true)[0].evidence, expected);
        for (driver, cell_bytes, zero_copy) in
            [("igc", 4096, true), ("i40e", 2048, true), ("igc", 2048, false)]
        {
            assert_eq!(with(driver, cell_bytes, zero_copy), [], "{driver} {cell_bytes}");
        }
    }

    #[test]
    fn kernels_before_zero_copy_or_with_a_defect_are_found() {
        let with = |driver: &str, (major, minor), zero_copy| {
            let findings = found_after(|snapshot| {
                snapshot.machine.kernel = KernelVersion::new(major, minor);
                snapshot.interfaces[0].driver = Some(driver.into());
                snapshot.interfaces[0].xdp.as_mut().unwrap().zero_copy = zero_copy;
            });
            rules(&findings)
        };
        assert_eq!(with("virtio_net", (6, 12), false), [Rule::ZeroCopyKernel]);
        assert_eq!(with("virtio_net", (6, 13), false), []);
        assert_eq!(with("virtio_net", (6, 12), true), [], "brought to this kernel by the distribution");
        assert_eq!(with("veth", (5, 15), false), []);
        assert_eq!(with("ice", (6, 10), true), [Rule::DriverDefect]);
        assert_eq!((with("ice", (6, 11), true), with("ice", (0, 0), true)), (vec![], vec![]));
    }

    #[test]
    fn virtio_devices_and_drivers_without_xdp_are_found() {
        let findings = found_after(|snapshot| {
            snapshot.interfaces[0].driver = Some("virtio_net".into());
            snapshot.interfaces[0].access_platform = Some(false);
        });
        assert_eq!(rules(&findings), [Rule::VirtioZeroCopy]);
        let findings = found_after(|snapshot| {
            snapshot.interfaces[0].driver = Some("virtio_net".into());
            snapshot.interfaces[0].access_platform = Some(true);
        });
        assert_eq!(rules(&findings), []);
        let findings = found_after(|snapshot| snapshot.interfaces[0].xdp = Some(Xdp::default()));
        assert_eq!(rules(&findings), [Rule::GenericXdp]);
        for driver in ON_MEMBERS {
            let findings = found_after(|snapshot| snapshot.interfaces[0].driver = Some(driver.into()));
            assert_eq!(rules(&findings), [Rule::GenericXdp], "{driver}");
        }
        let findings = found_after(|snapshot| {
            let interface = &mut snapshot.interfaces[0];
            (interface.driver, interface.xdp) = (Some("veth".into()), Some(Xdp::default()));
            let channels = ChannelCounts { max_rx: 4, max_tx: 4, rx: 1, tx: 1, ..ChannelCounts::default() };
            (interface.queues, interface.channels) = (1, Some(channels));
        });
        let of_veth = findings.iter().find(|finding| finding.rule() == Rule::VethQueues).unwrap();
        assert_eq!(of_veth.evidence, Evidence::VethQueues { queues: 1, possible: 4 });
        for finding in &findings {
            let Value::Channels(to) = &finding.changes[0].to else { panic!("{finding:?}") };
            assert_eq!(to.rx, 4, "with fewer, its native XDP stays off: {finding:?}");
        }
        assert!(findings.iter().all(|finding| finding.rule() != Rule::GenericXdp));
        assert_eq!(found_after(|snapshot| snapshot.interfaces[0].xdp = None), [], "unknown");
    }

    #[test]
    fn a_program_of_another_is_found_and_one_of_wirecap_is_not() {
        let with = |name: Option<&str>| {
            found_in(|snapshot| {
                let program = XdpProgram { id: 7, name: name.map(Into::into), processes: Vec::new() };
                snapshot.interfaces[0].programs = vec![program];
            })
        };
        assert_eq!(with(Some("xdp_lb")), [Rule::OtherXdpProgram]);
        assert_eq!((with(None), with(Some("wirecap"))), (vec![Rule::OtherXdpProgram], vec![]));
    }
}
