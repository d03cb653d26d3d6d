//! The lines at the start: the mode of each queue, why not a better one, and the sizes.
//!
//! Rule: one line per fact, which fits 80 columns if names and reasons are short. The line with M and R is
//! the last.

use wirecap::{
    Config, Diagnostic, Mode, Report, TapHook,
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
    sizes(&plan.config, report).iter().for_each(|fact| note!("{fact}"));
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
    // In a block, a packet is one piece.
    let in_cells = port.queues.iter().any(|queue| !matches!(queue.mode, QueueMode::Packed | QueueMode::Tap));
    if port.multi_buffer && in_cells {
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
    let row = text::report::row(port);
    let runs = port.queues.chunk_by(|a, b| a.mode == b.mode && a.queue + 1 == b.queue);
    let modes: Vec<_> = runs
        .map(|run| match run[0].mode {
            QueueMode::Trace => mode(QueueMode::Trace).to_owned(),
            alike => {
                let mode = if port.tap_hook == Some(TapHook::Xdp) { TAPPED_BY_XDP } else { mode(alike) };
                format!("{}: {mode}", numbered(row, run.iter().map(|queue| queue.queue)))
            }
        })
        .collect();
    let driver = match &port.driver {
        Some(driver) => format!(" ({driver})"),
        None if is_trace(port) => String::new(),
        None => " (unknown driver)".into(),
    };
    format!("{}{driver}, {}", port.name, modes.join(", "))
}

/// The mode of a tap that copies what comes in by XDP.
const TAPPED_BY_XDP: &str = "tapped, incoming packets by native XDP: the host keeps its packets";

/// How packets get into cells, in few words; the book has more.
fn mode(mode: QueueMode) -> &'static str {
    match mode {
        QueueMode::ZeroCopy => "native XDP, zero-copy",
        QueueMode::Copy => "native XDP, copy",
        QueueMode::Packed => "native XDP, packed by the program",
        QueueMode::Generic => "generic XDP, copy: slow",
        QueueMode::Packet => "AF_PACKET: the host keeps its packets",
        QueueMode::Tap => "tapped: the host keeps its packets",
        QueueMode::Trace => "a trace file, read into cells",
        QueueMode::Memory => "memory only",
        QueueMode::Host => "not captured: its packets go to the host",
    }
}

/// The lines about threads and memory.
fn sizes(config: &Config, report: &Report) -> Vec<String> {
    let memory = &report.memory;
    let (m, r) = (memory.cells_per_chunk, memory.chunks_per_pool);
    let mode = match config.mode {
        Mode::Basic => "basic mode".into(),
        Mode::Advanced { threshold_percent } => format!("T = {threshold_percent} %, advanced mode"),
    };
    let dispatch = config.dispatch;
    let mut facts = vec![format!("{}, {dispatch}; {mode}", counted(report.workers.len(), "worker"))];
    let mib = memory.cells_bytes >> 20;
    if let Some((memory_name, row)) = blocks(report) {
        let (blocks, kib) = (counted(r, "block"), (m * memory.cell_bytes) >> 10);
        facts.push(format!("{mib} MiB of {memory_name}"));
        facts.extend(bound(memory));
        facts.push(format!("M = {m}, R = {r}: {blocks} of {kib} KiB {row}"));
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

/// If all packets lie in blocks, outside of the packet memory: the name of that memory, and what R is per.
fn blocks(report: &Report) -> Option<(&'static str, &'static str)> {
    let mut modes = report.ports.iter().flat_map(|port| &port.queues).map(|queue| queue.mode);
    let first = modes.next()?;
    let names = match first {
        QueueMode::Packet => ("rings", "for each socket"),
        QueueMode::Packed => ("blocks", "per queue"),
        QueueMode::Tap => ("blocks", "per core"),
        _ => return None,
    };
    modes.all(|mode| mode == first).then_some(names)
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

#[cfg(test)]
mod tests {
    use wirecap::report::{QueueReport, WorkerReport};

    use super::*;

    /// The lines about a capture with a queue of each of these modes, on a port of its own.
    fn lines(modes: &[QueueMode]) -> Vec<String> {
        let port = |&mode| PortReport {
            queues: vec![QueueReport { mode, ..QueueReport::default() }],
            ..PortReport::default()
        };
        let memory = MemoryReport {
            cells_bytes: modes.len() as u64 * (64 << 20),
            cells_per_chunk: 256,
            chunks_per_pool: 128,
            cell_bytes: 2048,
            ring_entries: 32_768,
            ..MemoryReport::default()
        };
        let ports = modes.iter().map(port).collect();
        let report = Report { seconds: 0.0, ports, workers: vec![WorkerReport::default()], memory };
        sizes(&Config::default(), &report)
    }

    #[test]
    fn the_line_of_a_tap_names_native_xdp() {
        let line = |tap_hook| {
            let tapped = QueueReport { mode: QueueMode::Tap, ..QueueReport::default() };
            let driver = Some("veth".into());
            let name = "in0".into();
            queues(&PortReport { name, driver, tap_hook, queues: vec![tapped], ..PortReport::default() })
        };
        assert_eq!(line(Some(TapHook::Tcx)), "in0 (veth), core 0: tapped: the host keeps its packets");
        let by_xdp = "in0 (veth), core 0: tapped, incoming packets by native XDP: the host keeps its packets";
        assert_eq!(line(Some(TapHook::Xdp)), by_xdp);
    }

    #[test]
    fn the_sizes_are_those_of_cells_or_of_blocks() {
        let threads = "1 worker, pull; T = 60 %, advanced mode";
        let packed = lines(&[QueueMode::Packed; 2]);
        assert_eq!(
            packed,
            [threads, "128 MiB of blocks", "M = 256, R = 128: 128 blocks of 512 KiB per queue"]
        );
        let tapped = lines(&[QueueMode::Tap]);
        assert_eq!(tapped[2], "M = 256, R = 128: 128 blocks of 512 KiB per core");
        let passive = lines(&[QueueMode::Packet]);
        let expected =
            [threads, "64 MiB of rings", "M = 256, R = 128: 128 blocks of 512 KiB for each socket"];
        assert_eq!(passive, expected);
        for modes in [[QueueMode::Copy, QueueMode::Copy], [QueueMode::Packed, QueueMode::Trace]] {
            let [_, memory, pages, sizes] = &lines(&modes)[..] else { panic!("{modes:?}") };
            assert_eq!((memory.as_str(), pages.starts_with("pages: ")), ("128 MiB of packet memory", true));
            assert_eq!(sizes, "M = 256, R = 128: 32768 packets per queue");
        }
    }
}
