//! Any bytes at all, read as a capture file: no panic, an end, an error inside the file, and what was read can be
//! written and is read back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wirecap_file::pcapng::{self, InterfaceInfo, SectionInfo};
use wirecap_file::{Capture, Error, PacketHeader};

fuzz_target!(|file: &[u8]| {
    let Ok(capture) = Capture::read(file) else { return };
    if let Some(error) = &capture.damage {
        let (Error::Damaged { offset, .. }
        | Error::Truncated { offset, .. }
        | Error::UnsupportedVersion { offset, .. }) = error
        else {
            panic!("a slice cannot fail to be read: {error}");
        };
        assert!(*offset <= file.len() as u64 && !error.to_string().is_empty());
    }
    let kept: usize = capture.packets.iter().map(|packet| packet.data.len()).sum();
    assert!(kept <= file.len(), "more bytes come out than went in");

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
