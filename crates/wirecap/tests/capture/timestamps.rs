//! Times of packets: of arrival, not of reading; in order; with their source in the report.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use wirecap::{
    Capture, Diagnostic, Dispatch, Error, Mode, Modes, Report, Timestamp, diagnostic::NicDataRefusal,
    port::null::NullPort, report::Clock,
};
use wirecap_lab::VethOptions;
use wirecap_traffic::{FrameSpec, Marks};

use wirecap_testing::{
    check,
    crew::{Arrival, Crew},
    gate::Gate,
    need_root,
    wire::{Wire, give_it_a_chance},
};

pub(crate) fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// The times of a run, on the system clock, and the captured packets.
struct Run {
    /// Before the first frame was sent, after the last, and when the worker was let go.
    begun_ns: u64,
    sent_ns: u64,
    released_ns: u64,
    /// The frame that held the worker up, and those that waited behind it, in order.
    first: Arrival,
    waited: Vec<Arrival>,
    report: Report,
}

/// Frames wait in the ring for a tenth of a second, behind a worker that waits at a gate with an earlier
/// frame.
fn frames_that_wait(label: &str, source: Timestamp, modes: Modes) -> Run {
    const FRAMES: u64 = 40;
    let wire = Wire::with_queues(label, 1);
    let builder = Capture::builder().cells_per_chunk(64).chunks_per_pool(4).modes(modes).timestamp(source);
    let mut capture = wire.capture(builder);
    let gate = Gate::closed();
    let at_gate = gate.clone();
    let (holds, held) = std::sync::mpsc::channel();
    let crew = Crew::start(capture.take_workers(), move |_, _| {
        let _ = holds.send(());
        at_gate.pass();
    });
    let mut sender = wire.queue_sender(0, FrameSpec::default());
    sender.send(1);
    held.recv().unwrap();
    let begun_ns = now_ns();
    sender.send(FRAMES);
    let sent_ns = now_ns();
    give_it_a_chance();
    let released_ns = now_ns();
    gate.open();
    crew.wait_for(1 + FRAMES);
    capture.stopper().stop();
    let arrivals = crew.join();
    let report = capture.finish();
    assert_eq!(check::account_closed(&report).delivered, 1 + FRAMES);
    check::pools_whole(&report);
    let queues = check::in_order(&arrivals);
    let packets = &queues[&(0, 0)];
    check::increasing(&check::intact(packets.iter().copied(), FrameSpec::default()));
    let mut packets = packets.iter().map(|&arrival| arrival.clone());
    let first = packets.next().unwrap();
    Run { begun_ns, sent_ns, released_ns, first, waited: packets.collect(), report }
}

/// Both dispatches, with packets in cells and in blocks.
fn ways() -> impl Iterator<Item = (Dispatch, Modes)> {
    let both = [Dispatch::Pull, Dispatch::Push].into_iter();
    both.flat_map(|dispatch| [Modes::Copy, Modes::Best].map(|modes| (dispatch, modes)))
}

/// Clocks of two programs on one machine differ by less than this.
const CLOCK_NS: u64 = 1_000_000;

#[test]
fn kernel_times_are_arrival_times_in_every_mode() {
    need_root!("timestamps::kernel_times_are_arrival_times_in_every_mode");
    let ways = [("stampnat", Modes::Copy), ("stampgen", Modes::Generic), ("stamppack", Modes::Best)];
    for (label, modes) in ways {
        let run = frames_that_wait(label, Timestamp::Kernel, modes);
        check::mode(&run.report, modes);
        for arrival in &run.waited {
            let time_ns = arrival.timestamp_ns;
            assert!(run.begun_ns <= time_ns + CLOCK_NS, "{modes:?}: {time_ns} before {}", run.begun_ns);
            assert!(time_ns <= run.sent_ns + CLOCK_NS, "{modes:?}: {time_ns} after {}", run.sent_ns);
        }
        // Each packet was stamped separately: they are not 1 ns apart.
        let (first, last) = (run.waited[0].timestamp_ns, run.waited[run.waited.len() - 1].timestamp_ns);
        assert!(last - first > 10 * run.waited.len() as u64, "{modes:?}: all in {} ns", last - first);
        let port = &run.report.ports[0];
        assert_eq!((port.timestamp.source, port.timestamp.unstamped), (Timestamp::Kernel, 0), "{modes:?}");
        assert_eq!(port.timestamp.uncertainty, None, "{modes:?}");
        assert!(run.waited.iter().all(|arrival| arrival.uncertainty_ns < 1_000), "{modes:?}");
        assert_eq!(port.timestamp.clock, Clock::Monotonic, "{:?}", port.timestamp);
        assert!((1..1_000_000).contains(&port.timestamp.resolution_ns), "{:?}", port.timestamp);
    }
}

/// The worker has not looked at the ring while the packets came: their times are late, and the batch states
/// by how much.
#[test]
fn batch_times_are_uncertain_by_the_time_without_a_look() {
    need_root!("timestamps::batch_times_are_uncertain_by_the_time_without_a_look");
    for modes in [Modes::Copy, Modes::Best] {
        let run = frames_that_wait("stampbat", Timestamp::Batch, modes);
        check::mode(&run.report, modes);
        let timestamp = &run.report.ports[0].timestamp;
        assert_eq!((timestamp.source, timestamp.unstamped), (Timestamp::Batch, 0));
        let bound_ns = timestamp.error_bound_ns.unwrap_or(0);
        assert!(bound_ns < CLOCK_NS, "{timestamp:?}");
        for arrival in &run.waited {
            assert!(
                arrival.timestamp_ns + bound_ns >= run.released_ns,
                "{} is too early",
                arrival.timestamp_ns
            );
            assert!(arrival.timestamp_ns <= now_ns());
            let earliest_ns = arrival.timestamp_ns - arrival.uncertainty_ns;
            assert!(
                earliest_ns <= run.begun_ns + bound_ns,
                "{arrival:?}: the last look was before {}",
                run.begun_ns
            );
        }
        let uncertainty = timestamp.uncertainty.expect("packets were captured");
        let all = run.waited.iter().chain([&run.first]);
        let worst_ns = all.map(|arrival| arrival.uncertainty_ns).max();
        assert_eq!((uncertainty.packets, Some(uncertainty.max_ns)), (1 + run.waited.len() as u64, worst_ns));
        assert!(uncertainty.max_ns >= run.released_ns - run.sent_ns, "{uncertainty:?}");
    }
}

/// Frames seen in the ring and taken later have the time at which they were seen.
#[test]
fn batch_times_are_those_of_the_look_that_saw_the_packets() {
    need_root!("timestamps::batch_times_are_those_of_the_look_that_saw_the_packets");
    const FRAMES: u64 = 200;
    // With a filter in user space, cells are taken differently.
    let filters = [("stamplook", ""), ("stampsift", "greater 1 or ip6 protochain 17")];
    let ways = [Modes::Copy, Modes::Best].into_iter().flat_map(|modes| filters.map(|filter| (modes, filter)));
    for (modes, (label, filter)) in ways {
        let wire = Wire::with_queues(label, 1);
        let builder = Capture::builder().cells_per_chunk(64).chunks_per_pool(8).workers(1).filter(filter);
        let mut capture = wire.capture(builder.modes(modes).timestamp(Timestamp::Batch));
        let begun_ns = now_ns();
        wire.queue_sender(0, FrameSpec::default()).send(FRAMES);
        let sent_ns = now_ns();
        let gate = Gate::closed();
        let at_gate = gate.clone();
        let (holds, held) = std::sync::mpsc::channel();
        let crew = Crew::start(capture.take_workers(), move |_, _| {
            let _ = holds.send(());
            at_gate.pass();
        });
        held.recv().unwrap();
        let held_ns = now_ns();
        give_it_a_chance();
        gate.open();
        crew.wait_for(FRAMES);
        capture.stopper().stop();
        let arrivals = crew.join();
        let report = capture.finish();
        check::mode(&report, modes);
        check::account_closed(&report);
        let queues = check::in_order(&arrivals);
        let packets = &queues[&(0, 0)];
        check::increasing(&check::intact(packets.iter().copied(), FrameSpec::default()));
        assert_eq!(packets.len() as u64, FRAMES);
        // With a filter, cells are taken until enough are wanted: packets may come until then.
        let latest_ns = if filter.is_empty() { held_ns } else { now_ns() };
        for arrival in packets {
            let (time_ns, uncertainty_ns) = (arrival.timestamp_ns, arrival.uncertainty_ns);
            assert!(sent_ns <= time_ns + CLOCK_NS && time_ns <= latest_ns + CLOCK_NS, "{arrival:?}");
            assert!(time_ns - uncertainty_ns <= begun_ns + CLOCK_NS, "{arrival:?}");
        }
    }
}

/// Each frame came no later than its time, and no earlier than its uncertainty allows, whatever the workers
/// do.
#[test]
fn every_packet_came_within_its_uncertainty_even_with_slow_workers_and_offloading() {
    need_root!("timestamps::every_packet_came_within_its_uncertainty_even_with_slow_workers_and_offloading");
    const FRAMES: u64 = 2_000;
    for (dispatch, modes) in ways() {
        let wire = Wire::with_queues("stampslow", 2);
        let builder = Capture::builder().cells_per_chunk(64).chunks_per_pool(64).dispatch(dispatch);
        let mut capture =
            wire.capture(builder.modes(modes).mode(Mode::advanced(1).unwrap()).timestamp(Timestamp::Batch));
        let crew = Crew::start(capture.take_workers(), |_, _| std::thread::sleep(Duration::from_millis(5)));
        // The times before each group of frames was sent, and when it was certainly on the other side.
        let mut between_ns = [Vec::new(), Vec::new()];
        let mut senders = [0, 1].map(|queue| wire.queue_sender(queue, FrameSpec::default()));
        while senders[0].sent() < FRAMES {
            for (sender, between_ns) in senders.iter_mut().zip(&mut between_ns) {
                let sent_ns = now_ns();
                sender.send(50);
                between_ns.push((sent_ns, now_ns()));
            }
        }
        crew.wait_for(2 * FRAMES);
        capture.stopper().stop();
        let arrivals = crew.join();
        let report = capture.finish();
        check::mode(&report, modes);
        check::account_closed(&report);
        check::in_order(&arrivals);
        for arrival in &arrivals {
            let sequence = Marks::read(&arrival.bytes).unwrap().sequence;
            let (sent_ns, over_ns) = between_ns[usize::from(arrival.queue)][sequence as usize / 50];
            assert!(
                sent_ns <= arrival.timestamp_ns + CLOCK_NS,
                "{dispatch:?}, sent at {sent_ns}: {arrival:?}"
            );
            let earliest_ns = arrival.timestamp_ns - arrival.uncertainty_ns;
            assert!(earliest_ns <= over_ns + CLOCK_NS, "{dispatch:?}, there at {over_ns}: {arrival:?}");
        }
        let worst_ns = arrivals.iter().map(|arrival| arrival.uncertainty_ns).max().unwrap();
        assert_eq!(report.ports[0].timestamp.uncertainty.unwrap().max_ns, worst_ns, "{dispatch:?}");
    }
}

/// Packets of several queues go to any idle worker. Each has the time at which it came, and the times of each
/// queue increase strictly.
#[test]
fn kernel_times_increase_strictly_in_each_queue_with_offloading() {
    need_root!("timestamps::kernel_times_increase_strictly_in_each_queue_with_offloading");
    const FRAMES: u64 = 3_000;
    for (dispatch, modes) in ways() {
        let wire = Wire::with_queues("stampoff", 4);
        let builder = Capture::builder().cells_per_chunk(64).chunks_per_pool(64).dispatch(dispatch);
        let builder = builder.modes(modes).mode(Mode::advanced(1).unwrap()).timestamp(Timestamp::Kernel);
        let mut capture = wire.capture(builder);
        let crew = Crew::eager(capture.take_workers());
        let begun_ns = now_ns();
        for queue in 0..4 {
            let before = crew.arrived();
            let mut sender = wire.queue_sender(queue, FrameSpec::default());
            sender.send_while(FRAMES, |sent| before + sent - crew.arrived() > 2_000);
            crew.wait_for(before + FRAMES);
        }
        let sent_ns = now_ns();
        capture.stopper().stop();
        let arrivals = crew.join();
        let report = capture.finish();
        check::mode(&report, modes);
        assert_eq!(check::account_closed(&report).delivered, 4 * FRAMES);
        let queues = check::in_order(&arrivals);
        assert_eq!(queues.len(), 4);
        for packets in queues.values() {
            let (first, last) = (packets[0].timestamp_ns, packets[packets.len() - 1].timestamp_ns);
            assert!(begun_ns <= first + CLOCK_NS && last <= sent_ns + CLOCK_NS, "{dispatch:?}");
        }
    }
}

#[test]
fn packets_of_several_cells_have_the_time_of_their_first_cell() {
    need_root!("timestamps::packets_of_several_cells_have_the_time_of_their_first_cell");
    // With a filter, such packets are filtered in user space, and their cells are taken differently.
    for filter in ["", "greater 1"] {
        packets_of_several_cells(filter);
    }
}

fn packets_of_several_cells(filter: &str) {
    let wire = Wire::new("stampbig", VethOptions { mtu: 9_000, ..VethOptions::default() });
    let builder = Capture::builder().cells_per_chunk(64).chunks_per_pool(8).timestamp(Timestamp::Kernel);
    let mut capture = wire.capture(builder.filter(filter).modes(Modes::Copy));
    let crew = Crew::eager(capture.take_workers());
    let mut sender = wire.packet_sender();
    // Bytes that are no time of these years, in case they are taken for one.
    let frames: Vec<Vec<u8>> = (0..200_u8).map(|n| vec![n; 60 + usize::from(n) * 44]).collect();
    let mut sent_ns = Vec::new();
    for (before, frame) in frames.iter().enumerate() {
        let begun_ns = now_ns();
        sender.send(frame).unwrap();
        sent_ns.push(begun_ns..=now_ns() + CLOCK_NS);
        crew.wait_for(before as u64);
    }
    crew.wait_for(frames.len() as u64);
    capture.stopper().stop();
    let arrivals = crew.join();
    let report = capture.finish();
    check::account_closed(&report);
    check::in_order(&arrivals);
    assert!(arrivals.iter().any(|arrival| arrival.parts == 5), "some packets have five cells");
    for ((arrival, frame), sent_ns) in arrivals.iter().zip(&frames).zip(&sent_ns) {
        assert!(arrival.bytes == *frame, "of {} bytes", frame.len());
        assert!(sent_ns.contains(&(arrival.timestamp_ns + CLOCK_NS / 2)), "{sent_ns:?}: {arrival:?}");
    }
    assert_eq!(report.ports[0].timestamp.unstamped, 0);
}

/// Each holder of queues gets the times it requested.
#[test]
fn each_holder_of_queues_gets_the_times_it_requested() {
    need_root!("timestamps::each_holder_of_queues_gets_the_times_it_requested");
    const FRAMES: u64 = 40;
    let wire = Wire::with_queues("stampown", 2);
    for (queue, source) in [(1, Timestamp::Batch), (0, Timestamp::Kernel), (1, Timestamp::Kernel)] {
        let other = wire.capture_of(&format!("in0@{}", 1 - queue), Capture::builder().chunks_per_pool(4));
        let builder = Capture::builder().chunks_per_pool(4).timestamp(source);
        let mut capture = wire.capture_of(&format!("in0@{queue}"), builder);
        let begun_ns = now_ns();
        wire.queue_sender(queue, FrameSpec::default()).send(FRAMES);
        let sent_ns = now_ns();
        give_it_a_chance();
        let released_ns = now_ns();
        let crew = Crew::eager(capture.take_workers());
        crew.wait_for(FRAMES);
        capture.stopper().stop();
        let arrivals = crew.join();
        let report = capture.finish();
        check::account_closed(&report);
        check::in_order(&arrivals);
        let timestamp = &report.ports[0].timestamp;
        assert_eq!((timestamp.source, timestamp.unstamped), (source, 0));
        let allowed = match source {
            Timestamp::Kernel => begun_ns - CLOCK_NS..=sent_ns + CLOCK_NS,
            _ => released_ns - CLOCK_NS..=now_ns(),
        };
        for arrival in &arrivals {
            assert!(allowed.contains(&arrival.timestamp_ns), "queue {queue}, {source:?}: {arrival:?}");
        }
        drop(other);
    }
}

#[test]
fn unavailable_hardware_times_are_an_error_with_the_reason() {
    need_root!("timestamps::unavailable_hardware_times_are_an_error_with_the_reason");
    let wire = Wire::with_queues("stamphw", 1);
    let hardware = || Capture::builder().chunks_per_pool(4).timestamp(Timestamp::Hardware);
    let error = wire.try_capture(hardware()).unwrap_err();
    let reason = NicDataRefusal::SoftwareOnly;
    assert!(
        matches!(&error, Error::NoHardwareTimestamps { name, reason: found } if name == "in0" && *found == reason),
        "{error:?}"
    );
    wire.assert_given_back();
    let passive = wire.inside.enter(|| hardware().port("packet:in0").open()).map(drop).unwrap_err();
    let reason = NicDataRefusal::Passive;
    assert!(
        matches!(passive, Error::NoHardwareTimestamps { reason: found, .. } if found == reason),
        "{passive}"
    );
}

#[test]
fn packets_from_memory_have_only_times_of_batches() {
    let null = || NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 0 };
    let builder = || Capture::builder().port(null()).chunks_per_pool(4);
    for source in [Timestamp::Hardware, Timestamp::Kernel] {
        let error = builder().timestamp(source).open().map(drop).unwrap_err().to_string();
        assert!(error.contains(source.as_str()) && error.contains("use batch timestamps"), "{error}");
    }
    let report = builder().timestamp(Timestamp::Batch).open().unwrap().finish();
    assert_eq!(report.ports[0].timestamp.source, Timestamp::Batch);
}

#[test]
fn beside_the_host_times_are_the_kernels_and_other_requests_are_reported() {
    need_root!("timestamps::beside_the_host_times_are_the_kernels_and_other_requests_are_reported");
    let wire = Wire::with_queues("stamppas", 1);
    for (wanted, is_reported) in
        [(None, false), (Some(Timestamp::Kernel), false), (Some(Timestamp::Batch), true)]
    {
        let builder = Capture::builder().chunks_per_pool(4).port("packet:in0");
        let builder = wanted.into_iter().fold(builder, |builder, source| builder.timestamp(source));
        let report = wire.inside.enter(|| builder.open()).unwrap().finish();
        let port = &report.ports[0];
        assert_eq!(port.timestamp.source, Timestamp::Kernel, "{wanted:?}");
        let other = Diagnostic::OtherTimestamps { wanted: Timestamp::Batch, used: Timestamp::Kernel };
        let said = port.fallbacks.contains(&other);
        assert_eq!(said, is_reported, "{wanted:?}: {:?}", port.fallbacks);
    }
}
