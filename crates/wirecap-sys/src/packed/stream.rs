//! One stream, as its receiver has it: gives blocks to the program, and receives what is in them.

use std::{
    ops::Range,
    sync::{Arc, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};

use wirecap_core::{PackedPart, Pool, PoolId, PoolNumber};

use super::{
    PackedError, PackedMemory, PackedReader,
    alarm::StreamAlarm,
    blocks::{BlockMap, FreeBlocks, Progress},
    distance::Distance,
    entry::{Counted, Published, StreamEntry},
    limits::MIN_ROOM_BYTES,
    record::{PackedRecord, RecordLengths},
};
use crate::{
    clock::StampShift,
    memory::{FilledPart, LivePool},
    wake::Waker,
};

/// A part whose packets are looked at ends after the packet with which it reaches one of these limits, so
/// that a worker starts while the packets are in the cache. Each part costs a few hundred nanoseconds, so it
/// should hold many packets.
const PART_BYTES: u32 = 256 << 10;
const PART_PACKETS: u32 = 512;

/// How long packets wait for more, where a part of only these would take more than its share of a pool of
/// which half is used.
const SHARE_TIMEOUT: Duration = Duration::from_millis(5);

/// How long packets wait for the next one to end their block.
const SEAL_AFTER: Duration = Duration::from_millis(2);

/// One stream. For the thread that owns its pool.
#[derive(Debug)]
pub struct PackedStream {
    memory: Arc<PackedMemory>,
    entry: StreamEntry,
    /// The pool whose chunks have its blocks.
    pool: PoolNumber,
    blocks: Arc<BlockMap>,
    free: FreeBlocks,
    distance: Distance,
    /// The chunk of each number, in the order in which they were attached.
    chunks: Box<[u32]>,
    /// Blocks that were given so far: the number of the next one.
    given: u32,
    /// The number of the block that is received. INVARIANT: that of the program's block, one before it whose
    /// end was not received yet, or the one behind it if that is full.
    current: u32,
    /// The index of its block, once the program has come to it.
    block: Option<u32>,
    /// INVARIANT: what is in front of this offset of the current block was received.
    at: u32,
    /// Bytes of all blocks that were received to their end.
    before: u64,
    /// Packets that were received, refused ones among them, and the lower half of their bytes.
    packets: u64,
    bytes: u32,
    /// By how much times were raised before the last part in which none was, in nanoseconds.
    raised_before_ns: u64,
    /// Blocks are still given.
    gives: bool,
    /// Since when packets wait for more.
    small_since: Option<Instant>,
    /// Since when packets of the current block wait for its end, for which the last cell is kept.
    stuck_since: Option<Instant>,
    /// The program writes nothing more into the current block, though it has not come to the next one.
    is_sealed: bool,
    alarm: Arc<StreamAlarm>,
}

/// Where the program is.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// The number of the block.
    number: u32,
    offset: u32,
}

/// A part that was received.
#[derive(Debug)]
pub struct ReceivedPart {
    /// The part.
    pub part: FilledPart,
    /// By how much the program has made the time of a packet later, at most, so that it comes behind that of
    /// the one before, in nanoseconds. 0 if it has changed none.
    pub raised_ns: u64,
}

/// What a look at a stream finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedLook {
    /// What waits, in bytes counted since the start.
    pub waiting: Range<u64>,
    /// Cells of the given blocks that no later packet gets, though they were not received: those with packets
    /// that wait, and the rest of each block that the program has left, or leaves with the next packet. None
    /// if no packet waits.
    pub unreceived_cells: u32,
}

/// How far the program has come in the block that is received.
#[derive(Debug, Clone, Copy)]
struct Extent {
    /// What is in front of this offset is there.
    end: u32,
    /// Nothing will follow.
    is_closed: bool,
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
        let opened = self.stream_index(stream).map(|index| &mut opened[index]);
        let Some(opened) = opened.filter(|opened| !**opened) else { return Ok(None) };
        let alarm = Arc::new(StreamAlarm::new(self, stream)?);
        *opened = true;
        let pool = Pool::new(id, self.layout.geometry, 0);
        let blocks = Arc::new(BlockMap::new(self, stream));
        let reader = PackedReader::new(self, &blocks, &pool);
        let stream = PackedStream::new(self, stream, blocks, pool.number(), alarm);
        Ok(Some((stream, LivePool::of_blocks(pool), reader)))
    }
}

impl PackedStream {
    fn new(
        memory: &Arc<PackedMemory>,
        stream: u32,
        blocks: Arc<BlockMap>,
        pool: PoolNumber,
        alarm: Arc<StreamAlarm>,
    ) -> Self {
        let layout = memory.layout;
        let chunks = vec![0; layout.numbers as usize].into();
        let entry = StreamEntry::new(memory, stream);
        let first = memory.first_number;
        entry.begin_at(first);
        let free = FreeBlocks::new(memory, stream, Progress { number: first, warm_taken: first });
        let memory = Arc::clone(memory);
        let (given, current, at, before, packets, bytes, gives) = (first, first, 0, 0, 0, 0, true);
        let (small_since, stuck_since, is_sealed) = (None, None, false);
        Self {
            memory,
            entry,
            pool,
            blocks,
            free,
            distance: Distance::default(),
            chunks,
            given,
            current,
            block: None,
            at,
            before,
            packets,
            bytes,
            raised_before_ns: 0,
            gives,
            small_since,
            stuck_since,
            is_sealed,
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
        while let Some(chunk) = pool.attach_free_block() {
            if self.given == before {
                let position = self.distance.measure(&self.entry);
                let progress = self.progress(position);
                self.free.begin(progress, self.distance.is_far());
            }
            self.chunks[self.memory.layout.entry(self.given) as usize] = chunk;
            self.free.give(&self.entry, self.blocks.of(chunk));
            self.given = self.given.wrapping_add(1);
        }
        if self.given != before {
            self.entry.set_given(self.given, self.free.warm_given());
        }
        self.given.wrapping_sub(before)
    }

    /// Says how the program brings stamps to UTC, if it [does](super::PackSpec::to_utc). Before the first
    /// block is given, and whenever it has changed: a packet that is packed during the call may be by some of
    /// the old and some of the new words.
    pub fn set_shift(&self, shift: StampShift) {
        self.entry.set_shift(shift);
    }

    /// Packets that the program has [counted](PackedMemory::emit_seen) as seen.
    pub fn seen(&self) -> u64 {
        self.entry.seen()
    }

    /// Packets that the program has cut, of all that it has packed.
    pub fn cut(&self) -> u64 {
        self.entry.cut()
    }

    fn block_bytes(&self) -> u32 {
        self.memory.layout.geometry.chunk_bytes()
    }

    /// What wakes a thread for packets of this stream.
    pub fn waker(&self) -> Waker {
        self.alarm.waker()
    }

    fn place(&self, position: u64) -> Place {
        Place { number: (position >> 32) as u32, offset: (position as u32).min(self.block_bytes()) }
    }

    fn extent(&self, Place { number, offset }: Place) -> Extent {
        if number == self.current {
            // No packet is so short that it would find room behind this offset.
            let is_full = offset > self.block_bytes() - MIN_ROOM_BYTES;
            return Extent { end: offset, is_closed: is_full || self.is_sealed };
        }
        if number.wrapping_add(1) == self.current {
            // The program has filled the block before, and has not come to this one.
            return Extent { end: 0, is_closed: false };
        }
        Extent { end: self.entry.end_of(self.current), is_closed: true }
    }

    /// What was received, in bytes counted since the start.
    pub fn received(&self) -> u64 {
        self.before + u64::from(self.at)
    }

    /// What waits, in bytes counted since the start.
    pub fn waiting(&self) -> Range<u64> {
        self.waiting_until(self.place(self.entry.position()))
    }

    /// What waits if the program is at `position`.
    fn waiting_until(&self, position: Place) -> Range<u64> {
        let start = self.received();
        if self.given == self.current || position.number.wrapping_add(1) == self.current {
            return start..start;
        }
        let mut end = self.before + u64::from(self.extent(position).end.max(self.at));
        let mut number = self.current;
        while number != position.number && number != self.given {
            number = number.wrapping_add(1);
            end += u64::from(if number == position.number {
                position.offset
            } else {
                self.entry.end_of(number)
            });
        }
        start..end
    }

    /// What waits, and what it takes of a pool that can still fill `space` cells of the block being received.
    /// Reads the position once: each time, its cache line comes from the program's core.
    pub fn look(&self, space: u32) -> PackedLook {
        let position = self.place(self.entry.position());
        let waiting = self.waiting_until(position);
        let is_empty = space == 0 || waiting.is_empty();
        PackedLook { waiting, unreceived_cells: if is_empty { 0 } else { self.unreceived(position, space) } }
    }

    /// The cells of [`PackedLook::unreceived_cells`], if a packet waits.
    fn unreceived(&self, Place { number, offset }: Place, space: u32) -> u32 {
        let geometry = self.memory.layout.geometry;
        let is_left =
            |number: u32| offset > self.block_bytes() - MIN_ROOM_BYTES || self.entry.is_retired(number);
        let cells = geometry.cells_per_chunk();
        // As many as the packets take once they are received.
        let taken = |space: u32| match is_left(number) {
            true => space,
            false => (offset / geometry.cell_bytes()).saturating_sub(cells - space).clamp(1, space),
        };
        if number == self.current {
            return taken(space);
        }
        let given = self.given.wrapping_sub(self.current);
        let between = number.wrapping_sub(self.current).min(given) - 1;
        space + between * cells + taken(cells)
    }

    /// Receives the next part, up to what [`waiting`](Self::waiting) counts as `end`, into a pool that can
    /// still fill `space` cells of the block. `visit` sees each packet, may set its time, and returns whether
    /// it is wanted. The others are as if they had not been there.
    pub fn receive(
        &mut self,
        end: u64,
        space: u32,
        mut visit: impl FnMut(&mut PackedRecord<'_>) -> bool,
    ) -> Option<ReceivedPart> {
        if self.given == self.current {
            return None;
        }
        let position = self.entry.position();
        let extent = self.extent(self.place(position));
        let Extent { end: limit, .. } = extent;
        let wanted = end.saturating_sub(self.before).min(limit.into()) as u32;
        if !self.may_take(extent, wanted, space) {
            return None;
        }
        let (start, block) = (self.at, self.current_block(extent)?);
        let block = self.memory.block(block);
        let (part_end, most_packets) =
            if space < 2 { (u32::MAX, u32::MAX) } else { (start + PART_BYTES, PART_PACKETS) };
        let (mut packets, mut bytes, mut has_refused) = (0, 0, false);
        let first = self.packets;
        while self.at < wanted && self.at < part_end && packets < most_packets {
            // SAFETY: the program has published all bytes in front of `limit`, which lies in the block, and
            // does not write there until the block is given again.
            let (place, checked) = unsafe {
                let place = block.add(self.at as usize);
                (place, RecordLengths::at(place, limit - self.at))
            };
            let Some(checked) = checked else {
                // Only a program that is not ours writes such a record. The rest cannot be read.
                (self.at, has_refused) = (limit, true);
                break;
            };
            self.at += checked.total;
            self.packets += 1;
            self.bytes = self.bytes.wrapping_add(checked.captured);
            // SAFETY: it was checked there just now. It is received for the first time, by the invariant on
            // `at`, so nothing else reads or writes it.
            let mut record = unsafe { PackedRecord::new(place, checked) };
            if visit(&mut record) {
                packets += 1;
                bytes += checked.captured;
            } else {
                record.refuse();
                has_refused = true;
            }
        }
        let (len, is_last, first_ns) = (self.at - start, false, 0);
        let part = PackedPart { start, len, packets, bytes, is_last, has_refused, first_ns };
        let part = self.take(part, position, extent, space)?;
        Some(ReceivedPart { part, raised_ns: self.entry.raised_ns(first, &mut self.raised_before_ns) })
    }

    /// Receives the next part into a pool that can still fill `space` cells of the block: all packets of it
    /// that are there, as the program has counted them, without a look at any. Once all of them have come, it
    /// asks `first_ns` for the [time of the first one](PackedPart::first_ns); the arguments are their number,
    /// and what is then [received](Self::received).
    pub fn receive_counted(
        &mut self,
        space: u32,
        first_ns: impl FnOnce(u32, u64) -> u64,
    ) -> Option<ReceivedPart> {
        if self.given == self.current {
            return None;
        }
        let Published { position, counted } = self.entry.published()?;
        let place = self.place(position);
        let extent = self.extent(place);
        if !self.may_take(extent, extent.end, space) {
            return None;
        }
        let Counted { packets, bytes } = match place.number == self.current {
            true => counted,
            // It has not come to this block.
            false if place.number.wrapping_add(1) == self.current => {
                Counted { packets: self.packets as u32, bytes: self.bytes }
            }
            false => self.entry.counted_at_end_of(self.current),
        };
        self.current_block(extent)?;
        let (start, first) = (self.at, self.packets);
        self.at = extent.end.max(start);
        let (packets, part_bytes) = (packets.wrapping_sub(first as u32), bytes.wrapping_sub(self.bytes));
        (self.packets, self.bytes) = (first + u64::from(packets), bytes);
        let len = self.at - start;
        let (is_last, has_refused) = (false, false);
        let part = PackedPart { start, len, packets, bytes: part_bytes, is_last, has_refused, first_ns: 0 };
        let received = self.received();
        let first_ns = if packets > 0 { first_ns(packets, received) } else { 0 };
        let part = self.take(PackedPart { first_ns, ..part }, position, extent, space)?;
        Some(ReceivedPart { part, raised_ns: self.entry.raised_ns(first, &mut self.raised_before_ns) })
    }

    /// The program's progress at `position`.
    fn progress(&self, position: u64) -> Progress {
        let Place { number, .. } = self.place(position);
        Progress { number, warm_taken: self.entry.warm_taken(number) }
    }

    /// The current block, by its index. `None` if the program has not come to it.
    fn current_block(&mut self, extent: Extent) -> Option<u32> {
        if self.block.is_none() && (extent.end > 0 || extent.is_closed) {
            let block = self.entry.block_of(self.current);
            self.free.note_taken(block);
            let chunk = self.chunks[self.memory.layout.entry(self.current) as usize];
            self.blocks.put_into(chunk, block);
            self.block = Some(block);
        }
        self.block
    }

    /// Whether a part of the current block may be taken now, up to `wanted`.
    fn may_take(&mut self, extent: Extent, wanted: u32, space: u32) -> bool {
        let Extent { end: limit, is_closed } = extent;
        // The last cell is kept for the last part, which has to be seen to its end. At the end of the
        // capture, that is whatever is there.
        let is_whole = is_closed && wanted == limit;
        if space < 2 && !is_whole && !self.is_final(extent, space) {
            if !is_closed && self.at < limit {
                self.end_block_in_time();
            }
            return false;
        }
        is_closed || !self.is_too_small(limit)
    }

    /// Whether a part takes the last cell, since none follows.
    fn is_final(&self, extent: Extent, space: u32) -> bool {
        !extent.is_closed && !self.gives && space == 1
    }

    /// Takes the part of the current block that ends at `at`, of which it may be the last one.
    fn take(&mut self, part: PackedPart, position: u64, extent: Extent, space: u32) -> Option<FilledPart> {
        let is_at_end = self.at >= extent.end;
        if is_at_end && self.current == (position >> 32) as u32 {
            self.alarm.received.store(position, Ordering::Relaxed);
        }
        let is_last = extent.is_closed && is_at_end || self.is_final(extent, space);
        if part.len == 0 && !is_last {
            return None;
        }
        let part = PackedPart { is_last, ..part };
        self.note(space, part);
        Some(FilledPart::new(self.pool, part))
    }

    /// Whether the packets in front of `limit` wait for more: of a pool of which half is used, each cell that
    /// a part takes has to hold as much as a cell.
    fn is_too_small(&mut self, limit: u32) -> bool {
        let geometry = self.memory.layout.geometry;
        let attached = self.given.wrapping_sub(self.current);
        let is_small = limit > self.at && limit - self.at < geometry.cell_bytes();
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
            self.before += u64::from(self.at);
            self.current = self.current.wrapping_add(1);
            (self.block, self.at, self.stuck_since, self.is_sealed) = (None, 0, None, false);
            return;
        }
        // Small parts take more cells than their bytes would: before none is left, the next block is begun,
        // if there is one.
        let geometry = self.memory.layout.geometry;
        let few = geometry.cells_per_chunk() / 4;
        let by_bytes = (self.block_bytes() - self.at) / geometry.cell_bytes();
        if space <= few && space < by_bytes && self.given.wrapping_sub(self.current) > 1 {
            self.entry.retire(self.current);
        }
    }

    /// Ends the current block, whose last packets wait for that: the program does so with the next packet,
    /// but none may come.
    #[cold]
    fn end_block_in_time(&mut self) {
        self.entry.retire(self.current);
        if self.stuck_since.get_or_insert_with(Instant::now).elapsed() >= SEAL_AFTER {
            self.is_sealed = !self.entry.is_locked();
            self.stuck_since = None;
        }
    }
}
