//! Generated frames of every kind, cut at every length.

use proptest::{collection::vec, prelude::*};

use super::*;

const MACS: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];

fn frame(parts: &[&[u8]]) -> Vec<u8> {
    [&MACS[..], &parts.concat()].concat()
}

/// An IPv4 header of 20 bytes and these options, which carries UDP.
fn v4(fragment: u16, options: &[u8]) -> Vec<u8> {
    let [high, low] = fragment.to_be_bytes();
    let words = 0x45 + (options.len() / 4) as u8;
    let mut packet = vec![words, 0, 0, 28, 0, 0, high, low, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    packet.extend(options);
    packet
}

/// An IPv6 header and the bytes behind it.
fn v6(next: u8, behind: &[&[u8]]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 0, next, 64];
    packet.extend([[0x20; 16], [0x30; 16]].concat());
    packet.extend(behind.concat());
    packet
}

#[test]
fn tags_of_all_types_are_followed_to_the_documented_depth() {
    let tag = [[0x81, 0x00, 0xe0, 0x01], [0x88, 0xa8, 0x10, 0x02], [0x91, 0x00, 0x00, 0x03]];
    let ip = [&[0x08, 0x00][..], &v4(0, &[]), &[0; 8]].concat();
    for tags in 0..=MAX_VLAN_TAGS {
        let stack: Vec<u8> = (0..tags).flat_map(|depth| tag[depth % 3]).collect();
        let bytes = frame(&[&stack, &ip]);
        let layout = Layout::of(&bytes).unwrap();
        assert_eq!(
            (layout.vlan_tags(), layout.ether_type(), layout.network()),
            (tags, 0x0800, 14 + 4 * tags)
        );
        assert_eq!(layout.ip().unwrap().transport(), Some(14 + 4 * tags + 20));
        assert_eq!(layout.vlan(&bytes, tags), None);
        for depth in 0..tags {
            let found = layout.vlan(&bytes, depth).unwrap();
            let expected = [(0x8100, 1, 7, false), (0x88a8, 2, 0, true), (0x9100, 3, 0, false)][depth % 3];
            assert_eq!((found.tpid(), found.id(), found.priority(), found.drop_eligible()), expected);
        }
    }
    let too_deep = frame(&[&tag[0].repeat(MAX_VLAN_TAGS + 1), &ip]);
    let layout = Layout::of(&too_deep).unwrap();
    assert_eq!((layout.vlan_tags(), layout.ether_type(), layout.ip()), (MAX_VLAN_TAGS, 0x8100, None));
}

#[test]
fn a_cut_tag_is_not_a_tag() {
    let bytes = frame(&[&[0x81, 0, 0, 7, 0x08]]);
    let layout = Layout::of(&bytes).unwrap();
    assert_eq!((layout.vlan_tags(), layout.ether_type(), layout.network()), (0, 0x8100, 14));
    assert_eq!(layout.vlan(&bytes, 0), None);
    assert_eq!(Layout::of(&bytes[..13]), None);
}

#[test]
fn the_transport_header_of_ipv4_is_behind_its_options_and_in_the_first_fragment() {
    for (fragment, options, transport, is_fragment) in [
        (0x0000, &[][..], Some(34), false),
        (0x4000, &[][..], Some(34), false),
        (0x0000, &[1; 8][..], Some(42), false),
        (0x0000, &[1; 40][..], Some(74), false),
        (0x2000, &[][..], Some(34), true),
        (0x2001, &[][..], None, true),
        (0x0001, &[][..], None, true),
    ] {
        let bytes = frame(&[&[0x08, 0], &v4(fragment, options), &[0; 8]]);
        let layout = Layout::of(&bytes).unwrap();
        let ip = layout.ip().unwrap();
        assert_eq!((ip.transport(), ip.is_fragment(), ip.protocol()), (transport, is_fragment, 17));
        assert_eq!((ip.start(), ip.header_len(), ip.ttl_offset()), (14, 20 + options.len(), 22));
        assert_eq!(ip.source(&bytes), Some([192, 0, 2, 1].into()));
        assert_eq!(ip.destination(&bytes), Some([192, 0, 2, 2].into()));
    }
}

#[test]
fn contradictory_headers_are_not_ip() {
    let mut short = v4(0, &[]);
    short[0] = 0x44;
    let mut long = v4(0, &[]);
    long[0] = 0x4f;
    let four = v4(0, &[]);
    let six = v6(17, &[&[0; 8]]);
    let cases: [(&[u8], &[u8]); 6] = [
        (&[0x08, 0x00], &short),
        (&[0x08, 0x00], &long),
        (&[0x08, 0x00], &six),
        (&[0x86, 0xdd], &four),
        (&[0x08, 0x06], &four),
        (&[0x00, 0x2e], &four),
    ];
    for (ether_type, packet) in cases {
        let bytes = frame(&[ether_type, packet]);
        assert_eq!(Layout::of(&bytes).unwrap().ip(), None, "{packet:x?}");
    }
    for len in 0..20 {
        assert_eq!(IpLayout::of(&four[..len]), None);
    }
    for len in 0..40 {
        assert_eq!(IpLayout::of(&six[..len]), None);
    }
}

#[test]
fn extension_headers_are_skipped() {
    let hop = [43, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let routing = [44, 0, 0, 0, 0, 0, 0, 0];
    let fragment = |offset_and_more: u16| {
        let [high, low] = offset_and_more.to_be_bytes();
        [51, 255, high, low, 0, 0, 0, 1]
    };
    let authentication = [60, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let destination = [6, 0, 0, 0, 0, 0, 0, 0];
    for (offset_and_more, transport, is_fragment, protocol) in
        [(0, Some(92), false, 6), (1, Some(92), true, 6), (8, None, true, 51), (9, None, true, 51)]
    {
        let fragment = fragment(offset_and_more);
        let packet = v6(0, &[&hop, &routing, &fragment, &authentication, &destination, &[0; 20]]);
        let ip = IpLayout::of(&packet).unwrap();
        assert_eq!((ip.transport(), ip.is_fragment(), ip.protocol()), (transport, is_fragment, protocol));
        assert_eq!((ip.header_len(), ip.ttl_offset(), ip.ttl(&packet)), (40, 7, Some(64)));
        assert_eq!(ip.source(&packet), Some([0x20; 16].into()));
        assert_eq!(ip.destination(&packet), Some([0x30; 16].into()));
    }
}

#[test]
fn only_the_documented_number_of_extension_headers_is_skipped() {
    for (count, found) in [(MAX_EXTENSIONS, true), (MAX_EXTENSIONS + 1, false), (200, false)] {
        let mut behind = [60, 0, 0, 0, 0, 0, 0, 0].repeat(count);
        let last = behind.len() - 8;
        behind[last] = 17;
        let packet = v6(60, &[&behind, &[0; 8]]);
        let transport = IpLayout::of(&packet).unwrap().transport();
        assert_eq!(transport, found.then_some(40 + 8 * count), "{count}");
    }
}

#[test]
fn ipv6_with_nothing_behind_it_has_no_transport_header() {
    let extension = [59, 0, 0, 0, 0, 0, 0, 0];
    for (packet, transport, protocol) in [
        (v6(59, &[&[0; 8]]), None, 59),
        (v6(59, &[]), None, 59),
        (v6(60, &[&extension, &[0; 8]]), None, 59),
        (v6(17, &[]), None, 17),
        (v6(17, &[&[0]]), Some(40), 17),
        (v6(50, &[&[0; 8]]), Some(40), 50),
        (v6(60, &[&[17, 200, 0, 0]]), None, 17),
        (v6(60, &[&[17, 0, 0]]), None, 60),
    ] {
        let ip = IpLayout::of(&packet).unwrap();
        assert_eq!((ip.transport(), ip.protocol()), (transport, protocol), "{packet:x?}");
    }
}

/// Reads everything that a layout describes, from its own bytes and from others.
fn read_all(bytes: &[u8], others: &[u8]) {
    let Some(layout) = Layout::of(bytes) else { return assert!(bytes.len() < ETHERNET_LEN) };
    assert!(layout.network() <= bytes.len());
    assert_eq!((0..9).filter(|depth| layout.vlan(bytes, *depth).is_some()).count(), layout.vlan_tags());
    let _ = layout.vlan(others, 0);
    let Some(ip) = layout.ip() else { return };
    assert!(ip.start() + ip.header_len() <= bytes.len());
    assert!(
        ip.transport().is_none_or(|offset| offset < bytes.len() && offset >= ip.start() + ip.header_len())
    );
    assert!(ip.ttl(bytes).is_some() && ip.source(bytes).is_some() && ip.destination(bytes).is_some());
    let _ = (ip.ttl(others), ip.source(others), ip.destination(others));
}

proptest! {
    #[test]
    fn any_bytes_have_a_layout_or_none(
        mut bytes in vec(any::<u8>(), 0..200), tags in 0usize..6, v4 in any::<bool>(), few in any::<bool>(),
        others in vec(any::<u8>(), 0..60),
    ) {
        if few {
            // Bytes that are meaningful as extension headers.
            bytes.iter_mut().for_each(|byte| *byte = [0, 43, 44, 51, 60, 1, 2, 17][usize::from(*byte) % 8]);
        }
        let mut types: Vec<u8> = [0x81, 0x00, 0x00, 0x07].repeat(tags);
        types.extend(if v4 { [0x08, 0x00, 0x45] } else { [0x86, 0xdd, 0x60] });
        for (to, from) in bytes.iter_mut().skip(TAG_OFFSET).zip(types) {
            *to = from;
        }
        for len in 0..bytes.len() {
            read_all(&bytes[..len], &others);
        }
    }
}
