//! The engine's own cost: the `null` port, one worker, one cache line of each packet read.
use std::time::Instant;
use wirecap::{Capture, Dispatch, Mode, Wait, port::null::NullPort};
fn main() {
    for dispatch in if std::env::var("PULL").is_ok() {
        vec![Dispatch::Pull]
    } else {
        vec![Dispatch::Pull, Dispatch::Push]
    } {
        let packets = 100_000_000;
        let mut capture = Capture::builder()
            .port(NullPort { queues: 1, packet_bytes: 60, packets_per_queue: packets })
            .mode(Mode::Basic)
            .dispatch(dispatch)
            .wait(Wait::Busy)
            .chunks_per_pool(std::env::var("R").map_or(16, |r| r.parse().unwrap()))
            .open()
            .unwrap();
        let mut worker = capture.take_workers().pop().unwrap();
        let started = Instant::now();
        let (mut seen, mut sum) = (0u64, 0u64);
        while seen < packets {
            let batch = worker.next_batch().unwrap();
            for packet in &batch {
                sum += u64::from(packet.data()[0]);
                seen += 1;
            }
        }
        let ns = started.elapsed().as_nanos() as f64 / packets as f64;
        println!("{dispatch:?} {ns:.2} ns/packet {sum}");
        drop(worker);
        let r = capture.finish();
        println!("{:?} {}", r.total(), r.memory.pages);
    }
}
