//! The NIC's hash of each packet: on veth it is the kernel's, the same for all packets of a flow.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
};

use wirecap::{
    Builder, Capture, Diagnostic, Error, Modes, RxHash, Timestamp,
    diagnostic::{ModeRefusal, NicDataRefusal},
    port::null::NullPort,
    report::QueueMode,
};
use wirecap_lab::VethOptions;
use wirecap_sys::netdev;
use wirecap_traffic::{FrameSpec, Marks, Template};

use wirecap_testing::{check, crew::Crew, need_root, wire::Wire};

use crate::vlan_tags::BesideTagLab;

const FLOWS: u32 = 50;
const FRAMES: u64 = 1_000;

/// Whether this kernel's veth hands hashes to XDP programs; reports if not.
fn hashes_are_offered(test: &str) -> bool {
    let wire = Wire::with_queues("hashask", 1);
    let features = wire.inside.enter(|| netdev::interface("in0")).unwrap().xdp_features;
    let offered = features.and_then(|features| features.rx_metadata).is_some_and(|metadata| metadata.hash);
    if !offered {
        wirecap_lab::skip(
            test,
            "this kernel does not say that veth hands hashes to XDP programs (Linux 6.7)",
        );
    }
    offered
}

fn builder() -> Builder {
    Capture::builder().port("xdp:in0").cells_per_chunk(64).chunks_per_pool(64).workers(1)
}

/// Sends frames of some flows, and returns the hash of each captured one.
fn hashes_of_frames(builder: Builder, spec: FrameSpec, mtu: u32) -> Vec<(u32, Option<RxHash>)> {
    let mut beside = BesideTagLab::new("rxhash", mtu);
    let asked = format!("{builder:?}").contains("rx_hash: true");
    let mut capture = beside.wire.inside.enter(|| builder.open()).unwrap();
    let came = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&came);
    let crew = Crew::start(capture.take_workers(), move |_, batch| {
        let of = |packet: wirecap::Packet<'_>| {
            assert_eq!(packet.original_len(), packet.len());
            let bytes: Vec<u8> = packet.parts().flatten().copied().collect();
            (Marks::read(&bytes).unwrap().flow, packet.rx_hash())
        };
        keep.lock().unwrap().extend(batch.packets().map(of));
    });
    let mut template = Template::new(spec).unwrap();
    for sequence in 0..FRAMES {
        beside.sender.send(template.stamp(sequence as u32 % FLOWS, sequence)).unwrap();
        if sequence % 50 == 49 {
            crew.wait_for(sequence + 1);
        }
    }
    capture.stopper().stop();
    let arrivals = crew.join();
    let report = capture.finish();
    assert_eq!(check::account_closed(&report).delivered, FRAMES);
    check::each_once(check::intact(&arrivals, spec), FRAMES, 0);
    assert_eq!((report.ports[0].unhashed, report.ports[0].timestamp.unstamped), (asked.then_some(0), 0));
    Arc::into_inner(came).unwrap().into_inner().unwrap()
}

#[test]
fn packets_of_a_flow_have_its_hash_whatever_precedes_it_in_the_cell() {
    need_root!("rx_hash::packets_of_a_flow_have_its_hash_whatever_precedes_it_in_the_cell");
    if !hashes_are_offered("rx_hash::packets_of_a_flow_have_its_hash_whatever_precedes_it_in_the_cell") {
        return;
    }
    let (small, tagged) =
        (FrameSpec::default(), FrameSpec { len: 200, vlan: Some(7), ..FrameSpec::default() });
    let large = FrameSpec { len: 5_000, ..FrameSpec::default() };
    for (builder, spec, mtu) in [
        (builder(), small, 1_500),
        (builder().filter("udp"), small, 1_500),
        (builder().timestamp(Timestamp::Kernel), small, 1_500),
        (builder().timestamp(Timestamp::Kernel).filter("vlan 7 and udp"), tagged, 1_500),
        (builder().timestamp(Timestamp::Kernel), large, 9_000),
    ] {
        let mut flows: HashMap<u32, HashSet<RxHash>> = HashMap::new();
        for (flow, hash) in hashes_of_frames(builder.rx_hash(true), spec, mtu) {
            flows.entry(flow).or_default().insert(hash.expect("each packet has a hash"));
        }
        assert!(flows.values().all(|hashes| hashes.len() == 1), "{flows:?}");
        let values: HashSet<u32> = flows.values().flatten().map(|hash| hash.value()).collect();
        assert!(values.len() > FLOWS as usize / 2, "{flows:?}");
        assert!(flows.values().flatten().all(|hash| hash.is_over_ports()), "{flows:?}");
    }
}

#[test]
fn packets_have_no_hash_unless_requested() {
    need_root!("rx_hash::packets_have_no_hash_unless_requested");
    let came = hashes_of_frames(builder().timestamp(Timestamp::Kernel), FrameSpec::default(), 1_500);
    assert!(came.iter().all(|(_, hash)| hash.is_none()));
}

#[test]
fn without_hashes_opening_fails_with_the_reason() {
    need_root!("rx_hash::without_hashes_opening_fails_with_the_reason");
    let wire = Wire::new("hashnone", VethOptions { queues: 2, ..VethOptions::default() });
    for (port, expected) in [
        ("in0@0", NicDataRefusal::SomeQueues),
        ("packet:in0", NicDataRefusal::Passive),
        ("tap:in0", NicDataRefusal::Passive),
        ("xdp:lo", NicDataRefusal::NoHash),
    ] {
        let builder = Capture::builder().chunks_per_pool(4).rx_hash(true);
        let error = wire.inside.enter(|| builder.port(port).open()).map(drop).unwrap_err();
        assert!(matches!(error, Error::NoRxHash { reason, .. } if reason == expected), "{port}: {error:?}");
    }
    let null = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 0 };
    let error = Capture::builder().port(null).chunks_per_pool(4).rx_hash(true).open().map(drop).unwrap_err();
    assert!(matches!(error, Error::NoRxHash { .. }), "{error}");
    if hashes_are_offered("rx_hash::without_hashes_opening_fails_with_the_reason") {
        let generic = Capture::builder().chunks_per_pool(4).modes(Modes::Generic).rx_hash(true);
        let error = wire.try_capture_of("xdp:in0", generic).map(drop).unwrap_err();
        let Error::NoMode { attempts, .. } = error else { panic!("{error}") };
        let (mode, reason) = (QueueMode::Generic, ModeRefusal::NoRxHash);
        assert_eq!(attempts, [Diagnostic::ModeUnavailable { mode, several_cells: false, reason }]);
        assert!(!wire.is_captured(), "nothing was changed");
    }
}
