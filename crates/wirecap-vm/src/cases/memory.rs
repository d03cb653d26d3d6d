//! Cells and pages: larger cells, huge pages, packets that begin anywhere in a page, frames larger than a cell.

use std::{
    collections::BTreeSet,
    fs,
    sync::{Arc, Mutex},
};

use wirecap::{Builder, Report};
use wirecap_traffic::{FrameSpec, Template};

use super::Case;
use crate::{
    machine::{CAPTURED, Machine, SENDER, run},
    support::{
        check,
        crew::{Arrival, Crew},
        wait_until,
    },
};

pub(super) const CASES: [Case; 4] = [
    ("cells-of-2-kib", cells_of_2_kib),
    ("cells-of-4-kib", cells_of_4_kib),
    ("huge-pages", huge_pages),
    ("large-frames", large_frames),
];

const FRAMES: u64 = 2_000;
const FULL: FrameSpec = FrameSpec {
    len: 1514,
    ip: wirecap_traffic::IpVersion::V4,
    transport: wirecap_traffic::Transport::Udp,
    vlan: None,
    source_mac: [2, 0, 0, 0, 0, 1],
    destination_mac: [2, 0, 0, 0, 0, 2],
    run: 0,
};

/// Captures [`FRAMES`] frames of that kind, all of which must come; gives the report, the packets, and where in their pages
/// they began.
fn captures(machine: &Machine, builder: Builder, spec: FrameSpec) -> (Report, Vec<Arrival>, BTreeSet<usize>) {
    let mut capture = machine.capture(builder);
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
    (report, arrivals, places)
}

/// Every other cell of 2 KiB begins in the middle of a page. igb would cut frames in such cells: it copies, and says why.
fn cells_of_2_kib(machine: &Machine) {
    let (report, _, places) = captures(machine, machine.builder().chunks_per_pool(8).cell_bytes(2048), FULL);
    assert!(
        places.iter().any(|&place| place < 2048) && places.iter().any(|&place| place >= 2048),
        "{places:?}"
    );
    let (mode, fallbacks) = (report.ports[0].queues[0].mode.as_str(), &report.ports[0].fallbacks);
    if machine.zero_copy && machine.cell_bytes() != 2048 {
        assert_eq!(mode, "copy");
        assert!(fallbacks.iter().any(|line| line.contains("--cell-bytes 4096")), "{fallbacks:?}");
    } else {
        assert_eq!(mode, machine.best_mode(), "{fallbacks:?}");
    }
}

fn cells_of_4_kib(machine: &Machine) {
    let builder = machine.builder().chunks_per_pool(8).cell_bytes(4096);
    let (report, _, places) = captures(machine, builder, FULL);
    assert!(places.iter().all(|&place| place < 2048), "{places:?}");
    assert_eq!(
        report.ports[0].queues[0].mode.as_str(),
        machine.best_mode(),
        "{:?}",
        report.ports[0].fallbacks
    );
}

fn huge_pages(machine: &Machine) {
    const RESERVED: &str = "/proc/sys/vm/nr_hugepages";
    fs::write(RESERVED, "64").unwrap();
    let (report, ..) = captures(machine, machine.builder().chunks_per_pool(8), FULL);
    fs::write(RESERVED, "0").unwrap();
    assert!(report.memory.pages.contains("huge"), "{:?}", report.memory);
    assert!(report.memory.fallbacks.is_empty(), "{:?}", report.memory);
    assert_eq!(
        report.ports[0].queues[0].mode.as_str(),
        machine.best_mode(),
        "{:?}",
        report.ports[0].fallbacks
    );
    println!("huge-pages: {}", report.memory.pages);
}

/// Frames of up to 9,000 bytes come whole, in several cells, in the best mode that can split them; where there is none, those
/// that do not fit a cell are counted as too long.
fn large_frames(machine: &Machine) {
    let _mtu = Mtu::set();
    machine.wait_for_links();
    let mut capture = machine.capture(machine.builder());
    let port = &capture.report().ports[0];
    let (mode, multi_buffer, fallbacks) = (port.queues[0].mode.as_str(), port.multi_buffer, &port.fallbacks);
    println!("large-frames: {mode}, several cells: {multi_buffer}, {fallbacks:?}");
    assert!(mode == "zero-copy" || !fallbacks.is_empty(), "that it is not zero-copy is told");
    let longest = if multi_buffer { usize::MAX } else { machine.cell_bytes() as usize - 256 };
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
    assert!(arrivals.iter().map(|arrival| &arrival.bytes).eq(fitting.iter().copied()), "byte for byte");
    assert_eq!(report.total().lost.too_long, (frames.len() - fitting.len()) as u64, "{report:#?}");
}

/// An MTU of 9,000 bytes at both ends, as long as it is there.
struct Mtu;

impl Mtu {
    fn set() -> Self {
        for nic in [CAPTURED, SENDER] {
            run("ip", &["link", "set", nic, "mtu", "9000"]);
        }
        Self
    }
}

impl Drop for Mtu {
    fn drop(&mut self) {
        for nic in [CAPTURED, SENDER] {
            run("ip", &["link", "set", nic, "mtu", "1500"]);
        }
    }
}
