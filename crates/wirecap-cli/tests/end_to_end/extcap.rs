//! Wireshark's programs list our interfaces and capture by them.

use std::{fs, os::unix::fs::symlink, process::Command};

use serde_json::Value;
use wirecap_lab::require_root;
use wirecap_testing::wait_until;
use wirecap_traffic::LiveOptions;

use crate::lab::{Lab, RunningCommand, WIRECAP, read};

/// tshark in the namespace on the right, for which its directory of such programs has a link to ours, and
/// nothing else.
fn tshark(lab: &Lab, arguments: &[&str]) -> Command {
    let directory = lab.path("extcap");
    if !directory.exists() {
        fs::create_dir(&directory).unwrap();
        symlink(WIRECAP, directory.join("wirecap")).unwrap();
    }
    let folders = Command::new("tshark").args(["-G", "folders"]).output().unwrap();
    let folders = String::from_utf8_lossy(&folders.stdout).into_owned();
    let own = |line: &&str| line.to_lowercase().contains("extcap path") && !line.starts_with("Personal");
    let its = folders.lines().find(own).unwrap().split_whitespace().last().unwrap();
    let mut command = lab.right.command("unshare");
    // For root, Wireshark accepts no directory from the environment.
    let script = "mount --bind \"$0\" \"$1\" && shift && exec tshark \"$@\"";
    command.args(["--mount", "sh", "-c", script]).arg(directory).arg(its).args(arguments);
    command.env("HOME", lab.path(""));
    command
}

#[test]
fn tshark_lists_our_interfaces_and_captures_by_them() {
    if !require_root("tshark_lists_our_interfaces_and_captures_by_them") {
        return;
    }
    const FRAMES: u64 = 2_000;
    let lab = Lab::with_queues("extcap", 2);
    let listed = tshark(&lab, &["-D"]).output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("wirecap-r0 (wirecap r0, taken from the host)"), "{listed}");
    assert!(!listed.contains("wirecap-lo"), "{listed}");

    let path = lab.path("x.pcapng");
    let arguments = [
        "-i",
        "wirecap-r0",
        "-f",
        "udp and dst port 9",
        "-o",
        "extcap.wirecap_r0.chunksperqueue:64",
        "-w",
        path.to_str().unwrap(),
        "-c",
        &FRAMES.to_string(),
    ];
    let running = RunningCommand::spawn(tshark(&lab, &arguments));
    let programs = || lab.right.ip(&["link", "show", "r0"]).unwrap();
    wait_until("r0 is captured", || programs().contains("xdp"));
    lab.send(0, 0, FRAMES, LiveOptions::default());
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(read(&path).packets.len() as u64, FRAMES);
    assert!(!ended.stderr.contains("wirecap: "), "nothing to complain about: {ended:#?}");
    lab.wait_until_given_back("r0");
}

/// A process of this name that the process, or one that it has started, has started.
fn descendant(pid: u32, name: &str) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_whitespace().map(|child| child.parse().unwrap()).find_map(|child| {
        let is_it =
            fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|comm| comm.trim_end() == name);
        if is_it { Some(child) } else { descendant(child, name) }
    })
}

#[test]
fn the_settings_of_the_dialogue_reach_the_capture() {
    if !require_root("the_settings_of_the_dialogue_reach_the_capture") {
        return;
    }
    let lab = Lab::with_queues("extcapmrt", 2);
    let path = lab.path("x.pcapng");
    let mut arguments = vec!["-i", "wirecap-r0", "-w", path.to_str().unwrap()];
    for setting in ["cellsperchunk:128", "chunksperqueue:48", "threshold:35"] {
        arguments.extend(["-o", format!("extcap.wirecap_r0.{setting}").leak()]);
    }
    let running = RunningCommand::spawn(tshark(&lab, &arguments));
    let mut account = Value::Null;
    wait_until("the capture answers", || {
        let Some(pid) = descendant(running.pid(), "wirecap") else { return false };
        let output = Command::new(WIRECAP).args(["status", &pid.to_string(), "--json"]).output().unwrap();
        account = serde_json::from_slice(&output.stdout).unwrap_or_default();
        output.status.success()
    });
    let memory = &account["memory"];
    assert_eq!(
        (&memory["cells_per_chunk"], &memory["chunks_per_pool"], &account["threshold_percent"]),
        (&128.into(), &48.into(), &35.into()),
        "{account:#}"
    );
    running.stop();
    lab.wait_until_given_back("r0");
}

#[test]
fn the_calls_of_wireshark_are_answered() {
    if !require_root("the_calls_of_wireshark_are_answered") {
        return;
    }
    let lab = Lab::with_queues("sentences", 1);
    let call = |arguments: &[&str]| lab.spawn(arguments).wait();
    let answer = |arguments: &[&str]| String::from_utf8(call(arguments).stdout).unwrap();
    let of_interface = ["--extcap-interface", "wirecap-r0"];
    let link_types = answer(&[&["--extcap-dlts"], &of_interface[..]].concat());
    assert!(link_types.contains("{number=1}{name=EN10MB}"), "{link_types}");
    let settings = answer(&[&["--extcap-config"], &of_interface[..]].concat());
    for call in ["--chunks-per-queue", "--cells-per-chunk", "--threshold", "--take"] {
        assert!(settings.contains(&format!("{{call={call}}}")), "{settings}");
    }
    // What is printed is a fault of the filter.
    let check = |filter| answer(&[&of_interface[..], &["--extcap-capture-filter", filter]].concat());
    assert_eq!(check("tcp port 443"), "");
    assert!(check("tcp prot 443").contains("prot"), "{}", check("tcp prot 443"));
    let unknown = call(&["--capture", "--extcap-interface", "eth9", "--fifo", "/tmp/x"]);
    assert_eq!(unknown.code, Some(2), "{unknown:#?}");
    assert_eq!(call(&["extcap"]).code, Some(2));
}
