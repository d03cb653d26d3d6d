//! Packets as they will be in the file, with their times beside them.
//!
//! ```text
//!   bytes     │ record 0           │ record 1      │ record 2              │   encoded, or in place: in the capture's memory
//!   entries   │ time, length       │ time, length  │ time, length          │   what merging reads
//!                                  ▲
//!                                  Position { entries: 1, bytes: length of record 0 }
//! ```
//!
//! Rule: a record has exactly one entry, so merging parses no bytes. A packet is out of order if one
//! before it is later; two of the same time are in order.

use std::ops::Range;

use wirecap::PcapngBlock;

use super::in_place::InPlaceBatch;

/// Capacity that a buffer keeps: in bytes, in entries, and in multiples of its contents.
const SPARE_BYTES: usize = 32 << 10;
const SPARE_ENTRIES: usize = 1 << 10;
const SPARE_FACTOR: usize = 8;

/// The time of a packet and the length of its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// In nanoseconds since 1970 (UTC).
    pub(crate) time_ns: u64,
    /// In bytes.
    pub(crate) len: u32,
}

/// A place between two records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// Records before it.
    pub(crate) entries: usize,
    /// Their bytes.
    pub(crate) bytes: usize,
}

/// How many more records may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// The time that none of them may have, and none after it; `None` if it does not matter. A trace may have
    /// any time, so no number stands for that.
    pub(crate) until_ns: Option<u64>,
    /// The second of two consecutive packets before this time begins the next file.
    pub(crate) from_ns: u64,
    /// Whether the packet before them was before that time.
    pub(crate) follows_early: bool,
}

impl Room {
    pub(crate) const UNLIMITED: Self =
        Self { packets: u64::MAX, bytes: u64::MAX, until_ns: None, from_ns: 0, follows_early: false };

    /// Whether none of the records may have this time.
    fn is_over(&self, time_ns: u64) -> bool {
        self.until_ns.is_some_and(|until_ns| time_ns >= until_ns)
    }

    /// Whether a time is before those that packets should have.
    pub(crate) fn is_early(&self, time_ns: u64) -> bool {
        time_ns < self.from_ns
    }
}

impl Position {
    fn advance(&mut self, entry: Entry) {
        self.entries += 1;
        self.bytes += entry.len as usize;
    }
}

/// Packets as they will be in the file.
#[derive(Debug)]
pub(crate) struct Records {
    /// What was encoded. INVARIANT: empty if the records are in place.
    pub(crate) encoded: Vec<u8>,
    /// The batch in whose memory they lie, if they are in place.
    pub(crate) in_place: Option<InPlaceBatch>,
    /// INVARIANT: one for each record, in the order of the records.
    pub(crate) entries: Vec<Entry>,
    /// The times of the entries, including those that were cut off.
    pub(crate) span: Span,
    /// The worker whose buffer this is; `None` for the merger.
    pub(crate) owner: Option<usize>,
}

impl Records {
    /// No records, in a buffer of this owner.
    pub(crate) fn new(owner: Option<usize>) -> Self {
        Self { encoded: Vec::new(), in_place: None, entries: Vec::new(), span: Span::EMPTY, owner }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn packets(&self) -> u64 {
        self.entries.len() as u64
    }

    /// The bytes of all records.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.in_place.as_ref().map_or(&self.encoded, InPlaceBatch::bytes)
    }

    /// How many bytes that is.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.in_place.as_ref().map_or(self.encoded.len(), |in_place| in_place.len)
    }

    /// The memory that they keep, in bytes: the capacity of the buffers, and what lies in place.
    pub(crate) fn memory_bytes(&self) -> usize {
        let in_place = self.in_place.as_ref().map_or(0, |in_place| in_place.len);
        self.encoded.capacity() + self.entries.capacity() * size_of::<Entry>() + in_place
    }

    /// Makes room for this many packets, and bytes of their records.
    pub(crate) fn reserve(&mut self, packets: usize, bytes: usize) {
        self.entries.reserve(packets);
        self.encoded.reserve(bytes);
    }

    /// Removes all records and keeps the buffers. A batch goes back to its pool.
    pub(crate) fn clear(&mut self) {
        self.encoded.clear();
        self.in_place = None;
        self.entries.clear();
        self.span = Span::EMPTY;
    }

    /// Appends the record of each packet: `encode` writes it, and returns its time.
    #[inline]
    pub(crate) fn extend<P>(
        &mut self,
        packets: impl IntoIterator<Item = P>,
        mut encode: impl FnMut(&mut Vec<u8>, P) -> u64,
    ) {
        // A local copy stays in registers: this runs for each packet.
        let mut span = self.span;
        for packet in packets {
            let start = self.encoded.len();
            let time_ns = encode(&mut self.encoded, packet);
            self.entries.push(Entry { time_ns, len: (self.encoded.len() - start) as u32 });
            span.append(Span::of(time_ns));
        }
        self.span = span;
    }

    /// Makes the records of a batch, in place, those of an empty buffer.
    pub(crate) fn place(&mut self, mut batch: InPlaceBatch) {
        debug_assert!(self.is_empty() && self.encoded.is_empty());
        let (mut span, mut len) = (self.span, 0);
        self.entries.extend(batch.blocks().map(|PcapngBlock { timestamp_ns: time_ns, len: record }| {
            span.append(Span::of(time_ns));
            len += record as usize;
            Entry { time_ns, len: record }
        }));
        (self.span, batch.len) = (span, len);
        self.in_place = Some(batch);
    }

    /// Appends all records of `other`.
    pub(crate) fn append(&mut self, other: &Self) {
        self.encoded.extend_from_slice(other.bytes());
        self.entries.extend_from_slice(&other.entries);
        self.span.append(other.span);
    }

    /// Appends the records of `other` between two positions.
    pub(crate) fn append_run(&mut self, other: &Self, run: Range<Position>) {
        self.encoded.extend_from_slice(&other.bytes()[run.start.bytes..run.end.bytes]);
        let entries = &other.entries[run.start.entries..run.end.entries];
        self.entries.extend_from_slice(entries);
        match (entries.first(), entries.last()) {
            (Some(first), Some(last)) if other.span.sorted => {
                let (first_ns, newest_ns) = (first.time_ns, last.time_ns);
                self.span.append(Span { first_ns, newest_ns, sorted: true });
            }
            _ => entries.iter().for_each(|entry| self.span.append(Span::of(entry.time_ns))),
        }
    }

    /// The end of the run of records from `start` that are not later than `limit_ns`.
    pub(crate) fn run_until(&self, start: Position, limit_ns: u64) -> Position {
        self.run_while(start, |time_ns| time_ns <= limit_ns)
    }

    /// The end of the run of records from `start` that are later than `limit_ns`.
    pub(crate) fn run_after(&self, start: Position, limit_ns: u64) -> Position {
        self.run_while(start, |time_ns| time_ns > limit_ns)
    }

    fn run_while(&self, start: Position, holds: impl Fn(u64) -> bool) -> Position {
        let mut end = start;
        for &entry in self.entries[start.entries..].iter().take_while(|entry| holds(entry.time_ns)) {
            end.advance(entry);
        }
        end
    }

    /// The end of the longest prefix with at most this many packets and bytes.
    pub(crate) fn prefix(&self, max_packets: u64, max_bytes: usize) -> Position {
        let room = Room { packets: max_packets, bytes: max_bytes as u64, ..Room::UNLIMITED };
        self.run_within(Position::default(), room)
    }

    /// The end of the longest run of records from `start` for which there is room.
    pub(crate) fn run_within(&self, start: Position, room: Room) -> Position {
        let all = self.end();
        let (packets, bytes) = (all.entries - start.entries, all.bytes - start.bytes);
        let is_enough = packets as u64 <= room.packets && bytes as u64 <= room.bytes;
        let entries = &self.entries[start.entries..];
        let may_be_early = room.from_ns > 0
            && (!self.span.sorted || entries.first().is_some_and(|first| room.is_early(first.time_ns)));
        if is_enough && !room.is_over(self.span.newest_ns) && !may_be_early {
            return all;
        }
        let (mut end, mut follows_early) = (start, room.follows_early);
        for &entry in entries {
            let bytes = end.bytes - start.bytes + entry.len as usize;
            let is_full = (end.entries - start.entries) as u64 == room.packets || bytes as u64 > room.bytes;
            let is_early = room.is_early(entry.time_ns);
            if is_full || room.is_over(entry.time_ns) || (is_early && follows_early) {
                break;
            }
            follows_early = is_early;
            end.advance(entry);
        }
        end
    }

    /// The position after the last record.
    pub(crate) fn end(&self) -> Position {
        Position { entries: self.entries.len(), bytes: self.len() }
    }

    /// Removes records after a position.
    pub(crate) fn truncate(&mut self, end: Position) {
        match &mut self.in_place {
            Some(in_place) => in_place.len = in_place.len.min(end.bytes),
            None => self.encoded.truncate(end.bytes),
        }
        self.entries.truncate(end.entries);
    }

    /// Frees memory that is far larger than the contents: a buffer has the size of its largest batch, and
    /// many with small batches may be held back.
    pub(crate) fn trim(&mut self) {
        trim(&mut self.encoded, SPARE_BYTES);
        trim(&mut self.entries, SPARE_ENTRIES);
    }
}

fn trim<T>(buffer: &mut Vec<T>, spare: usize) {
    if buffer.capacity() > spare.max(SPARE_FACTOR * buffer.len()) {
        buffer.shrink_to(spare);
    }
}

/// The times of consecutive packets.
///
/// INVARIANT: without packets, and only then, the first time is after the latest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// Time of the first, in nanoseconds since 1970 (UTC).
    pub(crate) first_ns: u64,
    /// The latest time.
    pub(crate) newest_ns: u64,
    /// None of them is out of order.
    pub(crate) sorted: bool,
}

impl Span {
    /// Of no packet.
    const EMPTY: Self = Self { first_ns: u64::MAX, newest_ns: 0, sorted: true };

    /// Of one packet.
    #[inline]
    fn of(time_ns: u64) -> Self {
        Self { first_ns: time_ns, newest_ns: time_ns, sorted: true }
    }

    /// A packet may have any time, so none of the two times alone says this.
    #[inline]
    fn is_empty(&self) -> bool {
        self.first_ns > self.newest_ns
    }

    /// Appends other packets.
    #[inline]
    fn append(&mut self, next: Self) {
        self.sorted &= next.sorted && self.newest_ns <= next.first_ns;
        if self.is_empty() {
            self.first_ns = next.first_ns;
        }
        self.newest_ns = self.newest_ns.max(next.newest_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Records {
        /// Appends one record, which `encode` writes.
        pub(crate) fn push(&mut self, time_ns: u64, mut encode: impl FnMut(&mut Vec<u8>)) {
            self.extend([()], |bytes, ()| {
                encode(bytes);
                time_ns
            });
        }

        /// Records with these times and one byte each.
        pub(crate) fn of_times(times: &[u64]) -> Self {
            let mut records = Self::new(None);
            for (number, &time_ns) in times.iter().enumerate() {
                records.push(time_ns, |bytes| bytes.push(number as u8));
            }
            records
        }
    }

    #[test]
    fn a_prefix_ends_with_a_whole_record() {
        let (mut records, mut ends) = (Records::new(None), vec![0]);
        for len in [60, 61, 16, 1514] {
            records.push(0, |bytes| bytes.resize(bytes.len() + len, 0xff));
            ends.push(records.len());
        }
        for bytes in 0..=records.len() + 1 {
            let entries = ends.iter().filter(|&&end| end <= bytes).count() - 1;
            assert_eq!(records.prefix(u64::MAX, bytes), Position { entries, bytes: ends[entries] });
        }
        for (entries, &end) in ends.iter().enumerate() {
            assert_eq!(records.prefix(entries as u64, usize::MAX), Position { entries, bytes: end });
        }
        let kept = records.prefix(2, usize::MAX);
        records.truncate(kept);
        assert_eq!((records.packets(), records.len()), (2, 121));
    }

    #[test]
    fn a_run_ends_before_the_first_later_record() {
        let records = Records::of_times(&[7, 5_000_000_001, 4_000_000_000_000_000_007, 8]);
        for (limit_ns, packets) in [(6, 0), (7, 1), (5_000_000_000, 1), (5_000_000_001, 2), (u64::MAX, 4)] {
            let end = records.run_until(Position::default(), limit_ns);
            assert_eq!(end, Position { entries: packets, bytes: packets });
            let mut run = Records::new(None);
            run.append_run(&records, Position::default()..end);
            let first_ns = if packets > 0 { 7 } else { u64::MAX };
            assert_eq!((run.span.sorted, run.span.first_ns), (packets < 4, first_ns));
            assert_eq!(run.bytes(), &records.bytes()[..packets]);
            let rest = end..records.run_until(end, u64::MAX);
            run.append_run(&records, rest);
            assert_eq!((run.bytes(), &run.entries), (records.bytes(), &records.entries));
            assert_eq!(run.span, records.span);
        }
    }

    #[test]
    fn the_last_time_that_there_is_is_one_like_any_other() {
        let records = Records::of_times(&[7, u64::MAX, 8]);
        let end = |packets| Position { entries: packets, bytes: packets };
        assert_eq!(records.prefix(3, 2), end(2));
        let before_the_last = Room { until_ns: Some(u64::MAX), ..Room::UNLIMITED };
        assert_eq!(records.run_within(Position::default(), before_the_last), end(1));
        let reversed = Records::of_times(&[u64::MAX, 8]).span;
        assert_eq!(reversed, Span { first_ns: u64::MAX, newest_ns: u64::MAX, sorted: false });
    }

    #[test]
    fn only_buffers_much_larger_than_their_contents_are_trimmed() {
        let trimmed = |capacity: usize, len: usize| {
            let mut records = Records::new(None);
            records.encoded = Vec::with_capacity(capacity);
            records.encoded.resize(len, 7);
            let before = records.encoded.capacity();
            records.trim();
            assert_eq!(records.encoded, vec![7; len]);
            (records.encoded.capacity() < before).then(|| records.encoded.capacity())
        };
        assert_eq!(trimmed(SPARE_BYTES, 0), None);
        assert_eq!(trimmed(2 << 20, 300 << 10), None, "within the factor");
        assert!(trimmed(2 << 20, 100).is_some_and(|capacity| capacity < 2 * SPARE_BYTES));
        assert!(trimmed(2 << 20, 100 << 10).is_some_and(|capacity| capacity < 200 << 10));
        let mut records = Records::of_times(&[1, 2]);
        records.reserve(SPARE_FACTOR * SPARE_ENTRIES, 0);
        records.trim();
        assert!(records.memory_bytes() < 2 * SPARE_ENTRIES * size_of::<Entry>());
    }
}
