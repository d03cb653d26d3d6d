//! Filters on the command line.

use nix::sys::signal::Signal;
use wirecap_lab::{VethOptions, require_root};
use wirecap_testing::{PacketSender, SendPath};
use wirecap_traffic::{FrameSpec, Template};

use crate::lab::{Lab, read};

const FRAMES: u64 = 200;

/// Sends frames without and with a VLAN tag, in turn.
fn send_both(lab: &Lab) {
    let specs = [FrameSpec::default(), FrameSpec { len: 64, vlan: Some(5), ..FrameSpec::default() }];
    let mut templates = specs.map(|spec| Template::new(spec).unwrap());
    let ifindex = lab.pairs[0].a().ifindex().unwrap();
    let mut sender = lab.left.enter(|| PacketSender::open(ifindex, SendPath::Queueing)).unwrap();
    for sequence in 0..FRAMES {
        let template = &mut templates[(sequence % 2) as usize];
        sender.send(template.stamp(1, sequence)).unwrap();
    }
}

#[test]
fn only_matching_packets_are_in_the_file_and_the_rest_is_counted() {
    if !require_root("only_matching_packets_are_in_the_file_and_the_rest_is_counted") {
        return;
    }
    for port in ["r0", "packet:r0"] {
        let lab = Lab::new("filtered", &[VethOptions { queues: 2, ..VethOptions::default() }]);
        let path = lab.path("filtered.pcapng");
        // As separate words, which tcpdump takes, too.
        let running = lab.capture(&[port, "-w", path.to_str().unwrap(), "vlan", "5", "and", "udp"]);
        send_both(&lab);
        let ended = running.stop();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        assert!(ended.stderr.contains("the filter runs in the kernel"), "{}", ended.stderr);
        let account = ended.account();
        assert!(account.sum("filtered") >= FRAMES / 2, "{port}: {ended:#?}");
        assert_eq!(account.written("packets"), FRAMES / 2, "{port}");
        let capture = read(&path);
        assert_eq!(capture.packets.len() as u64, FRAMES / 2);
        assert!(capture.packets.iter().all(|packet| packet.data[12..16] == [0x81, 0, 0, 5]), "{port}");
        assert!(
            String::from_utf8_lossy(&ended.stdout)
                .contains(r#""filter":{"expression":"vlan 5 and udp","runs":"kernel"}"#),
            "{ended:#?}"
        );
        let file = std::fs::read(&path).unwrap();
        let words = b"vlan 5 and udp";
        assert!(
            file.windows(words.len()).any(|window| window == words),
            "if_filter has the requested filter"
        );
    }
}

#[test]
fn a_bad_filter_is_wrong_usage() {
    if !require_root("a_bad_filter_is_wrong_usage") {
        return;
    }
    let lab = Lab::with_queues("badfilter", 1);
    for (arguments, words) in [
        (&["r0", "tcp prot 80"][..], "syntax error"),
        (&["r0", "misspelt"], "there is no interface misspelt, and it is not a filter"),
        (&["r0", "--filter", "vlan 5000"], "VLAN"),
        (&["r0", "--unmatched", "drop"], "add a filter"),
    ] {
        let ended = lab.spawn(&[&["capture"], arguments].concat()).wait();
        assert_eq!(ended.code, Some(2), "{ended:#?}");
        assert!(ended.stderr.contains(words) && ended.has_one_line_of_stderr(), "{}", ended.stderr);
    }
}

/// Reads farther than an eBPF instruction can, so it runs in user space.
const NOT_FOR_THE_KERNEL: &str = "udp port 53 or ether[40000] = 1";

#[test]
fn a_request_that_cannot_be_met_is_an_error_and_none_is_ignored() {
    if !require_root("a_request_that_cannot_be_met_is_an_error_and_none_is_ignored") {
        return;
    }
    let lab = Lab::with_queues("wishes", 1);
    for (arguments, code, words) in [
        (
            &["r0", "--filter", NOT_FOR_THE_KERNEL, "--unmatched", "pass"][..],
            1,
            "--unmatched pass is not possible on r0",
        ),
        (
            &["r0", "--filter", "ip6 protochain 6", "--unmatched", "pass"],
            1,
            "--unmatched pass is not possible on r0: the filter is not in the kernel: the filter loops (protochain)",
        ),
        (
            &["packet:r0", "--filter", "udp", "--unmatched", "drop"],
            2,
            "--unmatched is for interfaces taken from the host",
        ),
        (&["r0", "--fanout", "queue"], 2, "--fanout is for interfaces captured passively"),
        (&["r0", "--tap-hook", "xdp"], 2, "--tap-hook is for tapped interfaces (tap:NAME)"),
        (&["tap:r0", "--fanout", "hash", "--workers", "2"], 2, "r0 cannot be tapped"),
        (&["r0", "--xdp-mode", "packed", "--ring", "256"], 2, "packets of r0 cannot be packed"),
        (&["r0", "--xdp-mode", "packed", "-M", "32"], 2, "raise -M"),
        (&["r0", "--xdp-mode", "packed", "-R", "1"], 2, "raise -R"),
    ] {
        let ended = lab.spawn(&[&["capture", "--duration", "5s"], arguments].concat()).wait();
        assert_eq!(ended.code, Some(code), "{ended:#?}");
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }
    // With --quiet, the record has the fallback.
    let quiet = ["capture", "r0", "-q", "--json", "--duration", "50ms", "--filter", NOT_FOR_THE_KERNEL];
    let ended = lab.spawn(&quiet).wait();
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:#?}");
    let account = ended.account().0;
    let fallbacks = account["ports"][0]["fallbacks"].as_array().unwrap();
    let told = |fallback: &&serde_json::Value| fallback["code"] == "filter_not_in_kernel";
    let told = fallbacks.iter().find(told).unwrap_or_else(|| panic!("{account:#}"));
    assert_eq!(told["reason"]["offset_too_far"]["end"], 40_001, "{told:#}");
    assert!(told["text"].as_str().unwrap().starts_with("the filter is not in the kernel"), "{told:#}");
}

#[test]
fn a_slow_compilation_of_a_filter_is_announced_and_can_be_given_up() {
    if !require_root("a_slow_compilation_of_a_filter_is_announced_and_can_be_given_up") {
        return;
    }
    let lab = Lab::with_queues("long", 1);
    let hosts: Vec<_> = (0..3_000).map(|host| format!("host 10.{}.{}.1", host / 250, host % 250)).collect();
    let running = lab.spawn(&["capture", "r0", "--filter", &hosts.join(" or ")]);
    running.wait_for("libpcap is compiling the filter");
    running.signal(Signal::SIGINT);
    let ended = running.wait();
    assert_eq!(ended.code, Some(1), "{:?}", ended.code);
    assert!(
        ended.stderr.contains("the filter was not compiled, so nothing was captured"),
        "{}",
        ended.stderr
    );
}

#[test]
fn packets_missed_beside_the_host_are_reported() {
    if !require_root("packets_missed_beside_the_host_are_reported") {
        return;
    }
    let lab = Lab::new("unheard", &[VethOptions { mtu: 9_000, ..VethOptions::default() }]);
    let first = lab.capture(&["r0"]);
    let second = lab.capture(&["packet:r0", "-M", "2", "-R", "8"]);
    let ended = second.stop();
    for words in
        ["WARNING: r0: packets longer than 3962 bytes will be cut", "gets packets first: those that it takes"]
    {
        assert!(ended.stderr.contains(words), "no {words:?} in: {}", ended.stderr);
    }
    assert_eq!(first.stop().code, Some(0));
}
