//! Settings files: they take effect, printed settings are read back, and an error keeps the command from
//! starting.

use std::{fs, path::Path, process::Command};

use nix::{
    sys::{signal::Signal, stat::Mode},
    unistd::mkfifo,
};
use wirecap_lab::require_root;
use wirecap_traffic::LiveOptions;

use crate::lab::{CommandOutput, Lab, RunningCommand, WIRECAP, read};

/// Runs the command outside of any namespace.
fn run(arguments: &[&str]) -> CommandOutput {
    let mut command = Command::new(WIRECAP);
    command.args(arguments);
    RunningCommand::spawn(command).wait()
}

fn write(path: &Path, text: &str) -> String {
    fs::write(path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn printed_settings_are_read_back_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let file = write(
        &directory.path().join("a.toml"),
        "[capture]\nports = ['xdp:none0']\nmode = 'basic'\n[output]\nwrite = 'x.pcapng'\nstats = '90s'\n",
    );
    let forward = write(
        &directory.path().join("b.toml"),
        "[capture]\nports = ['none0', 'none1']\n[forward]\nvlan = '10=20'\non_full = 'drop'\n",
    );
    for (arguments, lines) in [
        (
            &["capture", "--config", &file, "-M", "64", "--filter", "udp port 9"][..],
            &["mode = \"basic\"", "cells_per_chunk = 64", "filter = \"udp port 9\"", "stats = \"90s\""][..],
        ),
        (
            &["forward", "--config", &forward, "--ttl", "3"],
            &["vlan = \"10=20\"", "ttl = \"3\"", "wait = \"block\""],
        ),
        (&["capture"], &["ports = []"]),
    ] {
        let printed = run(&[arguments, &["--print-config"]].concat());
        let text = String::from_utf8(printed.stdout.clone()).unwrap();
        assert_eq!((printed.code, printed.stderr.as_str()), (Some(0), ""), "{printed:#?}");
        for line in lines {
            assert!(text.lines().any(|printed| printed == *line), "{line}: {text}");
        }
        let again = write(&directory.path().join("again.toml"), &text);
        let again = run(&[arguments[0], "--config", &again, "--print-config"]);
        assert_eq!(String::from_utf8(again.stdout).unwrap(), text);
    }
}

#[test]
fn an_error_in_a_settings_file_is_wrong_usage() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bad.toml");
    for (command, text, words) in [
        (
            "capture",
            "[capture]\nfiltr = 'udp'\n",
            ":2:1: filtr is not a key in [capture]; did you mean filter?",
        ),
        (
            "capture",
            "[output]\nduration = 3\n",
            ":2:12: duration: text in quotes is needed, not a number: for example, duration = \"10s\"",
        ),
        (
            "capture",
            "[capture]\nports = ['none0']\ntransmit_entries = 64\n",
            ":3:20: transmit_entries: cannot be set for capture",
        ),
        ("capture", "", "name at least one"),
        ("capture", "[capture]\n", "name at least one"),
        ("capture", "[capture]\nmode = 'basic'\n", "name at least one"),
        (
            "capture",
            "[capture]\nports = ['lo']\n\n[output]\nwrite = 'x.pcapng'\nrotate_files = 4\n",
            ":6) is for a series of files: add rotate_size",
        ),
        (
            "forward",
            "[capture]\nports = ['a', 'b']\nmode = 'advanced'\n",
            ":3:8: mode: cannot be set for forward: packets",
        ),
        (
            "forward",
            "[capture]\nports = ['a', 'packet:b']\n",
            ":2:9: ports: packet:b cannot be forwarded: the host would keep",
        ),
    ] {
        let file = write(&path, text);
        let ended = run(&[command, "--config", &file]);
        assert!(ended.code == Some(2) && ended.stdout.is_empty(), "{text}: {ended:#?}");
        assert!(ended.stderr.contains(words), "{text}: {ended:#?}");
        // A message without a place may be about a flag, unless the file has no setting.
        let beside = format!(
            "wirecap: {file} has settings, too; --print-config prints what they and the flags come to"
        );
        let is_beside = !words.starts_with(':') && text.contains('=');
        assert_eq!(ended.stderr.ends_with(&beside), is_beside, "{text}: {ended:#?}");
        // To print the settings checks them; interfaces may be named later.
        let printed = run(&[command, "--config", &file, "--print-config"]);
        if words == "name at least one" {
            assert_eq!((printed.code, printed.stderr.as_str()), (Some(0), ""), "{printed:#?}");
        } else {
            assert_eq!((printed.code, &printed.stderr), (Some(2), &ended.stderr), "{printed:#?}");
        }
    }
}

#[test]
fn printing_the_settings_checks_what_does_not_depend_on_the_machine() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("w.toml");
    for (command, text, words) in [
        ("capture", "[capture]\nworkers = 0\n", ":2:11: workers: 0 workers cannot capture anything"),
        ("capture", "[capture]\nfilter = 'prt 22'\n", ":2:10: filter: filter `prt 22`: "),
        (
            "capture",
            "[output]\nwrite = 'x.pcapng'\nrotate_size = 100\n",
            ":3:15: rotate_size: 100 bytes is too",
        ),
        ("capture", "[output]\ncopy_to = 'eth1'\nverify = true\n", "cannot be combined"),
        ("forward", "[forward]\npass = 'udp'\ndrop = 'prt 22'\n", ":3:8: drop: filter `prt 22`: "),
        ("forward", "[capture]\ntransmit_entries = 100\n", ":2:20: transmit_entries: 100 is no size"),
        ("forward", "[capture]\nports = ['none0']\n", ":2:9: ports: forward is between two interfaces"),
        ("forward", "[output]\nkeep_files = 2\n", ":2) is a number of files"),
    ] {
        let file = write(&path, text);
        let ended = run(&[command, "--config", &file, "--print-config"]);
        let printed = String::from_utf8(ended.stdout.clone()).unwrap();
        assert!(ended.code == Some(2) && printed.starts_with("[capture]\n"), "{text}: {ended:#?}");
        assert!(ended.stderr.contains(words) && ended.stderr.lines().count() == 1, "{text}: {ended:#?}");
    }
    for (command, text) in [
        ("capture", "[capture]\nports = ['none0']\nfilter = 'wlan type mgt'\n[output]\nwrite = '-'\n"),
        ("forward", "[forward]\nset_source = ['none0=02:00:00:00:00:01']\n"),
    ] {
        let file = write(&path, text);
        let ended = run(&[command, "--config", &file, "--print-config"]);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{text}: {ended:#?}");
    }
}

#[test]
fn a_pipe_of_settings_is_given_up_on_a_signal_and_one_without_an_end_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let pipe = pipe.to_str().unwrap();
    for arguments in [
        &["capture", "--config", pipe][..],
        &["forward", "--config", pipe],
        &["capture", "none0", "-F", pipe],
    ] {
        let mut command = Command::new(WIRECAP);
        command.args(arguments);
        let running = RunningCommand::spawn(command);
        running.wait_for("has not been read to its end yet");
        running.signal(Signal::SIGINT);
        let ended = running.wait();
        let words = "was not read to its end, so nothing was started";
        assert!(ended.code == Some(1) && ended.stderr.contains(words), "{ended:#?}");
    }
    let endless = run(&["capture", "--config", "/dev/zero"]);
    assert!(endless.code == Some(2) && endless.stderr.contains("/dev/zero is too long"), "{endless:#?}");
}

#[test]
fn a_capture_follows_its_settings_file() {
    if !require_root("a_capture_follows_its_settings_file") {
        return;
    }
    let lab = Lab::with_queues("by_file", 2);
    let path = lab.path("trace.pcapng");
    let file = write(
        &lab.path("sensor.toml"),
        &format!(
            "[capture]\nports = ['xdp:r0']\ncells_per_chunk = 64\npool_size = 'chunks:40'\nmode = 'basic'\n\
             [output]\nwrite = '{}'\njson = true\n",
            path.display()
        ),
    );
    let running = lab.spawn(&["capture", "--config", &file, "-R", "32"]);
    running.wait_for("wirecap: M = 64, R = 32: ");
    lab.send(0, 0, 500, LiveOptions::default());
    let ended = running.stop();
    ended.account().assert_lossless(500);
    assert!(ended.stderr.contains("basic mode"), "{ended:#?}");
    assert_eq!(read(&path).packets.len(), 500);
}
