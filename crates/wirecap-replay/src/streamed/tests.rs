//! Reading ahead: in blocks, pass after pass, with tallies and failures.

use std::path::Path;

use wirecap_file::{LINK_TYPE_ETHERNET, PacketHeader, pcap};

use super::*;
use crate::{FailureCode, Speed, feed::Room};

/// Packets in a trace longer than one block; every other packet is too long.
const PACKETS: u64 = 20_000;

/// Starts to read such a trace `count` times.
fn started(path: &Path, count: u64) -> StreamedTrace {
    let mut file = Vec::new();
    pcap::file_header(&mut file, LINK_TYPE_ETHERNET, 0);
    for number in 0..PACKETS {
        let len = 60 + number % 2;
        let header = PacketHeader { original_len: len as u32, ..PacketHeader::default() };
        pcap::packet(&mut file, &header, 0, [vec![0; len as usize].as_slice()]);
    }
    std::fs::write(path, file).unwrap();
    let plan = FeedPlan {
        plan: Plan { speed: Speed::Top, passes: Some(count), ..Plan::new([path], "lo") },
        queues: vec![0],
        room: Room { longest: 60, of_cells: 60 },
    };
    let feed = Feed::open(&plan, &Control::default()).unwrap();
    StreamedTrace::start(feed, Vec::new(), plan, &[64], &Arc::default()).unwrap()
}

/// Takes the next block and all its frames. False at the end.
fn take_block(trace: &mut StreamedTrace) -> bool {
    while !trace.has_frame() {
        if trace.is_at_end {
            return false;
        }
        thread::yield_now();
    }
    trace.at = trace.block.frames.len();
    true
}

#[test]
fn the_tally_is_known_before_the_pass_ends() {
    let directory = tempfile::tempdir().unwrap();
    let mut trace = started(&directory.path().join("a.pcap"), 1);
    assert!(take_block(&mut trace));
    let frames = trace.block.frames.len() as u64;
    assert!((1..PACKETS / 2).contains(&frames));
    assert_eq!(trace.tally.packets - trace.tally.too_long, frames);
    assert!(trace.tally.too_long >= frames - 1, "{:?}", trace.tally);
    while take_block(&mut trace) {}
    assert_eq!((trace.tally.packets, trace.tally.too_long), (PACKETS, PACKETS / 2));
}

#[test]
fn blocks_without_frames_are_taken_a_few_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let mut trace = started(&directory.path().join("a.pcap"), 1);
    let (messages, receiver) = sync_channel(4 * MESSAGES_AT_ONCE);
    trace.messages = receiver;
    for packets in 1..=3 * MESSAGES_AT_ONCE as u64 {
        let tally = Tally { packets, too_short: packets, ..Tally::default() };
        messages.send(Message::Block(Block { tally, ..Block::default() })).unwrap();
    }
    for looks in 1..=3 {
        assert!(!trace.has_frame() && trace.is_dry && !trace.is_at_end);
        assert_eq!(trace.tally.packets, looks * MESSAGES_AT_ONCE as u64, "the tally is known");
    }
}

#[test]
fn the_first_pass_is_whole_if_the_file_is_removed_later() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pcap");
    // More passes than are read ahead.
    let mut trace = started(&path, 1_000);
    std::fs::remove_file(&path).unwrap();
    while take_block(&mut trace) {}
    assert!((1..1_000).contains(&trace.ended));
    assert_eq!(trace.tally.packets, PACKETS);
    let [Failure { code: FailureCode::TraceUnreadable, text }] = trace.failures.as_slice() else {
        panic!("{:?}", trace.failures)
    };
    assert!(text.contains("a.pcap"), "{text}");
}

#[test]
fn a_file_that_was_emptied_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pcap");
    let mut trace = started(&path, 1_000);
    let (mut header, empty) = (Vec::new(), directory.path().join("empty"));
    pcap::file_header(&mut header, LINK_TYPE_ETHERNET, 0);
    std::fs::write(&empty, header).unwrap();
    std::fs::rename(&empty, &path).unwrap();
    while take_block(&mut trace) {}
    assert_eq!(trace.tally.packets, PACKETS);
    assert_eq!(trace.failures, [Failure::from(&Error::Emptied(trace.ended))]);
    assert_eq!(trace.failures[0].code, FailureCode::EmptyPass);
}

#[test]
fn a_reader_that_ends_early_is_a_failure() {
    let directory = tempfile::tempdir().unwrap();
    let mut trace = started(&directory.path().join("a.pcap"), 1);
    let (messages, receiver) = sync_channel(1);
    trace.messages = receiver;
    messages.send(Message::Block(Block::default())).unwrap();
    drop(messages);
    assert!(!take_block(&mut trace));
    assert_eq!(trace.failures, [Failure::from(&Error::Reader)]);
}

#[test]
fn a_repeated_failure_is_kept_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut trace = started(&directory.path().join("a.pcap"), 1);
    let failure = |text: &str| Failure { code: FailureCode::TraceUnreadable, text: text.into() };
    let end = |failures: &[&str]| PassEnd {
        failures: failures.iter().copied().map(failure).collect(),
        ..PassEnd::default()
    };
    for failures in [&["cut off"][..], &["cut off", "gone"], &[]] {
        trace.end_pass(end(failures));
    }
    assert_eq!(trace.failures, ["cut off", "gone"].map(failure));
}

#[test]
fn cells_are_taken_in_a_circle_and_ready_ones_are_left_alone() {
    let mut circle = Circle { cells: 8, next: 6, ready: 2 };
    assert_eq!(circle.place(1), Some(6));
    assert_eq!(circle.place(2), Some(6));
    circle.next = 7;
    assert_eq!(circle.place(2), Some(0), "one cell at the end is left out");
    circle.ready = 3;
    assert_eq!(
        (circle.place(1), circle.place(2)),
        (Some(7), None),
        "a frame takes at most half of the cells"
    );
}
