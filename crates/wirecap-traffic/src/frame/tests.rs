//! Checks frames against the RFCs: lengths, checksums, and that flows differ only where they should.

use std::collections::HashSet;

use super::*;
use crate::layout::be16;
use crate::{MARKS_REACH, SEQUENCE_END};

fn specs() -> Vec<FrameSpec> {
    let mut specs = Vec::new();
    for ip in [IpVersion::V4, IpVersion::V6] {
        for transport in [Transport::Udp, Transport::Tcp] {
            for vlan in [None, Some(0), Some(4094)] {
                for len in [96, 97, 128, 1514, FRAME_LEN_MAX] {
                    specs.push(FrameSpec { len, ip, transport, vlan, run: 7, ..FrameSpec::default() });
                }
            }
        }
    }
    specs.push(FrameSpec::default());
    specs
}

/// The textbook checksum: adds one word at a time, with its carry.
fn slow_checksum(parts: &[&[u8]]) -> u16 {
    let mut sum: u32 = 0;
    for part in parts {
        for pair in part.chunks(2) {
            sum += (u32::from(pair[0]) << 8) | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
    }
    !(sum as u16)
}

#[test]
fn checksums_and_lengths_are_right_for_all_flows() {
    for spec in specs() {
        let mut template = Template::new(spec).unwrap();
        for flow in [0, 1, 255, 256, 4095, FLOWS_MAX - 1] {
            for sequence in [0, 1, 0xffff, 0x8123_4567_89ab, SEQUENCE_END - 1] {
                for sent_ns in [0, 1_800_000_000_123_456_789, u64::MAX] {
                    let frame = template.stamp_at(flow, sequence, sent_ns);
                    check_lengths_and_checksums(frame, spec);
                    let marks = Marks { run: spec.run, flow, sequence, sent_ns };
                    assert_eq!(Marks::read(frame), Some(marks), "{spec:?}");
                }
            }
        }
    }
}

#[track_caller]
fn check_lengths_and_checksums(frame: &[u8], spec: FrameSpec) {
    let Layout { ip, transport, .. } = Layout::new(spec.ip, spec.transport, spec.vlan.is_some());
    assert_eq!(frame.len(), spec.len);
    let length = (spec.len - transport) as u16;
    let addresses = match spec.ip {
        IpVersion::V4 => {
            assert_eq!(slow_checksum(&[&frame[ip..transport]]), 0, "{spec:?}");
            assert_eq!(usize::from(be16(frame, ip + 2).unwrap()), spec.len - ip);
            &frame[ip + 12..transport]
        }
        IpVersion::V6 => {
            assert_eq!(be16(frame, ip + 4), Some(length));
            &frame[ip + 8..transport]
        }
    };
    let pseudo = [addresses, &length.to_be_bytes(), &[0, spec.transport.protocol()]].concat();
    match spec.transport {
        Transport::Udp => assert_eq!(be16(frame, transport + 4), Some(length)),
        Transport::Tcp => assert_eq!(frame[transport + 12] >> 4, 5, "header length in words"),
    }
    if (spec.ip, spec.transport) == (IpVersion::V4, Transport::Udp) {
        assert_eq!(be16(frame, transport + 6), Some(0));
    } else {
        assert_eq!(slow_checksum(&[&pseudo, &frame[transport..]]), 0, "{spec:?}");
        assert_ne!(be16(frame, transport + spec.transport.checksum_at()), Some(0), "zero means no checksum");
    }
}

#[test]
fn a_tcp_flow_is_one_stream() {
    let spec = FrameSpec { len: 1514, transport: Transport::Tcp, ..FrameSpec::default() };
    let mut template = Template::new(spec).unwrap();
    let position = |frame: &[u8]| u32::from_be_bytes(frame[38..42].try_into().unwrap());
    assert_eq!(position(template.stamp(0, 0)), 0);
    assert_eq!(position(template.stamp(0, 1)), 1460);
    assert_eq!(position(template.stamp(0, u64::from(u32::MAX) + 2)), 1460);
}

#[test]
fn the_first_part_of_a_frame_is_stamped_like_the_whole() {
    for spec in specs() {
        let mut template = Template::new(spec).unwrap();
        let reach = spec.len.min(MARKS_REACH);
        let mut part = template.bytes()[..reach].to_vec();
        template.stamp_into(&mut part, 300, 5, 6);
        assert_eq!(part, template.stamp_at(300, 5, 6)[..reach]);
    }
}

#[test]
fn flows_have_different_addresses_and_ports() {
    let mut template = Template::new(FrameSpec::default()).unwrap();
    let tuples: HashSet<Vec<u8>> = (0..4096).map(|flow| template.stamp(flow, 9)[26..38].to_vec()).collect();
    assert_eq!(tuples.len(), 4096);
    assert_eq!(host_and_port(FLOWS_MAX - 1), (255, 65_535));
    assert_eq!(host_and_port(FLOWS_MAX), host_and_port(0));
}

#[test]
fn the_vlan_tag_follows_the_addresses() {
    let spec = FrameSpec { len: 64, vlan: Some(100), ..FrameSpec::default() };
    let template = Template::new(spec).unwrap();
    assert_eq!(template.bytes()[..19], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x81, 0, 0, 100, 8, 0, 0x45]);
}

#[test]
fn impossible_frames_are_refused() {
    let new = |len, ip, transport, vlan| {
        Template::new(FrameSpec { len, ip, transport, vlan, ..FrameSpec::default() })
    };
    for (ip, transport, vlan, least) in [
        (IpVersion::V4, Transport::Udp, None, 60),
        (IpVersion::V4, Transport::Udp, Some(7), 64),
        (IpVersion::V4, Transport::Tcp, None, 72),
        (IpVersion::V6, Transport::Udp, None, 80),
        (IpVersion::V6, Transport::Tcp, Some(1), 96),
    ] {
        let refused = new(least - 1, ip, transport, vlan).unwrap_err();
        assert!(matches!(refused, Error::FrameLen { min, .. } if min == least), "{refused}");
        assert!(new(least, ip, transport, vlan).is_ok());
    }
    let long = new(FRAME_LEN_MAX + 1, IpVersion::V4, Transport::Udp, None);
    assert!(matches!(long, Err(Error::FrameLen { .. })));
    let vlan = new(64, IpVersion::V4, Transport::Udp, Some(4095));
    assert!(matches!(vlan, Err(Error::Vlan(4095))));
}

#[test]
fn foreign_frames_have_no_marks() {
    let mut template = Template::new(FrameSpec::default()).unwrap();
    let frame = template.stamp_at(3, 4, 5).to_vec();
    assert_eq!(Marks::read(&frame[..59]), None, "cut inside the marks");
    assert_eq!(Marks::read(&frame), Some(Marks { run: 0, flow: 3, sequence: 4, sent_ns: 5 }));
    // Ether type, protocol, source address, magic, and a source port below the ports of flows.
    for (at, bit) in [(13, 1), (23, 1), (26, 1), (42, 1), (43, 1), (34, 4)] {
        let mut foreign = frame.clone();
        foreign[at] ^= bit;
        assert_eq!(Marks::read(&foreign), None, "byte {at}");
    }
    assert_eq!(Marks::read(&[]), None);
}
