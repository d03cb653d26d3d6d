//! Tests of owned packets, with the port that exists only in memory.

use std::time::Duration;

use crate::{Capture, WaitOutcome, port::null::NullPort};

#[test]
fn an_owned_packet_has_the_time_of_its_first_part() {
    // Packets have three cells each, so most chunks end with the beginning of a packet, whose rest is
    // received later.
    let port = NullPort { queues: 1, packet_bytes: 5_000, packets_per_queue: 200 };
    let builder = Capture::builder().port(port).cells_per_chunk(64).chunks_per_pool(4).workers(1);
    let mut capture = builder.open().unwrap();
    let mut worker = capture.take_workers().remove(0);
    let mut packets = 0;
    while let WaitOutcome::Batch(mut batch) = worker.next_batch_within(Duration::ZERO) {
        let borrowed: Vec<_> =
            batch.packets().map(|packet| (packet.number(), packet.timestamp_ns())).collect();
        let drain = batch.drain().unwrap();
        let owned: Vec<_> = drain.map(|packet| (packet.number(), packet.timestamp_ns())).collect();
        assert_eq!(owned, borrowed);
        packets += owned.len();
    }
    assert_eq!(packets, 200);
}

#[test]
fn a_user_who_keeps_one_packet_in_twenty_gets_all_the_others() {
    const PACKETS: u64 = 5_000;
    let port = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: PACKETS };
    let builder = Capture::builder().port(port).cells_per_chunk(64).chunks_per_pool(8).workers(1);
    let mut capture = builder.open().unwrap();
    let mut worker = capture.take_workers().remove(0);
    let mut kept = Vec::new();
    let mut packets = 0;
    while let WaitOutcome::Batch(mut batch) = worker.next_batch_within(Duration::ZERO) {
        packets += batch.len() as u64;
        kept.extend(
            batch.drain().unwrap().filter(|packet| packet.number() % 20 == 0).map(|packet| packet.keep()),
        );
    }
    assert_eq!((packets, kept.len() as u64), (PACKETS, PACKETS / 20));
    let numbers: Vec<_> = kept.iter().map(|packet| packet.number()).collect();
    assert_eq!(numbers, (0..PACKETS).step_by(20).collect::<Vec<_>>());
    // No two kept packets are in one cell.
    let mut addresses: Vec<_> = kept.iter().flat_map(|packet| packet.addresses()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), kept.len());
    drop(kept);
    assert!(
        matches!(worker.next_batch_within(Duration::ZERO), WaitOutcome::Idle),
        "the call brings the kept cells home"
    );
    let queue = &capture.report().ports[0].queues[0];
    assert_eq!((queue.pool_used_percent, queue.refused, queue.foreign), (0.0, 0, 0));
}
