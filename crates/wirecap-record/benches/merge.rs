//! What merging by time costs the writer: `cargo bench -p wirecap-record`.
//!
//! Blocks of 256 packets of 60 bytes, encoded as pcapng, come in turn from several queues, are merged, and
//! their buffers are given back. The figure is the best of fifty rounds, in nanoseconds a packet.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]
#![allow(
    dead_code,
    unused_imports,
    reason = "the modules are private: they are taken as they are, tests included"
)]

use std::{collections::VecDeque, hint::black_box, sync::mpsc::sync_channel, time::Instant};

use wirecap_file::{PacketHeader, pcapng};

#[path = "../src"]
mod record {
    pub(crate) mod block;
    pub(crate) mod buffers;
    pub(crate) mod in_place;
    pub(crate) mod merge;
    pub(crate) mod order;
    pub(crate) mod records;
    pub(crate) mod sequencer;
}

use record::{block::Block, buffers::Buffers, merge::Merger, records::Records};

const PACKETS_PER_BLOCK: u64 = 256;
/// Packets that come from one queue before the next has its turn.
const PACKETS_PER_RUN: u64 = 32;
/// As many as are under way at once: 64 blocks wait for the writer, and it collects 64.
const PACKETS: u64 = 128 * PACKETS_PER_BLOCK;

/// Blocks in the order of arrival: each queue in turn.
fn blocks(queues: u64, time_ns: impl Fn(u64, u64) -> u64) -> Vec<Block> {
    let per_queue = PACKETS / PACKETS_PER_BLOCK / queues;
    let turns = (0..per_queue).flat_map(|turn| (0..queues).map(move |queue| (turn, queue)));
    let block = |(turn, queue): (u64, u64)| {
        let mut records = Records::new(Some(0));
        let first_number = turn * PACKETS_PER_BLOCK;
        records.extend(first_number..first_number + PACKETS_PER_BLOCK, |bytes, number| {
            let timestamp_ns = time_ns(queue, number);
            let header = PacketHeader {
                timestamp_ns,
                original_len: 60,
                queue: Some(queue as u32),
                ..Default::default()
            };
            pcapng::packet(bytes, &header, 0, [[0x5a_u8; 60].as_slice()]);
            timestamp_ns
        });
        Block { queue: queue as usize, numbers: first_number..first_number + PACKETS_PER_BLOCK, records }
    };
    turns.map(block).collect()
}

/// Nanoseconds a packet.
fn time(queues: u64, time_ns: impl Fn(u64, u64) -> u64) -> f64 {
    let (give_back, _given_back) = sync_channel(PACKETS as usize);
    let mut buffers = Buffers::new(vec![give_back]);
    let mut best = f64::INFINITY;
    for _ in 0..50 {
        let (blocks, mut out) = (blocks(queues, &time_ns), VecDeque::new());
        let mut merger = Merger::new(queues as usize);
        let started = Instant::now();
        for (at, block) in blocks.into_iter().enumerate() {
            merger.accept(block);
            // The writer takes several blocks at once when it is busy.
            if at % 16 == 15 {
                merger.merge(&mut out, &mut buffers);
                out.drain(..).for_each(|records| buffers.give_back(black_box(records)));
            }
        }
        merger.force(0, &mut out, &mut buffers);
        out.drain(..).for_each(|records| buffers.give_back(black_box(records)));
        best = best.min(started.elapsed().as_nanos() as f64 / PACKETS as f64);
    }
    best
}

fn main() {
    println!("{:>8} {:>16} {:>16} {:>16}", "queues", "not overlapping", "runs of 32", "one by one");
    for queues in [1, 2, 4, 16] {
        let turn = |number: u64| number / PACKETS_PER_BLOCK;
        // Times of a batch are 1 ns apart, and the next batch is a while later.
        let apart = time(queues, |queue, number| {
            (turn(number) * queues + queue) * 10_000 + number % PACKETS_PER_BLOCK
        });
        let run = |number: u64| number / PACKETS_PER_RUN;
        let runs = time(queues, |queue, number| {
            (run(number) * queues + queue) * PACKETS_PER_RUN + number % PACKETS_PER_RUN
        });
        let interleaved = time(queues, |queue, number| number * queues + queue);
        println!("{queues:>8} {apart:>14.2}ns {runs:>14.2}ns {interleaved:>14.2}ns");
    }
}
