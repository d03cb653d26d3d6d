//! Encoded packets on their way from a worker to the file.

use wirecap::{Batch, Direction};
use wirecap_file::{Format, PacketHeader, pcap, pcapng};

use super::order::Span;

/// Packets as they will stand in the file.
#[derive(Debug)]
pub struct Records {
    /// Whole records, nothing else.
    pub bytes: Vec<u8>,
    /// How many there are.
    pub packets: u64,
    /// Their times.
    pub span: Span,
    /// Whose buffer `bytes` is: a worker's, or else the merger's.
    pub owner: Option<usize>,
}

/// The packets of one batch.
#[derive(Debug)]
pub struct Block {
    /// Which receive queue they came from; see [`Queues`].
    pub queue: usize,
    /// Number of the first packet within its queue.
    pub first_number: u64,
    pub records: Records,
}

/// The receive queues of all ports, numbered through.
#[derive(Debug)]
pub struct Queues {
    /// Port of each, and its number on the port.
    places: Vec<(usize, u16)>,
    /// For each port its first queue; at the end, how many there are.
    first: Vec<usize>,
}

impl Queues {
    /// From the numbers of the queues of each port.
    pub fn new<P: IntoIterator<Item = u16>>(ports: impl IntoIterator<Item = P>) -> Self {
        let (mut places, mut first) = (Vec::new(), vec![0]);
        for (port, queues) in ports.into_iter().enumerate() {
            places.extend(queues.into_iter().map(|queue| (port, queue)));
            first.push(places.len());
        }
        Self { places, first }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// The port of a queue, and its number on it.
    pub fn place(&self, queue: usize) -> (usize, u16) {
        self.places[queue]
    }

    fn of(&self, port: usize, queue: u16) -> usize {
        // Nearly always a port has all its queues, or all from its first one on.
        let first = self.first[port];
        let guess = first + usize::from(queue.wrapping_sub(self.places[first].1));
        if self.places.get(guess) == Some(&(port, queue)) {
            return guess;
        }
        let found = self.places.iter().position(|&place| place == (port, queue));
        found.expect("a queue of this capture")
    }

    /// Whether a packet has to say which queue it came from.
    fn tells_queue(&self, port: usize) -> bool {
        self.places[self.first[port]..self.first[port + 1]] != [(port, 0)]
    }
}

/// How packets are encoded.
#[derive(Debug)]
pub struct Encoding {
    pub format: Format,
    /// Bytes kept of each packet; 0 keeps all.
    pub snaplen: u32,
    pub queues: Queues,
    /// For each port, whether it is captured beside the host.
    pub passive: Vec<bool>,
}

/// Room that a buffer may keep whatever is in it, and times its contents.
const SPARE_BYTES: usize = 32 << 10;
const SPARE_FACTOR: usize = 8;

impl Records {
    /// Gives back memory that is out of all proportion to what is in it: a buffer has grown to the largest batch it ever
    /// had, and many small ones may be held back.
    pub fn trim(&mut self) {
        let enough = SPARE_BYTES.max(SPARE_FACTOR * self.bytes.len());
        if self.bytes.capacity() > enough {
            self.bytes.shrink_to(SPARE_BYTES);
        }
    }
}

/// More than any record has around its packet's bytes.
const RECORD_OVERHEAD_BYTES: usize = 64;

impl Encoding {
    /// The queue that a batch is of.
    pub fn queue_of(&self, batch: &Batch) -> usize {
        self.queues.of(batch.port(), batch.queue())
    }

    /// Encodes a batch into `buffer`, whose old contents go. Allocates only to let the buffer grow to
    /// the size of the largest batch, if it was not trimmed.
    pub fn encode(&self, batch: &Batch, mut buffer: Vec<u8>, worker: usize) -> Block {
        buffer.clear();
        if self.snaplen == 0 {
            buffer.reserve(batch.bytes() as usize + batch.len() * RECORD_OVERHEAD_BYTES);
        }
        let interface = batch.port() as u32;
        let passive = self.passive[batch.port()];
        // A socket of a passive port is no receive queue of the NIC.
        let queue = (!passive && self.queues.tells_queue(batch.port())).then(|| batch.queue().into());
        let mut span = Span::EMPTY;
        for packet in batch {
            span.append(Span::of(packet.timestamp_ns()));
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
            queue: self.queue_of(batch),
            first_number: batch.first_number(),
            records: Records { bytes: buffer, packets: batch.len() as u64, span, owner: Some(worker) },
        }
    }
}

#[cfg(test)]
impl Records {
    /// Of packets that have these times and a byte each.
    pub fn of_times(format: Format, times: &[u64]) -> Self {
        let (mut bytes, mut span) = (Vec::new(), Span::EMPTY);
        for (number, &timestamp_ns) in times.iter().enumerate() {
            span.append(Span::of(timestamp_ns));
            let header = PacketHeader { timestamp_ns, original_len: 1, ..PacketHeader::default() };
            let data = [number as u8];
            let data = [data.as_slice()];
            match format {
                Format::Pcapng => pcapng::packet(&mut bytes, &header, 0, data),
                Format::Pcap => pcap::packet(&mut bytes, &header, 0, data),
            }
        }
        Self { bytes, packets: times.len() as u64, span, owner: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_buffers_much_larger_than_their_contents_are_trimmed() {
        let trimmed = |capacity: usize, len: usize| {
            let mut bytes = Vec::with_capacity(capacity);
            bytes.resize(len, 7);
            let mut records = Records { bytes, packets: 1, span: Span::EMPTY, owner: None };
            let before = records.bytes.capacity();
            records.trim();
            assert_eq!(records.bytes, vec![7; len]);
            (records.bytes.capacity() < before).then(|| records.bytes.capacity())
        };
        assert_eq!(trimmed(SPARE_BYTES, 0), None);
        assert_eq!(trimmed(2 << 20, 300 << 10), None, "within the factor");
        assert!(trimmed(2 << 20, 100).is_some_and(|capacity| capacity < 2 * SPARE_BYTES));
        assert!(trimmed(2 << 20, 100 << 10).is_some_and(|capacity| capacity < 200 << 10));
    }

    #[test]
    fn queues_are_numbered_through_all_ports() {
        let queues = Queues::new([vec![0, 1], vec![0], vec![5, 2, 3], vec![64, 65]]);
        assert_eq!(queues.count(), 8);
        for queue in 0..queues.count() {
            let (port, number) = queues.place(queue);
            assert_eq!(queues.of(port, number), queue);
        }
        assert_eq!((queues.place(2), queues.place(3)), ((1, 0), (2, 5)));
        assert!(queues.tells_queue(0) && !queues.tells_queue(1) && queues.tells_queue(2));
        assert!(Queues::new([vec![2]]).tells_queue(0), "queue 2 alone is not queue 0");
    }
}
