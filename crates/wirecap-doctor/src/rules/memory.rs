//! Memory for the pools: limits, and the node that it is on.

use super::{of, of_machine};
use crate::{
    finding::{Evidence, Finding, Severity},
    snapshot::{Interface, Snapshot},
};

/// What the pool of a queue takes by default, in cells: R = 128 chunks of M = 256 cells.
const CELLS_PER_POOL: u64 = 128 * 256;

pub(super) fn of_interface(snapshot: &Snapshot, interface: &Interface) -> Vec<Finding> {
    [locked(snapshot, interface), node(snapshot, interface)].into_iter().flatten().collect()
}

fn pools(snapshot: &Snapshot, queues: u32) -> u64 {
    u64::from(queues) * CELLS_PER_POOL * u64::from(snapshot.cell_bytes)
}

fn locked(snapshot: &Snapshot, interface: &Interface) -> Option<Finding> {
    let memory = &snapshot.machine.memory;
    let limit_bytes = memory.lock_limit_bytes.filter(|_| !memory.may_lock_any)?;
    let needed_bytes = pools(snapshot, interface.queues);
    (interface.xdp?.zero_copy && limit_bytes < needed_bytes).then(|| {
        let evidence = Evidence::LockedMemory { limit_bytes, needed_bytes };
        of(interface, Severity::Problem, evidence, Vec::new())
    })
}

fn node(snapshot: &Snapshot, interface: &Interface) -> Option<Finding> {
    let node = interface.numa_node?;
    let allowed = snapshot.machine.memory.allowed_nodes.clone();
    (!allowed.is_empty() && !allowed.contains(&node))
        .then(|| of(interface, Severity::Warning, Evidence::MemoryNode { node, allowed }, Vec::new()))
}

pub(super) fn examine(snapshot: &Snapshot) -> Vec<Finding> {
    let queues = snapshot.interfaces.iter().map(|interface| interface.queues).sum();
    let needed_bytes = pools(snapshot, queues);
    let cgroup = snapshot.machine.memory.cgroup.filter(|cgroup| {
        needed_bytes > 0 && cgroup.limit_bytes.saturating_sub(cgroup.used_bytes) < needed_bytes
    });
    let found = cgroup.map(|cgroup| {
        let (limit_bytes, used_bytes) = (cgroup.limit_bytes, cgroup.used_bytes);
        let evidence = Evidence::CgroupMemory { limit_bytes, used_bytes, needed_bytes };
        of_machine(Severity::Warning, evidence, Vec::new())
    });
    Vec::from_iter(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        finding::Rule,
        rules::tuned_tests::{found_after, found_in},
        snapshot::CgroupMemory,
    };

    const MIB: u64 = 1 << 20;

    #[test]
    fn cells_need_lockable_memory_or_a_privilege() {
        let with = |limit, may_lock_any, zero_copy| {
            found_in(|snapshot| {
                let memory = &mut snapshot.machine.memory;
                (memory.lock_limit_bytes, memory.may_lock_any) = (limit, may_lock_any);
                snapshot.interfaces[0].xdp.as_mut().unwrap().zero_copy = zero_copy;
            })
        };
        assert_eq!(with(Some(8 * MIB), false, true), [Rule::LockedMemory]);
        for (limit, may_lock_any, zero_copy) in
            [(None, false, true), (Some(8 * MIB), true, true), (Some(8 * MIB), false, false)]
        {
            assert_eq!(with(limit, may_lock_any, zero_copy), [], "{limit:?}");
        }
        assert_eq!(with(Some(2048 * MIB), false, true), [], "8 queues of 128 MiB");
    }

    #[test]
    fn a_control_group_must_leave_room_for_the_pools() {
        let with = |limit_bytes, used_bytes| {
            found_in(|snapshot| {
                snapshot.machine.memory.cgroup = Some(CgroupMemory { limit_bytes, used_bytes });
            })
        };
        assert_eq!(with(2048 * MIB, 1025 * MIB), [Rule::CgroupMemory]);
        assert_eq!(with(2048 * MIB, 1024 * MIB), []);
    }

    #[test]
    fn memory_of_the_node_of_the_nic_must_be_allowed() {
        let findings = found_after(|snapshot| snapshot.machine.memory.allowed_nodes = vec![1]);
        assert_eq!(findings[0].evidence, Evidence::MemoryNode { node: 0, allowed: vec![1] });
        assert_eq!(found_in(|snapshot| snapshot.machine.memory.allowed_nodes = vec![0, 1]), []);
    }
}
