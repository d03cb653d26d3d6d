//! `--print`: a line for each packet, by tcpdump.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    thread,
    time::Duration,
};

use nix::sys::signal::Signal;
use wirecap_lab::require_root;
use wirecap_traffic::LiveOptions;

use crate::lab::{Lab, READY, RunningCommand, WIRECAP, install_script, read};

const FRAMES: u64 = 1_000;

/// Whether these are the lines of tcpdump for frames of the generator.
fn assert_lines(text: &str, frames: u64) {
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len() as u64, frames, "{text}");
    assert!(
        lines.iter().all(|line| line.contains(" IP 198.18.") && line.contains(": UDP, length ")),
        "{text}"
    );
}

#[test]
fn packets_are_printed_with_and_without_a_file() {
    if !require_root("packets_are_printed_with_and_without_a_file") {
        return;
    }
    let lab = Lab::with_queues("print", 2);
    let path = lab.path("x.pcapng");
    for file in [&[][..], &["-w", path.to_str().unwrap()]] {
        let running = lab.spawn(&[&["capture", "r0", "--print", "--json"], file].concat());
        running.wait_for(READY);
        lab.send(0, 1, FRAMES, LiveOptions::default());
        let ended = running.stop();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        assert_lines(&String::from_utf8_lossy(&ended.stdout), FRAMES);
        let account = ended.account_on_stderr();
        account.assert_lossless(FRAMES);
        assert_eq!((account.written("packets"), account.written("not_copied")), (FRAMES, 0));
    }
    assert_eq!(read(&path).packets.len() as u64, FRAMES);
}

/// And not those of the file.
#[test]
fn what_is_printed_too_slowly_is_counted() {
    if !require_root("what_is_printed_too_slowly_is_counted") {
        return;
    }
    const MANY: u64 = 400_000;
    let lab = Lab::with_queues("slow_print", 1);
    let path = lab.path("x.pcapng");
    let mut command = lab.right.command(WIRECAP);
    command.args(["capture", "r0", "--print", "--json", "-R", "2048", "-w", path.to_str().unwrap()]);
    let mut running = RunningCommand::spawn_unread(command);
    running.wait_for(READY);
    // The test does not read what tcpdump prints yet.
    lab.send(0, 0, MANY, LiveOptions::default());
    running.wait_for_bytes(&path, MANY * 92);
    let mut stdout = BufReader::new(running.take_stdout());
    running.signal(Signal::SIGINT);
    let reader = thread::spawn(move || {
        let mut text = String::new();
        stdout.read_line(&mut text).unwrap();
        stdout.read_to_string(&mut text).unwrap();
        text
    });
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let account = ended.account_on_stderr();
    account.assert_lossless(MANY);
    let not_copied = account.written("not_copied");
    assert!(account.written("packets") == MANY && not_copied > 0, "{:#}", account.0);
    assert_lines(&reader.join().unwrap(), MANY - not_copied);
    let words =
        format!("{not_copied} packets were written but not printed: tcpdump did not read them in time");
    assert!(ended.stderr.contains(&words), "{words}: {}", ended.stderr);
    assert_eq!(read(&path).packets.len() as u64, MANY);
}

#[test]
fn a_printer_that_fails_is_reported_and_the_file_is_whole() {
    if !require_root("a_printer_that_fails_is_reported_and_the_file_is_whole") {
        return;
    }
    let lab = Lab::with_queues("bad_print", 1);
    let (path, programs) = (lab.path("x.pcapng"), lab.path("bin"));
    fs::create_dir(&programs).unwrap();
    let program = programs.join("tcpdump");
    install_script("#!/bin/sh\nexec <&-\necho nothing is read >&2\nexit 3\n", &program);
    let mut command = lab.right.command(WIRECAP);
    command
        .args(["capture", "r0", "--print", "--json", "-w", path.to_str().unwrap()])
        .env("PATH", format!("{}:{}", programs.display(), std::env::var("PATH").unwrap()));
    let running = RunningCommand::spawn(command);
    running.wait_for(READY);
    running.wait_for("nothing is read");
    lab.send(0, 0, FRAMES, LiveOptions::default());
    running.wait_for_bytes(&path, FRAMES * 92);
    running.wait_for("WARNING: the tcpdump that prints has ended, so nothing more is printed");
    // Long enough for a second look.
    thread::sleep(Duration::from_millis(2_200));
    let ended = running.stop();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert_eq!(ended.stderr.matches("the tcpdump that prints has ended").count(), 1, "{ended:#?}");
    let words = format!("{FRAMES} packets were written but not printed: tcpdump had ended");
    assert!(ended.stderr.contains(&words), "{ended:#?}");
    assert!(ended.stderr.contains("tcpdump, which prints the packets, failed: exit status: 3"), "{ended:#?}");
    assert_eq!(read(&path).packets.len() as u64, FRAMES);
    let both = lab.spawn(&["capture", "r0", "--print", "-w", "-"]).wait();
    assert_eq!(both.code, Some(2), "{both:#?}");
}
