//! Failures before and during a replay.

use std::{
    io::Write,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use nix::sys::signal::Signal;
use wirecap_file::pcap;
use wirecap_lab::require_root;
use wirecap_testing::wait_until;

use super::{Sketch, assert_same, even, figure, frame, packets_of, report, run, start, trace, write};
use crate::lab::{CommandOutput, Lab, RunningCommand, WIRECAP};

#[track_caller]
fn assert_refused(ended: &CommandOutput, code: i32, hints: &[&str]) {
    assert_eq!((ended.code, ended.stdout.len()), (Some(code), 0), "{ended:#?}");
    assert!(ended.has_one_line_of_stderr(), "{ended:#?}");
    for hint in hints.iter().chain(&["wirecap: "]) {
        assert!(ended.stderr.contains(hint), "{hint}: {ended:#?}");
    }
}

#[test]
fn wrong_usage_of_replay_is_found_without_asking_the_machine() {
    for (arguments, hint) in [
        ("replay", "replay needs <FILE>"),
        ("replay a.pcap", "name it after the files, or with -i"),
        ("replay a.pcap -i l0 --speed fast", "like --speed 10"),
        ("replay a.pcap -i l0 --pps 0", "like 1000, 10k"),
        ("replay a.pcap -i l0 --speed 2 --top-speed", "cannot be used with"),
        ("replay a.pcap -i l0 --queues all", "flow:0-3"),
        ("replay a.pcap -i l0 --memory 5", "512M"),
        ("replay a.pcap -i l0 --max-gap 5", "20us"),
        ("replay a.pcap -i l0 --pps 5 --max-gap 1s", "--max-gap is for recorded times"),
        ("replay a.pcap -i l0 --align", "--align has no effect"),
        ("replay a.pcap -i l0 --core 1000", "core 1000 cannot be used"),
    ] {
        let mut command = Command::new(WIRECAP);
        command.args(arguments.split_whitespace());
        let ended = RunningCommand::spawn(command).wait();
        assert_refused(&ended, 2, &[hint]);
    }
}

#[test]
fn impossible_replays_are_refused_before_sending() {
    if !require_root("impossible_replays_are_refused_before_sending") {
        return;
    }
    let lab = Lab::with_queues("unsendable", 2);
    let good = write(&lab, "good.pcap", &even(3, 1_000));
    let good = good.to_str().unwrap();
    let empty = write(&lab, "empty.pcap", b"");
    let text = write(&lab, "text.pcap", b"no trace at all");
    let mut cooked = Vec::new();
    pcap::file_header(&mut cooked, 113, 0);
    pcap::packet(&mut cooked, &wirecap_file::PacketHeader::default(), 0, [[0; 60].as_slice()]);
    let cooked = write(&lab, "cooked.pcap", &cooked);
    let short = write(&lab, "short.txt", b"0\n1\n");
    let short = format!("file:{}", short.display());
    let far = write(&lab, "far.txt", b"0\n1\n2\n");
    let far = format!("file:{}", far.display());

    assert_refused(&run(&lab, &[empty.to_str().unwrap()]), 1, &["is empty"]);
    assert_refused(&run(&lab, &[text.to_str().unwrap()]), 1, &["not a pcap or pcapng file"]);
    assert_refused(&run(&lab, &["/no/such.pcap"]), 1, &["/no/such.pcap", "No such file"]);
    assert_refused(&run(&lab, &[cooked.to_str().unwrap()]), 1, &["Linux cooked capture", "-i any"]);
    assert_refused(
        &run(&lab, &[good, "--queues", "2"]),
        1,
        &["2 transmit queues, numbers 0 to 1", "no queue 2"],
    );
    assert_refused(&run(&lab, &[good, "--queues", &far]), 1, &["no queue 2"]);
    assert_refused(&run(&lab, &["-", "-"]), 1, &["standard input", "once"]);

    // The file has queue numbers for two of three packets: those two are sent.
    let ended = run(&lab, &[good, "--queues", &short]);
    assert_eq!((ended.code, figure(&report(&ended), "/packets")), (Some(1), 2), "{ended:#?}");
    assert!(ended.stderr.contains("has queue numbers for 2 packets"), "{ended:#?}");

    lab.left.ip(&["link", "set", "l0", "down"]).unwrap();
    assert_refused(&run(&lab, &[good]), 1, &["l0 is down", "ip link set l0 up"]);
}

#[test]
fn everything_before_the_damage_is_sent() {
    if !require_root("everything_before_the_damage_is_sent") {
        return;
    }
    let lab = Lab::with_queues("damagedsend", 1);
    let mut bytes = even(50, 1_000);
    let offset = bytes.len();
    bytes.extend([0xff; 40]);
    let path = write(&lab, "damaged.pcap", &bytes);
    for more in [&[][..], &["--memory", "1M"]] {
        let captured = lab.path("arrived.pcapng");
        let capture = lab.capture(&["r0", "-w", captured.to_str().unwrap()]);
        let ended = run(&lab, &[&[path.to_str().unwrap(), "--loops", "2"], more].concat());
        assert_eq!((ended.code, figure(&report(&ended), "/packets")), (Some(1), 100), "{ended:#?}");
        let last = ended.stderr.lines().last().unwrap();
        assert!(last.contains(&format!("at byte {offset}")) && last.contains("damaged.pcap"), "{ended:#?}");
        capture.stop().account().assert_lossless(100);
        let expected: Vec<_> = (0..100).map(|number| frame(number % 50, 100)).collect();
        assert_same(&packets_of(&captured), expected.iter().map(Vec::as_slice));
    }
}

/// Starts an endless replay, does `what` to it, and returns how it ended.
fn interrupted(lab: &Lab, what: impl FnOnce(&Lab, &RunningCommand)) -> CommandOutput {
    let path = write(lab, "a.pcap", &even(1_000, 1_000_000));
    let captured = lab.path("arrived.pcapng");
    let capture = lab.capture(&["r0", "-w", captured.to_str().unwrap()]);
    let replay = start(lab, &[path.to_str().unwrap(), "--loops", "0"]);
    // A block of the file is written as soon as there are packets.
    capture.wait_for_bytes(&captured, 2_000);
    what(lab, &replay);
    let ended = replay.wait();
    drop(capture);
    ended
}

#[test]
fn a_signal_ends_a_replay_with_its_report() {
    if !require_root("a_signal_ends_a_replay_with_its_report") {
        return;
    }
    let lab = Lab::with_queues("signalled", 1);
    let ended = interrupted(&lab, |_, replay| replay.signal(Signal::SIGINT));
    let report = report(&ended);
    assert_eq!((ended.code, report["end"].as_str()), (Some(0), Some("stopped")), "{ended:#?}");
    let sent = figure(&report, "/packets");
    assert!(sent > 0 && figure(&report, "/counters/packets") == sent, "{report:#}");
}

#[test]
fn a_lost_link_ends_a_replay_with_its_report() {
    if !require_root("a_lost_link_ends_a_replay_with_its_report") {
        return;
    }
    for (label, words) in
        [("linkdown", "l0 is down"), ("nocarrier", "l0 has no carrier"), ("removed", "l0 was removed")]
    {
        let lab = Lab::with_queues(label, 1);
        let ended = interrupted(&lab, |lab, _| {
            let done = match label {
                "linkdown" => lab.left.ip(&["link", "set", "l0", "down"]),
                "nocarrier" => lab.right.ip(&["link", "set", "r0", "down"]),
                _ => lab.left.ip(&["link", "del", "l0"]),
            };
            done.map(drop).unwrap();
        });
        let report = report(&ended);
        assert_eq!((ended.code, report["end"].as_str()), (Some(1), Some("failed")), "{ended:#?}");
        assert_eq!(report["failures"][0]["code"], "link_lost", "{report:#}");
        assert!(figure(&report, "/packets") > 0, "{report:#}");
        assert!(ended.stderr.lines().last().unwrap().contains(words), "{ended:#?}");
    }
}

#[test]
fn a_link_lost_during_the_wait_for_a_pipe_ends_the_replay() {
    if !require_root("a_link_lost_during_the_wait_for_a_pipe_ends_the_replay") {
        return;
    }
    let lab = Lab::with_queues("lostwaiting", 1);
    let pipe = lab.path("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let written = |bytes: &[u8]| {
        let mut writer = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
        writer.write_all(bytes).unwrap();
        writer
    };
    // Before the pipe has a writer: a veth would take the packets, and drop them.
    let replay = start(&lab, &[pipe.to_str().unwrap()]);
    replay.wait_for("waiting for a program that writes");
    lab.right.ip(&["link", "set", "r0", "down"]).unwrap();
    drop(written(&even(10, 1_000)));
    let ended = replay.wait();
    assert_eq!((ended.code, figure(&report(&ended), "/packets")), (Some(1), 0), "{ended:#?}");
    assert!(ended.stderr.lines().last().unwrap().contains("l0 has no carrier"), "{ended:#?}");

    // While the pipe has no packet that can be sent.
    lab.right.ip(&["link", "set", "r0", "up"]).unwrap();
    let replay = start(&lab, &[pipe.to_str().unwrap()]);
    let writer = written(&trace([Sketch { time_ns: 0, len: 2_000 }]));
    replay.wait_for("read during sending");
    std::thread::sleep(Duration::from_millis(200));
    lab.left.ip(&["link", "set", "l0", "down"]).unwrap();
    let ended = replay.wait();
    assert_eq!((ended.code, figure(&report(&ended), "/packets")), (Some(1), 0), "{ended:#?}");
    assert!(ended.stderr.lines().last().unwrap().contains("l0 is down"), "{ended:#?}");
    drop(writer);
}

#[test]
fn a_signal_ends_the_wait_for_a_writer() {
    if !require_root("a_signal_ends_the_wait_for_a_writer") {
        return;
    }
    let lab = Lab::with_queues("nobodywrites", 1);
    let pipe = lab.path("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let replay = start(&lab, &[pipe.to_str().unwrap()]);
    replay.wait_for("waiting for a program that writes");
    std::thread::sleep(Duration::from_millis(100));
    replay.signal(Signal::SIGTERM);
    let ended = replay.wait();
    assert_eq!((ended.code, ended.stdout.len()), (Some(1), 0), "{ended:#?}");
    assert!(ended.stderr.contains("stopped before anything was sent"), "{ended:#?}");
}

#[test]
fn a_signal_ends_an_endless_pipe_of_skipped_frames_and_they_are_reported() {
    if !require_root("a_signal_ends_an_endless_pipe_of_skipped_frames_and_they_are_reported") {
        return;
    }
    let lab = Lab::with_queues("leftoutpipe", 1);
    let pipe = lab.path("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let replay = start(&lab, &[pipe.to_str().unwrap()]);
    let written = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&written);
    let writing = std::thread::spawn(move || {
        let too_long = trace([Sketch { time_ns: 0, len: 3_000 }]);
        let mut writer = std::fs::OpenOptions::new().write(true).open(pipe)?;
        writer.write_all(&too_long[..24])?;
        let many = too_long[24..].repeat(100);
        while writer.write_all(&many).is_ok() {
            counter.fetch_add(100, Ordering::Relaxed);
        }
        Ok::<_, std::io::Error>(())
    });
    replay.wait_for("read during sending");
    // replay counts packets per block of 8,192; the pipe holds about twenty.
    wait_until("packets are read", || written.load(Ordering::Relaxed) > 20_000);
    replay.signal(Signal::SIGINT);
    let ended = replay.wait();
    writing.join().unwrap().unwrap();
    let report = report(&ended);
    assert_eq!((ended.code, report["end"].as_str()), (Some(0), Some("stopped")), "{ended:#?}");
    let trace = |name| figure(&report, &format!("/trace/{name}"));
    assert!(trace("too_long") > 1_000 && trace("too_long") == trace("packets"), "{report:#}");
}
