//! Encoded packets on their way from a worker to the file.

use wirecap::{Batch, Direction};
use wirecap_file::{Format, PacketHeader, pcap, pcapng};

/// The packets of one batch, as they will stand in the file.
#[derive(Debug)]
pub(crate) struct Block {
    /// Which receive queue they came from; see [`Lanes`].
    pub(crate) lane: usize,
    /// Number of the first packet within its queue.
    pub(crate) first_number: u64,
    /// How many there are.
    pub(crate) packets: u64,
    /// Whole records, nothing else.
    pub(crate) bytes: Vec<u8>,
    /// Whose buffer `bytes` is.
    pub(crate) worker: usize,
}

/// The receive queues of all ports, numbered through.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// For each port its first lane; at the end, how many lanes there are.
    first: Vec<usize>,
}

impl Lanes {
    /// From the number of queues of each port.
    pub(crate) fn new(queues: impl Iterator<Item = usize>) -> Self {
        let mut first = vec![0];
        for queues in queues {
            first.push(first[first.len() - 1] + queues);
        }
        Self { first }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.first[self.first.len() - 1]
    }

    fn of(&self, port: usize, queue: u16) -> usize {
        self.first[port] + usize::from(queue)
    }

    fn has_several_queues(&self, port: usize) -> bool {
        self.first[port + 1] - self.first[port] > 1
    }
}

/// How packets are encoded.
#[derive(Debug)]
pub(crate) struct Encoding {
    pub(crate) format: Format,
    /// Bytes kept of each packet; 0 keeps all.
    pub(crate) snaplen: u32,
    pub(crate) lanes: Lanes,
    /// For each port, whether it is captured beside the host.
    pub(crate) passive: Vec<bool>,
}

/// More than any record has around its packet's bytes.
const RECORD_OVERHEAD_BYTES: usize = 64;

impl Encoding {
    /// Encodes a batch into `buffer`, whose old contents go. Allocates only to let the buffer grow to
    /// the size of the largest batch.
    pub(crate) fn encode(&self, batch: &Batch, mut buffer: Vec<u8>, worker: usize) -> Block {
        buffer.clear();
        if self.snaplen == 0 {
            buffer.reserve(batch.bytes() as usize + batch.len() * RECORD_OVERHEAD_BYTES);
        }
        let interface = batch.port() as u32;
        let passive = self.passive[batch.port()];
        // A socket of a passive port is no receive queue of the NIC.
        let queue = (!passive && self.lanes.has_several_queues(batch.port())).then(|| batch.queue().into());
        for packet in batch {
            let header = PacketHeader {
                timestamp_ns: packet.timestamp_ns(),
                original_len: packet.original_len() as u32,
                interface,
                queue,
                packet_id: None,
                outbound: packet.told_direction().map(|direction| direction == Direction::Out),
            };
            match self.format {
                Format::Pcapng => pcapng::packet(&mut buffer, &header, self.snaplen, packet.parts()),
                Format::Pcap => pcap::packet(&mut buffer, &header, self.snaplen, packet.parts()),
            }
        }
        Block {
            lane: self.lanes.of(batch.port(), batch.queue()),
            first_number: batch.first_number(),
            packets: batch.len() as u64,
            bytes: buffer,
            worker,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_numbered_through_all_ports() {
        let lanes = Lanes::new([2, 1, 4].into_iter());
        assert_eq!(lanes.count(), 7);
        assert_eq!((lanes.of(0, 1), lanes.of(1, 0), lanes.of(2, 3)), (1, 2, 6));
        assert!(lanes.has_several_queues(0) && !lanes.has_several_queues(1));
    }
}
