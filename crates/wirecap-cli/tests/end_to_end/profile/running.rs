//! What `wirecap profile` reports before its end, and what it makes of packets without a hash.

use std::{fs, io::Write, process::Command, thread, time::Duration};

use nix::{
    sys::{signal::Signal, stat::Mode},
    unistd::mkfifo,
};
use serde_json::Value;

use super::{directory_with, skewed, trace};
use crate::lab::{CommandOutput, RunningCommand, WIRECAP};

/// The length of the header of a pcap file.
const FILE_HEADER: usize = 24;

/// Profiles a trace that comes in two parts through a pipe, with an account after each of them.
fn profile_of_parts(arguments: &[&str]) -> CommandOutput {
    let (directory, pipe) = directory_with(&[]);
    fs::remove_file(&pipe).unwrap();
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let mut command = Command::new(WIRECAP);
    command.args(["profile", &format!("trace:{}", pipe.display())]).args(arguments);
    let running = RunningCommand::spawn(command);
    let mut writer = fs::File::create(&pipe).unwrap();
    // Within half a second: no bin is closed. Then up to 3 s: bins are closed up to 2 s.
    let parts = [trace((0..500).map(|ms| (ms, Some(0)))), trace((500..3_000).map(|ms| (ms, Some(0))))];
    for (part, skipped) in parts.iter().zip([0, FILE_HEADER]) {
        writer.write_all(&part[skipped..]).unwrap();
        running.wait_for(" packets per queue");
        thread::sleep(Duration::from_millis(500));
        running.signal(Signal::SIGUSR1);
        thread::sleep(Duration::from_millis(300));
    }
    drop((writer, directory));
    running.wait()
}

#[test]
fn a_record_before_the_end_says_what_it_does_not_know_yet() {
    let ended = profile_of_parts(&["--json"]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let lines = String::from_utf8(ended.stdout).unwrap();
    let records: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let known = records.iter().map(|record| {
        let profile = &record["profile"];
        let kind = profile["findings"]["short_term"]["kind"].as_str().unwrap();
        (profile["packets"].as_u64().unwrap(), kind, profile["seconds"].as_f64().unwrap())
    });
    assert_eq!(
        known.collect::<Vec<_>>(),
        [(500, "unknown", 0.0), (3_000, "even", 1.99), (3_000, "even", 3.0)]
    );

    let ended = profile_of_parts(&[]);
    let text = String::from_utf8(ended.stdout).unwrap().replace("\n    ", " ");
    let accounts: Vec<_> = text.split("packets in bins of").skip(1).collect();
    let (unknown, reach) =
        ("short-term imbalance is unknown: no bin is closed yet", "so far, the bins reach to 1.990 s");
    let says = accounts.iter().map(|account| [unknown, reach].map(|words| account.contains(words)));
    assert_eq!(says.collect::<Vec<_>>(), [[true, false], [false, true], [false, false]], "{text}");
}

#[test]
fn advice_about_the_hash_is_not_given_for_packets_without_one() {
    let mostly_arp = (0..2_000).map(|ms| (ms, (ms % 20 == 0).then_some(1)));
    let (_directory, path) = directory_with(&trace(mostly_arp));
    let output =
        Command::new(WIRECAP).args(["profile", &format!("trace:{}", path.display())]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap().replace("\n    ", " ");
    assert!(
        text.contains("(-T) level it; 100.0 % of its packets have no hash (not IP), which no key or table"),
        "{text}"
    );
    assert!(!text.contains("another key or table"), "{text}");
}

#[test]
fn standard_output_is_refused_for_files() {
    let (directory, path) = directory_with(&trace(skewed()));
    for flag in ["--csv", "--picture"] {
        let mut command = Command::new(WIRECAP);
        command.args(["profile", &format!("trace:{}", path.display()), flag, "-"]);
        let refused = command.current_dir(directory.path()).output().unwrap();
        let message = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{message}");
        assert!(message.contains("which has the summary; name a file"), "{message}");
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no file is named -");
}
