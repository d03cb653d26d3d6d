//! Frames against the RFCs: lengths, checksums, and that flows differ where they should and nowhere else.

use std::collections::HashSet;

use super::*;

fn specs() -> Vec<FrameSpec> {
    let mut specs = Vec::new();
    for ip in [IpVersion::V4, IpVersion::V6] {
        for vlan in [None, Some(0), Some(4094)] {
            for len in [78, 79, 128, 1514, FRAME_LEN_MAX] {
                specs.push(FrameSpec { len, ip, vlan, ..FrameSpec::default() });
            }
        }
    }
    specs.push(FrameSpec::default());
    specs
}

/// The checksum the textbook way: one word after the other, carry added at once.
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
fn an_example_with_a_known_checksum() {
    // RFC 1071, section 3.
    assert_eq!(internet_checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    assert_eq!(internet_checksum(&[0x12]), !0x1200);
}

#[test]
fn checksums_and_lengths_are_right_for_all_flows() {
    for spec in specs() {
        let mut template = Template::new(spec).unwrap();
        let Layout { ip, udp, .. } = template.layout();
        for flow in [0, 1, 255, 256, 4095, FLOWS_MAX - 1] {
            for sequence in [0, 1, 0xffff, 0x0123_4567_89ab_cdef, u64::MAX] {
                let frame = template.stamp(flow, sequence);
                assert_eq!(frame.len(), spec.len);
                let udp_len = be16(frame, udp + 4).unwrap();
                assert_eq!(usize::from(udp_len), spec.len - udp);
                match spec.ip {
                    IpVersion::V4 => {
                        assert_eq!(slow_checksum(&[&frame[ip..udp]]), 0, "{spec:?} {flow}");
                        assert_eq!(usize::from(be16(frame, ip + 2).unwrap()), spec.len - ip);
                        assert_eq!(be16(frame, udp + 6), Some(0));
                    }
                    IpVersion::V6 => {
                        let pseudo =
                            [&frame[ip + 8..udp], &udp_len.to_be_bytes(), &[0, PROTOCOL_UDP]].concat();
                        assert_eq!(slow_checksum(&[&pseudo, &frame[udp..]]), 0, "{spec:?} {flow} {sequence}");
                        assert_ne!(be16(frame, udp + 6), Some(0), "zero would mean none");
                        assert_eq!(be16(frame, ip + 4), Some(udp_len));
                    }
                }
                assert_eq!(Marks::read(frame), Some(Marks { flow, sequence }), "{spec:?}");
            }
        }
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
fn the_tag_is_where_it_belongs() {
    let spec = FrameSpec { vlan: Some(100), ..FrameSpec::default() };
    let template = Template::new(spec).unwrap();
    assert_eq!(template.bytes()[..19], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x81, 0, 0, 100, 8, 0, 0x45]);
}

#[test]
fn impossible_frames_are_refused() {
    let new = |len, ip, vlan| Template::new(FrameSpec { len, ip, vlan, ..FrameSpec::default() });
    assert!(matches!(new(59, IpVersion::V4, None), Err(Error::FrameLen { min: 60, .. })));
    assert!(matches!(new(73, IpVersion::V6, None), Err(Error::FrameLen { min: 74, .. })));
    assert!(matches!(new(77, IpVersion::V6, Some(1)), Err(Error::FrameLen { min: 78, .. })));
    assert!(matches!(new(FRAME_LEN_MAX + 1, IpVersion::V4, None), Err(Error::FrameLen { .. })));
    assert!(matches!(new(60, IpVersion::V4, Some(4095)), Err(Error::Vlan { vlan: 4095 })));
    assert!(new(60, IpVersion::V4, Some(7)).is_ok() && new(74, IpVersion::V6, None).is_ok());
}

#[test]
fn foreign_frames_have_no_marks() {
    let mut template = Template::new(FrameSpec::default()).unwrap();
    let frame = template.stamp(3, 4).to_vec();
    assert_eq!(Marks::read(&frame[..53]), None, "cut inside the marks");
    assert_eq!(Marks::read(&frame[..54]), Some(Marks { flow: 3, sequence: 4 }));
    for at in [13, 26, 29, 34, 53] {
        let mut foreign = frame.clone();
        foreign[at] ^= 1;
        assert_eq!(Marks::read(&foreign), None, "byte {at}");
    }
    assert_eq!(Marks::read(&[]), None);
}
