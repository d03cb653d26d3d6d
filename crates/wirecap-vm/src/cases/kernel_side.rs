//! The XDP program on a real driver: filters, timestamps, and the metadata that the driver offers.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use wirecap::{Capture, Diagnostic, Error, Modes, TapHook, Timestamp, WaitOutcome, report::FilterPlace};
use wirecap_sys::{bpf::VethTag, netdev};
use wirecap_traffic::{FrameSpec, Marks};

use super::Case;
use wirecap_testing::{PacketSender, SendPath, check, crew::Crew, kernel_is_at_least};

use crate::{
    machine::{CAPTURED, FLOWS, Machine, run},
    veth::{SOURCE, VETH, with_tags_beside},
};

pub(super) const CASES: [Case; 6] = [
    ("vlan-tags", vlan_tags),
    ("veth-tags", veth_tags),
    ("filter", filter),
    ("timestamp-kernel", timestamp_kernel),
    ("timestamp-hardware", timestamp_hardware),
    ("rx-hash", rx_hash),
];

const FRAMES: u64 = 12 * FLOWS as u64;

/// The filter accepts only the flow whose source address ends with this.
const WANTED: u32 = 7;

fn filter(machine: &Machine) {
    let builder = machine.builder().filter(format!("udp and src host 198.18.0.{WANTED}"));
    let mut capture = machine.capture(builder);
    let place = capture.report().ports[0].filter.clone().expect("the port has a filter").runs;
    assert_eq!(place, FilterPlace::Kernel, "every kernel accepts this filter");
    let crew = Crew::eager(capture.take_workers());
    machine.traffic(FrameSpec::default()).send(&capture, FRAMES);
    let wanted = FRAMES / u64::from(FLOWS);
    machine.wait_for(wanted, &crew, &capture);
    wirecap_testing::wait_until("all frames are seen", || capture.report().total().seen == FRAMES);
    capture.stopper().stop();
    let arrivals = crew.join();
    let report = machine.finish(capture);
    let total = report.total();
    assert_eq!(
        (total.seen, total.filtered, total.delivered),
        (FRAMES, FRAMES - wanted, wanted),
        "{report:#?}"
    );
    let flows = arrivals.iter().map(|arrival| Marks::read(&arrival.bytes).unwrap().flow);
    assert!(flows.into_iter().all(|flow| flow % FLOWS == WANTED));
    check::intact(&arrivals, FrameSpec::default());
}

fn are_tags_missing(fallback: &Diagnostic) -> bool {
    matches!(fallback, Diagnostic::VlanTagsMissing { .. })
}

/// Packets keep their VLAN tags. If the NIC removes tags, wirecap reports it, and the remedy works.
fn vlan_tags(machine: &Machine) {
    let nic = netdev::interface(CAPTURED).unwrap();
    if nic.takes_vlan_tags {
        let capture = machine.capture(machine.builder());
        let fallbacks = capture.report().ports[0].fallbacks.clone();
        machine.finish(capture);
        assert!(fallbacks.iter().any(are_tags_missing), "{fallbacks:?}");
        run("ethtool", &["-K", CAPTURED, "rxvlan", "off"]);
    }
    let spec = FrameSpec { len: 64, vlan: Some(7), ..FrameSpec::default() };
    let mut capture = machine.capture(machine.builder());
    let fallbacks = capture.report().ports[0].fallbacks.clone();
    let crew = Crew::eager(capture.take_workers());
    machine.traffic(spec).send(&capture, FRAMES);
    machine.wait_for(FRAMES, &crew, &capture);
    capture.stopper().stop();
    let arrivals = crew.join();
    machine.finish(capture);
    check::each_once(check::intact(&arrivals, spec), FRAMES, 0);
    assert!(!fallbacks.iter().any(are_tags_missing), "{fallbacks:?}");
    if nic.takes_vlan_tags {
        run("ethtool", &["-K", CAPTURED, "rxvlan", "on"]);
        machine.ledger.note_given_back();
    }
}

/// Tags that veth has beside its packets are put back. In distributions its driver is a module, so the
/// program reads where the type information of that module says.
fn veth_tags(_: &Machine) {
    let put_back = kernel_is_at_least(6, 8);
    let taken = |modes| Capture::builder().modes(modes).port(format!("xdp:{VETH}"));
    let tapped = || Capture::builder().tap_hook(TapHook::Xdp).port(format!("tap:{VETH}"));
    let mut builders = vec![taken(Modes::Copy)];
    if put_back {
        builders.extend([taken(Modes::Packed), tapped()]);
    }
    for builder in builders {
        with_tags_beside(|| {
            println!("veth-tags: veth is a module: {}", Path::new("/sys/kernel/btf/veth").exists());
            assert_eq!(VethTag::of_kernel().is_some(), kernel_is_at_least(6, 3));
            let mut capture = builder.workers(1).open().unwrap();
            let mut worker = capture.take_workers().remove(0);
            let ifindex = netdev::interface(SOURCE).unwrap().ifindex;
            let mut sender = PacketSender::open(ifindex, SendPath::Queueing).unwrap();
            let addresses = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
            let tags = [&[][..], &[0x81, 0, 0x60, 7], &[], &[0x88, 0xa8, 0, 100]];
            let frame = |tag: &[u8]| [&addresses[..], tag, &OURS, &[9; 50]].concat();
            for tag in tags {
                sender.send(&frame(tag)).unwrap();
            }
            let expected = tags.map(|tag| frame(if put_back { tag } else { &[] }));
            let mut got = Vec::new();
            let mut read = || {
                let outcome = worker.next_batch_within(Duration::from_millis(10));
                if let WaitOutcome::Batch(batch) = &outcome {
                    let packets = batch.packets().map(|packet| packet.data().to_vec());
                    got.extend(packets.filter(|packet| packet.windows(2).any(|bytes| bytes == OURS)));
                }
                (got.len(), outcome)
            };
            wirecap_testing::wait_until("all frames have come", || read().0 >= expected.len());
            // The bridge reports that it joins the group of multicast snoopers. That must not be left unread.
            capture.stopper().stop();
            while !matches!(read().1, WaitOutcome::Ended) {}
            assert_eq!(got, expected);
            let report = capture.finish();
            assert_eq!(report.total().lost.total(), 0, "{report:#?}");
            assert_eq!(report.ports[0].untagged, put_back.then_some(0));
        });
    }
}

/// The type of frames of local experiments, which nothing else here sends.
const OURS: [u8; 2] = [0x88, 0xb5];

/// Two readings of the time on one machine differ by less than this.
const CLOCK_NS: u64 = 5_000_000;

fn timestamp_kernel(machine: &Machine) {
    let builder = machine.builder().timestamp(Timestamp::Kernel);
    let mut capture = machine.capture(builder);
    let crew = Crew::eager(capture.take_workers());
    let mut traffic = machine.traffic(FrameSpec::default());
    let mut rounds = Vec::new();
    for round in 1..=10 {
        let begun_ns = now_ns();
        traffic.send(&capture, u64::from(FLOWS));
        machine.wait_for(round * u64::from(FLOWS), &crew, &capture);
        rounds.push(begun_ns - CLOCK_NS..now_ns() + CLOCK_NS);
    }
    capture.stopper().stop();
    let arrivals = crew.join();
    let report = machine.finish(capture);
    check::in_order(&arrivals);
    for arrival in &arrivals {
        let round = Marks::read(&arrival.bytes).unwrap().sequence / u64::from(FLOWS);
        let (range, time_ns) = (&rounds[round as usize], arrival.timestamp_ns);
        assert!(range.contains(&time_ns), "{time_ns} is not in {range:?}");
    }
    let timestamp = &report.ports[0].timestamp;
    assert_eq!((timestamp.source, timestamp.unstamped), (Timestamp::Kernel, 0), "{timestamp:?}");
}

/// The error names the interface if its driver offers XDP no hardware time; otherwise the times are current.
fn timestamp_hardware(machine: &Machine) {
    let features = netdev::interface(CAPTURED).unwrap().xdp_features;
    let offered =
        features.and_then(|features| features.rx_metadata).is_some_and(|metadata| metadata.timestamp);
    let builder = machine.builder().timestamp(Timestamp::Hardware);
    let before_ns = now_ns();
    match machine.try_capture(builder) {
        Err(error @ Error::NoHardwareTimestamps { .. }) if !offered => {
            assert!(error.to_string().contains(CAPTURED), "{error}");
            println!("timestamp-hardware: {error:?}");
        }
        Err(error) => panic!("offered: {offered}; {error}"),
        Ok(mut capture) => {
            assert!(offered, "the capture opens only if the driver offers hardware times");
            let crew = Crew::eager(capture.take_workers());
            machine.traffic(FrameSpec::default()).send(&capture, FRAMES);
            machine.wait_for(FRAMES, &crew, &capture);
            capture.stopper().stop();
            let arrivals = crew.join();
            let report = machine.finish(capture);
            let timestamp = &report.ports[0].timestamp;
            assert_eq!((timestamp.source, timestamp.unstamped), (Timestamp::Hardware, 0), "{timestamp:?}");
            let then = before_ns - CLOCK_NS..now_ns() + CLOCK_NS;
            assert!(arrivals.iter().all(|arrival| then.contains(&arrival.timestamp_ns)), "{then:?}");
        }
    }
}

/// The error names the interface if its driver hands no hash to XDP programs. Otherwise each flow has one
/// hash, and different flows have different ones; also with kernel timestamps, which share the metadata area
/// with the hash.
fn rx_hash(machine: &Machine) {
    let metadata =
        netdev::interface(CAPTURED).unwrap().xdp_features.and_then(|features| features.rx_metadata);
    let offered = metadata.is_some_and(|metadata| metadata.hash);
    for timestamp in [Timestamp::Batch, Timestamp::Kernel] {
        let builder = machine.builder().timestamp(timestamp).rx_hash(true);
        let mut capture = match machine.try_capture(builder) {
            Err(error @ Error::NoRxHash { .. }) if !offered => {
                assert!(error.to_string().contains(CAPTURED), "{error}");
                println!("rx-hash: {error:?}");
                return;
            }
            opened => opened.unwrap(),
        };
        assert!(offered, "the capture opens only if the driver offers hashes");
        let hashes = Arc::new(Mutex::new(BTreeMap::<u32, BTreeSet<u32>>::new()));
        let noted = Arc::clone(&hashes);
        let crew = Crew::start(capture.take_workers(), move |_, batch| {
            for packet in batch.packets() {
                let flow = Marks::read(packet.data()).expect("the generator made this frame").flow;
                if let Some(hash) = packet.rx_hash() {
                    noted.lock().unwrap().entry(flow).or_default().insert(hash.value());
                }
            }
        });
        machine.traffic(FrameSpec::default()).send(&capture, FRAMES);
        machine.wait_for(FRAMES, &crew, &capture);
        capture.stopper().stop();
        check::each_once(check::intact(&crew.join(), FrameSpec::default()), FRAMES, 0);
        let report = machine.finish(capture);
        let (hashes, unhashed) = (hashes.lock().unwrap(), report.ports[0].unhashed);
        println!("rx-hash: {} flows with a hash, packets without one: {unhashed:?}", hashes.len());
        if unhashed == Some(0) {
            assert!(hashes.values().all(|values| values.len() == 1), "each flow has one hash: {hashes:?}");
            let values: BTreeSet<u32> = hashes.values().flatten().copied().collect();
            assert!(hashes.len() == FLOWS as usize && values.len() > FLOWS as usize / 2, "{hashes:?}");
        } else {
            // The driver supports hashes, but the device provides none.
            assert_eq!((hashes.len(), unhashed), (0, Some(FRAMES)), "all packets have a hash or none has");
        }
    }
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970").as_nanos() as u64
}
