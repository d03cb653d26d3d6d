//! What is said at the start: which mode each queue runs in and why none better, and the sizes.

use wirecap::{
    Dispatch, Mode, Report,
    report::{PortReport, QueueMode},
};

use wirecap_core::words::counted;

use super::job::Job;
use crate::{exit::tell, host_use, plan::Plan};

/// Says how the capture runs.
pub(crate) fn start(plan: &Plan, report: &Report, job: &impl Job) {
    for port in &report.ports {
        tell(port_line(port));
        tell(timestamp_line(port));
        for warning in host_use_lines(port, job) {
            tell(format_args!("wirecap: WARNING: {warning}"));
        }
    }
    tell(sizes_line(plan, report));
}

/// Warnings about the users of a port that go without its packets. Why a port is captured beside the host is in its own line.
fn host_use_lines(port: &PortReport, job: &impl Job) -> Vec<String> {
    if port.is_passive() {
        return host_use::unknown(&port.name, &port.host_use).collect();
    }
    host_use::of_taken(&port.name, &port.host_use, |host_use| job.deprives(host_use))
}

fn timestamp_line(port: &PortReport) -> String {
    format!("wirecap: {}, timestamps: {}", port.name, port.timestamp.in_words())
}

fn port_line(port: &PortReport) -> String {
    let row = if port.is_passive() { "socket" } else { "queue" };
    let modes: Vec<_> = groups(port)
        .into_iter()
        .map(|(first, last, mode)| match first == last {
            _ if mode == QueueMode::Replay => mode.in_words().to_owned(),
            true => format!("{row} {first}: {}", mode.in_words()),
            false => format!("{row}s {first}-{last}: {}", mode.in_words()),
        })
        .collect();
    let is_trace = port.queues.iter().all(|queue| queue.mode == QueueMode::Replay);
    let driver = match &port.driver {
        Some(driver) => format!(" ({driver})"),
        None if is_trace => String::new(),
        None => " (the kernel names no driver)".into(),
    };
    let mut line = format!("wirecap: {}{driver}, {}", port.name, modes.join(", "));
    if let Some(filter) = &port.filter {
        line.push_str(&format!("; the filter runs {}", filter.runs.in_words()));
    }
    if port.multi_buffer {
        line.push_str("; packets larger than a cell come in several");
    }
    if let Some(rss) = &port.rss {
        line.push_str("; RSS is ");
        line.push_str(rss);
    }
    for fallback in &port.fallbacks {
        line.push_str("; ");
        line.push_str(fallback);
    }
    line
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

fn sizes_line(plan: &Plan, report: &Report) -> String {
    let (m, r) = (plan.geometry.cells_per_chunk(), plan.geometry.chunks_per_pool());
    let mode = match plan.mode {
        Mode::Basic => "basic mode".into(),
        Mode::Advanced { threshold_percent } => format!("T = {threshold_percent} %, advanced mode"),
    };
    let dispatch = match plan.dispatch {
        Dispatch::Pull => "pull",
        Dispatch::Push => "push",
    };
    let workers = counted(report.workers.len(), "worker");
    let mib = report.memory.cells_bytes >> 20;
    if report.ports.iter().all(PortReport::is_passive) {
        let kib = plan.geometry.chunk_bytes() >> 10;
        return format!(
            "wirecap: M = {m}, R = {r}: {} of {kib} KiB for each socket; {mode}, {dispatch}, {workers}; {mib} MiB of rings",
            counted(r, "block")
        );
    }
    let mut line = format!(
        "wirecap: M = {m}, R = {r}: {} per queue; {mode}, {dispatch}, {workers}; {mib} MiB of packet memory, pages: {}",
        counted(plan.geometry.cells_per_pool(), "packet"),
        report.memory.pages,
    );
    if report.memory.ring_entries < plan.geometry.cells_per_pool() {
        line.push_str(&format!("; the kernel has {} of the cells at once", report.memory.ring_entries));
    }
    for fallback in &report.memory.fallbacks {
        line.push_str("; ");
        line.push_str(fallback);
    }
    line
}
