//! The packets of a batch, in order.

use wirecap_core::Handover;
use wirecap_sys::{packed::PackedPackets, packet::BlockPackets};

use super::{
    Described, Packet,
    cursor::Cursor,
    reader::{ChunkReader, Front},
};

/// Where the packets of a batch are.
#[derive(Clone)]
enum Source<'b> {
    Cells(Cursor<'b>),
    Block(BlockPackets<'b>),
    Packed(PackedPackets<'b>),
    /// They were drained.
    Nothing,
}

/// The packets of a [`Batch`](crate::Batch), in order.
#[derive(Clone)]
pub struct Packets<'b> {
    source: Source<'b>,
    front: Front,
    number: u64,
    left: u32,
}

impl<'b> Packets<'b> {
    /// Those of a hand-over, as the reader of its queue finds them.
    pub(crate) fn of(reader: &'b ChunkReader, handover: &'b Handover) -> Self {
        let (source, front) = match reader {
            ChunkReader::Cells(reader, front) => (Source::Cells(Cursor::new(reader, handover)), *front),
            ChunkReader::Blocks(reader) => (Source::Block(reader.packets(&handover.range)), Front::Nothing),
            ChunkReader::Packed { reader, .. } => {
                (Source::Packed(reader.packets(&handover.range)), Front::Nothing)
            }
        };
        Self { source, front, number: handover.first_number, left: handover.packets }
    }

    /// No packets: they were drained.
    pub(crate) fn none(number: u64) -> Self {
        Self { source: Source::Nothing, front: Front::Nothing, number, left: 0 }
    }
}

impl<'b> Iterator for Packets<'b> {
    type Item = Packet<'b>;

    #[inline]
    fn next(&mut self) -> Option<Packet<'b>> {
        let number = self.number;
        let packet = match &mut self.source {
            Source::Cells(cursor) => {
                if self.front == Front::Nothing {
                    Packet::described(number, Described::of_cells(cursor)?)
                } else {
                    let meta = cursor.clone().next_front(self.front);
                    Packet::described(number, Described::of_cells(cursor)?.with(meta))
                }
            }
            Source::Block(packets) => Packet::described(number, Described::of_block(packets.next()?)),
            Source::Packed(packets) => Packet::packed(number, packets.next()?),
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
