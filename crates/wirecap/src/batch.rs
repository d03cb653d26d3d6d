//! What a worker is given: packets that borrow from the pool.
//!
//! ```text
//!   Batch (filled cells of one chunk) ──► Packet ──► parts: usually one slice of a cell
//!     └─ dropped: the cells go home, whoever held them
//! ```

use std::{fmt, sync::Arc};

use wirecap_core::{ChunkRange, Descriptor, Direction, Handover};
use wirecap_sys::{
    memory::{CellReader, Cells, Note},
    packet::{BlockPacket, BlockPackets},
};

use crate::{
    engine::Shared,
    port::{ChunkReader, Front},
    program::rx_hash::RxHash,
    transmit::Drain,
};

/// Packets of one receive queue, in the order in which they came.
///
/// A batch may be held for as long as needed, and sent to another thread. Its cells are missing in the pool until then.
/// The others of its chunk are not: once many are home, they go to the kernel in runs of neighbours, and
/// later batches are as short as these. Where packets may be longer than a cell, and in trace files, short runs stay at home, so many small
/// batches that are kept cost whole chunks: copy what is to be kept there. Dropping a batch
/// recycles it. Cost of both: a few atomic operations for the whole batch.
pub struct Batch {
    shared: Arc<Shared>,
    queue: usize,
    first_number: u64,
    uncertainty_ns: u64,
    /// INVARIANT: `Some` until it is drained or dropped.
    handover: Option<Handover>,
}

impl Batch {
    pub(crate) fn new(shared: Arc<Shared>, queue: usize, handover: Handover) -> Self {
        let Handover { first_number, uncertainty_ns, .. } = handover;
        Self { shared, queue, first_number, uncertainty_ns, handover: Some(handover) }
    }

    /// Number of packets that it holds.
    pub fn len(&self) -> usize {
        self.handover.as_ref().map_or(0, |handover| handover.packets as usize)
    }

    /// Whether it was drained: an empty batch is not handed over.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all these packets together.
    pub fn bytes(&self) -> u64 {
        self.handover.as_ref().map_or(0, |handover| handover.bytes.into())
    }

    /// How much earlier than [`Packet::timestamp_ns`] its packets may have reached their ring, at most, in nanoseconds. With times of
    /// batches ([`Timestamp::Batch`]) it is the time between two looks at the ring, and holds wherever the reading thread stalled; how far
    /// off the clock itself may be is in [`TimestampReport::error_bound_ns`]. With stamped packets it is 0, or a few nanoseconds where
    /// stamps were equal.
    ///
    /// ```
    /// # use wirecap::{Capture, port::null::NullPort};
    /// # let port = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 10 };
    /// # let mut capture = Capture::builder().port(port).chunks_per_pool(4).open()?;
    /// # let mut worker = capture.take_workers().remove(0);
    /// let batch = worker.next_batch().expect("ten packets");
    /// for packet in &batch {
    ///     let (earliest_ns, latest_ns) = (packet.timestamp_ns() - batch.uncertainty_ns(), packet.timestamp_ns());
    ///     assert!(earliest_ns < latest_ns);
    /// }
    /// # Ok::<(), wirecap::Error>(())
    /// ```
    ///
    /// [`Timestamp::Batch`]: crate::Timestamp::Batch
    /// [`TimestampReport::error_bound_ns`]: crate::TimestampReport::error_bound_ns
    pub fn uncertainty_ns(&self) -> u64 {
        self.uncertainty_ns
    }

    /// Which port the packets came from, by its position in the list of ports.
    pub fn port(&self) -> usize {
        self.shared.queues[self.queue].port
    }

    /// Which receive queue of the port they came from.
    pub fn queue(&self) -> u16 {
        self.shared.queues[self.queue].ring_id
    }

    /// Number of the first packet: how many packets of this queue came before it. Batches of a queue
    /// that went to several workers can be put in order by it.
    pub fn first_number(&self) -> u64 {
        self.first_number
    }

    /// Takes the packets out, each with its cells: to be changed in place, forwarded or kept. What is left when the drain
    /// is dropped is recycled. `None` for packets that a passive port has heard: their blocks are the kernel's, and they are
    /// not in cells of their own; and for a batch that was drained before.
    pub fn drain(&mut self) -> Option<Drain<'_>> {
        let reader = self.shared.queues[self.queue].reader.cells()?;
        Some(Drain::new(&self.shared, self.queue, reader, self.handover.take()?))
    }

    /// The packets.
    pub fn packets(&self) -> Packets<'_> {
        let Some(handover) = &self.handover else {
            return Packets {
                source: Source::Nothing,
                front: Front::Nothing,
                number: self.first_number,
                left: 0,
            };
        };
        let (source, front) = match &self.shared.queues[self.queue].reader {
            ChunkReader::Cells(reader, front) => (Source::Cells(Cursor::new(reader, handover)), *front),
            ChunkReader::Blocks(reader) => (Source::Block(reader.packets(&handover.range)), Front::Nothing),
        };
        Packets { source, front, number: handover.first_number, left: handover.packets }
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Batch").field("queue", &self.queue).field("handover", &self.handover).finish()
    }
}

impl<'b> IntoIterator for &'b Batch {
    type Item = Packet<'b>;
    type IntoIter = Packets<'b>;

    fn into_iter(self) -> Packets<'b> {
        self.packets()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if let Some(handover) = self.handover.take() {
            self.shared.queues[self.queue].send_home(handover);
        }
    }
}

/// A place in the cells of a batch.
#[derive(Clone)]
struct Cursor<'b> {
    cells: Cells<'b>,
    reader: &'b CellReader,
    /// The range that follows when `cells` is a lead.
    rest: Option<&'b ChunkRange>,
}

impl<'b> Cursor<'b> {
    fn new(reader: &'b CellReader, handover: &'b Handover) -> Self {
        let (range, rest) = match &handover.lead {
            Some(lead) => (lead, Some(&handover.range)),
            None => (&handover.range, None),
        };
        Self { cells: reader.cells(range), reader, rest }
    }

    #[inline]
    fn next_part(&mut self) -> Option<(Descriptor, &'b [u8])> {
        if let Some(part) = self.cells.next() {
            return Some(part);
        }
        self.cells = self.reader.cells(self.rest.take()?);
        self.cells.next()
    }

    /// What stands in front of the next packet. Takes a copy and stays out of line, so that a cursor which is only read on
    /// can be in registers: that is 10 percent of the time of a packet.
    #[inline(never)]
    fn next_front(mut self, front: Front) -> Aside {
        let before = match front {
            Front::Nothing => return Aside::Nothing,
            Front::Note => return self.next_note().map_or(Aside::Nothing, Aside::Note),
            Front::Hash { at } => at,
        };
        let next = self.cells.next_with_word(before);
        let next = next.or_else(|| self.reader.cells(self.rest.take()?).next_with_word(before));
        let hash = next.and_then(|(_, _, word)| RxHash::from_front(word?));
        hash.map_or(Aside::Nothing, Aside::Hash)
    }

    fn next_note(mut self) -> Option<Note> {
        let mut noted = self.cells.next_with_note();
        if noted.is_none() {
            noted = self.reader.cells(self.rest.take()?).next_with_note();
        }
        noted.map(|(_, _, note)| note)
    }
}

/// What stood in front of a packet.
enum Aside {
    Nothing,
    Note(Note),
    Hash(RxHash),
}

/// Where the packets of a batch are.
#[derive(Clone)]
enum Source<'b> {
    Cells(Cursor<'b>),
    Block(BlockPackets<'b>),
    /// They were drained.
    Nothing,
}

/// The packets of a [`Batch`], in order.
#[derive(Clone)]
pub struct Packets<'b> {
    source: Source<'b>,
    front: Front,
    number: u64,
    left: u32,
}

impl<'b> Iterator for Packets<'b> {
    type Item = Packet<'b>;

    #[inline]
    fn next(&mut self) -> Option<Packet<'b>> {
        let number = self.number;
        let packet = match &mut self.source {
            Source::Cells(cursor) => {
                if self.front == Front::Nothing {
                    Packet::of_cells(cursor, number)?
                } else {
                    let aside = cursor.clone().next_front(self.front);
                    Packet::of_cells(cursor, number)?.with(aside)
                }
            }
            Source::Block(packets) => Packet::of_block(packets.next()?, number),
            Source::Nothing => return None,
        };
        self.number += 1;
        self.left = self.left.saturating_sub(1);
        Some(packet)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Packets<'_> {}

/// Bit that is none of the kernel's types of hashes.
const HAS_HASH: u16 = 1 << 15;

/// One packet, as long as its batch is held.
#[derive(Clone)]
pub struct Packet<'b> {
    first: &'b [u8],
    rest: Option<Cursor<'b>>,
    len: usize,
    /// Its length on the wire, where 0 stands for `len`; or the NIC's hash, if `hash` says so.
    length_or_hash: u32,
    /// What the NIC's hash is over, if there is one, and [`HAS_HASH`].
    hash: u16,
    timestamp_ns: u64,
    number: u64,
    direction: Option<Direction>,
}

/// A hash costs no packet anything that has none.
const _: () = assert!(size_of::<Packet<'_>>() == size_of::<Option<Cursor<'_>>>() + 48);

impl<'b> Packet<'b> {
    #[inline]
    fn of_cells(cursor: &mut Cursor<'b>, number: u64) -> Option<Self> {
        let (descriptor, first) = cursor.next_part()?;
        let rest = descriptor.more.then(|| cursor.clone());
        let mut len = first.len();
        let mut more = descriptor.more;
        while more {
            let Some((descriptor, bytes)) = cursor.next_part() else { break };
            len += bytes.len();
            more = descriptor.more;
        }
        let timestamp_ns = descriptor.timestamp_ns;
        Some(Packet { first, rest, len, length_or_hash: 0, hash: 0, timestamp_ns, number, direction: None })
    }

    fn with(self, aside: Aside) -> Self {
        match aside {
            Aside::Nothing => self,
            Aside::Note(note) => {
                Packet { length_or_hash: note.original_len, direction: note.direction, ..self }
            }
            Aside::Hash(hash) => {
                Packet { length_or_hash: hash.value(), hash: hash.type_bits() | HAS_HASH, ..self }
            }
        }
    }

    #[inline]
    fn of_block(packet: BlockPacket<'b>, number: u64) -> Self {
        let BlockPacket { data, original_len, timestamp_ns, direction } = packet;
        let direction = Some(direction);
        Packet {
            first: data,
            rest: None,
            len: data.len(),
            length_or_hash: original_len,
            hash: 0,
            timestamp_ns,
            number,
            direction,
        }
    }

    /// Length in bytes, all parts together.
    #[allow(clippy::len_without_is_empty, reason = "a packet has at least a header, but in odd trace files")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// How long it was on the wire, in bytes: more than [`Packet::len`] where the port has kept only the
    /// beginning of it.
    pub fn original_len(&self) -> usize {
        if self.hash != 0 || self.length_or_hash == 0 { self.len } else { self.length_or_hash as usize }
    }

    /// The hash by which the NIC has chosen its receive queue. `None` unless [`Builder::rx_hash`](crate::Builder::rx_hash) was asked
    /// for, and if the driver had none for it, which is counted. It is read before a batch is [drained](Batch::drain): packets
    /// that are owned do not carry it.
    pub fn rx_hash(&self) -> Option<RxHash> {
        (self.hash != 0).then(|| RxHash::new(self.length_or_hash, self.hash & !HAS_HASH))
    }

    /// Which way it went: always in, but on a passive port and in a trace file.
    pub fn direction(&self) -> Direction {
        self.direction.unwrap_or(Direction::In)
    }

    /// Which way it went, if the port tells: a passive one does, and a trace file if it has it.
    pub fn told_direction(&self) -> Option<Direction> {
        self.direction
    }

    /// The first part: the whole packet unless it is larger than a cell. Headers are always in it.
    pub fn data(&self) -> &'b [u8] {
        self.first
    }

    /// All parts, in order. One, unless the packet is larger than a cell.
    pub fn parts(&self) -> Parts<'b> {
        Parts { first: Some(self.first), rest: self.rest.clone() }
    }

    /// When it came, in nanoseconds since 1970 (UTC), as [`crate::Timestamp`] says, and how exactly, as [`Batch::uncertainty_ns`] does.
    /// Over AF_XDP strictly increasing within a queue, unless the system clock is set back
    /// ([`TimestampReport::set_back_ns`](crate::TimestampReport::set_back_ns)); of a trace file it is the file's, whatever that is, and 0
    /// if it has none.
    pub fn timestamp_ns(&self) -> u64 {
        self.timestamp_ns
    }

    /// How many packets of its receive queue were captured before it.
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl fmt::Debug for Packet<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Packet")
            .field("number", &self.number)
            .field("len", &self.len)
            .field("timestamp_ns", &self.timestamp_ns)
            .finish_non_exhaustive()
    }
}

/// The parts of a [`Packet`].
#[derive(Clone)]
pub struct Parts<'b> {
    first: Option<&'b [u8]>,
    rest: Option<Cursor<'b>>,
}

impl<'b> Iterator for Parts<'b> {
    type Item = &'b [u8];

    fn next(&mut self) -> Option<&'b [u8]> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        let (descriptor, bytes) = self.rest.as_mut()?.next_part()?;
        if !descriptor.more {
            self.rest = None;
        }
        Some(bytes)
    }
}
