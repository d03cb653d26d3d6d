//! Receive queues of one interface, captured by different holders at the same time.

use std::thread;

use wirecap::{
    Builder, Capture, Diagnostic, Error, Modes, Timestamp, UnmatchedPolicy, diagnostic::NicDataRefusal,
    report::QueueMode,
};
use wirecap_lab::VethOptions;
use wirecap_sys::bpf::XdpMode;
use wirecap_traffic::{FrameSpec, Template};

use wirecap_testing::{
    check,
    crew::{Arrival, Crew},
    need_root, wait_until,
    wire::{QueueSender, Wire},
};

/// Frames sent into each queue at a time.
const FRAMES: u64 = 500;

fn small() -> Builder {
    Capture::builder().chunks_per_pool(8)
}

fn senders(wire: &Wire, queues: std::ops::Range<u16>) -> Vec<QueueSender> {
    queues.map(|queue| wire.queue_sender(queue, FrameSpec::default())).collect()
}

/// Ends a capture, and asserts that the account closes without loss and has only these queues. Returns the
/// captured frames.
#[track_caller]
fn end(capture: Capture, crew: Crew, queues: &[u16]) -> Vec<Arrival> {
    capture.stopper().stop();
    let arrivals = crew.join();
    let report = capture.finish();
    let account = check::account_closed(&report);
    assert_eq!((account.lost.total(), account.passed), (0, 0), "{report:#?}");
    assert_eq!(account.delivered, arrivals.len() as u64);
    let rows: Vec<u16> = report.ports[0].queues.iter().map(|queue| queue.queue).collect();
    assert_eq!(rows, queues, "{report:#?}");
    assert_eq!(report.ports[0].warnings, []);
    check::pools_whole(&report);
    arrivals
}

/// Asserts that these are the frames of the senders of these queues, `each` frames per queue, in order.
#[track_caller]
fn assert_all(arrivals: &[Arrival], queues: &[u16], each: u64) {
    let came = check::in_order(arrivals);
    assert_eq!(came.keys().map(|&(_, queue)| queue).collect::<Vec<_>>(), queues);
    for (&(_, queue), packets) in &came {
        let sequences = check::intact(packets.iter().copied(), FrameSpec::default());
        check::increasing(&sequences);
        assert_eq!(sequences.len() as u64, each, "of queue {queue}");
    }
}

#[test]
fn two_holders_get_the_packets_of_their_queues_and_leave_in_either_order() {
    need_root!("queues::two_holders_get_the_packets_of_their_queues_and_leave_in_either_order");
    for founder_leaves_first in [true, false] {
        let wire = Wire::with_queues("holders", 4);
        let mut one = wire.capture_of("in0@0", small());
        let mut rest = wire.capture_of("in0@1-3", small());
        assert_eq!(one.report().ports[0].name, "in0@0");
        assert_eq!(rest.report().ports[0].name, "in0@1-3");
        let (crew_one, crew_rest) = (Crew::eager(one.take_workers()), Crew::eager(rest.take_workers()));
        let mut senders = senders(&wire, 0..4);
        senders.iter_mut().for_each(|sender| sender.send(FRAMES));
        crew_one.wait_for(FRAMES);
        crew_rest.wait_for(3 * FRAMES);

        if founder_leaves_first {
            assert_all(&end(one, crew_one, &[0]), &[0], FRAMES);
            senders[1..].iter_mut().for_each(|sender| sender.send(FRAMES));
            // No process captures this queue, so it is the host's.
            senders[0].send(FRAMES);
            crew_rest.wait_for(6 * FRAMES);
            assert!(wire.is_captured());
            assert_all(&end(rest, crew_rest, &[1, 2, 3]), &[1, 2, 3], 2 * FRAMES);
        } else {
            assert_all(&end(rest, crew_rest, &[1, 2, 3]), &[1, 2, 3], FRAMES);
            senders.iter_mut().for_each(|sender| sender.send(FRAMES));
            crew_one.wait_for(2 * FRAMES);
            assert!(wire.is_captured());
            assert_all(&end(one, crew_one, &[0]), &[0], 2 * FRAMES);
        }
        wire.assert_given_back();
    }
}

#[test]
fn a_holder_that_leaves_under_load_costs_the_other_no_packets() {
    need_root!("queues::a_holder_that_leaves_under_load_costs_the_other_no_packets");
    let wire = Wire::with_queues("underload", 2);
    let mut stays = wire.capture_of("in0@1", small());
    let crew = Crew::eager(stays.take_workers());
    let mut sender = wire.queue_sender(1, FrameSpec::default());
    let mut other = wire.queue_sender(0, FrameSpec::default());
    for _ in 0..10 {
        let mut comes = wire.capture_of("in0@0", small());
        let crew_of_other = Crew::eager(comes.take_workers());
        let before = other.sent();
        for _ in 0..20 {
            sender.send(32);
            other.send(32);
        }
        crew_of_other.wait_for(other.sent() - before);
        let arrivals = end(comes, crew_of_other, &[0]);
        assert_eq!(arrivals.len() as u64, other.sent() - before);
    }
    crew.wait_for(sender.sent());
    assert_all(&end(stays, crew, &[1]), &[1], sender.sent());
}

/// The dispatcher searches for a queue by bisection.
#[test]
fn the_dispatcher_finds_each_of_many_queues() {
    need_root!("queues::the_dispatcher_finds_each_of_many_queues");
    let wire = Wire::with_queues("many", 101);
    let own = [0, 1, 37, 49, 50, 51, 99, 100];
    let mut other = wire.capture_of("in0@36,98", small().chunks_per_pool(2));
    let mut capture = wire.capture_of("in0@0-1,37,49-51,99-100", small().chunks_per_pool(2));
    let crew = Crew::eager(capture.take_workers());
    let others = Crew::eager(other.take_workers());
    for queue in [36, 38, 48, 98].into_iter().chain(own) {
        wire.queue_sender(queue, FrameSpec::default()).send(10);
    }
    crew.wait_for(80);
    others.wait_for(20);
    assert_all(&end(capture, crew, &own), &own, 10);
    assert_all(&end(other, others, &[36, 98]), &[36, 98], 10);
}

/// Founders race, and members join while the last one leaves: each process that opens a queue gets its
/// packets.
#[test]
fn holders_that_come_and_go_concurrently_get_their_queues() {
    need_root!("queues::holders_that_come_and_go_concurrently_get_their_queues");
    let wire = Wire::with_queues("comeandgo", 4);
    thread::scope(|scope| {
        for queue in 0..4 {
            let wire = &wire;
            scope.spawn(move || {
                let mut sender = wire.queue_sender(queue, FrameSpec::default());
                for _ in 0..25 {
                    let mut capture = wire.capture_of(&format!("in0@{queue}"), small().chunks_per_pool(2));
                    let crew = Crew::eager(capture.take_workers());
                    sender.send(10);
                    crew.wait_for(10);
                    assert_eq!(end(capture, crew, &[queue]).len(), 10);
                }
            });
        }
    });
    wire.assert_given_back();
}

/// The kernel itself does not release a receive queue with a socket.
#[test]
fn captured_queues_cannot_be_removed() {
    need_root!("queues::captured_queues_cannot_be_removed");
    let wire = Wire::with_queues("kept", 4);
    let capture = wire.capture_of("in0@0-2", small());
    wire.veth.a().set_channels(2, 2).unwrap();
    wire.veth.b().set_channels(2, 2).expect_err("queue 2 has a socket");
    wire.veth.b().set_channels(3, 3).unwrap();
    let report = capture.finish();
    assert_eq!((report.ports[0].warnings.len(), report.ports[0].queues.len()), (0, 3), "{report:#?}");
    wait_until("the queue is released", || wire.veth.b().set_channels(2, 2).is_ok());
}

#[test]
fn one_process_may_capture_several_sets_as_ports() {
    need_root!("queues::one_process_may_capture_several_sets_as_ports");
    let wire = Wire::with_queues("sets", 4);
    let builder = small().port("in0@3").port("xdp:in0@0,2");
    let mut capture = wire.inside.enter(|| builder.open()).unwrap();
    let crew = Crew::eager(capture.take_workers());
    senders(&wire, 0..4).iter_mut().for_each(|sender| sender.send(FRAMES));
    crew.wait_for(3 * FRAMES);
    capture.stopper().stop();
    let arrivals = crew.join();
    let came = check::in_order(&arrivals);
    assert_eq!(came.keys().copied().collect::<Vec<_>>(), [(0, 3), (1, 0), (1, 2)]);
    let report = capture.finish();
    assert_eq!(check::account_closed(&report).delivered, 3 * FRAMES);
    let names: Vec<_> = report.ports.iter().map(|port| port.name.as_str()).collect();
    assert_eq!(names, ["in0@3", "in0@0,2"]);
    wire.assert_given_back();
}

#[test]
fn queues_are_shared_in_generic_mode_too() {
    need_root!("queues::queues_are_shared_in_generic_mode_too");
    let addresses_b = vec!["198.19.0.1/15".into()];
    let wire = Wire::new("generic", VethOptions { queues: 4, addresses_b, ..VethOptions::default() });
    let mut some = wire.capture_of("xdp:in0@0-1", small().modes(Modes::Generic));
    // The founder has chosen the mode: it is the best that is left.
    let mut others = wire.capture_of("xdp:in0@2-3", small());
    let [fallback] = others.report().ports[0].fallbacks[..1].to_vec().try_into().unwrap();
    let shared = Diagnostic::SharedXdpMode { wanted: XdpMode::Native, shared: XdpMode::Generic };
    assert_eq!(fallback, shared);
    let again = others.report().ports[0].fallbacks[1..].contains(&fallback);
    assert!(!again, "the fallback is the same for zero-copy and copy, and is reported once");
    let crews = (Crew::eager(some.take_workers()), Crew::eager(others.take_workers()));
    senders(&wire, 0..4).iter_mut().for_each(|sender| sender.send(20));
    wait_until("every frame is captured", || crews.0.arrived() + crews.1.arrived() == 80);
    assert!(crews.0.arrived() > 0 && crews.1.arrived() > 0);
    for (capture, crew, queues) in [(some, crews.0, [0, 1]), (others, crews.1, [2, 3])] {
        capture.stopper().stop();
        let arrivals = crew.join();
        assert!(arrivals.iter().all(|arrival| queues.contains(&arrival.queue)));
        check::account_closed(&capture.finish());
    }
}

#[test]
fn each_holder_has_its_own_filter_and_timestamps() {
    need_root!("queues::each_holder_has_its_own_filter_and_timestamps");
    let wire = Wire::with_queues("ownfilter", 3);
    // All frames are UDP frames.
    let wants = small().filter("udp").timestamp(Timestamp::Kernel);
    let refuses = small().filter("tcp").unmatched(UnmatchedPolicy::Drop).timestamp(Timestamp::Batch);
    let mut captures = [("in0@0", wants), ("in0@1", refuses), ("in0@2", small().modes(Modes::Copy))]
        .map(|(port, builder)| wire.capture_of(port, builder));
    let crews = captures.each_mut().map(|capture| Crew::eager(capture.take_workers()));
    senders(&wire, 0..3).iter_mut().for_each(|sender| sender.send(FRAMES));
    wait_until("all wanted frames arrive", || crews.iter().map(Crew::arrived).sum::<u64>() == 2 * FRAMES);
    wait_until("all unwanted frames are filtered", || captures[1].report().total().filtered == FRAMES);
    let reports = captures.map(|capture| {
        capture.stopper().stop();
        capture.finish()
    });
    crews.into_iter().for_each(|crew| drop(crew.join()));
    let sums = reports.each_ref().map(|report| {
        let account = check::account_closed(report);
        (
            account.filtered,
            account.delivered,
            report.ports[0].timestamp.source,
            report.ports[0].timestamp.unstamped,
        )
    });
    assert_eq!(sums[0], (0, FRAMES, Timestamp::Kernel, 0));
    assert_eq!(sums[1], (FRAMES, 0, Timestamp::Batch, 0));
    assert_eq!(sums[2], (0, FRAMES, Timestamp::Batch, 0));

    let hardware = small().timestamp(Timestamp::Hardware);
    let error = wire.try_capture_of("in0@0", hardware).map(drop).unwrap_err();
    assert!(
        matches!(&error, Error::NoHardwareTimestamps { reason: NicDataRefusal::SomeQueues, .. }),
        "{error:?}"
    );
}

/// Sends `each` frames of each of these lengths, in many flows, so that they spread over all queues.
fn send_lengths(wire: &Wire, lengths: &[usize], each: u64, mut keep_up: impl FnMut(u64)) {
    let mut sender = wire.packet_sender();
    for &len in lengths {
        let mut template = Template::new(FrameSpec { len, ..FrameSpec::default() }).unwrap();
        for sequence in 0..each {
            sender.send(template.stamp(sequence as u32, sequence)).unwrap();
            keep_up(sender.frames());
        }
    }
}

#[test]
fn a_holder_that_can_splits_long_frames_and_another_counts_them() {
    need_root!("queues::a_holder_that_can_splits_long_frames_and_another_counts_them");
    let wire = Wire::new("mixed", VethOptions { queues: 2, mtu: 9_000, ..VethOptions::default() });
    let mut splits = wire.capture_of("in0@0", small().modes(Modes::Copy).cells_per_chunk(64));
    // With M = 8, packets are not split. Packets of several buffers have to be counted by their whole length.
    let mut whole = wire.capture_of("in0@1", small().cells_per_chunk(8).chunks_per_pool(64));
    let crews = (Crew::eager(splits.take_workers()), Crew::eager(whole.take_workers()));
    let (lengths, each) = ([60, 1_700, 1_800, 4_000, 9_014], 100);
    // All split frames arrive; the others are at least seen.
    let taken = || crews.0.arrived() + whole.report().total().seen;
    send_lengths(&wire, &lengths, each, |sent| {
        if sent % 32 == 0 {
            wait_until("the frames are taken", || taken() == sent);
        }
    });
    wait_until("all frames are taken", || taken() == 5 * each);
    splits.stopper().stop();
    whole.stopper().stop();
    let (long, short) = (crews.0.join(), crews.1.join());
    let (splits, whole) = (splits.finish(), whole.finish());
    assert!(splits.ports[0].multi_buffer && !whole.ports[0].multi_buffer);
    assert!(whole.ports[0].queues[0].mode == QueueMode::Copy, "native, as the founder has it");
    let (all, some) = (check::account_closed(&splits), check::account_closed(&whole));
    assert!(
        all.seen > 0 && all.seen % 5 == 0 && some.seen > 0 && some.seen % 5 == 0,
        "each flow has one frame of each length"
    );
    assert_eq!((all.delivered, all.lost.total()), (all.seen, 0));
    assert_eq!((some.delivered, some.lost.too_long), (some.seen / 5 * 2, some.seen / 5 * 3));
    assert_eq!((some.lost.total(), short.len() as u64), (some.lost.too_long, some.delivered));
    assert!(long.iter().all(|arrival| lengths.contains(&arrival.bytes.len())));
    assert_eq!(long.iter().filter(|arrival| arrival.parts == 6).count() as u64, all.seen / 5);
}

#[test]
fn a_holder_that_joins_others_without_several_buffers_still_splits_and_reports_that() {
    need_root!("queues::a_holder_that_joins_others_without_several_buffers_still_splits_and_reports_that");
    let wire = Wire::new("nofrags", VethOptions { queues: 2, mtu: 3_000, ..VethOptions::default() });
    let whole = wire.capture_of("in0@0", small().cells_per_chunk(8).chunks_per_pool(64));
    let mut splits = wire.capture_of("in0@1", small().modes(Modes::Copy).cells_per_chunk(64));
    let fallbacks = splits.report().ports[0].fallbacks.clone();
    assert!(fallbacks.contains(&Diagnostic::SharedWithoutFrames), "{fallbacks:?}");
    let crew = Crew::eager(splits.take_workers());
    let spec = FrameSpec { len: 3_014, ..FrameSpec::default() };
    wire.queue_sender(1, spec).send(50);
    crew.wait_for(50);
    splits.stopper().stop();
    let arrivals = crew.join();
    assert!(arrivals.iter().all(|arrival| arrival.parts == 2));
    check::intact(&arrivals, spec);
    assert_eq!(check::account_closed(&splits.finish()).delivered, 50);
    assert_eq!(check::account_closed(&whole.finish()).seen, 0);
}
