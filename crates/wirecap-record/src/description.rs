//! The blocks around the packets: the interfaces before them, the account after them.

use std::time::{SystemTime, UNIX_EPOCH};

use wirecap::{QueueAccount, Report};
use wirecap_file::{
    Format, MAX_CAPTURED_LEN, pcap,
    pcapng::{self, Counters, InterfaceInfo, InterfaceStatistics, SectionInfo},
};

/// What follows the packets in the file.
#[derive(Debug, Clone)]
pub struct Closing {
    /// The closed account of the capture: a pcapng file gets a statistics block for each port.
    pub report: Report,
    /// By port, comments on its statistics; may be shorter than the list of ports.
    pub comments: Vec<Vec<String>>,
}

impl From<Report> for Closing {
    fn from(report: Report) -> Self {
        Self { report, comments: Vec::new() }
    }
}

/// A header that names each port. `snaplen` is in bytes; 0 keeps all.
pub(crate) fn header(report: &Report, format: Format, snaplen: u32) -> Vec<u8> {
    let mut out = Vec::new();
    match format {
        Format::Pcap => {
            pcap::file_header(&mut out, report.ports.first().map_or(0, |port| port.link_type), snaplen);
        }
        Format::Pcapng => {
            pcapng::section_header(&mut out, &SectionInfo::default());
            for port in &report.ports {
                let info = InterfaceInfo {
                    name: Some(&port.name),
                    link_type: port.link_type,
                    // For 0, "all", write what dumpcap and tcpdump do: readers may allocate this.
                    snaplen: if snaplen == 0 { MAX_CAPTURED_LEN } else { snaplen },
                    ..InterfaceInfo::default()
                };
                pcapng::interface(&mut out, &info);
            }
        }
    }
    out
}

/// The account of each port. Empty for pcap, which cannot have it. `packets` is the number in the file.
pub(crate) fn trailer(closing: &Closing, format: Format, started: SystemTime, packets: u64) -> Vec<u8> {
    let mut out = Vec::new();
    if format == Format::Pcap {
        return out;
    }
    let unwritten = closing.report.total().delivered.saturating_sub(packets);
    let unwritten = (unwritten > 0)
        .then(|| format!("delivered and not in this file, all interfaces together: {unwritten}"));
    let (start_ns, end_ns) = (nanoseconds(started), nanoseconds(SystemTime::now()));
    for (interface, port) in closing.report.ports.iter().enumerate() {
        let account = port.total();
        let own = account_comments(&account);
        let others = closing.comments.get(interface).into_iter().flatten();
        let comments: Vec<&str> = own.iter().chain(others).chain(&unwritten).map(String::as_str).collect();
        let statistics = InterfaceStatistics {
            interface: interface as u32,
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
        pcapng::interface_statistics(&mut out, &statistics);
    }
    out
}

fn account_comments(account: &QueueAccount) -> Vec<String> {
    let QueueAccount { seen, filtered, passed, delivered, lost } = account;
    let sum = format!(
        "wirecap account: seen {seen} = filtered {filtered} + passed to the host {passed} + delivered {delivered} + lost {}",
        lost.total()
    );
    let causes = lost.causes();
    let causes = causes.iter().map(|(cause, packets)| format!("lost, {cause}: {packets}"));
    [sum].into_iter().chain(causes).collect()
}

fn nanoseconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
