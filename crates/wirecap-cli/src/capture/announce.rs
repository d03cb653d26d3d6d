//! The lines at the start: the mode of each queue, why not a better one, and the sizes.
//!
//! Rule: one line per fact, which fits 80 columns if names and reasons are short. The line with M and R is
//! the last.

use wirecap::{
    Diagnostic, Mode, Report,
    report::{MemoryReport, PortReport, QueueMode},
};

use super::{job::Job, plan::Plan};
use crate::text::{self, diagnostic::describe, host_use, numbered, plural::counted};

/// Prints how the capture runs.
pub(crate) fn start(plan: &Plan, report: &Report, job: &impl Job) {
    for port in &report.ports {
        facts(port).iter().for_each(|fact| note!("{fact}"));
        for warning in host_use_lines(port, job) {
            warn!("{warning}");
        }
    }
    sizes(plan, report).iter().for_each(|fact| note!("{fact}"));
}

/// Warns about packets that are too long for this geometry, also with `-q`. Not for trace files: the report
/// at the end counts their long packets.
pub(crate) fn warn(report: &Report) {
    for port in &report.ports {
        for fallback in port.fallbacks.iter().filter(|fallback| is_warned_of(port, fallback)) {
            warn!("{}: {}", port.name, describe(fallback));
        }
    }
}

fn is_warned_of(port: &PortReport, fallback: &Diagnostic) -> bool {
    matches!(fallback, Diagnostic::PacketsTooLong { .. }) && !is_trace(port)
}

/// Warnings about users of a port that no longer get its packets. Why a port is captured beside the host is a
/// line of its own.
fn host_use_lines(port: &PortReport, job: &impl Job) -> Vec<String> {
    if port.is_passive() {
        return host_use::unknown(&port.name, &port.host_use).collect();
    }
    host_use::of_taken(&port.name, &port.host_use, |host_use| job.deprives(host_use))
}

/// The lines about a port.
fn facts(port: &PortReport) -> Vec<String> {
    let mut facts = vec![queues(port)];
    let mut fact = |words: String| facts.push(format!("{}: {words}", port.name));
    if let Some(filter) = &port.filter {
        fact(format!("the filter runs {}", text::report::place(filter.runs)));
    }
    if port.multi_buffer {
        fact("packets larger than a cell come in several".into());
    }
    if let Some(rss) = &port.rss {
        fact(format!("RSS is {}", text::report::rss(rss)));
    }
    let fallbacks = port.fallbacks.iter().filter(|fallback| !is_warned_of(port, fallback));
    fallbacks.map(describe).for_each(&mut fact);
    let timestamp = &port.timestamp;
    let (source, resolution_ns) = (timestamp.source, timestamp.resolution_ns);
    fact(format!(
        "timestamps: {}, {}; resolution {resolution_ns} ns",
        source.as_str(),
        text::report::source(source)
    ));
    fact(format!("clock: {}", text::report::clock(&timestamp.clock)));
    facts
}

fn is_trace(port: &PortReport) -> bool {
    port.queues.iter().all(|queue| queue.mode == QueueMode::Trace)
}

/// The queues of a port, and their modes.
fn queues(port: &PortReport) -> String {
    let row = if port.is_passive() { "socket" } else { "queue" };
    let runs = port.queues.chunk_by(|a, b| a.mode == b.mode && a.queue + 1 == b.queue);
    let modes: Vec<_> = runs
        .map(|run| match run[0].mode {
            QueueMode::Trace => mode(QueueMode::Trace).to_owned(),
            alike => format!("{}: {}", numbered(row, run.iter().map(|queue| queue.queue)), mode(alike)),
        })
        .collect();
    let driver = match &port.driver {
        Some(driver) => format!(" ({driver})"),
        None if is_trace(port) => String::new(),
        None => " (unknown driver)".into(),
    };
    format!("{}{driver}, {}", port.name, modes.join(", "))
}

/// How packets get into cells, in few words; the book has more.
fn mode(mode: QueueMode) -> &'static str {
    match mode {
        QueueMode::ZeroCopy => "native XDP, zero-copy",
        QueueMode::Copy => "native XDP, copy",
        QueueMode::Packed => "native XDP, packed by the program",
        QueueMode::Generic => "generic XDP, copy: slow",
        QueueMode::Packet => "AF_PACKET: the host keeps its packets",
        QueueMode::Trace => "a trace file, read into cells",
        QueueMode::Memory => "memory only",
        QueueMode::Host => "not captured: its packets go to the host",
    }
}

/// The lines about threads and memory.
fn sizes(plan: &Plan, report: &Report) -> Vec<String> {
    let memory = &report.memory;
    let (m, r) = (memory.cells_per_chunk, memory.chunks_per_pool);
    let mode = match plan.config.mode {
        Mode::Basic => "basic mode".into(),
        Mode::Advanced { threshold_percent } => format!("T = {threshold_percent} %, advanced mode"),
    };
    let dispatch = plan.config.dispatch;
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
    facts.push(format!("pages: {}", text::report::pages(memory.pages)));
    facts.extend(memory.fallbacks.iter().map(describe));
    if memory.ring_entries < m * r {
        facts.push(format!("the kernel has at most {} of the cells of a queue at once", memory.ring_entries));
    }
    facts.push(format!("M = {m}, R = {r}: {} per queue", counted(m * r, "packet")));
    facts
}

/// Why R is smaller than by default.
fn bound(memory: &MemoryReport) -> Option<String> {
    let bounded = memory.bounded.as_ref()?;
    let available = bounded.available_bytes >> 20;
    let whose = bounded.control_group.as_ref().map_or_else(
        || format!("the {available} MiB of available memory"),
        |group| format!("the {available} MiB left in the control group {}", group.display()),
    );
    Some(format!(
        "R would be {}, but that would take more than 1/{} of {whose}; --memory or -R sets it",
        bounded.chunks_per_pool, bounded.share
    ))
}
