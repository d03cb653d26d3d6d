//! Messages on standard error for programs: JSON, and the priorities of the journal.

use std::{
    fs::{self, File},
    os::linux::fs::MetadataExt,
};

use nix::sys::signal::Signal;
use serde_json::Value;
use wirecap_lab::require_root;
use wirecap_testing::{schema::check_record, wait_until};
use wirecap_traffic::LiveOptions;

use crate::lab::{Lab, RunningCommand, WIRECAP};

/// The flags of a capture with the smallest pool.
const SMALL: [&str; 8] = ["capture", "r0", "-M", "64", "-R", "4", "--xdp-mode", "packed"];

/// Stops the process while more packets come than its pool holds.
fn lose(lab: &Lab, running: &RunningCommand) {
    running.signal(Signal::SIGSTOP);
    lab.send(0, 0, 20_000, LiveOptions::default());
    running.signal(Signal::SIGCONT);
}

fn records(stderr: &str) -> Vec<Value> {
    let records = stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")));
    records.inspect(|record| check_record("messages", record)).collect()
}

fn find<'r>(records: &'r [Value], code: &str) -> Vec<&'r Value> {
    records.iter().filter(|record| record["code"] == code).collect()
}

#[test]
fn each_message_is_an_object_with_level_code_and_text() {
    if !require_root("each_message_is_an_object_with_level_code_and_text") {
        return;
    }
    let lab = Lab::with_queues("messages", 1);
    let running = lab.spawn(&[&SMALL[..], &["--log", "json", "--fail-on-loss", "--stats", "200ms"]].concat());
    // The last line of the announcement.
    running.wait_for("\"text\":\"M = ");
    running.wait_for("\"code\":\"progress\"");
    lose(&lab, &running);
    running.wait_for("\"code\":\"lost\"");
    lab.right.ip(&["link", "set", "r0", "down"]).unwrap();
    running.wait_for("\"code\":\"down\"");
    let ended = running.stop();
    assert_eq!(ended.code, Some(3), "{ended:#?}");
    let records = records(&ended.stderr);
    let lost = find(&records, "lost");
    assert_eq!(lost[0]["level"], "warning", "{lost:#?}");
    assert!(lost[0]["text"].as_str().unwrap().starts_with("r0 lost "), "{lost:#?}");
    // With --fail-on-loss the loss is what makes the command fail.
    let last = lost.last().unwrap();
    assert!(
        last["level"] == "error" && last["text"].as_str().unwrap().contains(" packets were lost"),
        "{last}"
    );
    assert_eq!(find(&records, "down")[0]["level"], "info");
    assert!(!find(&records, "progress").is_empty(), "{records:#?}");
    // The account is no message.
    assert!(String::from_utf8_lossy(&ended.stdout).contains("no_free_block"), "{ended:#?}");
}

#[test]
fn an_error_is_an_object_whatever_else_is_wrong() {
    let failed = |arguments: &[&str]| {
        let output = std::process::Command::new(WIRECAP).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, stderr) = failed(&["capture", "no-such-if", "--log", "json"]);
    let records = records(&stderr);
    assert_eq!((code, records.len()), (Some(1), 1), "{stderr}");
    assert_eq!(records[0]["level"], "error");
    assert!(records[0]["text"].as_str().unwrap().contains("no-such-if"), "{stderr}");
    let (code, stderr) = failed(&["capture", "lo", "--log", "json", "-c", "0"]);
    let wrong = self::records(&stderr);
    assert_eq!((code, wrong.len()), (Some(2), 1), "{stderr}");
    assert!(
        wrong[0]["text"].as_str().unwrap().starts_with("--count 0: write a number of packets"),
        "{stderr}"
    );
    let (code, stderr) = failed(&["capture", "lo", "--log", "jsom"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("json"), "{stderr}");
}

#[test]
fn the_journal_gets_a_priority_with_each_line() {
    if !require_root("the_journal_gets_a_priority_with_each_line") {
        return;
    }
    let lab = Lab::with_queues("journal", 1);
    let path = lab.path("stderr");
    let journal = File::create(&path).unwrap();
    let metadata = journal.metadata().unwrap();
    let mut command = lab.right.command(WIRECAP);
    command.args(SMALL).stdout(File::create(lab.path("stdout")).unwrap()).stderr(journal);
    // As systemd does.
    command.env("JOURNAL_STREAM", format!("{}:{}", metadata.st_dev(), metadata.st_ino()));
    let mut running = command.spawn().unwrap();
    let has = |words: &str| fs::read_to_string(&path).unwrap().contains(words);
    wait_until("the capture runs", || has("wirecap: M = "));
    let pid = nix::unistd::Pid::from_raw(running.id().try_into().unwrap());
    nix::sys::signal::kill(pid, Signal::SIGSTOP).unwrap();
    lab.send(0, 0, 20_000, LiveOptions::default());
    nix::sys::signal::kill(pid, Signal::SIGCONT).unwrap();
    wait_until("the loss is reported", || has("<4>wirecap: WARNING: r0 lost "));
    nix::sys::signal::kill(pid, Signal::SIGINT).unwrap();
    assert!(running.wait().unwrap().success());
    let text = fs::read_to_string(&path).unwrap();
    for line in text.lines() {
        let expected = if line.contains("WARNING") { "<4>wirecap: WARNING: " } else { "<6>wirecap: " };
        assert!(line.starts_with(expected), "{line}");
    }
}
