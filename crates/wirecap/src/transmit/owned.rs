//! Packets that are owned with their cells: to be changed in place, sent, or kept.
//!
//! ```text
//!   Batch ── drain() ──► Drain ──► OwnedPacket: the ChunkRanges of its cells, a lead and the rest at most
//!                          └─ dropped: what was not taken goes home
//! ```

use std::{fmt, sync::Arc};

use wirecap_core::{ChunkRange, Handover};
use wirecap_sys::{memory::CellReader, xsk::Sender};

use crate::{
    engine::{Shared, queue::Queue},
    transmit::{NotSent, Transmitter},
};

/// Takes the packets out of a [`Batch`](crate::Batch) one by one, in order.
pub struct Drain<'b> {
    queue: &'b Queue,
    shared: &'b Arc<Shared>,
    index: usize,
    lead: Option<ChunkRange>,
    rest: Option<ChunkRange>,
    number: u64,
}

impl<'b> Drain<'b> {
    pub(crate) fn new(shared: &'b Arc<Shared>, index: usize, handover: Handover) -> Self {
        let Handover { lead, range, first_number, .. } = handover;
        Self { queue: &shared.queues[index], shared, index, lead, rest: Some(range), number: first_number }
    }
}

impl<'b> Iterator for Drain<'b> {
    type Item = OwnedPacket<'b>;

    fn next(&mut self) -> Option<OwnedPacket<'b>> {
        let range = self.rest.take()?;
        let reader = self.queue.reader.cells()?;
        let cells = reader.cells(&range).take_while(|(part, _)| part.more).count() as u32 + 1;
        let (own, rest) = range.split_at(cells);
        self.rest = rest;
        let ranges = [self.lead.take(), Some(own)];
        let (mut len, mut timestamp_ns) = (0, 0);
        for (part, bytes) in ranges.iter().flatten().flat_map(|range| reader.cells(range)) {
            len += bytes.len();
            timestamp_ns = part.timestamp_ns;
        }
        let number = self.number;
        self.number += 1;
        let owner = Owner::Batch { queue: self.queue, shared: self.shared, index: self.index };
        Some(OwnedPacket { owner, ranges, len, number, timestamp_ns })
    }
}

impl Drop for Drain<'_> {
    fn drop(&mut self) {
        for range in [self.lead.take(), self.rest.take()].into_iter().flatten() {
            self.queue.send_home_range(range);
        }
    }
}

/// Where the cells of a packet belong.
enum Owner<'b> {
    /// As long as its batch is there: nothing is counted.
    Batch { queue: &'b Queue, shared: &'b Arc<Shared>, index: usize },
    /// On its own.
    Engine { shared: Arc<Shared>, index: usize },
}

/// A packet with its cells. Dropping it recycles them.
///
/// ```no_run
/// # let mut capture = wirecap::Capture::builder().port("eth1").port("eth2").transmit(1024).open()?;
/// # let mut worker = capture.take_workers().remove(0);
/// # let mut out = capture.take_transmitters().remove(0);
/// while let Some(mut batch) = worker.next_batch() {
///     for mut packet in batch.drain().into_iter().flatten() {
///         packet.data_mut()[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);   // another destination, in place
///         if let Err(refused) = packet.forward(&mut out) {
///             drop(refused.packet);                                     // or wait, or keep it
///         }
///     }
///     out.flush()?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct OwnedPacket<'b> {
    owner: Owner<'b>,
    /// INVARIANT: the cells of one packet, in order, until it is sent or dropped.
    ranges: [Option<ChunkRange>; 2],
    len: usize,
    number: u64,
    timestamp_ns: u64,
}

impl<'b> OwnedPacket<'b> {
    fn queue(&self) -> &Queue {
        match &self.owner {
            Owner::Batch { queue, .. } => queue,
            Owner::Engine { shared, index } => &shared.queues[*index],
        }
    }

    fn reader(&self) -> &CellReader {
        self.queue().reader.cells().expect("only packets in cells are owned")
    }

    /// Length in bytes, all parts together.
    #[allow(clippy::len_without_is_empty, reason = "a packet has at least a header")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many packets of its receive queue were captured before it.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// When it came, as [`crate::Packet::timestamp_ns`].
    pub fn timestamp_ns(&self) -> u64 {
        self.timestamp_ns
    }

    /// All its parts, in order: one, unless it is larger than a cell.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let reader = self.reader();
        self.ranges.iter().flatten().flat_map(move |range| reader.cells(range)).map(|(_, bytes)| bytes)
    }

    /// The first part: the whole packet unless it is larger than a cell.
    pub fn data(&self) -> &[u8] {
        self.parts().next().unwrap_or_default()
    }

    /// The first part, to be changed in place.
    pub fn data_mut(&mut self) -> &mut [u8] {
        self.first_mut(|reader, range| reader.bytes_mut(range, 0))
    }

    /// Does something with the range of the first cell.
    fn first_mut<'a, T>(&'a mut self, change: impl FnOnce(&'a CellReader, &'a mut ChunkRange) -> T) -> T {
        let Self { owner, ranges, .. } = self;
        let queue = match owner {
            Owner::Batch { queue, .. } => queue,
            Owner::Engine { shared, index } => &shared.queues[*index],
        };
        let reader = queue.reader.cells().expect("only packets in cells are owned");
        change(reader, ranges.iter_mut().flatten().next().expect("a packet has a cell"))
    }

    /// Makes the packet longer at its beginning, for a header; returns the new bytes, which may hold anything, or `None`
    /// when there is no room: the kernel leaves 256 bytes in front of a packet.
    pub fn prepend(&mut self, bytes: usize) -> Option<&mut [u8]> {
        self.move_start(-(i64::try_from(bytes).ok()?)).then(|| &mut self.data_mut()[..bytes])
    }

    /// Makes the packet shorter at its beginning. Returns whether its first part has more bytes than that.
    pub fn trim_front(&mut self, bytes: usize) -> bool {
        bytes < self.data().len() && self.move_start(bytes as i64)
    }

    /// Moves the beginning of the first part, its end staying where it is.
    fn move_start(&mut self, by: i64) -> bool {
        let moved = self.first_mut(|reader, range| {
            let (part, _) = reader.cells(range).next()?;
            let address = part.address.checked_add_signed(by)?;
            let len = u32::try_from(i64::from(part.len) - by).ok()?;
            reader.move_bytes(range, 0, address, len).then_some(())
        });
        if moved.is_some() {
            self.len = (self.len as i64 - by) as usize;
        }
        moved.is_some()
    }

    /// Sends it: takes it to the transmit ring, from the cells it lies in. [`Transmitter::flush`] has the kernel go on.
    ///
    /// # Errors
    /// The packet, when the ring is full or it cannot be sent.
    pub fn forward(self, transmitter: &mut Transmitter) -> Result<(), NotSent<'b>> {
        transmitter.take(self)
    }

    /// Keeps it for longer than its batch: a packet that is kept keeps its chunk, too, see [`crate::Batch`].
    pub fn keep(mut self) -> OwnedPacket<'static> {
        let owner = match &self.owner {
            Owner::Batch { shared, index, .. } => Owner::Engine { shared: Arc::clone(shared), index: *index },
            Owner::Engine { shared, index } => Owner::Engine { shared: Arc::clone(shared), index: *index },
        };
        let ranges = std::mem::take(&mut self.ranges);
        OwnedPacket { owner, ranges, len: self.len, number: self.number, timestamp_ns: self.timestamp_ns }
    }

    pub(crate) fn cells(&self) -> u32 {
        self.ranges.iter().flatten().map(ChunkRange::count).sum()
    }

    /// Puts it into the ring, or gives it back as it was.
    pub(crate) fn send(mut self, sender: &mut Sender) -> Result<(), Self> {
        let ranges = std::mem::take(&mut self.ranges);
        match sender.send(self.reader(), ranges) {
            Ok(()) => Ok(()),
            Err(ranges) => {
                self.ranges = ranges;
                Err(self)
            }
        }
    }
}

impl Drop for OwnedPacket<'_> {
    fn drop(&mut self) {
        for range in std::mem::take(&mut self.ranges).into_iter().flatten() {
            self.queue().send_home_range(range);
        }
    }
}

impl fmt::Debug for OwnedPacket<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("OwnedPacket")
            .field("number", &self.number)
            .field("len", &self.len)
            .field("timestamp_ns", &self.timestamp_ns)
            .finish_non_exhaustive()
    }
}
