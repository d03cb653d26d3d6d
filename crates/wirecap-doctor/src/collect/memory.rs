//! What this process may use of the memory.

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

use super::{files::Files, processors::allowed};
use crate::snapshot::{CgroupMemory, Memory};

/// CAP_IPC_LOCK, a bit of the capabilities.
const IPC_LOCK: u64 = 1 << 14;

pub(super) fn read(files: &Files) -> Memory {
    let limit = getrlimit(Resource::RLIMIT_MEMLOCK).ok().map(|(soft, _)| soft);
    Memory {
        lock_limit_bytes: limit.filter(|limit| *limit != RLIM_INFINITY),
        may_lock_any: may_lock_any(&files.text("/proc/self/status").unwrap_or_default()),
        cgroup: cgroup(files),
        allowed_nodes: allowed(files, "Mems_allowed_list"),
    }
}

fn may_lock_any(status: &str) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits & IPC_LOCK != 0)
}

/// The control group, or one above it, that leaves the least room.
fn cgroup(files: &Files) -> Option<CgroupMemory> {
    let own = files.text("/proc/self/cgroup")?;
    let mut path = own.lines().find_map(|line| line.strip_prefix("0::"))?.trim_matches('/');
    let mut tightest: Option<CgroupMemory> = None;
    loop {
        let name = |file: &str| format!("/sys/fs/cgroup/{path}/{file}");
        let number = |file: &str| files.value::<u64>(&name(file));
        // "max" is no number. Above `memory.high`, the kernel slows the group down.
        let limit = [number("memory.max"), number("memory.high")].into_iter().flatten().min();
        if let (Some(limit_bytes), Some(used_bytes)) = (limit, number("memory.current")) {
            let statistics = files.text(&name("memory.stat")).unwrap_or_default();
            let used_bytes = used_bytes.saturating_sub(reclaimable(&statistics));
            let room = |group: &CgroupMemory| group.limit_bytes.saturating_sub(group.used_bytes);
            let group = CgroupMemory { limit_bytes, used_bytes };
            if tightest.as_ref().is_none_or(|other| room(&group) < room(other)) {
                tightest = Some(group);
            }
        }
        // In a container, the limit is at the root.
        if path.is_empty() {
            return tightest;
        }
        path = path.rsplit_once('/').map_or("", |(above, _)| above);
    }
}

/// Bytes of pages of files that the kernel gives up when it needs room, as in MemAvailable: all that were not
/// used lately, and half of the others.
fn reclaimable(statistics: &str) -> u64 {
    let value = |name: &str| {
        let line = statistics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    value("inactive_file") + value("active_file") / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::files::tests::root;

    #[test]
    fn the_tightest_control_group_counts() {
        let (_directory, files) = root(&[
            ("/proc/self/cgroup", "0::/system.slice/sensor.service\n"),
            ("/sys/fs/cgroup/system.slice/memory.max", "1000\n"),
            ("/sys/fs/cgroup/system.slice/memory.current", "900\n"),
            ("/sys/fs/cgroup/system.slice/sensor.service/memory.max", "500\n"),
            ("/sys/fs/cgroup/system.slice/sensor.service/memory.current", "100\n"),
        ]);
        assert_eq!(cgroup(&files), Some(CgroupMemory { limit_bytes: 1000, used_bytes: 900 }));
        let (_directory, files) = root(&[
            ("/proc/self/cgroup", "0::/user.slice\n"),
            ("/sys/fs/cgroup/user.slice/memory.max", "max\n"),
            ("/sys/fs/cgroup/user.slice/memory.current", "100\n"),
        ]);
        assert_eq!(cgroup(&files), None);
    }

    #[test]
    fn in_a_container_the_limit_is_at_the_root_and_pages_of_files_are_room() {
        let (_directory, files) = root(&[
            ("/proc/self/cgroup", "0::/\n"),
            ("/sys/fs/cgroup/memory.max", "max\n"),
            ("/sys/fs/cgroup/memory.high", "1000\n"),
            ("/sys/fs/cgroup/memory.current", "990\n"),
            ("/sys/fs/cgroup/memory.stat", "anon 300\nactive_file 80\ninactive_file 600\n"),
        ]);
        assert_eq!(cgroup(&files), Some(CgroupMemory { limit_bytes: 1000, used_bytes: 350 }));
    }

    #[test]
    fn the_privilege_is_a_bit_of_the_status() {
        assert!(may_lock_any("Name:\tx\nCapEff:\t0000000000004000\n"));
        assert!(!may_lock_any("CapEff:\t0000000000000000\n") && !may_lock_any(""));
    }
}
