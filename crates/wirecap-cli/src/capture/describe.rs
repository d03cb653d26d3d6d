//! What stands around the packets: who captured, on what, and how exact the times are.

use std::fs;

use wirecap::{Diagnostic, Report, report::PortReport};
use wirecap_file::{
    Format, LINK_TYPE_ETHERNET, MAX_CAPTURED_LEN, pcap,
    pcapng::{self, InterfaceInfo, SectionInfo},
};
use wirecap_sys::netdev::Interface;

use super::{place::Place, times};
use crate::{
    plan::Plan,
    text::{self, diagnostic},
};

/// What stands in front of the packets.
pub(crate) fn header(plan: &Plan, places: &[Place], report: &Report) -> Vec<u8> {
    let mut out = Vec::new();
    match plan.destination.as_ref().map(|destination| destination.format()) {
        Some(Format::Pcap) => pcap::file_header(&mut out, report.ports[0].link_type, plan.output.snaplen),
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
    let timestamps = format!("timestamps: {}", text::report::timestamps(&port.timestamp));
    let hardware = interface.driver.as_ref().map(|driver| match &driver.bus {
        Some(bus) => format!("{} at {bus}", driver.name),
        None => driver.name.clone(),
    });
    let info = InterfaceInfo {
        name: Some(&interface.name),
        link_type: link_type(interface),
        snaplen: told_snaplen(plan.output.snaplen),
        filter: plan.config.filter.as_deref(),
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
    let timestamps = format!("timestamps: {}", text::report::timestamps(&port.timestamp));
    let info = InterfaceInfo {
        name: Some(&port.name),
        link_type: port.link_type,
        snaplen: told_snaplen(plan.output.snaplen),
        filter: plan.config.filter.as_deref(),
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

/// What the statistics of each port say besides its account.
pub(crate) fn comments(report: &Report) -> Vec<Vec<String>> {
    report.ports.iter().map(port_comments).collect()
}

fn port_comments(port: &PortReport) -> Vec<String> {
    let bounds = times::bounds(&port.timestamp);
    let mut comments: Vec<_> = bounds.iter().map(|bound| format!("timestamps: {bound}")).collect();
    let is_of_packets =
        |warning: &&Diagnostic| matches!(warning, Diagnostic::Unstamped { .. } | Diagnostic::Untagged { .. });
    comments.extend(port.warnings.iter().filter(is_of_packets).map(diagnostic::describe));
    comments
}
