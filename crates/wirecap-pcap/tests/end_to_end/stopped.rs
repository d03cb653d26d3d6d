//! A program that is stopped for a burst.

use std::time::Duration;

use nix::sys::signal::Signal;
use wirecap_lab::VethOptions;
use wirecap_testing::need_root;
use wirecap_traffic::{FrameSpec, Marks};

use crate::rig::{Library, PORT, Rig, packets};

const BURST: u64 = 100_000;
const BURSTS: u64 = 50;
/// 256 cells each: more than a burst.
const CHUNKS: &str = "400";

#[test]
fn a_stopped_tcpdump_loses_no_packet_of_a_burst_that_its_pool_holds() {
    need_root!("a_stopped_tcpdump_loses_no_packet_of_a_burst_that_its_pool_holds");
    let rig = Rig::new("stopped");
    let file = rig.path("bursts.pcap");
    let mut sender = rig.wire.generator(FrameSpec::default());
    let settings = [("WIRECAP_M", "256"), ("WIRECAP_R", CHUNKS)];
    let arguments = ["-i", PORT, "-U", "-Z", "root", "-w", file.to_str().unwrap()];
    let program = rig.spawn_with(Library::Wirecap, &settings, "tcpdump", &arguments);
    program.running.wait_for("listening on");
    for bursts in 1..=BURSTS {
        program.running.signal(Signal::SIGSTOP);
        let sent = rig.wire.live(&mut sender, 0, BURST);
        assert_eq!((sent.frames, sent.dropped), (BURST, 0), "the wire is lossless");
        program.running.signal(Signal::SIGCONT);
        // A header of 16 bytes before each packet.
        program.running.wait_for_bytes(&file, 24 + bursts * BURST * (16 + 60));
    }
    program.running.signal(Signal::SIGINT);
    let ended = program.wait();
    for words in ["5000000 packets captured", "\n0 packets dropped by kernel"] {
        assert!(ended.stderr.contains(words), "{ended:#?}");
    }
    let numbers = packets(&file).into_iter().map(|packet| Marks::read(&packet.data).unwrap().sequence);
    assert!(numbers.eq(0..BURST * BURSTS), "each once, in order");
}

/// Packets of all queues in the order of their times, as with libpcap, which has one ring: while the program
/// keeps up, and after it was stopped.
#[test]
fn packets_of_several_queues_come_in_the_order_of_time() {
    const QUEUES: u16 = 4;
    need_root!("packets_of_several_queues_come_in_the_order_of_time");
    let rig = Rig::with("ordered", VethOptions { queues: QUEUES.into(), ..VethOptions::default() });
    let mut senders: Vec<_> =
        (0..QUEUES).map(|queue| rig.wire.queue_sender(queue, FrameSpec::default())).collect();
    for settings in ["", "?xdp_mode=copy&timestamp=kernel"] {
        let file = rig.path("ordered.pcap");
        let device = format!("{PORT}{settings}");
        let arguments = ["-i", &device, "-U", "-Z", "root", "--nano", "-w", file.to_str().unwrap()];
        let program = rig.spawn(Library::Wirecap, "tcpdump", &arguments);
        program.running.wait_for("listening on");
        let mut sent = 0;
        let mut send = |turns: u64| {
            for turn in 0..turns {
                // Some queues get several in a row, and some none.
                let queue = (turn * turn % 7 % u64::from(QUEUES)) as usize;
                senders[queue].send(1 + turn % 3);
                sent += 1 + turn % 3;
                // Pauses of up to 0.8 ms: ports hold packets back for a few milliseconds, each queue since
                // another time.
                if turn % 5 == 0 {
                    std::thread::sleep(Duration::from_micros(turn * 37 % 800));
                }
            }
            sent
        };
        send(3_000);
        program.running.signal(Signal::SIGSTOP);
        let sent = send(3_000);
        program.running.signal(Signal::SIGCONT);
        program.running.wait_for_bytes(&file, 24 + sent * (16 + 60));
        program.running.signal(Signal::SIGINT);
        program.succeed();
        let packets = packets(&file);
        assert_eq!(packets.len() as u64, sent, "{settings}");
        let back = packets.windows(2).filter(|pair| pair[1].timestamp_ns < pair[0].timestamp_ns).count();
        assert_eq!(back, 0, "{settings}: times that go back, of {sent}");
        std::fs::remove_file(&file).unwrap();
    }
}
