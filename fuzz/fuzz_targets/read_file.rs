//! Any bytes as a capture file: reading ends without a panic, errors have an offset inside the file, and the
//! packets are the same after writing and reading them again.
//!
//! The first byte chooses the beginning of the file: none, a pcap header, or the start of a pcapng section,
//! so that the fuzzer need not find those by itself. Compressed files are left out: a few bytes would stand
//! for any number of packets.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wirecap_file::pcapng::{self, InterfaceInfo, SectionInfo};
use wirecap_file::{Compression, Error, PacketHeader};
use wirecap_lab::Capture;

fuzz_target!(|input: &[u8]| {
    let Some((kind, rest)) = input.split_first() else { return };
    let file = [beginning(*kind), rest.to_vec()].concat();
    let file = file.as_slice();
    if file.first_chunk().is_some_and(|start| Compression::of_start(*start).is_some()) {
        return;
    }
    let Ok(capture) = Capture::read(file) else { return };
    if let Some(error) = &capture.damage {
        let (Error::Damaged { offset, .. }
        | Error::Truncated { offset, .. }
        | Error::UnsupportedVersion { offset, .. }) = error
        else {
            panic!("reading a slice cannot fail: {error}");
        };
        assert!(*offset <= file.len() as u64 && !error.to_string().is_empty());
    }
    let kept: usize = capture.packets.iter().map(|packet| packet.data.len()).sum();
    assert!(kept <= file.len(), "packets are not larger than the file");

    let mut written = Vec::new();
    pcapng::section_header(&mut written, &SectionInfo::default());
    for interface in &capture.interfaces {
        let name = interface.name.as_deref();
        pcapng::interface(
            &mut written,
            &InterfaceInfo { name, link_type: interface.link_type, ..Default::default() },
        );
    }
    for packet in &capture.packets {
        let header = PacketHeader {
            timestamp_ns: packet.timestamp_ns.unwrap_or(0),
            original_len: packet.original_len,
            interface: packet.interface,
            queue: packet.queue,
            packet_id: packet.packet_id,
            outbound: packet.outbound,
        };
        pcapng::packet(&mut written, &header, 0, [packet.data.as_slice()]);
    }
    let again = Capture::read(written.as_slice()).expect("our own section header");
    assert!(again.damage.is_none(), "{:?}", again.damage);
    assert!(again.packets.iter().map(|p| &p.data).eq(capture.packets.iter().map(|p| &p.data)));
});

/// The beginning of the file.
fn beginning(kind: u8) -> Vec<u8> {
    let pcap = |magic: u32| {
        let fields = [magic, 4 << 16 | 2, 0, 0, 0x4_0000, 1];
        fields.iter().flat_map(|field| field.to_le_bytes()).collect::<Vec<_>>()
    };
    let swapped = |file: Vec<u8>| {
        let mut file: Vec<u8> = file.chunks(4).flat_map(|word| word.iter().rev().copied()).collect();
        // The version is two fields of 16 bits.
        file[4..8].copy_from_slice(&[0, 2, 0, 4]);
        file
    };
    match kind % 8 {
        0 => pcap(0xa1b2_c3d4),
        1 => pcap(0xa1b2_3c4d),
        2 => swapped(pcap(0xa1b2_c3d4)),
        3 => swapped(pcap(0xa1b2_3c4d)),
        4..=6 => {
            let mut file = Vec::new();
            pcapng::section_header(&mut file, &SectionInfo::default());
            pcapng::interface(&mut file, &InterfaceInfo::default());
            file
        }
        _ => Vec::new(),
    }
}
