//! Malformed packets pass unchanged, byte for byte: all of them with `--checksums keep`, and by default all
//! but those whose checksum was left to a NIC.

use std::fs;

use wirecap_file::LINK_TYPE_ETHERNET;
use wirecap_headers::checksum::PendingChecksum;
use wirecap_lab::Capture;
use wirecap_lab::{VethOptions, require_root};
use wirecap_testing::{MAX_PACKET_LEN, MIN_PACKET_LEN};
use wirecap_traffic::Random;

use super::{Cable, dropped, way};
use crate::lab::read;

/// Frames per burst, few enough for the sockets on the way.
const BATCH: usize = 64;
const MTU: u32 = 9_000;
/// The longest frame that the links take, without a VLAN tag.
const LONGEST: usize = MTU as usize + 14;

/// Sends frames through the cable, and compares those that arrive.
fn assert_pass(label: &str, frames: &[Vec<u8>]) {
    let checks: [(&[&str], Check); 2] =
        [(&["--checksums", "keep"], |arrived, sent| arrived == sent), (&[], same_but_completed)];
    for (arguments, check) in checks {
        assert_arrive(label, frames, arguments, check);
    }
}

/// Whether the arrived frame matches the sent one.
type Check = fn(&[u8], &[u8]) -> bool;

/// Equal, except for a checksum of TCP or UDP that was left to a NIC.
fn same_but_completed(arrived: &[u8], sent: &[u8]) -> bool {
    let mut expected = sent.to_vec();
    if let Some(pending) = PendingChecksum::of_frame(sent) {
        let checksum = pending.complete([sent].into_iter());
        assert!(checksum.is_none_or(|checksum| pending.write(&mut expected, checksum)));
    }
    arrived == expected
}

fn assert_arrive(label: &str, frames: &[Vec<u8>], arguments: &[&str], is_same: Check) {
    let cable = Cable::quiet_of(label, VethOptions { mtu: MTU, ..VethOptions::default() });
    let running = cable.forward(arguments);
    let listener = cable.listen("xdp:r0", "arrived.pcapng", &["-c", &frames.len().to_string()]);
    let mut sender = cable.sender();
    for (number, frame) in frames.iter().enumerate() {
        sender.send(frame).unwrap_or_else(|error| panic!("{label}, frame {number}: {error}"));
        if number % BATCH == BATCH - 1 {
            listener_catches_up();
        }
    }
    listener.wait();
    let ended = running.stop();
    let way = way(&ended, "m0");
    assert_eq!(
        (way["forwarded"].as_u64(), dropped(&way)),
        (Some(frames.len() as u64), 0),
        "{label}: {way:#}"
    );
    let arrived = read(&cable.path("arrived.pcapng")).packets;
    assert_eq!(arrived.len(), frames.len(), "{label}");
    for (number, (arrived, sent)) in arrived.iter().zip(frames).enumerate() {
        let arrived = &arrived.data;
        assert!(
            is_same(arrived, sent),
            "{label} {arguments:?}, frame {number}:\n{arrived:02x?}\n{sent:02x?}"
        );
    }
}

fn listener_catches_up() {
    std::thread::sleep(std::time::Duration::from_millis(2));
}

#[test]
fn frames_that_lie_about_themselves_pass_unchanged() {
    if !require_root("forward::frames_that_lie_about_themselves_pass_unchanged") {
        return;
    }
    let mut frames = Vec::new();
    let mut random = Random::new(1);
    for kind in [0x0800_u16, 0x86dd, 0x88a8, 0x88b5, 0x0026, 0xffff] {
        for len in [MIN_PACKET_LEN, 15, 21, 33, 34, 42, 60, 61, 300, 1_514, 3_000, LONGEST] {
            let mut frame: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
            frame[0] &= 0xfe;
            if len >= 14 {
                frame[12..14].copy_from_slice(&kind.to_be_bytes());
            }
            if let Some(version) = frame.get_mut(14) {
                *version = if kind == 0x86dd { 0x6f } else { 0x4f };
            }
            frames.push(frame);
        }
    }
    assert_pass("lies", &frames);
}

#[test]
fn packets_of_real_traces_pass_unchanged() {
    const TEST: &str = "forward::packets_of_real_traces_pass_unchanged";
    if !require_root(TEST) {
        return;
    }
    let Some(files) = wirecap_lab::trace_files(TEST) else { return };
    let mut frames = Vec::new();
    for file in files {
        let Ok(capture) =
            fs::File::open(&file).map_err(drop).and_then(|file| Capture::read(file).map_err(drop))
        else {
            continue;
        };
        let of_ethernet = |interface: u32| {
            capture.interfaces.get(interface as usize).is_some_and(|i| i.link_type == LINK_TYPE_ETHERNET)
        };
        for packet in capture.packets.iter().filter(|packet| of_ethernet(packet.interface)) {
            let len = packet.data.len();
            if (MIN_PACKET_LEN..=MAX_PACKET_LEN.min(LONGEST)).contains(&len) {
                frames.push(packet.data.clone());
            }
        }
    }
    assert!(frames.len() > 1_000, "{} frames in all traces", frames.len());
    // Packets captured on their sender have checksums that its NIC was to write.
    assert!(frames.iter().any(|frame| PendingChecksum::of_frame(frame).is_some()));
    frames.chunks(20_000).for_each(|frames| assert_pass("traces", frames));
}
