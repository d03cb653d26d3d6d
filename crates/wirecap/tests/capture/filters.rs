//! Filters: wanted packets arrive, the host keeps the rest or it is dropped, and the account contains both.

use std::time::Duration;

use wirecap::{
    Builder, Capture, Diagnostic, Dispatch, Error, Report, UnmatchedPolicy, WaitOutcome,
    diagnostic::KernelRefusal,
    port::null::NullPort,
    report::{FilterPlace, QueueMode},
};
use wirecap_filter::{DEFAULT_SNAPLEN, Filter, LINK_TYPE_ETHERNET};
use wirecap_lab::VethOptions;

use wirecap_testing::{check, crew::Crew, need_root, wait_until, wire::Wire};

/// Too much for the verifier: the filter looks farther than an eBPF instruction can name.
const NOT_FOR_THE_KERNEL: &str = "udp port 53 or ether[40000] = 1";

/// UDP frames to ports 40 to 59, over IPv4 and IPv6, some tagged, with the lengths of `lens` in turn.
pub fn frames(count: usize, lens: &[usize]) -> Vec<Vec<u8>> {
    (0..count).map(|index| frame(index, lens[index % lens.len()])).collect()
}

fn frame(index: usize, len: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    if index % 3 == 0 {
        frame.extend([0x81, 0, 0, 5 + (index % 2) as u8]);
    }
    if index % 5 == 0 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 60, 17, 64]);
        frame.extend([0xfd; 32]);
    } else {
        frame.extend([8, 0, 0x45, 0, 0, 100, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    }
    frame.extend([0x40, 0, 0, 40 + (index % 20) as u8, 0, 80, 0, 0]);
    frame.extend((index as u64).to_be_bytes());
    frame.resize(len.max(frame.len()), index as u8);
    frame
}

pub fn wanted(frames: &[Vec<u8>], expression: &str) -> Vec<Vec<u8>> {
    let filter = Filter::compile(expression, LINK_TYPE_ETHERNET, DEFAULT_SNAPLEN).unwrap();
    let wanted = frames.iter().filter(|frame| filter.matches(frame, frame.len() as u32));
    let wanted: Vec<_> = wanted.cloned().collect();
    assert!(
        !wanted.is_empty() && wanted.len() < frames.len(),
        "{expression} does not distinguish the frames"
    );
    wanted
}

/// Sends the frames through a capture, only a few ahead of it, and returns the captured ones.
pub fn run(wire: &Wire, builder: Builder, port: &str, frames: &[Vec<u8>]) -> (Vec<Vec<u8>>, Report) {
    let mut capture = wire.inside.enter(|| builder.port(port).open()).unwrap();
    let crew = Crew::eager(capture.take_workers());
    let mut sender = wire.packet_sender();
    for frame in frames {
        sender.send(frame).unwrap();
        if sender.frames() % 50 == 0 {
            let explain = || format!("the workers keep up\n{}", wire.explain(&capture));
            wirecap_testing::wait_or_explain(explain, || {
                let account = capture.report().total();
                account.filtered + account.delivered >= sender.frames()
            });
        }
    }
    capture.stopper().stop();
    let arrivals = crew.join();
    let report = capture.finish();
    check::pools_whole(&report);
    let account = check::account_closed(&report);
    assert_eq!((account.seen, account.lost.total()), (frames.len() as u64, 0), "{report:#?}");
    assert_eq!(account.filtered + account.delivered, account.seen);
    check::in_order(&arrivals);
    let mut arrivals = arrivals;
    arrivals.sort_by_key(|arrival| arrival.number);
    (arrivals.into_iter().map(|arrival| arrival.bytes).collect(), report)
}

pub fn small_pool() -> Builder {
    Capture::builder().cells_per_chunk(64).chunks_per_pool(8).workers(1)
}

#[track_caller]
pub fn runs(report: &Report, place: FilterPlace, expression: &str) {
    let filter = report.ports[0].filter.as_ref().expect("a filter");
    assert_eq!((filter.runs, filter.expression.as_str()), (place, expression), "{report:#?}");
}

#[test]
fn wanted_packets_are_captured_and_the_host_keeps_the_rest() {
    need_root!("filters::wanted_packets_are_captured_and_the_host_keeps_the_rest");
    let frames = frames(600, &[60, 200, 1_000, 1_514]);
    for (unmatched, expression) in [
        (UnmatchedPolicy::Pass, "udp port 53"),
        (UnmatchedPolicy::Drop, "vlan 5 and ip6"),
        (UnmatchedPolicy::Pass, "greater 500"),
    ] {
        let wire = Wire::with_queues("filter", 1);
        // The host's own view: the packets that XDP leaves to it.
        let mut host = wire.inside.enter(|| small_pool().port("packet:in0").open()).unwrap();
        let heard = Crew::eager(host.take_workers());
        let (got, report) =
            run(&wire, small_pool().filter(expression).unmatched(unmatched), "xdp:in0", &frames);
        runs(&report, FilterPlace::Kernel, expression);
        let is_of_filter = |fallback: &Diagnostic| fallback.code().starts_with("filter");
        assert!(!report.ports[0].fallbacks.iter().any(is_of_filter), "{expression}");
        let wanted = wanted(&frames, expression);
        assert!(got == wanted, "{expression}: {} of {}", got.len(), wanted.len());
        let rest = match unmatched {
            UnmatchedPolicy::Pass => frames.iter().filter(|frame| !wanted.contains(frame)).cloned().collect(),
            UnmatchedPolicy::Drop => Vec::new(),
        };
        heard.wait_for(rest.len() as u64);
        host.stopper().stop();
        let heard: Vec<_> = heard.join().into_iter().map(|arrival| arrival.bytes).collect();
        assert!(heard == rest, "{expression}: {} of {}", heard.len(), rest.len());
    }
}

#[test]
fn a_filter_that_the_kernel_rejects_runs_in_user_space_and_that_is_reported() {
    need_root!("filters::a_filter_that_the_kernel_rejects_runs_in_user_space_and_that_is_reported");
    let frames = frames(3_000, &[60, 90]);
    for dispatch in [Dispatch::Pull, Dispatch::Push] {
        let wire = Wire::with_queues("userfilter", 1);
        let (got, report) =
            run(&wire, small_pool().dispatch(dispatch).filter(NOT_FOR_THE_KERNEL), "xdp:in0", &frames);
        runs(&report, FilterPlace::NativeCode, NOT_FOR_THE_KERNEL);
        let reason = KernelRefusal::OffsetTooFar { end: 40_001, limit: 32_767 };
        let fallback = Diagnostic::FilterNotInKernel { reason, interpreted: None, drops_unwanted: true };
        assert!(report.ports[0].fallbacks.contains(&fallback), "{:?}", report.ports[0].fallbacks);
        assert!(got == wanted(&frames, NOT_FOR_THE_KERNEL), "{dispatch:?}: {}", got.len());
    }
}

/// Packets of several cells: the kernel sees the first one, user space the others.
#[test]
fn later_cells_are_filtered_in_user_space() {
    need_root!("filters::later_cells_are_filtered_in_user_space");
    let frames = frames(900, &[60, 9_000, 4_000, 1_700, 1_900]);
    for (expression, place) in [
        ("ether[8000] > 100", FilterPlace::Kernel),
        ("ether[3000] & 1 = 1 or udp port 41", FilterPlace::Kernel),
        ("greater 5000", FilterPlace::Kernel),
        ("ether[8000] < 100 or ether[40000] = 1", FilterPlace::NativeCode),
    ] {
        let wire = Wire::new("jumbofilter", VethOptions { mtu: 9_000, ..VethOptions::default() });
        let (got, report) =
            run(&wire, small_pool().chunks_per_pool(64).filter(expression), "xdp:in0", &frames);
        runs(&report, place, expression);
        assert!(report.ports[0].multi_buffer);
        assert!(got == wanted(&frames, expression), "{expression}: {}", got.len());
    }
}

/// Where packets may be split, a packet that its first bytes exclude, or that is too short for the filter's
/// offsets, is not wanted, and goes to the host.
#[test]
fn short_packets_stay_with_the_host_where_packets_may_be_split() {
    need_root!("filters::short_packets_stay_with_the_host_where_packets_may_be_split");
    let frames = frames(300, &[60, 200, 1_000]);
    for expression in [
        "udp port 53 or ether[300] > 100",
        "udp[150:2] > 0x4000",
        // An offset behind any packet, and one that only ARP would be asked for.
        "udp port 41 or ether[ether[0:4]] = 1",
        "udp port 41 or (arp and ether[8000] = 1)",
    ] {
        let wire = Wire::new("splithost", VethOptions { mtu: 9_000, ..VethOptions::default() });
        let mut host = wire.inside.enter(|| small_pool().port("packet:in0").open()).unwrap();
        let heard = Crew::eager(host.take_workers());
        let (got, report) = run(&wire, small_pool().filter(expression), "xdp:in0", &frames);
        runs(&report, FilterPlace::Kernel, expression);
        assert!(report.ports[0].multi_buffer);
        assert!(report.ports[0].fallbacks.contains(&Diagnostic::FilterDropsLongPackets));
        let wanted = wanted(&frames, expression);
        assert!(got == wanted, "{expression}: {} of {}", got.len(), wanted.len());
        heard.wait_for((frames.len() - wanted.len()) as u64);
        host.stopper().stop();
        let heard: Vec<_> = heard.join().into_iter().map(|arrival| arrival.bytes).collect();
        let rest: Vec<_> = frames.iter().filter(|frame| !wanted.contains(frame)).cloned().collect();
        assert!(heard == rest, "{expression}: {} of {}", heard.len(), rest.len());
    }
}

/// If rings are shorter than the pool, refused cells wait for room behind free chunks: they delay no packet.
#[test]
fn refused_cells_delay_no_promise() {
    need_root!("filters::refused_cells_delay_no_promise");
    let wire = Wire::with_queues("promise", 1);
    let builder = small_pool().chunks_per_pool(16).ring_entries(64).filter(NOT_FOR_THE_KERNEL);
    let mut capture = wire.inside.enter(|| builder.port("xdp:in0").open()).unwrap();
    let horizons = capture.horizons();
    let crew = Crew::eager(capture.take_workers());
    let mut sender = wire.packet_sender();
    for (sent, frame) in frames(600, &[60]).iter().enumerate() {
        sender.send(frame).unwrap();
        wait_until("the frame is filtered or delivered", || {
            let account = capture.report().total();
            account.filtered + account.delivered > sent as u64
        });
    }
    for _ in 0..20 {
        let begun = wirecap_sys::clock::system_ns();
        let mut promised = None;
        wait_until("a promise", || {
            promised = horizons.of(0, 0);
            promised.is_some_and(|horizon| horizon.time_ns >= begun)
        });
        assert_eq!(promised.unwrap().number, crew.arrived());
    }
    capture.stopper().stop();
    drop(crew.join());
    check::pools_whole(&capture.finish());
}

#[test]
fn a_passive_port_filters_in_the_kernel_and_tagged_packets_in_user_space() {
    need_root!("filters::a_passive_port_filters_in_the_kernel_and_tagged_packets_in_user_space");
    let frames = frames(900, &[60, 300, 1_514]);
    for expression in ["udp port 53", "vlan 5", "vlan and udp port 41", "ip6", "not ip6 and greater 300"] {
        let wire = Wire::with_queues("hearfilter", 1);
        let builder = small_pool().chunks_per_pool(64).filter(expression);
        let (got, report) = run(&wire, builder, "packet:in0", &frames);
        runs(&report, FilterPlace::Kernel, expression);
        assert_eq!(report.ports[0].queues[0].mode, QueueMode::Packet);
        assert!(report.ports[0].fallbacks.is_empty(), "{:?}", report.ports[0].fallbacks);
        assert!(got == wanted(&frames, expression), "{expression}: {}", got.len());
    }
}

#[test]
fn on_the_loopback_interface_each_packet_is_filtered_once() {
    need_root!("filters::on_the_loopback_interface_each_packet_is_filtered_once");
    let wire = Wire::with_queues("lofilter", 1);
    wire.inside.ip(&["link", "set", "dev", "lo", "up"]).unwrap();
    let talker = wire.inside.enter(|| std::net::UdpSocket::bind("127.0.0.1:0")).unwrap();
    let listener = wire.inside.enter(|| std::net::UdpSocket::bind("127.0.0.1:5300")).unwrap();
    let builder = small_pool().filter("udp dst port 5300");
    let mut capture = wire.inside.enter(|| builder.port("lo").open()).unwrap();
    let crew = Crew::eager(capture.take_workers());
    for round in 0..20u8 {
        talker.send_to(&[round], listener.local_addr().unwrap()).unwrap();
        listener.send_to(&[round], talker.local_addr().unwrap()).unwrap();
    }
    crew.wait_for(20);
    capture.stopper().stop();
    let rounds: Vec<u8> = crew.join().iter().map(|arrival| arrival.bytes[42]).collect();
    assert_eq!(rounds, (0..20).collect::<Vec<_>>());
    let account = check::account_closed(&capture.finish());
    assert_eq!((account.seen, account.filtered, account.delivered), (40, 20, 20));
}

/// Only rejected packets, for longer than the pool and the ring last: the cells come back all the time.
#[test]
fn refused_packets_do_not_use_up_the_pool() {
    need_root!("filters::refused_packets_do_not_use_up_the_pool");
    let wire = Wire::with_queues("refused", 1);
    let builder = small_pool().chunks_per_pool(2).filter("ether[40000] = 1");
    let mut capture = wire.inside.enter(|| builder.port("xdp:in0").open()).unwrap();
    let mut worker = capture.take_workers().remove(0);
    let mut sender = wire.queue_sender(0, Default::default());
    for round in 1..=100 {
        sender.send(64);
        wait_until("the frames are filtered", || {
            assert!(matches!(worker.next_batch_within(Duration::ZERO), WaitOutcome::Idle));
            capture.report().total().filtered == 64 * round
        });
    }
    drop(worker);
    let report = capture.finish();
    check::pools_whole(&report);
    let account = check::account_closed(&report);
    assert_eq!((account.seen, account.filtered, account.lost.total()), (6_400, 6_400, 0));
}

#[test]
fn an_invalid_filter_is_refused_before_anything_is_changed() {
    need_root!("filters::an_invalid_filter_is_refused_before_anything_is_changed");
    let wire = Wire::with_queues("badfilter", 1);
    for (expression, words) in [
        ("tcp prot 80", "syntax error"),
        ("port http and udp and tcp", "rejects all packets"),
        ("vlan 5000", "VLAN"),
    ] {
        let error = wire.try_capture(small_pool().filter(expression)).unwrap_err();
        assert!(matches!(error, Error::Filter(_)), "{error:?}");
        let error = error.to_string();
        assert!(error.contains(expression) && error.contains(words), "{error}");
        wire.assert_given_back();
    }
    assert!(
        wire.capture(small_pool().filter("  ")).report().ports[0].filter.is_none(),
        "an empty filter is no filter"
    );
    let port = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 1 };
    let error = Capture::builder().port(port).chunks_per_pool(4).filter("ip").open().unwrap_err();
    assert!(error.to_string().contains("leave the filter out"), "{error}");
}
