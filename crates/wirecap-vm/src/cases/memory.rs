//! Cells and pages: larger cells, huge pages, packets that begin anywhere in a page, frames larger than a
//! cell.

use std::{
    collections::BTreeSet,
    fs,
    sync::{Arc, Mutex},
};

use wirecap::{
    Capture, Diagnostic, Report,
    diagnostic::ModeRefusal,
    report::{Pages, QueueMode},
};
use wirecap_traffic::{FrameSpec, Template};

use super::Case;
use wirecap_testing::{check, crew::Crew, wait_until};

use crate::machine::{CAPTURED, Machine, SENDER, assert_mode, run, without_zero_copy};

pub(super) const CASES: [Case; 4] = [
    ("cells-of-2-kib", cells_of_2_kib),
    ("cells-of-4-kib", cells_of_4_kib),
    ("huge-pages", huge_pages),
    ("large-frames", large_frames),
];

const FRAMES: u64 = 2_000;
const FULL: FrameSpec = FrameSpec { len: 1514, ..FrameSpec::DEFAULT };

/// Captures [`FRAMES`] frames of `spec` and asserts that all arrive. Returns the report, and the offsets in
/// pages at which the packets begin.
#[track_caller]
fn captures(machine: &Machine, mut capture: Capture, spec: FrameSpec) -> (Report, BTreeSet<usize>) {
    let places = Arc::new(Mutex::new(BTreeSet::new()));
    let noted = Arc::clone(&places);
    let crew = Crew::start(capture.take_workers(), move |_, batch| {
        let begins = batch.packets().map(|packet| packet.data().as_ptr().addr() % 4096);
        noted.lock().unwrap().extend(begins);
    });
    machine.traffic(spec).send(&capture, FRAMES);
    machine.wait_for(FRAMES, &crew, &capture);
    capture.stopper().stop();
    let arrivals = crew.join();
    let report = machine.finish(capture);
    check::each_once(check::intact(&arrivals, spec), FRAMES, 0);
    let places = places.lock().unwrap().clone();
    (report, places)
}

/// Every other cell of 2 KiB begins in the middle of a page. igb would cut long frames in such cells, so
/// wirecap falls back to copy and reports why; with an MTU that keeps frames short it uses zero-copy.
fn cells_of_2_kib(machine: &Machine) {
    let builder = || machine.builder().chunks_per_pool(8).cell_bytes(2048);
    let (report, places) = captures(machine, machine.capture_in_any_mode(builder().keep_packets(true)), FULL);
    assert!(
        places.iter().any(|&place| place < 2048) && places.iter().any(|&place| place >= 2048),
        "{places:?}"
    );
    let port = &report.ports[0];
    if machine.zero_copy && machine.cell_bytes() != 2048 {
        assert_mode(port, "copy");
        let fallbacks = &port.fallbacks;
        let is_short = |fallback: &Diagnostic| {
            let short =
                |reason: &ModeRefusal| matches!(reason, ModeRefusal::ShortCells { cell_bytes: 2048, .. });
            matches!(fallback, Diagnostic::ModeUnavailable { reason, .. } if short(reason))
        };
        assert!(fallbacks.iter().any(is_short), "{fallbacks:?}");
        let _mtu = Mtu::set(machine, "1000");
        machine.wait_for_links();
        captures(machine, machine.capture_in_cells(builder()), FrameSpec { len: 1014, ..FULL });
    } else {
        assert_mode(port, if machine.zero_copy { "zero-copy" } else { "copy" });
    }
}

fn cells_of_4_kib(machine: &Machine) {
    let builder = machine.builder().chunks_per_pool(8).cell_bytes(4096);
    let (_, places) = captures(machine, machine.capture_in_cells(builder), FULL);
    assert!(places.iter().all(|&place| place < 2048), "{places:?}");
}

fn huge_pages(machine: &Machine) {
    const RESERVED: &str = "/proc/sys/vm/nr_hugepages";
    fs::write(RESERVED, "64").unwrap();
    let capture = machine.capture_in_cells(machine.builder().chunks_per_pool(8));
    let (report, _) = captures(machine, capture, FULL);
    fs::write(RESERVED, "0").unwrap();
    assert_eq!(report.memory.pages, Some(Pages::Huge), "{:?}", report.memory);
    assert!(report.memory.fallbacks.is_empty(), "{:?}", report.memory);
    println!("huge-pages: {}", Pages::Huge);
}

/// Bytes before a packet in its cell (XDP_PACKET_HEADROOM).
const HEAD_ROOM: usize = 256;

/// Frames of up to 9,000 bytes arrive whole, in several cells, in the best mode that can split them. Without
/// such a mode, frames that do not fit a cell count as too long.
fn large_frames(machine: &Machine) {
    let _mtu = Mtu::set(machine, "9000");
    machine.wait_for_links();
    let mut capture = machine.capture_in_any_mode(machine.builder());
    let port = &capture.report().ports[0];
    let fallbacks = &port.fallbacks;
    let is_of_zero_copy = |fallback: &Diagnostic| {
        matches!(fallback, Diagnostic::ModeUnavailable { mode: QueueMode::ZeroCopy, .. })
    };
    let expected = machine.large_frames;
    let mode = if expected.mode == "copy" { without_zero_copy() } else { expected.mode };
    assert_mode(port, mode);
    assert_eq!(port.multi_buffer, expected.several_cells, "{fallbacks:?}");
    assert!(fallbacks.iter().any(is_of_zero_copy), "the reason is reported: {fallbacks:?}");
    println!("large-frames: {mode}, several cells: {}, {fallbacks:?}", expected.several_cells);
    // The part of a cell that holds a frame: the kernel reserves the head room of XDP.
    let room = machine.cell_bytes() as usize - HEAD_ROOM;
    let longest = if expected.several_cells { usize::MAX } else { room };
    let crew = Crew::eager(capture.take_workers());
    let mut sender = machine.sender();
    let frame =
        |n: usize| Template::new(FrameSpec { len: 60 + n * 44, ..FULL }).unwrap().stamp(0, n as u64).to_vec();
    let frames: Vec<Vec<u8>> = (0..200).map(frame).collect();
    for (before, frame) in frames.iter().enumerate() {
        sender.send(frame).unwrap();
        wait_until(&format!("a frame of {} bytes is seen", frame.len()), || {
            capture.report().total().seen == before as u64 + 1
        });
    }
    let fitting: Vec<&Vec<u8>> = frames.iter().filter(|frame| frame.len() <= longest).collect();
    machine.wait_for(fitting.len() as u64, &crew, &capture);
    capture.stopper().stop();
    let mut arrivals = crew.join();
    let report = machine.finish(capture);
    arrivals.sort_by_key(|arrival| arrival.bytes.len());
    assert!(arrivals.iter().map(|arrival| &arrival.bytes).eq(fitting.iter().copied()), "frames are intact");
    for arrival in &arrivals {
        assert_eq!(
            arrival.parts,
            if mode == "packed" { 1 } else { arrival.bytes.len().div_ceil(room) },
            "a frame of {} bytes",
            arrival.bytes.len()
        );
    }
    assert_eq!(report.total().lost.too_long, (frames.len() - fitting.len()) as u64, "{report:#?}");
}

/// Sets another MTU at both ends; dropping this restores 1,500.
struct Mtu<'m>(&'m Machine);

impl<'m> Mtu<'m> {
    fn set(machine: &'m Machine, bytes: &str) -> Self {
        for nic in [CAPTURED, SENDER] {
            run("ip", &["link", "set", nic, "mtu", bytes]);
        }
        Self(machine)
    }
}

impl Drop for Mtu<'_> {
    fn drop(&mut self) {
        for nic in [CAPTURED, SENDER] {
            run("ip", &["link", "set", nic, "mtu", "1500"]);
        }
        self.0.ledger.note_given_back();
    }
}
