//! The file is in time order across all queues and interfaces.

use std::{
    io::Read,
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use wirecap_lab::{Capture, CapturedPacket};
use wirecap_lab::{VethOptions, require_root};
use wirecap_testing::{PacketSender, SendPath};
use wirecap_traffic::{FrameSpec, LiveOptions, Template};

use crate::lab::{Lab, READY, RunningCommand, WIRECAP, assert_frames, by_queue, cores, partial, read};

/// Frames of each generator.
const FRAMES: u64 = 10_000;
/// Slow enough that generators run at the same time, even when they share a core.
const RATE_PPS: u64 = 100_000;

/// One veth pair with `queues` queues, for the capture.
fn queues(queues: u32) -> VethOptions {
    VethOptions { queues, ..VethOptions::default() }
}

/// Sends into all queues of both pairs at the same time. Returns the number of frames.
fn send_everywhere(lab: &Lab) -> u64 {
    thread::scope(|scope| {
        for (pair, core) in (0..lab.pairs.len()).flat_map(|pair| (0..cores()).map(move |core| (pair, core))) {
            scope.spawn(move || lab.send_at(Some(RATE_PPS), pair, core, FRAMES, LiveOptions::default()));
        }
    });
    FRAMES * (lab.pairs.len() * cores()) as u64
}

/// Requires that no packet is behind a later one. Returns how often the queue or interface changes.
fn assert_in_order(packets: &[CapturedPacket]) -> usize {
    let wrong = packets.windows(2).position(|pair| pair[0].timestamp_ns > pair[1].timestamp_ns);
    assert_eq!(wrong, None, "of {} packets", packets.len());
    let place = |packet: &CapturedPacket| (packet.interface, packet.queue);
    packets.windows(2).filter(|pair| place(&pair[0]) != place(&pair[1])).count()
}

#[test]
fn four_queues_of_two_interfaces_are_merged_in_order() {
    if !require_root("four_queues_of_two_interfaces_are_merged_in_order") {
        return;
    }
    // T = 0: batches of a queue come from several workers. M = 16: from as many as possible.
    for arguments in [
        &["-T", "0", "--workers", "4", "-M", "16"][..],
        &["-T", "0", "--workers", "3", "-M", "64", "--dispatch", "push"],
        &["--mode", "basic", "--workers", "1"],
        &["--mode", "basic", "--dispatch", "push", "--capture-threads", "2"],
        // Packets of the same batch have different times, so batches overlap.
        &["-T", "0", "--workers", "2", "--timestamp", "kernel"],
    ] {
        // A busy machine may let the generators run one after the other.
        let mut attempts = (0..3).map(|_| changes_of_merged(arguments));
        assert!(attempts.any(|changes| changes > 10), "{arguments:?}: one after the other, three times");
    }
}

/// Captures four queues of two interfaces, checks the file, and returns how often the queue changes from one
/// packet to the next.
fn changes_of_merged(arguments: &[&str]) -> usize {
    let lab = Lab::new("time", &[queues(2), queues(2)]);
    let path = lab.path("time.pcapng");
    // Cells for all frames, however late the workers are.
    let output = ["r0", "r1", "-R", "1024", "-w", path.to_str().unwrap()];
    let running = lab.capture(&[&output, arguments].concat());
    let sent = send_everywhere(&lab);
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let account = ended.account();
    account.assert_lossless(sent);
    assert_eq!((account.written("packets"), account.written("out_of_order")), (sent, 0), "{arguments:?}");

    let capture = read(&path);
    let changes = assert_in_order(&capture.packets);
    let queues = by_queue(&capture.packets);
    assert_eq!(queues.len(), 2 * cores());
    for packets in queues.values() {
        assert_eq!(packets.len() as u64, FRAMES);
        assert_frames(packets, FrameSpec::default(), usize::MAX);
    }
    changes
}

#[test]
fn a_count_keeps_the_earliest_packets_in_classic_pcap_too() {
    if !require_root("a_count_keeps_the_earliest_packets_in_classic_pcap_too") {
        return;
    }
    let lab = Lab::with_queues("earliest", 2);
    let path = lab.path("earliest.pcap");
    let sizes = ["-T", "0", "-M", "16", "-R", "1024"];
    let output = ["r0", "-c", "5000", "-w", path.to_str().unwrap()];
    let running = lab.capture(&[&output[..], &sizes].concat());
    thread::scope(|scope| {
        for core in 0..cores() {
            let lab = &lab;
            scope.spawn(move || lab.send_some(0, core, FRAMES));
        }
    });
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let account = ended.account();
    assert_eq!((account.written("packets"), account.written("out_of_order")), (5_000, 0));
    let capture = read(&path);
    assert_eq!(capture.packets.len(), 5_000);
    assert_in_order(&capture.packets);
}

/// The capture ends while the rings are full: the workers encode packets in cells, and the reader of the pipe
/// has stopped reading.
#[test]
fn packets_in_the_rings_at_the_end_are_written_in_order() {
    if !require_root("packets_in_the_rings_at_the_end_are_written_in_order") {
        return;
    }
    /// More than the pipe and the blocks in front of it hold, less than a pool.
    const WAITING: u64 = 60_000;
    let lab = Lab::with_queues("late", 2);
    let mut command = lab.right.command(WIRECAP);
    command.args(["capture", "--json", "r0", "--xdp-mode", "copy", "-R", "256", "-w", "-"]);
    let mut running = RunningCommand::spawn_unread(command);
    running.wait_for(READY);
    let mut pipe = running.take_stdout();
    (0..cores()).for_each(|core| _ = lab.send(0, core, WAITING, LiveOptions::default()));
    let sent = WAITING * cores() as u64;
    let waiting = running.account_so_far().waiting();
    assert!(waiting > sent / 2, "only {waiting} of {sent} packets wait in the rings");
    running.signal(Signal::SIGTERM);
    lab.wait_until_given_back("r0");

    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes).unwrap();
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let account = ended.account_on_stderr();
    account.assert_lossless(sent);
    let capture = Capture::read(bytes.as_slice()).unwrap();
    assert_eq!(capture.packets.len() as u64, sent);
    assert_in_order(&capture.packets);
    assert_eq!(account.written("out_of_order"), 0);
}

/// The process does not run while packets come, nor when it is asked to end: it finds all of them in the
/// rings, and that it has been stopped.
#[test]
fn packets_that_came_while_the_process_was_stopped_are_written_in_order() {
    if !require_root("packets_that_came_while_the_process_was_stopped_are_written_in_order") {
        return;
    }
    /// Less than a pool.
    const WAITING: u64 = 60_000;
    let ways = [&["--xdp-mode", "copy"][..], &["--xdp-mode", "copy", "--timestamp", "batch"], &[]];
    for way in ways {
        let lab = Lab::with_queues("paused", 2);
        let path = lab.path("paused.pcapng");
        let running = lab.capture(&[&["r0", "-R", "256", "-w", path.to_str().unwrap()], way].concat());
        running.signal(Signal::SIGSTOP);
        thread::scope(|scope| {
            for core in 0..cores() {
                let lab = &lab;
                scope.spawn(move || lab.send_at(Some(RATE_PPS), 0, core, WAITING, LiveOptions::default()));
            }
        });
        running.signal(Signal::SIGTERM);
        running.signal(Signal::SIGCONT);
        let ended = running.wait();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        let (account, sent) = (ended.account(), WAITING * cores() as u64);
        account.assert_lossless(sent);
        assert_eq!((account.written("packets"), account.written("out_of_order")), (sent, 0), "{way:?}");
        let capture = read(&path);
        assert_eq!(capture.packets.len() as u64, sent, "{way:?}");
        assert_in_order(&capture.packets);
    }
}

/// A pair whose captured end the host uses.
fn of_the_host() -> VethOptions {
    VethOptions {
        addresses_a: vec!["192.0.2.1/24".into()],
        addresses_b: vec!["192.0.2.2/24".into()],
        queues: 2,
        ..VethOptions::default()
    }
}

/// Sends frames the way hosts do, with a pause after each.
fn send_slowly(lab: &Lab, pair: usize, frames: u64, pause: Duration) {
    let ifindex = lab.pairs[pair].a().ifindex().unwrap();
    let mut sender = lab.left.enter(|| PacketSender::open(ifindex, SendPath::Queueing)).unwrap();
    let mut template = Template::new(FrameSpec::default()).unwrap();
    for sequence in 0..frames {
        sender.send(template.stamp(sequence as u32 % 64, sequence)).unwrap();
        thread::sleep(pause);
    }
}

#[test]
fn packets_captured_beside_the_host_are_in_order_with_taken_ones() {
    if !require_root("packets_captured_beside_the_host_are_in_order_with_taken_ones") {
        return;
    }
    // A busy machine may let each generator run for long: one after the other, they change this often.
    let mut attempts = (0..3).map(|_| changes_beside_the_host());
    assert!(attempts.any(|changes| changes > cores() + 1), "one after the other, three times");
}

/// How often the interface changes from one packet to the next, of two that generators send to at once.
fn changes_beside_the_host() -> usize {
    let lab = Lab::new("both", &[of_the_host(), queues(2)]);
    let path = lab.path("both.pcapng");
    let running = lab.capture(&["r0", "r1", "-T", "0", "--workers", "2", "-w", path.to_str().unwrap()]);
    thread::scope(|scope| {
        scope.spawn(|| send_slowly(&lab, 0, 2_000, Duration::from_micros(50)));
        for core in 0..cores() {
            let lab = &lab;
            scope.spawn(move || lab.send_at(Some(RATE_PPS), 1, core, FRAMES, LiveOptions::default()));
        }
    });
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let account = ended.account();
    assert_eq!((account.written("out_of_order"), account.sum("passed")), (0, 0));
    assert_eq!(account.written("packets"), account.sum("delivered"));

    let capture = read(&path);
    assert_eq!(capture.packets.len() as u64, account.sum("delivered"));
    let changes = assert_in_order(&capture.packets);
    // The host may add its own packets.
    let of = |interface: u32| capture.packets.iter().filter(move |packet| packet.interface == interface);
    assert!(of(0).count() >= 2_000);
    assert_eq!(of(1).count() as u64, FRAMES * cores() as u64);
    changes
}

#[test]
fn a_silent_interface_does_not_hold_up_others() {
    if !require_root("a_silent_interface_does_not_hold_up_others") {
        return;
    }
    for second in [queues(4), of_the_host()] {
        let lab = Lab::new("silent", &[queues(2), second]);
        let path = lab.path("silent.pcapng");
        let running = lab.capture(&["r0", "r1", "-w", path.to_str().unwrap()]);
        let mut length = std::fs::metadata(partial(&path)).unwrap().len();
        let mut delays = [(); 5].map(|()| {
            let begun = Instant::now();
            lab.send(0, 0, 10, LiveOptions::default());
            // At least: a record has a header of 28 bytes, the frame, the queue option and the length.
            length += 10 * (28 + 60 + 12 + 4);
            running.wait_for_bytes(&path, length);
            begun.elapsed()
        });
        delays.sort_unstable();
        // If the other interface held the packets up, each delay would be two seconds.
        assert!(delays[2] < Duration::from_secs(1), "{delays:?}");
        let account = running.stop().account();
        assert_eq!(account.written("out_of_order"), 0);
        assert!(account.written("packets") >= 50);
    }
}
