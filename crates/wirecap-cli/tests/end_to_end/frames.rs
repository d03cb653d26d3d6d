//! Tagged frames, frames of several cells, and what a snap length leaves of them: the same over AF_XDP and
//! passively.

use wirecap_lab::{VethOptions, require_root};
use wirecap_testing::{PacketSender, SendPath, kernel_is_at_least};

use crate::lab::{Lab, read};

/// Bytes of a frame without tags, with Ethernet header.
const LONGEST: usize = 9_000;
const TAGS: [&[u8]; 4] = [
    &[],
    // 802.1Q.
    &[0x81, 0, 0x20, 5],
    // QinQ, and an older form of it.
    &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9],
    &[0x81, 0, 0, 11, 0x81, 0, 0, 13],
];

/// Frames of one cell and of several, with each kind of tag.
fn frames() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for len in [60, 590, 1_514, 1_900, 5_000, LONGEST] {
        for tags in TAGS {
            let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
            frame.extend(tags);
            // An EtherType for experiments.
            frame.extend([0x88, 0xb5]);
            let number = frames.len();
            frame.extend((0..len - 14).map(|index| (index * 7 + number) as u8));
            frames.push(frame);
        }
    }
    frames
}

#[test]
fn tagged_and_large_frames_are_whole_or_cut_to_the_snap_length() {
    if !require_root("tagged_and_large_frames_are_whole_or_cut_to_the_snap_length") {
        return;
    }
    let frames = frames();
    for (port, snaplen) in [
        ("r0", 0),
        ("r0", 70),
        ("r0", 3_000),
        ("packet:r0", 0),
        ("packet:r0", 70),
        ("tap:r0", 0),
        ("tap:r0", 70),
    ] {
        if port.starts_with("tap:") && !kernel_is_at_least(6, 6) {
            continue;
        }
        let lab = Lab::new("frames", &[VethOptions { mtu: 9_000, ..VethOptions::default() }]);
        let path = lab.path("frames.pcapng");
        let snap = snaplen.to_string();
        let running = lab.capture(&[port, "-w", path.to_str().unwrap(), "--snaplen", &snap]);
        let ifindex = lab.pairs[0].a().ifindex().unwrap();
        let mut sender = lab.left.enter(|| PacketSender::open(ifindex, SendPath::Queueing)).unwrap();
        for frame in &frames {
            sender.send(frame).unwrap();
        }
        let ended = running.stop();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        let capture = read(&path);
        // The host may send its own frames.
        let mut ours = capture.packets.iter().filter(|packet| packet.data[..6] == [2, 0, 0, 0, 0, 2]);
        for (number, frame) in frames.iter().enumerate() {
            let packet = ours.next().unwrap_or_else(|| panic!("{port}: no frame {number}"));
            let kept = if snaplen == 0 { frame.len() } else { frame.len().min(snaplen) };
            assert_eq!(packet.original_len as usize, frame.len(), "{port}, frame {number}");
            assert!(packet.data == frame[..kept], "{port}, frame {number}, snap length {snaplen}");
        }
        assert!(ours.next().is_none());
    }
}
