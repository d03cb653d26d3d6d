//! What is said at the start: which mode each queue runs in and why none better, and the sizes.
//!
//! Rule: one line a fact, in a terminal of 80 columns, too, as long as names and reasons are short. The line with M and R is
//! the last one.

use wirecap::{
    Dispatch, Mode, Report, Timestamp,
    report::{PortReport, QueueMode},
};

use wirecap_core::words::counted;

use crate::{exit::tell, plan::Plan};

/// Says how the capture runs.
pub(crate) fn start(plan: &Plan, report: &Report) {
    for fact in report.ports.iter().flat_map(facts).chain(sizes(plan, report)) {
        tell(format_args!("wirecap: {fact}"));
    }
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
    let (source, resolution_ns) = (timestamp.source.as_str(), timestamp.resolution_ns);
    fact(format!("timestamps: {source}, {}; resolution {resolution_ns} ns", whose(timestamp.source)));
    fact(format!("clock: {}", timestamp.clock));
    facts
}

/// Which packets have a time of their own.
fn whose(source: Timestamp) -> &'static str {
    match source {
        Timestamp::Hardware => "of each packet by the NIC",
        Timestamp::Kernel => "of each packet in the kernel",
        Timestamp::Batch => "once per batch",
        Timestamp::File => "of each packet as the file has it",
    }
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
    let is_trace = port.queues.iter().all(|queue| queue.mode == QueueMode::Replay);
    let driver = match &port.driver {
        Some(driver) => format!(" ({driver})"),
        None if is_trace => String::new(),
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
    let (m, r) = (plan.geometry.cells_per_chunk(), plan.geometry.chunks_per_pool());
    let mode = match plan.mode {
        Mode::Basic => "basic mode".into(),
        Mode::Advanced { threshold_percent } => format!("T = {threshold_percent} %, advanced mode"),
    };
    let dispatch = match plan.dispatch {
        Dispatch::Pull => "pull",
        Dispatch::Push => "push",
    };
    let mut facts = vec![format!("{}, {dispatch}; {mode}", counted(report.workers.len(), "worker"))];
    let mib = report.memory.cells_bytes >> 20;
    if report.ports.iter().all(PortReport::is_passive) {
        let (blocks, kib) = (counted(r, "block"), plan.geometry.chunk_bytes() >> 10);
        facts.push(format!("{mib} MiB of rings"));
        facts.push(format!("M = {m}, R = {r}: {blocks} of {kib} KiB for each socket"));
        return facts;
    }
    facts.push(format!("{mib} MiB of packet memory"));
    facts.push(format!("pages: {}", report.memory.pages));
    facts.extend(report.memory.fallbacks.iter().cloned());
    if report.memory.ring_entries < plan.geometry.cells_per_pool() {
        facts.push(format!("the kernel has {} of the cells of a queue at once", report.memory.ring_entries));
    }
    let packets = counted(plan.geometry.cells_per_pool(), "packet");
    facts.push(format!("M = {m}, R = {r}: {packets} per queue"));
    facts
}
