//! Who has which queue, as far as the kernel tells. It needs CAP_SYS_ADMIN.

use wirecap_sys::{
    bpf::{self, LinkHolder, Map, SharedMap},
    netdev::AttachedProgram,
};

use super::TABLE;

/// The processes that share the interface a program is attached to; `None` if the program is no dispatcher, or it
/// cannot be known.
pub(crate) fn members(attached: AttachedProgram) -> Option<Vec<LinkHolder>> {
    bpf::shared_map(attached.program_id, TABLE).ok().flatten()?;
    Some(bpf::program_holders(attached.program_id))
}

/// Who captures each queue of an interface that is shared: for each entry of the table, the queue and the processes
/// that hold its program. An entry of a dead process has none. `None` if the interface is not shared, or it cannot be known.
pub(crate) fn owners(attached: AttachedProgram) -> Option<Vec<(u32, Vec<LinkHolder>)>> {
    let SharedMap { map, max_entries } = bpf::shared_map(attached.program_id, TABLE).ok().flatten()?;
    let entry = |queue| Some((queue, bpf::program_holders(map.program_id(queue).ok().flatten()?)));
    Some((0..max_entries - 1).filter_map(entry).collect())
}

/// The process that has a queue of this table.
pub(crate) fn owner(programs: &Map, queue: u32) -> Option<LinkHolder> {
    let program = programs.program_id(queue).ok().flatten()?;
    bpf::program_holders(program).into_iter().next()
}

/// Processes in words: `wirecap (pid 7), suricata (pid 9)`.
pub(crate) fn in_words(holders: &[LinkHolder]) -> String {
    let words: Vec<_> =
        holders.iter().map(|holder| format!("{} (pid {})", holder.name, holder.pid)).collect();
    if words.is_empty() { "another process".into() } else { words.join(", ") }
}
