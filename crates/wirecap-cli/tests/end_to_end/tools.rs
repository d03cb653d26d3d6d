//! Other programs read the files that wirecap writes.

use std::process::Command;

use wirecap_lab::{require_root, skip};
use wirecap_traffic::LiveOptions;

use crate::lab::Lab;

/// What a program prints about a file; `None`, with a loud notice, if it is not installed.
pub fn ask(program: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => {
            assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(_) => {
            assert!(std::env::var_os("WIRECAP_NO_SKIP").is_none(), "{program} is missing; install it");
            skip("wireshark_and_tcpdump_read_both_formats", &format!("{program} is not installed"));
            None
        }
    }
}

#[test]
fn wireshark_and_tcpdump_read_both_formats() {
    if !require_root("wireshark_and_tcpdump_read_both_formats") {
        return;
    }
    for name in ["tools.pcapng", "tools.pcap"] {
        let lab = Lab::with_queues("tools", 2);
        let path = lab.path(name);
        let file = path.to_str().unwrap();
        let running = lab.capture(&["r0", "-w", file]);
        lab.send(0, 0, 1_500, LiveOptions::default());
        running.stop().account().assert_lossless(1_500);
        if let Some(text) = ask("capinfos", &["-M", "-c", "-s", file]) {
            let packets = text.lines().find(|line| line.starts_with("Number of packets:")).unwrap();
            assert!(packets.ends_with(" 1500"), "{text}");
        }
        if let Some(text) = ask("tshark", &["-r", file, "-Y", "udp.dstport == 9"]) {
            assert_eq!(text.lines().count(), 1_500);
        }
        if let Some(text) = ask("tcpdump", &["-n", "-r", file, "--nano"]) {
            assert_eq!(text.lines().count(), 1_500);
        }
    }
}

/// The flags in a help text: `-s`, `--snapshot-length`, and each letter of `[-AbB#]`.
fn flags(help: &str) -> Vec<String> {
    let words = help.split(|letter: char| letter.is_whitespace() || "[],<|".contains(letter));
    let mut flags = Vec::new();
    for word in words {
        match word.strip_prefix('-') {
            Some(long) if long.starts_with('-') => flags.push(word.to_owned()),
            Some(letters) => flags.extend(letters.chars().map(|letter| format!("-{letter}"))),
            None => {}
        }
    }
    flags
}

/// What the installed programs have, the book has.
#[test]
fn each_flag_of_tcpdump_and_dumpcap_is_in_the_table_of_habits() {
    const PAGE: &str = include_str!("../../../../docs/book/reference/from-tcpdump.md");
    let (tcpdump, dumpcap) = PAGE.split_once("## dumpcap").unwrap();
    let text = |program: &str, flag: &str| {
        let output = Command::new(program).arg(flag).output();
        output.ok().map(|output| [output.stdout, output.stderr].concat())
    };
    for (program, help, table) in [("tcpdump", "--help", tcpdump), ("dumpcap", "-h", dumpcap)] {
        let Some(text) = text(program, help) else {
            assert!(ask(program, &[help]).is_none());
            return;
        };
        let text = String::from_utf8(text).unwrap();
        // Of dumpcap, the first words of the lines that explain flags; some words elsewhere have dashes, too.
        let own = |line: &&str| program == "tcpdump" || line.starts_with("  -");
        let lines: Vec<_> =
            text.lines().filter(own).map(|line| line.split("  ").find(|part| !part.is_empty())).collect();
        let known = match program {
            "tcpdump" => flags(text.split_once("Usage:").unwrap().1),
            _ => flags(&lines.into_iter().flatten().collect::<Vec<_>>().join(" ")),
        };
        assert!(known.len() > 30, "{program}: {known:?}");
        let missing: Vec<_> = known.iter().filter(|flag| !table.contains(&format!("| `{flag}` |"))).collect();
        assert!(missing.is_empty(), "{program}: {missing:?}");
    }
}
