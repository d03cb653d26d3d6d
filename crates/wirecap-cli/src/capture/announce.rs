//! What is said at the start: which mode each queue runs in and why none better, and the sizes.

use wirecap::{
    Dispatch, Mode, Report,
    report::{BeyondLimit, LengthLimit, PortReport, QueueMode},
};
use wirecap_core::{Geometry, geometry::MIN_CELLS_PER_CHUNK_MULTI_BUFFER, words::counted};

use crate::{exit::tell, plan::Plan};

/// Says how the capture runs.
pub(crate) fn start(plan: &Plan, report: &Report) {
    for port in &report.ports {
        tell(port_line(port));
        tell(timestamp_line(port));
    }
    tell(sizes_line(plan, report));
}

/// Warns about packets too long for this geometry, also with `-q`. A trace file is excluded: the report at the end counts its long
/// packets, if it has any.
pub(crate) fn warn(plan: &Plan, report: &Report) {
    let interfaces = report.ports.iter().filter(|port| !is_trace(port));
    for (port, limit) in interfaces.filter_map(|port| Some((port, port.length_limit?))) {
        tell(format_args!("wirecap: WARNING: {}: {}", port.name, too_long(plan.geometry, limit)));
    }
}

/// Describes which packets are too long, why, and the remedy.
fn too_long(geometry: Geometry, LengthLimit { bytes, beyond }: LengthLimit) -> String {
    let (m, least) = (geometry.cells_per_chunk(), MIN_CELLS_PER_CHUNK_MULTI_BUFFER);
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
            let remedy = match geometry.cell_bytes() < 4096 {
                true => "; --cell-bytes 4096 has room for longer ones",
                false => "; a driver with multi-buffer XDP would split them",
            };
            format!(
                "packets longer than {bytes} bytes will be lost (too_long): this interface does not split packets over several cells{remedy}"
            )
        }
    }
}

fn timestamp_line(port: &PortReport) -> String {
    format!("wirecap: {}, timestamps: {}", port.name, port.timestamp.in_words())
}

fn is_trace(port: &PortReport) -> bool {
    port.queues.iter().all(|queue| queue.mode == QueueMode::Replay)
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
    let driver = match &port.driver {
        Some(driver) => format!(" ({driver})"),
        None if is_trace(port) => String::new(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_warning_names_the_remedy() {
        let warning = |m, cell_bytes, beyond| {
            let geometry = Geometry::new(m, 8, cell_bytes).unwrap();
            too_long(geometry, LengthLimit { bytes: 1_792, beyond })
        };
        assert!(warning(1, 2048, BeyondLimit::Lost).ends_with("and M is 1; write -M 64"));
        assert!(
            warning(256, 2048, BeyondLimit::Lost).ends_with("; --cell-bytes 4096 has room for longer ones")
        );
        assert!(warning(64, 4096, BeyondLimit::Lost).contains("multi-buffer"));
        assert!(warning(2, 2048, BeyondLimit::Cut).contains("will be cut: a block of M = 2 cells"));
    }
}
