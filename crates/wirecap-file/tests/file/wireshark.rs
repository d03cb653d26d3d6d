//! Wireshark's tools judge the files that we write: no complaint, and every figure is read back as written.

use std::path::Path;
use std::process::Command;

use wirecap_file::pcapng::{self, Counters, InterfaceInfo, InterfaceStatistics, SectionInfo};
use wirecap_file::{PacketHeader, pcap};
use wirecap_lab::Capture;

use crate::skip::skipped;

const BASE_NS: u64 = 1_700_000_000_123_456_789;
const SNAPLEN: u32 = 100;

/// Runs a tool, checks that it did not complain, and returns its output. `None` if it is not installed.
fn run(test: &str, tool: &str, args: &[&str]) -> Option<String> {
    let output = match Command::new(tool).args(args).output() {
        Ok(output) => output,
        Err(_) => {
            skipped(test, &format!("{tool} is not installed (apt install tshark)"));
            return None;
        }
    };
    // tshark warns when it runs as root; no other line is allowed.
    let complaints = String::from_utf8_lossy(&output.stderr);
    let complaints: Vec<_> = complaints.lines().filter(|line| !line.starts_with("Running as user")).collect();
    assert!(output.status.success() && complaints.is_empty(), "{tool}: {} {complaints:?}", output.status);
    Some(String::from_utf8(output.stdout).expect("UTF-8"))
}

fn header(i: u64) -> PacketHeader {
    PacketHeader {
        timestamp_ns: BASE_NS + i * 1_000_000_001,
        original_len: 14 + i as u32,
        interface: i as u32 % 2,
        queue: Some(i as u32 % 4),
        packet_id: Some(1_000 + i),
        outbound: Some(i % 2 == 1),
    }
}

fn write_pcapng(path: &Path) {
    let mut file = Vec::new();
    let comments = &["written for Wireshark"];
    let section =
        SectionInfo { hardware: Some("x86_64"), os: Some("Linux"), application: Some("wirecap"), comments };
    pcapng::section_header(&mut file, &section);
    for name in ["eth0", "eth1"] {
        let info = InterfaceInfo {
            name: Some(name),
            description: Some("left"),
            snaplen: SNAPLEN,
            speed_bps: Some(10_000_000_000),
            filter: Some("udp and net 131.225.2.0/24"),
            hardware: Some("ixgbe"),
            mac: Some([2, 0, 0, 0, 0, 1]),
            os: Some("Linux"),
            comments,
            ..Default::default()
        };
        pcapng::interface(&mut file, &info);
    }
    let data = [0_u8; 1024];
    for i in 0..400_u64 {
        let (head, tail) = data[..14 + i as usize].split_at(10);
        pcapng::packet(&mut file, &header(i), SNAPLEN, [head, tail]);
    }
    for interface in 0..2 {
        pcapng::interface_statistics(&mut file, &statistics(interface));
    }
    std::fs::write(path, file).unwrap();
}

fn statistics(interface: u32) -> InterfaceStatistics<'static> {
    InterfaceStatistics {
        interface,
        timestamp_ns: BASE_NS + 1_000_000_000_000,
        start_ns: Some(BASE_NS),
        end_ns: Some(BASE_NS + 999_999_999_999),
        counters: Counters {
            received: Some(u64::MAX - u64::from(interface)),
            dropped_by_interface: Some(3),
            filter_accepted: Some(200),
            dropped_by_os: Some(7),
            delivered_to_user: Some(200),
        },
        comments: &["lost, no free cell: 7"],
    }
}

/// The line tshark prints for packet `i`: epoch time, length, captured length, and `more`.
fn line(i: u64, more: &[String]) -> String {
    let header = header(i);
    let (seconds, ns) = (header.timestamp_ns / 1_000_000_000, header.timestamp_ns % 1_000_000_000);
    let captured = header.original_len.min(SNAPLEN);
    let first = [format!("{seconds}.{ns:09}"), header.original_len.to_string(), captured.to_string()];
    [&first[..], more].concat().join("\t")
}

#[test]
fn tshark_reads_our_pcapng() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ours.pcapng");
    write_pcapng(&path);
    let fields = "-T fields -e frame.time_epoch -e frame.len -e frame.cap_len -e frame.interface_name \
                  -e frame.interface_queue -e frame.packet_id";
    let args: Vec<_> =
        ["-n", "-r", path.to_str().unwrap()].into_iter().chain(fields.split_whitespace()).collect();
    let Some(lines) = run("tshark_reads_our_pcapng", "tshark", &args) else { return };
    let lines: Vec<_> = lines.lines().collect();
    assert_eq!(lines.len(), 400);
    for (i, read) in (0..).zip(lines) {
        let PacketHeader { interface, queue, packet_id, .. } = header(i);
        let more = [format!("eth{interface}"), queue.unwrap().to_string(), packet_id.unwrap().to_string()];
        assert_eq!(read, line(i, &more));
    }
}

#[test]
fn tshark_reads_our_pcap() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ours.pcap");
    let mut file = Vec::new();
    pcap::file_header(&mut file, 1, SNAPLEN);
    for i in 0..400_u64 {
        pcap::packet(&mut file, &header(i), SNAPLEN, [&[0_u8; 1024][..14 + i as usize]]);
    }
    std::fs::write(&path, file).unwrap();
    let fields = "-T fields -e frame.time_epoch -e frame.len -e frame.cap_len";
    let args: Vec<_> =
        ["-n", "-r", path.to_str().unwrap()].into_iter().chain(fields.split_whitespace()).collect();
    let Some(lines) = run("tshark_reads_our_pcap", "tshark", &args) else { return };
    let expected: Vec<_> = (0..400).map(|i| line(i, &[])).collect();
    assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn capinfos_describes_our_interfaces() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ours.pcapng");
    write_pcapng(&path);
    let args = ["-M", path.to_str().unwrap()];
    let Some(output) = run("capinfos_describes_our_interfaces", "capinfos", &args) else { return };
    let lines: Vec<_> =
        output.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for expected in [
        "Number of packets: 400",
        "File timestamp precision: nanoseconds (9)",
        "Capture oper-sys: Linux",
        "Capture application: wirecap",
        "Capture comment: written for Wireshark",
        "Number of interfaces in file: 2",
        "Name = eth0",
        "Name = eth1",
        "Description = left",
        "Hardware = ixgbe",
        "Speed = 10000000000",
        "Filter string = udp and net 131.225.2.0/24",
        "Capture length = 100",
        "Number of stat entries = 1",
        "Number of packets = 200",
    ] {
        assert!(lines.iter().any(|line| line == expected), "no {expected:?} in\n{output}");
    }
}

#[test]
fn a_file_copied_by_editcap_reads_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let (ours, theirs) = (directory.path().join("ours.pcapng"), directory.path().join("theirs.pcapng"));
    write_pcapng(&ours);
    let args = [ours.to_str().unwrap(), theirs.to_str().unwrap()];
    if run("a_file_copied_by_editcap_reads_the_same", "editcap", &args).is_none() {
        return;
    }
    let [mut ours, theirs] =
        [ours, theirs].map(|path| Capture::read(std::fs::File::open(path).unwrap()).unwrap());
    assert!(ours.damage.is_none() && theirs.damage.is_none());
    // Wireshark 4 skips hardware addresses and does not write them again.
    for (ours, theirs) in ours.interfaces.iter_mut().zip(&theirs.interfaces) {
        ours.mac = theirs.mac.and(ours.mac);
    }
    assert_eq!(ours.packets, theirs.packets);
    assert_eq!(ours.interfaces, theirs.interfaces);
}

/// Wireshark's tools do not copy statistics, but tshark can dissect the file itself, as if it were a packet.
/// (It shows that there are a start and an end time, not which is which.)
#[test]
fn tshark_dissects_our_statistics() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("statistics.pcapng");
    let mut file = Vec::new();
    pcapng::section_header(&mut file, &SectionInfo::default());
    for interface in 0..2 {
        pcapng::interface(&mut file, &InterfaceInfo::default());
        pcapng::interface_statistics(&mut file, &statistics(interface));
    }
    std::fs::write(&path, file).unwrap();
    let mut args =
        vec!["-n", "-r", path.to_str().unwrap(), "-X", "read_format:MIME Files Format", "-T", "fields"];
    let option = |name: &str| format!("pcapng.options.option.data.{name}");
    let counters = ["received", "dropped", "accepted_by_filter", "dropped_by_os", "delivered_to_user"];
    let mut fields: Vec<_> = counters.iter().map(|name| option(&format!("interface.{name}"))).collect();
    fields.extend([option("comment"), "pcapng.timestamp_high".into(), "pcapng.timestamp_low".into()]);
    args.extend(fields.iter().flat_map(|field| ["-e", field]));
    let Some(output) = run("tshark_dissects_our_statistics", "tshark", &args) else { return };

    let time = statistics(0).timestamp_ns;
    let (high, low) = (time >> 32, time & u64::from(u32::MAX));
    let expected = [
        format!("{},{}", u64::MAX, u64::MAX - 1),
        "3,3".into(),
        "200,200".into(),
        "7,7".into(),
        "200,200".into(),
        "lost, no free cell: 7,lost, no free cell: 7".into(),
        format!("{high},{high}"),
        format!("{low},{low}"),
    ];
    assert_eq!(output.trim_end().split('\t').collect::<Vec<_>>(), expected);
}
