//! Damaged, cut and hostile files: everything before the damage, then one error with the right offset.

use std::io::{self, Read};

use wirecap_file::{Damage, Error, Format, MAX_BLOCK_LEN, MAX_COMMENTS, PacketHeader, Reader, pcap};
use wirecap_lab::Capture;

use wirecap_lab::trace_bytes::{EPB, IDB, ISB, ORDERS, Order, SHB, SPB};

const LE: Order = Order::Little;

/// A sound start: a section, an interface, a packet.
fn sound(order: Order) -> Vec<u8> {
    [order.section(&[]), order.interface(1, 0, &[]), order.packet(0, 1, 3, b"abc", &[])].concat()
}

/// Reads a sound start followed by `bad`, checks everything else, and returns the damage.
fn damage_of(order: Order, bad: &[u8]) -> Damage {
    let start = sound(order);
    let capture =
        Capture::read([&start[..], bad, &order.packet(0, 1, 3, b"abc", &[])].concat().as_slice()).unwrap();
    assert_eq!(capture.packets.len(), 1, "only the packet before the damage is read");
    match capture.damage {
        Some(Error::Damaged { offset, damage }) if offset == start.len() as u64 => damage,
        other => panic!("expected damage at {}: {other:?}", start.len()),
    }
}

#[test]
fn each_kind_of_bad_block_is_named() {
    for order in ORDERS {
        let length = |length, min| Damage::BlockLength { length, min, max: MAX_BLOCK_LEN };
        let raw = |block_type, length| [order.u32(block_type), order.u32(length), vec![0; 64]].concat();
        assert_eq!(damage_of(order, &raw(EPB, 0)), length(0, 32));
        assert_eq!(damage_of(order, &raw(EPB, 28)), length(28, 32));
        assert_eq!(damage_of(order, &raw(77, 8)), length(8, 12));
        assert_eq!(damage_of(order, &raw(77, 14)), length(14, 12));
        assert_eq!(damage_of(order, &raw(IDB, 16)), length(16, 20));
        assert_eq!(damage_of(order, &raw(ISB, 20)), length(20, 24));
        assert_eq!(damage_of(order, &raw(SPB, 12)), length(12, 16));
        assert_eq!(damage_of(order, &raw(EPB, u32::MAX)), length(u32::MAX, 32));
        assert_eq!(damage_of(order, &raw(EPB, MAX_BLOCK_LEN + 4)), length(MAX_BLOCK_LEN + 4, 32));
        assert_eq!(damage_of(order, &raw(77, 20)), Damage::TrailingLength { leading: 20, trailing: 0 });
        assert_eq!(damage_of(order, &raw(SHB, 28)), Damage::ByteOrderMagic(0));
        let short = [order.u32(SHB), order.u32(16), order.u32(0x1a2b_3c4d), order.u32(16)].concat();
        assert_eq!(damage_of(order, &short), length(16, 28));

        let stranger = order.packet(1, 1, 3, b"abc", &[]);
        assert_eq!(damage_of(order, &stranger), Damage::UnknownInterface { interface: 1, known: 1 });
        let no_interface = [order.section(&[]), order.block(SPB, &[order.u32(0)])].concat();
        let capture = Capture::read(no_interface.as_slice()).unwrap();
        let expected = Damage::UnknownInterface { interface: 0, known: 0 };
        assert!(matches!(capture.damage, Some(Error::Damaged { offset: 28, damage }) if damage == expected));

        let claims = [order.u32(0), order.time(0), order.u32(u32::MAX), order.u32(4), vec![0; 8]];
        let captured = Damage::CapturedLength { captured: u32::MAX, max: 8 };
        assert_eq!(damage_of(order, &order.block(EPB, &claims)), captured);
        let claims = order.block(SPB, &[order.u32(9), vec![0; 8]]);
        assert_eq!(damage_of(order, &claims), Damage::CapturedLength { captured: 9, max: 8 });

        let runs_out = [order.u16(1), order.u16(5), vec![0; 4]].concat();
        let option = Damage::OptionLength { code: 1, length: 5, left: 4 };
        assert_eq!(damage_of(order, &order.packet(0, 1, 3, b"abc", std::slice::from_ref(&runs_out))), option);
        assert_eq!(damage_of(order, &order.interface(1, 0, &[runs_out])), option);
    }
}

#[test]
fn the_longest_block_is_read() {
    let longest = LE.block(77, &[vec![0; MAX_BLOCK_LEN as usize - 12]]);
    let file = [sound(LE), longest, LE.packet(0, 1, 3, b"abc", &[])].concat();
    let capture = Capture::read(file.as_slice()).unwrap();
    assert!(capture.damage.is_none() && capture.packets.len() == 2, "{:?}", capture.damage);
}

#[test]
fn a_file_cut_anywhere_is_truncated_at_the_record_it_was_cut_in() {
    for order in ORDERS {
        let records = [sound(order), order.packet(0, 2, 9, b"defgh", &[]), order.block(77, &[vec![1; 40]])];
        cut_everywhere(&records.concat(), &[0, 28, 48, 84, 124, 176]);
        let header = order.pcap_header(0xa1b2_3c4d, (2, 4), 96, 1);
        let one = order.pcap_record(1, 2, (3, 9), b"abc");
        cut_everywhere(&[header, one.clone(), one].concat(), &[0, 24, 43, 62]);
    }
}

/// `ends` are the offsets at which a file may end cleanly, and 0.
fn cut_everywhere(file: &[u8], ends: &[u64]) {
    assert_eq!(*ends.last().unwrap(), file.len() as u64);
    for len in 1..=file.len() as u64 {
        let error = match Capture::read(&file[..len as usize]) {
            Ok(capture) => capture.damage,
            Err(error) => Some(error),
        };
        let last_end = *ends.iter().rfind(|&&end| end <= len).unwrap();
        match error {
            None => assert_eq!(last_end, len, "a cut passed for an end"),
            Some(Error::Truncated { offset, present, needed, .. }) => {
                assert_eq!((offset, present), (last_end, len - last_end), "cut to {len}");
                assert!(needed > present);
            }
            other => panic!("cut to {len}: {other:?}"),
        }
    }
}

#[test]
fn after_an_error_comes_the_end() {
    let file = [sound(LE), vec![0; 12]].concat();
    let mut reader = Reader::new(file.as_slice()).unwrap();
    for _ in 0..3 {
        assert!(reader.next().unwrap().is_some());
    }
    assert!(reader.next().is_err());
    assert!(reader.next().unwrap().is_none() && reader.next().unwrap().is_none());
}

#[test]
fn a_pcap_record_longer_than_plausible_is_damage() {
    let damage = |snaplen, captured| {
        let file = [
            LE.pcap_header(0xa1b2_c3d4, (2, 4), snaplen, 1),
            LE.pcap_record(0, 0, (captured, captured), b""),
        ];
        Capture::read(file.concat().as_slice()).unwrap().damage.unwrap()
    };
    let expected = Damage::CapturedLength { captured: 262_145, max: 262_144 };
    assert!(matches!(damage(96, 262_145), Error::Damaged { offset: 24, damage } if damage == expected));
    assert!(matches!(damage(96, 262_144), Error::Truncated { offset: 24, present: 16, needed: 262_160, .. }));
    assert!(matches!(damage(300_000, 300_000), Error::Truncated { .. }));
    let expected = Damage::CapturedLength { captured: u32::MAX, max: MAX_BLOCK_LEN };
    assert!(matches!(damage(u32::MAX, u32::MAX), Error::Damaged { damage, .. } if damage == expected));
}

#[test]
fn a_file_that_is_no_capture_is_refused_with_a_hint() {
    assert!(matches!(Reader::new(&b""[..]), Err(Error::Empty)));
    assert!(matches!(Reader::new(&b"\xd4\xc3"[..]), Err(Error::Truncated { offset: 0, present: 2, .. })));
    let hint = |start: &[u8]| Reader::without_decompression(start).unwrap_err().to_string();
    for (start, mends) in [
        (&b"\x1f\x8b\x08\x00"[..], "gunzip"),
        (b"\x28\xb5\x2f\xfd", "unzstd"),
        (b"\x04\x22\x4d\x18", "unlz4"),
        (b"\x50\x2a\x4d\x18", "of several parts"),
        (b"\xfd7zXZ\0", "unxz"),
        (b"PK\x03\x04", "unpack"),
        (b"#!/bin/sh\n", "editcap"),
    ] {
        assert!(hint(start).contains(mends), "{}", hint(start));
    }
    for short in [&b"hi\n"[..], b"h", b"\xd4\xc4", b"\x0a\x0d\x0a"] {
        assert!(matches!(Reader::new(short), Err(Error::NotACapture(start)) if start == short));
    }
    let old = LE.pcap_header(0xa1b2_c3d4, (1, 0), 96, 1);
    assert!(matches!(
        Reader::new(&old[..]),
        Err(Error::UnsupportedVersion { format: Format::Pcap, major: 1, .. })
    ));
    assert!(matches!(Reader::open("/nonexistent/file.pcap"), Err(Error::Open { .. })));

    let mut later = LE.section(&[]);
    later[12] = 2;
    let capture = Capture::read([sound(LE), later].concat().as_slice()).unwrap();
    assert!(matches!(capture.damage, Some(Error::UnsupportedVersion { offset: 84, major: 2, minor: 0, .. })));
}

#[test]
fn a_file_that_is_bad_from_its_first_byte_cannot_be_saved_by_a_cut() {
    for order in ORDERS {
        let header = order.pcap_header(0xa1b2_c3d4, (2, 4), 96, 1);
        let section = order.section(&[]);
        let mut odd = section.clone();
        odd[8] ^= 1;
        let starts = [&header[..1], &header[..23], &section[..3], &section[..11], &section[..20], &odd];
        for start in starts {
            let error = Capture::read(start).map_or_else(|error| error, |capture| capture.damage.unwrap());
            let text = error.to_string();
            assert!(
                text.contains("at byte 0") && text.ends_with("; no packet was read; capture again"),
                "{text}"
            );
        }
    }
    let text = Capture::read(&sound(LE)[..40]).unwrap().damage.unwrap().to_string();
    assert!(text.ends_with("cut the file to 28 bytes to be rid of the rest"), "{text}");
}

#[test]
fn a_failing_disk_is_reported_with_the_offset() {
    struct FailingReader<'a>(&'a [u8]);
    impl Read for FailingReader<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() { Err(io::Error::other("bad sector")) } else { self.0.read(buffer) }
        }
    }
    let file = sound(LE);
    let capture = Capture::read(FailingReader(&file)).unwrap();
    assert_eq!(capture.packets.len(), 1);
    assert!(matches!(capture.damage, Some(Error::Read { offset: 84, .. })));
}

#[test]
fn too_many_interfaces_are_damage() {
    let mut file = LE.section(&[]);
    for _ in 0..=wirecap_file::MAX_INTERFACES {
        file.extend(LE.interface(1, 0, &[]));
    }
    let mut reader = Reader::new(file.as_slice()).unwrap();
    let error = loop {
        match reader.next() {
            Ok(record) => assert!(record.is_some()),
            Err(error) => break error,
        }
    };
    let offset = 28 + 20 * u64::from(wirecap_file::MAX_INTERFACES);
    assert!(
        matches!(error, Error::Damaged { offset: at, damage: Damage::TooManyInterfaces } if at == offset)
    );
}

#[test]
fn empty_comments_are_damage_before_they_fill_the_memory() {
    let comments = |number: u32| vec![LE.option(1, b""); number as usize];
    let most =
        Capture::read([sound(LE), LE.packet(0, 1, 3, b"abc", &comments(MAX_COMMENTS))].concat().as_slice());
    let most = most.unwrap();
    assert_eq!((most.packets[1].comments.len(), most.damage.is_none()), (MAX_COMMENTS as usize, true));
    let more = comments(MAX_COMMENTS + 1);
    let statistics = LE.block(ISB, &[LE.u32(0), LE.time(0), more.concat()]);
    for bad in [LE.packet(0, 1, 3, b"abc", &more), LE.interface(1, 0, &more), LE.section(&more), statistics] {
        assert_eq!(damage_of(LE, &bad), Damage::TooManyComments);
    }
}

#[test]
fn a_packet_larger_than_the_buffer_is_read() {
    let data: Vec<u8> = (0..262_144_u32).map(|i| i as u8).collect();
    let mut file = Vec::new();
    pcap::file_header(&mut file, 1, 0);
    for _ in 0..3 {
        pcap::packet(&mut file, &PacketHeader::default(), 0, [&data[..]]);
    }
    let block = LE.packet(0, 1, 1, &[data.clone(), data.clone()].concat(), &[]);
    let capture = Capture::read(file.as_slice()).unwrap();
    assert!(capture.damage.is_none() && capture.packets.iter().all(|packet| packet.data == data));
    let capture = Capture::read([sound(LE), block].concat().as_slice()).unwrap();
    assert_eq!((capture.packets[1].data.len(), capture.damage.is_none()), (524_288, true));
}
