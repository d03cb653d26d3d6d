//! The processors, as sysfs and `/proc/stat` show them.

use super::files::{Files, list};
use crate::snapshot::{Cpus, IdleState};

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";

pub(super) fn read(files: &Files) -> Cpus {
    let nodes = files.numbered(NODES, "node").into_iter();
    let numbers = files.numbered(CPUS, "cpu");
    let governor =
        |cpu: &u32| Some((*cpu, files.text(&format!("{CPUS}/cpu{cpu}/cpufreq/scaling_governor"))?));
    Cpus {
        online: files.list(&format!("{CPUS}/online")),
        allowed: allowed(files, "Cpus_allowed_list"),
        isolated: files.list(&format!("{CPUS}/isolated")),
        nodes: nodes.map(|node| (node, files.list(&format!("{NODES}/node{node}/cpulist")))).collect(),
        governors: numbers.iter().filter_map(governor).collect(),
        idle_states: numbers.iter().flat_map(|cpu| idle_states(files, *cpu)).collect(),
        steal_percent: files.text("/proc/stat").as_deref().and_then(steal_percent),
    }
}

/// A list of what this process may use.
pub(super) fn allowed(files: &Files, field: &str) -> Vec<u32> {
    let status = files.text("/proc/self/status").unwrap_or_default();
    let mut fields = status.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(name, _)| *name == field).map(|(_, value)| list(value.trim())).unwrap_or_default()
}

fn idle_states(files: &Files, cpu: u32) -> Vec<IdleState> {
    let directory = format!("{CPUS}/cpu{cpu}/cpuidle");
    let read = |state: u32| {
        let file = |name: &str| format!("{directory}/state{state}/{name}");
        Some(IdleState {
            cpu,
            state,
            name: files.text(&file("name"))?,
            latency_us: files.value(&file("latency"))?,
            enabled: files.value::<u64>(&file("disable"))? == 0,
        })
    };
    files.numbered(&directory, "state").into_iter().filter_map(read).collect()
}

/// The part of the time that the hypervisor gave to others, of the first line of `/proc/stat`.
fn steal_percent(stat: &str) -> Option<f64> {
    // User, nice, system, idle, iowait, irq, softirq, steal; guests are part of the first two.
    const TIMES: usize = 8;
    let times: Vec<u64> = stat
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_whitespace()
        .take(TIMES)
        .filter_map(|time| time.parse().ok())
        .collect();
    let (total, steal) = (times.iter().sum::<u64>(), *times.get(TIMES - 1)?);
    (total > 0).then(|| 100.0 * steal as f64 / total as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::files::tests::root;

    #[test]
    fn processors_are_read() {
        let (_directory, files) = root(&[
            ("/sys/devices/system/cpu/online", "0-1\n"),
            ("/sys/devices/system/cpu/isolated", "1\n"),
            ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
            ("/sys/devices/system/cpu/cpu1/cpuidle/state2/name", "C6\n"),
            ("/sys/devices/system/cpu/cpu1/cpuidle/state2/latency", "133\n"),
            ("/sys/devices/system/cpu/cpu1/cpuidle/state2/disable", "0\n"),
            ("/sys/devices/system/node/node0/cpulist", "0-1\n"),
            ("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-1\nMems_allowed_list:\t0\n"),
            ("/proc/stat", "cpu  10 0 10 60 0 0 10 10 0 0\ncpu0 1\n"),
        ]);
        let cpus = read(&files);
        assert_eq!((&cpus.online, &cpus.isolated, &cpus.allowed), (&vec![0, 1], &vec![1], &vec![0, 1]));
        assert_eq!(cpus.governors, [(0, "powersave".to_owned())].into());
        let state = IdleState { cpu: 1, state: 2, name: "C6".into(), latency_us: 133, enabled: true };
        assert_eq!((cpus.idle_states, cpus.nodes), (vec![state], [(0, vec![0, 1])].into()));
        assert_eq!(cpus.steal_percent, Some(10.0));
        assert_eq!((steal_percent("cpu 0 0"), steal_percent("")), (None, None));
    }
}
