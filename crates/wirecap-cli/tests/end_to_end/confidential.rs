//! What others on the machine get to see: files, core dumps, and who may capture at all.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use wirecap_lab::{require_root, skip};

use crate::lab::{Lab, RunningCommand, WIRECAP, install};

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_new_file_is_private_to_its_owner_and_group() {
    if !require_root("a_new_file_is_private_to_its_owner_and_group") {
        return;
    }
    let lab = Lab::with_queues("owner", 1);
    let (new, old, asked) = (lab.path("new.pcapng"), lab.path("old.pcap"), lab.path("asked.pcap"));
    fs::write(&old, "").unwrap();
    fs::set_permissions(&old, PermissionsExt::from_mode(0o604)).unwrap();
    for (path, flags) in [(&new, &[][..]), (&old, &[]), (&asked, &["--file-mode", "0664"])] {
        let arguments = ["r0", "--duration", "50ms", "-w", path.to_str().unwrap()];
        lab.capture(&[&arguments, flags].concat()).wait().account();
    }
    // Less the umask of the tests.
    assert_eq!((mode(&new) | 0o040, mode(&asked)), (0o640, 0o664));
    assert_eq!(mode(&old), 0o604, "as the file that is replaced");
}

#[test]
fn packets_stay_out_of_core_dumps() {
    if !require_root("packets_stay_out_of_core_dumps") {
        return;
    }
    let lab = Lab::with_queues("core", 1);
    for (port, least_mib) in [("r0", 64), ("packet:r0", 64)] {
        let running = lab.capture(&[port, "--workers", "1"]);
        let smaps = fs::read_to_string(format!("/proc/{}/smaps", running.pid())).unwrap();
        let (mut size_kib, mut kept_out_kib) = (0, 0);
        for line in smaps.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("Size:") => size_kib = words.next().unwrap().parse::<u64>().unwrap(),
                // In the kernel's names, dd means left out of core dumps.
                Some("VmFlags:") if words.any(|flag| flag == "dd") => kept_out_kib += size_kib,
                _ => {}
            }
        }
        assert!(kept_out_kib >= least_mib << 10, "{port}: {kept_out_kib} KiB");
        running.stop().account();
    }
}

#[test]
fn a_program_that_lets_everyone_capture_warns_about_it() {
    const TEST: &str = "a_program_that_lets_everyone_capture_warns_about_it";
    if !require_root(TEST) {
        return;
    }
    let lab = Lab::with_queues("everyone", 1);
    let directory = lab.path("bin");
    fs::create_dir(&directory).unwrap();
    let program = directory.join("wirecap");
    install(WIRECAP, &program);
    let allow = |path: &std::path::Path, mode| {
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    };
    allow(directory.parent().unwrap(), 0o700);
    let run_with = |more: &[&str]| {
        let mut command = lab.right.command(program.to_str().unwrap());
        command.args(["capture", "r0", "--duration", "50ms"]).args(more);
        let ended = RunningCommand::spawn(command).wait();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        ended.stderr
    };
    let run = || {
        let warnings = run_with(&[]);
        warnings.lines().filter(|line| line.contains("WARNING")).collect::<String>()
    };
    assert_eq!(run(), "", "a program without capabilities is harmless");
    let set = Command::new("setcap").arg("cap_net_raw+ep").arg(&program).status();
    if !set.as_ref().is_ok_and(std::process::ExitStatus::success) {
        return skip(TEST, &format!("setcap does not work here: {set:?}"));
    }
    assert_eq!(run(), "", "other users cannot reach the program");
    allow(directory.parent().unwrap(), 0o755);
    let warning = run();
    for words in ["WARNING", program.to_str().unwrap(), "every user", "chmod 750", "chgrp"] {
        assert!(warning.contains(words), "{words}: {warning}");
    }
    assert_eq!(run_with(&["--quiet"]), "", "--quiet leaves errors and losses");
    allow(&program, 0o750);
    assert_eq!(run(), "", "as the warning advises");
}
