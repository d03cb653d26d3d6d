//! The three filters of Degioanni et al., section 4.3.1, by libpcap's interpreter and by ours: cost of a
//! packet.
//!
//! As in the paper, the packets are such that all of the filter has to run before it returns: a TCP packet
//! that only the last comparisons decide. Prints one table; `cargo bench -p wirecap-filter`.

#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use wirecap_filter::{DEFAULT_SNAPLEN, Filter, LINK_TYPE_ETHERNET, NativeFilter};
use wirecap_sys::pcap;

const ROUNDS: usize = 15;
const RUNS: u32 = 400_000;

fn main() {
    let packets: Vec<Vec<u8>> = (0..64).map(packet).collect();
    println!(
        "{ROUNDS} rounds of {RUNS} packets of 60 bytes; median (least to greatest) ns a packet, and TSC cycles of the median"
    );
    println!(
        "| filter | instructions | bpf_filter | interpreter | native | bpf_filter / interpreter | bpf_filter / native |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|");
    for (name, expression) in filters() {
        row(name, &expression, &packets);
    }
}

fn row(name: &str, expression: &str, packets: &[Vec<u8>]) {
    let filter = Filter::compile(expression, LINK_TYPE_ETHERNET, DEFAULT_SNAPLEN).unwrap();
    let program = filter.program();
    let insns = program.insns().unwrap();
    let libpcap = pcap::library().unwrap().filter(&insns).unwrap();
    let native = NativeFilter::new(program).unwrap();
    let len = program.ops().len();
    let mut costs = [const { Vec::new() }; 3];
    // In turns, so that what else the machine does hits all three.
    for _ in 0..ROUNDS {
        costs[0].push(measure(packets, |packet| libpcap.run(packet, 60)));
        costs[1].push(measure(packets, |packet| program.run(packet, 60)));
        costs[2].push(measure(packets, |packet| native.matches(packet, 60)));
    }
    let [libpcap, interpreter, native] = costs.map(Cost::of);
    let ratios = [&interpreter, &native].map(|ours| libpcap.ns / ours.ns);
    println!(
        "| {name} | {len} | {libpcap} | {interpreter} | {native} | {:.2} | {:.1} |",
        ratios[0], ratios[1]
    );
}

/// Nanoseconds and cycles a packet.
fn measure(packets: &[Vec<u8>], mut run: impl FnMut(&[u8]) -> u32) -> (f64, f64) {
    let (start, start_cycles) = (Instant::now(), cycles());
    for index in 0..RUNS as usize {
        black_box(run(black_box(&packets[index % packets.len()])));
    }
    let cycles = cycles().wrapping_sub(start_cycles) as f64;
    (start.elapsed().as_nanos() as f64 / f64::from(RUNS), cycles / f64::from(RUNS))
}

fn cycles() -> u64 {
    wirecap_sys::cpu::timestamp_counter().unwrap_or(0)
}

struct Cost {
    ns: f64,
    cycles: f64,
    least: f64,
    greatest: f64,
}

impl Cost {
    fn of(mut rounds: Vec<(f64, f64)>) -> Self {
        rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (ns, cycles) = rounds[rounds.len() / 2];
        Self { ns, cycles, least: rounds[0].0, greatest: rounds[rounds.len() - 1].0 }
    }
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} ({:.1} to {:.1}), {:.0} cycles", self.ns, self.least, self.greatest, self.cycles)
    }
}

fn filters() -> [(&'static str, String); 3] {
    let any = |words: &str, from: u32, count: u32| {
        (from..from + count).map(|n| format!("{words}{n}")).collect::<Vec<_>>().join(" or ")
    };
    let (addresses, ports) = (any("host 10.9.0.", 1, 10), any("port ", 9001, 10));
    [
        ("IP only", "ip".into()),
        ("TCP port, 5 values", format!("ip and tcp and ({})", any("dst port ", 9001, 5))),
        ("10 addresses, 10 ports", format!("ip and tcp and ({addresses}) and ({ports})")),
    ]
}

/// IPv4 and TCP. The destination is the last address of the list; the ports are none of those asked for, and
/// differ from packet to packet.
fn packet(index: u16) -> Vec<u8> {
    let mut packet = vec![0; 60];
    packet[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 6]);
    packet[26..34].copy_from_slice(&[10, 1, 0, index as u8, 10, 9, 0, 10]);
    packet[34..36].copy_from_slice(&(20_000 + index).to_be_bytes());
    packet[36..38].copy_from_slice(&(30_000 + index).to_be_bytes());
    packet
}
