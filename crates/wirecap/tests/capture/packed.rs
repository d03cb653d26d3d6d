//! Packets that the XDP program packs into blocks: intact, in order, once each, and accounted for.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use wirecap::{
    Arming, Builder, Capture, Diagnostic, Direction, Dispatch, Error, Mode, Modes, Report, Timestamp,
    UnmatchedPolicy, Wait, WaitOutcome,
    diagnostic::{ModeRefusal, PackingRefusal},
    port::LONGEST_HOLD,
    report::QueueMode,
};
use wirecap_lab::VethOptions;
use wirecap_sys::{netdev, packed::PackedError};
use wirecap_traffic::{FrameSpec, Template};

use wirecap_testing::{
    check, crew::Crew, gate::Gate, kernel_is_at_least, need_root, wait_or_explain, wait_until, wire::Wire,
};

use crate::{timestamps::now_ns, vlan_tags::BesideTagLab};

/// Blocks of 128 KiB, the smallest.
const CELLS: u32 = 64;
const POOL_BYTES: u64 = 16 << 20;

fn builder() -> Builder {
    Capture::builder().modes(Modes::Packed).cells_per_chunk(CELLS).chunks_per_pool(16)
}

/// Returns from the test, and reports that, without root and on a kernel without what the program calls.
macro_rules! need_packing {
    ($test:literal) => {
        need_root!($test);
        if !kernel_is_at_least(5, 18) {
            return wirecap_lab::skip($test, "this kernel has no bpf_xdp_load_bytes (Linux 5.18)");
        }
    };
}

/// Batches as they are in files.
mod in_files;

fn assert_packed(report: &Report) {
    let queues = &report.ports[0].queues;
    assert!(queues.iter().all(|queue| queue.mode == QueueMode::Packed), "{report:#?}");
}

/// Sends frames of one size at full speed, as many as the pool holds, and checks that each arrives once, in
/// order.
fn each_frame_arrives_once(builder: Builder, spec: FrameSpec) -> Report {
    // What lies around a frame in its block, and what stays empty at the end of each, takes less than 60
    // bytes.
    let frames = POOL_BYTES / (spec.len as u64 + 60);
    let builder = builder.chunks_per_pool((POOL_BYTES / (u64::from(CELLS) * 2048)) as u32);
    let wire = Wire::with_queues("packed", 1);
    let mut capture = wire.capture(builder);
    let crew = Crew::eager(capture.take_workers());
    wire.live(&mut wire.generator(spec), 0, frames);
    crew.wait_for(frames);
    capture.stopper().stop();
    let arrivals = crew.join();
    let report = capture.finish();
    assert_eq!(check::account_closed(&report).delivered, arrivals.len() as u64);
    check::in_order(&arrivals);
    check::each_once(check::intact(&arrivals, spec), frames, 0);
    check::pools_whole(&report);
    assert_packed(&report);
    report
}

#[test]
fn frames_of_all_sizes_arrive_once_and_in_order() {
    need_packing!("packed::frames_of_all_sizes_arrive_once_and_in_order");
    for len in [60, 61, 512, 1514] {
        let spec = FrameSpec { len, ..FrameSpec::default() };
        for dispatch in [Dispatch::Pull, Dispatch::Push] {
            let builder = builder().dispatch(dispatch);
            each_frame_arrives_once(builder, spec);
        }
    }
    for wait in [Wait::Block, Wait::Busy] {
        each_frame_arrives_once(builder().wait(wait), FrameSpec::default());
    }
    for builder in [builder().timestamp(Timestamp::Kernel), builder().filter("udp"), builder().workers(2)] {
        each_frame_arrives_once(builder, FrameSpec::default());
    }
}

/// They come in several buffers, and are one piece in their block.
#[test]
fn jumbo_frames_are_whole() {
    need_packing!("packed::jumbo_frames_are_whole");
    for mtu in [9_000, 65_535] {
        let wire = Wire::new("packjum", VethOptions { queues: 1, mtu, ..VethOptions::default() });
        let mut capture = wire.capture(builder().chunks_per_pool(64));
        let whole = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&whole);
        let crew = Crew::start(capture.take_workers(), move |_, batch| {
            let of = |packet: wirecap::Packet<'_>| (packet.data().len(), packet.len(), packet.original_len());
            keep.lock().unwrap().extend(batch.packets().map(of));
        });
        let mut expected = Vec::new();
        let mut sender = wire.packet_sender();
        for len in [60, 1_514, 3_000, 4_096, 8_000, mtu as usize + 14] {
            // To all stations, of a type for experiments.
            let mut frame = vec![0xff; len];
            frame[12..14].copy_from_slice(&0x88b5_u16.to_be_bytes());
            sender.send(&frame).unwrap();
            expected.push((len, len, len));
        }
        crew.wait_for(expected.len() as u64);
        capture.stopper().stop();
        crew.join();
        let report = capture.finish();
        check::account_closed(&report);
        assert_packed(&report);
        assert_eq!(*whole.lock().unwrap(), expected, "MTU {mtu}");
        assert_eq!(report.ports[0].length_limit, None);
    }
}

/// Those that a filter does not want are the host's, or dropped; one that only user space can decide drops
/// them.
#[test]
fn a_filter_chooses_packets_in_the_kernel_and_in_user_space() {
    need_packing!("packed::a_filter_chooses_packets_in_the_kernel_and_in_user_space");
    const FRAMES: u64 = 10_000;
    for (filter, unmatched, wanted) in [
        ("udp", UnmatchedPolicy::Drop, FRAMES),
        ("tcp", UnmatchedPolicy::Pass, 0),
        ("udp and not protochain 99", UnmatchedPolicy::Drop, FRAMES),
        ("protochain 99", UnmatchedPolicy::Drop, 0),
    ] {
        let wire = Wire::with_queues("packflt", 1);
        let begun_ns = now_ns();
        let mut capture = wire.capture(builder().filter(filter).unmatched(unmatched));
        let crew = Crew::eager(capture.take_workers());
        wire.live(&mut wire.generator(FrameSpec::default()), 0, FRAMES);
        wait_until("all frames are accounted for", || {
            let total = capture.report().total();
            total.seen >= FRAMES && total.delivered + total.filtered >= FRAMES
        });
        capture.stopper().stop();
        let arrivals = crew.join();
        let total = check::account_closed(&capture.finish());
        assert_eq!((arrivals.len() as u64, total.lost.total()), (total.delivered, 0), "{filter}");
        let frames = check::intact(&arrivals, FrameSpec::default()).len() as u64;
        assert_eq!((frames, total.filtered >= FRAMES - wanted), (wanted, true), "{filter}: {total:?}");
        // The program has brought them to UTC, whether the receiver looks at packets or not.
        check::in_order(&arrivals);
        let times = begun_ns..=now_ns();
        assert!(arrivals.iter().all(|packet| times.contains(&packet.timestamp_ns)), "{filter}: {times:?}");
    }
}

/// With a stalled worker: each packet that has no room is counted, and the pool takes packets again
/// afterwards.
#[test]
fn a_pool_that_is_used_up_loses_counted_packets_and_recovers() {
    need_packing!("packed::a_pool_that_is_used_up_loses_counted_packets_and_recovers");
    for dispatch in [Dispatch::Pull, Dispatch::Push] {
        let wire = Wire::with_queues("packful", 1);
        let builder = builder().chunks_per_pool(4).dispatch(dispatch).mode(Mode::Basic).workers(1);
        let mut capture = wire.capture(builder);
        let gate = Arc::new(Gate::closed());
        let passed = Arc::clone(&gate);
        let crew = Crew::start(capture.take_workers(), move |_, _| passed.pass());
        let mut generator = wire.generator(FrameSpec::default());
        wire.live(&mut generator, 0, 20_000);
        wait_until("all frames are seen", || capture.report().total().seen >= 20_000);
        let report = capture.report();
        let lost = report.total().lost.no_free_block;
        // Four blocks of 128 KiB, with 92 bytes for each frame, hold 5,600 frames. A capture thread that
        // takes a few frames at a time fills the first two blocks in part.
        assert!((14_000..17_300).contains(&lost), "{dispatch:?}: {lost}");
        assert!(report.pool_used_percent() > 95.0, "{dispatch:?}: {}", report.pool_used_percent());
        gate.open();
        crew.wait_for(20_000 - lost);
        wait_until("the pool is empty again", || capture.report().pool_used_percent() < 5.0);
        wire.live(&mut generator, 0, 2_000);
        crew.wait_for(22_000 - lost);
        capture.stopper().stop();
        let arrivals = crew.join();
        let report = capture.finish();
        let total = check::account_closed(&report);
        assert_eq!((total.lost.total(), total.delivered), (lost, arrivals.len() as u64), "{dispatch:?}");
        check::in_order(&arrivals);
    }
}

/// While no worker reads. Cells of as much memory hold 32,768. With its FCS a frame has 64 bytes.
#[test]
fn blocks_of_64_mib_hold_600_000_short_frames() {
    need_packing!("packed::blocks_of_64_mib_hold_600_000_short_frames");
    const FRAMES: u64 = 600_000;
    let wire = Wire::with_queues("packmany", 1);
    let builder = Capture::builder().modes(Modes::Packed).cells_per_chunk(256).chunks_per_pool(128);
    let mut capture = wire.capture(builder.dispatch(Dispatch::Pull));
    assert_eq!(capture.report().memory.cells_bytes, 64 << 20);
    wire.live(&mut wire.generator(FrameSpec::default()), 0, FRAMES);
    let account = capture.report().total();
    let (seen, read, lost) = (account.seen, account.delivered, account.lost.total());
    assert_eq!((seen, read, lost), (FRAMES, 0, 0), "{account:#?}");
    capture.stopper().stop();
    let arrivals = Crew::eager(capture.take_workers()).join();
    let report = capture.finish();
    let account = check::account_closed(&report);
    assert_eq!((account.delivered, account.lost.total()), (FRAMES, 0), "{account:#?}");
    check::in_order(&arrivals);
    check::each_once(check::intact(&arrivals, FrameSpec::default()), FRAMES, 0);
    check::pools_whole(&report);
    assert_packed(&report);
}

/// Time, tag and hash of each packet, as over a socket.
#[test]
fn packets_bring_their_times_tags_and_hashes() {
    need_packing!("packed::packets_bring_their_times_tags_and_hashes");
    const FRAMES: u32 = 300;
    let spec = FrameSpec { len: 200, vlan: Some(7), ..FrameSpec::default() };
    let mut beside = BesideTagLab::new("packall", 1_500);
    let features = beside.wire.inside.enter(|| netdev::interface("in0")).unwrap().xdp_features;
    let has_metadata = features.and_then(|features| features.rx_metadata).is_some_and(|offered| offered.hash);
    if !has_metadata {
        wirecap_lab::skip(
            "packed::packets_bring_their_times_tags_and_hashes",
            "this kernel does not say that veth hands hashes to XDP programs (Linux 6.7)",
        );
        return;
    }
    let builder =
        builder().port("xdp:in0").timestamp(Timestamp::Kernel).rx_hash(true).filter("vlan 7 and udp");
    let mut capture = beside.wire.inside.enter(|| builder.open()).unwrap();
    let seen = Arc::new(Mutex::new(HashMap::<u32, Vec<(u64, u32)>>::new()));
    let keep = Arc::clone(&seen);
    let crew = Crew::start(capture.take_workers(), move |_, batch| {
        for packet in &*batch {
            let marks = wirecap_traffic::Marks::read(packet.data()).unwrap();
            let hash = packet.rx_hash().expect("each packet has a hash");
            assert!(hash.is_over_ports() && packet.direction() == Direction::In);
            keep.lock().unwrap().entry(marks.flow).or_default().push((packet.timestamp_ns(), hash.value()));
        }
    });
    let begun_ns = wirecap_sys::clock::system_ns();
    let mut template = Template::new(spec).unwrap();
    for sequence in 0..FRAMES {
        beside.sender.send(template.stamp(sequence % 10, sequence.into())).unwrap();
        if sequence % 50 == 49 {
            crew.wait_for(u64::from(sequence) + 1);
        }
    }
    let ended_ns = wirecap_sys::clock::system_ns();
    capture.stopper().stop();
    let arrivals = crew.join();
    let report = capture.finish();
    check::account_closed(&report);
    check::each_once(check::intact(&arrivals, spec), FRAMES.into(), 0);
    assert_packed(&report);
    let port = &report.ports[0];
    assert_eq!((port.unhashed, port.untagged, port.timestamp.unstamped), (Some(0), Some(0), 0));
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 10);
    for packets in seen.values() {
        assert!(packets.iter().all(|(_, hash)| *hash == packets[0].1));
        assert!(packets.is_sorted_by_key(|(time_ns, _)| *time_ns));
        // The system clock may have been slewed meanwhile.
        let slack_ns = Duration::from_millis(1).as_nanos() as u64;
        let all = begun_ns - slack_ns..ended_ns + slack_ns;
        assert!(packets.iter().all(|(time_ns, _)| all.contains(time_ns)), "{packets:?} not in {all:?}");
    }
}

#[test]
fn what_cannot_be_packed_is_refused_with_the_reason() {
    need_packing!("packed::what_cannot_be_packed_is_refused_with_the_reason");
    let wire = Wire::with_queues("packref", 2);
    let refusal = |port: &str, builder: Builder| wire.try_capture_of(port, builder).map(drop).unwrap_err();
    let packed = || Capture::builder().modes(Modes::Packed);
    let error = refusal("xdp:in0", packed().transmit(64));
    assert!(matches!(error, Error::NotPacked { reason: PackingRefusal::Sending, .. }), "{error}");
    let error = refusal("xdp:in0", packed().keep_packets(true));
    assert!(matches!(error, Error::NotPacked { reason: PackingRefusal::Keeping, .. }), "{error}");
    let error = refusal("xdp:in0", packed().ring_entries(256));
    assert!(matches!(error, Error::NotPacked { reason: PackingRefusal::Rings, .. }), "{error}");
    let error = refusal("xdp:in0", packed().cells_per_chunk(32).chunks_per_pool(4));
    let is_small =
        matches!(error, Error::Packed { source: PackedError::SmallBlock { block_bytes: 65_536 }, .. });
    assert!(is_small, "{error}");
    let error = refusal("xdp:in0", packed().cells_per_chunk(CELLS).chunks_per_pool(1));
    assert!(matches!(error, Error::Packed { source: PackedError::FewBlocks { blocks: 1 }, .. }), "{error}");
    assert!(!wire.is_captured(), "nothing stays behind");
}

/// Without being asked for it, since veth has no zero-copy; else in cells, with the reason.
#[test]
fn packing_is_what_best_chooses_and_what_cannot_be_packed_is_copied() {
    need_packing!("packed::packing_is_what_best_chooses_and_what_cannot_be_packed_is_copied");
    let wire = Wire::with_queues("packbest", 1);
    if wire.inside.enter(|| netdev::interface("in0")).unwrap().xdp_features.is_none() {
        let reason = "this kernel does not say what drivers offer (Linux 6.3)";
        return wirecap_lab::skip(
            "packed::packing_is_what_best_chooses_and_what_cannot_be_packed_is_copied",
            reason,
        );
    }
    let usual = || Capture::builder().cells_per_chunk(CELLS).chunks_per_pool(16);
    for (port, builder, refusal) in [
        ("xdp:in0", usual(), None),
        ("xdp:in0@0", usual(), None),
        ("xdp:in0", usual().transmit(64), Some(PackingRefusal::Sending)),
        ("xdp:in0", usual().allocators(1), Some(PackingRefusal::Sending)),
        ("xdp:in0", usual().keep_packets(true), Some(PackingRefusal::Keeping)),
        ("xdp:in0", usual().ring_entries(64), Some(PackingRefusal::Rings)),
        ("xdp:in0", usual().cells_per_chunk(32), Some(PackingRefusal::SmallBlocks { block_bytes: 65_536 })),
        ("xdp:in0", usual().chunks_per_pool(1), Some(PackingRefusal::FewBlocks { blocks: 1 })),
        // Only known when blocks were expected: the port allocates cells itself.
        ("xdp:in0", usual().memory(200_000), Some(PackingRefusal::FewBlocks { blocks: 1 })),
    ] {
        let keeps = refusal
            .as_ref()
            .is_some_and(|reason| matches!(reason, PackingRefusal::Sending | PackingRefusal::Keeping));
        let expected = if refusal.is_none() { QueueMode::Packed } else { QueueMode::Copy };
        let mut capture = wire.capture_of(port, builder);
        let (drained, whole) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
        let (count_drained, count_whole) = (Arc::clone(&drained), Arc::clone(&whole));
        let [worker] = <[_; 1]>::try_from(capture.take_workers()).unwrap();
        let thread = std::thread::spawn(move || {
            let mut worker = worker;
            while let Some(mut batch) = worker.next_batch() {
                *count_whole.lock().unwrap() += batch.len();
                *count_drained.lock().unwrap() += batch.drain().into_iter().flatten().count();
            }
        });
        let mut sender = wire.queue_sender(0, FrameSpec::default());
        sender.send(32);
        wait_until("all frames came", || *whole.lock().unwrap() == 32);
        capture.stopper().stop();
        thread.join().unwrap();
        let report = capture.finish();
        check::account_closed(&report);
        check::pools_whole(&report);
        assert_eq!(report.ports[0].queues[0].mode, expected, "{refusal:?}: {report:#?}");
        assert_eq!(*drained.lock().unwrap(), if keeps { 32 } else { 0 }, "{refusal:?}");
        let unavailable = |mode, reason| Diagnostic::ModeUnavailable { mode, several_cells: false, reason };
        let mut fallbacks = vec![unavailable(QueueMode::ZeroCopy, ModeRefusal::NotOffered)];
        fallbacks
            .extend(refusal.map(|reason| unavailable(QueueMode::Packed, ModeRefusal::NotPacked(reason))));
        assert_eq!(report.ports[0].fallbacks, fallbacks);
        // Records of cells take more than page tables, and a ring of events.
        let (memory, of_cells) = (&report.memory, expected == QueueMode::Copy);
        assert_eq!(memory.kernel_bytes > memory.cells_bytes / 32, of_cells, "{memory:?}");
        assert!(memory.kernel_bytes > memory.cells_bytes / 256, "{memory:?}");
        assert_eq!((memory.pages.is_some(), memory.ring_entries.is_some()), (of_cells, of_cells));
    }
    assert!(!wire.is_captured(), "nothing stays behind");
}

/// Each captures some queues: two of them pack, one copies, and the host has the rest.
#[test]
fn queues_of_an_interface_are_packed_for_some_and_copied_for_others() {
    need_packing!("packed::queues_of_an_interface_are_packed_for_some_and_copied_for_others");
    const FRAMES: u64 = 500;
    let wire = Wire::with_queues("packsome", 5);
    let copied = || Capture::builder().modes(Modes::Copy).chunks_per_pool(16);
    let captures = [("in0@1,4", builder()), ("in0@2", copied()), ("in0@3", builder())];
    let mut captures = captures.map(|(port, builder)| wire.capture_of(&format!("xdp:{port}"), builder));
    let crews = captures.each_mut().map(|capture| Crew::eager(capture.take_workers()));
    let error = wire.try_capture_of("xdp:in0@3", builder()).map(drop).unwrap_err();
    assert!(matches!(error, Error::QueueTaken { queue: 3, .. }), "{error}");
    for queue in 0..5 {
        wire.queue_sender(queue, FrameSpec::default()).send(FRAMES);
    }
    for (crew, queues) in crews.iter().zip([2, 1, 1]) {
        crew.wait_for(queues * FRAMES);
    }
    let modes = [QueueMode::Packed, QueueMode::Copy, QueueMode::Packed];
    for ((capture, crew), (mode, queues)) in
        captures.into_iter().zip(crews).zip(modes.into_iter().zip([2, 1, 1]))
    {
        capture.stopper().stop();
        let arrivals = crew.join();
        let report = capture.finish();
        assert_eq!(check::account_closed(&report).delivered, queues * FRAMES);
        check::in_order(&arrivals);
        check::intact(&arrivals, FrameSpec::default());
        check::pools_whole(&report);
        assert!(report.ports[0].queues.iter().all(|queue| queue.mode == mode), "{report:#?}");
    }
    wire.assert_given_back();
}

/// Until the next packets would be released, a look finds nothing to do.
#[test]
fn a_worker_that_has_received_is_told_to_come_back_when_more_is_released() {
    need_packing!("packed::a_worker_that_has_received_is_told_to_come_back_when_more_is_released");
    let wire = Wire::with_queues("packhold", 1);
    let mut capture = wire.capture(builder().chunks_per_pool(512));
    let mut worker = capture.take_workers().remove(0);
    // A sleep that knows of no packet is 1 ms long at most. The machine may be busy between two calls.
    let is_told = (0..50).any(|number| {
        wire.live(&mut wire.generator(FrameSpec::default()), number, 1);
        assert!(matches!(worker.next_batch_within(Duration::from_secs(10)), WaitOutcome::Batch(_)));
        let told = worker.arm();
        matches!(told, Arming::Later(after) if after > Duration::from_millis(1) && after <= LONGEST_HOLD)
    });
    assert!(is_told, "each time, the worker was to come back early");
    wait_until("the worker rests", || matches!(worker.arm(), Arming::Armed(_)));
}

/// What the worker of a queue leaves, beyond T percent of its blocks.
#[test]
fn buddies_take_over_parts_of_blocks() {
    need_packing!("packed::buddies_take_over_parts_of_blocks");
    const FRAMES: u64 = 40_000;
    for dispatch in [Dispatch::Pull, Dispatch::Push] {
        let wire = Wire::with_queues("packhelp", 2);
        let mut capture = wire.capture(builder().mode(Mode::advanced(20).unwrap()).dispatch(dispatch));
        let gate = Arc::new(Gate::closed());
        let at_gate = Arc::clone(&gate);
        let crew = Crew::start(capture.take_workers(), move |worker, _| {
            if worker == 0 {
                at_gate.pass();
            }
        });
        // 16 blocks hold some 20,000 of these frames: everything comes only if worker 1 helps worker 0.
        // Blocks that worker 1 has emptied lie idle until the capture thread runs again, and as many may be
        // filled by then: together with the fifth that waits for worker 0, that is less than the pool.
        let mut hot = wire.queue_sender(0, FrameSpec::default());
        hot.send_while(FRAMES, |sent| sent - crew.arrived() > 9_000);
        gate.open();
        let account = || format!("all frames arrive: {:#?}", capture.report());
        wait_or_explain(account, || crew.arrived() >= FRAMES);
        wait_until("all blocks are home", || capture.report().pool_used_percent() < 10.0);
        capture.stopper().stop();
        let arrivals = crew.join();
        let report = capture.finish();
        let total = check::account_closed(&report);
        assert_eq!((total.delivered, total.lost.total()), (FRAMES, 0), "{dispatch:?}: {report:#?}");
        check::in_order(&arrivals);
        check::pools_whole(&report);
        assert_packed(&report);
        let [gone, helper] = &report.workers[..] else { panic!("two workers") };
        assert!(helper.offloaded_in > FRAMES - 22_000, "{dispatch:?}: {report:#?}");
        assert_eq!(helper.offloaded_in, gone.offloaded_out);
    }
}
