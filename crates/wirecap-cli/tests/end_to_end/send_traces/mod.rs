//! `wirecap replay`: trace files sent from one end of a veth pair, captured at the other.
//!
//! ```text
//!   left: wirecap replay FILE -i l0 ══ r0: wirecap capture, right
//! ```

mod faults;
mod kinds;
mod pace;
mod queues;
mod whole;

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use serde_json::Value;
use wirecap_file::{LINK_TYPE_ETHERNET, PacketHeader, pcap};
use wirecap_lab::{Capture, CapturedPacket};
use wirecap_traffic::Random;

use crate::lab::{CommandOutput, Lab, RunningCommand, WIRECAP, read};

/// The time and length of a packet in a trace.
#[derive(Debug, Clone, Copy)]
pub struct Sketch {
    pub time_ns: u64,
    pub len: usize,
}

/// A frame whose bytes after the header depend on its number.
pub fn frame(number: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
    let mut random = Random::new(number as u64);
    bytes.resize_with(len.max(14), || random.next() as u8);
    bytes.truncate(len);
    bytes
}

/// The bytes of a pcap file with these packets.
pub fn trace(packets: impl IntoIterator<Item = Sketch>) -> Vec<u8> {
    let mut file = Vec::new();
    pcap::file_header(&mut file, LINK_TYPE_ETHERNET, 0);
    for (number, Sketch { time_ns, len }) in packets.into_iter().enumerate() {
        let header =
            PacketHeader { timestamp_ns: time_ns, original_len: len as u32, ..PacketHeader::default() };
        pcap::packet(&mut file, &header, 0, [frame(number, len).as_slice()]);
    }
    file
}

/// A pcap file with packets of 100 bytes, one every `gap_ns`.
pub fn even(packets: u64, gap_ns: u64) -> Vec<u8> {
    trace(
        (0..packets).map(|number| Sketch { time_ns: 1_700_000_000_000_000_000 + number * gap_ns, len: 100 }),
    )
}

pub fn write(lab: &Lab, name: &str, bytes: &[u8]) -> PathBuf {
    let path = lab.path(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Starts `wirecap replay … -i l0 --json` on the left.
pub fn start(lab: &Lab, arguments: &[&str]) -> RunningCommand {
    let mut command = lab.left.command(WIRECAP);
    command.args(["replay", "-i", "l0", "--json"]).args(arguments);
    RunningCommand::spawn(command)
}

pub fn run(lab: &Lab, arguments: &[&str]) -> CommandOutput {
    start(lab, arguments).wait()
}

/// The report that `--json` prints.
pub fn report(ended: &CommandOutput) -> Value {
    let text = std::str::from_utf8(&ended.stdout).unwrap();
    let report: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {ended:#?}"));
    let of_queues: u64 =
        report["queues"].as_array().unwrap().iter().map(|queue| queue["packets"].as_u64().unwrap()).sum();
    assert_eq!(report["packets"].as_u64(), Some(of_queues), "{report:#}");
    report
}

pub fn figure(report: &Value, path: &str) -> u64 {
    report.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path} of {report:#}"))
}

/// Runs a replay that succeeds, with a capture at the other end. Returns its report and the packets that
/// arrived.
#[track_caller]
pub fn replayed(lab: &Lab, arguments: &[&str]) -> (Value, Vec<CapturedPacket>) {
    let path = lab.path("arrived.pcapng");
    let capture = lab.capture(&["r0", "-w", path.to_str().unwrap(), "--timestamp", "kernel"]);
    let ended = run(lab, arguments);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let report = report(&ended);
    let sent = figure(&report, "/packets");
    assert_eq!(figure(&report, "/counters/packets"), sent, "{report:#}");
    assert_eq!(figure(&report, "/counters/dropped"), 0, "{report:#}");
    capture.stop().account().assert_lossless(sent);
    (report, read(&path).packets)
}

/// The packets of a file, as far as it can be read.
pub fn packets_of(path: &Path) -> Vec<CapturedPacket> {
    Capture::read(File::open(path).unwrap()).unwrap().packets
}

/// Requires that these packets arrived, byte for byte and in order.
#[track_caller]
pub fn assert_same<'p>(arrived: &[CapturedPacket], expected: impl IntoIterator<Item = &'p [u8]>) {
    let expected: Vec<&[u8]> = expected.into_iter().collect();
    let differs = arrived.iter().zip(&expected).position(|(arrived, expected)| arrived.data != *expected);
    assert_eq!(differs, None, "the first packet that differs");
    assert_eq!(arrived.len(), expected.len());
}
