//! The start of a capture with many queues: how much memory it takes, and a signal at any time.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use wirecap_lab::{VethOptions, require_root};
use wirecap_traffic::LiveOptions;

use crate::lab::{Lab, READY, read};

const QUEUES: u32 = 64;
/// No signal takes longer, however busy the machine is.
const LATEST_END: Duration = Duration::from_secs(5);
/// Without the time that other work had the core. A busy machine takes longer for the rest, too, but not this
/// long.
const LATEST_READY: Duration = Duration::from_secs(20);

#[test]
fn memory_is_given_as_a_total_and_r_follows() {
    if !require_root("memory_is_given_as_a_total_and_r_follows") {
        return;
    }
    let lab = Lab::with_queues("total", QUEUES);
    let ended = lab.spawn(&["capture", "r0", "--memory", "96M", "--duration", "50ms", "--json"]).wait();
    // A chunk is 512 KiB: 3 for each queue.
    assert!(ended.stderr.contains("M = 256, R = 3: ") && ended.stderr.contains("96 MiB of blocks"));
    let memory = &ended.account().0["memory"];
    assert_eq!(
        (memory["chunks_per_pool"].as_u64(), memory["cells_bytes"].as_u64()),
        (Some(3), Some(96 << 20))
    );
    assert!(memory["bounded"].is_null() && memory["kernel_bytes"].as_u64().unwrap() < 10 << 20, "{memory}");
}

#[test]
fn impossible_sizes_of_memory_are_refused() {
    if !require_root("impossible_sizes_of_memory_are_refused") {
        return;
    }
    let lab = Lab::with_queues("no_total", QUEUES);
    for (arguments, code, words) in [
        (&["--memory", "64M", "-R", "8"][..], 2, "cannot be used with"),
        (&["--memory", "31M"], 2, "31 MiB is too little: a chunk for each pool takes at least 32 MiB"),
        (&["--memory", "31M", "-M", "64", "--ring", "16384"], 2, "a ring of 16384 entries cannot be used"),
        (&["--memory", "500G"], 1, "does not fit"),
        (&["--memory", "900T"], 2, "is too much: all pools together can have 524288 MiB"),
        (&["--memory", "5"], 2, "like 512M or 2G"),
    ] {
        let ended = lab.spawn(&[&["capture", "r0"], arguments].concat()).wait();
        assert!(ended.code == Some(code) && ended.stdout.is_empty(), "{arguments:?}: {ended:#?}");
        assert!(ended.stderr.contains(words), "{arguments:?}: {ended:#?}");
    }
}

#[test]
fn a_signal_ends_the_start_within_a_second() {
    if !require_root("a_signal_ends_the_start_within_a_second") {
        return;
    }
    let lab =
        Lab::new("impatient", &[(); 2].map(|()| VethOptions { queues: QUEUES, ..VethOptions::default() }));
    for arguments in
        [&["capture", "r0"][..], &["capture", "r0", "--xdp-mode", "copy"], &["forward", "r0", "r1"]]
    {
        ends_within_a_second(&lab, arguments);
    }
}

/// Interrupts the start of a command at several times.
fn ends_within_a_second(lab: &Lab, command: &[&str]) {
    let path = lab.path("old.pcapng");
    fs::write(&path, "as it was").unwrap();
    let arguments = [command, &["--memory", "1G", "--json", "-w", path.to_str().unwrap()]].concat();
    let start = |after: Duration| {
        let running = lab.spawn(&arguments);
        thread::sleep(after);
        let asked = Instant::now();
        // SIGINT has the same effect, but a shell without a terminal has commands in the background ignore
        // it, which they do until wirecap has its handler.
        running.signal(Signal::SIGTERM);
        (running.wait(), asked.elapsed())
    };
    for after_ms in [20, 40, 80, 160, 320, 640, 1280] {
        let what = format!("{command:?}, after {after_ms} ms");
        // The first of ten that ends in time: other work on the machine may delay some.
        let mut ends = (0..10).map(|_| {
            let (ended, took) = start(Duration::from_millis(after_ms));
            assert!(took < LATEST_END, "{what}: {took:?}");
            let was_ready = ended.stderr.contains(READY);
            if ended.code.is_none() {
                // `ip netns exec` has not started wirecap yet.
                assert!(ended.stderr.is_empty(), "{what}: {ended:#?}");
                return took;
            }
            assert_eq!(ended.code, Some(if was_ready { 0 } else { 1 }), "{what}: {ended:#?}");
            if !was_ready {
                // The second while the command line was still being read.
                let words = ["so nothing was captured", "stopped before anything was started"];
                assert!(words.iter().any(|words| ended.stderr.contains(words)), "{what}: {ended:#?}");
                assert_eq!(fs::read_to_string(&path).unwrap(), "as it was");
            } else {
                fs::write(&path, "as it was").unwrap();
            }
            took
        });
        assert!(ends.any(|took| took < Duration::from_secs(1)), "{what}, and ten times");
    }
}

/// With the sizes that follow from the machine's memory.
#[test]
fn sixty_four_queues_are_ready_soon() {
    if !require_root("sixty_four_queues_are_ready_soon") {
        return;
    }
    let lab = Lab::with_queues("ready", QUEUES);
    for arguments in [&["r0"][..], &["r0", "--xdp-mode", "copy"]] {
        let begun = Instant::now();
        let running = lab.capture(arguments);
        let took = begun.elapsed();
        let waited = waited_for_a_core(running.pid());
        assert_eq!(running.stop().code, Some(0), "{arguments:?}");
        assert!(took < LATEST_READY + waited, "{arguments:?}: {took:?}, {waited:?} of it without a core");
    }
}

/// How long the main thread of a process was able to run and had no core: the second figure of its schedstat.
fn waited_for_a_core(pid: u32) -> Duration {
    let figures = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    Duration::from_nanos(figures.split(' ').nth(1).and_then(|figure| figure.parse().ok()).unwrap())
}

#[test]
fn a_burst_right_after_the_start_is_captured_whole() {
    if !require_root("a_burst_right_after_the_start_is_captured_whole") {
        return;
    }
    let lab = Lab::with_queues("at_once", QUEUES);
    let path = lab.path("burst.pcapng");
    let running = lab.capture(&["r0", "--memory", "1G", "-w", path.to_str().unwrap()]);
    // The pool of a queue holds 8,192 packets.
    lab.send(0, 0, 8_000, LiveOptions::default());
    let ended = running.stop();
    ended.account().assert_lossless(8_000);
    assert_eq!(read(&path).packets.len(), 8_000);
}
