//! VLAN tags beside the packet, as a NIC leaves them: in the packet for the capture, unchanged for the host.
//!
//! ```text
//!   src0 ═══ src1 ── bridge ── out0 ═══ in0      the kernel removes the outermost tag of frames from src1, and keeps it
//!                                                beside the packet from there on
//! ```

use std::collections::HashSet;

use wirecap::{
    Builder, Capture, Diagnostic, Modes, Report, TapHook, Timestamp, UnmatchedPolicy,
    report::{FilterPlace, PortReport},
};
use wirecap_lab::{Bridge, VethOptions, VethPair};
use wirecap_sys::netdev;
use wirecap_testing::{PacketSender, SendPath};

use wirecap_testing::{check, crew::Crew, need_root, wire::Wire};

use crate::filters::{runs, wanted};

/// A wire whose far end sends frames with their outermost tag beside the packet.
pub struct BesideTagLab {
    pub sender: PacketSender,
    _bridge: Bridge,
    _source: VethPair,
    pub wire: Wire,
}

impl BesideTagLab {
    pub fn new(label: &str, mtu: u32) -> Self {
        Self::of(label, VethOptions { mtu, ..VethOptions::default() })
    }

    fn of(label: &str, options: VethOptions) -> Self {
        let wire = Wire::new(label, options.clone());
        let source = VethPair::new(&wire.outside, "src0", &wire.outside, "src1", options).unwrap();
        let bridge = Bridge::new(&wire.outside, "br0", &["src1", "out0"]).unwrap();
        let ifindex = source.a().ifindex().unwrap();
        let sender = wire.outside.enter(|| PacketSender::open(ifindex, SendPath::Queueing)).unwrap();
        Self { wire, sender, _bridge: bridge, _source: source }
    }
}

/// Frames without a tag, with a tag, with a priority, with a provider's tag; now and then with another tag
/// inside, or cut short.
fn frame(index: usize, len: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    frame.extend(match index % 4 {
        0 => &[][..],
        1 => &[0x81, 0, 0, 7],
        2 => &[0x81, 0, 0xb0, 9],
        _ => &[0x88, 0xa8, 0x60, 100],
    });
    if index % 7 == 0 {
        frame.extend([0x81, 0, 0x20, 42]);
    }
    frame.extend([8, 0, 0x45, 0, 0, 100, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    frame.extend((index as u64).to_be_bytes());
    frame.resize(len.max(frame.len()), index as u8);
    // The kernel drops a frame with less than two bytes of payload behind the tag that it would remove.
    match index % 11 {
        0 if index % 7 > 0 => frame.truncate(20),
        1 if index % 7 > 0 => frame.truncate(23),
        _ => {}
    }
    frame
}

/// The frame without its outermost tag.
fn stripped(frame: &[u8]) -> Vec<u8> {
    match frame[12..14] {
        [0x81, 0] | [0x88, 0xa8] => [&frame[..12], &frame[16..]].concat(),
        _ => frame.into(),
    }
}

fn small_pool() -> Builder {
    Capture::builder().cells_per_chunk(64).chunks_per_pool(16).workers(1)
}

fn of_all() -> Builder {
    small_pool().port("xdp:in0")
}

/// The frames that were sent, captured, and received by the host.
struct HostRun {
    sent: Vec<Vec<u8>>,
    got: Vec<Vec<u8>>,
    heard: Vec<Vec<u8>>,
    report: Report,
}

/// Which packets the host gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Host {
    Nothing,
    Unwanted,
    All,
}

/// Sends frames through a capture, only a few ahead of it.
fn run(
    BesideTagLab { wire, sender, .. }: &mut BesideTagLab,
    (builder, host_gets): (Builder, Host),
    frames: usize,
    lens: &[usize],
) -> HostRun {
    // The host's own view: the packets that XDP leaves to it.
    let mut host = wire.inside.enter(|| small_pool().port("packet:in0").open()).unwrap();
    let heard = Crew::eager(host.take_workers());
    let mut capture = wire.inside.enter(|| builder.open()).unwrap();
    let crew = Crew::eager(capture.take_workers());
    let mut sent = Vec::new();
    for index in 0..frames {
        sent.push(frame(index, lens[index / 4 % lens.len()]));
        sender.send(&sent[index]).unwrap();
        if sent.len() % 50 == 0 {
            let explain = || format!("the workers keep up\n{}", wire.explain(&capture));
            wirecap_testing::wait_or_explain(explain, || {
                let account = capture.report().total();
                account.filtered + account.passed + account.delivered >= sent.len() as u64
            });
        }
    }
    capture.stopper().stop();
    let mut arrivals = crew.join();
    let report = capture.finish();
    check::pools_whole(&report);
    let account = check::account_closed(&report);
    assert_eq!((account.seen, account.lost.total()), (sent.len() as u64, 0), "{report:#?}");
    check::in_order(&arrivals);
    // A tap has a queue for each core.
    arrivals.sort_by_key(|arrival| arrival.timestamp_ns);
    heard.wait_for(match host_gets {
        Host::Nothing => 0,
        Host::Unwanted => account.filtered + account.passed,
        Host::All => account.seen,
    });
    host.stopper().stop();
    let bytes = |arrivals: Vec<wirecap_testing::crew::Arrival>| {
        arrivals.into_iter().map(|arrival| arrival.bytes).collect::<Vec<_>>()
    };
    HostRun { sent, got: bytes(arrivals), heard: bytes(heard.join()), report }
}

/// Whether this kernel's veth hands tags to XDP programs; reports if not.
fn tags_are_offered(test: &str) -> bool {
    let wire = Wire::with_queues("vlanask", 1);
    let features = wire.inside.enter(|| netdev::interface("in0")).unwrap().xdp_features;
    let offered =
        features.and_then(|features| features.rx_metadata).is_some_and(|metadata| metadata.vlan_tag);
    if !offered {
        wirecap_lab::skip(test, "veth of this kernel hands no VLAN tags to XDP programs (Linux 6.8)");
    }
    offered
}

macro_rules! need_tags {
    ($test:literal) => {
        need_root!($test);
        if !tags_are_offered($test) {
            return;
        }
    };
}

#[track_caller]
fn same(got: &[Vec<u8>], expected: &[Vec<u8>], what: &str) {
    for (index, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!(got == expected, "{what}: number {index}\n got {got:02x?}\nsent {expected:02x?}");
    }
    assert_eq!(got.len(), expected.len(), "{what}");
}

/// The codes of what was said of VLAN tags at the start.
fn said_of_tags(port: &PortReport) -> Vec<&str> {
    port.fallbacks.iter().map(Diagnostic::code).filter(|code| code.starts_with("vlan")).collect()
}

#[test]
fn frames_are_as_they_were_on_the_wire() {
    need_tags!("vlan_tags::frames_are_as_they_were_on_the_wire");
    for (label, builder) in [
        ("vlanwire", of_all()),
        ("vlanstamp", of_all().timestamp(Timestamp::Kernel)),
        ("vlanbig", of_all().cell_bytes(4096)),
    ] {
        let mut beside = BesideTagLab::new(label, 1500);
        let HostRun { sent, got, heard, report } =
            run(&mut beside, (builder, Host::Unwanted), 600, &[60, 200, 1_000, 1_500]);
        same(&got, &sent, label);
        assert_eq!(heard, Vec::<Vec<u8>>::new());
        let port = &report.ports[0];
        assert_eq!((port.untagged, port.timestamp.unstamped), (Some(0), 0));
        assert_eq!(said_of_tags(port), Vec::<&str>::new());
    }
}

/// The filter sees the tag; unwanted packets go to the host, with one tag, not two.
#[test]
fn the_filter_sees_the_tag_and_the_host_gets_packets_as_they_came() {
    need_tags!("vlan_tags::the_filter_sees_the_tag_and_the_host_gets_packets_as_they_came");
    for (expression, unmatched, place) in [
        ("vlan 7", UnmatchedPolicy::Pass, FilterPlace::Kernel),
        ("vlan 7 and udp", UnmatchedPolicy::Drop, FilterPlace::Kernel),
        ("vlan 100 and vlan 42", UnmatchedPolicy::Pass, FilterPlace::Kernel),
        ("not vlan", UnmatchedPolicy::Pass, FilterPlace::Kernel),
        ("greater 1000", UnmatchedPolicy::Pass, FilterPlace::Kernel),
        (
            "ether[14:2] & 0xe000 = 0xa000 and ether[12:2] = 0x8100",
            UnmatchedPolicy::Pass,
            FilterPlace::Kernel,
        ),
    ] {
        let mut beside = BesideTagLab::new("vlanfilter", 1500);
        let builder = of_all().filter(expression).unmatched(unmatched).timestamp(Timestamp::Kernel);
        let drops = unmatched == UnmatchedPolicy::Drop;
        let host_gets = if drops { Host::Nothing } else { Host::Unwanted };
        let HostRun { sent, got, heard, report } =
            run(&mut beside, (builder, host_gets), 600, &[60, 200, 1_000, 1_500]);
        runs(&report, place, expression);
        let wanted = wanted(&sent, expression);
        same(&got, &wanted, expression);
        let rest: Vec<_> = sent.iter().filter(|frame| !wanted.contains(frame)).cloned().collect();
        same(&heard, if drops { &[] } else { &rest }, expression);
    }
}

/// A tap's program takes the tag off again from every packet.
#[test]
fn a_tap_by_xdp_has_the_tags_and_the_host_gets_packets_as_they_came() {
    need_tags!("vlan_tags::a_tap_by_xdp_has_the_tags_and_the_host_gets_packets_as_they_came");
    for expression in ["", "vlan 7", "not vlan", "vlan 100 and vlan 42", "greater 1000"] {
        let mut beside = BesideTagLab::new("vlantap", 1500);
        let builder = small_pool().port("tap:in0").tap_hook(TapHook::Xdp).filter(expression);
        let HostRun { sent, got, heard, report } =
            run(&mut beside, (builder, Host::All), 600, &[60, 200, 1_000, 1_500]);
        let is_wanted = |frame: &&Vec<u8>| expression.is_empty() || wanted(&sent, expression).contains(frame);
        same(&got, &sent.iter().filter(is_wanted).cloned().collect::<Vec<_>>(), expression);
        same(&heard, &sent, expression);
        assert_eq!((report.ports[0].untagged, &report.ports[0].fallbacks[..]), (Some(0), &[][..]));
    }
}

/// In several buffers, too, and in packets that find no block.
#[test]
fn a_tap_by_xdp_that_is_full_leaves_packets_as_they_came() {
    need_tags!("vlan_tags::a_tap_by_xdp_that_is_full_leaves_packets_as_they_came");
    const FRAMES: usize = 400;
    let mut beside = BesideTagLab::new("vlantapfull", 9_000);
    let mut host = beside.wire.inside.enter(|| small_pool().port("packet:in0").open()).unwrap();
    let heard = Crew::eager(host.take_workers());
    let builder = small_pool().chunks_per_pool(2).port("tap:in0").tap_hook(TapHook::Xdp);
    let capture = beside.wire.inside.enter(|| builder.open()).unwrap();
    let sent: Vec<_> =
        (0..FRAMES).map(|index| frame(index, [60, 9_000, 1_790, 4_000][index / 4 % 4])).collect();
    for frame in &sent {
        beside.sender.send(frame).unwrap();
    }
    heard.wait_for(FRAMES as u64);
    host.stopper().stop();
    let heard: Vec<_> = heard.join().into_iter().map(|arrival| arrival.bytes).collect();
    same(&heard, &sent, "the host");
    let account = check::account_closed(&capture.finish());
    assert_eq!(account.seen, FRAMES as u64, "{account:#?}");
    assert!(account.lost.no_free_block > 100, "{account:#?}");
}

/// Packets of several cells have the tag in the first.
#[test]
fn packets_of_several_cells_keep_their_tags() {
    need_tags!("vlan_tags::packets_of_several_cells_keep_their_tags");
    for expression in ["", "vlan 7 or greater 5000"] {
        let mut beside = BesideTagLab::new("vlanjumbo", 9_000);
        let builder = of_all().chunks_per_pool(64).timestamp(Timestamp::Kernel).filter(expression);
        let HostRun { sent, got, heard, report } =
            run(&mut beside, (builder, Host::Unwanted), 400, &[60, 9_000, 1_790, 4_000]);
        assert_eq!((report.ports[0].multi_buffer, report.ports[0].untagged), (true, Some(0)));
        let is_wanted = |frame: &&Vec<u8>| expression.is_empty() || wanted(&sent, expression).contains(frame);
        let (in_time, rest): (Vec<_>, Vec<_>) = sent.iter().partition(is_wanted);
        same(&got, &in_time.into_iter().cloned().collect::<Vec<_>>(), expression);
        same(&heard, &rest.into_iter().cloned().collect::<Vec<_>>(), expression);
    }
}

/// In generic mode no tag is put back, which is reported: packets are as the driver delivers them.
#[test]
fn in_generic_mode_packets_are_as_delivered_and_that_is_reported() {
    need_tags!("vlan_tags::in_generic_mode_packets_are_as_delivered_and_that_is_reported");
    let mut beside = BesideTagLab::new("vlanbare", 1500);
    let generic = of_all().modes(Modes::Generic);
    let HostRun { sent, got, report, .. } = run(&mut beside, (generic, Host::Unwanted), 200, &[60, 1_500]);
    same(&got, &sent.iter().map(|frame| stripped(frame)).collect::<Vec<_>>(), "without");
    assert_ne!(got, sent);
    let port = &report.ports[0];
    assert_eq!((port.untagged, said_of_tags(port)), (None, vec!["vlan_tags_not_put_back"]));
}

/// On queues that other processes may share, too: those of the port that founds the dispatcher, and those of
/// the one that joins it.
#[test]
fn on_single_queues_frames_are_as_they_were_on_the_wire() {
    need_tags!("vlan_tags::on_single_queues_frames_are_as_they_were_on_the_wire");
    for modes in [Modes::Packed, Modes::Copy] {
        for ports in [["xdp:in0@0", "xdp:in0@1"], ["xdp:in0@1", "xdp:in0@0"]] {
            let mut beside =
                BesideTagLab::of("vlanshare", VethOptions { queues: 2, ..VethOptions::default() });
            let builder = small_pool().modes(modes).timestamp(Timestamp::Kernel);
            let builder = ports.into_iter().fold(builder, Builder::port);
            let HostRun { sent, got, heard, report } =
                run(&mut beside, (builder, Host::Unwanted), 400, &[60, 200, 1_500]);
            same(&got, &sent, &format!("{modes:?}, {ports:?}"));
            assert_eq!(heard, Vec::<Vec<u8>>::new());
            for port in &report.ports {
                assert_eq!((port.untagged, said_of_tags(port)), (Some(0), vec![]));
            }
        }
    }
}

/// Frames of many lengths with and without tags, faster than the workers take them, through a pool that is
/// always full: captured frames are intact, and the rest is lost for a known cause.
#[test]
fn tagged_frames_without_a_cell_are_accounted_for() {
    need_tags!("vlan_tags::tagged_frames_without_a_cell_are_accounted_for");
    const FRAMES: u64 = 60_000;
    let mut beside = BesideTagLab::new("vlanfull", 1500);
    let builder = Capture::builder().cells_per_chunk(64).chunks_per_pool(2).workers(1).port("xdp:in0");
    let builder = builder.modes(Modes::Copy);
    let mut capture = beside.wire.inside.enter(|| builder.open()).unwrap();
    let crew =
        Crew::start(capture.take_workers(), |_, _| std::thread::sleep(std::time::Duration::from_millis(1)));
    let frames: Vec<_> = (0..1_000).map(|index| frame(index, 60 + index)).collect();
    let sendable: Vec<_> = frames.iter().filter(|frame| frame.len() <= 1_514).collect();
    for frame in sendable.iter().cycle().take(FRAMES as usize) {
        beside.sender.send(frame).unwrap();
    }
    capture.stopper().stop();
    let arrivals = crew.join();
    let report = capture.finish();
    check::pools_whole(&report);
    let account = check::account_closed(&report);
    assert!(account.lost.no_free_cell > 0 && account.delivered > 1_000, "{account:#?}");
    assert_eq!(report.ports[0].untagged, Some(0));
    let known: HashSet<_> = sendable.into_iter().collect();
    assert!(arrivals.iter().all(|arrival| known.contains(&arrival.bytes)), "no frame is damaged");
}
