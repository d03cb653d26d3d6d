//! Packets that own their cells: to be changed in place, sent, or kept.

use std::{fmt, sync::Arc};

use wirecap_core::ChunkRange;
use wirecap_headers::Frame;
use wirecap_sys::{memory::CellReader, xsk::Sender};

use crate::engine::{EngineState, queue::Queue};

/// The engine of a packet, and the index of its pool there: pools of queues come first, then those of packet
/// allocators.
pub(crate) enum Owner<'b> {
    /// Borrows from its batch: nothing is counted.
    Batch { queue: &'b Queue, shared: &'b Arc<EngineState>, pool: usize },
    /// Independent of its batch.
    Engine { shared: Arc<EngineState>, pool: usize },
}

impl Owner<'_> {
    #[inline]
    fn reader(&self) -> &CellReader {
        match self {
            Owner::Batch { queue, .. } => queue.cell_reader(),
            Owner::Engine { shared, pool } => shared.cell_reader(*pool),
        }
    }

    #[inline]
    fn send_home(&self, range: ChunkRange) {
        match self {
            Owner::Batch { queue, .. } => queue.send_home_range(range),
            Owner::Engine { shared, pool } => shared.send_home_to(*pool, range),
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
    pub(crate) owner: Owner<'b>,
    /// INVARIANT: the cells of one packet, in order, until it is sent or dropped.
    pub(crate) ranges: [Option<ChunkRange>; 2],
    pub(crate) len: usize,
    pub(crate) number: u64,
    pub(crate) timestamp_ns: u64,
}

impl<'b> OwnedPacket<'b> {
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
        let reader = self.owner.reader();
        self.ranges.iter().flatten().flat_map(move |range| reader.cells(range)).map(|(_, bytes)| bytes)
    }

    /// The first part: the whole packet unless it is larger than a cell.
    #[inline]
    pub fn data(&self) -> &[u8] {
        let first = self.ranges.iter().flatten().next();
        first.and_then(|range| self.owner.reader().cells(range).next()).map_or(&[], |(_, bytes)| bytes)
    }

    /// The first part, to be changed in place.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        self.with_cell(false, |reader, range, first| reader.bytes_mut(range, first))
    }

    /// Calls `change` with the first cell or the last: its range, and its index there.
    #[inline]
    fn with_cell<'a, T>(
        &'a mut self,
        is_last: bool,
        change: impl FnOnce(&'a CellReader, &'a mut ChunkRange, u32) -> T,
    ) -> T {
        let Self { owner, ranges, .. } = self;
        let mut ranges = ranges.iter_mut().flatten();
        let range = if is_last { ranges.next_back() } else { ranges.next() }.expect("a packet has a cell");
        let offset = if is_last { range.count() - 1 } else { 0 };
        change(owner.reader(), range, offset)
    }

    /// Moves the beginning of the first part, or of the last, by `start` bytes, and makes that part longer by
    /// `longer` bytes.
    fn move_part(&mut self, is_last: bool, start: i64, longer: i64) -> bool {
        let moved = self.with_cell(is_last, |reader, range, offset| {
            let (part, _) = reader.cells(range).nth(offset as usize)?;
            let address = part.address.checked_add_signed(start)?;
            let len = u32::try_from(i64::from(part.len).checked_add(longer)?).ok()?;
            reader.move_bytes(range, offset, address, len).then_some(())
        });
        if moved.is_some() {
            self.len = (self.len as i64 + longer) as usize;
        }
        moved.is_some()
    }

    /// Makes the packet longer at its beginning, for a header; returns the new bytes, which may hold
    /// anything, or `None` when there is no room: the kernel leaves 256 bytes in front of a packet.
    pub fn prepend(&mut self, bytes: usize) -> Option<&mut [u8]> {
        let longer = i64::try_from(bytes).ok()?;
        self.move_part(false, -longer, longer).then(|| &mut self.data_mut()[..bytes])
    }

    /// Makes the packet shorter at its beginning. Returns whether its first part has more bytes than that.
    pub fn trim_front(&mut self, bytes: usize) -> bool {
        bytes < self.data().len() && self.move_part(false, bytes as i64, -(bytes as i64))
    }

    /// Makes the packet longer at its end, for a trailer; returns the new bytes, which may hold anything, or
    /// `None` when its last cell has no room for them.
    pub fn append(&mut self, bytes: usize) -> Option<&mut [u8]> {
        self.move_part(true, 0, i64::try_from(bytes).ok()?).then(|| {
            let last = self.with_cell(true, |reader, range, offset| reader.bytes_mut(range, offset));
            let start = last.len() - bytes;
            &mut last[start..]
        })
    }

    /// Makes the packet shorter at its end. Returns whether its last part has more bytes than that.
    pub fn trim_end(&mut self, bytes: usize) -> bool {
        let last = self.parts().last().map_or(0, <[u8]>::len);
        bytes < last && self.move_part(true, 0, -(bytes as i64))
    }

    /// Where its parts lie, in bytes from the start of the packet memory. Only moving an end of the packet
    /// changes them.
    pub fn addresses(&self) -> impl Iterator<Item = u64> {
        let reader = self.owner.reader();
        self.ranges.iter().flatten().flat_map(move |range| reader.cells(range)).map(|(part, _)| part.address)
    }

    /// Keeps it for longer than its batch. The pool lacks the cells of the packet, and no others: see
    /// [`crate::Batch`].
    pub fn keep(mut self) -> OwnedPacket<'static> {
        let (shared, pool) = match &self.owner {
            Owner::Batch { shared, pool, .. } => (*shared, *pool),
            Owner::Engine { shared, pool } => (shared, *pool),
        };
        let owner = Owner::Engine { shared: Arc::clone(shared), pool };
        let ranges = std::mem::take(&mut self.ranges);
        OwnedPacket { owner, ranges, len: self.len, number: self.number, timestamp_ns: self.timestamp_ns }
    }

    /// Index of the pool that its cells belong to.
    #[inline]
    pub(crate) fn pool_index(&self) -> usize {
        match self.owner {
            Owner::Batch { pool, .. } | Owner::Engine { pool, .. } => pool,
        }
    }

    /// Whether it is an Ethernet frame, as far as its port knows.
    #[inline]
    pub(crate) fn is_frame(&self) -> bool {
        match &self.owner {
            Owner::Batch { queue, .. } => queue.is_of_frames,
            Owner::Engine { shared, pool } => shared.queues.get(*pool).is_none_or(|queue| queue.is_of_frames),
        }
    }

    /// Whether it lies in cells of a packet allocator, not where it was captured.
    #[inline]
    pub(crate) fn is_copy(&self) -> bool {
        matches!(&self.owner, Owner::Engine { shared, pool } if *pool >= shared.queues.len())
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
                sender.send_cell(self.owner.reader(), cell).map_err(|cell| [None, Some(cell)])
            }
            ranges => sender.send(self.owner.reader(), ranges),
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

impl Frame for OwnedPacket<'_> {
    fn data(&self) -> &[u8] {
        OwnedPacket::data(self)
    }

    fn data_mut(&mut self) -> &mut [u8] {
        OwnedPacket::data_mut(self)
    }

    fn prepend(&mut self, bytes: usize) -> bool {
        OwnedPacket::prepend(self, bytes).is_some()
    }

    fn trim_front(&mut self, bytes: usize) -> bool {
        OwnedPacket::trim_front(self, bytes)
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
mod tests;
