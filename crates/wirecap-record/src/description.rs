//! The blocks around the packets: the interfaces before them, the account after them.

use std::time::{SystemTime, UNIX_EPOCH};

use wirecap::{
    QueueAccount, Report,
    report::{PortReport, QueueMode},
};
use wirecap_file::{
    Format, MAX_CAPTURED_LEN, pcap,
    pcapng::{self, Counters, InterfaceInfo, InterfaceStatistics, SectionInfo},
};

use super::queues::Place;

/// What follows the packets in the file.
#[derive(Debug, Clone)]
pub struct Trailer {
    /// The closed account of the capture: a pcapng file gets a statistics block for each port, or for the
    /// receive queue whose packets it has.
    pub report: Report,
    /// By port, comments on its statistics; may be shorter than the list of ports.
    pub comments: Vec<Vec<String>>,
}

impl From<Report> for Trailer {
    fn from(report: Report) -> Self {
        Self { report, comments: Vec::new() }
    }
}

/// A header that names each port; in pcap, the one for `port`. `snaplen` is in bytes; 0 keeps all.
pub(crate) fn header_bytes(report: &Report, port: usize, format: Format, snaplen: u32) -> Vec<u8> {
    let mut out = Vec::new();
    match format {
        Format::Pcap => {
            pcap::file_header(&mut out, report.ports.get(port).map_or(0, |port| port.link_type), snaplen);
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

/// The account of each port, or of the queue whose packets the file has. Empty for pcap, which cannot have
/// it. `written` is the number of packets that were written, and of the files that they are in.
pub(crate) fn trailer_bytes(
    trailer: &Trailer,
    only: Option<Place>,
    format: Format,
    started: SystemTime,
    written: (u64, u64),
) -> Vec<u8> {
    let mut out = Vec::new();
    if format == Format::Pcap {
        return out;
    }
    let ports = trailer.report.ports.iter().enumerate();
    let ports = ports.filter(|(port, _)| only.is_none_or(|only| only.port == *port));
    let accounts: Vec<_> = ports.map(|(interface, port)| (interface, port, account(port, only))).collect();
    let delivered: u64 = accounts.iter().map(|(_, _, account)| account.delivered).sum();
    let together = if only.is_none() { ", all interfaces together" } else { "" };
    let (packets, files) = written;
    let unwritten = delivered.saturating_sub(packets);
    let place = if files == 1 { "this file".into() } else { format!("these {files} files") };
    let unwritten = (unwritten > 0).then(|| format!("delivered and not in {place}{together}: {unwritten}"));
    let (start_ns, end_ns) = (nanoseconds(started), nanoseconds(SystemTime::now()));
    for (interface, port, account) in accounts {
        let own = account_comments(&account);
        let others = trailer.comments.get(interface).into_iter().flatten();
        let dropped = port.dropped_before_xdp;
        // The NIC does not count them by queue, and the sum over all files has to be right.
        let is_whole = only.is_none() || port.queues.len() == 1;
        let unseen = (!is_whole && dropped > 0)
            .then(|| format!("dropped by the NIC or its driver, all queues together: {dropped}"));
        let comments = own.iter().chain(others).chain(&unseen).chain(&unwritten);
        let comments: Vec<&str> = comments.map(String::as_str).collect();
        let statistics = InterfaceStatistics {
            interface: interface as u32,
            timestamp_ns: end_ns,
            start_ns: Some(start_ns),
            end_ns: Some(end_ns),
            counters: Counters {
                received: Some(account.seen),
                dropped_by_interface: is_whole.then_some(dropped),
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

/// The account of a port, or of its queue whose packets the file has.
fn account(port: &PortReport, only: Option<Place>) -> QueueAccount {
    let Some(Place { queue, .. }) = only else { return port.total() };
    let mut captured = port.queues.iter().filter(|queue| queue.mode != QueueMode::Host);
    captured.find(|report| report.queue == queue).map(|report| report.account).unwrap_or_default()
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

pub(crate) fn nanoseconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
