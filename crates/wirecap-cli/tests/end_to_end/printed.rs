//! Names from files and interfaces are printed without characters that a terminal obeys.

use std::{fs, process::Command};

use serde_json::Value;
use wirecap_file::{
    PacketHeader,
    pcapng::{self, InterfaceInfo, SectionInfo},
};
use wirecap_lab::require_root;

use crate::lab::{CommandOutput, Lab, RunningCommand, WIRECAP};

/// Sets the window title and a colour, reverses the direction of text, and forges a line of wirecap.
const HOSTILE: &str = "\x1b]0;owned\x07\u{9b}31m\u{202e}\x7f\u{2028}\r\nwirecap: all is well";

/// Whether a terminal obeys `letter` instead of displaying it.
fn is_hostile(letter: char) -> bool {
    (letter.is_control() && letter != '\n')
        || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[track_caller]
fn assert_harmless(ended: &CommandOutput) {
    let stdout = std::str::from_utf8(&ended.stdout).unwrap();
    for text in [stdout, &ended.stderr] {
        assert!(!text.contains(is_hostile), "{text:?}");
        assert!(!text.lines().any(|line| line.starts_with("wirecap: all is well")), "{text}");
    }
}

/// A trace of two interfaces with that name; the second has another link type.
fn trace() -> Vec<u8> {
    let mut file = Vec::new();
    pcapng::section_header(&mut file, &SectionInfo::default());
    for (interface, link_type) in [(0, 1), (1, 101)] {
        let info = InterfaceInfo { name: Some(HOSTILE), link_type, ..InterfaceInfo::default() };
        pcapng::interface(&mut file, &info);
        let header = PacketHeader { interface, original_len: 60, ..PacketHeader::default() };
        pcapng::packet(&mut file, &header, 0, [[0; 60].as_slice()]);
    }
    file
}

#[test]
fn names_of_files_and_of_interfaces_in_them_are_printed_without_control_characters() {
    let directory = tempfile::tempdir().unwrap();
    let name = "a\x1b[2J\u{202e}\nb.pcapng";
    fs::write(directory.path().join(name), trace()).unwrap();
    let port = format!("trace:{name}");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(WIRECAP);
        command.current_dir(directory.path()).args(arguments);
        let ended = RunningCommand::spawn(command).wait();
        assert_harmless(&ended);
        ended
    };
    let table = run(&["capture", &port]);
    assert_eq!(table.code, Some(1), "{table:#?}");
    let said = table.stderr.lines().last().unwrap();
    assert!(said.contains(r"trace:a\u{1b}[2J\u{202e}\nb.pcapng"), "{said}");
    assert!(
        said.contains(r"(\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}\u{7f}\u{2028}\r\nwirecap: all is well)"),
        "{said}"
    );
    assert!(String::from_utf8_lossy(&table.stdout).contains(r"trace:a\u{1b}[2J\u{202e}\nb.pcapng"));

    // JSON keeps the meaning.
    let json = run(&["capture", &port, "--json"]);
    let account: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(account["ports"][0]["name"], port);
    assert!(account["ports"][0]["error"].as_str().unwrap().contains(HOSTILE), "{account:#}");

    let usage = run(&["capture", "lo\x1b[31m"]);
    assert!(usage.stderr.contains(r"lo\u{1b}[31m"), "{usage:#?}");
    run(&["capture", &port, "-w", "a\x1b[31m\n.txt"]);
    run(&["capture", "--no\x1b[31m\nflag", "lo"]);
}

#[test]
fn names_of_interfaces_are_printed_without_control_characters() {
    if !require_root("names_of_interfaces_are_printed_without_control_characters") {
        return;
    }
    let lab = Lab::with_queues("hostilenames", 1);
    let name = "e\x1b[31m\u{202e}";
    lab.right.ip(&["link", "set", "r0", "down"]).unwrap();
    lab.right.ip(&["link", "set", "r0", "name", name]).unwrap();
    lab.right.ip(&["link", "property", "add", "dev", name, "altname", "other\x1b]0;owned\x07"]).unwrap();
    let run = |arguments: &[&str]| {
        let ended = lab.spawn(arguments).wait();
        assert_harmless(&ended);
        ended
    };
    let table = String::from_utf8(run(&["interfaces"]).stdout).unwrap();
    assert!(table.contains(r"e\u{1b}[31m\u{202e}, other\u{1b}]0;owned\u{7}"), "{table}");
    let listed: Value = serde_json::from_slice(&run(&["interfaces", "--json"]).stdout).unwrap();
    assert_eq!(listed[1]["name"], name);
    let down = run(&["capture", name]);
    assert!(down.stderr.contains(r"e\u{1b}[31m\u{202e} is down"), "{down:#?}");
    lab.right.ip(&["link", "set", name, "up"]).unwrap();
    run(&["capture", name, "--duration", "100ms"]);
    run(&["capture", name, "--duration", "100ms", "--json"]);
    run(&["generate", "-i", name, "-c", "1"]);
    run(&["generate", "-i", name, "-c", "1", "--json"]);
}
