//! All changes together, completely or not at all.

use super::*;
use crate::{
    VecFrame,
    checksum::{self, Verdict},
};

fn frame(ttl: u8, room: usize) -> VecFrame {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    bytes.extend([0x45, 0, 0, 20, 0, 0, 0, 0, ttl, 253, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    assert_eq!(checksum::fill(&mut bytes[14..]), checksum::FilledChecksums::HeaderOnly);
    VecFrame::new(&bytes, room)
}

fn all() -> Rewrite {
    Rewrite {
        vlans: "none=20".parse().unwrap(),
        ttl: Ttl::Decrement,
        source: Some("02:00:00:00:00:0a".parse().unwrap()),
        destination: Some("02:00:00:00:00:0b".parse().unwrap()),
    }
}

#[test]
fn each_change_finds_the_headers_where_earlier_ones_moved_them() {
    let mut frame = frame(64, 4);
    assert_eq!(all().apply(Side::B, &mut frame), Ok(()));
    let data = frame.data();
    let expected = [2, 0, 0, 0, 0, 0x0b, 2, 0, 0, 0, 0, 0x0a, 0x81, 0, 0, 20, 8, 0];
    assert_eq!(data[..18], expected);
    assert_eq!((data[26], checksum::verify(&data[18..])), (63, Verdict::Unverifiable));
    assert_eq!(all().apply(Side::A, &mut frame), Ok(()));
    assert_eq!((frame.data()[12..14].to_vec(), frame.data()[22]), (vec![8, 0], 62));
}

#[test]
fn a_refused_frame_is_unchanged() {
    for (ttl, room, refused) in
        [(1, 4, RewriteError::Expired), (0, 0, RewriteError::Expired), (64, 3, RewriteError::NoRoom)]
    {
        let mut frame = frame(ttl, room);
        let before = frame.data().to_vec();
        assert_eq!(all().apply(Side::B, &mut frame), Err(refused));
        assert_eq!(frame.data(), before);
    }
}

#[test]
fn by_default_nothing_is_changed() {
    assert!(Rewrite::default().is_nothing() && !all().is_nothing());
    let mut frame = frame(0, 0);
    let before = frame.data().to_vec();
    assert_eq!(Rewrite::default().apply(Side::A, &mut frame), Ok(()));
    assert_eq!(frame.data(), before);
    assert!(
        RewriteError::Expired.to_string().contains("TTL")
            && RewriteError::NoRoom.to_string().contains("room")
    );
}
