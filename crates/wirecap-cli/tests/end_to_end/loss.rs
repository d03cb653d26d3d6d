//! A loss is never silent: warnings come while it happens and at the end, and it can set the exit code.

use nix::sys::signal::Signal;
use serde_json::Value;
use wirecap_lab::require_root;
use wirecap_traffic::LiveOptions;

use crate::{
    forward::{Cable, frame},
    lab::{CommandOutput, Lab, READY, RunningCommand, WIRECAP},
    send_traces::even,
};

/// A pool of four blocks of 128 KiB, the smallest.
const SMALL: [&str; 6] = ["-M", "64", "-R", "4", "--xdp-mode", "packed"];
/// More than three times what fits that.
const FRAMES: u64 = 20_000;

/// A capture with a small pool that loses most of `FRAMES`, since it is stopped while they come.
fn lossy(lab: &Lab, arguments: &[&str]) -> RunningCommand {
    let running = lab.spawn(&[&["capture", "r0"], arguments, &SMALL].concat());
    running.wait_for(READY);
    lose(lab, &running);
    running
}

fn lose(lab: &Lab, running: &RunningCommand) {
    running.signal(Signal::SIGSTOP);
    lab.send(0, 0, FRAMES, LiveOptions::default());
    running.signal(Signal::SIGCONT);
}

fn lines<'e>(ended: &'e CommandOutput, words: &str) -> Vec<&'e str> {
    ended.stderr.lines().filter(|line| line.contains(words)).collect()
}

#[test]
fn a_loss_causes_warnings_during_the_capture_and_at_the_end() {
    if !require_root("a_loss_causes_warnings_during_the_capture_and_at_the_end") {
        return;
    }
    let lab = Lab::with_queues("warned", 1);
    let running = lossy(&lab, &["--json"]);
    running.wait_for("WARNING: r0 lost ");
    // A loss soon after the first warning is reported in the next one or at the end.
    lose(&lab, &running);
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let lost = ended.account().0["ports"][0]["queues"][0]["lost"]["no_free_block"].as_u64().unwrap();
    assert!(lost > FRAMES, "{lost} of {}", 2 * FRAMES);
    assert_eq!(lines(&ended, "WARNING: r0 lost ").len(), 1, "at most one in ten seconds: {ended:#?}");
    let last = lines(&ended, " packets were lost")[0];
    let expected = format!("wirecap: WARNING: {lost} of {} packets were lost", 2 * FRAMES);
    for words in [expected.as_str(), "no_free_block", "the pool was used up", "-R"] {
        assert!(last.contains(words), "{words}: {ended:#?}");
    }
}

/// The remedy for a pool that is too small would mislead.
#[test]
fn a_loss_while_the_process_was_stopped_says_so_and_when() {
    if !require_root("a_loss_while_the_process_was_stopped_says_so_and_when") {
        return;
    }
    let lab = Lab::with_queues("stood", 1);
    let running = lab.spawn(&[&["capture", "r0"], &SMALL[..]].concat());
    running.wait_for(READY);
    // It starts to watch a moment after it is ready.
    std::thread::sleep(std::time::Duration::from_millis(500));
    running.signal(Signal::SIGSTOP);
    lab.send(0, 0, FRAMES, LiveOptions::default());
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    running.signal(Signal::SIGCONT);
    running.wait_for("WARNING: r0 lost ");
    let ended = running.stop();
    let seconds = |line: &str| {
        let (_, rest) = line.split_once("the process hardly ran for ")?;
        rest.split_once(" s: it was stopped")?.0.parse::<f64>().ok()
    };
    let warning = lines(&ended, "WARNING: r0 lost ")[0];
    assert!(seconds(warning).is_some_and(|seconds| seconds >= 1.5), "{ended:#?}");
    assert_eq!(lines(&ended, "the loss was noticed at 20").len(), 1, "{ended:#?}");
    assert_eq!(lines(&ended, "wirecap: the process hardly ran for ").len(), 1, "{ended:#?}");
}

#[test]
fn a_loss_is_reported_even_with_quiet_and_in_the_exit_code_on_request() {
    if !require_root("a_loss_is_reported_even_with_quiet_and_in_the_exit_code_on_request") {
        return;
    }
    let lab = Lab::with_queues("exitcode", 1);
    let ended = lossy(&lab, &["--json", "--fail-on-loss"]).stop();
    assert_eq!(ended.code, Some(3), "{ended:#?}");
    let account = ended.account().0;
    assert!(account["end"] == "signal" && account["error"].as_str().unwrap().contains("lost"), "{account:#}");
    let fine = lab.capture(&["r0", "--fail-on-loss", "--duration", "200ms"]).wait();
    assert_eq!((fine.code, &fine.account().0["error"]), (Some(0), &Value::Null), "{fine:#?}");

    let running = lab.spawn(&[&["capture", "r0", "-q", "--stats", "100ms"], &SMALL[..]].concat());
    // Requested statistics come even with --quiet.
    running.wait_for(" packets  ");
    lose(&lab, &running);
    running.wait_for("r0 lost ");
    let ended = running.stop();
    assert_eq!((ended.code, ended.stdout.len()), (Some(0), 0), "{ended:#?}");
    assert_eq!(lines(&ended, "packets were lost").len(), 1, "{ended:#?}");
}

#[test]
fn statistics_come_at_the_requested_interval() {
    if !require_root("statistics_come_at_the_requested_interval") {
        return;
    }
    let lab = Lab::with_queues("stats", 1);
    let running = lab.capture(&["r0", "--stats", "200ms"]);
    lab.send(0, 0, FRAMES, LiveOptions::default());
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    let ended = running.stop();
    let text = String::from_utf8(ended.stdout.clone()).unwrap();
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(records.len() >= 4, "{text}");
    let (account, statistics) = records.split_last().unwrap();
    assert_eq!(account["end"], "signal", "{account:#}");
    for record in statistics {
        assert_eq!((&record["end"], &record["schema"]), (&Value::Null, &account["schema"]), "{record:#}");
    }
    let delivered = |record: &Value| record["ports"][0]["queues"][0]["delivered"].as_u64().unwrap();
    assert_eq!(delivered(statistics.last().unwrap()), FRAMES);
    let seconds: Vec<_> = statistics.iter().map(|record| record["seconds"].as_f64().unwrap()).collect();
    assert!(seconds.is_sorted(), "{seconds:?}");

    let running = lab.spawn(&["capture", "r0", "--stats", "200ms"]);
    running.wait_for(READY);
    running.wait_for(" s  lost 0  0 packets  ");
    let ended = running.stop();
    assert!(lines(&ended, "wirecap: 0.").len() <= 5, "{ended:#?}");
}

#[test]
fn usr1_prints_the_account_and_the_capture_continues() {
    if !require_root("usr1_prints_the_account_and_the_capture_continues") {
        return;
    }
    let lab = Lab::with_queues("usr1", 1);
    let path = lab.path("usr1.pcapng");
    let running = lab.capture(&["r0", "-w", path.to_str().unwrap()]);
    lab.send(0, 0, FRAMES, LiveOptions::default());
    running.wait_for_bytes(&path, FRAMES * 92);
    running.signal(Signal::SIGUSR1);
    std::thread::sleep(std::time::Duration::from_millis(300));
    lab.send(0, 0, FRAMES, LiveOptions::default());
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let text = String::from_utf8(ended.stdout.clone()).unwrap();
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), 2, "{text}");
    assert_eq!(records[0]["written"]["packets"], FRAMES, "{:#}", records[0]);
    ended.account().assert_lossless(2 * FRAMES);

    let running = lab.spawn(&["capture", "r0"]);
    running.wait_for(READY);
    running.signal(Signal::SIGUSR1);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let ended = running.stop();
    let text = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(text.lines().filter(|line| line.starts_with("port ")).count(), 2, "{text}");
}

#[test]
fn every_long_running_command_answers_usr1() {
    if !require_root("every_long_running_command_answers_usr1") {
        return;
    }
    let lab = Lab::with_queues("usr1all", 1);
    let capture = lab.capture(&["r0"]);
    let on_the_left = |arguments: &[&str]| {
        let mut command = lab.left.command(WIRECAP);
        command.args(arguments);
        RunningCommand::spawn(command)
    };
    let generate = on_the_left(&["generate", "-i", "l0", "--rate", "1k", "--engine", "live"]);
    generate.wait_for("wirecap: run ");
    std::thread::sleep(std::time::Duration::from_millis(300));
    generate.signal(Signal::SIGUSR1);
    generate.wait_for(" frames  ");
    assert_eq!(generate.stop().code, Some(0));

    let trace = lab.path("a.pcap");
    std::fs::write(&trace, even(100, 100_000_000)).unwrap();
    let replay = on_the_left(&["replay", trace.to_str().unwrap(), "-i", "l0"]);
    replay.wait_for("it will take");
    std::thread::sleep(std::time::Duration::from_millis(300));
    replay.signal(Signal::SIGUSR1);
    replay.wait_for(" packets  ");
    assert_eq!(replay.stop().code, Some(0));
    capture.stop();

    let cable = Cable::quiet("usr1cable");
    let running = cable.spawn(&["forward", "m0", "m1"]);
    running.wait_for(READY);
    cable.sender().send(&frame(1, 100)).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    running.signal(Signal::SIGUSR1);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let ended = running.stop();
    let text = String::from_utf8(ended.stdout.clone()).unwrap();
    let is_way = |line: &&str| line.split_whitespace().take(3).eq(["m0", "m1", "1"]);
    assert_eq!((ended.code, text.lines().filter(is_way).count()), (Some(0), 2), "{text}");
}
