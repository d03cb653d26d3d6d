//! Out of threads: an error at the start, and harmless later.

use nix::sys::signal::Signal;
use wirecap_lab::{ControlGroup, Controller, require_root, skip};
use wirecap_traffic::LiveOptions;

use crate::{
    forward::{
        Cable,
        routes::{networks, route},
    },
    lab::{CommandOutput, Lab, RunningCommand, WIRECAP, read},
    send_traces::{even, write},
};

const TABLE: &str = "
    192.0.2.0/24     dev m0
    198.51.100.0/24  dev m1
";

/// A control group, or a loud skip.
fn group(test: &str) -> Option<ControlGroup> {
    if !require_root(test) {
        return None;
    }
    ControlGroup::new(Controller::Pids).map_err(|reason| skip(test, &reason)).ok()
}

/// Keeps the process from starting threads, and ends it by a signal.
fn interrupt_without_threads(group: &ControlGroup, running: RunningCommand) -> CommandOutput {
    group.take(running.pid());
    group.limit(1);
    running.signal(Signal::SIGINT);
    running.wait()
}

#[test]
fn a_capture_that_is_out_of_threads_ends_cleanly() {
    let Some(group) = group("a_capture_that_is_out_of_threads_ends_cleanly") else { return };
    let lab = Lab::with_queues("no_threads", 2);
    let path = lab.path("all.pcapng");
    let running = lab.capture(&["r0", "-w", path.to_str().unwrap()]);
    lab.send(0, 0, 1_000, LiveOptions::default());
    let ended = interrupt_without_threads(&group, running);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    ended.account().assert_lossless(1_000);
    let capture = read(&path);
    assert_eq!((capture.packets.len(), capture.statistics.len()), (1_000, 1), "with its trailer");
}

#[test]
fn a_cable_that_is_out_of_threads_ends_cleanly() {
    let Some(group) = group("a_cable_that_is_out_of_threads_ends_cleanly") else { return };
    let cable = Cable::quiet("no_threads");
    let ended = interrupt_without_threads(&group, cable.forward(&[]));
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    ended.account();
}

/// Its resolver has its own thread from the start.
#[test]
fn a_router_that_is_out_of_threads_routes_and_ends_cleanly() {
    let Some(group) = group("a_router_that_is_out_of_threads_routes_and_ends_cleanly") else { return };
    let cable = networks("no_threads");
    let running = route(&cable, TABLE, &[]);
    group.take(running.pid());
    group.limit(1);
    // The next hop has to be found first.
    cable.assert_ping(1, &["198.51.100.1"]);
    let ended = interrupt_without_threads(&group, running);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    ended.account();
}

/// Whichever thread cannot be created, the resolver's included, the reason is reported.
#[test]
fn a_router_without_threads_does_not_start() {
    let Some(group) = group("a_router_without_threads_does_not_start") else { return };
    let cable = networks("one_thread");
    let table = cable.path("table.txt");
    std::fs::write(&table, TABLE).unwrap();
    let mut refused = 0;
    for threads in 1.. {
        group.limit(threads);
        let mut command = group.command(&cable.middle, WIRECAP);
        command.args(["forward", "m0", "m1", "--duration", "50ms", "--route", table.to_str().unwrap()]);
        let ended = RunningCommand::spawn(command).wait();
        if ended.code == Some(0) {
            break;
        }
        refused += 1;
        assert!(ended.code == Some(1) && ended.stdout.is_empty(), "{threads}: {ended:#?}");
        assert!(ended.stderr.starts_with("wirecap: ") && !ended.stderr.contains("panicked"), "{ended:#?}");
        assert!(ended.stderr.contains("pids.max"), "{threads}: {ended:#?}");
    }
    // The signals, the resolver, and at least one worker.
    assert!(refused >= 3, "{refused}");
}

#[test]
fn senders_that_are_out_of_threads_end_cleanly() {
    let Some(group) = group("senders_that_are_out_of_threads_end_cleanly") else { return };
    let lab = Lab::with_queues("no_threads", 1);
    let trace = write(&lab, "trace.pcap", &even(3, 1_000));
    let _capture = lab.capture(&["r0"]);
    for (arguments, ready) in [
        (&["generate", "-i", "l0", "--rate", "100pps", "--json"][..], "wirecap: run "),
        (&["generate", "-i", "l0", "--rate", "100pps", "--json", "--engine", "live"], "wirecap: run "),
        (&["replay", trace.to_str().unwrap(), "-i", "l0", "--loops", "0", "--json"], "packets per pass"),
    ] {
        let mut command = lab.left.command(WIRECAP);
        command.args(arguments);
        let running = RunningCommand::spawn(command);
        running.wait_for(ready);
        let ended = interrupt_without_threads(&group, running);
        assert!(ended.code == Some(0) && !ended.stdout.is_empty(), "{arguments:?}: {ended:#?}");
        group.limit(1_000);
    }
}

#[test]
fn without_threads_nothing_starts_and_the_reason_is_reported() {
    let Some(group) = group("without_threads_nothing_starts_and_the_reason_is_reported") else { return };
    let lab = Lab::with_queues("one_thread", 2);
    let path = lab.path("old.pcapng");
    std::fs::write(&path, "as it was").unwrap();
    let trace = write(&lab, "trace.pcap", &even(3, 1_000));
    let (path, trace) = (path.to_str().unwrap(), trace.to_str().unwrap());
    let cores = std::thread::available_parallelism().unwrap().get().min(2) as u64;
    // Enough for the first thread; for a capture to a file also for the one that opens, and for all workers
    // but one.
    for (threads, arguments) in [
        (1, &["capture", "r0", "-w", path][..]),
        (1 + cores, &["capture", "r0", "-w", path]),
        (3, &["capture", "r0", "--dispatch", "push", "--workers", "1", "--capture-threads", "2"]),
        (1, &["replay", trace, "-i", "r0"]),
        (1, &["generate", "-i", "r0", "--engine", "live", "-c", "10"]),
    ] {
        group.limit(threads);
        let mut command = group.command(&lab.right, WIRECAP);
        command.args(arguments);
        let ended = RunningCommand::spawn(command).wait();
        assert!(ended.code == Some(1) && ended.stdout.is_empty(), "{threads}, {arguments:?}: {ended:#?}");
        assert!(ended.stderr.starts_with("wirecap: ") && !ended.stderr.contains("panicked"), "{ended:#?}");
        assert!(ended.stderr.contains("pids.max"), "{threads}, {arguments:?}: {ended:#?}");
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), "as it was");
    // The interface is free, whatever had started.
    lab.capture(&["r0", "--duration", "50ms"]).wait().account();
}
