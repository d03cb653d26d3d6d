//! What lies in memory is what a file has of the packets: from XDP and from taps, with and without a queue.

use std::sync::{Arc, Mutex};

use wirecap::{Batch, Capture, Direction, Modes, PcapngBlock, TapHook, Timestamp, port::null::NullPort};
use wirecap_file::{PacketHeader, pcapng};
use wirecap_testing::{
    PacketSender, SendPath, check, crew::Crew, kernel_is_at_least, need_root, wait_until, wire::Wire,
};
use wirecap_traffic::FrameSpec;

use super::builder;
use crate::tap::{self, need_tap, tagged};

/// Its blocks are those that a file gets when its packets are encoded, byte for byte, and have the times that
/// the packets had before.
fn assert_as_in_a_file(batch: &mut Batch, names_queue: bool) {
    let times = |batch: &Batch| batch.packets().map(|packet| packet.timestamp_ns()).collect::<Vec<_>>();
    let before = times(batch);
    batch.write_times();
    assert_eq!(times(batch), before);
    let blocks = batch.pcapng().expect("packets lie in memory as in a file");
    let (mut encoded, mut each) = (Vec::new(), Vec::new());
    for packet in &*batch {
        let start = encoded.len();
        let header = PacketHeader {
            timestamp_ns: packet.timestamp_ns(),
            original_len: packet.original_len() as u32,
            interface: batch.port() as u32,
            queue: names_queue.then(|| batch.queue().into()),
            packet_id: None,
            outbound: packet.known_direction().map(|direction| direction == Direction::Out),
        };
        pcapng::packet(&mut encoded, &header, 0, packet.parts());
        let len = (encoded.len() - start) as u32;
        each.push(PcapngBlock { timestamp_ns: header.timestamp_ns, len });
    }
    assert!(blocks.bytes() == encoded, "{:02x?} is {:02x?}", blocks.bytes(), encoded);
    assert_eq!((blocks.collect::<Vec<_>>(), each.len()), (each, batch.len()));
}

#[test]
fn batches_are_what_a_file_has_of_their_packets() {
    need_packing!("packed::in_files::batches_are_what_a_file_has_of_their_packets");
    const FRAMES: u64 = 200;
    let wire = Wire::with_queues("packfile", 4);
    // By port: queue 0 alone is not named.
    for (ports, names) in [(&["in0"][..], &[true][..]), (&["in0@0", "in0@1,3"], &[false, true])] {
        for timestamp in [Timestamp::Batch, Timestamp::Kernel] {
            let builder = builder().timestamp(timestamp).workers(2);
            let builder = ports.iter().fold(builder, |builder, port| builder.port(format!("xdp:{port}")));
            let mut capture = wire.inside.enter(|| builder.open()).unwrap();
            let queues: Vec<u16> = capture
                .report()
                .ports
                .iter()
                .flat_map(|port| &port.queues)
                .map(|queue| queue.queue)
                .collect();
            let reported: Vec<_> = capture.report().ports.iter().map(|port| port.names_queues()).collect();
            assert_eq!(reported, names);
            let crew = Crew::start(capture.take_workers(), move |_, batch| {
                assert_eq!(batch.pcapng().is_some(), timestamp == Timestamp::Kernel, "{timestamp}");
                assert_as_in_a_file(batch, names[batch.port()]);
            });
            for &queue in &queues {
                for len in [60, 61, 62, 63, 1_514] {
                    wire.queue_sender(queue, FrameSpec { len, ..FrameSpec::default() }).send(FRAMES);
                }
            }
            crew.wait_for(queues.len() as u64 * 5 * FRAMES);
            capture.stopper().stop();
            crew.join();
            assert_eq!(check::account_closed(&capture.finish()).lost.total(), 0);
        }
    }
}

/// If the filter in user space has refused none of them: the kernel has refused them before, or there were
/// none.
#[test]
fn batches_without_refused_packets_are_what_a_file_has_of_them() {
    need_packing!("packed::in_files::batches_without_refused_packets_are_what_a_file_has_of_them");
    const FRAMES: u64 = 500;
    let wire = Wire::with_queues("packgaps", 1);
    // The last byte of its number: every second frame.
    const EVEN: &str = "ether[51] & 1 = 0 and not protochain 99";
    for (filter, wanted) in [("udp", FRAMES), ("udp and not protochain 99", FRAMES), (EVEN, FRAMES / 2)] {
        let mut capture = wire.capture_of("xdp:in0@0", builder().filter(filter));
        let crew = Crew::start(capture.take_workers(), move |_, batch| match batch.pcapng() {
            Some(_) => assert_as_in_a_file(batch, false),
            None => assert!(wanted < FRAMES, "nothing was refused"),
        });
        wire.queue_sender(0, FrameSpec::default()).send(FRAMES);
        wait_until("all frames are accounted for", || {
            let total = capture.report().total();
            total.delivered + total.filtered >= FRAMES
        });
        capture.stopper().stop();
        let arrivals = crew.join();
        assert_eq!(check::account_closed(&capture.finish()).delivered, arrivals.len() as u64);
        assert_eq!(arrivals.len() as u64, wanted, "{filter}");
    }
}

#[test]
fn packets_in_cells_are_not_as_in_a_file() {
    need_packing!("packed::in_files::packets_in_cells_are_not_as_in_a_file");
    let wire = Wire::with_queues("packcell", 1);
    let mut capture = wire.capture(Capture::builder().modes(Modes::Copy));
    let crew = Crew::start(capture.take_workers(), |_, batch| assert!(batch.pcapng().is_none()));
    wire.queue_sender(0, FrameSpec::default()).send(1);
    crew.wait_for(1);
    capture.stopper().stop();
    crew.join();
}

/// In both directions, and with tags that were beside the packets.
#[test]
fn batches_of_a_tap_are_what_a_file_has_of_their_packets() {
    need_tap!("packed::in_files::batches_of_a_tap_are_what_a_file_has_of_their_packets");
    let wire = Wire::with_queues("tapfile", 1);
    let ifindex = wire.veth.b().ifindex().unwrap();
    for hook in [TapHook::Tcx, TapHook::Xdp] {
        let mut capture = wire
            .inside
            .enter(|| {
                tap::builder()
                    .tap_hook(hook)
                    .port(NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 0 })
                    .port("tap:in0")
                    .open()
            })
            .unwrap();
        let directions = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&directions);
        let crew = Crew::start(capture.take_workers(), move |_, batch| {
            assert_as_in_a_file(batch, false);
            keep.lock().unwrap().extend(batch.packets().map(|packet| packet.direction()));
        });
        let outside = wire.packet_sender();
        let inside = wire.inside.enter(|| PacketSender::open(ifindex, SendPath::Queueing)).unwrap();
        for mut sender in [outside, inside] {
            for tags in [&[][..], &[[0x81, 0, 0x60, 7]], &[[0x88, 0xa8, 0, 5], [0x81, 0, 0, 1]]] {
                sender.send(&tagged(tags, 1)).unwrap();
            }
        }
        crew.wait_for(6);
        capture.stopper().stop();
        crew.join();
        check::account_closed(&capture.finish());
        let directions = directions.lock().unwrap();
        let of = |direction| directions.iter().filter(|&&one| one == direction).count();
        assert_eq!((of(Direction::In), of(Direction::Out)), (3, 3), "{hook:?}");
    }
}
