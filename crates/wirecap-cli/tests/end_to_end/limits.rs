//! Limits of the process: errors name the limit and a sufficient value.

use std::process::Command;

use wirecap_lab::{VethOptions, require_root};

use crate::lab::{CommandOutput, Lab, RunningCommand, WIRECAP};

/// Captures in a shell that first runs `limit`.
fn limited(lab: &Lab, limit: &str, arguments: &[&str]) -> CommandOutput {
    let mut command: Command = lab.right.command("sh");
    command
        .args(["-c", &format!("{limit} && exec \"$0\" \"$@\""), WIRECAP, "capture", "r0", "--json"])
        .args(arguments);
    RunningCommand::spawn(command).wait()
}

#[test]
fn a_limit_that_is_too_low_is_named_with_a_sufficient_one() {
    if !require_root("a_limit_that_is_too_low_is_named_with_a_sufficient_one") {
        return;
    }
    let lab = Lab::with_queues("limits", 8);
    let path = lab.path("new.pcapng");
    for (limit, words) in [
        ("ulimit -n 16", &["this capture takes about ", "may have 16", "ulimit -n "][..]),
        ("ulimit -n 5", &["ulimit -n"]),
        ("ulimit -v 400000", &["packet memory of 512 MiB", "ulimit -v", "lower -R or -M"]),
        ("ulimit -v 560000", &["packet memory of 512 MiB", "ulimit -v"]),
    ] {
        let ended = limited(&lab, limit, &["-w", path.to_str().unwrap()]);
        assert!(ended.code == Some(1) && ended.stdout.is_empty() && !path.exists(), "{limit}: {ended:#?}");
        assert!(!ended.stderr.contains("verifier"), "{ended:#?}");
        for words in words {
            assert!(ended.stderr.contains(words), "{words}: {ended:#?}");
        }
    }
}

#[test]
fn the_named_number_of_open_files_suffices() {
    if !require_root("the_named_number_of_open_files_suffices") {
        return;
    }
    let options = VethOptions { queues: 8, ..VethOptions::default() };
    let lab = Lab::new("files", &[options.clone(), options]);
    let (table, trace) = (lab.path("table"), lab.path("new.pcapng"));
    std::fs::write(&table, "default dev r1 lladdr 02:00:00:00:00:01\n").unwrap();
    let (table, trace) = (table.to_str().unwrap(), trace.to_str().unwrap());
    for arguments in [
        &["forward", "r0", "r1"][..],
        &["forward", "r0", "r1", "--route", table, "-w", trace],
        &["capture", "r0", "r1", "--wait", "block", "--dispatch", "push"],
        &["capture", "r0@0-3", "r0@4-7", "r1", "-w", trace, "--timestamp", "kernel"],
        &["capture", "r0", "r1", "-w", trace, "--file-per-queue"],
        &["capture", "packet:r0", "--workers", "32", "--filter", "udp"],
        &["capture", "packet:r0", "--workers", "32", "--wait", "block"],
    ] {
        let run = |files: &str| {
            let limit = format!("ulimit -n {files} && exec \"$0\" \"$@\"");
            let mut command = lab.right.command("sh");
            command.args(["-c", &limit, WIRECAP]).args(arguments).args([
                "--memory",
                "64M",
                "--duration",
                "50ms",
            ]);
            RunningCommand::spawn(command).wait()
        };
        let refused = run("16");
        let (_, behind) = refused.stderr.split_once("takes about ").unwrap_or_else(|| panic!("{refused:#?}"));
        let named = behind.split(' ').next().unwrap();
        let ended = run(named);
        assert_eq!(ended.code, Some(0), "{arguments:?} with {named}: {ended:#?}");
    }
}

#[test]
fn sufficient_limits_and_those_that_can_be_raised_are_no_hindrance() {
    if !require_root("sufficient_limits_and_those_that_can_be_raised_are_no_hindrance") {
        return;
    }
    let lab = Lab::with_queues("enough", 8);
    let path = lab.path("enough.pcapng");
    // 8 queues x 64 x 64 cells of 2 KiB are 64 MiB.
    let small = ["--duration", "100ms", "-M", "64", "-R", "64", "-w", path.to_str().unwrap()];
    for limit in ["ulimit -n 64", "ulimit -Sn 16", "ulimit -v 700000"] {
        let ended = limited(&lab, limit, &small);
        assert_eq!(ended.code, Some(0), "{limit}: {ended:#?}");
        ended.account();
    }
}

#[test]
fn without_the_right_to_lock_memory_its_limit_is_named() {
    if !require_root("without_the_right_to_lock_memory_its_limit_is_named") {
        return;
    }
    let lab = Lab::with_queues("memlock", 1);
    let limit = "ulimit -l 64 && set -- --bounding-set -ipc_lock --inh-caps -ipc_lock \"$0\" \"$@\" && exec setpriv \"$@\"";
    // Blocks are charged to the control group, and locked memory is not limited.
    let ended = limited(&lab, limit, &["--xdp-mode", "copy"]);
    assert!(ended.code == Some(1) && ended.stdout.is_empty(), "{ended:#?}");
    for words in ["memlock limit", "ulimit -l", "CAP_IPC_LOCK", "lower -R"] {
        assert!(ended.stderr.contains(words), "{words}: {ended:#?}");
    }
}
