//! What stands around the packets: who captured, on what, and the account.

use std::{
    fs,
    time::{SystemTime, UNIX_EPOCH},
};

use wirecap::{Diagnostic, QueueAccount, Report, report::PortReport};
use wirecap_file::{
    Format, LINK_TYPE_ETHERNET, MAX_CAPTURED_LEN, pcap,
    pcapng::{self, Counters, InterfaceInfo, InterfaceStatistics, SectionInfo},
};
use wirecap_sys::netdev::Interface;

use super::{place::Place, times};
use crate::{plan::Plan, text::diagnostic};

/// What stands in front of the packets.
pub(crate) fn header(plan: &Plan, places: &[Place], report: &Report) -> Vec<u8> {
    let mut out = Vec::new();
    match plan.destination.as_ref().map(|destination| destination.format()) {
        Some(Format::Pcap) => pcap::file_header(&mut out, report.ports[0].link_type, plan.snaplen),
        Some(Format::Pcapng) => {
            let os = os();
            let application = concat!("wirecap ", env!("CARGO_PKG_VERSION"));
            let info =
                SectionInfo { os: os.as_deref(), application: Some(application), ..SectionInfo::default() };
            pcapng::section_header(&mut out, &info);
            for (place, port) in places.iter().zip(&report.ports) {
                match place {
                    Place::Interface(interface, _) => {
                        describe(&mut out, interface, port, plan, os.as_deref())
                    }
                    Place::Trace(_) => describe_trace(&mut out, port, plan),
                }
            }
        }
        None => {}
    }
    out
}

fn describe(out: &mut Vec<u8>, interface: &Interface, port: &PortReport, plan: &Plan, os: Option<&str>) {
    let timestamps = format!("timestamps: {}", port.timestamp.in_words());
    let hardware = interface.driver.as_ref().map(|driver| match &driver.bus {
        Some(bus) => format!("{} at {bus}", driver.name),
        None => driver.name.clone(),
    });
    let info = InterfaceInfo {
        name: Some(&interface.name),
        link_type: link_type(interface),
        snaplen: told_snaplen(plan.snaplen),
        filter: plan.filter.as_deref(),
        speed_bps: interface.speed_mbps.map(|mbps| u64::from(mbps) * 1_000_000),
        hardware: hardware.as_deref(),
        mac: interface.mac.map(|mac| mac.0),
        os,
        comments: &[&timestamps],
        ..InterfaceInfo::default()
    };
    pcapng::interface(out, &info);
}

/// The name is all that is said of a trace file: it may have had several interfaces.
fn describe_trace(out: &mut Vec<u8>, port: &PortReport, plan: &Plan) {
    let timestamps = format!("timestamps: {}", port.timestamp.in_words());
    let info = InterfaceInfo {
        name: Some(&port.name),
        link_type: port.link_type,
        snaplen: told_snaplen(plan.snaplen),
        filter: plan.filter.as_deref(),
        comments: &[&timestamps],
        ..InterfaceInfo::default()
    };
    pcapng::interface(out, &info);
}

/// What dumpcap and tcpdump write for "all of it". Readers may make room for as much; no packet has more.
fn told_snaplen(snaplen: u32) -> u32 {
    if snaplen == 0 { MAX_CAPTURED_LEN } else { snaplen }
}

/// What packets of the interface begin with. A capture of one that cannot be said of does not come about.
fn link_type(interface: &Interface) -> u16 {
    interface.hardware_type.link_type().unwrap_or(LINK_TYPE_ETHERNET)
}

/// The operating system and its release.
fn os() -> Option<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    Some(format!("Linux {}", release.trim()))
}

/// What stands behind the packets: the account of each port. Empty for pcap, which has no room for it.
pub(crate) fn trailer(report: &Report, format: Format, started: SystemTime, unwritten: u64) -> Vec<u8> {
    let mut out = Vec::new();
    if format == Format::Pcapng {
        let (start_ns, end_ns) = (nanoseconds(started), nanoseconds(SystemTime::now()));
        for (interface, port) in report.ports.iter().enumerate() {
            statistics(&mut out, interface as u32, port, (start_ns, end_ns), unwritten);
        }
    }
    out
}

fn statistics(
    out: &mut Vec<u8>,
    interface: u32,
    port: &PortReport,
    (start_ns, end_ns): (u64, u64),
    unwritten: u64,
) {
    let account = account(port);
    let mut comments = vec![format!(
        "wirecap account: seen {} = filtered {} + passed to the host {} + delivered {} + lost {}",
        account.seen,
        account.filtered,
        account.passed,
        account.delivered,
        account.lost.total()
    )];
    comments.extend(account.lost.causes().iter().map(|(cause, packets)| format!("lost, {cause}: {packets}")));
    comments.extend(times::bounds(&port.timestamp).iter().map(|bound| format!("timestamps: {bound}")));
    let is_of_packets =
        |warning: &&Diagnostic| matches!(warning, Diagnostic::Unstamped { .. } | Diagnostic::Untagged { .. });
    comments.extend(port.warnings.iter().filter(is_of_packets).map(diagnostic::describe));
    if unwritten > 0 {
        comments.push(format!("delivered and not in this file, all interfaces together: {unwritten}"));
    }
    let comments: Vec<&str> = comments.iter().map(String::as_str).collect();
    let statistics = InterfaceStatistics {
        interface,
        timestamp_ns: end_ns,
        start_ns: Some(start_ns),
        end_ns: Some(end_ns),
        counters: Counters {
            received: Some(account.seen),
            dropped_by_interface: Some(port.dropped_before_xdp),
            filter_accepted: None,
            dropped_by_os: Some(account.lost.total()),
            delivered_to_user: Some(account.delivered),
        },
        comments: &comments,
    };
    pcapng::interface_statistics(out, &statistics);
}

/// The accounts of a port's queues added up.
pub(crate) fn account(port: &PortReport) -> QueueAccount {
    let mut total = QueueAccount::default();
    for queue in &port.queues {
        total += queue.account();
    }
    total
}

fn nanoseconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
