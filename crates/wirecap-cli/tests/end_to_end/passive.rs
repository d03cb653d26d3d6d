//! Passive capture.

use wirecap_lab::{VethOptions, require_root};
use wirecap_testing::{kernel_is_at_least, running_command::RunningCommand};

use crate::lab::{Lab, read};

#[test]
fn the_host_keeps_its_interface_and_the_file_has_both_directions() {
    if !require_root("the_host_keeps_its_interface_and_the_file_has_both_directions") {
        return;
    }
    let options = VethOptions {
        addresses_a: vec!["192.0.2.1/24".into()],
        addresses_b: vec!["192.0.2.2/24".into()],
        queues: 2,
        ..VethOptions::default()
    };
    let lab = Lab::new("beside", &[options]);
    let path = lab.path("beside.pcapng");
    let running = lab.capture(&["r0", "-w", path.to_str().unwrap(), "--fanout", "queue"]);
    let pings = lab.left.command("ping").args(["-q", "-c", "5", "-i", "0.01", "192.0.2.2"]).status().unwrap();
    assert!(pings.success(), "the host keeps its traffic");
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    for words in ["wirecap: r0 (veth), socket", "AF_PACKET", "captured passively", "address 192.0.2.2/24"] {
        assert!(ended.stderr.contains(words), "no {words:?} in: {}", ended.stderr);
    }
    let capture = read(&path);
    // 14 bytes of Ethernet; protocol 1 in the IPv4 header; type 8 asks, type 0 answers.
    let icmp = capture.packets.iter().filter(|packet| packet.data[12..14] == [8, 0] && packet.data[23] == 1);
    let of_type = |kind: u8, outbound: bool| {
        icmp.clone().filter(|packet| packet.data[34] == kind && packet.outbound == Some(outbound)).count()
    };
    assert_eq!((of_type(8, false), of_type(0, true)), (5, 5));
    let account = ended.account();
    assert_eq!(account.written("packets"), capture.packets.len() as u64);
}

/// A file that has a request has its answer, also at its start.
#[test]
fn both_directions_of_a_tap_begin_at_once() {
    if !require_root("both_directions_of_a_tap_begin_at_once") || !kernel_is_at_least(6, 6) {
        return;
    }
    let options = VethOptions {
        addresses_a: vec!["192.0.2.1/24".into()],
        addresses_b: vec!["192.0.2.2/24".into()],
        ..VethOptions::default()
    };
    let lab = Lab::new("atonce", &[options]);
    let mut ping = lab.left.command("ping");
    ping.args(["-q", "-i", "0.002", "192.0.2.2"]);
    let pinging = RunningCommand::spawn(ping);
    for round in 0..15 {
        let path = lab.path("begun.pcapng");
        let capture = ["capture", "r0", "icmp", "-c", "6", "--memory", "64M", "-w", path.to_str().unwrap()];
        assert_eq!(lab.spawn(&capture).wait().code, Some(0));
        // Of the ICMP header, the type and the sequence number.
        let seen = read(&path)
            .packets
            .iter()
            .map(|packet| (packet.data[34], packet.data[40..42].to_vec()))
            .collect::<Vec<_>>();
        let (_, earlier) = seen.split_last().unwrap();
        for (kind, number) in earlier.iter().filter(|(kind, _)| *kind == 8) {
            assert!(
                seen.contains(&(0, number.clone())),
                "round {round}: no answer to {kind}, {number:?}: {seen:?}"
            );
        }
    }
    pinging.kill();
}

#[test]
fn loopback_is_captured_with_each_packet_once() {
    if !require_root("loopback_is_captured_with_each_packet_once") {
        return;
    }
    let lab = Lab::with_queues("loopback", 1);
    lab.right.ip(&["link", "set", "dev", "lo", "up"]).unwrap();
    let path = lab.path("loopback.pcap");
    let running = lab.capture(&["lo", "-w", path.to_str().unwrap()]);
    let pings =
        lab.right.command("ping").args(["-q", "-c", "3", "-i", "0.01", "127.0.0.1"]).status().unwrap();
    assert!(pings.success());
    let ended = running.stop();
    assert_eq!(ended.code, Some(0));
    let row = if kernel_is_at_least(6, 6) { "core" } else { "socket" };
    assert!(ended.stderr.contains(&format!("lo (unknown driver), {row}")), "{}", ended.stderr);
    assert_eq!(ended.account().0["ports"][0]["driver"], serde_json::Value::Null);
    let table = String::from_utf8(lab.spawn(&["capture", "lo", "--duration", "50ms"]).wait().stdout).unwrap();
    assert_eq!(table.split_whitespace().take(2).collect::<Vec<_>>(), ["port", row], "{table}");
    let capture = read(&path);
    assert_eq!(capture.packets.len(), 6, "three requests, three replies");
    assert!(capture.packets.iter().all(|packet| packet.link_type == 1));
}
