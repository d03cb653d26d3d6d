//! Encodes batches into records.

use std::sync::Arc;

use wirecap::{Batch, Direction, Report, report::PortReport};
use wirecap_file::{Format, PacketHeader, pcap, pcapng};

use super::{queues::Queues, records::Records};

/// More bytes than any record has besides its packet.
const RECORD_OVERHEAD_BYTES: usize = 64;

/// How packets are encoded.
#[derive(Debug)]
pub(crate) struct Encoding {
    format: Format,
    /// Bytes kept of each packet; 0 keeps all.
    snaplen: u32,
    queues: Arc<Queues>,
    /// For each port, whether packets name their receive queue.
    names_queue: Vec<bool>,
}

impl Encoding {
    pub(crate) fn new(report: &Report, queues: &Arc<Queues>, format: Format, snaplen: u32) -> Self {
        let names_queue = report.ports.iter().map(PortReport::names_queues).collect();
        Self { format, snaplen, queues: Arc::clone(queues), names_queue }
    }

    /// The queue of a batch.
    pub(crate) fn queue_of(&self, batch: &Batch) -> usize {
        self.queues.index(batch.port(), batch.queue()).expect("a queue of this capture")
    }

    /// Encodes a batch into an empty buffer. Allocates only if the buffer is smaller than the batch.
    pub(crate) fn encode(&self, batch: &Batch, mut records: Records) -> Records {
        let bytes = if self.snaplen == 0 { batch.bytes() as usize } else { 0 };
        records.reserve(batch.len(), bytes + batch.len() * RECORD_OVERHEAD_BYTES);
        let interface = batch.port() as u32;
        let queue = self.names_queue[batch.port()].then(|| batch.queue().into());
        records.extend(batch, |out, packet| {
            let header = PacketHeader {
                timestamp_ns: packet.timestamp_ns(),
                original_len: packet.original_len() as u32,
                interface,
                queue,
                packet_id: None,
                outbound: packet.known_direction().map(|direction| direction == Direction::Out),
            };
            match self.format {
                Format::Pcapng => pcapng::packet(out, &header, self.snaplen, packet.parts()),
                Format::Pcap => pcap::packet(out, &header, self.snaplen, packet.parts()),
            }
            header.timestamp_ns
        });
        records
    }
}
