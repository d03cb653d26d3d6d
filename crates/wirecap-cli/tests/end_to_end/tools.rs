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
