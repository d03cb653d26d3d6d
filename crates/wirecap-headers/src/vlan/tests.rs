//! All changes of the outer tag, in both directions, and refusals.

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::VecFrame;

const MACS: [u8; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];

fn with(tags: &[[u8; 4]]) -> Vec<u8> {
    [&MACS[..], &tags.concat(), &[0x88, 0xb5, 0xaa, 0xbb]].concat()
}

fn mapped(map: &str, toward: Side, bytes: &[u8]) -> Vec<u8> {
    let mut frame = VecFrame::new(bytes, TAG_LEN);
    map.parse::<VlanMap>().unwrap().apply(toward, &mut frame).unwrap();
    frame.data().to_vec()
}

#[test]
fn a_pair_changes_adds_or_removes_a_tag_and_its_mirror_undoes_that() {
    let untagged = with(&[]);
    let ten = with(&[[0x81, 0x00, 0xf0, 10]]);
    let twenty = with(&[[0x81, 0x00, 0xf0, 20]]);
    let plain = with(&[[0x81, 0x00, 0x00, 20]]);
    for (map, a, b) in [
        ("10=20", &ten, &twenty),
        ("20=10", &twenty, &ten),
        ("10=20,20=10", &ten, &twenty),
        ("none=20", &untagged, &plain),
        ("7=8,20=none,9=10", &plain, &untagged),
        ("none=20,10=10", &untagged, &plain),
        ("10=20", &untagged, &untagged),
        ("10=20,none=30", &plain, &plain),
        ("none=20", &ten, &ten),
    ] {
        let toward_b = mapped(map, Side::B, a);
        assert_eq!(&toward_b, b, "{map} to B");
        if map != "10=20,none=30" {
            assert_eq!(&mapped(map, Side::A, b), a, "{map} to A");
        }
    }
}

#[test]
fn only_the_outer_tag_changes_and_it_keeps_its_type_and_priority() {
    for tpid in [[0x81, 0x00], [0x88, 0xa8], [0x91, 0x00]] {
        let tag = |id: u16| [tpid[0], tpid[1], 0xb0 | (id >> 8) as u8, id as u8];
        let inner = [0x81, 0x00, 0x00, 10];
        let (ten, other) = (with(&[tag(10), inner]), with(&[tag(4094), inner]));
        assert_eq!(mapped("10=4094", Side::B, &ten), other);
        assert_eq!(mapped("10=4094", Side::A, &other), ten);
        assert_eq!(mapped("10=none", Side::B, &ten), with(&[inner]));
    }
}

#[test]
fn a_tag_with_only_a_priority_is_no_vlan() {
    let priority = with(&[[0x81, 0x00, 0xa0, 0]]);
    assert_eq!(mapped("none=20", Side::B, &priority), with(&[[0x81, 0x00, 0xa0, 20]]));
    assert_eq!(mapped("20=30", Side::B, &priority), priority);
    assert_eq!(mapped("20=none", Side::A, &priority), with(&[[0x81, 0x00, 0xa0, 20]]));
}

#[test]
fn without_room_or_header_a_frame_stays_as_it_is() {
    let map: VlanMap = "none=20,30=none".parse().unwrap();
    let mut frame = VecFrame::new(&with(&[]), 3);
    assert_eq!(map.apply(Side::B, &mut frame), Err(RewriteError::NoRoom));
    assert_eq!(frame.data(), with(&[]));
    for len in 0..14 {
        assert_eq!(mapped("none=20", Side::B, &with(&[])[..len]), with(&[])[..len]);
    }
    // Nor is a tag recognised that is cut, or has no whole EtherType behind it.
    let tagged = with(&[[0x81, 0x00, 0, 30]]);
    for len in 14..18 {
        for map in ["30=40", "none=40", "30=none"] {
            assert_eq!(mapped(map, Side::B, &tagged[..len]), tagged[..len], "{map}, {len} bytes");
        }
    }
    assert_eq!(mapped("30=none", Side::B, &tagged[..18]), with(&[])[..14]);
}

#[test]
fn a_map_is_printed_as_given() {
    for text in ["10=20", "none=1,4094=none,7=7"] {
        let map: VlanMap = text.parse().unwrap();
        assert_eq!((map.to_string().as_str(), map.is_empty()), (text, false));
    }
    assert_eq!(" 1=2 , 3=4".parse::<VlanMap>().unwrap().to_string(), "1=2,3=4");
    assert_eq!((VlanMap::default().to_string().as_str(), VlanMap::default().is_empty()), ("", true));
}

#[test]
fn nonsense_is_refused_with_an_example() {
    for text in [
        "",
        ",",
        "10",
        "10=",
        "=10",
        "10=20,",
        "10=20=30",
        "0=10",
        "10=4095",
        "10=65546",
        "-1=10",
        "+1=10",
        "1 0=2",
        "none=none",
        "None=10",
        "a=b",
    ] {
        let error = text.parse::<VlanMap>().unwrap_err();
        assert!(matches!(error, Error::VlanPair(_)), "{text}: {error}");
        assert!(error.to_string().contains("10=20 or none=20"), "{error}");
    }
    for (text, expected) in [
        ("10=20,10=20", "VLAN 10 of side A is in 10=20 and in 10=20"),
        ("10=20,5=6,10=30", "VLAN 10 of side A is in 10=20 and in 10=30"),
        ("10=30,20=30", "VLAN 30 of side B is in 10=30 and in 20=30"),
        ("none=30,none=20", "VLAN none of side A is in none=30 and in none=20"),
        ("10=none,20=none", "VLAN none of side B is in 10=none and in 20=none"),
    ] {
        let error = text.parse::<VlanMap>().unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn a_frame_sent_there_and_back_is_unchanged(
        bytes in vec(any::<u8>(), 0..40), id in 0u16..40, tagged in any::<bool>(),
        a in vec(0u16..40, 1..20), b in vec(0u16..40, 1..20),
    ) {
        let mut map = VlanMap::default();
        for (a, b) in a.into_iter().zip(b) {
            let _ = map.add(Pair { a, b });
        }
        let mut bytes = bytes;
        if tagged && bytes.len() >= 16 {
            bytes[12..16].copy_from_slice(&[0x81, 0x00, 0x00, id as u8]);
        }
        let from = VlanTag::at(&bytes, TAG_OFFSET).map_or(NONE, VlanTag::id);
        let pair = map.pairs.iter().find(|pair| pair.a == from).copied();
        let mut frame = VecFrame::new(&bytes, TAG_LEN);
        map.apply(Side::B, &mut frame).unwrap();
        // Neither the addresses nor the rest change.
        let vlan = VlanTag::at(frame.data(), TAG_OFFSET).map_or(NONE, VlanTag::id);
        prop_assert_eq!(bytes.get(..12), frame.data().get(..12));
        match pair {
            None => prop_assert_eq!(frame.data(), bytes.as_slice()),
            // Another tag may follow a tag that is removed.
            Some(Pair { b: NONE, .. }) => {}
            Some(Pair { b, .. }) if bytes.len() >= 14 => {
                let known = tagged_or_whole(&bytes);
                prop_assert_eq!(vlan, if known { b } else { NONE });
                map.apply(Side::A, &mut frame).unwrap();
                // A tag with a priority but no VLAN is gone.
                if from != NONE || VlanTag::at(&bytes, TAG_OFFSET).is_none() {
                    prop_assert_eq!(frame.data(), bytes.as_slice());
                }
            }
            Some(_) => prop_assert_eq!(frame.data(), bytes.as_slice()),
        }
    }
}

/// Whether a frame's VLAN is known.
fn tagged_or_whole(bytes: &[u8]) -> bool {
    VlanTag::at(bytes, TAG_OFFSET).is_some() || !crate::layout::is_tag(word(bytes, TAG_OFFSET).unwrap())
}
