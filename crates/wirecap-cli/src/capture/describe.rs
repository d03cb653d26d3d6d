//! What a file has besides packets: which program captured, on which interfaces, and how exact the times are.

use std::fs;

use wirecap::{Diagnostic, Report, report::PortReport};
use wirecap_file::{
    Format, LINK_TYPE_ETHERNET, MAX_CAPTURED_LEN,
    pcapng::{self, InterfaceInfo, SectionInfo},
};

use super::{place::Place, plan::Plan, times};
use crate::text::{self, diagnostic};

/// The blocks in front of the packets; `None` in classic pcap, where nothing can be described.
pub(crate) fn header(plan: &Plan, places: &[Place], report: &Report) -> Option<Vec<u8>> {
    let destination = plan.destination.as_ref()?;
    if destination.format() == Format::Pcap {
        return None;
    }
    let (mut out, os) = (Vec::new(), os());
    let application = concat!("wirecap ", env!("CARGO_PKG_VERSION"));
    let info = SectionInfo { os: os.as_deref(), application: Some(application), ..SectionInfo::default() };
    pcapng::section_header(&mut out, &info);
    for (place, port) in places.iter().zip(&report.ports) {
        describe(&mut out, place, port, plan, os.as_deref());
    }
    Some(out)
}

/// The block of a port. For a trace file it has only the name: the file may have had several interfaces.
fn describe(out: &mut Vec<u8>, place: &Place, port: &PortReport, plan: &Plan, os: Option<&str>) {
    let timestamps = format!("timestamps: {}", text::report::timestamps(&port.timestamp));
    let comments = [timestamps.as_str()];
    let info = InterfaceInfo {
        name: Some(&port.name),
        link_type: port.link_type,
        // For 0, "all", write what dumpcap and tcpdump do: readers may allocate this.
        snaplen: if plan.output.snaplen == 0 { MAX_CAPTURED_LEN } else { plan.output.snaplen },
        filter: port.filter.as_ref().map(|filter| filter.expression.as_str()),
        comments: &comments,
        ..InterfaceInfo::default()
    };
    let Place::Interface(interface, _) = place else { return pcapng::interface(out, &info) };
    let hardware = interface.driver.as_ref().map(|driver| match &driver.bus {
        Some(bus) => format!("{} at {bus}", driver.name),
        None => driver.name.clone(),
    });
    let info = InterfaceInfo {
        name: Some(&interface.name),
        // An interface whose link type is unknown is never captured.
        link_type: interface.hardware_type.link_type().unwrap_or(LINK_TYPE_ETHERNET),
        speed_bps: interface.speed_mbps.map(|mbps| u64::from(mbps) * 1_000_000),
        hardware: hardware.as_deref(),
        mac: interface.mac.map(|mac| mac.0),
        os,
        ..info
    };
    pcapng::interface(out, &info);
}

/// The operating system and its release.
fn os() -> Option<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    Some(format!("Linux {}", release.trim()))
}

/// Comments on the statistics of each port, besides its account.
pub(crate) fn comments(report: &Report) -> Vec<Vec<String>> {
    report.ports.iter().map(port_comments).collect()
}

fn port_comments(port: &PortReport) -> Vec<String> {
    let bounds = times::bounds(&port.timestamp);
    let mut comments: Vec<_> = bounds.iter().map(|bound| format!("timestamps: {bound}")).collect();
    let is_of_packets = |warning: &&Diagnostic| {
        matches!(
            warning,
            Diagnostic::Unstamped { .. } | Diagnostic::Untagged { .. } | Diagnostic::PacketsCut { .. }
        )
    };
    comments.extend(port.warnings.iter().filter(is_of_packets).map(diagnostic::describe));
    comments
}
