//! Cells that this process fills itself: for a port whose packets come from user space.
//!
//! ```text
//!   attach: cells of free chunks ──► CellWriter ── write() ──► FilledCell ──► the pool: captured
//!
//!   cell:  │ head room: 256 bytes, as in front of a packet of a NIC       │ the packet, or a part of it │
//!          │ …                                       │ note: 8 bytes     │
//! ```
//!
//! Rule: the writer has what the kernel has of another port: the right to the cells of its pool from when
//! they are attached until they are filled. A cell is written once and leaves the writer by that.

use std::sync::Arc;

use wirecap_core::{Descriptor, Direction};

use super::{Cells, FilledCell, LivePool, PacketMemory, PoolLease, Tenant};

/// Bytes that stay free in front of a packet, as the kernel leaves them (`XDP_PACKET_HEADROOM`): forwarding
/// the packet has room for headers.
pub const HEAD_ROOM_BYTES: u32 = 256;
const NOTE_BYTES: usize = 8;
const _: () = assert!(NOTE_BYTES <= HEAD_ROOM_BYTES as usize);

/// Every cell begins at a multiple of its size, which is a multiple of this.
const SMALLEST_CELL_BYTES: u64 = 2048;

/// What is known of a packet besides its bytes and its time. Stands in front of it in its cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Note {
    /// How long it was on the wire, in bytes.
    pub original_len: u32,
    /// Its direction, if known.
    pub direction: Option<Direction>,
}

impl Note {
    fn to_bytes(self) -> [u8; NOTE_BYTES] {
        let direction: u32 = match self.direction {
            None => 0,
            Some(Direction::In) => 1,
            Some(Direction::Out) => 2,
        };
        ((u64::from(direction) << 32) | u64::from(self.original_len)).to_ne_bytes()
    }

    fn from_bytes(bytes: [u8; NOTE_BYTES]) -> Self {
        let word = u64::from_ne_bytes(bytes);
        let direction = match word >> 32 {
            1 => Some(Direction::In),
            2 => Some(Direction::Out),
            _ => None,
        };
        Self { original_len: word as u32, direction }
    }
}

/// Fills the cells of one pool. For the thread that owns the pool.
#[derive(Debug)]
pub struct CellWriter {
    memory: Arc<PacketMemory>,
    lease: PoolLease,
    /// Cells that are attached and not filled: a ring. INVARIANT: the length is a power of two that holds the
    /// whole pool, and `head <= tail <= head + length`. Entries `head .. tail` are cells that the pool of
    /// `lease` has attached here and that were not filled since, each once.
    cells: Box<[u64]>,
    head: usize,
    tail: usize,
}

impl CellWriter {
    /// The writer of a pool; `None` if another writer or a socket has the lease of its cells, or it has no
    /// cells.
    pub fn new(pool: &LivePool) -> Option<Self> {
        let memory = Arc::clone(pool.memory()?);
        let lease = pool.lease(&memory, Tenant::Writer)?;
        let cells = vec![0; pool.geometry().ring_entries() as usize].into();
        Some(Self { memory, lease, cells, head: 0, tail: 0 })
    }

    /// Takes the cells of the pool's free chunks.
    ///
    /// # Panics
    /// When it is another pool.
    pub fn attach(&mut self, pool: &mut LivePool) {
        let (room, mask) = (self.cells.len() - (self.tail - self.head), self.cells.len() - 1);
        pool.attach(&self.lease, room as u32, |cell| {
            self.cells[self.tail & mask] = cell;
            self.tail += 1;
        });
    }

    /// Bytes that one cell holds, behind its head room.
    pub fn payload_bytes(&self) -> usize {
        (self.lease.place().cell_bytes() - u64::from(HEAD_ROOM_BYTES)) as usize
    }

    /// Cells that can be written.
    pub fn attached(&self) -> u32 {
        (self.tail - self.head) as u32
    }

    /// Writes as much of `bytes` as one cell holds, behind the head room with the note in it. The cell says
    /// how much that was, and whether there is more. `None` if no cell is attached.
    pub fn write(&mut self, note: Note, bytes: &[u8]) -> Option<FilledCell> {
        if self.head == self.tail {
            return None;
        }
        let address = self.cells[self.head & (self.cells.len() - 1)] + u64::from(HEAD_ROOM_BYTES);
        let part = &bytes[..bytes.len().min(self.payload_bytes())];
        let note_at = address - NOTE_BYTES as u64;
        // It leaves `cells` before it is written, and with it the right to fill it.
        self.head += 1;
        // SAFETY: the cell was attached and not filled since by the invariant on `cells`, so it is with this
        // writer alone (rule of `memory.rs`), and the note and this part of the packet lie within it.
        let written =
            unsafe { self.memory.write(note_at, &note.to_bytes()) && self.memory.write(address, part) };
        debug_assert!(written, "cells of a pool lie in its memory");
        Some(FilledCell::new(self.lease.number(), address, part.len() as u32, part.len() < bytes.len()))
    }

    /// Fills up to `count` cells with packets, or parts of `len` bytes that go on in the next cell, without
    /// writing them: with whatever is in memory. For measuring everything else. A longer part than a cell
    /// holds is foreign to the pool.
    #[inline]
    pub fn fill_unwritten(
        &mut self,
        count: u32,
        len: u32,
        more: bool,
    ) -> impl ExactSizeIterator<Item = FilledCell> + '_ {
        let (number, mask, first) = (self.lease.number(), self.cells.len() - 1, self.head);
        self.head += self.attached().min(count) as usize;
        let cells = &self.cells;
        (first..self.head).map(move |index| {
            FilledCell::new(number, cells[index & mask] + u64::from(HEAD_ROOM_BYTES), len, more)
        })
    }

    /// The cells that can be filled, by their numbers: cells are numbered through as they are filled.
    pub fn waiting(&self) -> std::ops::Range<u64> {
        self.head as u64..self.tail as u64
    }
}

impl<'a> Cells<'a> {
    /// The next filled cell with the note in front of it. Only cells of a [`CellWriter`] have one: in others
    /// anything may stand there.
    #[inline]
    pub fn next_with_note(&mut self) -> Option<(Descriptor, &'a [u8], Note)> {
        let (descriptor, bytes, word) = self.next_with_word(NOTE_BYTES as u32)?;
        Some((descriptor, bytes, Note::from_bytes(word?)))
    }

    /// The next filled cell with the word that begins `before` bytes in front of the packet: a note, or
    /// metadata of an XDP program. In cells where neither was written anything may stand there. No word if
    /// the cell does not reach so far.
    ///
    /// # Panics
    /// If `before` is less than a word.
    #[inline]
    pub fn next_with_word(&mut self, before: u32) -> Option<(Descriptor, &'a [u8], Option<Word>)> {
        assert!(before as usize >= NOTE_BYTES, "the word would reach into the packet");
        let (descriptor, bytes) = self.next()?;
        if descriptor.address % SMALLEST_CELL_BYTES < u64::from(before) {
            return Some((descriptor, bytes, None));
        }
        // SAFETY: the bytes lie in the same cell as the first of the packet, in front of it (checked above),
        // so in the memory, and the cell is captured and its range borrowed for `'a`, by the invariant on
        // `filled`.
        let word = unsafe { self.memory.bytes(descriptor.address - u64::from(before), NOTE_BYTES as u32) };
        Some((descriptor, bytes, word.try_into().ok()))
    }
}

/// Bytes in front of a packet.
pub type Word = [u8; NOTE_BYTES];

#[cfg(test)]
mod tests {
    use wirecap_core::{Geometry, PoolId};

    use super::*;

    const ID: PoolId = PoolId { nic_id: 0, ring_id: 0 };

    #[test]
    fn a_packet_is_read_back_with_its_note_across_cells() {
        for cell_bytes in [2048, 4096] {
            let geometry = Geometry::new(4, 2, cell_bytes).unwrap();
            let payload = (cell_bytes - HEAD_ROOM_BYTES) as usize;
            let memory = Arc::new(PacketMemory::allocate(geometry.pool_bytes(), cell_bytes).unwrap());
            let mut pool = memory.carve(ID, geometry).unwrap();
            let reader = pool.reader();
            let mut writer = CellWriter::new(&pool).unwrap();
            assert!(CellWriter::new(&pool).is_none(), "one writer at a time");
            let notes = [
                Note { original_len: u32::MAX, direction: Some(Direction::Out) },
                Note { original_len: 0, direction: None },
                Note { original_len: 9000, direction: Some(Direction::In) },
            ];
            assert!(writer.write(notes[0], b"no cell").is_none());
            writer.attach(&mut pool);
            assert_eq!(writer.attached(), 8);
            let packets = [vec![7; payload], Vec::new(), (0..=payload).map(|at| at as u8).collect()];
            let mut filler = pool.filler().unwrap();
            for (packet, note) in packets.iter().zip(notes) {
                let mut at = 0;
                loop {
                    let part = writer.write(note, &packet[at..]).unwrap();
                    at += part.len() as usize;
                    let more = part.more();
                    assert_eq!(more, at < packet.len());
                    filler.fill(std::iter::once((part, 5)));
                    if !more {
                        break;
                    }
                }
            }
            filler.finish();
            assert_eq!((writer.attached(), pool.foreign()), (4, 0));
            let handover = pool.hand_over().unwrap();
            assert_eq!(handover.packets, 3);
            let mut cells = reader.cells(&handover.range);
            for (packet, note) in packets.iter().zip(notes) {
                let (mut descriptor, bytes, read) = cells.next_with_note().unwrap();
                assert_eq!(read, note);
                let mut whole = bytes.to_vec();
                while descriptor.more {
                    let (next, bytes) = cells.next().unwrap();
                    whole.extend(bytes);
                    descriptor = next;
                }
                assert_eq!((&whole, descriptor.timestamp_ns), (packet, 5));
            }
            assert!(cells.next_with_note().is_none());
        }
    }

    #[test]
    #[should_panic(expected = "the pool of another socket or writer")]
    fn a_writer_takes_cells_of_its_own_pool_only() {
        let geometry = Geometry::new(1, 1, 2048).unwrap();
        let memory = Arc::new(PacketMemory::allocate(2 * geometry.pool_bytes(), 2048).unwrap());
        let pool = memory.carve(ID, geometry).unwrap();
        let mut other = memory.carve(ID, geometry).unwrap();
        CellWriter::new(&pool).unwrap().attach(&mut other);
    }
}
