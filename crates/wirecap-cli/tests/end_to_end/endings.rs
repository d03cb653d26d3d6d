//! The end of a capture whose output is slow, and what the record says about a bad end.

use std::{
    io::{BufRead, BufReader, Read},
    process::{ChildStdout, Stdio},
    thread,
    time::Duration,
};

use nix::{
    fcntl::{FcntlArg, fcntl},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use wirecap_lab::Capture;
use wirecap_lab::require_root;
use wirecap_traffic::LiveOptions;

use crate::lab::{Lab, READY, RunningCommand, SmallDisk, WIRECAP};

const FRAMES: u64 = 10_000;

/// A capture of `r0` into a pipe that is not read, after `FRAMES` frames.
fn unread(lab: &Lab, arguments: &[&str]) -> (RunningCommand, ChildStdout) {
    let mut command = lab.right.command(WIRECAP);
    command.args(["capture", "r0", "--json", "-w", "-"]).args(arguments);
    let mut running = RunningCommand::spawn_unread(command);
    running.wait_for(READY);
    lab.send(0, 0, FRAMES, LiveOptions::default());
    let stdout = running.take_stdout();
    (running, stdout)
}

fn read_whole(stdout: &mut ChildStdout) -> Capture {
    let mut bytes = Vec::new();
    stdout.read_to_end(&mut bytes).unwrap();
    Capture::read(bytes.as_slice()).unwrap()
}

#[test]
fn a_slow_end_reports_the_rest_and_a_signal_gives_it_up() {
    if !require_root("a_slow_end_reports_the_rest_and_a_signal_gives_it_up") {
        return;
    }
    let lab = Lab::with_queues("slowend", 1);
    for by_signal in [false, true] {
        let duration: &[&str] = if by_signal { &[] } else { &["--duration", "2s"] };
        let (running, mut stdout) = unread(&lab, duration);
        // `timeout` sends its signal twice.
        if by_signal {
            running.signal(Signal::SIGINT);
            running.signal(Signal::SIGINT);
        }
        running.wait_for("still to be written to standard output");
        running.wait_for("Ctrl-C");
        running.signal(Signal::SIGINT);
        running.signal(Signal::SIGINT);
        let ended = running.wait();
        assert_eq!(ended.code, Some(1), "{ended:#?}");
        let account = ended.account_on_stderr();
        assert_eq!(account.sum("delivered"), FRAMES, "the account has all frames");
        let error = account.0["error"].as_str().unwrap();
        assert!(error.contains("given up") && error.contains(", and perhaps a part of another; "), "{error}");
        assert!(account.written("packets") < FRAMES, "{error}");
        let expected = if by_signal { "signal" } else { "duration" };
        assert_eq!(account.0["end"], expected, "{ended:#?}");
        let kept = read_whole(&mut stdout).packets.len() as u64;
        assert_eq!(kept, account.written("packets"));
    }
}

#[test]
fn repeated_signals_end_a_capture_whose_account_finds_no_room() {
    if !require_root("repeated_signals_end_a_capture_whose_account_finds_no_room") {
        return;
    }
    let lab = Lab::with_queues("thrice", 1);
    let mut command = lab.right.command(WIRECAP);
    command.args(["capture", "r0", "--json", "--stats", "50ms", "-w", "-"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    fcntl(stderr.get_ref(), FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
    let mut line = String::new();
    while !line.starts_with(READY) {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "the capture does not start");
    }
    // The test stops reading here: soon not even the account finds room.
    lab.send(0, 0, FRAMES, LiveOptions::default());
    thread::sleep(Duration::from_millis(500));
    let mut signals = 0;
    let status = loop {
        kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
        signals += 1;
        thread::sleep(Duration::from_millis(1_500));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        // On a busy machine the capture may notice some signals together.
        if signals == 10 {
            child.kill().unwrap();
        }
    };
    assert!(signals > 1 && status.code() == Some(1), "{signals}: {status:?}");
    let packets = read_whole(&mut child.stdout.take().unwrap()).packets;
    assert!(!packets.is_empty(), "the written packets are readable");
}

#[test]
fn a_slow_end_loses_nothing_if_it_is_waited_for() {
    if !require_root("a_slow_end_loses_nothing_if_it_is_waited_for") {
        return;
    }
    let lab = Lab::with_queues("waitedend", 1);
    let (running, mut stdout) = unread(&lab, &["--duration", "2s"]);
    running.wait_for("still to be written to standard output");
    let reader = thread::spawn(move || read_whole(&mut stdout));
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    ended.account_on_stderr().assert_lossless(FRAMES);
    let capture = reader.join().unwrap();
    assert!(capture.damage.is_none() && capture.packets.len() as u64 == FRAMES);
}

#[test]
fn the_record_of_a_capture_says_when_it_began_and_why_it_ended() {
    if !require_root("the_record_of_a_capture_says_when_it_began_and_why_it_ended") {
        return;
    }
    let lab = Lab::with_queues("record", 1);
    let account = lab.capture(&["r0", "--duration", "100ms"]).wait().account().0;
    assert_eq!((&account["end"], &account["error"]), (&"duration".into(), &Value::Null), "{account:#}");
    assert_eq!((&account["schema"], &account["command"]), (&1.into(), &"capture".into()), "{account:#}");
    assert_eq!(account["version"], env!("CARGO_PKG_VERSION"));
    let started = account["started"].as_str().unwrap();
    assert!(started.starts_with("20") && started.contains('T') && started.ends_with('Z'), "{started}");
    assert_eq!(lab.capture(&["r0"]).stop().account().0["end"], "signal");

    let directory = lab.path("disk");
    let _disk = SmallDisk::mount(&directory);
    let running = lab.capture(&["r0", "-w", directory.join("full.pcapng").to_str().unwrap()]);
    lab.send(0, 0, 30_000, LiveOptions::default());
    let ended = running.wait();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    let account = ended.account().0;
    assert_eq!(account["end"], "write_failed");
    assert!(account["error"].as_str().unwrap().contains("No space left on device"), "{account:#}");

    let running = lab.capture(&["r0"]);
    lab.right.ip(&["link", "del", "dev", "r0"]).unwrap();
    let account = running.wait().account().0;
    assert_eq!(account["end"], "interfaces_gone");
    assert!(account["error"].as_str().unwrap().contains("every interface is gone"), "{account:#}");
}
