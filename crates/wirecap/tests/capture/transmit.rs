//! Sending that fails: packets that the driver drops or never takes, and queues that cannot send.

use std::time::Duration;

use wirecap::{Builder, Capture, Diagnostic, Refusal, Transmitter, WaitOutcome, Worker};
use wirecap_file::{PacketHeader, pcap};
use wirecap_lab::{Namespace, VethOptions, VethPair};

use wirecap_testing::{PATIENCE, need_root, wait_until};

/// here:t0 ── there:u0, where a capture listens passively
struct Link {
    here: Namespace,
    there: Namespace,
    pair: VethPair,
}

impl Link {
    fn new(label: &str, options: VethOptions) -> Self {
        let [here, there] =
            ["here", "there"].map(|place| Namespace::new(&format!("{label}_{place}")).unwrap());
        let pair = VethPair::new(&here, "t0", &there, "u0", options).unwrap();
        Self { here, there, pair }
    }

    /// A capture that can send from `t0`, with one allocator.
    fn open(&self, with: impl FnOnce(Builder) -> Builder) -> Capture {
        let builder = Capture::builder().port("xdp:t0").workers(1).transmit(64).allocators(1);
        let builder = builder.chunks_per_pool(4).cells_per_chunk(64);
        let builder = with(builder);
        self.here.enter(|| builder.open()).unwrap()
    }

    fn listen(&self) -> (Capture, Worker) {
        let open = || Capture::builder().port("packet:u0").workers(1).chunks_per_pool(4).open();
        let mut capture = self.there.enter(open).unwrap();
        let worker = capture.take_workers().remove(0);
        (capture, worker)
    }

    fn set_here(&self, what: &[&str]) {
        let name = [&["link", "set", self.pair.a().name()], what].concat();
        self.here.ip(&name).unwrap();
    }

    fn set_there(&self, what: &[&str]) {
        let name = [&["link", "set", self.pair.b().name()], what].concat();
        self.there.ip(&name).unwrap();
    }
}

fn frame(number: u8, len: usize) -> Vec<u8> {
    let mut frame = vec![number; len];
    frame[0] = 2;
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}

fn send(out: &mut Transmitter, capture: &mut Capture, frames: &[Vec<u8>]) {
    let mut allocator = capture.take_allocators().remove(0);
    for frame in frames {
        allocator.packet(frame).unwrap().forward(out).unwrap();
    }
}

fn await_frames(worker: &mut Worker, count: usize) -> Vec<Vec<u8>> {
    let mut arrived = Vec::new();
    wait_until(&format!("{count} frames"), || {
        if let WaitOutcome::Batch(batch) = worker.next_batch_within(Duration::ZERO) {
            let ours = batch.packets().map(|packet| packet.data().to_vec());
            arrived.extend(ours.filter(|frame| frame[12..14] == [0x88, 0xb5]));
        }
        arrived.len() >= count
    });
    arrived
}

#[test]
fn dropped_frames_are_counted_and_delay_nothing() {
    need_root!("transmit::dropped_frames_are_counted_and_delay_nothing");
    let link = Link::new("drops", VethOptions::default());
    // A veth drops frames that are too long for the other end.
    link.set_there(&["mtu", "600"]);
    let mut capture = link.open(|builder| builder);
    let (_far, mut listener) = link.listen();
    let mut out = capture.take_transmitters().remove(0);
    let frames: Vec<_> =
        (0..40).map(|number| frame(number, if number % 2 == 0 { 100 } else { 1_000 })).collect();
    send(&mut out, &mut capture, &frames);
    // One flush is enough: a dropped frame does not delay those behind it.
    out.flush().unwrap();
    let arrived = await_frames(&mut listener, 20);
    assert_eq!(arrived, frames.iter().step_by(2).cloned().collect::<Vec<_>>());
    assert!(out.finish(PATIENCE).unwrap());
    let port = &capture.report().ports[0];
    let sent = port.transmitted[0];
    assert_eq!((sent.packets, sent.dropped.driver, sent.in_flight), (40, 20, 0), "{sent:?}");
    assert_eq!(sent.dropped.total(), 20);
    assert_eq!(port.unsent, Some(20), "the interface has counted the drops, too");
}

#[test]
fn frames_that_a_driver_never_takes_are_refused_as_too_long() {
    need_root!("transmit::frames_that_a_driver_never_takes_are_refused_as_too_long");
    let link = Link::new("never", VethOptions { mtu: 3_400, ..VethOptions::default() });
    // Cells of 4 KiB hold all frames of this link in one piece; cells of 2 KiB do not.
    let mut capture = link.open(|builder| builder.cell_bytes(4096));
    assert!(!capture.report().ports[0].multi_buffer);
    let mut out = capture.take_transmitters().remove(0);
    let mut allocator = capture.take_allocators().remove(0);
    assert!(allocator.packet(&frame(1, 3_000)).unwrap().forward(&mut out).is_ok());
    let refused = allocator.packet(&frame(2, 3_900)).unwrap().forward(&mut out).unwrap_err();
    assert_eq!(refused.reason, Refusal::TooLong);
    drop((refused, out, allocator, capture));

    let mut capture = link.open(|builder| builder.transmit(2));
    assert!(capture.report().ports[0].multi_buffer, "{:?}", capture.report().ports[0].fallbacks);
    let (mut out, mut allocator) =
        (capture.take_transmitters().remove(0), capture.take_allocators().remove(0));
    let (_far, mut listener) = link.listen();
    assert!(allocator.packet(&frame(3, 3_000)).unwrap().forward(&mut out).is_ok(), "two cells");
    assert!(out.finish(PATIENCE).unwrap());
    assert_eq!(await_frames(&mut listener, 1), [frame(3, 3_000)]);
    drop((out, allocator, capture));

    // Longer than the ring: waiting does not help.
    let link = Link::new("ring", VethOptions { mtu: 9_000, ..VethOptions::default() });
    let mut capture = link.open(|builder| builder.transmit(2));
    let (mut out, mut allocator) =
        (capture.take_transmitters().remove(0), capture.take_allocators().remove(0));
    let refused = allocator.packet(&frame(4, 8_000)).unwrap().forward(&mut out).unwrap_err();
    assert_eq!(refused.reason, Refusal::TooLong);
    refused.give_up(&out);
    assert_eq!((out.in_flight(), capture.report().ports[0].transmitted[0].dropped.too_long), (0, 1));
    drop((out, allocator, capture));

    // The MTU is raised during the capture: it then allows frames longer than a cell.
    let link = Link::new("raised", VethOptions::default());
    let mut capture = link.open(|builder| builder);
    assert!(!capture.report().ports[0].multi_buffer);
    let (mut out, mut allocator) =
        (capture.take_transmitters().remove(0), capture.take_allocators().remove(0));
    link.set_here(&["mtu", "3400"]);
    wait_until("the MTU is known", || {
        capture.events();
        out.mtu() == 3_400
    });
    let refused = allocator.packet(&frame(5, 3_000)).unwrap().forward(&mut out).unwrap_err();
    assert_eq!(refused.reason, Refusal::TooLong);
}

#[test]
fn queues_that_do_not_send_have_no_transmitter_and_that_is_reported() {
    need_root!("transmit::queues_that_do_not_send_have_no_transmitter_and_that_is_reported");
    let link = Link::new("fewer", VethOptions { queues: 3, ..VethOptions::default() });
    let mut ethtool = link.here.command("ethtool");
    let status = ethtool.args(["-L", link.pair.a().name(), "rx", "3", "tx", "1"]).status().unwrap();
    assert!(status.success());
    let mut capture = link.open(|builder| builder);
    let transmitters = capture.take_transmitters();
    assert_eq!(transmitters.iter().map(Transmitter::queue).collect::<Vec<_>>(), [0]);
    let report = capture.report();
    let silent = |queue| Diagnostic::QueueDoesNotSend { queue, transmit_queues: 1 };
    let said = |queue| report.ports[0].fallbacks.contains(&silent(queue));
    assert!(said(1) && said(2) && !said(0), "{:?}", report.ports[0].fallbacks);
}

#[test]
fn a_batch_is_sent_by_one_system_call() {
    need_root!("transmit::a_batch_is_sent_by_one_system_call");
    let link = Link::new("kicks", VethOptions::default());
    let mut capture = link.open(|builder| builder);
    let (_far, mut listener) = link.listen();
    let mut out = capture.take_transmitters().remove(0);
    let mut allocator = capture.take_allocators().remove(0);
    for batch in 0..5 {
        // Kernels that copy take 32 packets per call.
        for number in 0..20 {
            allocator.packet(&frame(number, 80 + batch)).unwrap().forward(&mut out).unwrap();
        }
        out.flush().unwrap();
        out.flush().unwrap();
    }
    await_frames(&mut listener, 100);
    assert!(out.finish(PATIENCE).unwrap());
    let sent = capture.report().ports[0].transmitted[0];
    assert_eq!((sent.packets, sent.kicks), (100, 5), "{sent:?}");
}

#[test]
fn a_link_is_down_once_sending_fails_even_before_its_event() {
    need_root!("transmit::a_link_is_down_once_sending_fails_even_before_its_event");
    let link = Link::new("down", VethOptions::default());
    let mut capture = link.open(|builder| builder);
    let mut out = capture.take_transmitters().remove(0);
    let mut allocator = capture.take_allocators().remove(0);
    capture.events();
    link.set_here(&["down"]);
    allocator.packet(&frame(1, 80)).unwrap().forward(&mut out).unwrap();
    assert_eq!(out.flush().unwrap_err().kind(), std::io::ErrorKind::NetworkDown);
    let refused = allocator.packet(&frame(2, 80)).unwrap().forward(&mut out).unwrap_err();
    assert_eq!(refused.reason, Refusal::LinkDown);
    drop(refused);
    link.set_here(&["up"]);
    wait_until("the capture reports that the link is up", || {
        capture.events().contains(&wirecap::PortEvent::Up("t0".into()))
    });
    allocator.packet(&frame(3, 80)).unwrap().forward(&mut out).unwrap();
    assert!(out.finish(PATIENCE).unwrap());
}

#[test]
fn a_dropped_transmitter_sends_its_packets() {
    need_root!("transmit::a_dropped_transmitter_sends_its_packets");
    let link = Link::new("dropped", VethOptions::default());
    let mut capture = link.open(|builder| builder);
    let (_far, mut listener) = link.listen();
    let mut out = capture.take_transmitters().remove(0);
    let frames: Vec<_> = (0..10).map(|number| frame(number, 90)).collect();
    send(&mut out, &mut capture, &frames);
    drop(out);
    assert_eq!(await_frames(&mut listener, 10), frames);
    let sent = capture.report().ports[0].transmitted[0];
    assert_eq!((sent.packets, sent.in_flight), (10, 0), "{sent:?}");
}

#[test]
fn packets_of_a_trace_are_sent_if_they_are_frames_and_otherwise_refused_unchanged() {
    need_root!("transmit::packets_of_a_trace_are_sent_if_they_are_frames_and_otherwise_refused_unchanged");
    /// Linux cooked capture.
    const LINK_TYPE_COOKED: u16 = 113;
    let link = Link::new("cooked", VethOptions::default());
    let directory = tempfile::tempdir().unwrap();
    for (link_type, sendable) in [(1, true), (LINK_TYPE_COOKED, false)] {
        let path = directory.path().join(format!("{link_type}.pcap"));
        let mut trace = Vec::new();
        pcap::file_header(&mut trace, link_type, 0);
        let header = PacketHeader {
            timestamp_ns: 1,
            original_len: 80,
            interface: 0,
            queue: None,
            packet_id: None,
            outbound: None,
        };
        pcap::packet(&mut trace, &header, 0, [&frame(7, 80)[..]]);
        std::fs::write(&path, trace).unwrap();
        let port = format!("trace:{}", path.display());
        let mut capture = link.open(|builder| builder.port(port));
        let (mut worker, mut out) = (capture.take_workers().remove(0), capture.take_transmitters().remove(0));
        let mut seen = false;
        wait_until("the packet of the trace", || {
            let WaitOutcome::Batch(mut batch) = worker.next_batch_within(Duration::ZERO) else { return seen };
            if batch.port() == 1 {
                let mut drain = batch.drain().unwrap();
                let run = drain.forward(&mut out, |bytes| bytes[20] = 9);
                assert_eq!(run.packets == 1, sendable);
                if let Some(packet) = drain.next() {
                    assert_eq!(packet.data()[20], 7, "a refused packet is not changed");
                    assert_eq!(packet.forward(&mut out).unwrap_err().reason, Refusal::NotSendable);
                }
                seen = true;
            }
            seen
        });
    }
}
