//! Compressed files: what they hold is read as from a file that is not compressed.

use std::io::{self, Read, Write};

use wirecap_file::{Compression, Error, LINK_TYPE_ETHERNET, PacketHeader, Reader, pcap};
use wirecap_lab::Capture;

const BOTH: [Compression; 2] = [Compression::Zstd, Compression::Lz4];
/// Bytes of a record.
const RECORD: usize = 16 + 60;

fn trace(packets: u64) -> Vec<u8> {
    let mut file = Vec::new();
    pcap::file_header(&mut file, LINK_TYPE_ETHERNET, 0);
    for number in 0..packets {
        let header = PacketHeader { timestamp_ns: number, original_len: 60, ..Default::default() };
        let word = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes();
        pcap::packet(&mut file, &header, 0, [word.repeat(8)[..60].as_ref()]);
    }
    file
}

/// One frame.
fn compressed(compression: Compression, bytes: &[u8]) -> Vec<u8> {
    match compression {
        Compression::Zstd => zstd::stream::encode_all(bytes, 1).unwrap(),
        Compression::Lz4 => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            // The first piece decides how long blocks are.
            bytes.chunks(60_000).for_each(|piece| encoder.write_all(piece).unwrap());
            encoder.finish().unwrap()
        }
    }
}

#[test]
fn frames_are_read_one_after_the_other() {
    let plain = trace(10_000);
    let expected = Capture::read(plain.as_slice()).unwrap();
    for compression in BOTH {
        // The border of two frames is in a record; a frame may be empty.
        let (first, second) = plain.split_at(100_001);
        let file = [first, &[], second].map(|part| compressed(compression, part)).concat();
        let capture = Capture::read(file.as_slice()).unwrap();
        assert!(capture.damage.is_none(), "{compression}: {:?}", capture.damage);
        assert!(capture.packets == expected.packets, "{compression}");
        assert_eq!(Reader::new(file.as_slice()).unwrap().compression(), Some(compression));
    }
    assert_eq!(Reader::new(plain.as_slice()).unwrap().compression(), None);
}

#[test]
fn progress_is_that_in_the_file() {
    let plain = trace(10_000);
    for file in [compressed(Compression::Zstd, &plain), compressed(Compression::Lz4, &plain), plain.clone()] {
        let mut reader = Reader::new(file.as_slice()).unwrap();
        let mut last = 0;
        while reader.next().unwrap().is_some() {
            assert!((last..=file.len() as u64).contains(&reader.progress()));
            last = reader.progress();
        }
        assert_eq!((reader.progress(), reader.offset()), (file.len() as u64, plain.len() as u64));
    }
}

#[test]
fn everything_before_the_cut_is_read() {
    let plain = trace(300);
    for compression in BOTH {
        let (first, second) = plain.split_at(200 * RECORD);
        let first = compressed(compression, first);
        let file = [first.as_slice(), &compressed(compression, second)].concat();
        for len in first.len() + 1..file.len() {
            let capture = Capture::read(&file[..len]).unwrap();
            assert!(capture.packets.len() >= 199, "{compression}, {len}: {}", capture.packets.len());
            let error = capture.damage.expect("it is cut off");
            let (Error::Decompress { compression: of, .. } | Error::Compressed { compression: of, .. }) =
                &error
            else {
                panic!("{compression}, {len}: {error}")
            };
            assert_eq!(*of, compression);
            assert!(
                error.to_string().contains("cut off") && error.to_string().contains("everything"),
                "{error}"
            );
        }
        // Within the file header.
        let error = Reader::new(&compressed(compression, &plain[..10])[..]).unwrap_err();
        assert!(matches!(error, Error::Compressed { .. }), "{error}");
        assert!(error.to_string().ends_with("; no packet was read"), "{error}");
        let Err(Error::Decompress { offset: 0, .. }) = Reader::new(&first[..9]) else {
            panic!("{compression}")
        };
    }
}

#[test]
fn damage_is_told_from_a_cut_and_from_a_disk_that_fails() {
    let plain = trace(50_000);
    for compression in BOTH {
        let mut file = compressed(compression, &plain);
        let middle = file.len() / 2;
        file[middle..middle + 300].fill(0xff);
        let capture = Capture::read(file.as_slice()).unwrap();
        let error = capture.damage.expect("bytes were changed").to_string();
        assert!(
            error.contains(&compression.to_string()) && error.contains("cannot be decompressed"),
            "{error}"
        );

        let error = Capture::read(file[..middle].chain(Failing)).unwrap().damage.unwrap();
        assert!(matches!(&error, Error::Read { source, .. } if source.raw_os_error() == Some(5)), "{error}");
    }
}

/// A disk that fails.
struct Failing;

impl Read for Failing {
    fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::from_raw_os_error(5))
    }
}

#[test]
fn bytes_of_a_pipe_are_left_as_they_are() {
    for (compression, program) in [(Compression::Zstd, "unzstd"), (Compression::Lz4, "unlz4")] {
        let file = compressed(compression, &trace(1));
        let error = Reader::without_decompression(file.as_slice()).unwrap_err();
        assert!(matches!(error, Error::NotACapture(_)) && error.to_string().contains(program), "{error}");
    }
    let plain = trace(1);
    assert!(Reader::without_decompression(plain.as_slice()).unwrap().next().unwrap().is_some());
}

/// Its contents end in zeros, in blocks that are stored as they are: they look like the end of a frame.
#[test]
fn a_cut_behind_zeros_is_a_cut() {
    let mut plain = trace(1_000);
    let end = plain.len() / 60_000 * 60_000;
    plain[end - 8..end - 4].fill(0);
    let options = lz4_flex::frame::FrameInfo::new().content_checksum(false);
    let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(options, Vec::new());
    plain[..end].chunks(60_000).for_each(|piece| encoder.write_all(piece).unwrap());
    encoder.flush().unwrap();
    let file = encoder.get_ref().clone();
    let error = Capture::read(file.as_slice()).unwrap().damage;
    assert!(matches!(&error, Some(Error::Decompress { .. })), "{error:?}");
}
