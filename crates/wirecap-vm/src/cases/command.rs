//! The command `wirecap`, as a user runs it: the file it writes and the account it prints.

use std::{collections::BTreeSet, fs::File, path::Path};

use serde_json::Value;
use wirecap_lab::{Capture, CapturedPacket};
use wirecap_traffic::{FrameSpec, Marks, Template};

use super::Case;
use wirecap_testing::running_command::RunningCommand;

use crate::{
    machine::{CAPTURED, Machine},
    program,
};

pub(super) const CASES: [Case; 2] = [("file", file), ("snaplen", snaplen)];

const FRAMES: u64 = 2_000;
const SPEC: FrameSpec = FrameSpec { len: 400, ..FrameSpec::DEFAULT };

fn file(machine: &Machine) {
    for mode in ["basic", "advanced"] {
        for dispatch in ["pull", "push"] {
            let flags = ["--mode", mode, "--dispatch", dispatch];
            writes(machine, Path::new("/tmp/all.pcapng"), SPEC.len, &flags);
        }
    }
}

fn snaplen(machine: &Machine) {
    writes(machine, Path::new("/tmp/short.pcapng"), 100, &["--snaplen", "100"]);
}

/// Captures into a file that keeps `kept` bytes of each packet.
fn writes(machine: &Machine, path: &Path, kept: usize, flags: &[&str]) {
    let running = start(machine, path, flags);
    machine.wait_for_links();
    machine.spread();
    machine.traffic(SPEC).send_slowly(FRAMES);
    running.wait_for_bytes(path, FRAMES * kept as u64);
    machine.ledger.note_given_back();
    let account = program::stop(running);
    assert_modes(machine, &account);
    machine.ledger.note_packets(delivered(&account));
    assert_eq!(delivered(&account), FRAMES, "{account:#}");

    let file = Capture::read(File::open(path).unwrap()).unwrap();
    assert!(file.damage.is_none(), "{:?}", file.damage);
    assert_eq!(file.packets.len() as u64, FRAMES);
    let sequences: BTreeSet<u64> = file.packets.iter().map(|packet| sequence_of(packet, kept)).collect();
    assert_eq!(sequences.into_iter().collect::<Vec<_>>(), (0..FRAMES).collect::<Vec<_>>());
    let queues: BTreeSet<_> = file.packets.iter().map(|packet| packet.queue).collect();
    assert_eq!(queues.len() as u32, machine.captured.queues, "every queue has packets: {queues:?}");
}

/// Starts `wirecap capture` of [`CAPTURED`] into a file.
pub(super) fn start(machine: &Machine, path: &Path, flags: &[&str]) -> RunningCommand {
    let (port, cell_bytes) = (format!("xdp:{CAPTURED}"), machine.cell_bytes().to_string());
    let words =
        ["capture", &port, "--json", "-R", "16", "--cell-bytes", &cell_bytes, "-w", path.to_str().unwrap()];
    // A driver with zero-copy must satisfy this flag.
    let must: &[&str] = if machine.zero_copy { &["--require-zero-copy"] } else { &[] };
    machine.ledger.note_start();
    program::start(&[&words, must, flags].concat())
}

/// The sequence number of the frame in a packet of a file. Asserts that the packet equals that frame.
pub(super) fn sequence_of(packet: &CapturedPacket, kept: usize) -> u64 {
    let marks = Marks::read(&packet.data).expect("the generator made this frame");
    let mut template = Template::new(SPEC).unwrap();
    assert_eq!(packet.data, template.stamp(marks.flow, marks.sequence)[..kept], "{marks:?}");
    assert_eq!(packet.original_len as usize, SPEC.len);
    marks.sequence
}

/// Asserts that the account reports the best mode for every queue.
#[track_caller]
pub(super) fn assert_modes(machine: &Machine, account: &Value) {
    let modes: Vec<&str> = queues(account).map(|queue| queue["mode"].as_str().unwrap()).collect();
    assert_eq!(modes, vec![machine.best_mode(); machine.captured.queues as usize], "{account:#}");
}

/// The number of packets delivered. Asserts that the account of each queue closes.
#[track_caller]
pub(super) fn delivered(account: &Value) -> u64 {
    let open = queues(account).find(|queue| queue["unexplained"] != 0 || queue["refused"] != 0);
    assert!(open.is_none(), "{account:#}");
    queues(account).map(|queue| queue["delivered"].as_u64().unwrap()).sum()
}

fn queues(account: &Value) -> impl Iterator<Item = &Value> {
    account["ports"][0]["queues"].as_array().unwrap().iter()
}

/// The frames that this module sends.
pub(super) fn spec() -> FrameSpec {
    SPEC
}
