//! Packets that pass, packets that are dropped, and changes on the way.

use wirecap::headers::checksum;
use wirecap_lab::{VethOptions, require_root};
use wirecap_traffic::{FrameSpec, Marks, Template};

use super::{Cable, way};
use crate::lab::{READY, read};

/// Frames of the left host to one port each.
fn to_ports(ports: [u16; 3]) -> [Vec<u8>; 3] {
    ports.map(|port| {
        let mut template = Template::new(FrameSpec::default()).unwrap();
        let mut frame = template.stamp(0, u64::from(port)).to_vec();
        frame[36..38].copy_from_slice(&port.to_be_bytes());
        frame
    })
}

#[test]
fn only_wanted_packets_pass() {
    if !require_root("forward::only_wanted_packets_pass") {
        return;
    }
    for (arguments, passing) in [
        (&["--drop", "udp port 53"][..], &[80, 123][..]),
        (&["--pass", "udp port 53"], &[53]),
        (&["--pass", "udp port 53 or udp port 80", "--drop", "port 80"], &[53]),
        // None of the packets is that long.
        (&["--drop", "ether[1000] = 7"], &[53, 80, 123]),
        // Behind `vlan`, libpcap looks four bytes farther.
        (&["--pass", "ip or (vlan and ip)", "--drop", "udp port 53"], &[80, 123]),
    ] {
        let cable = Cable::quiet("filters");
        let running = cable.forward(arguments);
        let listener = cable.listen("packet:r0", "passed.pcapng", &["-c", &passing.len().to_string(), "udp"]);
        let frames = to_ports([53, 80, 123]);
        let mut sender = cable.sender();
        frames.iter().for_each(|frame| {
            sender.send(frame).unwrap();
        });
        listener.wait();
        let ended = running.stop();
        let seen: Vec<_> = read(&cable.path("passed.pcapng")).packets;
        let seen: Vec<_> =
            seen.iter().map(|packet| u16::from_be_bytes([packet.data[36], packet.data[37]])).collect();
        assert_eq!(seen, passing, "{arguments:?}");
        let way = way(&ended, "m0");
        assert_eq!(way["forwarded"].as_u64(), Some(passing.len() as u64), "{way:#}");
        assert_eq!(ended.account().sum("filtered"), 3 - passing.len() as u64);
    }
}

#[test]
fn headers_are_rewritten_in_both_directions_and_checksums_stay_correct() {
    if !require_root("forward::headers_are_rewritten_in_both_directions_and_checksums_stay_correct") {
        return;
    }
    let cable = Cable::quiet("rewrite");
    // Packets without a VLAN on the left are in VLAN 7 on the right.
    let flags = ["--vlan", "none=7", "--ttl", "decrement", "--set-source", "m1=02:00:00:00:00:aa"];
    let running = cable.forward(&[&flags[..], &["--set-destination", "m0=02:00:00:00:00:bb"]].concat());
    let right = cable.listen("xdp:r0", "right.pcapng", &["-c", "3"]);
    let left = cable.listen("xdp:l0", "left.pcapng", &["-c", "3"]);
    let there = to_ports([53, 80, 123]);
    let mut expired = there[0].clone();
    // A TTL of 1, with the header checksum to match.
    (expired[22], expired[24]) = (1, expired[24].wrapping_add(63));
    let mut sender = cable.sender();
    for frame in there.iter().chain([&expired, &expired]) {
        sender.send(frame).unwrap();
    }
    let mut back = there.clone();
    for frame in &mut back {
        frame.splice(12..12, [0x81, 0, 0x60, 7]);
        cable.sender_of_right().send(frame).unwrap();
    }
    right.wait();
    left.wait();
    let ended = running.stop();
    assert_eq!(way(&ended, "m0")["dropped"]["ttl_expired"].as_u64(), Some(2), "{ended:#?}");
    let arrived = |name: &str| read(&cable.path(name)).packets.into_iter().map(|packet| packet.data);
    for (arrived, sent) in arrived("right.pcapng").zip(&there) {
        // The source is set, a tag is added, the TTL is one less, and all else is unchanged.
        assert_eq!((&arrived[..6], &arrived[6..12]), (&sent[..6], [2, 0, 0, 0, 0, 0xaa].as_slice()));
        assert_eq!(arrived[12..18], [0x81, 0, 0, 7, 8, 0]);
        assert_eq!((arrived[26], &arrived[30..]), (sent[22] - 1, &sent[26..]));
        assert_eq!(checksum::verify(&arrived[18..]), checksum::verify(&sent[14..]));
    }
    for (arrived, sent) in arrived("left.pcapng").zip(&there) {
        assert_eq!((&arrived[..6], &arrived[6..14]), ([2, 0, 0, 0, 0, 0xbb].as_slice(), &sent[6..14]));
        assert_eq!((arrived[22], &arrived[26..]), (sent[22] - 1, &sent[26..]));
        assert_eq!(checksum::verify(&arrived[14..]), checksum::verify(&sent[14..]));
    }
}

#[test]
fn order_is_kept_and_packets_are_whole_with_several_workers() {
    if !require_root("forward::order_is_kept_and_packets_are_whole_with_several_workers") {
        return;
    }
    let cable = Cable::new("order", VethOptions { queues: 2, ..VethOptions::default() });
    let running = cable.forward(&["--workers", "2", "--transmit-ring", "64"]);
    let listener = cable.listen("packet:r0", "order.pcapng", &["-c", "2000", "udp port 9"]);
    let mut sender = cable.sender();
    let mut templates =
        [60, 1_514].map(|len| Template::new(FrameSpec { len, ..FrameSpec::default() }).unwrap());
    for number in 0..2_000_u64 {
        let template = &mut templates[(number % 3 == 0) as usize];
        sender.send(template.stamp((number % 16) as u32, number)).unwrap();
    }
    listener.wait();
    let ended = running.stop();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let account = ended.account();
    let came_by = |queue: usize| account.0["ports"][0]["queues"][queue]["delivered"].as_u64().unwrap();
    assert!(came_by(0) > 100 && came_by(1) > 100, "both workers had packets: {ended:#?}");
    // Flows overtake each other, packets of a flow do not.
    let mut of_flows = vec![Vec::new(); 16];
    for packet in read(&cable.path("order.pcapng")).packets {
        let marks = Marks::read(&packet.data).unwrap();
        let template = &mut templates[(marks.sequence % 3 == 0) as usize];
        assert!(packet.data == template.stamp(marks.flow, marks.sequence), "packet {}", marks.sequence);
        of_flows[marks.flow as usize].push(marks.sequence);
    }
    for (flow, sequences) in of_flows.iter().enumerate() {
        assert!(sequences.iter().copied().eq((flow as u64..2_000).step_by(16)), "flow {flow}: {sequences:?}");
    }
}

#[test]
fn some_queues_of_an_interface_may_be_forwarded() {
    if !require_root("forward::some_queues_of_an_interface_may_be_forwarded") {
        return;
    }
    let cable = Cable::new("some", VethOptions { queues: 2, ..VethOptions::default() });
    let refused = cable.spawn(&["forward", "m0@0", "m1", "--workers", "2"]).wait();
    assert!(refused.code == Some(2) && refused.stderr.contains("use at most 1"), "{refused:#?}");
    cable.middle.ip(&["addr", "add", "192.0.2.77/24", "dev", "m1"]).unwrap();
    let running = cable.spawn(&["forward", "m0@0", "m1", "--json"]);
    running.wait_for("WARNING: m0: packets of its other queues (1) are left to the host");
    running.wait_for("WARNING: m1: the host uses it (address 192.0.2.77/24) but gets none of the packets");
    running.wait_for(READY);
    let listener = cable.listen("packet:l0", "some.pcapng", &["-c", "200", "udp port 9"]);
    let mut sender = cable.sender_of_right();
    let mut template = Template::new(FrameSpec::default()).unwrap();
    for number in 0..200 {
        sender.send(template.stamp(number % 16, number.into())).unwrap();
    }
    listener.wait();
    let ended = running.stop();
    let account = ended.account();
    let came_by = |queue: usize| account.0["ports"][1]["queues"][queue]["delivered"].as_u64().unwrap();
    assert!(came_by(0) > 0 && came_by(1) > 0, "{ended:#?}");
    assert!(way(&ended, "m1")["forwarded"].as_u64().unwrap() >= 200, "{ended:#?}");
    assert_eq!(account.0["ports"][0]["transmitted"].as_array().unwrap().len(), 1);
}
