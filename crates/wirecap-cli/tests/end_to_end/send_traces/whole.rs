//! The packets that arrive are those of the file.

use std::{io::Write, time::Duration};

use nix::{sys::stat::Mode, unistd::mkfifo};
use wirecap_file::{LINK_TYPE_ETHERNET, PacketHeader, pcap};
use wirecap_lab::{VethOptions, require_root};

use super::{
    Sketch, assert_same, even, figure, frame, packets_of, replayed, report, run, start, trace, write,
};
use crate::lab::Lab;

/// A trace with lengths from the shortest to the longest.
fn all_lengths(packets: usize) -> Vec<u8> {
    trace((0..packets).map(|number| Sketch { time_ns: 1_000 * number as u64, len: 14 + number * 37 % 1_501 }))
}

#[test]
fn packets_arrive_byte_for_byte_and_in_order() {
    if !require_root("packets_arrive_byte_for_byte_and_in_order") {
        return;
    }
    let lab = Lab::with_queues("resend", 1);
    let path = write(&lab, "a.pcap", &all_lengths(6_000));
    let packets = packets_of(&path);
    let file = path.to_str().unwrap();
    let expected = || packets.iter().map(|packet| packet.data.as_slice());

    let (report, arrived) = replayed(&lab, &[file, "--top-speed"]);
    assert_same(&arrived, expected());
    assert_eq!(report["held"]["how"].as_str(), Some("preloaded"));
    assert!(report["pacing"].is_null() && report["end"] == "complete", "{report:#}");
    assert_eq!(figure(&report, "/bytes"), packets.iter().map(|packet| packet.data.len() as u64).sum::<u64>());

    // Six thousand cells do not fit into a MiB.
    let (report, arrived) = replayed(&lab, &[file, "--top-speed", "--memory", "1M"]);
    assert_same(&arrived, expected());
    assert_eq!(report["held"]["how"].as_str(), Some("streamed"));
}

#[test]
fn passes_follow_each_other_for_preloaded_and_streamed_traces() {
    if !require_root("passes_follow_each_other_for_preloaded_and_streamed_traces") {
        return;
    }
    let lab = Lab::with_queues("passes", 1);
    for (packets, loops, more) in [(5, 700, &[][..]), (3_000, 3, &[]), (3_000, 3, &["--memory", "1M"])] {
        let path = write(&lab, "a.pcap", &even(packets, 1_000));
        let of_file = packets_of(&path);
        let loops_text = loops.to_string();
        let arguments = [&[path.to_str().unwrap(), "--top-speed", "--loops", &loops_text], more].concat();
        let (report, arrived) = replayed(&lab, &arguments);
        assert_same(&arrived, (0..loops).flat_map(|_| of_file.iter().map(|packet| packet.data.as_slice())));
        assert_eq!((figure(&report, "/passes"), figure(&report, "/packets")), (loops, packets * loops));
    }
}

#[test]
fn several_files_are_sent_by_time() {
    if !require_root("several_files_are_sent_by_time") {
        return;
    }
    let lab = Lab::with_queues("severalfiles", 1);
    let sketch =
        |from: u64, step: u64, len| (0..50).map(move |number| Sketch { time_ns: from + number * step, len });
    let a = write(&lab, "a.pcap", &trace(sketch(1_000_000_000, 2_000_000, 100)));
    let b = write(&lab, "b.pcap", &trace(sketch(1_001_000_000, 2_000_000, 200)));
    let (_, arrived) = replayed(&lab, &[a.to_str().unwrap(), b.to_str().unwrap()]);
    let expected: Vec<_> = (0..50).flat_map(|number| [frame(number, 100), frame(number, 200)]).collect();
    assert_same(&arrived, expected.iter().map(Vec::as_slice));
}

#[test]
fn frames_of_several_cells_are_sent_whole() {
    if !require_root("frames_of_several_cells_are_sent_whole") {
        return;
    }
    let options = VethOptions { mtu: 9_000, ..VethOptions::default() };
    let lab = Lab::new("bigframes", &[options]);
    let lens = [4_096, 4_097, 60, 8_191, 8_193, 9_014, 9_018, 9_019];
    let path = write(&lab, "big.pcap", &trace(lens.map(|len| Sketch { time_ns: 0, len })));
    for more in [&[][..], &["--loops", "1000"]] {
        let loops = if more.is_empty() { 1 } else { 1_000 };
        let (report, arrived) = replayed(&lab, &[&[path.to_str().unwrap(), "--top-speed"], more].concat());
        // The last one is longer than the interface takes.
        assert_eq!((figure(&report, "/trace/too_long"), figure(&report, "/trace/mtu_needed")), (1, 9_005));
        let expected: Vec<_> =
            lens[..7].iter().enumerate().map(|(number, &len)| frame(number, len)).collect();
        assert_same(&arrived, (0..loops).flat_map(|_| expected.iter().map(Vec::as_slice)));
    }
}

#[test]
fn a_cut_packet_is_sent_padded_or_skipped() {
    if !require_root("a_cut_packet_is_sent_padded_or_skipped") {
        return;
    }
    let lab = Lab::with_queues("cutpackets", 1);
    let mut file = Vec::new();
    pcap::file_header(&mut file, LINK_TYPE_ETHERNET, 0);
    let (cut, whole) = (frame(0, 64), frame(1, 300));
    for (bytes, original_len) in [(&cut, 1_000), (&whole, 300)] {
        let header = PacketHeader { original_len, ..PacketHeader::default() };
        pcap::packet(&mut file, &header, 0, [bytes.as_slice()]);
    }
    let path = write(&lab, "cut.pcap", &file);
    let padded = [cut.clone(), vec![0; 936]].concat();
    for (how, expected) in
        [("send", vec![&cut, &whole]), ("pad", vec![&padded, &whole]), ("skip", vec![&whole])]
    {
        let (report, arrived) = replayed(&lab, &[path.to_str().unwrap(), "--truncated", how]);
        assert_same(&arrived, expected.into_iter().map(Vec::as_slice));
        assert_eq!((figure(&report, "/trace/cut"), report["truncated"].as_str()), (1, Some(how)));
    }
}

#[test]
fn a_pipe_is_sent_as_it_comes() {
    if !require_root("a_pipe_is_sent_as_it_comes") {
        return;
    }
    let lab = Lab::with_queues("pipesend", 1);
    let pipe = lab.path("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let captured = lab.path("arrived.pcapng");
    let capture = lab.capture(&["r0", "-w", captured.to_str().unwrap()]);
    let replay = start(&lab, &[pipe.to_str().unwrap()]);
    replay.wait_for("waiting for a program that writes");
    let bytes = even(100, 1_000_000);
    let mut writer = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    writer.write_all(&bytes).unwrap();
    drop(writer);
    let ended = replay.wait();
    assert_eq!((ended.code, figure(&report(&ended), "/packets")), (Some(0), 100), "{ended:#?}");
    capture.stop().account().assert_lossless(100);
    let expected: Vec<_> = (0..100).map(|number| frame(number, 100)).collect();
    assert_same(&packets_of(&captured), expected.iter().map(Vec::as_slice));

    // Written packets are sent while the pipe stays open.
    let replay = start(&lab, &[pipe.to_str().unwrap(), "--count", "50"]);
    let mut writer = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    writer.write_all(&bytes).unwrap();
    let ended = replay.wait();
    assert_eq!((ended.code, figure(&report(&ended), "/packets")), (Some(0), 50), "{ended:#?}");
    drop(writer);

    // Several passes need the whole trace in memory.
    let replay = start(&lab, &[pipe.to_str().unwrap(), "--loops", "2", "--memory", "1M"]);
    let mut writer = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    // wirecap stops reading before the end.
    let _ = writer.write_all(&even(20_000, 1_000));
    drop(writer);
    let ended = replay.wait();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(
        ended.stderr.contains("can be read only once") && ended.stderr.contains("--memory"),
        "{ended:#?}"
    );
}

#[test]
fn a_pipe_is_behind_when_a_due_packet_is_not_written_yet() {
    if !require_root("a_pipe_is_behind_when_a_due_packet_is_not_written_yet") {
        return;
    }
    let lab = Lab::with_queues("pipebehind", 1);
    let pipe = lab.path("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    const HEADER: usize = 24;
    const PACKET: usize = 16 + 100;
    // Written in three parts of ten packets, one part every 0.6 s; the parts are due two seconds apart.
    let bytes = trace((0..30).map(|number| Sketch { time_ns: number / 10 * 2_000_000_000, len: 100 }));
    for (speed, times) in [("--top-speed", 2), ("--speed=1", 0), ("--speed=100", 2)] {
        let replay = start(&lab, &[pipe.to_str().unwrap(), speed]);
        let mut writer = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
        for part in 0..3 {
            let from = if part == 0 { 0 } else { HEADER + part * 10 * PACKET };
            writer.write_all(&bytes[from..HEADER + (part + 1) * 10 * PACKET]).unwrap();
            // Until then, it would find two parts at once.
            replay.wait_for("read during sending");
            std::thread::sleep(Duration::from_millis(600));
        }
        drop(writer);
        let report = report(&replay.wait());
        assert_eq!(
            (figure(&report, "/packets"), figure(&report, "/held/starved")),
            (30, times),
            "{report:#}"
        );
    }
}

#[test]
fn limits_end_a_replay_early() {
    if !require_root("limits_end_a_replay_early") {
        return;
    }
    let lab = Lab::with_queues("limits", 1);
    let path = write(&lab, "a.pcap", &even(1_000, 1_000_000));
    let file = path.to_str().unwrap();
    let (report, arrived) = replayed(&lab, &[file, "--top-speed", "--loops", "0", "--count", "2500"]);
    assert_eq!((arrived.len(), report["end"].as_str()), (2_500, Some("count")));
    let (report, arrived) = replayed(&lab, &[file, "--duration", "100ms"]);
    assert_eq!(report["end"].as_str(), Some("duration"));
    // One packet every millisecond, from 0 on; a busy machine may send fewer.
    assert!((1..=100).contains(&arrived.len()), "{}", arrived.len());
}

#[test]
fn a_streamed_trace_that_ends_early_has_the_tally_so_far() {
    if !require_root("a_streamed_trace_that_ends_early_has_the_tally_so_far") {
        return;
    }
    const PACKETS: u64 = 20_000;
    let lab = Lab::with_queues("limitsmeanwhile", 1);
    // Twenty thousand cells do not fit into a MiB; for a pipe the number of packets is unknown.
    let bytes = even(PACKETS, 1_000_000);
    let path = write(&lab, "a.pcap", &bytes);
    let file = path.to_str().unwrap();
    let pipe = lab.path("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let limits: [(&[&str], &str); 2] =
        [(&["--top-speed", "--count", "2500"], "count"), (&["--duration", "100ms"], "duration")];
    for (limit, end) in limits {
        let (of_file, arrived) = replayed(&lab, &[&[file, "--memory", "1M"], limit].concat());
        assert_eq!(arrived.len() as u64, figure(&of_file, "/packets"));
        let replay = start(&lab, &[&[pipe.to_str().unwrap()], limit].concat());
        let mut writer = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
        // wirecap stops reading before the end.
        let _ = writer.write_all(&bytes);
        drop(writer);
        let of_pipe = report(&replay.wait());
        for report in [&of_file, &of_pipe] {
            assert_eq!(
                (report["held"]["how"].as_str(), report["end"].as_str()),
                (Some("streamed"), Some(end))
            );
            let (found, sent) = (figure(report, "/trace/packets"), figure(report, "/packets"));
            assert!(0 < sent && sent <= found && found <= PACKETS, "{report:#}");
            assert_eq!(figure(report, "/passes"), 1);
        }
    }
}

#[test]
fn a_pass_counts_once_a_packet_of_it_is_sent() {
    if !require_root("a_pass_counts_once_a_packet_of_it_is_sent") {
        return;
    }
    let lab = Lab::with_queues("passesbegun", 1);
    let path = write(&lab, "a.pcap", &even(3_000, 1_000));
    let file = path.to_str().unwrap();
    for memory in ["1G", "1M"] {
        for (count, passes) in [("3000", 1), ("3001", 2)] {
            let ended =
                run(&lab, &[file, "--pps", "20k", "--loops", "3", "--memory", memory, "--count", count]);
            let report = report(&ended);
            assert_eq!(
                (figure(&report, "/passes"), report["end"].as_str()),
                (passes, Some("count")),
                "{ended:#?}"
            );
        }
    }
}

#[test]
fn a_trace_without_packets_is_sent_at_once() {
    if !require_root("a_trace_without_packets_is_sent_at_once") {
        return;
    }
    let lab = Lab::with_queues("nopackets", 1);
    let path = write(&lab, "none.pcap", &even(0, 0));
    let ended = run(&lab, &[path.to_str().unwrap(), "--loops", "0"]);
    assert_eq!((ended.code, figure(&report(&ended), "/packets")), (Some(0), 0), "{ended:#?}");
    assert!(ended.stderr.contains("there are no packets in the files"), "{ended:#?}");
    // A trace of which no packet can be sent is an error.
    let path = write(&lab, "long.pcap", &trace([Sketch { time_ns: 0, len: 9_000 }]));
    let ended = run(&lab, &[path.to_str().unwrap()]);
    assert_eq!((ended.code, figure(&report(&ended), "/packets")), (Some(1), 0), "{ended:#?}");
    assert!(ended.stderr.contains("nothing was sent"), "{ended:#?}");
}
