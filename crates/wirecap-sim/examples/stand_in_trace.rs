//! Writes the traffic that stands in for the paper's trace as a pcap file, for `wirecap profile`.
//!
//! ```text
//!   skew::traffic(6): runs of packets of each queue ─► a flow that RSS puts there ─► headers ─► FILE.pcap
//! ```
//!
//! Each run belongs to one flow of its queue. The first flows have the most runs, so that the sizes of flows
//! are heavy-tailed. The queue of a flow is computed with Microsoft's key and a table of 128 entries. With
//! fewer or more queues than six, or another key, the flows spread anew, which a profile then shows.
//!
//! Packets are 60 bytes long, of which 42 are kept: headers.
#![forbid(unsafe_code)]

use std::{
    env,
    fs::File,
    io::{BufWriter, Write},
    process::ExitCode,
};

use anyhow::{Context, Result};
use wirecap_file::{LINK_TYPE_ETHERNET, PacketHeader, pcap};
use wirecap_profile::{
    Rss,
    rss::{FirstHeader, HashFields, IndirectionTable, RssKey},
};
use wirecap_sim::{
    experiments::skew,
    random::pareto,
    traffic::{Arrivals, Run},
};
use wirecap_traffic::Random;

/// As in Figure 3 of the paper.
const QUEUES: usize = 6;
/// Flows of each queue.
const FLOWS: usize = 2_000;
/// The shape of the distribution of runs over flows: a few flows have most runs.
const SHAPE: f64 = 0.7;
const ORIGINAL_LEN: u32 = 60;
const SEED: u64 = 1;

fn main() -> ExitCode {
    let Some(path) = env::args_os().nth(1) else {
        eprintln!("usage: stand_in_trace FILE.pcap");
        return ExitCode::from(2);
    };
    match File::create(&path).context("cannot create the file").and_then(|file| write(BufWriter::new(file))) {
        Ok(packets) => {
            eprintln!("{packets} packets in {}", path.to_string_lossy());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("stand_in_trace: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn write(mut file: impl Write) -> Result<u64> {
    let traffic = skew::traffic(QUEUES, SEED);
    let flows = flows()?;
    let mut random = Random::new(SEED);
    let mut queues: Vec<Queue<'_>> = traffic.queues.iter().map(|runs| Queue::new(runs)).collect();
    let mut out = Vec::new();
    pcap::file_header(&mut out, LINK_TYPE_ETHERNET, 0);
    let mut packets = 0;
    // By time: the queue whose next packet is the earliest.
    while let Some((queue, time_ns)) = earliest(&queues) {
        let frame = &flows[queue][queues[queue].next_flow(&mut random)];
        let header = PacketHeader {
            timestamp_ns: time_ns as u64,
            original_len: ORIGINAL_LEN,
            ..PacketHeader::default()
        };
        pcap::packet(&mut out, &header, 0, [frame.as_slice()]);
        packets += 1;
        if out.len() > 1 << 20 {
            file.write_all(&out)?;
            out.clear();
        }
    }
    file.write_all(&out)?;
    file.flush()?;
    Ok(packets)
}

fn earliest(queues: &[Queue<'_>]) -> Option<(usize, f64)> {
    let next =
        queues.iter().enumerate().filter_map(|(number, queue)| Some((number, queue.arrivals.time_ns(0)?)));
    next.min_by(|(_, one), (_, other)| one.total_cmp(other))
}

/// The packets of a queue that are still to come.
struct Queue<'t> {
    arrivals: Arrivals<'t>,
    runs: std::slice::Iter<'t, Run>,
    /// Packets of the current run that are still to come, and its flow.
    left: u64,
    flow: usize,
}

impl<'t> Queue<'t> {
    fn new(runs: &'t [Run]) -> Self {
        Self { arrivals: Arrivals::new(runs), runs: runs.iter(), left: 0, flow: 0 }
    }

    /// Takes the next packet; returns its flow.
    fn next_flow(&mut self, random: &mut Random) -> usize {
        if self.left == 0 {
            self.left = self.runs.next().map_or(u64::MAX, |run| run.packets);
            self.flow = (pareto(random, 1.0, SHAPE) as usize - 1).min(FLOWS - 1);
        }
        self.left -= 1;
        self.arrivals.take(f64::MAX, 1);
        self.flow
    }
}

/// Frames of the flows of each queue.
fn flows() -> Result<Vec<Vec<Vec<u8>>>> {
    let rss = Rss::new(&RssKey::default(), IndirectionTable::equal(QUEUES)?, HashFields::Ports);
    let mut flows = vec![Vec::new(); QUEUES];
    for number in 0_u32.. {
        let frame = frame(number);
        let queue = &mut flows[rss.queue(&frame, FirstHeader::Ethernet)];
        if queue.len() < FLOWS {
            queue.push(frame);
        }
        if flows.iter().all(|queue| queue.len() == FLOWS) {
            break;
        }
    }
    Ok(flows)
}

/// Ethernet, IPv4 and UDP, with addresses for benchmarking (RFC 2544).
fn frame(number: u32) -> Vec<u8> {
    let [_, b, c, d] = number.to_be_bytes();
    let ports = [(1024 + number % 60_000) as u16, 443].map(u16::to_be_bytes).concat();
    [
        &[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00][..],
        &[0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0, 198, 18 | b & 1, c, d, 198, 19, 0, 1],
        &ports,
        &[0, 26, 0, 0],
    ]
    .concat()
}
