//! Any bytes as a frame: its layout lies within the frame, and a rewrite changes only what it promises.
//!
//! ```text
//!   input: which changes, room in front, kind of EtherTypes, frame
//! ```
#![no_main]

mod typed_frame;

use libfuzzer_sys::fuzz_target;
use wirecap_headers::checksum::{self, FilledChecksums, Verdict};
use wirecap_headers::{Frame, Layout, MacAddress, Rewrite, RewriteError, Side, SourceMac, Ttl, VecFrame};

use typed_frame::with_type;

fuzz_target!(|input: &[u8]| {
    let Some(([changes, room, kind], rest)) = input.split_first_chunk() else { return };
    let bytes = with_type(*kind, rest);
    look(&bytes);
    let rewrite = rewrite(*changes);
    let mut frame = VecFrame::new(&bytes, usize::from(room % 8));
    match rewrite.apply(Side::B, &mut frame) {
        Ok(()) => check(&rewrite, &bytes, frame.data()),
        Err(refused) => {
            assert_eq!(frame.data(), bytes);
            assert!(refused == RewriteError::Expired || room % 8 < 4);
        }
    }
    let _ = rewrite.apply(Side::A, &mut frame);
    look(frame.data());
    fill(&bytes);
});

fn rewrite(changes: u8) -> Rewrite {
    let bit = |bit: u8| changes >> bit & 1 != 0;
    let address = MacAddress([2, 0, 0, 0, 0, 1]);
    let vlans = ["none=30", "10=20,20=10", "10=none,none=40"].get(usize::from(changes & 3));
    Rewrite {
        vlans: vlans.map_or_else(Default::default, |map| map.parse().unwrap()),
        ttl: if bit(2) { Ttl::Decrement } else { (if bit(3) { "9" } else { "keep" }).parse().unwrap() },
        source: bit(4).then(|| SourceMac::try_from(address).unwrap()),
        destination: bit(5).then_some(address),
    }
}

/// Asserts that the layout lies within the frame.
fn look(bytes: &[u8]) {
    let Some(layout) = Layout::of(bytes) else { return assert!(bytes.len() < 14) };
    assert!(layout.network() <= bytes.len());
    assert!(layout.vlan_tags() == 0 || layout.vlan(bytes, layout.vlan_tags() - 1).is_some());
    let Some(ip) = layout.ip() else { return };
    assert!(ip.ttl(bytes).is_some() && ip.source(bytes).is_some() && ip.destination(bytes).is_some());
    assert!(ip.start() + ip.header_len() <= bytes.len());
    assert!(ip.transport().is_none_or(|offset| offset < bytes.len()));
}

/// Asserts that a rewrite changes only what it promises.
fn check(rewrite: &Rewrite, before: &[u8], after: &[u8]) {
    look(after);
    let (Some(old), Some(new)) = (Layout::of(before), Layout::of(after)) else {
        return assert_eq!(before, after);
    };
    if rewrite.vlans.is_empty() {
        assert_eq!(old, new);
    }
    // `Layout` looks behind a limited number of tags, so a change of their number may hide or reveal the
    // packet.
    if let (Some(old), Some(new)) = (old.ip(), new.ip()) {
        assert_eq!(old.destination(before), new.destination(after));
        assert_eq!(checksum::verify(&before[old.start()..]), checksum::verify(&after[new.start()..]));
        assert_eq!(before[old.start() + old.header_len()..], after[new.start() + new.header_len()..]);
    }
}

fn fill(bytes: &[u8]) {
    let mut packet = bytes.get(14..).unwrap_or_default().to_vec();
    let verdict = checksum::verify(&packet);
    let filled = checksum::fill(&mut packet);
    assert_eq!(filled == FilledChecksums::Nothing, verdict == Verdict::NotIp);
    let expected = match filled {
        FilledChecksums::All => Verdict::Right,
        FilledChecksums::HeaderOnly => Verdict::Unverifiable,
        FilledChecksums::Nothing => Verdict::NotIp,
    };
    assert_eq!(checksum::verify(&packet), expected);
}
