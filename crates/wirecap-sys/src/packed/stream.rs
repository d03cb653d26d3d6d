//! One stream, as its receiver has it: gives blocks to the program, and receives what is in them.

use std::{
    sync::{Arc, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};

use wirecap_core::{PackedPart, Pool, PoolId, PoolNumber};

use super::{
    PackedError, PackedMemory, PackedReader,
    alarm::StreamAlarm,
    index::{BlockIndex, Cursor, ENTRY_BYTES, max_records},
    memory::{GIVEN_AT, ORDER_AT, RETIRE_AT},
    program::MIN_ROOM_BYTES,
    record::{Checked, HEADER_BYTES, PackedRecord},
};
use crate::{
    cpu,
    memory::{FilledPart, LivePool},
    prefetch,
    wake::Waker,
};

/// A part ends behind the packet with which it has this number of bytes, so that a worker can begin with what
/// is there.
const PART_BYTES: u32 = 32 << 10;

/// How many records ahead of the one that is received are asked for, so that the other core's cache sends
/// several at a time.
const RECORDS_AHEAD: u32 = 8;

/// How long packets wait for more, where a part of only these would take more than its share of a pool of
/// which half is used.
const SHARE_TIMEOUT: Duration = Duration::from_millis(5);

/// How long packets wait for the next one to end their block.
const SEAL_AFTER: Duration = Duration::from_millis(2);

/// One stream. For the thread that owns its pool.
#[derive(Debug)]
pub struct PackedStream {
    memory: Arc<PackedMemory>,
    stream: u32,
    /// The pool of its blocks.
    pool: PoolNumber,
    /// The block of each number that was given.
    order: Box<[u32]>,
    /// Blocks that were given so far: the number of the next one.
    given: u32,
    /// The number of the block that is received. INVARIANT: that of the program's block, one before it whose
    /// end was not received yet, or the one behind it if that is full.
    current: u32,
    /// The next record of the current block. INVARIANT: what is in front of it was received.
    next: Cursor,
    /// The next record to ask for, of the current block.
    ahead: Cursor,
    /// Bytes of all blocks that were received to their end.
    before: u64,
    /// Blocks are still given.
    gives: bool,
    /// Since when packets wait for more.
    small_since: Option<Instant>,
    /// Since when packets of the current block wait for its end, for which the last cell is kept.
    stuck_since: Option<Instant>,
    /// The program writes nothing more into the current block, though it has not come to the next one.
    is_sealed: bool,
    /// What follows in the current block cannot be read.
    is_broken: bool,
    alarm: Arc<StreamAlarm>,
}

impl PackedMemory {
    /// Opens a stream: what receives from it, the pool of its blocks, and what reads them. `None` if the
    /// memory has no stream of that number, or it was opened before: two pools would both give the same
    /// blocks away.
    ///
    /// # Errors
    /// [`PackedError::Mapping`].
    pub fn open_stream(
        self: &Arc<Self>,
        stream: u32,
        id: PoolId,
    ) -> Result<Option<(PackedStream, LivePool, PackedReader)>, PackedError> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(opened) = opened.get_mut(stream as usize).filter(|opened| !**opened) else {
            return Ok(None);
        };
        let alarm = Arc::new(StreamAlarm::new(self, stream)?);
        *opened = true;
        let pool = Pool::new(id, self.layout.geometry, 0);
        let reader = PackedReader::new(self, stream, &pool);
        let stream = PackedStream::new(self, stream, pool.number(), alarm);
        Ok(Some((stream, LivePool::of_blocks(pool), reader)))
    }
}

impl PackedStream {
    fn new(memory: &Arc<PackedMemory>, stream: u32, pool: PoolNumber, alarm: Arc<StreamAlarm>) -> Self {
        let order = vec![0; memory.layout.numbers as usize].into();
        let memory = Arc::clone(memory);
        let (given, current, before, gives) = (0, 0, 0, true);
        let (next, ahead) = (Cursor::default(), Cursor::default());
        let (small_since, stuck_since, is_sealed, is_broken) = (None, None, false, false);
        Self {
            memory,
            stream,
            pool,
            order,
            given,
            current,
            next,
            ahead,
            before,
            gives,
            small_since,
            stuck_since,
            is_sealed,
            is_broken,
            alarm,
        }
    }

    /// Gives the free blocks of the pool to the program; none from now on without a pool. Returns how many.
    ///
    /// # Panics
    /// When the pool is not the one of this stream.
    pub fn attach(&mut self, pool: Option<&mut LivePool>) -> u32 {
        self.gives = pool.is_some();
        let Some(pool) = pool else { return 0 };
        assert!(pool.number() == self.pool, "the pool that was made for this stream");
        let before = self.given;
        while let Some(block) = pool.attach_free_block() {
            let entry = self.entry(self.given);
            self.order[entry as usize] = block;
            let index = self.memory.block_index(self.stream, block);
            self.memory.word(self.stream, ORDER_AT + 4 * entry).store(index, Ordering::Relaxed);
            self.given = self.given.wrapping_add(1);
        }
        if self.given != before {
            // Pairs with the program's load, behind which it reads the block's entry and writes into the
            // block: all our reads of the block come before.
            self.memory.word(self.stream, GIVEN_AT as u32).store(self.given, Ordering::Release);
        }
        self.given.wrapping_sub(before)
    }

    /// The entry of a block's number in `order` and `ends`.
    fn entry(&self, number: u32) -> u32 {
        number & (self.memory.layout.numbers - 1)
    }

    fn block_bytes(&self) -> u32 {
        self.memory.layout.geometry.chunk_bytes()
    }

    /// What wakes a thread for packets of this stream.
    pub fn waker(&self) -> Waker {
        self.alarm.waker()
    }

    /// Where the program is, as it says so.
    fn published(&self) -> u64 {
        // Pairs with the program's publication: all bytes in front of it are there.
        self.memory.position(self.stream).load(Ordering::Acquire)
    }

    /// The number of a block and an offset in it.
    fn place(&self, position: u64) -> (u32, u32) {
        ((position >> 32) as u32, (position as u32).min(self.block_bytes()))
    }

    /// Where a block that the program has left ends.
    fn end_of(&self, number: u32) -> u32 {
        let at = self.memory.layout.ends_at() + 4 * self.entry(number);
        // Ordered by the load of the position.
        self.memory.word(self.stream, at).load(Ordering::Relaxed).min(self.block_bytes())
    }

    /// What is in front of this offset of the block that is received is there.
    fn end(&self, (number, offset): (u32, u32)) -> u32 {
        if number == self.current {
            offset
        } else if number.wrapping_add(1) == self.current {
            // The program has filled the block before, and has not come to this one.
            0
        } else {
            self.end_of(self.current)
        }
    }

    /// Whether nothing will follow in the block that is received.
    fn is_closed(&self, (number, offset): (u32, u32)) -> bool {
        if number == self.current {
            self.is_sealed || self.is_full(offset)
        } else {
            number.wrapping_add(1) != self.current
        }
    }

    /// Whether no packet is so short that it would find room behind `end`, where a record of the current
    /// block ends.
    fn is_full(&self, end: u32) -> bool {
        let has_room = |records| end + records * ENTRY_BYTES <= self.block_bytes() - MIN_ROOM_BYTES;
        // Most of the time, it would have room behind as many records as there can be.
        !self.is_broken
            && !has_room(max_records(end))
            && self.index().records_until(end, self.next).is_some_and(|records| !has_room(records))
    }

    /// The index of the block that is received. INVARIANT: one was given.
    fn index(&self) -> BlockIndex<'_> {
        self.memory.index(self.stream, self.order[self.entry(self.current) as usize])
    }

    /// What was received, in bytes counted since the start.
    pub fn received(&self) -> u64 {
        self.before + u64::from(self.next.at)
    }

    /// What waits, in bytes counted since the start.
    pub fn waiting(&self) -> std::ops::Range<u64> {
        let position = self.place(self.published());
        let start = self.received();
        if self.given == self.current || position.0.wrapping_add(1) == self.current {
            return start..start;
        }
        let mut end = self.before + u64::from(self.end(position).max(self.next.at));
        let mut number = self.current;
        while number != position.0 && number != self.given {
            number = number.wrapping_add(1);
            end += u64::from(if number == position.0 { position.1 } else { self.end_of(number) });
        }
        start..end
    }

    /// Receives the next part, up to what [`waiting`](Self::waiting) counts as `end`, into a pool that can
    /// still fill `space` cells of the block. `visit` sees each packet, may set its time, and returns whether
    /// it is wanted. The others are as if they had not been there.
    pub fn receive(
        &mut self,
        end: u64,
        space: u32,
        mut visit: impl FnMut(&mut PackedRecord<'_>) -> bool,
    ) -> Option<FilledPart> {
        if self.given == self.current {
            return None;
        }
        let published = self.published();
        let position = self.place(published);
        let (limit, is_closed) = (self.end(position), self.is_closed(position));
        let wanted = end.saturating_sub(self.before).min(limit.into()) as u32;
        // The last cell is kept for the last part, which has to be seen to its end. At the end of the
        // capture, that is whatever is there.
        let is_final = !is_closed && !self.gives && space == 1;
        let is_whole = is_closed && wanted == limit;
        if space < 2 && !is_whole && !is_final {
            if !is_closed && self.next.at < limit {
                self.end_block_in_time();
            }
            return None;
        }
        if !is_closed && self.is_too_small(limit) {
            return None;
        }
        let start = self.next.at;
        let part_end = if space < 2 { u32::MAX } else { start + PART_BYTES };
        let (packets, bytes, end) = self.walk(wanted.min(part_end), limit, &mut visit);
        let is_last = is_closed && self.next.at >= limit || is_final;
        if self.next.at >= limit && self.current == position.0 {
            self.alarm.received.store(published, Ordering::Relaxed);
        }
        if end == start && !is_last {
            return None;
        }
        let part = PackedPart { start, len: end - start, packets, bytes, is_last };
        self.note(space, part);
        Some(FilledPart::new(self.pool, part))
    }

    /// Visits the records of the current block that begin in front of `until`. Those in front of `limit` are
    /// there. Returns how many are wanted, the bytes of their packets, and where the last one ends.
    #[inline]
    fn walk(
        &mut self,
        until: u32,
        limit: u32,
        visit: &mut impl FnMut(&mut PackedRecord<'_>) -> bool,
    ) -> (u32, u32, u32) {
        let block = self.memory.block(self.stream, self.order[self.entry(self.current) as usize]);
        let index = self.index();
        let (mut next, mut ahead, mut is_broken) = (self.next, self.ahead, self.is_broken);
        let (mut packets, mut bytes) = (0, 0);
        while next.at < until {
            while ahead.number < next.number + RECORDS_AHEAD && ahead.at < limit {
                let record_bytes = index.record_bytes(ahead.number);
                if record_bytes == 0 {
                    break;
                }
                let header = block.as_ptr().wrapping_add(ahead.at as usize);
                // The time and the first bytes of the packet may be in the next line.
                prefetch::to_write(header);
                prefetch::to_write(header.wrapping_add(HEADER_BYTES as usize));
                ahead = ahead.behind(record_bytes);
            }
            // SAFETY: the program has published all bytes in front of `limit`, which lies in the block, and
            // does not write there until the block is given again.
            let (place, checked) = unsafe {
                let place = block.add(next.at as usize);
                (place, Checked::at(place, limit - next.at))
            };
            let agrees = |checked: &Checked| checked.total == index.record_bytes(next.number);
            let Some(checked) = checked.filter(|checked| !is_broken && agrees(checked)) else {
                // Only a program that is not ours writes such a record. The rest cannot be read.
                is_broken = true;
                break;
            };
            next = next.behind(checked.total);
            // SAFETY: it was checked there just now. It is received for the first time, by the invariant on
            // `next`, so nothing else reads or writes it.
            let mut record = unsafe { PackedRecord::new(place, checked) };
            if visit(&mut record) {
                packets += 1;
                bytes += checked.captured;
            } else {
                record.refuse();
            }
        }
        let end = next.at;
        if is_broken {
            // Until the program leaves it, with the next packet.
            self.retire();
            next.at = limit;
        }
        (self.next, self.ahead, self.is_broken) = (next, ahead, is_broken);
        (packets, bytes, end)
    }

    /// Writes another length into the index of the block that is received: that of the record of this number,
    /// in units of four bytes.
    ///
    /// # Panics
    /// When a block has fewer records.
    #[cfg(feature = "testing")]
    pub fn spoil_index(&self, number: u32, length: u16) {
        self.index().spoil(number, length);
    }

    /// Whether the packets in front of `limit` wait for more: of a pool of which half is used, each cell that
    /// a part takes has to hold as much as a cell.
    fn is_too_small(&mut self, limit: u32) -> bool {
        let geometry = self.memory.layout.geometry;
        let attached = self.given.wrapping_sub(self.current);
        let is_small = limit > self.next.at && limit - self.next.at < geometry.cell_bytes();
        if !self.gives || !is_small || attached > geometry.chunks_per_pool() / 2 {
            self.small_since = None;
            return false;
        }
        let is_over = self.small_since.get_or_insert_with(Instant::now).elapsed() >= SHARE_TIMEOUT;
        self.small_since = self.small_since.filter(|_| !is_over);
        !is_over
    }

    /// Notes a part that was received.
    fn note(&mut self, space: u32, part: PackedPart) {
        if part.is_last {
            self.before += u64::from(self.next.at);
            self.current = self.current.wrapping_add(1);
            (self.next, self.ahead) = (Cursor::default(), Cursor::default());
            (self.stuck_since, self.is_sealed, self.is_broken) = (None, false, false);
            return;
        }
        // Small parts take more cells than their bytes would: before none is left, the next block is begun,
        // if there is one.
        let geometry = self.memory.layout.geometry;
        let few = geometry.cells_per_chunk() / 4;
        let by_bytes = (self.block_bytes() - self.next.at) / geometry.cell_bytes();
        if space <= few && space < by_bytes && self.given.wrapping_sub(self.current) > 1 {
            self.retire();
        }
    }

    /// The program writes nothing more into the current block, once all of its runs that have begun are over.
    fn retire(&self) {
        let retired = self.current.wrapping_add(1);
        self.memory.word(self.stream, RETIRE_AT as u32).store(retired, Ordering::Relaxed);
    }

    /// Ends the current block, whose last packets wait for that: the program does so with the next packet,
    /// but none may come.
    #[cold]
    fn end_block_in_time(&mut self) {
        self.retire();
        if self.stuck_since.get_or_insert_with(Instant::now).elapsed() >= SEAL_AFTER {
            self.is_sealed = cpu::wait_for_kernel();
            self.stuck_since = None;
        }
    }
}
