//! Standard output and standard error that do not take everything at once.

use std::{
    io::{Read, Write},
    os::fd::OwnedFd,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    unistd::pipe2,
};
use serde_json::Value;
use wirecap_lab::Capture;
use wirecap_lab::require_root;
use wirecap_traffic::LiveOptions;

use crate::lab::{Lab, READY, RunningCommand, WIRECAP};

/// A pipe whose writing end does not wait: a write fails when there is no room.
fn non_blocking_pipe() -> (std::fs::File, std::fs::File) {
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC).unwrap();
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    (reader.into(), writer.into())
}

/// The same, full of `x`.
fn full_pipe() -> (std::fs::File, std::fs::File) {
    let (reader, mut writer) = non_blocking_pipe();
    while writer.write(&[b'x'; 4096]).is_ok() {}
    (reader, writer)
}

/// Reads the whole pipe, but only after a while.
fn read_late(mut reader: std::fs::File) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(500));
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text.trim_start_matches('x').to_owned()
    })
}

#[test]
fn packets_wait_for_room_in_a_non_blocking_standard_output() {
    if !require_root("packets_wait_for_room_in_a_non_blocking_standard_output") {
        return;
    }
    const FRAMES: u64 = 20_000;
    let lab = Lab::with_queues("nonblock", 1);
    let (mut reader, writer) = non_blocking_pipe();
    let mut command = lab.right.command(WIRECAP);
    command.args(["capture", "r0", "--json", "-w", "-"]);
    let running = RunningCommand::spawn_into(command, Stdio::from(OwnedFd::from(writer)));
    running.wait_for(READY);
    lab.send(0, 0, FRAMES, LiveOptions::default());
    thread::sleep(Duration::from_millis(300));
    let reading = thread::spawn(move || {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    ended.account_on_stderr().assert_lossless(FRAMES);
    let capture = Capture::read(reading.join().unwrap().as_slice()).unwrap();
    assert!(capture.damage.is_none() && capture.packets.len() as u64 == FRAMES);
}

#[test]
fn text_waits_for_room_in_a_non_blocking_standard_stream() {
    let (reader, writer) = full_pipe();
    let reading = read_late(reader);
    let mut command = Command::new(WIRECAP);
    command.args(["interfaces", "--json"]).stdout(OwnedFd::from(writer));
    assert!(command.status().unwrap().success());
    drop(command);
    let interfaces: Value = serde_json::from_str(&reading.join().unwrap()).unwrap();
    assert!(interfaces.is_array());

    let (reader, writer) = full_pipe();
    let reading = read_late(reader);
    let mut command = Command::new(WIRECAP);
    command.args(["capture", "eth0", "--foo"]).stderr(OwnedFd::from(writer));
    assert_eq!(command.status().unwrap().code(), Some(2));
    drop(command);
    assert!(reading.join().unwrap().contains("there is no flag --foo"));

    let (reader, writer) = full_pipe();
    let reading = read_late(reader);
    let mut command = Command::new(WIRECAP);
    command.arg("--help").stdout(OwnedFd::from(writer));
    assert!(command.status().unwrap().success());
    drop(command);
    assert!(reading.join().unwrap().contains("Exit codes"));
}

#[test]
fn packets_for_a_closed_standard_output_are_refused() {
    if !require_root("packets_for_a_closed_standard_output_are_refused") {
        return;
    }
    let lab = Lab::with_queues("closed", 1);
    let run = |redirected: &str, arguments: &[&str]| {
        let mut command = lab.right.command("sh");
        command.args(["-c", &format!("exec \"$0\" \"$@\" {redirected}"), WIRECAP]).args(arguments);
        RunningCommand::spawn(command).wait()
    };
    let capture = ["capture", "r0", "--duration", "50ms", "-w", "-"];
    let refused = run(">&-", &capture);
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    assert!(refused.stderr.contains("standard output is closed"), "{refused:#?}");
    // Discarding the packets on purpose is allowed.
    assert_eq!(run(">/dev/null", &capture).code, Some(0));
    // An account may go nowhere, as with other programs.
    assert_eq!(run(">&-", &["capture", "r0", "--duration", "50ms"]).code, Some(0));
}
