//! Filters on the command line.

use wirecap_lab::{VethOptions, require_root};
use wirecap_traffic::{FrameSpec, PacketSender, SendPath, Template};

use crate::lab::{Lab, read};

const FRAMES: u64 = 200;

/// Sends frames with a VLAN tag and without, in turn.
fn send_both(lab: &Lab) {
    let specs = [FrameSpec::default(), FrameSpec { vlan: Some(5), ..FrameSpec::default() }];
    let mut templates = specs.map(|spec| Template::new(spec).unwrap());
    let ifindex = lab.pairs[0].a().ifindex().unwrap();
    let mut sender = lab.left.enter(|| PacketSender::open(ifindex, SendPath::Queueing)).unwrap();
    for sequence in 0..FRAMES {
        let template = &mut templates[(sequence % 2) as usize];
        sender.send(template.stamp(1, sequence)).unwrap();
    }
}

#[test]
fn only_what_the_filter_wants_is_in_the_file_and_the_rest_is_told() {
    if !require_root("only_what_the_filter_wants_is_in_the_file_and_the_rest_is_told") {
        return;
    }
    for port in ["r0", "packet:r0"] {
        let lab = Lab::new("filtered", &[VethOptions { queues: 2, ..VethOptions::default() }]);
        let path = lab.path("filtered.pcapng");
        // In words of their own, as tcpdump takes them.
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
        assert!(file.windows(words.len()).any(|window| window == words), "if_filter says what was asked for");
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
        (&["r0", "misspelt"], "there is no interface misspelt, and as a filter"),
        (&["r0", "--filter", "inbound"], "only a socket of Linux knows"),
        (&["r0", "--unmatched", "drop"], "add a filter"),
    ] {
        let ended = lab.spawn(&[&["capture"], arguments].concat()).wait();
        assert_eq!(ended.code, Some(2), "{ended:#?}");
        assert!(ended.stderr.contains(words) && ended.stderr.lines().count() == 1, "{}", ended.stderr);
    }
}
