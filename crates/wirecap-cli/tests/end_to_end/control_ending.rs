//! What clients see of a capture that ends, or has ended and still writes.

use std::{
    fs::File,
    io::Read,
    process::{Command, Output},
    thread,
    time::Duration,
};

use nix::{sys::stat::Mode, unistd::mkfifo};
use serde_json::Value;
use wirecap_lab::require_root;
use wirecap_testing::wait_until;
use wirecap_traffic::LiveOptions;

use crate::lab::{Lab, READY, RunningCommand, WIRECAP};

fn wirecap(arguments: &[&str]) -> Output {
    Command::new(WIRECAP).args(arguments).output().unwrap()
}

#[test]
fn a_capture_that_still_writes_shows_how_far_it_is() {
    if !require_root("a_capture_that_still_writes_shows_how_far_it_is") {
        return;
    }
    const FRAMES: u64 = 60_000;
    let lab = Lab::with_queues("stillwrites", 1);
    let (pipe, socket) = (lab.path("pipe"), lab.path("control.sock"));
    let (path, socket) = (pipe.to_str().unwrap(), socket.to_str().unwrap());
    let metrics = lab.path("metrics.sock");
    let metrics = format!("unix:{}", metrics.display());
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let running =
        lab.spawn(&["capture", "--json", "r0", "-w", path, "--control", socket, "--metrics", &metrics]);
    let mut reader = File::open(&pipe).unwrap();
    running.wait_for(READY);
    lab.send(0, 0, FRAMES, LiveOptions::default());
    let stopped = wirecap(&["stop", socket, "--timeout", "1s"]);
    let stderr = String::from_utf8_lossy(&stopped.stderr).into_owned();
    assert!(stopped.status.code() == Some(1) && stderr.contains("still writes"), "{stopped:?}");

    let written = || {
        let account: Value = serde_json::from_slice(&wirecap(&["status", socket, "--json"]).stdout).unwrap();
        assert_eq!(account["end"], Value::Null, "{account:#}");
        account["written"]["packets"].as_u64().unwrap()
    };
    let scraped = || {
        let mut curl = Command::new("curl");
        curl.args(["-sSf", "--unix-socket", metrics.strip_prefix("unix:").unwrap(), "http://h/metrics"]);
        let text = String::from_utf8(curl.output().unwrap().stdout).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("wirecap_written_packets_total "));
        line.unwrap_or_else(|| panic!("{text}")).parse::<f64>().unwrap() as u64
    };
    let before = (written(), scraped());
    assert!(before.0 < FRAMES && before.1 < FRAMES, "{before:?}");
    // It is written in blocks, so that the figures move with some of these; they are as of up to 100 ms ago.
    wait_until("the figures move", || {
        reader.read_exact(&mut [0; 256 << 10]).unwrap();
        thread::sleep(Duration::from_millis(110));
        written() > before.0 && scraped() > before.1
    });

    let reading = thread::spawn(move || reader.read_to_end(&mut Vec::new()).unwrap());
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    ended.account().assert_lossless(FRAMES);
    reading.join().unwrap();
}

#[test]
fn stop_without_a_name_says_which_capture_it_has_ended() {
    if !require_root("stop_without_a_name_says_which_capture_it_has_ended") {
        return;
    }
    let lab = Lab::with_queues("barestop", 1);
    // Only here: the captures of other tests have their sockets in the machine's /run.
    let mut command = lab.right.command("unshare");
    let script = format!(
        "mount -t tmpfs none /run && {{ \"$0\" capture r0 --json >/dev/null 2>/run/said & }} && echo $! && \
         until grep -q '^{READY}' /run/said; do \
         kill -0 $! || {{ cat /run/said >&2; exit 1; }}; sleep 0.1; done; \"$0\" stop; wait"
    );
    command.args(["--mount", "sh", "-c", &script, WIRECAP]);
    let ended = RunningCommand::spawn(command).wait();
    let said = String::from_utf8(ended.stdout).unwrap();
    let (pid, said) = said.split_once('\n').unwrap();
    assert_eq!(said, format!("{pid} (r0): the capture has ended with exit code 0\n"), "{}", ended.stderr);
}
