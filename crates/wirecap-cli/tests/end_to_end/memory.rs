//! The memory of control groups: what is accepted works, and what would not is refused.

use std::{
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use wirecap_lab::{ControlGroup, Controller, VethOptions, require_root, skip};
use wirecap_testing::{PacketSender, SendPath, kernel_is_at_least, wait_until};

use crate::lab::{Lab, READY, RunningCommand, WIRECAP};

/// A group with this limit, or a loud skip.
fn limited(test: &str, limit: u64) -> Option<ControlGroup> {
    if !require_root(test) {
        return None;
    }
    let group = ControlGroup::new(Controller::Memory).map_err(|reason| skip(test, &reason)).ok()?;
    group.limit(limit);
    Some(group)
}

#[test]
fn the_limit_of_a_control_group_is_an_error_and_not_a_kill() {
    let Some(group) = limited("the_limit_of_a_control_group_is_an_error_and_not_a_kill", 200 << 20) else {
        return;
    };
    let lab = Lab::with_queues("in_group", 1);
    let run = |arguments: &[&str]| {
        let mut command = group.command(&lab.right, WIRECAP);
        command.args(["capture", "r0", "--json", "--duration", "50ms"]).args(arguments);
        RunningCommand::spawn(command).wait()
    };
    for arguments in [&["-R", "1000"][..], &["--memory", "500M"]] {
        let ended = run(arguments);
        assert_eq!(ended.code, Some(1), "{ended:#?}");
        let directory = group.directory().display().to_string();
        for words in ["does not fit", "of the 200 MiB that the control group", &directory, "lower -R"] {
            assert!(ended.stderr.contains(words), "{words}: {ended:#?}");
        }
    }
    let fits = run(&["--memory", "64M"]);
    assert_eq!(fits.code, Some(0), "{fits:#?}");
    // The default is what fits.
    let bounded = run(&[]);
    assert_eq!(bounded.code, Some(0), "{bounded:#?}");
    let memory = &bounded.account().0["memory"];
    assert!(memory["cells_bytes"].as_u64().unwrap() < 200 << 20 >> 3, "{memory}");
    assert_eq!(memory["bounded"]["control_group"].as_str(), group.directory().to_str(), "{memory}");
    assert!(bounded.stderr.contains("R would be 128"), "{bounded:#?}");
}

/// A capture of the lab in a group, with a JSON account.
fn capture(lab: &Lab, group: &ControlGroup, arguments: &[&str]) -> RunningCommand {
    let mut command = group.command(&lab.right, WIRECAP);
    command.args(["capture", "--json"]).args(arguments);
    RunningCommand::spawn(command)
}

#[test]
fn the_largest_memory_that_is_accepted_is_there_under_load() {
    /// More bytes than the pools have.
    const FRAMES: u64 = 60_000;
    let Some(group) = limited("the_largest_memory_that_is_accepted_is_there_under_load", 60 << 20) else {
        return;
    };
    let lab = Lab::with_queues("largest", 1);
    let ifindex = lab.pairs[0].a().ifindex().unwrap();
    let mut sender = lab.left.enter(|| PacketSender::open(ifindex, SendPath::Queueing)).unwrap();
    let mut ways = vec![("xdp:r0", "packed"), ("xdp:r0", "copy")];
    ways.extend(kernel_is_at_least(6, 6).then_some(("tap:r0", "best")));
    for (port, mode) in ways {
        let is_accepted = |mib: &u32| {
            let memory = format!("{mib}M");
            let running = capture(&lab, &group, &[port, "--xdp-mode", mode, "--memory", &memory]);
            wait_until("it captures, or ends", || {
                running.said().contains(READY) || running.said().contains("does not fit")
            });
            if running.said().contains("does not fit") {
                return false;
            }
            (0..FRAMES).for_each(|_| sender.send(&[0xff; 1_400]).unwrap());
            let ended = running.stop();
            assert_eq!(ended.code, Some(0), "{port} {mode}, {mib} MiB: {ended:#?}");
            assert!(ended.account().sum("seen") >= FRAMES, "{}", ended.stderr);
            true
        };
        let largest = (40..=58).rev().step_by(2).find(is_accepted);
        assert!(largest.is_some(), "{port} {mode}: 40 MiB of 60 are refused");
    }
}

/// The kernel also frees some memory only after the capture has ended that had it.
#[test]
fn a_capture_waits_for_the_memory_of_the_one_before() {
    let Some(group) = limited("a_capture_waits_for_the_memory_of_the_one_before", 300 << 20) else { return };
    let lab = Lab::new("before", &[VethOptions::default(), VethOptions::default()]);
    let before = capture(&lab, &group, &["xdp:r0", "--memory", "200M"]);
    before.wait_for(READY);
    let after = || capture(&lab, &group, &["xdp:r1", "--memory", "200M", "--duration", "50ms"]);
    let waiting = after();
    thread::sleep(Duration::from_millis(1_000));
    assert_eq!(waiting.said(), "", "it waits without a word");
    let given_up = Instant::now();
    waiting.signal(Signal::SIGINT);
    let ended = waiting.wait();
    assert!(ended.stderr.ends_with("was not reserved, so nothing was captured"), "{ended:#?}");
    assert!(given_up.elapsed() < Duration::from_secs(1), "{:?}", given_up.elapsed());
    let refused = after().wait();
    assert!(refused.code == Some(1) && refused.stderr.contains("does not fit"), "{refused:#?}");
    let waiting = after();
    thread::sleep(Duration::from_millis(1_000));
    assert_eq!(waiting.said(), "", "it waits without a word");
    before.stop().account();
    let ended = waiting.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
}
