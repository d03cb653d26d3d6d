//! A series of files continues across restarts, also after a kill: no file is replaced before older ones are,
//! and no more files are kept than requested.

use std::{fs, path::Path};

use nix::sys::signal::Signal;
use tempfile::TempDir;
use wirecap_lab::require_root;
use wirecap_testing::{running_command::RunningCommand, wait_until};
use wirecap_traffic::{LiveOptions, Marks};

use crate::lab::{Lab, partial, read};

/// The names in a directory, in order.
fn names(directory: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(directory.path()).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn sequences(path: &Path) -> Vec<u64> {
    read(path).packets.iter().map(|packet| Marks::read(&packet.data).unwrap().sequence).collect()
}

fn send(lab: &Lab, frames: u64) {
    lab.send_at(Some(20_000), 0, 0, frames, LiveOptions::default());
}

fn kill(running: RunningCommand) {
    running.signal(Signal::SIGKILL);
    running.wait();
}

#[test]
fn the_newest_files_are_kept_over_restarts_and_kills() {
    if !require_root("the_newest_files_are_kept_over_restarts_and_kills") {
        return;
    }
    let lab = Lab::with_queues("restart", 1);
    let directory = TempDir::new().unwrap();
    let path = |number: u32| directory.path().join(format!("x_{number:05}.pcapng"));
    let template = directory.path().join("x.pcapng");
    let template = template.to_str().unwrap();
    let capture = || lab.capture(&["r0", "-w", template, "-b", "packets:100", "-b", "files:4"]);

    let first = capture();
    send(&lab, 250);
    let ended = first.stop();
    assert!(!ended.stderr.contains("earlier"), "{}", ended.stderr);
    assert_eq!(names(&directory), ["x_00001.pcapng", "x_00002.pcapng", "x_00003.pcapng"]);

    let second = capture();
    send(&lab, 150);
    // Half of the fifth file.
    second.wait_for_bytes(&path(5), 50 * 92);
    let in_use = lab.spawn(&["capture", "r0", "-w", template, "-b", "packets:100"]).wait();
    assert_eq!(in_use.code, Some(1), "{in_use:#?}");
    assert!(
        in_use.stderr.contains("x_00005.pcapng.partial: another process is writing it"),
        "{}",
        in_use.stderr
    );
    kill(second);
    let left = ["x_00002.pcapng", "x_00003.pcapng", "x_00004.pcapng", "x_00005.pcapng.partial"];
    assert_eq!(names(&directory), left);
    assert!(sequences(&path(3)).into_iter().eq(200..250) && sequences(&path(4)).into_iter().eq(0..100));
    let killed = fs::read(partial(&path(5))).unwrap();

    let third = capture();
    // The oldest goes at once: a run that never ends its first file keeps no more than four.
    let now = ["x_00003.pcapng", "x_00004.pcapng", "x_00005.pcapng.partial", "x_00006.pcapng.partial"];
    wait_until("the oldest file is deleted", || names(&directory) == now);
    assert_eq!(fs::read(partial(&path(5))).unwrap(), killed);
    send(&lab, 350);
    let ended = third.stop();
    let words = format!(
        "{}: 4 files of earlier runs (1 not complete); this one begins with {}",
        directory.path().join("x_*.pcapng").display(),
        path(6).display()
    );
    assert!(ended.stderr.contains(&words), "{words}: {}", ended.stderr);
    assert_eq!(names(&directory), ["x_00006.pcapng", "x_00007.pcapng", "x_00008.pcapng", "x_00009.pcapng"]);
    assert!((6..10).flat_map(|number| sequences(&path(number))).eq(0..350));
}

#[test]
fn a_ring_goes_on_behind_its_newest_file() {
    if !require_root("a_ring_goes_on_behind_its_newest_file") {
        return;
    }
    let lab = Lab::with_queues("restring", 1);
    let directory = TempDir::new().unwrap();
    let path = |number: u32| directory.path().join(format!("x_{number:05}.pcapng"));
    let template = directory.path().join("x.pcapng");
    let flags = ["r0", "-w", template.to_str().unwrap(), "-C", "64k", "-W", "3", "--snaplen", "60"];
    let capture = || lab.capture(&flags);
    let files = ["x_00001.pcapng", "x_00002.pcapng", "x_00003.pcapng"];

    // Five files: the newest is the second one of the ring.
    let first = capture();
    send(&lab, 2_900);
    let ended = first.stop();
    assert_eq!(
        (ended.account().written("output_files"), names(&directory)),
        (5, files.map(String::from).to_vec())
    );
    let newest = sequences(&path(2));
    assert_eq!(newest.last(), Some(&2_899));

    let second = capture();
    send(&lab, 100);
    wait_until("the third file has packets", || {
        partial(&path(3)).metadata().is_ok_and(|file| file.len() >= 100 * 92)
    });
    kill(second);
    let left = ["x_00001.pcapng", "x_00002.pcapng", "x_00003.pcapng", "x_00003.pcapng.partial"];
    assert_eq!(names(&directory), left);

    let third = capture();
    send(&lab, 1_000);
    wait_until("the second file begins again", || partial(&path(2)).exists());
    assert_eq!(sequences(&path(2)), newest, "until its successor is complete");
    assert!(partial(&path(3)).exists(), "until its name comes again");
    send(&lab, 1_000);
    let ended = third.stop();
    let words = format!("this one begins with {}", path(1).display());
    assert!(ended.stderr.contains("4 files of earlier runs (1 not complete)"), "{}", ended.stderr);
    assert!(ended.stderr.contains(&words), "{words}: {}", ended.stderr);
    assert_eq!(names(&directory), files);
}

/// What is in them is read as it is in others: a run without packets gives the number of its file away.
#[test]
fn compressed_files_are_kept_over_restarts() {
    if !require_root("compressed_files_are_kept_over_restarts") {
        return;
    }
    for extension in ["zst", "lz4"] {
        let lab = Lab::with_queues("restcompressed", 1);
        let directory = TempDir::new().unwrap();
        let template = directory.path().join(format!("x.pcapng.{extension}"));
        let flags = ["r0", "-w", template.to_str().unwrap(), "-b", "packets:100", "-b", "files:3"];
        let file = |number| format!("x_{number:05}.pcapng.{extension}");
        for (frames, expected) in [(250, [1, 2, 3]), (0, [2, 3, 4]), (50, [2, 3, 4]), (150, [4, 5, 6])] {
            let running = lab.capture(&flags);
            send(&lab, frames);
            running.stop();
            assert_eq!(names(&directory), expected.map(file), "{extension}, after {frames} packets");
        }
        let counts = [4, 5, 6].map(|number| sequences(&directory.path().join(file(number))).len());
        assert_eq!(counts, [50, 100, 50], "{extension}");
    }
}

/// As when the machine restarts in the middle of an hour.
#[test]
fn two_runs_of_one_period_have_a_file_each() {
    if !require_root("two_runs_of_one_period_have_a_file_each") {
        return;
    }
    let lab = Lab::with_queues("restperiod", 1);
    let directory = TempDir::new().unwrap();
    let template = directory.path().join("%Y.pcapng");
    for run in 1..=3 {
        let running = lab.capture(&["r0", "-w", template.to_str().unwrap(), "-G", "1h"]);
        send(&lab, 10 * run);
        running.stop();
    }
    let mut counts: Vec<_> =
        names(&directory).iter().map(|name| sequences(&directory.path().join(name)).len()).collect();
    counts.sort_unstable();
    assert_eq!(counts, [10, 20, 30], "{:?}", names(&directory));
}
