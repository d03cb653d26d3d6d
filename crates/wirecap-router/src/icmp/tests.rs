//! Every error byte by byte, packets that get none, and arbitrary bytes.

use proptest::{collection::vec, prelude::*};

use super::*;
use wirecap_headers::{Layout, checksum::Verdict};

use crate::{DropCause, valid_ip};

const MACS: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
const BACK: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9];
const UDP: [u8; 8] = [0xc0, 0x00, 0x82, 0x35, 0x00, 0x08, 0, 0];
const DF: u16 = 0x4000;

/// An IPv4 packet from 192.0.2.1 to 198.51.100.1.
fn v4(fragment: u16, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let ([high, low], [flags, offset]) = (length(20 + payload.len()), fragment.to_be_bytes());
    let mut packet = vec![0x45, 0, high, low, 0, 0, flags, offset, 1, protocol, 0, 0];
    packet.extend([192, 0, 2, 1, 198, 51, 100, 1]);
    let checksum = checksum::ipv4_header(&packet);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet.extend(payload);
    packet
}

/// An IPv6 packet from 2001:db8:1::1 to 2001:db8:2::1.
fn v6(next: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = length(payload.len());
    let mut packet = vec![0x60, 0, 0, 0, high, low, next, 1];
    packet.extend([0x20, 1, 0x0d, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    packet.extend([0x20, 1, 0x0d, 0xb8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    packet.extend(payload);
    packet
}

fn frame_of(packet: &[u8]) -> Vec<u8> {
    let kind = if packet[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xdd] };
    [&MACS[..], &kind, packet].concat()
}

fn router_of(version: IpVersion) -> IcmpSource {
    let address = match version {
        IpVersion::V4 => "192.0.2.254",
        IpVersion::V6 => "2001:db8:1::fe",
    };
    IcmpSource { mac: "02:00:00:00:00:09".parse().unwrap(), address: address.parse().unwrap() }
}

/// The IP packet that reports the problem, if any.
fn answer_to(packet: &[u8], problem: IcmpProblem) -> Option<Vec<u8>> {
    let frame = frame_of(packet);
    let offender = Offender::of(&frame, frame.len())?;
    let mut error = vec![7; 3];
    let is_answered = offender.answer(problem, router_of(offender.version()), &mut error);
    assert_eq!(is_answered, offender.has_error(problem));
    is_answered.then(|| {
        assert_eq!((&error[..12], &error[12..14]), (&BACK[..], &frame[12..14]));
        assert_eq!(checksum::verify(&error[14..]), Verdict::Right);
        assert!(Offender::of(&error, error.len()).is_none(), "an error about an error");
        error.split_off(14)
    })
}

fn is_answered(packet: &[u8]) -> bool {
    answer_to(packet, IcmpProblem::NoRoute).is_some()
}

#[test]
fn the_bytes_of_time_exceeded_are_those_of_the_rfcs() {
    let packet = v4(0, 17, &UDP);
    let header = [
        0x45, 0xc0, 0x00, 0x38, 0x00, 0x00, 0x40, 0x00, 0x40, 0x01, 0xb5, 0x05, 192, 0, 2, 254, 192, 0, 2, 1,
    ];
    let icmp = [11, 0, 0xb2, 0xc1, 0, 0, 0, 0];
    assert_eq!(answer_to(&packet, IcmpProblem::Expired).unwrap(), [&header[..], &icmp, &packet].concat());

    let packet = v6(17, &UDP);
    let error = answer_to(&packet, IcmpProblem::Expired).unwrap();
    assert_eq!(error[..8], [0x60, 0, 0, 0, 0x00, 0x38, 58, 64]);
    assert_eq!(error[8..24], [0x20, 1, 0x0d, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xfe]);
    assert_eq!(error[24..40], packet[8..24]);
    assert_eq!(error[40..48], [3, 0, 0x91, 0x5b, 0, 0, 0, 0]);
    assert_eq!(error[48..], packet);
}

#[test]
fn each_problem_has_its_type_and_code() {
    let header = |packet: &[u8], problem| {
        let icmp = if packet[0] >> 4 == 4 { 20 } else { 40 };
        answer_to(packet, problem).map(|error| {
            let [kind, code, _, _, rest @ ..] = *error[icmp..].first_chunk::<8>().unwrap();
            (kind, code, u32::from_be_bytes(rest))
        })
    };
    let (short, long) = ([0; 100], [0; 1460]);
    for (problem, in_v4, in_v6) in [
        (IcmpProblem::Expired, Some((11, 0, 0)), Some((3, 0, 0))),
        (IcmpProblem::NoRoute, Some((3, 0, 0)), Some((1, 0, 0))),
        (IcmpProblem::BeyondScope, None, Some((1, 2, 0))),
        (IcmpProblem::HostUnreachable, Some((3, 1, 0)), Some((1, 3, 0))),
        (IcmpProblem::StrictSourceRoute, Some((12, 0, 0x1000_0000)), None),
        // The packets fit this MTU.
        (IcmpProblem::TooLong { mtu: 1280 }, None, None),
    ] {
        assert_eq!(header(&v4(DF, 17, &short), problem), in_v4, "{problem:?}");
        assert_eq!(header(&v6(17, &short), problem), in_v6, "{problem:?}");
    }
    let too_long = |mtu| IcmpProblem::TooLong { mtu };
    assert_eq!(header(&v4(DF, 17, &long), too_long(1479)), Some((3, 4, 1479)));
    assert_eq!(header(&v4(DF, 17, &long), too_long(1480)), None);
    // Routers may fragment this packet.
    assert_eq!(header(&v4(0, 17, &long), too_long(1280)), None);
    assert_eq!(header(&v6(17, &long), too_long(1499)), Some((2, 0, 1499)));
    assert_eq!(header(&v6(17, &long), too_long(1500)), None);
    // Senders do not go below the minimum MTU, so the error does not ask for it.
    assert_eq!(header(&v6(17, &long), too_long(600)), Some((2, 0, 1280)));
    assert_eq!(header(&v6(17, &short), too_long(100)), None);
}

#[test]
fn an_error_quotes_what_fits_of_the_packet_and_no_padding() {
    for (payload, of_v4, of_v6) in
        [(0, 48, 88), (520, 568, 608), (528, 576, 616), (529, 576, 617), (1192, 576, 1280), (1400, 576, 1280)]
    {
        let payload = vec![0xaa; payload];
        let (four, six) = (v4(DF, 17, &payload), v6(17, &payload));
        let error = answer_to(&four, IcmpProblem::NoRoute).unwrap();
        assert_eq!((error.len(), &error[28..]), (of_v4, &four[..of_v4 - 28]));
        // In IPv6, a length of 0 means that the packet is too long for the field.
        match answer_to(&six, IcmpProblem::NoRoute) {
            Some(error) => assert_eq!((error.len(), &error[48..]), (of_v6, &six[..of_v6 - 48])),
            None => assert!(payload.is_empty()),
        }
    }
    let packet = v4(0, 17, &UDP);
    let padded = [&packet[..], &[0x55; 18]].concat();
    assert_eq!(answer_to(&padded, IcmpProblem::NoRoute), answer_to(&packet, IcmpProblem::NoRoute));
}

#[test]
fn the_first_part_of_a_frame_is_enough() {
    let frame = frame_of(&v6(17, &vec![1; 8000]));
    let offender = Offender::of(&frame[..1792], frame.len()).unwrap();
    let mut error = Vec::new();
    assert!(offender.answer(IcmpProblem::TooLong { mtu: 1500 }, router_of(IpVersion::V6), &mut error));
    assert_eq!((error.len(), &error[14 + 48..]), (14 + MAX_ICMP_ERROR_LEN, &frame[14..14 + 1232]));
    assert!(
        Offender::of(&frame[..1792], frame.len() - 1).is_none(),
        "the packet claims to be longer than the frame"
    );
}

#[test]
fn an_error_carries_the_tags_of_the_packet() {
    let packet = v4(0, 17, &UDP);
    let tags = [0x88, 0xa8, 0x60, 0x64, 0x81, 0x00, 0x00, 0x0a];
    let frame = [&MACS[..], &tags, &[0x08, 0x00], &packet].concat();
    let mut error = Vec::new();
    let offender = Offender::of(&frame, frame.len()).unwrap();
    assert!(offender.answer(IcmpProblem::NoRoute, router_of(IpVersion::V4), &mut error));
    assert_eq!(error[..22], [&BACK[..], &tags, &[0x08, 0x00]].concat());
    assert_eq!(error[22..], answer_to(&packet, IcmpProblem::NoRoute).unwrap());
}

#[test]
fn a_router_address_of_the_other_version_reports_nothing() {
    let frame = frame_of(&v4(0, 17, &UDP));
    let offender = Offender::of(&frame, frame.len()).unwrap();
    assert!(!offender.answer(IcmpProblem::Expired, router_of(IpVersion::V6), &mut Vec::new()));
}

#[test]
fn icmp_errors_are_not_answered() {
    for kind in 0..=255 {
        let queries = [0, 8, 9, 10, 13, 14, 15, 16, 17, 18, 42, 43];
        assert_eq!(is_answered(&v4(0, 1, &[kind, 0, 0, 0])), queries.contains(&kind), "{kind}");
        assert_eq!(is_answered(&v6(58, &[kind, 0, 0, 0])), kind >= 128 && kind != 137, "{kind}");
        // After an options header.
        let behind = [58, 0, 1, 4, 0, 0, 0, 0, kind, 0, 0, 0];
        assert_eq!(is_answered(&v6(60, &behind)), kind >= 128 && kind != 137, "{kind}");
    }
    // Without its type, an ICMP message may be an error.
    assert!(!is_answered(&v4(0, 1, &[])));
    assert!(!is_answered(&v6(60, &[58, 0, 1, 4, 0, 0, 0, 0])));
    assert!(!is_answered(&v6(60, &[58, 9, 1, 4])));
    assert!(!is_answered(&v6(60, &[60, 0, 1, 4, 0, 0, 0, 0].repeat(12))));
    // The protocol number of the other version's ICMP means something else.
    assert!(is_answered(&v4(0, 58, &[1, 0, 0, 0])) && is_answered(&v6(1, &[3, 0, 0, 0])));
}

#[test]
fn later_fragments_get_no_error() {
    assert!(is_answered(&v4(0x2000, 17, &UDP)) && !is_answered(&v4(0x2001, 17, &UDP)));
    assert!(!is_answered(&v4(0x00b9, 17, &UDP)) && !is_answered(&v4(0x00b9, 1, &[8, 0, 0, 0])));
    let fragment = |offset: u16| {
        let [high, low] = offset.to_be_bytes();
        v6(44, &[&[17, 0, high, low, 0, 0, 0, 7][..], &UDP].concat())
    };
    assert!(is_answered(&fragment(0x0001)) && is_answered(&fragment(0)));
    assert!(!is_answered(&fragment(0x0009)) && !is_answered(&fragment(0x0008)));
}

#[test]
fn only_packets_between_single_hosts_get_an_error() {
    let with = |mut packet: Vec<u8>, at: usize, octets: &[u8]| {
        packet[at..at + octets.len()].copy_from_slice(octets);
        if packet[0] == 0x45 {
            let checksum = checksum::ipv4_header(&packet[..20]);
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        is_answered(&packet)
    };
    for (octets, expected) in [
        ([0, 0, 0, 0], false),
        ([0, 1, 2, 3], false),
        ([127, 0, 0, 1], false),
        ([223, 255, 255, 1], true),
        ([224, 0, 0, 1], false),
        ([240, 0, 0, 1], false),
        ([255, 255, 255, 255], false),
    ] {
        assert_eq!(with(v4(0, 17, &UDP), 12, &octets), expected, "from {octets:?}");
        assert_eq!(with(v4(0, 17, &UDP), 16, &octets), expected, "to {octets:?}");
    }
    for (address, expected) in [
        ("::", false),
        ("::1", false),
        ("ff02::1", false),
        ("ff0e::1", false),
        ("fe80::1", true),
        ("2::", true),
    ] {
        let octets = address.parse::<std::net::Ipv6Addr>().unwrap().octets();
        assert_eq!(with(v6(17, &UDP), 8, &octets), expected, "from {address}");
        assert_eq!(with(v6(17, &UDP), 24, &octets), expected, "to {address}");
    }
    for (at, octet, expected) in [(0, 0x33, false), (0, 0xff, false), (6, 0x01, false), (6, 0x04, true)] {
        let mut frame = frame_of(&v4(0, 17, &UDP));
        frame[at] = octet;
        assert_eq!(Offender::of(&frame, frame.len()).is_some(), expected, "byte {at} is {octet}");
    }
}

#[test]
fn damaged_packets_get_no_error() {
    let frame = frame_of(&v4(0, 17, &UDP));
    for (at, what) in [(14, "version"), (16, "length"), (24, "checksum"), (26, "source"), (30, "destination")]
    {
        let mut damaged = frame.clone();
        damaged[at] ^= 0x10;
        assert!(Offender::of(&damaged, damaged.len()).is_none(), "{what}");
    }
    for len in 0..frame.len() {
        assert!(Offender::of(&frame[..len], len).is_none(), "cut after {len} bytes");
    }
}

fn any_problem() -> impl Strategy<Value = IcmpProblem> {
    prop_oneof![
        Just(IcmpProblem::Expired),
        Just(IcmpProblem::NoRoute),
        Just(IcmpProblem::BeyondScope),
        Just(IcmpProblem::HostUnreachable),
        Just(IcmpProblem::StrictSourceRoute),
        any::<u32>().prop_map(|mtu| IcmpProblem::TooLong { mtu }),
        (0u32..2000).prop_map(|mtu| IcmpProblem::TooLong { mtu }),
    ]
}

proptest! {
    /// For any bytes, an error is correct, fits, and causes no further error.
    #[test]
    fn any_error_is_correct_and_the_last(
        mut bytes in vec(any::<u8>(), 0..1600), kind in 0..4, mend in any::<bool>(), problem in any_problem(),
    ) {
        let header: &[u8] = match kind {
            0 => &[0x08, 0x00, 0x45],
            1 => &[0x86, 0xdd, 0x60],
            2 => &[0x81, 0x00, 0x00, 0x07, 0x08, 0x00, 0x46],
            _ => &[],
        };
        if bytes.len() >= 80 {
            bytes[12..12 + header.len()].copy_from_slice(header);
            (bytes[0], bytes[6]) = (2, 2);
            if mend {
                let start = 11 + header.len();
                let rest = bytes.len() - start;
                match kind {
                    0 | 2 => bytes[start + 2..start + 4].copy_from_slice(&length(rest)),
                    1 => bytes[start + 4..start + 6].copy_from_slice(&length(rest - 40)),
                    _ => {}
                }
                let _ = checksum::fill(&mut bytes[start..]);
            }
        }
        if let Some(offender) = Offender::of(&bytes, bytes.len()) {
            let layout = Layout::of(&bytes).unwrap();
            let valid = valid_ip(&layout, &bytes, bytes.len());
            prop_assert!(matches!(valid, Ok(_) | Err(DropCause::StrictSourceRoute)), "{valid:?}");
            let (mut error, version) = (Vec::new(), offender.version());
            if offender.answer(problem, router_of(version), &mut error) {
                let start = Layout::of(&error).unwrap().network();
                let most = if version == IpVersion::V4 { 576 } else { 1280 };
                prop_assert!(error.len() - start <= most);
                prop_assert_eq!(checksum::verify(&error[start..]), Verdict::Right);
                prop_assert!(Offender::of(&error, error.len()).is_none());
            }
        }
    }
}
