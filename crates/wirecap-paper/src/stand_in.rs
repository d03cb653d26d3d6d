//! The traffic that stands in for the paper's trace of a border router, as a pcap file.
//!
//! ```text
//!   skew::traffic(queues): runs of packets of each queue ─► a flow that RSS puts there ─► headers ─► FILE.pcap
//! ```
//!
//! Each run belongs to one flow of its queue. The first flows have the most runs, so that the sizes of flows
//! are heavy-tailed. The queue of a flow is computed with Microsoft's key and a table of 128 entries. With
//! fewer or more queues, or another key, the flows spread anew.
//!
//! Packets have the lengths of the simple IMIX; 42 bytes of each are kept: headers.

use std::io::Write;

use anyhow::Result;
use wirecap_file::{LINK_TYPE_ETHERNET, PacketHeader, pcap};
use wirecap_profile::{Rss, rss::FirstHeader};
use wirecap_sim::{
    random::pareto,
    traffic::{Arrivals, Run, Traffic},
};
use wirecap_traffic::{Random, Size, Sizes};

/// Flows of each queue.
const FLOWS: usize = 2_000;
/// The shape of the distribution of runs over flows: a few flows have most runs.
const SHAPE: f64 = 0.7;
/// Bytes of Ethernet, IPv4 and UDP headers.
const HEADERS: u16 = 42;
const ETHERNET: u16 = 14;

/// Writes traffic as a pcap file whose packets `rss` puts into their queues. Returns the number of packets.
///
/// # Errors
/// If the file cannot be written.
pub fn write(traffic: &Traffic, rss: &Rss, seed: u64, mut file: impl Write) -> Result<u64> {
    let flows = flows(rss, traffic.queues.len());
    let (mut random, mut lengths) = (Random::new(seed), Lengths::new(seed));
    let mut queues: Vec<Queue<'_>> = traffic.queues.iter().map(|runs| Queue::new(runs)).collect();
    let mut out = Vec::new();
    pcap::file_header(&mut out, LINK_TYPE_ETHERNET, 0);
    let mut packets = 0;
    // By time: the queue whose next packet is the earliest.
    while let Some((queue, time_ns)) = earliest(&queues) {
        let flow = flows[queue][queues[queue].next_flow(&mut random)];
        let length = lengths.next();
        let header = PacketHeader {
            timestamp_ns: time_ns as u64,
            original_len: length.into(),
            ..PacketHeader::default()
        };
        pcap::packet(&mut out, &header, 0, [headers(flow, length).as_slice()]);
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

/// Draws lengths of packets.
struct Lengths {
    /// Each length as often as its weight says.
    list: Vec<u16>,
    /// Of its own, so that the flows do not depend on the lengths.
    random: Random,
}

impl Lengths {
    fn new(seed: u64) -> Self {
        let sizes = Sizes::imix();
        let repeat = |size: &Size| std::iter::repeat_n(size.len as u16, size.weight as usize);
        Self { list: sizes.list().iter().flat_map(repeat).collect(), random: Random::new(seed ^ 1) }
    }

    fn next(&mut self) -> u16 {
        self.list[self.random.below(self.list.len() as u32) as usize]
    }
}

/// Numbers of flows, by queue.
fn flows(rss: &Rss, queues: usize) -> Vec<Vec<u32>> {
    let mut flows = vec![Vec::new(); queues];
    for number in 0_u32.. {
        let queue = &mut flows[rss.queue(&headers(number, HEADERS), FirstHeader::Ethernet)];
        if queue.len() < FLOWS {
            queue.push(number);
        }
        if flows.iter().all(|queue| queue.len() == FLOWS) {
            break;
        }
    }
    flows
}

/// Ethernet, IPv4 and UDP, with addresses for benchmarking (RFC 2544), of a packet of `length` bytes.
fn headers(flow: u32, length: u16) -> [u8; HEADERS as usize] {
    let [_, b, c, d] = flow.to_be_bytes();
    let ([ip_high, ip_low], [udp_high, udp_low]) =
        ((length - ETHERNET).to_be_bytes(), (length - ETHERNET - 20).to_be_bytes());
    let [port_high, port_low] = ((1024 + flow % 60_000) as u16).to_be_bytes();
    let mut headers = [0; HEADERS as usize];
    headers[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00]);
    headers[14..26].copy_from_slice(&[0x45, 0, ip_high, ip_low, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    headers[26..34].copy_from_slice(&[198, 18 | b & 1, c, d, 198, 19, 0, 1]);
    let checksum = checksum(&headers[14..34]).to_be_bytes();
    headers[24..26].copy_from_slice(&checksum);
    // No UDP checksum, which IPv4 allows.
    headers[34..].copy_from_slice(&[port_high, port_low, 1, 187, udp_high, udp_low, 0, 0]);
    headers
}

/// The checksum of an IPv4 header (RFC 791) whose own field is 0.
fn checksum(header: &[u8]) -> u16 {
    let sum: u32 = header.chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum();
    !((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::rss_of;
    use wirecap_file::{Reader, Record};

    #[test]
    fn each_packet_is_in_the_queue_of_its_run_at_its_time() {
        let run = |from_ns, packets| Run { from_ns, gap_ns: 100.0, packets };
        let traffic = Traffic { queues: vec![vec![run(0.0, 3), run(1e6, 2)], vec![run(150.0, 4)], vec![]] };
        let rss = rss_of(3).unwrap();
        let mut file = Vec::new();
        assert_eq!(write(&traffic, &rss, 1, &mut file).unwrap(), 9);
        let mut reader = Reader::new(file.as_slice()).unwrap();
        let (mut seen, mut lengths) = (Vec::new(), Vec::new());
        while let Some(record) = reader.next().unwrap() {
            if let Record::Packet(packet) = record {
                seen.push((packet.timestamp_ns.unwrap(), rss.queue(packet.data, FirstHeader::Ethernet)));
                lengths.push(packet.original_len);
            }
        }
        let expected = [
            (0, 0),
            (100, 0),
            (150, 1),
            (200, 0),
            (250, 1),
            (350, 1),
            (450, 1),
            (1_000_000, 0),
            (1_000_100, 0),
        ];
        assert_eq!(seen, expected);
        assert!(lengths.iter().all(|length| [60, 590, 1514].contains(length)), "{lengths:?}");
    }

    #[test]
    fn the_checksum_of_a_header_is_that_of_the_rfc() {
        let headers = headers(7, 590);
        let sum: u32 =
            headers[14..34].chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        assert_eq!(u16::from_be_bytes([headers[16], headers[17]]), 576);
    }
}
