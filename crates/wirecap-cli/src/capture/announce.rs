//! What is said at the start: which mode each queue runs in and why none better, and the sizes.
//!
//! Rule: one line a fact, in a terminal of 80 columns, too, as long as names and reasons are short. The line with M and R is
//! the last one.

use wirecap::{
    Dispatch, Mode, Report,
    report::{BeyondLimit, LengthLimit, MemoryReport, PortReport, QueueMode},
};
use wirecap_core::{geometry::MIN_CELLS_PER_CHUNK_MULTI_BUFFER, words::counted};

use super::job::Job;
use crate::{exit::tell, host_use, plan::Plan};

/// Says how the capture runs.
pub(crate) fn start(plan: &Plan, report: &Report, job: &impl Job) {
    for port in &report.ports {
        facts(port).iter().for_each(|fact| tell(format_args!("wirecap: {fact}")));
        for warning in host_use_lines(port, job) {
            tell(format_args!("wirecap: WARNING: {warning}"));
        }
    }
    sizes(plan, report).iter().for_each(|fact| tell(format_args!("wirecap: {fact}")));
}

/// Warns about packets too long for this geometry, also with `-q`. A trace file is excluded: the report at the end counts its long
/// packets, if it has any.
pub(crate) fn warn(report: &Report) {
    let interfaces = report.ports.iter().filter(|port| !is_trace(port));
    for (port, limit) in interfaces.filter_map(|port| Some((port, port.length_limit?))) {
        tell(format_args!("wirecap: WARNING: {}: {}", port.name, too_long(&report.memory, limit)));
    }
}

/// Describes which packets are too long, why, and the remedy.
fn too_long(memory: &MemoryReport, LengthLimit { bytes, beyond }: LengthLimit) -> String {
    let (m, least) = (memory.cells_per_chunk, MIN_CELLS_PER_CHUNK_MULTI_BUFFER);
    match beyond {
        BeyondLimit::Cut => {
            format!(
                "packets longer than {bytes} bytes will be cut: a block of M = {m} cells holds no more; raise -M"
            )
        }
        BeyondLimit::Lost if m < least => format!(
            "packets longer than {bytes} bytes will be lost (too_long): packets of several cells need an M of {least}, and M is {m}; \
             write -M {least}"
        ),
        BeyondLimit::Lost => {
            let remedy = match memory.cell_bytes < 4096 {
                true => "; --cell-bytes 4096 has room for longer ones",
                false => "; a driver with multi-buffer XDP would split them",
            };
            format!(
                "packets longer than {bytes} bytes will be lost (too_long): this interface does not split packets over several cells{remedy}"
            )
        }
    }
}

/// Warnings about the users of a port that go without its packets. Why a port is captured beside the host is in its own line.
fn host_use_lines(port: &PortReport, job: &impl Job) -> Vec<String> {
    if port.is_passive() {
        return host_use::unknown(&port.name, &port.host_use).collect();
    }
    host_use::of_taken(&port.name, &port.host_use, |host_use| job.deprives(host_use))
}

/// What is to be known of a port.
fn facts(port: &PortReport) -> Vec<String> {
    let mut facts = vec![queues(port)];
    let mut fact = |words: String| facts.push(format!("{}: {words}", port.name));
    if let Some(filter) = &port.filter {
        fact(format!("the filter runs {}", filter.runs.in_words()));
    }
    if port.multi_buffer {
        fact("packets larger than a cell come in several".into());
    }
    if let Some(rss) = &port.rss {
        fact(format!("RSS is {rss}"));
    }
    port.fallbacks.iter().cloned().for_each(&mut fact);
    let timestamp = &port.timestamp;
    let (source, resolution_ns) = (timestamp.source, timestamp.resolution_ns);
    fact(format!("timestamps: {}, {}; resolution {resolution_ns} ns", source.as_str(), source.in_words()));
    fact(format!("clock: {}", timestamp.clock));
    facts
}

fn is_trace(port: &PortReport) -> bool {
    port.queues.iter().all(|queue| queue.mode == QueueMode::Replay)
}

/// Which queues there are, and their modes.
fn queues(port: &PortReport) -> String {
    let row = if port.is_passive() { "socket" } else { "queue" };
    let modes: Vec<_> = groups(port)
        .into_iter()
        .map(|(first, last, queue_mode)| match first == last {
            _ if queue_mode == QueueMode::Replay => mode(queue_mode).to_owned(),
            true => format!("{row} {first}: {}", mode(queue_mode)),
            false => format!("{row}s {first}-{last}: {}", mode(queue_mode)),
        })
        .collect();
    let driver = match &port.driver {
        Some(driver) => format!(" ({driver})"),
        None if is_trace(port) => String::new(),
        None => " (the kernel names no driver)".into(),
    };
    format!("{}{driver}, {}", port.name, modes.join(", "))
}

/// How packets get into cells, in few words; the manual has more.
fn mode(mode: QueueMode) -> &'static str {
    match mode {
        QueueMode::ZeroCopy => "native XDP, zero-copy",
        QueueMode::Copy => "native XDP, copy",
        QueueMode::Generic => "generic XDP, copy: slow",
        QueueMode::Packet => "AF_PACKET: the host keeps its packets",
        QueueMode::Replay => "a trace file, read into cells",
        QueueMode::Memory => "memory only",
        QueueMode::Host => "not captured: its packets go to the host",
    }
}

/// Runs of queues in the same mode.
fn groups(port: &PortReport) -> Vec<(u16, u16, QueueMode)> {
    let mut groups: Vec<(u16, u16, QueueMode)> = Vec::new();
    for queue in &port.queues {
        match groups.last_mut() {
            Some((_, last, mode)) if *mode == queue.mode && *last + 1 == queue.queue => *last = queue.queue,
            _ => groups.push((queue.queue, queue.queue, queue.mode)),
        }
    }
    groups
}

/// Threads and memory.
fn sizes(plan: &Plan, report: &Report) -> Vec<String> {
    let memory = &report.memory;
    let (m, r) = (memory.cells_per_chunk, memory.chunks_per_pool);
    let mode = match plan.mode {
        Mode::Basic => "basic mode".into(),
        Mode::Advanced { threshold_percent } => format!("T = {threshold_percent} %, advanced mode"),
    };
    let dispatch = match plan.dispatch {
        Dispatch::Pull => "pull",
        Dispatch::Push => "push",
    };
    let mut facts = vec![format!("{}, {dispatch}; {mode}", counted(report.workers.len(), "worker"))];
    let mib = memory.cells_bytes >> 20;
    if report.ports.iter().all(PortReport::is_passive) {
        let (blocks, kib) = (counted(r, "block"), (m * memory.cell_bytes) >> 10);
        facts.push(format!("{mib} MiB of rings"));
        facts.extend(bound(memory));
        facts.push(format!("M = {m}, R = {r}: {blocks} of {kib} KiB for each socket"));
        return facts;
    }
    facts.push(format!("{mib} MiB of packet memory"));
    facts.extend(bound(memory));
    facts.push(format!("pages: {}", memory.pages));
    facts.extend(memory.fallbacks.iter().cloned());
    if memory.ring_entries < m * r {
        facts.push(format!("the kernel has {} of the cells of a queue at once", memory.ring_entries));
    }
    facts.push(format!("M = {m}, R = {r}: {} per queue", counted(m * r, "packet")));
    facts
}

/// Why R is smaller than by default.
fn bound(memory: &MemoryReport) -> Option<String> {
    let bounded = memory.bounded.as_ref()?;
    let available = bounded.available_bytes >> 20;
    let whose = bounded.control_group.as_ref().map_or_else(
        || format!("the {available} MiB that are available"),
        |group| format!("the {available} MiB that the control group {} has left", group.display()),
    );
    Some(format!(
        "R would be {}, but that would take more than 1/{} of {whose}: --memory or -R sets it",
        bounded.chunks_per_pool, bounded.share
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_warning_names_the_remedy() {
        let warning = |m, cell_bytes, beyond| {
            let memory = MemoryReport { cells_per_chunk: m, cell_bytes, ..MemoryReport::default() };
            too_long(&memory, LengthLimit { bytes: 1_792, beyond })
        };
        assert!(warning(1, 2048, BeyondLimit::Lost).ends_with("and M is 1; write -M 64"));
        assert!(
            warning(256, 2048, BeyondLimit::Lost).ends_with("; --cell-bytes 4096 has room for longer ones")
        );
        assert!(warning(64, 4096, BeyondLimit::Lost).contains("multi-buffer"));
        assert!(warning(2, 2048, BeyondLimit::Cut).contains("will be cut: a block of M = 2 cells"));
    }
}
