//! All packets of real traces, even damaged ones, through every change.

use wirecap_file::LINK_TYPE_ETHERNET;
use wirecap_headers::{
    Frame, IpVersion, Layout, Rewrite, RewriteError, Side, VecFrame,
    checksum::{self, FilledChecksums, Verdict},
};
use wirecap_lab::Capture;

/// Room for one tag.
const ROOM: usize = 4;

/// All packets, even those that are not Ethernet: they serve as arbitrary bytes. `None`, with a loud notice,
/// if there is no such directory.
fn packets(test: &str) -> Option<Vec<(u16, Vec<u8>)>> {
    let paths = wirecap_lab::trace_files(test)?.into_iter();
    let captures = paths.map(|path| Capture::read(std::fs::File::open(path).unwrap()).unwrap());
    let packets: Vec<_> = captures
        .flat_map(|capture| {
            let types: Vec<u16> = capture.interfaces.iter().map(|interface| interface.link_type).collect();
            capture.packets.into_iter().map(move |packet| (types[packet.interface as usize], packet.data))
        })
        .collect();
    assert!(packets.len() > 1_000, "{} packets", packets.len());
    Some(packets)
}

fn rewrite(vlans: &str, ttl: &str) -> Rewrite {
    let vlans = if vlans.is_empty() { Default::default() } else { vlans.parse().unwrap() };
    Rewrite { vlans, ttl: ttl.parse().unwrap(), ..Rewrite::default() }
}

/// The packet as a rewrite leaves it.
fn rewritten(rewrite: &Rewrite, toward: Side, packet: &[u8]) -> Result<Vec<u8>, RewriteError> {
    let mut frame = VecFrame::new(packet, ROOM);
    rewrite.apply(toward, &mut frame)?;
    Ok(frame.data().to_vec())
}

#[test]
fn a_rewrite_for_others_changes_no_packet() {
    let Some(packets) = packets("a_rewrite_for_others_changes_no_packet") else { return };
    let nothing = rewrite("", "keep");
    let absent = rewrite("4094=4093,4092=none", "keep");
    for (_, packet) in &packets {
        assert_eq!(rewritten(&nothing, Side::B, packet).as_ref(), Ok(packet));
        let vlan = Layout::of(packet).and_then(|layout| layout.vlan(packet, 0)).map(|tag| tag.id());
        if !matches!(vlan, Some(4092 | 4094)) {
            assert_eq!(rewritten(&absent, Side::B, packet).as_ref(), Ok(packet));
        }
    }
}

#[test]
fn every_packet_gets_a_tag_and_loses_it_again() {
    let Some(packets) = packets("every_packet_gets_a_tag_and_loses_it_again") else { return };
    let map = rewrite("none=20", "keep");
    let (mut tagged, mut in_vlans) = (0, 0);
    for (_, packet) in &packets {
        let before = Layout::of(packet);
        let there = rewritten(&map, Side::B, packet).unwrap();
        let after = Layout::of(&there);
        if before.is_some_and(|before| before.vlan(packet, 0).is_some_and(|tag| tag.id() != 0)) {
            assert_eq!(&there, packet);
            in_vlans += 1;
        } else if there != *packet {
            let after = after.unwrap();
            assert_eq!(after.vlan(&there, 0).unwrap().id(), 20);
            assert_eq!(after.ether_type(), before.unwrap().ether_type());
            assert_eq!(rewritten(&map, Side::A, &there).as_ref(), Ok(packet));
            tagged += 1;
        }
    }
    assert!(tagged > 1_000 && in_vlans > 10, "{tagged} tagged, {in_vlans} already in VLANs");
}

#[test]
fn the_ttl_changes_and_checksums_stay_right_or_wrong() {
    let Some(packets) = packets("the_ttl_changes_and_checksums_stay_right_or_wrong") else {
        return;
    };
    let decrement = rewrite("", "decrement");
    let (mut right, mut wrong, mut v6, mut expired) = (0, 0, 0, 0);
    for (_, packet) in &packets {
        let layout = Layout::of(packet);
        let ip = layout.as_ref().and_then(|layout| layout.ip());
        let changed = rewritten(&decrement, Side::B, packet);
        let Some(ip) = ip else {
            assert_eq!(changed.as_ref(), Ok(packet));
            continue;
        };
        let ttl = ip.ttl(packet).unwrap();
        let Ok(changed) = changed else {
            assert!(ttl <= 1);
            expired += 1;
            continue;
        };
        assert_eq!(ip.ttl(&changed), Some(ttl - 1));
        let (before, after) = (&packet[ip.start()..], &changed[ip.start()..]);
        assert_eq!(checksum::verify(before), checksum::verify(after), "{before:x?}");
        match (ip.version(), checksum::verify(after)) {
            (IpVersion::V6, _) => v6 += 1,
            (_, Verdict::Right) => right += 1,
            (_, Verdict::Wrong) => wrong += 1,
            _ => {}
        }
    }
    assert!(
        right > 1_000 && wrong > 10 && v6 > 100 && expired > 1,
        "{right} right, {wrong} wrong, {v6} of IPv6, {expired} expired"
    );
}

#[test]
fn filling_right_checksums_changes_nothing() {
    let Some(packets) = packets("filling_right_checksums_changes_nothing") else { return };
    let mut right = 0;
    for (link_type, packet) in &packets {
        let start = Layout::of(packet).map_or(0, |layout| layout.network());
        let mut filled = packet[start..].to_vec();
        let verdict = checksum::verify(&filled);
        let done = checksum::fill(&mut filled);
        assert_eq!(done == FilledChecksums::Nothing, verdict == Verdict::NotIp);
        if done == FilledChecksums::All {
            assert_eq!(checksum::verify(&filled), Verdict::Right);
        }
        if verdict == Verdict::Right && *link_type == LINK_TYPE_ETHERNET {
            assert_eq!(filled, packet[start..]);
            right += 1;
        }
    }
    assert!(right > 1_000, "{right} packets with right checksums");
}
