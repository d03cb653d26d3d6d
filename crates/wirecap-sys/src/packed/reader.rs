//! Reading packets that were packed.

use std::{marker::PhantomData, ptr::NonNull, sync::Arc};

use wirecap_core::{ChunkRange, FilledParts, Pool, SlotPart, SlotTable};

use super::{
    PackedMemory,
    blocks::BlockMap,
    record::{PackedPacket, PackedRecord, RecordLengths, RecordMark},
};

/// Reads captured parts of one stream.
#[derive(Debug, Clone)]
pub struct PackedReader {
    memory: Arc<PackedMemory>,
    blocks: Arc<BlockMap>,
    /// INVARIANT: of the pool that was made for the stream; only one is.
    slots: Arc<SlotTable>,
    cells_per_block: u32,
}

impl PackedReader {
    pub(super) fn new(memory: &Arc<PackedMemory>, blocks: &Arc<BlockMap>, pool: &Pool) -> Self {
        let cells_per_block = pool.geometry().cells_per_chunk();
        let (memory, blocks) = (Arc::clone(memory), Arc::clone(blocks));
        Self { memory, blocks, slots: pool.slots(), cells_per_block }
    }

    /// The packets of a range, in the order in which they came. Empty when the range is of another pool.
    #[inline]
    pub fn packets<'a>(&'a self, range: &'a ChunkRange) -> PackedPackets<'a> {
        let parts = self.slots.parts(range);
        let block = match &parts {
            Some(_) => self.block(range),
            None => NonNull::dangling(),
        };
        let block_bytes = self.memory.layout.geometry.chunk_bytes();
        PackedPackets { block, block_bytes, parts, at: 0, left: 0, time_ns: 0, _block: PhantomData }
    }

    /// Writes times that are known [by part](wirecap_core::PackedPart::first_ns) into the records, where
    /// [`Self::records`] finds them. Does nothing if they are there, or if the range is of another pool.
    pub fn write_times(&self, range: &mut ChunkRange) {
        let (block_bytes, mut block) = (self.memory.layout.geometry.chunk_bytes(), None);
        let first = range.first();
        self.slots.settle_times(range, |SlotPart { bytes, first_ns }| {
            let block = *block.get_or_insert_with(|| self.block_of(first));
            let (mut at, mut time_ns) = (bytes.start, first_ns);
            while at < bytes.end && bytes.end <= block_bytes {
                // SAFETY: the part lies in the block (checked above), which is mapped as long as `self`
                // exists. It is captured, and all readers and writers of its bytes borrow its range, which is
                // borrowed exclusively here: the invariant of `PackedPackets::block`.
                let (start, checked) = unsafe {
                    let start = block.add(at as usize);
                    (start, RecordLengths::at(start, bytes.end - at))
                };
                let Some(checked) = checked else { break };
                // SAFETY: it was checked there just now, and its bytes are this function's, as above.
                unsafe { PackedRecord::new(start, checked) }.set_time(time_ns);
                (at, time_ns) = (at + checked.total, time_ns + 1);
            }
        });
    }

    /// The records of a range as they lie there. `None` if some of them were refused, if times are not in
    /// their records ([`Self::write_times`]), and if the range is of another pool.
    #[inline]
    pub fn records<'a>(&'a self, range: &'a ChunkRange) -> Option<PackedRecords<'a>> {
        let all = self.slots.parts(range)?.joined()?;
        if all.start > all.end || all.end > self.memory.layout.geometry.chunk_bytes() {
            return None;
        }
        let block = self.block(range);
        // SAFETY: the parts lie in the block (checked above), which is mapped as long as `self` is borrowed.
        // They are captured, and not written during `'a`: the invariant of `PackedPackets::block`.
        let bytes = unsafe {
            let start = block.add(all.start as usize);
            std::slice::from_raw_parts(start.as_ptr(), (all.end - all.start) as usize)
        };
        Some(PackedRecords { rest: bytes })
    }

    /// The block of a range of the pool.
    #[inline]
    fn block(&self, range: &ChunkRange) -> NonNull<u8> {
        self.block_of(range.first())
    }

    /// The block that has this cell of the pool. The caller borrows a range of it.
    #[inline]
    fn block_of(&self, cell: u32) -> NonNull<u8> {
        self.memory.block(self.blocks.of(cell / self.cells_per_block))
    }
}

/// The records of a range as they lie there, one behind the other and with nothing between them.
#[derive(Debug, Clone)]
pub struct PackedRecords<'a> {
    rest: &'a [u8],
}

impl<'a> PackedRecords<'a> {
    /// The bytes of all records that are not iterated over yet.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.rest
    }
}

impl Iterator for PackedRecords<'_> {
    type Item = RecordMark;

    #[inline]
    fn next(&mut self) -> Option<RecordMark> {
        let mark = RecordMark::at(self.rest)?;
        self.rest = &self.rest[mark.len as usize..];
        Some(mark)
    }
}

/// The packets of a range.
#[derive(Debug, Clone)]
pub struct PackedPackets<'a> {
    /// INVARIANT: start of a block of which `parts` are captured, as long as `'a` lasts: a `ChunkRange` of
    /// its pool is borrowed, and such a range is made from parts that were received and consumed before the
    /// block is given back (rule of `mod.rs`). It is the block of the range's chunk as long as there is a
    /// range (invariant of `BlockMap`).
    block: NonNull<u8>,
    block_bytes: u32,
    parts: Option<FilledParts<'a>>,
    /// The next record of the current part, and what is left of the part, in bytes.
    at: u32,
    left: u32,
    /// The time of its packet, unless the record has it: then 0.
    time_ns: u64,
    _block: PhantomData<&'a [u8]>,
}

// SAFETY: only reads bytes that are not written during `'a`.
unsafe impl Send for PackedPackets<'_> {}
// SAFETY: as above.
unsafe impl Sync for PackedPackets<'_> {}

impl<'a> PackedPackets<'a> {
    /// Goes on to the next part.
    #[cold]
    fn next_part(&mut self) -> Option<()> {
        let SlotPart { bytes, first_ns } = self.parts.as_mut()?.next()?;
        (self.at, self.left) =
            if bytes.end <= self.block_bytes { (bytes.start, bytes.end - bytes.start) } else { (0, 0) };
        self.time_ns = first_ns;
        Some(())
    }
}

impl<'a> Iterator for PackedPackets<'a> {
    type Item = PackedPacket<'a>;

    #[inline]
    fn next(&mut self) -> Option<PackedPacket<'a>> {
        loop {
            if self.left == 0 {
                self.next_part()?;
            }
            // SAFETY: the part lies in the block (`next_part`), which is mapped, and its bytes are not
            // written during `'a`, by the invariant on `block`.
            let (start, checked) = unsafe {
                let start = self.block.add(self.at as usize);
                (start, RecordLengths::at(start, self.left))
            };
            let Some(checked) = checked else {
                self.left = 0;
                continue;
            };
            let time_ns = self.time_ns;
            self.at += checked.total;
            self.left -= checked.total;
            self.time_ns += u64::from(time_ns > 0);
            if !checked.is_refused {
                // SAFETY: it was checked there just now, and nothing writes it during `'a`, as above.
                return Some(unsafe { PackedRecord::new(start, checked).packet() }.at(time_ns));
            }
        }
    }
}
