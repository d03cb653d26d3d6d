//! Processors, memory, the kernel and its settings.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};
use wirecap_core::choices;

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Version of the kernel.
    pub kernel: KernelVersion,
    /// Processors.
    pub cpus: Cpus,
    /// Whether irqbalance(1) runs.
    pub irqbalance: Option<bool>,
    /// Memory, and what this process may use of it.
    pub memory: Memory,
    /// Settings of the kernel, as they are written.
    pub sysctls: BTreeMap<Sysctl, String>,
    /// What the kernel has counted of polling network devices.
    pub softirq: Option<Softirq>,
    /// Clocks.
    pub clock: Clock,
}

impl Machine {
    /// The number in a setting of the kernel.
    pub fn number(&self, sysctl: Sysctl) -> Option<u64> {
        self.sysctls.get(&sysctl)?.parse().ok()
    }
}

/// Version of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelVersion {
    /// 6 of 6.12.
    pub major: u32,
    /// 12 of 6.12.
    pub minor: u32,
}

impl KernelVersion {
    /// This version.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// Reads what `uname -r` prints: `6.12.41+deb13-amd64`.
    pub fn parse(release: &str) -> Option<Self> {
        let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
        Some(Self { major: numbers.next()?.parse().ok()?, minor: numbers.next()?.parse().ok()? })
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Processors, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpus {
    /// Those that are switched on.
    pub online: Vec<u32>,
    /// Those that this process may use.
    pub allowed: Vec<u32>,
    /// Those that the scheduler leaves alone (`isolcpus`).
    pub isolated: Vec<u32>,
    /// Those of each memory node.
    pub nodes: BTreeMap<u32, Vec<u32>>,
    /// How the clock frequency of each is chosen.
    pub governors: BTreeMap<u32, String>,
    /// States in which an idle processor saves power.
    pub idle_states: Vec<IdleState>,
    /// How much of the time since the start the hypervisor gave to others, in percent.
    pub steal_percent: Option<f64>,
}

/// A state in which an idle processor saves power.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IdleState {
    /// The processor.
    pub cpu: u32,
    /// The number of the state.
    pub state: u32,
    /// Its name: `C6`.
    pub name: String,
    /// How long it takes to leave it, in microseconds.
    pub latency_us: u32,
    /// Whether it is used.
    pub enabled: bool,
}

/// Memory, and what this process may use of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// Most bytes that the process may lock; `None` if there is no limit.
    pub lock_limit_bytes: Option<u64>,
    /// Whether it may lock any amount (CAP_IPC_LOCK).
    pub may_lock_any: bool,
    /// The tightest limit of its control groups.
    pub cgroup: Option<CgroupMemory>,
    /// Memory nodes that it may use; empty if unknown.
    pub allowed_nodes: Vec<u32>,
}

/// A limit of a control group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CgroupMemory {
    /// Most bytes.
    pub limit_bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
}

choices! {
    /// A setting of the kernel, by the name of sysctl(8).
    #[derive(PartialOrd, Ord)]
    pub enum Sysctl {
        /// Packets that one round of polling may take.
        NetdevBudget = "net.core.netdev_budget",
        /// Microseconds that one round of polling may take.
        NetdevBudgetUsecs = "net.core.netdev_budget_usecs",
        /// Packets that wait for a processor after RPS, and on devices without polling.
        NetdevMaxBacklog = "net.core.netdev_max_backlog",
        /// Microseconds for which a socket polls before it sleeps, in read(2).
        BusyRead = "net.core.busy_read",
        /// Microseconds for which a socket polls before it sleeps, in poll(2) and select(2).
        BusyPoll = "net.core.busy_poll",
        /// Whether BPF programs become machine code.
        BpfJit = "net.core.bpf_jit_enable",
        /// Whether the constants of BPF programs are hidden: 1 for those of users, 2 for all.
        BpfJitHarden = "net.core.bpf_jit_harden",
        /// Whether the kernel times each run of a BPF program.
        BpfStatistics = "kernel.bpf_stats_enabled",
    }
}

impl Sysctl {
    /// The file that has it.
    pub fn path(self) -> String {
        format!("/proc/sys/{}", self.as_str().replace('.', "/"))
    }
}

/// What the kernel has counted of polling network devices (`/proc/net/softnet_stat`), over all processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Softirq {
    /// Packets.
    pub processed: u64,
    /// Packets that the backlog had no room for.
    pub dropped: u64,
    /// Rounds that ended with work left.
    pub squeezed: u64,
}

/// Clocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clock {
    /// What the kernel reads the time from.
    pub source: Option<String>,
    /// What else it could read it from.
    pub available: Vec<String>,
    /// Whether something keeps the system clock right.
    pub synchronised: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared() {
        let read = |release| KernelVersion::parse(release).unwrap();
        assert_eq!(read("6.12.41+deb13-amd64"), KernelVersion::new(6, 12));
        assert_eq!(read("5.15-rc3").to_string(), "5.15");
        assert!(read("6.9") < read("6.12") && read("5.19") < read("6.0"));
        assert_eq!(KernelVersion::parse("Linux"), None);
    }
}
