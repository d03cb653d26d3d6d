//! Every kind of trace: packets that an interface can send are sent unchanged, even broken ones; all else is
//! an error with a remedy.

use std::time::Instant;

use wirecap_file::LINK_TYPE_ETHERNET;
use wirecap_lab::{VethOptions, require_root, trace_files};
use wirecap_testing::PATIENCE;

use super::{assert_same, figure, packets_of, report, run};
use crate::lab::{CommandOutput, Lab, read};

const MTU: u32 = 9_000;

/// Whether an interface of that MTU can send the packet, with room for an Ethernet header and a VLAN tag.
fn can_be_sent(bytes: &[u8]) -> bool {
    (14..=MTU as usize + 18).contains(&bytes.len())
}

/// Replays once the kernel has released the queue of the replay before. On a busy machine, that takes longer
/// than the five seconds for which a replay tries.
fn run_after_another(lab: &Lab, arguments: &[&str]) -> CommandOutput {
    let begun = Instant::now();
    loop {
        let ended = run(lab, arguments);
        if !ended.stderr.contains("is taken by another AF_XDP socket") || begun.elapsed() > PATIENCE {
            return ended;
        }
    }
}

#[test]
fn every_trace_is_sent_unchanged_or_refused_with_a_remedy() {
    const TEST: &str = "every_trace_is_sent_unchanged_or_refused_with_a_remedy";
    if !require_root(TEST) {
        return;
    }
    let Some(files) = trace_files(TEST) else { return };
    let lab = Lab::new("everytrace", &[VethOptions { mtu: MTU, ..VethOptions::default() }]);
    let path = lab.path("arrived.pcapng");
    let capture = lab.capture(&["r0", "-w", path.to_str().unwrap(), "-M", "64", "-R", "1024"]);
    let mut expected = Vec::new();
    for file in &files {
        let packets = packets_of(file);
        let damaged = file.display().to_string().contains("DAMAGED");
        let ended = run_after_another(&lab, &[file.to_str().unwrap(), "--top-speed"]);
        let other = packets.iter().position(|packet| packet.link_type != LINK_TYPE_ETHERNET);
        if other == Some(0) {
            assert_eq!((ended.code, ended.stdout.len()), (Some(1), 0), "{ended:#?}");
            assert!(ended.stderr.contains("link type") && ended.stderr.contains("; "), "{ended:#?}");
            continue;
        }
        let none = !packets.is_empty() && !packets.iter().any(|packet| can_be_sent(&packet.data));
        assert_eq!(ended.code, Some(i32::from(damaged || other.is_some() || none)), "{ended:#?}");
        assert_eq!(ended.stderr.contains("at byte "), damaged || other.is_some(), "{ended:#?}");
        let before = expected.len();
        let sendable = packets.into_iter().take(other.unwrap_or(usize::MAX)).map(|packet| packet.data);
        expected.extend(sendable.filter(|bytes| can_be_sent(bytes)));
        assert_eq!(
            figure(&report(&ended), "/packets"),
            (expected.len() - before) as u64,
            "{}",
            file.display()
        );
    }
    assert!(expected.len() > 10_000, "{}", expected.len());
    capture.stop().account().assert_lossless(expected.len() as u64);
    assert_same(&read(&path).packets, expected.iter().map(Vec::as_slice));
}
