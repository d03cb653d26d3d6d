//! Takes the packets out of a batch.
//!
//! ```text
//!   Batch ── drain() ──► Drain ──► OwnedPacket: the ChunkRanges of its cells, a lead and the rest at most
//!                          └─ dropped: what was not taken goes home
//! ```

use std::sync::Arc;

use wirecap_core::ChunkRange;
use wirecap_sys::memory::CellReader;

use super::{OwnedPacket, owned_packet::Owner};
use crate::engine::{EngineState, queue::Queue};

/// Takes the packets out of a [`Batch`](crate::Batch) one by one, in order.
pub struct Drain<'b> {
    pub(crate) queue: &'b Queue,
    pub(crate) reader: &'b CellReader,
    pub(super) shared: &'b Arc<EngineState>,
    pub(crate) index: usize,
    pub(crate) lead: Option<ChunkRange>,
    pub(crate) rest: Option<ChunkRange>,
    pub(crate) number: u64,
}

impl<'b> Drain<'b> {
    #[inline]
    fn packet(&mut self, ranges: [Option<ChunkRange>; 2], len: usize, timestamp_ns: u64) -> OwnedPacket<'b> {
        let number = self.number;
        self.number += 1;
        let owner = Owner::Batch { queue: self.queue, shared: self.shared, pool: self.index };
        OwnedPacket { owner, ranges, len, number, timestamp_ns }
    }

    /// The next packet, if it may lie in more than one cell.
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
