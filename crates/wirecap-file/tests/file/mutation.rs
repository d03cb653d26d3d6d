//! Sound files with bytes flipped, removed and inserted: never a panic, an endless loop, or a second error.
//!
//! The fuzz target does the same with guidance; this test is small, seeded, and runs with every `cargo test`.

use wirecap_file::pcapng::{self, InterfaceInfo, InterfaceStatistics, SectionInfo};
use wirecap_file::{Error, PacketHeader, Reader, pcap};

use wirecap_lab::trace_bytes::{ORDERS, SPB};

const CASES: u64 = 20_000;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

fn sound_files() -> Vec<Vec<u8>> {
    let mut ours = Vec::new();
    pcapng::section_header(&mut ours, &SectionInfo { application: Some("wirecap"), ..Default::default() });
    pcapng::interface(
        &mut ours,
        &InterfaceInfo { name: Some("eth0"), filter: Some("udp"), ..Default::default() },
    );
    let mut classic = Vec::new();
    pcap::file_header(&mut classic, 1, 0);
    for i in 0..8 {
        let header =
            PacketHeader { timestamp_ns: i, queue: Some(1), packet_id: Some(i), ..Default::default() };
        pcapng::packet(&mut ours, &header, 0, [&[i as u8; 64][..i as usize * 9]]);
        pcap::packet(&mut classic, &header, 0, [&[i as u8; 64][..i as usize * 9]]);
    }
    pcapng::interface_statistics(
        &mut ours,
        &InterfaceStatistics { comments: &["fine"], ..Default::default() },
    );
    let mut files = vec![ours, classic];
    for order in ORDERS {
        let mut blocks = order.section(&[order.option(1, b"note")]);
        blocks.extend(order.interface(1, 32, &[order.option(9, &[0x8a]), order.option(14, &order.u64(5))]));
        blocks.extend(order.block(SPB, &[order.u32(8), b"12345678".to_vec()]));
        blocks.extend(order.block(99, &[vec![7; 24]]));
        blocks.extend(order.packet(0, 5, 9, b"abc", &[order.option(1, b"note")]));
        files.push(blocks);
        let header = order.pcap_header(0xa1b2_cd34, (2, 3), 96, 1);
        files.push([header, order.pcap_record(1, 2, (11, 11), b"12345678abc")].concat());
    }
    files
}

fn mutate(file: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        if file.is_empty() {
            return;
        }
        let at = random.below(file.len());
        match random.below(5) {
            0 => file[at] ^= 1 << random.below(8),
            1 => file[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
            2 => file.truncate(at),
            3 => drop(file.drain(at..(at + random.below(16)).min(file.len()))),
            _ => {
                let inserted = random.next().to_le_bytes();
                file.splice(at..at, inserted[..random.below(9)].iter().copied());
            }
        }
    }
}

#[test]
fn no_mutation_makes_the_reader_panic_or_loop() {
    let files = sound_files();
    let (mut sound, mut errors) = (0_u64, 0_u64);
    for seed in 0..CASES {
        let random = &mut Random(seed);
        let mut file = files[random.below(files.len())].clone();
        mutate(&mut file, random);
        let mut reader = match Reader::new(file.as_slice()) {
            Ok(reader) => reader,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                continue;
            }
        };
        let mut records = 0;
        loop {
            let offset = reader.offset();
            match reader.next() {
                Ok(Some(_)) => records += 1,
                Ok(None) => break sound += 1,
                Err(Error::Damaged { offset: at, .. } | Error::Truncated { offset: at, .. }) => {
                    // Blocks of unknown types may have been skipped.
                    assert!(offset <= at && at <= file.len() as u64, "seed {seed}: {offset} {at}");
                    break errors += 1;
                }
                Err(Error::UnsupportedVersion { .. }) => break errors += 1,
                Err(error) => panic!("seed {seed}: {error}"),
            }
            // One more record for the interface that is not in the file; no record takes less than 12 bytes.
            assert!(records <= 1 + file.len() / 12, "seed {seed}: more records than bytes can hold");
        }
        assert!(reader.next().is_ok_and(|record| record.is_none()), "seed {seed}: the end stays the end");
    }
    assert!(sound > 500 && errors > 5_000, "some mutations are harmless and some are not: {sound} {errors}");
}
