//! Checksums compared with the sum of RFC 1071 as written there, word by word, and with packets of other
//! programs.

use std::net::IpAddr;

use proptest::{collection::vec, prelude::*};

use super::*;

/// Sums word by word, in a number that is wide enough.
fn naive(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|word| u64::from(word[0]) * 256 + u64::from(*word.get(1).unwrap_or(&0)));
    let mut sum: u64 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn put(packet: &mut [u8], offset: usize, value: u16) {
    packet[offset..offset + 2].copy_from_slice(&value.to_be_bytes());
}

#[test]
fn sums_of_every_length_and_of_the_greatest_words_are_right() {
    for filler in [0x00, 0x01, 0x80, 0xfe, 0xff] {
        for len in 0..200 {
            let mut bytes = vec![filler; len];
            assert_eq!(sum(&bytes), naive(&bytes), "{len} bytes of {filler}");
            if let Some(last) = bytes.last_mut() {
                *last ^= 0x55;
            }
            assert_eq!(sum(&bytes), naive(&bytes), "{len} bytes of {filler}, except the last");
        }
    }
}

#[test]
fn the_pseudo_header_is_summed_as_it_is_laid_out() {
    let v4 = [198, 51, 100, 7, 203, 0, 113, 9, 0, 17, 0x12, 0x34];
    assert_eq!(pseudo_header([198, 51, 100, 7].into(), [203, 0, 113, 9].into(), 17, 0x1234), naive(&v4));
    let (source, destination): ([u8; 16], [u8; 16]) = ([0xfd; 16], [0x20; 16]);
    let v6 = [&source[..], &destination, &0x0001_2345_u32.to_be_bytes(), &[0, 0, 0, 6]].concat();
    assert_eq!(pseudo_header(source.into(), destination.into(), 6, 0x1_2345), naive(&v6));
}

#[test]
fn udp_keeps_a_missing_checksum_and_never_sends_zero() {
    assert_eq!(Change::none().word(1, 2).apply_udp(0), 0, "no checksum stays none");
    // A segment whose sum is all ones.
    let (source, destination) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
    let mut udp = vec![0, 53, 0, 53, 0, 10, 0, 0, 0, 0];
    let rest = pseudo_header(source, destination, 17, 10);
    let filler = !add(rest, naive(&udp));
    put(&mut udp, 8, filler);
    assert_eq!(transport(source, destination, 17, &udp), Some(0xffff));
    assert_eq!(transport(source, destination, 6, &udp), None, "too short for TCP");
    assert_eq!(transport(source, [0; 16].into(), 17, &udp), None, "addresses of two versions");
    assert_eq!(transport(source, destination, 132, &udp), None, "SCTP has another checksum");
}

/// IPv4 with options, a UDP segment of 11 bytes, 3 bytes of padding.
fn udp_v4() -> Vec<u8> {
    let mut packet =
        vec![0x46, 0, 0, 35, 1, 2, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2, 1, 1, 1, 0];
    packet.extend([0x30, 0x39, 0, 53, 0, 11, 0, 0, b'a', b'b', b'c']);
    packet.extend([0xee; 3]);
    packet
}

/// IPv6 with an extension header, a TCP segment of 21 bytes.
fn tcp_v6() -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 29, 60, 64];
    packet.extend([[0x20; 16], [0xfe; 16]].concat());
    packet.extend([6, 0, 1, 4, 0, 0, 0, 0]);
    packet.extend([0x30, 0x39, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0, b'x']);
    packet
}

#[test]
fn filled_checksums_verify_and_every_damaged_covered_bit_is_found() {
    for (mut packet, covered) in [(udp_v4(), 35), (tcp_v6(), 69)] {
        assert_eq!(verify(&packet), Verdict::Wrong);
        assert_eq!(fill(&mut packet), FilledChecksums::All);
        assert_eq!(verify(&packet), Verdict::Right);
        for bit in 0..packet.len() * 8 {
            let mut damaged = packet.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            // The IPv6 checksum covers neither the extension header nor the IPv6 header except its addresses.
            let is_v6_header = packet.len() == covered && matches!(bit / 8, 0..8 | 40..48);
            if bit / 8 < covered && !is_v6_header {
                assert_ne!(verify(&damaged), Verdict::Right, "bit {bit}");
            }
            if bit / 8 >= covered {
                assert_eq!(verify(&damaged), Verdict::Right, "padding");
            }
        }
    }
}

#[test]
fn unknown_checksums_are_not_written() {
    let fragment = |mut packet: Vec<u8>| {
        packet[6] = 0x20;
        packet
    };
    let cut = |mut packet: Vec<u8>| {
        packet.truncate(34);
        packet
    };
    let udp_longer_than_ip = |mut packet: Vec<u8>| {
        packet[29] = 12;
        packet
    };
    let source_routed = |mut packet: Vec<u8>| {
        packet[20..24].copy_from_slice(&[131, 4, 4, 0]);
        packet
    };
    for mut packet in
        [fragment(udp_v4()), cut(udp_v4()), udp_longer_than_ip(udp_v4()), source_routed(udp_v4())]
    {
        assert_eq!(fill(&mut packet), FilledChecksums::HeaderOnly, "{packet:x?}");
        assert_eq!(packet[30..32], [0, 0]);
        assert_eq!(verify(&packet), Verdict::Unverifiable);
    }
    let mut routed = tcp_v6();
    routed[6] = 43;
    routed[43] = 1;
    assert_eq!(fill(&mut routed), FilledChecksums::HeaderOnly, "the last address is in the routing header");
    for mut nothing in [vec![], vec![0x45; 19], vec![0x60; 39], vec![0x50; 60], vec![0x42; 60]] {
        let before = nothing.clone();
        assert_eq!((fill(&mut nothing), verify(&before)), (FilledChecksums::Nothing, Verdict::NotIp));
        assert_eq!(nothing, before);
    }
}

#[test]
fn udp_without_checksum_is_right_over_ipv4_only() {
    let mut v4 = udp_v4();
    assert_eq!(fill(&mut v4), FilledChecksums::All);
    put(&mut v4, 30, 0);
    assert_eq!(verify(&v4), Verdict::Unverifiable);
    let mut v6 = tcp_v6();
    v6[40] = 17;
    put(&mut v6, 52, 21);
    assert_eq!(fill(&mut v6), FilledChecksums::All);
    assert_eq!(verify(&v6), Verdict::Right);
    put(&mut v6, 54, 0);
    assert_eq!(verify(&v6), Verdict::Wrong);
}

#[test]
fn both_forms_of_zero_are_right_except_in_udp() {
    // An ICMP message whose words, without its checksum, add up to all ones.
    let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    packet.extend([8, 0, 0, 0, 0xf7, 0xff, 0, 0]);
    assert_eq!(fill(&mut packet), FilledChecksums::All);
    assert_eq!(packet[22..24], [0, 0]);
    put(&mut packet, 22, 0xffff);
    assert_eq!(verify(&packet), Verdict::Right);
    // A message of nothing but zeros has only the other form.
    packet[20..28].fill(0);
    assert_eq!(verify(&packet), Verdict::Wrong);
    assert_eq!(fill(&mut packet), FilledChecksums::All);
    assert_eq!(packet[22..24], [0xff, 0xff]);
}

proptest! {
    #[test]
    fn the_sum_is_that_of_the_words(bytes in vec(any::<u8>(), 0..3000)) {
        prop_assert_eq!(sum(&bytes), naive(&bytes));
    }

    #[test]
    fn a_change_gives_the_same_as_a_new_computation(
        before in vec(any::<u8>(), 40..200),
        new in vec(any::<u8>(), 0..40),
        at in 0usize..160,
        few in any::<bool>(),
    ) {
        // Often few different bytes, so that sums of all ones and of zeros occur.
        let narrow = |bytes: Vec<u8>| if few { bytes.iter().map(|byte| 0u8.wrapping_sub(byte & 1)).collect() } else { bytes };
        let (before, new): (Vec<u8>, Vec<u8>) = (narrow(before), narrow(new));
        let at = at.min(before.len() - new.len());
        let mut after = before.clone();
        after[at..at + new.len()].copy_from_slice(&new);
        prop_assume!(after.iter().any(|byte| *byte != 0));
        let change = Change::none().bytes(at, &before[at..at + new.len()], &new);
        prop_assert_eq!(change.apply(!naive(&before)), !naive(&after));
        let udp = |bytes: &[u8]| never_zero(!naive(bytes));
        prop_assert_eq!(change.apply_udp(udp(&before)), udp(&after));
    }

    #[test]
    fn all_kinds_of_changes_equal_the_change_of_their_bytes(
        words in any::<(u16, u16)>(), double in any::<(u32, u32)>(), addresses in any::<(u128, u128)>(),
        checksum in any::<u16>(),
    ) {
        let of_bytes = |old: &[u8], new: &[u8]| Change::none().bytes(0, old, new).apply(checksum);
        let word = Change::none().word(words.0, words.1).apply(checksum);
        prop_assert_eq!(word, of_bytes(&words.0.to_be_bytes(), &words.1.to_be_bytes()));
        prop_assert_eq!(word, update(checksum, words.0, words.1));
        let expected = of_bytes(&double.0.to_be_bytes(), &double.1.to_be_bytes());
        prop_assert_eq!(Change::none().double_word(double.0, double.1).apply(checksum), expected);
        let [v4, v4_new] = [double.0, double.1].map(|bits| IpAddr::from(bits.to_be_bytes()));
        prop_assert_eq!(Change::none().address(v4, v4_new).apply(checksum), expected);
        let [v6, v6_new] = [addresses.0, addresses.1].map(|bits| IpAddr::from(bits.to_be_bytes()));
        let expected = of_bytes(&addresses.0.to_be_bytes(), &addresses.1.to_be_bytes());
        prop_assert_eq!(Change::none().address(v6, v6_new).apply(checksum), expected);
    }

    #[test]
    fn a_wrong_checksum_stays_wrong_by_the_same_amount(
        old in any::<u16>(), new in any::<u16>(), wrong_by in 1u16..0xffff,
    ) {
        let rest = 0x1234_u16;
        let (before, after) = (!add(rest, old), !add(rest, new));
        // 0 and 0xffff are the same amount: ones' complement has two zeros (RFC 1624, section 3).
        let amount = |checksum: u16| checksum % 0xffff;
        prop_assert_eq!(amount(update(add(before, wrong_by), old, new)), amount(add(after, wrong_by)));
    }

    #[test]
    fn any_bytes_are_filled_and_verified_without_panic(mut bytes in vec(any::<u8>(), 0..120), first in 0x40u8..0x70) {
        if let Some(byte) = bytes.first_mut() {
            *byte = first;
        }
        if fill(&mut bytes) == FilledChecksums::All {
            prop_assert_eq!(verify(&bytes), Verdict::Right);
        }
    }
}
