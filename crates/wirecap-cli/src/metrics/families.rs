//! Which metrics there are: a family for each figure, with a sample for each port, queue, worker and cause.
//!
//! Rule: names follow the conventions of Prometheus: the unit is in the name, counters end in `_total`,
//! ratios are between 0 and 1. What Prometheus computes itself, such as rates and sums, is no metric.

use serde_json::Value;
use wirecap::{
    Report,
    report::{Offload, PortReport, QueueReport, TransmitReport, WorkerReport},
};
use wirecap_record::WrittenCounts;

use crate::control::{
    board::{CaptureSnapshot, Identity},
    protocol::Status,
};

/// The unit of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Packets,
    Bytes,
    Seconds,
    Ratio,
    /// A number of things that the name says.
    None,
}

/// What a family is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Info,
}

/// The value of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Figure {
    Count(u64),
    Level(f64),
}

/// A value with its labels.
pub(super) type Sample = (Vec<(&'static str, String)>, Figure);

/// A metric with all its samples.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Family {
    /// Without the prefix, the unit and `_total`.
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) unit: Unit,
    pub(super) kind: Kind,
    pub(super) samples: Vec<Sample>,
}

/// All metrics of a capture.
pub(super) fn of(identity: &Identity, status: &Status, snapshot: Option<&CaptureSnapshot>) -> Vec<Family> {
    let mut families = of_process(identity, status);
    if let Some(CaptureSnapshot { report, offloads, written, account, .. }) = snapshot {
        families.extend(of_queues(report));
        families.extend(of_ports(report));
        families.extend(of_workers(report, offloads));
        families.extend(written.iter().flat_map(of_output));
        families.extend(of_transmit(report));
        families.extend(of_forwarding(&account["forwarded"]));
        families.extend(of_copies(&account["copied"]));
    }
    families.retain(|family| !family.samples.is_empty());
    families
}

fn counter(name: &'static str, unit: Unit, help: &'static str, samples: Vec<Sample>) -> Family {
    Family { name, help, unit, kind: Kind::Counter, samples }
}

fn gauge(name: &'static str, unit: Unit, help: &'static str, samples: Vec<Sample>) -> Family {
    Family { name, help, unit, kind: Kind::Gauge, samples }
}

fn of_process(identity: &Identity, status: &Status) -> Vec<Family> {
    let info = |name, help, labels| Family {
        name,
        help,
        unit: Unit::None,
        kind: Kind::Info,
        samples: vec![(labels, Figure::Count(1))],
    };
    let name = identity.name.clone().unwrap_or_default();
    let ports = identity.ports.join(",");
    let capture = vec![("name", name), ("command", identity.command.into()), ("ports", ports)];
    let level = |value| vec![(Vec::new(), Figure::Level(value))];
    let threshold =
        status.threshold_percent.map(|percent| (Vec::new(), Figure::Level(f64::from(percent) / 100.0)));
    let version = vec![("version", env!("CARGO_PKG_VERSION").into())];
    let running = if status.state == crate::control::protocol::Phase::Running { 1.0 } else { 0.0 };
    vec![
        info("build", "The version of wirecap.", version),
        info("capture", "What is captured.", capture),
        gauge("running", Unit::None, "1 while the capture runs, 0 while it starts or ends.", level(running)),
        gauge("uptime", Unit::Seconds, "Time since the capture was opened.", level(status.seconds)),
        gauge(
            "offload_threshold",
            Unit::Ratio,
            "T: how full a worker's pools are when its buddies begin to help.",
            threshold.into_iter().collect(),
        ),
    ]
}

/// The labels of a queue.
fn queue_labels(port: &PortReport, queue: u16) -> Vec<(&'static str, String)> {
    vec![("port", port.name.clone()), ("queue", queue.to_string())]
}

/// A sample for each queue.
fn each_queue(report: &Report, figure: impl Fn(&QueueReport) -> Figure) -> Vec<Sample> {
    let queues = report.ports.iter().flat_map(|port| port.queues.iter().map(move |queue| (port, queue)));
    queues.map(|(port, queue)| (queue_labels(port, queue.queue), figure(queue))).collect()
}

fn of_queues(report: &Report) -> Vec<Family> {
    let count = |figure: fn(&QueueReport) -> u64| each_queue(report, |queue| Figure::Count(figure(queue)));
    let level = |figure: fn(&QueueReport) -> f64| each_queue(report, |queue| Figure::Level(figure(queue)));
    let mut lost = Vec::new();
    for port in &report.ports {
        for queue in &port.queues {
            for (cause, packets) in queue.account.lost.causes() {
                let mut labels = queue_labels(port, queue.queue);
                labels.push(("cause", cause.into()));
                lost.push((labels, Figure::Count(packets)));
            }
        }
    }
    vec![
        counter("seen", Unit::Packets, "Packets that reached the queue.", count(|queue| queue.account.seen)),
        counter(
            "filtered",
            Unit::Packets,
            "Packets that did not match the filter.",
            count(|queue| queue.account.filtered),
        ),
        counter("passed", Unit::Packets, "Packets left to the host.", count(|queue| queue.account.passed)),
        counter(
            "delivered",
            Unit::Packets,
            "Packets given to workers.",
            count(|queue| queue.account.delivered),
        ),
        counter("lost", Unit::Packets, "Packets lost, by cause.", lost),
        gauge(
            "unexplained",
            Unit::Packets,
            "Packets that are on their way between two counters.",
            level(|queue| queue.unexplained as f64),
        ),
        gauge(
            "pool_used",
            Unit::Ratio,
            "How full the pool of the queue is.",
            level(|queue| queue.pool_used_percent / 100.0),
        ),
        gauge(
            "pool_peak",
            Unit::Ratio,
            "The fullest that the pool was since the start.",
            level(|queue| queue.pool_peak_percent / 100.0),
        ),
        counter(
            "fill_ring_empty",
            Unit::None,
            "How often the kernel found no free cell.",
            count(|queue| queue.fill_ring_empty),
        ),
        counter(
            "refused_cells",
            Unit::None,
            "Recycled cells that were refused; more than 0 is a defect of wirecap.",
            count(|queue| queue.refused),
        ),
        counter(
            "foreign_cells",
            Unit::None,
            "Cells reported by the driver that are not of the pool; more than 0 is a defect of the driver.",
            count(|queue| queue.foreign),
        ),
    ]
}

fn each_port(report: &Report, figure: impl Fn(&PortReport) -> Option<Figure>) -> Vec<Sample> {
    let sample = |port: &PortReport| Some((vec![("port", port.name.clone())], figure(port)?));
    report.ports.iter().filter_map(sample).collect()
}

fn of_ports(report: &Report) -> Vec<Family> {
    let count =
        |figure: fn(&PortReport) -> Option<u64>| each_port(report, |port| figure(port).map(Figure::Count));
    let level =
        |figure: fn(&PortReport) -> Option<f64>| each_port(report, |port| figure(port).map(Figure::Level));
    vec![
        counter(
            "dropped_before_xdp",
            Unit::Packets,
            "Packets that the NIC or its driver dropped, of the whole interface.",
            count(|port| Some(port.dropped_before_xdp)),
        ),
        counter(
            "untagged",
            Unit::Packets,
            "Packets whose VLAN tag could not be put back.",
            count(|port| port.untagged),
        ),
        counter(
            "cut",
            Unit::Packets,
            "Packets that were longer than the port can capture.",
            count(|port| port.cut),
        ),
        counter(
            "unstamped",
            Unit::Packets,
            "Packets that could not be stamped one by one.",
            count(|port| Some(port.timestamp.unstamped)),
        ),
        counter(
            "unsent",
            Unit::Packets,
            "Packets that the interface got and did not send, by its own counters.",
            count(|port| port.unsent),
        ),
        gauge(
            "port_removed",
            Unit::None,
            "1 if the interface is gone.",
            level(|port| Some(f64::from(u8::from(port.removed)))),
        ),
        gauge(
            "port_warnings",
            Unit::None,
            "Warnings about the port that the account has.",
            level(|port| Some(port.warnings.len() as f64)),
        ),
        gauge(
            "port_fallbacks",
            Unit::None,
            "What is not as asked for, or not as good as it could be.",
            level(|port| Some(port.fallbacks.len() as f64)),
        ),
        gauge(
            "trace_read",
            Unit::Ratio,
            "How much of a trace file is read.",
            level(|port| port.read_percent.map(|percent| percent / 100.0)),
        ),
    ]
}

fn of_workers(report: &Report, offloads: &[Offload]) -> Vec<Family> {
    let each = |figure: fn(&WorkerReport) -> u64| {
        let sample = |(number, worker): (usize, &WorkerReport)| {
            (vec![("worker", number.to_string())], Figure::Count(figure(worker)))
        };
        report.workers.iter().enumerate().map(sample).collect()
    };
    let offload = |&Offload { home, helper, packets }: &Offload| {
        (vec![("home", home.to_string()), ("helper", helper.to_string())], Figure::Count(packets))
    };
    vec![
        counter("worker", Unit::Packets, "Packets that the worker got.", each(|worker| worker.packets)),
        counter(
            "worker",
            Unit::Bytes,
            "Bytes of the packets that the worker got.",
            each(|worker| worker.bytes),
        ),
        counter(
            "worker_offloaded_in",
            Unit::Packets,
            "Packets that the worker took over from buddies.",
            each(|worker| worker.offloaded_in),
        ),
        counter(
            "worker_offloaded_out",
            Unit::Packets,
            "Packets of the worker's queues that buddies took over.",
            each(|worker| worker.offloaded_out),
        ),
        counter(
            "offloaded",
            Unit::Packets,
            "Packets of a worker's queues (home) that one buddy (helper) took over.",
            offloads.iter().map(offload).collect(),
        ),
    ]
}

fn of_output(written: &WrittenCounts) -> Vec<Family> {
    let one = |packets| vec![(Vec::new(), Figure::Count(packets))];
    let forced = [("memory", written.forced.memory), ("time", written.forced.time)];
    let forced = forced.map(|(limit, count)| (vec![("limit", limit.into())], Figure::Count(count)));
    vec![
        counter("written", Unit::Packets, "Packets in the output.", one(written.packets)),
        counter("written", Unit::Bytes, "Length of the output, all files together.", one(written.bytes)),
        counter(
            "deleted",
            Unit::Packets,
            "Packets in the output that are lost: another program deleted their file while it was written.",
            one(written.deleted),
        ),
        counter("output_files", Unit::None, "Files that were begun.", one(written.output_files)),
        gauge(
            "failed_outputs",
            Unit::None,
            "Outputs that have failed: nothing more is written to them.",
            vec![(Vec::new(), Figure::Level(written.failed_outputs as f64))],
        ),
        counter(
            "out_of_order",
            Unit::Packets,
            "Packets in the output that follow a later one.",
            one(written.out_of_order),
        ),
        counter(
            "not_taken",
            Unit::Packets,
            "Packets that the output did not accept in time.",
            one(written.not_taken),
        ),
        counter(
            "not_copied",
            Unit::Packets,
            "Packets in the output that the reader of its copy, or tcpdump, did not take in time.",
            one(written.not_copied),
        ),
        counter(
            "forced_writes",
            Unit::None,
            "How often packets were written although another queue might have had an earlier one.",
            forced.to_vec(),
        ),
    ]
}

fn of_transmit(report: &Report) -> Vec<Family> {
    let queues = || {
        let of_port = |port| move |queue| (port, queue);
        report.ports.iter().flat_map(move |port: &PortReport| port.transmitted.iter().map(of_port(port)))
    };
    let each = |figure: fn(&TransmitReport) -> Figure| -> Vec<Sample> {
        queues()
            .map(|(port, queue): (&PortReport, &TransmitReport)| {
                (queue_labels(port, queue.queue), figure(queue))
            })
            .collect()
    };
    let mut dropped = Vec::new();
    for (port, queue) in queues() {
        for (cause, packets) in queue.dropped.causes() {
            let mut labels = queue_labels(port, queue.queue);
            labels.push(("cause", cause.into()));
            dropped.push((labels, Figure::Count(packets)));
        }
    }
    vec![
        counter(
            "transmitted",
            Unit::Packets,
            "Packets given to the kernel to be sent.",
            each(|queue| Figure::Count(queue.packets)),
        ),
        counter(
            "transmitted",
            Unit::Bytes,
            "Bytes of these packets.",
            each(|queue| Figure::Count(queue.bytes)),
        ),
        counter("transmit_dropped", Unit::Packets, "Packets that could not be sent, by cause.", dropped),
        gauge(
            "transmit_in_flight_cells",
            Unit::None,
            "Cells that the kernel has and has not reported as sent.",
            each(|queue| Figure::Level(f64::from(queue.in_flight))),
        ),
    ]
}

/// What `--copy-to` adds to the account, with an interface.
fn of_copies(copied: &Value) -> Vec<Family> {
    let to = || copied["to"].as_str().map(|to| ("to", to.to_owned()));
    let each = |field: &str| {
        let sample = to().map(|to| (vec![to], Figure::Count(copied[field].as_u64().unwrap_or(0))));
        sample.into_iter().collect()
    };
    let mut dropped = Vec::new();
    for (cause, packets) in copied["dropped"].as_object().into_iter().flatten() {
        let labels = to().into_iter().chain([("cause", cause.clone())]).collect();
        dropped.push((labels, Figure::Count(packets.as_u64().unwrap_or(0))));
    }
    vec![
        counter("copied", Unit::Packets, "Packets that an interface accepted a copy of.", each("packets")),
        counter("copied", Unit::Bytes, "Bytes of these packets.", each("bytes")),
        counter("copy_dropped", Unit::Packets, "Packets that it got no copy of, by cause.", dropped),
    ]
}

/// What `wirecap forward` adds to its account.
fn of_forwarding(forwarded: &Value) -> Vec<Family> {
    let ports = || forwarded.as_array().into_iter().flatten();
    let from = |port: &Value| ("port", port["from"].as_str().unwrap_or_default().to_owned());
    let each = |field: &str| {
        let sample = |port: &Value| (vec![from(port)], Figure::Count(port[field].as_u64().unwrap_or(0)));
        ports().map(sample).collect()
    };
    let mut dropped = Vec::new();
    for port in ports() {
        for (cause, packets) in port["dropped"].as_object().into_iter().flatten() {
            dropped.push((
                vec![from(port), ("cause", cause.clone())],
                Figure::Count(packets.as_u64().unwrap_or(0)),
            ));
        }
    }
    vec![
        counter(
            "forwarded",
            Unit::Packets,
            "Packets that came in by the port and were given to the kernel for another one.",
            each("forwarded"),
        ),
        counter("forwarded", Unit::Bytes, "Bytes of these packets.", each("bytes")),
        counter(
            "forward_dropped",
            Unit::Packets,
            "Packets that came in by the port and were not forwarded, by cause.",
            dropped,
        ),
        counter(
            "icmp_errors_sent",
            Unit::None,
            "ICMP errors that a router sent about dropped packets.",
            each("icmp_errors_sent"),
        ),
    ]
}
