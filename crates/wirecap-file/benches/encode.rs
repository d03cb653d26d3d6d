//! What encoding one packet costs: `cargo bench -p wirecap-file`.
//!
//! A block of 1 MiB is filled over and over, as a worker does; the figure is the best of nine rounds, in
//! nanoseconds a packet, and next to it what copying the packet's bytes alone costs.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use wirecap_file::{PacketHeader, pcap, pcapng};

const BLOCK_LEN: usize = 1 << 20;
const PACKETS: usize = 2_000_000;

/// Nanoseconds a packet.
fn time(mut encode: impl FnMut(&mut Vec<u8>, u64)) -> f64 {
    let mut block = Vec::with_capacity(BLOCK_LEN);
    let mut best = f64::INFINITY;
    for _ in 0..9 {
        let started = Instant::now();
        for i in 0..PACKETS as u64 {
            if block.len() + 16_384 > BLOCK_LEN {
                black_box(&block);
                block.clear();
            }
            encode(&mut block, i);
        }
        best = best.min(started.elapsed().as_nanos() as f64 / PACKETS as f64);
    }
    best
}

fn header(i: u64, len: usize) -> PacketHeader {
    PacketHeader {
        timestamp_ns: 1_700_000_000_000_000_000 + i,
        original_len: len as u32,
        queue: Some(i as u32 & 3),
        ..Default::default()
    }
}

fn main() {
    let packet = vec![0x5a_u8; 9000];
    println!("{:>8} {:>10} {:>10} {:>14} {:>14}", "bytes", "copy", "pcap", "pcapng+queue", "pcapng+q+id");
    for len in [60, 64, 128, 512, 1514, 9000] {
        let data = black_box(&packet[..len]);
        let copy = time(|out, _| out.extend_from_slice(black_box(data)));
        let classic = time(|out, i| pcap::packet(out, &header(i, len), 0, [black_box(data)]));
        let queue = time(|out, i| pcapng::packet(out, &header(i, len), 0, [black_box(data)]));
        let id = time(|out, i| {
            let header = PacketHeader { packet_id: Some(i), ..header(i, len) };
            pcapng::packet(out, &header, 0, [black_box(data)]);
        });
        println!("{len:>8} {copy:>8.1}ns {classic:>8.1}ns {queue:>12.1}ns {id:>12.1}ns");
    }
}
