//! The processes that hold the queues of an interface. Finding them takes CAP_SYS_ADMIN.

use wirecap_core::chunk::MAX_RINGS;
use wirecap_sys::{
    bpf::{self, Map, SharedMap},
    netdev::AttachedProgram,
    process::Process,
};

/// Name of the table of programs, which identifies a dispatcher of any version of wirecap: a version with
/// other rules needs another name.
pub(crate) const TABLE: &str = "wirecap_queues";

/// The processes that share the interface a program is attached to; `None` if the program is no dispatcher,
/// or it cannot be known.
pub(crate) fn members(attached: AttachedProgram) -> Option<Vec<Process>> {
    bpf::shared_map(attached.program_id, TABLE).ok().flatten()?;
    Some(bpf::program_holders(attached.program_id))
}

/// Who captures each queue of an interface that is shared: for each entry of the table, the queue and the
/// processes that hold its program. An entry of a dead process has none. `None` if the interface is not
/// shared, or it cannot be known.
pub(crate) fn holders_of_queues(attached: AttachedProgram) -> Option<Vec<(u32, Vec<Process>)>> {
    let SharedMap { map, max_entries } = bpf::shared_map(attached.program_id, TABLE).ok().flatten()?;
    Some(of_entries(&map, 0..max_entries - 1))
}

/// The first of `queues` receive queues that no process captures, of an interface that is shared; `None` if
/// there is none, or it cannot be known.
pub(crate) fn free_queue(attached: AttachedProgram, queues: u32) -> Option<u32> {
    let entries = holders_of_queues(attached)?;
    let is_held = |queue| entries.iter().any(|(held, holders)| *held == queue && !holders.is_empty());
    (0..queues.min(MAX_RINGS.into())).find(|&queue| !is_held(queue))
}

/// The first of these queues that a process has, by this table, and the process.
pub(crate) fn holder_of(programs: &Map, queues: impl IntoIterator<Item = u16>) -> Option<(u16, Process)> {
    let entries = of_entries(programs, queues.into_iter().map(u32::from));
    entries.into_iter().find_map(|(queue, holders)| Some((queue as u16, holders.into_iter().next()?)))
}

/// The processes that hold the programs of these entries. Reads the open files of all processes once.
fn of_entries(programs: &Map, queues: impl Iterator<Item = u32>) -> Vec<(u32, Vec<Process>)> {
    let entry = |queue| Some((queue, programs.program_id(queue).ok().flatten()?));
    let entries: Vec<(u32, u32)> = queues.filter_map(entry).collect();
    let ids: Vec<u32> = entries.iter().map(|&(_, program)| program).collect();
    // A process has one program for all its queues.
    let holders = bpf::holders_of_programs(&ids);
    let of = |program| holders.get(&program).cloned().unwrap_or_default();
    entries.into_iter().map(|(queue, program)| (queue, of(program))).collect()
}
