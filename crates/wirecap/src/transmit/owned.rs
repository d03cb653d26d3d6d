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
    reader: &'b CellReader,
    shared: &'b Arc<Shared>,
    index: usize,
    lead: Option<ChunkRange>,
    rest: Option<ChunkRange>,
    number: u64,
}

impl<'b> Drain<'b> {
    pub(crate) fn new(
        shared: &'b Arc<Shared>,
        index: usize,
        reader: &'b CellReader,
        handover: Handover,
    ) -> Self {
        let Handover { lead, range, first_number, .. } = handover;
        let queue = &shared.queues[index];
        Self { queue, reader, shared, index, lead, rest: Some(range), number: first_number }
    }

    #[inline]
    fn packet(&mut self, ranges: [Option<ChunkRange>; 2], len: usize, timestamp_ns: u64) -> OwnedPacket<'b> {
        let number = self.number;
        self.number += 1;
        let owner = Owner::Batch { queue: self.queue, shared: self.shared, index: self.index };
        OwnedPacket { owner, ranges, len, number, timestamp_ns }
    }

    /// The next packet, when it lies in more than one cell, or might.
    #[inline(never)]
    fn next_in_parts(&mut self, range: ChunkRange) -> OwnedPacket<'b> {
        let cells = self.reader.cells(&range).take_while(|(part, _)| part.more).count() as u32 + 1;
        let (own, rest) = range.split_at(cells);
        self.rest = rest;
        let ranges = [self.lead.take(), Some(own)];
        let mut parts = ranges.iter().flatten().flat_map(|range| self.reader.cells(range));
        // Its parts may have been received one after the other: it has the time of the first.
        let (mut len, timestamp_ns) =
            parts.next().map_or((0, 0), |(part, bytes)| (bytes.len(), part.timestamp_ns));
        len += parts.map(|(_, bytes)| bytes.len()).sum::<usize>();
        self.packet(ranges, len, timestamp_ns)
    }
}

/// Packets that were sent in a row, see [`Drain::forward`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Forwarded {
    /// How many.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When the first of them came, as [`crate::Packet::timestamp_ns`]; 0 if there is none.
    pub first_timestamp_ns: u64,
}

impl Drain<'_> {
    /// Sends packets from the front, as long as each lies in one cell, as most do, and is taken: as
    /// [`OwnedPacket::forward`] for each, in half the time. `change` is given the bytes of each before that, to be changed in
    /// place. The first that is refused is not changed; it is the next of the iterator, and
    /// refused there with the reason. So is the first that lies in several cells.
    ///
    /// ```no_run
    /// # let mut capture = wirecap::Capture::builder().port("eth1").port("eth2").transmit(1024).open()?;
    /// # let mut worker = capture.take_workers().remove(0);
    /// # let mut out = capture.take_transmitters().remove(1);
    /// while let Some(mut batch) = worker.next_batch() {
    ///     let Some(mut drain) = batch.drain() else { continue };
    ///     loop {
    ///         drain.forward(&mut out, |_| {});
    ///         let Some(packet) = drain.next() else { break };
    ///         let _ = packet.forward(&mut out);       // or wait, or keep it
    ///     }
    ///     out.flush()?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn forward(&mut self, transmitter: &mut Transmitter, mut change: impl FnMut(&mut [u8])) -> Forwarded {
        let mut run = Forwarded::default();
        if !self.queue.is_of_frames || !transmitter.sends_from(self.reader) {
            return run;
        }
        while let (None, Some(range)) = (&self.lead, &mut self.rest) {
            let Some(part) = self.reader.first(range).filter(|part| !part.more) else { break };
            if !transmitter.has_place(part.len as usize, self.index) {
                break;
            }
            change(self.reader.bytes_mut(range, 0));
            if !transmitter.take_first(self.reader, &mut self.rest, self.index) {
                break;
            }
            self.number += 1;
            if run.packets == 0 {
                run.first_timestamp_ns = part.timestamp_ns;
            }
            run.packets += 1;
            run.bytes += u64::from(part.len);
        }
        transmitter.count(run);
        run
    }
}

impl<'b> Iterator for Drain<'b> {
    type Item = OwnedPacket<'b>;

    #[inline]
    fn next(&mut self) -> Option<OwnedPacket<'b>> {
        let range = self.rest.take()?;
        let single = self.reader.first(&range).filter(|part| !part.more && self.lead.is_none());
        let Some(part) = single else { return Some(self.next_in_parts(range)) };
        let (own, rest) = range.split_at(1);
        self.rest = rest;
        Some(self.packet([None, Some(own)], part.len as usize, part.timestamp_ns))
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
    /// Made by a [`Stock`](super::Stock).
    Stock { shared: Arc<Shared>, index: usize },
}

impl Owner<'_> {
    #[inline]
    fn reader(&self) -> &CellReader {
        let queue = match self {
            Owner::Batch { queue, .. } => queue,
            Owner::Engine { shared, index } => &shared.queues[*index],
            Owner::Stock { shared, index } => return &shared.stocks[*index].reader,
        };
        queue.reader.cells().expect("only packets in cells are owned")
    }

    #[inline]
    fn send_home(&self, range: ChunkRange) {
        match self {
            Owner::Batch { queue, .. } => queue.send_home_range(range),
            Owner::Engine { shared, .. } | Owner::Stock { shared, .. } => shared.send_home(range),
        }
    }
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
    #[inline]
    fn reader(&self) -> &CellReader {
        self.owner.reader()
    }

    /// Length in bytes, all parts together.
    #[allow(clippy::len_without_is_empty, reason = "a packet has at least a header")]
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many packets of its receive queue were captured before it.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// When it came, as [`crate::Packet::timestamp_ns`].
    #[inline]
    pub fn timestamp_ns(&self) -> u64 {
        self.timestamp_ns
    }

    /// All its parts, in order: one, unless it is larger than a cell.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let reader = self.reader();
        self.ranges.iter().flatten().flat_map(move |range| reader.cells(range)).map(|(_, bytes)| bytes)
    }

    /// The first part: the whole packet unless it is larger than a cell.
    #[inline]
    pub fn data(&self) -> &[u8] {
        let first = self.ranges.iter().flatten().next();
        first.and_then(|range| self.reader().cells(range).next()).map_or(&[], |(_, bytes)| bytes)
    }

    /// The first part, to be changed in place.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        self.first_mut(|reader, range| reader.bytes_mut(range, 0))
    }

    /// Does something with the range of the first cell.
    #[inline]
    fn first_mut<'a, T>(&'a mut self, change: impl FnOnce(&'a CellReader, &'a mut ChunkRange) -> T) -> T {
        let Self { owner, ranges, .. } = self;
        change(owner.reader(), ranges.iter_mut().flatten().next().expect("a packet has a cell"))
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

    /// Makes the packet longer at its end, for a trailer; returns the new bytes, which may hold anything, or `None` when its last
    /// cell has no room for them.
    pub fn append(&mut self, bytes: usize) -> Option<&mut [u8]> {
        self.move_end(i64::try_from(bytes).ok()?).then(|| {
            let last = self.last_mut(|reader, range, offset| reader.bytes_mut(range, offset));
            let start = last.len() - bytes;
            &mut last[start..]
        })
    }

    /// Makes the packet shorter at its end. Returns whether its last part has more bytes than that.
    pub fn trim_end(&mut self, bytes: usize) -> bool {
        let last = self.parts().last().map_or(0, <[u8]>::len);
        bytes < last && self.move_end(-(bytes as i64))
    }

    /// Moves the end of the last part, its beginning staying where it is.
    fn move_end(&mut self, by: i64) -> bool {
        let moved = self.last_mut(|reader, range, offset| {
            let (part, _) = reader.cells(range).nth(offset as usize)?;
            let len = u32::try_from(i64::from(part.len) + by).ok()?;
            reader.move_bytes(range, offset, part.address, len).then_some(())
        });
        if moved.is_some() {
            self.len = (self.len as i64 + by) as usize;
        }
        moved.is_some()
    }

    /// Does something with the last cell: its range, and its place in that.
    fn last_mut<'a, T>(&'a mut self, change: impl FnOnce(&'a CellReader, &'a mut ChunkRange, u32) -> T) -> T {
        let Self { owner, ranges, .. } = self;
        let last = ranges.iter_mut().flatten().next_back().expect("a packet has a cell");
        let offset = last.count() - 1;
        change(owner.reader(), last, offset)
    }

    /// Where its parts lie, in bytes from the start of the packet memory: the same from when it was captured until it is sent,
    /// but for what was done to its ends.
    pub fn addresses(&self) -> impl Iterator<Item = u64> {
        let reader = self.reader();
        self.ranges.iter().flatten().flat_map(move |range| reader.cells(range)).map(|(part, _)| part.address)
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
    #[inline]
    pub fn forward(mut self, transmitter: &mut Transmitter) -> Result<(), NotSent<'b>> {
        // Changed where it is: moving a packet costs as much as sending it.
        match transmitter.take(&mut self) {
            Ok(()) => Ok(()),
            Err(reason) => Err(NotSent { packet: self, reason }),
        }
    }

    /// Keeps it for longer than its batch: its cells are missing in the pool, but no others, see [`crate::Batch`].
    pub fn keep(mut self) -> OwnedPacket<'static> {
        let owner = match &self.owner {
            Owner::Batch { shared, index, .. } => Owner::Engine { shared: Arc::clone(shared), index: *index },
            Owner::Engine { shared, index } => Owner::Engine { shared: Arc::clone(shared), index: *index },
            Owner::Stock { shared, index } => Owner::Stock { shared: Arc::clone(shared), index: *index },
        };
        let ranges = std::mem::take(&mut self.ranges);
        OwnedPacket { owner, ranges, len: self.len, number: self.number, timestamp_ns: self.timestamp_ns }
    }

    /// Which pool of its engine its cells belong to: those of receive queues first, then those of stocks.
    #[inline]
    pub(super) fn pool_index(&self) -> usize {
        match &self.owner {
            Owner::Batch { index, .. } | Owner::Engine { index, .. } => *index,
            Owner::Stock { shared, index } => shared.queues.len() + index,
        }
    }

    /// Whether it is an Ethernet frame, as far as its port knows.
    #[inline]
    pub(super) fn is_frame(&self) -> bool {
        match &self.owner {
            Owner::Batch { queue, .. } => queue.is_of_frames,
            Owner::Engine { shared, index } => shared.queues[*index].is_of_frames,
            Owner::Stock { .. } => true,
        }
    }

    /// Whether it lies where it was copied to in user space, not where it was captured.
    #[inline]
    pub(super) fn is_copy(&self) -> bool {
        matches!(self.owner, Owner::Stock { .. })
    }

    #[inline]
    pub(crate) fn cells(&self) -> u32 {
        self.ranges.iter().flatten().map(ChunkRange::count).sum()
    }

    /// Puts its cells into the ring, or leaves it as it was. Returns whether it has sent them.
    #[inline]
    pub(crate) fn send(&mut self, sender: &mut Sender) -> bool {
        let sent = match std::mem::take(&mut self.ranges) {
            [None, Some(cell)] if cell.count() == 1 => {
                sender.send_cell(self.reader(), cell).map_err(|cell| [None, Some(cell)])
            }
            ranges => sender.send(self.reader(), ranges),
        };
        match sent {
            Ok(()) => true,
            Err(ranges) => {
                self.ranges = ranges;
                false
            }
        }
    }
}

impl Drop for OwnedPacket<'_> {
    #[inline]
    fn drop(&mut self) {
        for range in std::mem::take(&mut self.ranges).into_iter().flatten() {
            self.owner.send_home(range);
        }
    }
}

impl OwnedPacket<'static> {
    /// A packet that a stock has made: its length, number and timestamp.
    pub(super) fn of_stock(
        shared: &Arc<Shared>,
        index: usize,
        ranges: [Option<ChunkRange>; 2],
        (len, number, timestamp_ns): (usize, u64, u64),
    ) -> Self {
        let owner = Owner::Stock { shared: Arc::clone(shared), index };
        Self { owner, ranges, len, number, timestamp_ns }
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

#[cfg(test)]
#[path = "owned_tests.rs"]
mod tests;
