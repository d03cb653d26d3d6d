//! The lines at the start: the mode of each queue, why not a better one, and the sizes.
//!
//! Rule: one line per fact, which fits 80 columns if names and reasons are short. The line with M and R is
//! the last.

use std::io::{self, IsTerminal};

use wirecap::{
    Config, Diagnostic, Mode, Report, TapHook, UnmatchedPolicy,
    report::{FilterPlace, MemoryReport, PortReport, QueueMode},
};

use super::{
    job::Job,
    plan::{Destination, Plan},
    written_files::FilesProgress,
};
use crate::text::{self, diagnostic::describe, host_use, numbered, plural::counted, report::RowKind};

const MIB: u64 = 1 << 20;

/// Prints how the capture runs, and into which files.
pub(crate) fn start<J: Job>(plan: &Plan, report: &Report, files: Option<&FilesProgress>, job: &J) {
    for port in &report.ports {
        let warnings = host_use_lines(port, job);
        // The warnings say the same, and who goes without.
        let of_host = if warnings.is_empty() { host_share(port, plan.config.unmatched) } else { None };
        facts(port, of_host).iter().for_each(|fact| note!("{fact}"));
        warnings.iter().for_each(|warning| warn!("{warning}"));
    }
    if let (Some(name), Some(files)) = (plan.describe_destination(), files) {
        let is_per_queue = matches!(plan.destination, Some(Destination::FilePerQueue(..)));
        match (is_per_queue, plan.output.rotates()) {
            (true, false) => note!("{} files, one for each queue: {name}", files.count()),
            (true, true) => note!("{} series of files, one for each queue: {name}", files.count()),
            (false, true) => note!("a series of files: {name}"),
            (false, false) => {}
        }
    }
    // Users of tcpdump expect a line for each packet; scripts do not.
    if J::ONLY_COUNTS && plan.destination.is_none() && io::stderr().is_terminal() {
        note!("packets are only counted: --print prints a line for each, -w FILE writes them");
    }
    sizes(&plan.config, report).iter().for_each(|fact| note!("{fact}"));
}

/// Warns about packets that are too long for this geometry, and about programs that get packets first, also
/// with `-q`. Not about long packets of trace files: the report at the end counts those.
pub(crate) fn warn(report: &Report) {
    for port in &report.ports {
        for fallback in port.fallbacks.iter().filter(|fallback| is_warned_of(port, fallback)) {
            warn!("{}: {}", port.name, describe(fallback));
        }
    }
}

fn is_warned_of(port: &PortReport, fallback: &Diagnostic) -> bool {
    match fallback {
        Diagnostic::PacketsTooLong { .. } => !is_trace(port),
        fallback => matches!(fallback, Diagnostic::XdpProgramFirst { .. }),
    }
}

/// Warnings about users of a port that no longer get its packets. Why a port is captured passively is a
/// line of its own.
fn host_use_lines(port: &PortReport, job: &impl Job) -> Vec<String> {
    if port.is_passive() {
        return host_use::unknown(&port.name, &port.host_use).collect();
    }
    host_use::of_taken(&port.name, &port.host_use, |host_use| job.deprives(host_use))
}

/// What the host gets of a port whose packets are taken, in words; `None` of other ports.
fn host_share(port: &PortReport, unmatched: Option<UnmatchedPolicy>) -> Option<&'static str> {
    use QueueMode::{Copy, Generic, Packed, ZeroCopy};
    let is_taken = port.queues.iter().any(|queue| matches!(queue.mode, ZeroCopy | Copy | Packed | Generic));
    let in_kernel = port.filter.as_ref().is_some_and(|filter| filter.runs == FilterPlace::Kernel);
    let passes = in_kernel && unmatched.unwrap_or_default() == UnmatchedPolicy::Pass;
    is_taken.then_some(match passes {
        true => "the host gets only packets that the filter rejects",
        false => "the host gets none of its packets while wirecap runs",
    })
}

/// The lines about a port, of which the host gets this.
fn facts(port: &PortReport, of_host: Option<&str>) -> Vec<String> {
    let mut facts = vec![queues(port)];
    let mut fact = |words: String| facts.push(format!("{}: {words}", port.name));
    of_host.map(String::from).into_iter().for_each(&mut fact);
    if let Some(filter) = &port.filter {
        fact(format!("the filter runs {}", text::report::place(filter.runs)));
    }
    // In a block, a packet is one piece.
    let in_cells = port.queues.iter().any(|queue| !matches!(queue.mode, QueueMode::Packed | QueueMode::Tap));
    if port.multi_buffer && in_cells {
        fact("packets larger than a cell come in several".into());
    }
    if let Some(rss) = &port.rss {
        fact(format!("RSS is {}", text::rss::report(rss)));
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
    let row = RowKind::of(port).as_str();
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
    let places = Places::of(report);
    facts.push(places.memories(memory).join(", "));
    facts.extend(bound(memory));
    facts.extend(memory.pages.map(|pages| format!("pages: {}", text::report::pages(pages))));
    facts.extend(memory.fallbacks.iter().map(describe));
    if let Some(entries) = memory.ring_entries.filter(|&entries| entries < m * r) {
        facts.push(format!("the kernel has at most {entries} of the cells of a queue at once"));
    }
    facts.push(format!("M = {m}, R = {r}: {}", places.pool(memory)));
    facts
}

/// Where packets lie, in queues.
#[derive(Debug, Default)]
struct Places {
    /// In cells of the packet memory.
    cells: u64,
    /// In blocks of receive queues.
    packed: u64,
    /// In blocks of cores.
    tapped: u64,
    /// In rings of AF_PACKET.
    rings: u64,
}

impl Places {
    fn of(report: &Report) -> Self {
        let mut places = Self::default();
        for queue in report.ports.iter().flat_map(|port| &port.queues) {
            match queue.mode {
                QueueMode::Packed => places.packed += 1,
                QueueMode::Tap => places.tapped += 1,
                QueueMode::Packet => places.rings += 1,
                QueueMode::Host => {}
                QueueMode::ZeroCopy
                | QueueMode::Copy
                | QueueMode::Generic
                | QueueMode::Trace
                | QueueMode::Memory => places.cells += 1,
            }
        }
        places
    }

    /// Each kind of memory, with its size.
    fn memories(&self, memory: &MemoryReport) -> Vec<String> {
        let pool = u64::from(memory.cells_per_chunk)
            * u64::from(memory.chunks_per_pool)
            * u64::from(memory.cell_bytes);
        let (blocks, rings) = ((self.packed + self.tapped) * pool, self.rings * pool);
        // Allocators have cells, too.
        let cells = memory.cells_bytes.saturating_sub(blocks + rings);
        let line = |(bytes, name): (u64, &str)| match bytes {
            0 => None,
            1..MIB => Some(format!("{} KiB of {name}", bytes >> 10)),
            MIB.. => Some(format!("{} MiB of {name}", bytes >> 20)),
        };
        [(cells, "packet memory"), (blocks, "blocks"), (rings, "rings")]
            .into_iter()
            .filter_map(line)
            .collect()
    }

    /// What a pool holds, and what has one.
    fn pool(&self, memory: &MemoryReport) -> String {
        let (m, r) = (memory.cells_per_chunk, memory.chunks_per_pool);
        let packets = counted(m * r, "packet");
        let (blocks, kib) = (counted(r, "block"), (m * memory.cell_bytes) >> 10);
        let owners = [(self.cells + self.packed, "queue"), (self.tapped, "core"), (self.rings, "socket")];
        let owners: Vec<_> =
            owners.into_iter().filter(|&(queues, _)| queues > 0).map(|(_, name)| name).collect();
        let per = owners.join(" or ");
        match (self.cells, self.packed + self.tapped + self.rings) {
            (_, 0) => format!("{packets} per queue"),
            (0, _) => format!("{blocks} of {kib} KiB per {per}"),
            _ => format!("{packets}, or {blocks} of {kib} KiB, per {per}"),
        }
    }
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
    use wirecap::report::{FilterReport, Pages, QueueReport, WorkerReport};

    use super::*;

    /// The lines about a capture with a queue of each of these modes, on a port of its own.
    fn lines(modes: &[QueueMode], chunks_per_pool: u32) -> Vec<String> {
        let port = |&mode| PortReport {
            queues: vec![QueueReport { mode, ..QueueReport::default() }],
            ..PortReport::default()
        };
        let in_cells =
            |mode: &&QueueMode| !matches!(mode, QueueMode::Packed | QueueMode::Tap | QueueMode::Packet);
        let memory = MemoryReport {
            cells_bytes: modes.len() as u64 * u64::from(chunks_per_pool) * (512 << 10),
            cells_per_chunk: 256,
            chunks_per_pool,
            cell_bytes: 2048,
            pages: modes.iter().find(in_cells).map(|_| Pages::Normal),
            ring_entries: modes.contains(&QueueMode::Copy).then_some(256),
            fallbacks: vec![Diagnostic::ControlGroupUnseen { group: "/g".into() }],
            ..MemoryReport::default()
        };
        let ports = modes.iter().map(port).collect();
        let (workers, threshold_percent) = (vec![WorkerReport::default()], None);
        let report = Report { seconds: 0.0, threshold_percent, ports, workers, memory };
        let mut lines = sizes(&Config::default(), &report);
        assert_eq!(lines.remove(0), "1 worker, pull; T = 60 %, advanced mode");
        let unseen = lines.iter().position(|line| line.contains("control group /g limits memory is unknown"));
        lines.remove(unseen.expect("a line about the control group"));
        lines
    }

    #[test]
    fn what_the_host_gets_of_a_taken_port_is_said() {
        let with = |mode, runs: Option<FilterPlace>| PortReport {
            filter: runs.map(|runs| FilterReport { expression: "udp".into(), runs }),
            queues: vec![QueueReport { mode, ..QueueReport::default() }],
            ..PortReport::default()
        };
        let (none, rejected) = (
            Some("the host gets none of its packets while wirecap runs"),
            Some("the host gets only packets that the filter rejects"),
        );
        let (kernel, user) = (Some(FilterPlace::Kernel), Some(FilterPlace::Interpreter));
        for (mode, runs, unmatched, expected) in [
            (QueueMode::Packed, None, None, none),
            (QueueMode::ZeroCopy, user, None, none),
            (QueueMode::Copy, kernel, None, rejected),
            (QueueMode::Generic, kernel, Some(UnmatchedPolicy::Drop), none),
            (QueueMode::Tap, kernel, None, None),
            (QueueMode::Packet, None, None, None),
            (QueueMode::Trace, None, None, None),
        ] {
            assert_eq!(host_share(&with(mode, runs), unmatched), expected, "{mode:?} {runs:?}");
        }
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
    fn the_sizes_are_those_of_each_kind_of_memory() {
        use QueueMode::{Copy, Packed, Packet, Tap, Trace};
        let blocks = "M = 256, R = 128: 128 blocks of 512 KiB per";
        for (modes, expected) in [
            (&[Packed; 2][..], ["128 MiB of blocks", &format!("{blocks} queue")]),
            (&[Tap], ["64 MiB of blocks", &format!("{blocks} core")]),
            (&[Packet], ["64 MiB of rings", &format!("{blocks} socket")]),
            (&[Tap, Packed], ["128 MiB of blocks", &format!("{blocks} queue or core")]),
            (&[Tap, Packet], ["64 MiB of blocks, 64 MiB of rings", &format!("{blocks} core or socket")]),
        ] {
            assert_eq!(lines(modes, 128), expected, "{modes:?}");
        }
        assert_eq!(lines(&[Packet], 1)[0], "512 KiB of rings");
        let pages = "pages: normal (4 KiB, transparent huge pages requested)";
        let both = "M = 256, R = 128: 32768 packets, or 128 blocks of 512 KiB, per queue";
        assert_eq!(lines(&[Packed, Trace], 128), ["64 MiB of packet memory, 64 MiB of blocks", pages, both]);
        let cells = ["128 MiB of packet memory", pages, "M = 256, R = 128: 32768 packets per queue"];
        assert_eq!(lines(&[Trace; 2], 128), cells);
        let few = "the kernel has at most 256 of the cells of a queue at once";
        assert_eq!(lines(&[Copy; 2], 128), [cells[0], cells[1], few, cells[2]]);
    }
}
