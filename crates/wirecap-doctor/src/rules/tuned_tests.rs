//! Snapshots of machines that are set up well, on which no rule has a finding; the tests of the rules change
//! one thing in them.

use wirecap_core::Choice;
use wirecap_sys::netdev::{ChannelCounts, Coalescing, Offload, PauseFrames, RingSizes};

use super::{LossCause, examine};
use crate::{
    finding::{Finding, Rule},
    snapshot::{
        AccountSettings, Clock, Cpus, Disk, IdleState, Interface, Interrupt, KernelVersion, Machine, Memory,
        Napi, Rss, Snapshot, Softirq, Sysctl, Xdp,
    },
};

/// A machine of two nodes with eight processors each; its NIC is at the first.
pub(super) fn tuned() -> Snapshot {
    let cpus = Cpus {
        online: (0..16).collect(),
        allowed: (0..8).collect(),
        isolated: vec![6, 7],
        nodes: [(0, (0..8).collect()), (1, (8..16).collect())].into(),
        governors: (0..16).map(|cpu| (cpu, "performance".into())).collect(),
        idle_states: [("C1", 2, true), ("C6", 133, false)]
            .iter()
            .enumerate()
            .map(|(state, (name, latency_us, enabled))| IdleState {
                cpu: 0,
                state: state as u32,
                name: (*name).into(),
                latency_us: *latency_us,
                enabled: *enabled,
            })
            .collect(),
        steal_percent: Some(0.0),
    };
    let sysctls = [
        (Sysctl::NetdevBudget, "600"),
        (Sysctl::NetdevBudgetUsecs, "8000"),
        (Sysctl::NetdevMaxBacklog, "10000"),
        (Sysctl::BusyRead, "0"),
        (Sysctl::BusyPoll, "0"),
        (Sysctl::BpfJit, "1"),
        (Sysctl::BpfJitHarden, "0"),
        (Sysctl::BpfStatistics, "0"),
    ];
    Snapshot {
        cell_bytes: 4096,
        machine: Machine {
            kernel: KernelVersion::new(6, 18),
            cpus,
            irqbalance: Some(false),
            memory: Memory {
                lock_limit_bytes: Some(8 << 20),
                may_lock_any: true,
                cgroup: None,
                allowed_nodes: vec![0, 1],
            },
            sysctls: sysctls.map(|(name, value)| (name, value.into())).into(),
            softirq: Some(Softirq { processed: 1 << 40, dropped: 0, squeezed: 12 }),
            clock: Clock {
                source: Some("tsc".into()),
                available: vec!["tsc".into(), "hpet".into()],
                synchronised: Some(true),
            },
        },
        interfaces: vec![ixgbe()],
        disk: Some(Disk {
            path: "/captures".into(),
            type_name: "xfs".into(),
            free_bytes: 4 << 40,
            takes_direct_io: Some(true),
            bytes_per_second: Some(3 << 30),
            ..Disk::default()
        }),
        account: Vec::new(),
        account_settings: AccountSettings::default(),
        account_stood_seconds: 0.0,
    }
}

fn offloads() -> Vec<Offload> {
    let offload = |name: &str, active| Offload { name: name.into(), active, changeable: true };
    [
        ("rx-checksum", true),
        ("rx-gro", true),
        ("rx-lro", false),
        ("rx-gro-hw", false),
        ("rx-vlan-hw-parse", false),
    ]
    .map(|(name, active)| offload(name, active))
    .into()
}

fn interrupts(name: impl Fn(u32) -> String) -> Vec<Interrupt> {
    let of = |queue: u32| Interrupt {
        number: 100 + queue,
        name: name(queue),
        cpus: vec![queue],
        mask: format!("{:04x}", 1 << queue),
    };
    (0..8).map(of).collect()
}

fn ixgbe() -> Interface {
    let ring = |size| RingSizes { rx_max: size, tx_max: size, rx: 4096, tx: 512, ..RingSizes::default() };
    Interface {
        name: "eth1".into(),
        driver: Some("ixgbe".into()),
        mtu: 1500,
        speed_mbps: Some(10_000),
        numa_node: Some(0),
        queues: 8,
        channels: Some(ChannelCounts {
            max_combined: 63,
            combined: 8,
            max_other: 1,
            other: 1,
            ..Default::default()
        }),
        rings: Some(ring(8192)),
        coalescing: Some(Coalescing { rx_usecs: 20, ..Coalescing::default() }),
        pause: Some(PauseFrames::default()),
        offloads: offloads(),
        rss: Some(Rss {
            table: (0..128).map(|entry| entry % 8).collect(),
            key: "6d5a".repeat(20),
            ..Rss::default()
        }),
        xdp: Some(Xdp {
            native: true,
            zero_copy: true,
            multi_buffer: false,
            zero_copy_max_segments: Some(1),
            vlan_tags: false,
        }),
        napi: Napi {
            defer_hard_irqs: Some(0),
            gro_flush_timeout_ns: Some(0),
            threaded: Some(false),
            rps: vec![(0, "0000".into())],
        },
        interrupts: interrupts(|queue| format!("eth1-TxRx-{queue}")),
        ..Interface::default()
    }
}

fn ice() -> Interface {
    Interface {
        driver: Some("ice".into()),
        mtu: 9000,
        speed_mbps: Some(25_000),
        xdp: Some(Xdp {
            native: true,
            zero_copy: true,
            multi_buffer: true,
            zero_copy_max_segments: Some(5),
            vlan_tags: true,
        }),
        offloads: offloads()
            .into_iter()
            .map(|offload| Offload {
                active: offload.active || offload.name == "rx-vlan-hw-parse",
                ..offload
            })
            .collect(),
        rss: Some(Rss { is_joined: true, key: "1f2e3d4c5b6a".into(), ..ixgbe().rss.unwrap() }),
        interrupts: interrupts(|queue| format!("ice-eth1-TxRx-{queue}")),
        ..ixgbe()
    }
}

fn mlx5() -> Interface {
    Interface {
        driver: Some("mlx5_core".into()),
        speed_mbps: Some(100_000),
        rings: Some(RingSizes { rx: 8192, rx_max: 8192, ..RingSizes::default() }),
        coalescing: Some(Coalescing { rx_usecs: 8, rx_frames: 128, ..Coalescing::default() }),
        interrupts: interrupts(|queue| format!("mlx5_comp{queue}@pci:0000:03:00.0")),
        ..ice()
    }
}

/// Findings on the tuned machine after a change.
pub(super) fn found_after(change: impl FnOnce(&mut Snapshot)) -> Vec<Finding> {
    let mut snapshot = tuned();
    change(&mut snapshot);
    examine(&snapshot)
}

/// The rules of these findings.
pub(super) fn found_in(change: impl FnOnce(&mut Snapshot)) -> Vec<Rule> {
    found_after(change).iter().map(Finding::rule).collect()
}

#[test]
fn a_machine_that_is_set_up_well_has_no_finding() {
    assert_eq!(examine(&tuned()), []);
    for interface in [ixgbe(), ice(), mlx5()] {
        let snapshot = Snapshot { interfaces: vec![interface], disk: None, ..tuned() };
        assert_eq!(examine(&snapshot), [], "{:?}", snapshot.interfaces[0].driver);
        let text = serde_json::to_string(&snapshot).unwrap();
        assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), snapshot);
    }
}

#[test]
fn a_machine_of_which_nothing_is_known_has_no_finding() {
    let snapshot: Snapshot = serde_json::from_str("{\"interfaces\":[{\"name\":\"eth1\"}]}").unwrap();
    assert_eq!(examine(&snapshot), []);
}

#[test]
fn the_worst_comes_first() {
    let findings = found_in(|snapshot| {
        snapshot.machine.irqbalance = Some(true);
        snapshot.interfaces[0].rings.as_mut().unwrap().rx = 512;
        snapshot.interfaces[0].offloads[2].active = true;
    });
    assert_eq!(findings, [Rule::Lro, Rule::RingSize, Rule::Irqbalance]);
}

#[test]
fn each_cause_of_loss_has_suspects_once() {
    for cause in LossCause::ALL {
        let mut suspects = cause.value.suspects().to_vec();
        let count = suspects.len();
        suspects.sort();
        suspects.dedup();
        assert!(count > 3 && suspects.len() == count, "{cause:?}");
    }
}
