//! Captures that go well.

use nix::sys::signal::Signal;
use serde_json::json;
use wirecap_file::Format;
use wirecap_lab::Capture;
use wirecap_lab::{VethOptions, require_root};
use wirecap_traffic::{FrameSpec, LiveOptions};

use crate::lab::{Lab, assert_frames, by_queue, cores, partial, read};

const WHOLE: usize = usize::MAX;

#[test]
fn every_frame_of_every_queue_is_in_the_file_in_order() {
    if !require_root("every_frame_of_every_queue_is_in_the_file_in_order") {
        return;
    }
    // T = 0 and more workers than queues: batches of one queue come from several workers.
    for (dispatch, mode) in [
        ("pull", &["-T", "0", "--workers", "4"][..]),
        ("push", &["-T", "0", "--workers", "4"]),
        ("pull", &["--mode", "basic"]),
        ("push", &["--mode", "basic", "--capture-threads", "2"]),
    ] {
        let lab = Lab::with_queues("order", 2);
        let path = lab.path("order.pcapng");
        let file = path.to_str().unwrap();
        let running = lab
            .capture(&[&["r0", "-M", "64", "-R", "512", "-w", file, "--dispatch", dispatch], mode].concat());
        let frame = FrameSpec { len: 200, ..FrameSpec::default() };
        for core in 0..cores() {
            lab.send(0, core, 20_000, LiveOptions { frame, ..LiveOptions::default() });
        }
        let ended = running.stop();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        let (account, sent) = (ended.account(), 20_000 * cores() as u64);
        account.assert_lossless(sent);

        let capture = read(&path);
        assert_eq!(account.written("packets"), sent);
        assert_eq!(account.written("bytes"), std::fs::metadata(&path).unwrap().len());
        let queues = by_queue(&capture.packets);
        assert_eq!(queues.len(), cores());
        for (core, ((interface, queue), packets)) in queues.iter().enumerate() {
            assert_eq!((*interface, *queue, packets.len()), (0, Some(core as u32), 20_000));
            assert_frames(packets, frame, WHOLE);
        }
    }
}

#[test]
fn the_file_describes_its_capture() {
    if !require_root("the_file_describes_its_capture") {
        return;
    }
    let lab = Lab::with_queues("described", 1);
    let path = lab.path("described.pcapng");
    let running = lab.capture(&["r0", "-w", path.to_str().unwrap()]);
    lab.send(0, 0, 1_000, LiveOptions::default());
    running.stop().account().assert_lossless(1_000);

    let capture = read(&path);
    let section = &capture.sections[0];
    assert!(section.application.as_ref().unwrap().starts_with("wirecap "), "{section:?}");
    assert!(section.os.as_ref().unwrap().starts_with("Linux "), "{section:?}");
    let interface = &capture.interfaces[0];
    assert_eq!((interface.name.as_deref(), interface.hardware.as_deref()), (Some("r0"), Some("veth")));
    assert_eq!((interface.link_type, interface.snaplen), (1, 262_144), "as dumpcap writes it");
    assert!(interface.mac.is_some() && interface.speed_bps.is_some(), "{interface:?}");
    assert!(
        capture.packets.iter().all(|packet| packet.queue.is_none()),
        "an interface with one queue needs no numbers"
    );

    let statistics = &capture.statistics[0];
    let counters = statistics.counters;
    assert_eq!((counters.received, counters.delivered_to_user), (Some(1_000), Some(1_000)));
    assert_eq!((counters.dropped_by_os, counters.dropped_by_interface), (Some(0), Some(0)));
    assert!(statistics.comments.iter().any(|comment| comment.contains("no_free_cell: 0")), "{statistics:?}");
    assert!(statistics.start_ns < statistics.end_ns);
}

#[test]
fn exactly_the_requested_packets_are_written() {
    if !require_root("exactly_the_requested_packets_are_written") {
        return;
    }
    for (dispatch, count) in [("pull", 12_345), ("push", 12_345), ("pull", 1)] {
        let lab = Lab::with_queues("count", 2);
        let path = lab.path("count.pcapng");
        let count_text = count.to_string();
        let arguments = ["r0", "-T", "0", "--workers", "3", "--dispatch", dispatch];
        let output = ["-c", &count_text, "-w", path.to_str().unwrap()];
        let running = lab.capture(&[&arguments[..], &output].concat());
        std::thread::scope(|scope| {
            for core in 0..cores() {
                let lab = &lab;
                scope.spawn(move || lab.send_some(0, core, 15_000));
            }
        });
        let ended = running.wait();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        let account = ended.account();
        assert!(account.sum("delivered") >= count);
        assert_eq!(account.written("packets"), count);
        let capture = read(&path);
        assert_eq!(capture.packets.len() as u64, count);
        assert_eq!(capture.statistics.len(), 1);
        for packets in by_queue(&capture.packets).values() {
            assert_frames(packets, FrameSpec::default(), WHOLE);
        }
    }
}

#[test]
fn counting_needs_no_file_and_ends_by_itself() {
    if !require_root("counting_needs_no_file_and_ends_by_itself") {
        return;
    }
    let lab = Lab::with_queues("plain", 1);
    let running = lab.capture(&["r0", "-c", "5000"]);
    lab.send_some(0, 0, 20_000);
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.account().sum("delivered") >= 5_000);
    assert!(ended.account().0["written"].is_null());

    let started = std::time::Instant::now();
    let ended = lab.capture(&["r0", "--duration", "300ms"]).wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(started.elapsed().as_millis() >= 300);
    ended.account().assert_lossless(0);
}

#[test]
fn classic_pcap_has_nanoseconds() {
    if !require_root("classic_pcap_has_nanoseconds") {
        return;
    }
    let lab = Lab::with_queues("pcap", 2);
    let path = lab.path("classic.pcap");
    let running = lab.capture(&["r0", "-w", path.to_str().unwrap()]);
    lab.send(0, 0, 3_000, LiveOptions::default());
    running.stop().account().assert_lossless(3_000);
    assert_eq!(std::fs::read(&path).unwrap()[..4], 0xa1b2_3c4d_u32.to_le_bytes());
    let capture = read(&path);
    assert_eq!((capture.format, capture.packets.len()), (Format::Pcap, 3_000));
    assert_frames(&capture.packets.iter().collect::<Vec<_>>(), FrameSpec::default(), WHOLE);
}

#[test]
fn packets_larger_than_a_cell_are_whole_or_cut_as_requested() {
    if !require_root("packets_larger_than_a_cell_are_whole_or_cut_as_requested") {
        return;
    }
    for snaplen in [0, 96, 2_500] {
        let lab = Lab::new("large", &[VethOptions { mtu: 3_400, ..VethOptions::default() }]);
        let path = lab.path("large.pcapng");
        let text = snaplen.to_string();
        let running = lab.capture(&["r0", "-w", path.to_str().unwrap(), "--snaplen", &text]);
        let frame = FrameSpec { len: 3_000, ..FrameSpec::default() };
        lab.send(0, 0, 2_000, LiveOptions { frame, ..LiveOptions::default() });
        running.stop().account().assert_lossless(2_000);
        let capture = read(&path);
        let told = if snaplen == 0 { 262_144 } else { snaplen };
        assert_eq!((capture.packets.len(), capture.interfaces[0].snaplen), (2_000, told));
        let kept = if snaplen == 0 { WHOLE } else { snaplen as usize };
        assert_frames(&capture.packets.iter().collect::<Vec<_>>(), frame, kept);
    }
}

#[test]
fn packets_that_would_be_too_long_cause_a_warning_even_with_quiet() {
    if !require_root("packets_that_would_be_too_long_cause_a_warning_even_with_quiet") {
        return;
    }
    let lab = Lab::new("toolong", &[VethOptions { mtu: 5_000, ..VethOptions::default() }]);
    for (port, m, limit, words) in [
        ("r0", "1", json!({ "bytes": 1_792, "beyond": "lost" }), "M is 1; write -M 64"),
        ("r0", "32", json!({ "bytes": 1_792, "beyond": "lost" }), "M is 32; write -M 64"),
        (
            "packet:r0",
            "2",
            json!({ "bytes": 3_962, "beyond": "cut" }),
            "a block of M = 2 cells holds no more",
        ),
        ("packet:r0", "4", json!(null), ""),
        ("r0", "64", json!(null), ""),
    ] {
        let ended = lab.spawn(&["capture", port, "-M", m, "-q", "--json", "--duration", "100ms"]).wait();
        let said = ended.stderr.lines().collect::<Vec<_>>();
        assert_eq!(said.len(), usize::from(!words.is_empty()), "{ended:#?}");
        assert!(said.iter().all(|said| said.starts_with("wirecap: WARNING: r0: ") && said.contains(words)));
        assert_eq!(ended.account().0["ports"][0]["length_limit"], limit, "{port} -M {m}");
    }
}

#[test]
fn two_interfaces_go_into_one_file() {
    if !require_root("two_interfaces_go_into_one_file") {
        return;
    }
    let queues = |queues| VethOptions { queues, ..VethOptions::default() };
    let lab = Lab::new("two", &[queues(1), queues(2)]);
    let path = lab.path("two.pcapng");
    let running = lab.capture(&["r0", "r1", "-w", path.to_str().unwrap()]);
    lab.send(0, 0, 4_000, LiveOptions::default());
    lab.send(1, 0, 6_000, LiveOptions::default());
    let ended = running.stop();
    ended.account().assert_lossless(10_000);

    let capture = read(&path);
    let names: Vec<_> =
        capture.interfaces.iter().map(|interface| interface.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["r0", "r1"]);
    let received: Vec<_> = capture.statistics.iter().map(|port| port.counters.received.unwrap()).collect();
    assert_eq!(received, [4_000, 6_000]);
    let queues = by_queue(&capture.packets);
    assert_eq!(queues.keys().copied().collect::<Vec<_>>(), [(0, None), (1, Some(0))]);
    for packets in queues.values() {
        assert_frames(packets, FrameSpec::default(), WHOLE);
    }
}

#[test]
fn with_packets_on_standard_output_the_account_is_on_standard_error() {
    if !require_root("with_packets_on_standard_output_the_account_is_on_standard_error") {
        return;
    }
    let lab = Lab::with_queues("stdout", 1);
    let running = lab.capture(&["r0", "-w", "-"]);
    lab.send(0, 0, 5_000, LiveOptions::default());
    running.signal(Signal::SIGINT);
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let account = ended.account_on_stderr();
    account.assert_lossless(5_000);
    assert_eq!(account.written("bytes"), ended.stdout.len() as u64);
    assert_eq!(account.0["written"]["file"], "-");
    let capture = Capture::read(ended.stdout.as_slice()).unwrap();
    assert!(capture.damage.is_none());
    assert_frames(&capture.packets.iter().collect::<Vec<_>>(), FrameSpec::default(), WHOLE);
}

#[test]
fn the_file_is_current_while_the_interface_is_silent() {
    if !require_root("the_file_is_current_while_the_interface_is_silent") {
        return;
    }
    let lab = Lab::with_queues("current", 1);
    let path = lab.path("current.pcapng");
    let running = lab.capture(&["r0", "-w", path.to_str().unwrap()]);
    lab.send(0, 0, 10, LiveOptions::default());
    // Ten packets fill no buffer, and yet they are in the file.
    running.wait_for_bytes(&path, 10 * 92);
    assert_eq!(read(&partial(&path)).packets.len(), 10);
    running.stop().account().assert_lossless(10);
}

#[test]
fn without_json_there_are_words_and_a_table() {
    if !require_root("without_json_there_are_words_and_a_table") {
        return;
    }
    let lab = Lab::with_queues("words", 2);
    let run = |more: &[&str]| lab.spawn(&[&["capture", "r0", "--duration", "200ms"], more].concat()).wait();
    let ended = run(&[]);
    let table = String::from_utf8(ended.stdout.clone()).unwrap();
    assert!(table.starts_with("port ") && table.contains("  lost\n") && table.contains("total"), "{table}");
    let packed = "r0 (veth), queues 0-1: native XDP, packed by the program";
    let host = "r0: the host gets none of its packets while wirecap runs";
    let words =
        [packed, host, "zero-copy is not available", "M = 256, R = 128", "T = 60 %", "128 MiB of blocks"];
    for words in words {
        assert!(ended.stderr.contains(words), "{words}: {}", ended.stderr);
    }
    let filtered = run(&["udp"]).stderr;
    assert!(filtered.contains("r0: the host gets only packets that the filter rejects"), "{filtered}");
    let some = lab.spawn(&["capture", "r0@0", "--duration", "200ms"]).wait();
    for words in ["r0@0 (veth), queue 0: native XDP, packed by the program", "64 MiB of blocks"] {
        assert!(some.stderr.contains(words), "{words}: {}", some.stderr);
    }
    let ring = run(&["--ring", "256"]);
    for words in [
        "r0 (veth), queues 0-1: native XDP, copy",
        "r0: packed is not available: a ring size is set, and blocks have no receive ring",
        "128 MiB of packet memory",
    ] {
        assert!(ring.stderr.contains(words), "{words}: {}", ring.stderr);
    }
    // Where control groups are not mounted, a reason has a long path and needs more columns.
    for line in ended.stderr.lines().filter(|line| !line.contains("control group")) {
        assert!(
            line.starts_with("wirecap: ") && line.len() <= 80,
            "one line per fact, and no progress: {line}"
        );
    }
    assert!(ended.stderr.lines().last().unwrap().starts_with("wirecap: M = 256, R = 128: "), "{ended:#?}");
    assert!(String::from_utf8(run(&["--xdp-mode", "generic"]).stdout).unwrap().contains("generic"));
}
