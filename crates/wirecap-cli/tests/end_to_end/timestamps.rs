//! `--timestamp`: the requested source is used, and reported at the start, in the account and in the file.

use std::{
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use wirecap_lab::{VethOptions, require_root, skip};
use wirecap_traffic::{FrameSpec, LiveOptions};

use crate::lab::{Lab, RunningCommand, WIRECAP, assert_frames, by_queue, read};

const FRAMES: u64 = 2_000;

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// The time of the first packet, in seconds since 1970, as Wireshark reads it; `None` if Wireshark is not
/// installed.
fn first_time(file: &str) -> Option<String> {
    let arguments = ["-r", file, "-c", "1", "-T", "fields", "-e", "frame.time_epoch"];
    let Ok(output) = Command::new("tshark").args(arguments).output() else {
        skip("the_source_of_the_times_is_reported_everywhere", "tshark is not installed");
        return None;
    };
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

#[test]
fn the_source_of_the_times_is_reported_everywhere() {
    if !require_root("the_source_of_the_times_is_reported_everywhere") {
        return;
    }
    let asked = |source: &'static str| ["--timestamp", source];
    for (arguments, source) in [(&[][..], "kernel"), (&asked("batch"), "batch"), (&asked("kernel"), "kernel")]
    {
        let lab = Lab::with_queues("sources", 1);
        let path = lab.path("sources.pcapng");
        let file = path.to_str().unwrap();
        let running = lab.capture(&[&["r0", "-w", file], arguments].concat());
        let begun_ns = now_ns();
        lab.send(0, 0, FRAMES, LiveOptions::default());
        let ended = running.stop();
        let ended_ns = now_ns();
        ended.account().assert_lossless(FRAMES);

        let timestamp = &ended.account().0["ports"][0]["timestamp"];
        assert_eq!((timestamp["source"].as_str(), timestamp["unstamped"].as_u64()), (Some(source), Some(0)));
        let (clock, resolution_ns) =
            (timestamp["clock"]["text"].as_str().unwrap(), timestamp["resolution_ns"].as_u64());
        assert!(resolution_ns.is_some_and(|resolution_ns| resolution_ns > 0), "{timestamp}");
        for line in [format!("wirecap: r0: timestamps: {source}, "), format!("wirecap: r0: clock: {clock}")] {
            assert!(ended.stderr.contains(&line), "{line}: {ended:#?}");
        }

        let capture = read(&path);
        let comment = &capture.interfaces[0].comments[0];
        assert!(
            comment.starts_with(&format!("timestamps: {source}, ")) && comment.contains(clock),
            "{comment}"
        );
        assert_frames(&by_queue(&capture.packets)[&(0, None)], FrameSpec::default(), usize::MAX);
        // Clocks of two programs on one machine differ by less than a millisecond.
        let allowed = begun_ns - 1_000_000..=ended_ns + 1_000_000;
        for packet in &capture.packets {
            assert!(allowed.contains(&packet.timestamp_ns.unwrap()), "{source}: {:?}", packet.timestamp_ns);
        }
        let first_ns = capture.packets[0].timestamp_ns.unwrap();
        if let Some(told) = first_time(file) {
            let expected = format!("{}.{:09}", first_ns / 1_000_000_000, first_ns % 1_000_000_000);
            assert_eq!(told, expected, "tshark reads the same");
        }
    }
}

/// Stamping each packet has a cost, worth paying only for times that are kept or judged.
#[test]
fn packets_are_stamped_one_by_one_where_their_times_are_kept_or_judged() {
    if !require_root("packets_are_stamped_one_by_one_where_their_times_are_kept_or_judged") {
        return;
    }
    let lab = Lab::with_queues("whichtimes", 1);
    let path = lab.path("times.pcapng");
    let file = ["-w", path.to_str().unwrap()];
    let (copied, packed) = (["--xdp-mode", "copy"], ["--xdp-mode", "packed"]);
    for (arguments, source) in [
        (&copied[..], "batch"),
        (&[copied[0], copied[1], file[0], file[1]], "kernel"),
        (&[copied[0], copied[1], "--verify"], "kernel"),
        // Where packets are packed, the receiver saves more than a stamp costs.
        (&packed, "kernel"),
        (&[file[0], file[1], "--timestamp", "batch"], "batch"),
        (&["--timestamp", "kernel"], "kernel"),
    ] {
        let ended = lab.capture(&[&["r0"], arguments].concat()).stop();
        let port = &ended.account().0["ports"][0];
        assert_eq!(port["timestamp"]["source"].as_str(), Some(source), "{arguments:?}");
        let fallbacks = port["fallbacks"].to_string();
        let is_asked = arguments.contains(&"kernel");
        assert!(is_asked || !fallbacks.contains("leap_seconds_expired"), "{arguments:?}: {fallbacks}");
    }
}

#[test]
fn beside_the_host_times_come_from_the_kernel() {
    if !require_root("beside_the_host_times_come_from_the_kernel") {
        return;
    }
    let addressed = VethOptions { addresses_b: vec!["192.0.2.1/24".into()], ..VethOptions::default() };
    let lab = Lab::new("stamped", &[addressed]);
    let ended = lab.capture(&["packet:r0", "--timestamp", "batch"]).stop();
    let account = ended.account();
    let port = &account.0["ports"][0];
    assert_eq!(port["timestamp"]["source"].as_str(), Some("kernel"));
    assert!(ended.stderr.contains("kernel timestamps instead of batch"), "{ended:#?}");
    let account = lab.capture(&["r0"]).stop().account();
    assert_eq!(account.0["ports"][0]["timestamp"]["source"].as_str(), Some("kernel"));
}

#[test]
fn missing_hardware_timestamps_are_an_error_with_a_remedy() {
    if !require_root("missing_hardware_timestamps_are_an_error_with_a_remedy") {
        return;
    }
    let lab = Lab::with_queues("nohard", 1);
    let ended = lab.spawn(&["capture", "r0", "--timestamp", "hardware", "--duration", "1s"]).wait();
    assert_eq!((ended.code, ended.stdout.is_empty()), (Some(1), true), "{ended:#?}");
    for words in ["r0 has no hardware timestamps", "by software only", "--timestamp kernel"] {
        assert!(ended.stderr.contains(words), "no {words:?}: {ended:#?}");
    }
}

#[test]
fn an_unknown_timestamp_source_is_wrong_usage() {
    let mut command = Command::new(WIRECAP);
    command.args(["capture", "r0", "--timestamp", "ptp"]);
    let ended = RunningCommand::spawn(command).wait();
    assert_eq!(ended.code, Some(2), "{ended:#?}");
    for source in ["hardware", "kernel", "batch"] {
        assert!(ended.stderr.contains(source), "{ended:#?}");
    }
}

/// There, the program stamps by another clock than the process can read: its stamps cannot be brought to UTC.
#[test]
fn in_a_time_namespace_packets_have_the_time_of_their_batch() {
    const TEST: &str = "in_a_time_namespace_packets_have_the_time_of_their_batch";
    if !require_root(TEST) {
        return;
    }
    for offset_s in ["864000", "-1"] {
        let lab = Lab::with_queues("timens", 1);
        let path = lab.path("timens.pcapng");
        let in_time_namespace = |program: &str, arguments: &[&str]| {
            let mut command = lab.right.command("unshare");
            command.args(["--time", "--fork", "--kill-child=SIGTERM", "--monotonic", offset_s, program]);
            command.args(arguments);
            RunningCommand::spawn(command)
        };
        if in_time_namespace("true", &[]).wait().code != Some(0) {
            return skip(TEST, "no time namespace can be made here");
        }
        let count = FRAMES.to_string();
        let arguments = ["capture", "r0", "-c", &count, "--json", "-w", path.to_str().unwrap()];
        let running = in_time_namespace(WIRECAP, &arguments);
        running.wait_for("wirecap: M = ");
        let begun_ns = now_ns();
        lab.send(0, 0, FRAMES, LiveOptions::default());
        let ended = running.wait();
        let allowed = begun_ns - 1_000_000..=now_ns() + 1_000_000;
        let capture = read(&path);
        assert_eq!(capture.packets.len() as u64, FRAMES, "{ended:#?}");
        for packet in &capture.packets {
            assert!(allowed.contains(&packet.timestamp_ns.unwrap()), "{offset_s}: {:?}", packet.timestamp_ns);
        }
        assert_eq!(ended.account().0["ports"][0]["timestamp"]["unstamped"].as_u64(), Some(FRAMES));
    }
}
