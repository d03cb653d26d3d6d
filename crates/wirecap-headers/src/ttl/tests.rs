//! Every TTL in every form, and the checksum after the change.

use super::*;
use crate::checksum::{self, Verdict};

/// A frame with a right checksum.
fn v4(ttl: u8, id: u16) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, 0, 20, high, low, 0, 0, ttl, 253, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    let _ = checksum::fill(&mut frame[14..]);
    frame
}

fn v6(hop_limit: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x81, 0, 0, 7, 0x86, 0xdd];
    frame.extend([0x60, 0, 0, 0, 0, 0, 59, hop_limit]);
    frame.extend([[0x20; 16], [0x30; 16]].concat());
    frame
}

fn changed(ttl: Ttl, frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let layout = Layout::of(&frame).unwrap();
    ttl.apply(&layout, &mut frame);
    frame
}

#[test]
fn the_checksum_equals_a_new_computation_for_every_ttl() {
    for old in 0..=255 {
        // Identifications with which the checksum takes all values at the carries.
        for id in (0..=u16::MAX).step_by(251).chain(0xff00..=0xffff) {
            let frame = v4(old, id);
            let decremented = changed(Ttl::Decrement, &frame);
            assert_eq!(decremented, v4(if old <= 1 { old } else { old - 1 }, id), "{old} {id}");
        }
        for new in 1..=255 {
            let ttl = Ttl::Set(NonZeroU8::new(new).unwrap());
            assert_eq!(changed(ttl, &v4(old, 0x1234)), v4(new, 0x1234));
            assert_eq!(changed(ttl, &v6(old)), v6(new));
        }
        assert_eq!(changed(Ttl::Keep, &v4(old, 7)), v4(old, 7));
        assert_eq!(changed(Ttl::Keep, &v6(old)), v6(old));
        assert_eq!(changed(Ttl::Decrement, &v6(old)), v6(if old <= 1 { old } else { old - 1 }));
    }
}

#[test]
fn a_ttl_decremented_to_zero_expires() {
    let set = Ttl::Set(NonZeroU8::MIN);
    for ttl in 0..=255 {
        for frame in [v4(ttl, 1), v6(ttl)] {
            let layout = Layout::of(&frame).unwrap();
            assert_eq!(Ttl::Decrement.expires(&layout, &frame), ttl <= 1);
            assert!(!Ttl::Keep.expires(&layout, &frame) && !set.expires(&layout, &frame));
        }
    }
    let mut arp = v4(1, 1);
    arp[13] = 6;
    assert!(!Ttl::Decrement.expires(&Layout::of(&arp).unwrap(), &arp));
    assert_eq!(changed(set, &arp), arp);
}

#[test]
fn a_wrong_checksum_stays_wrong() {
    let mut frame = v4(64, 1);
    frame[25] ^= 1;
    assert_eq!(checksum::verify(&changed(Ttl::Decrement, &frame)[14..]), Verdict::Wrong);
}

#[test]
fn words_of_the_command_line_are_read_and_shown() {
    for text in ["keep", "decrement", "1", "64", "255"] {
        assert_eq!(text.parse::<Ttl>().unwrap().to_string(), text);
    }
    for text in ["", "0", "256", "-1", "+1", "Keep", "decrement 1", "99999999999"] {
        let error = text.parse::<Ttl>().unwrap_err().to_string();
        assert!(error.contains(&format!("{text:?}")) && error.contains("1 to 255"), "{error}");
    }
}
