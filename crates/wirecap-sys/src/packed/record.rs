//! How a packet lies in a block: a pcapng Enhanced Packet Block, in the byte order of the machine.
//!
//! ```text
//!   0      4       8           12          16         20         24         28     28 + padded length
//!   ┌──────┬───────┬───────────┬───────────┬──────────┬──────────┬──────────┬──────┬─────────┬───────┐
//!   │ type │ total │ interface │ time high │ time low │ captured │ original │ data │ options │ total │
//!   └──────┴───────┴───────────┴───────────┴──────────┴──────────┴──────────┴──────┴─────────┴───────┘
//! ```
//!
//! Rule: the lengths are checked whenever a record is looked at: none reaches beyond its part, whatever a
//! program has written.
//!
//! See draft-ietf-opsawg-pcapng, section 4.3.

use std::ptr::NonNull;

use wirecap_core::Direction;

pub(super) const TYPE_AT: usize = 0;
pub(super) const TOTAL_AT: usize = 4;
pub(super) const INTERFACE_AT: usize = 8;
pub(super) const TIME_HIGH_AT: usize = 12;
pub(super) const TIME_LOW_AT: usize = 16;
pub(super) const CAPTURED_AT: usize = 20;
pub(super) const ORIGINAL_AT: usize = 24;
/// Bytes in front of the data.
pub(super) const HEADER_BYTES: u32 = 28;
/// Bytes behind data and options: the total length once more.
pub(super) const TRAILER_BYTES: u32 = 4;
/// Everything is a multiple of this.
pub(super) const ALIGNMENT: u32 = 4;

pub(super) const PACKET_TYPE: u32 = 6;
/// A type for local use: the packet was refused by a filter.
const REFUSED_TYPE: u32 = 0x8000_0000 | PACKET_TYPE;

/// `epb_hash`: the algorithm, four bytes of hash, the most significant first, and three of padding. Its type
/// (`enum xdp_rss_hash_type`) is in the last two of these, which readers skip.
pub(super) const HASH_OPTION: u16 = 3;
pub(super) const HASH_OPTION_LEN: u16 = 5;
pub(super) const TOEPLITZ: u8 = 5;
/// Code, length, value and padding; and behind it the end of options.
pub(super) const HASH_OPTION_BYTES: u32 = 4 + 8 + 4;

/// `epb_flags`: four bytes, of which the lowest two bits are the direction.
pub(super) const FLAGS_OPTION: u16 = 2;
pub(super) const FLAGS_OPTION_LEN: u16 = 4;
const DIRECTION_BITS: u32 = 0b11;
/// Code, length and value; and behind it the end of options.
pub(super) const FLAGS_OPTION_BYTES: u32 = 4 + 4 + 4;

/// `epb_queue`: four bytes, the number of the receive queue.
pub(super) const QUEUE_OPTION: u16 = 6;
pub(super) const QUEUE_OPTION_LEN: u16 = 4;
/// Code, length and value; and behind it the end of options.
pub(super) const QUEUE_OPTION_BYTES: u32 = 4 + 4 + 4;

/// The flags of a packet that goes this way.
pub(super) fn flags_of(direction: Direction) -> u32 {
    match direction {
        Direction::In => 0b01,
        Direction::Out => 0b10,
    }
}

/// The padded length of data.
pub(super) fn padded(len: u32) -> u32 {
    len.next_multiple_of(ALIGNMENT)
}

/// The hash of a packet by its NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackedHash {
    /// The hash.
    pub value: u32,
    /// What it is over: bits of `enum xdp_rss_hash_type`.
    pub type_bits: u16,
}

/// A packet of a block. What its record says beside the lengths is read when it is asked for: the options are
/// in another cache line than the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackedPacket<'a> {
    /// INVARIANT: a record whose lengths were [checked](RecordLengths::at).
    record: &'a [u8],
    captured: u32,
    /// When it came, unless its record says so: then 0.
    time_ns: u64,
}

impl<'a> PackedPacket<'a> {
    /// The same packet, with this time unless it is 0.
    #[inline]
    pub(super) fn at(self, time_ns: u64) -> Self {
        Self { time_ns, ..self }
    }

    /// Its captured bytes.
    #[inline]
    pub fn data(&self) -> &'a [u8] {
        &self.record[HEADER_BYTES as usize..][..self.captured as usize]
    }

    /// How many they are.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "a packet has a header, except in odd trace files")]
    pub fn len(&self) -> usize {
        self.captured as usize
    }

    /// How long it was, in bytes.
    #[inline]
    pub fn original_len(&self) -> u32 {
        self.word(ORIGINAL_AT)
    }

    /// Its time: by that of its [part](wirecap_core::PackedPart::first_ns), or as the program or
    /// [`PackedRecord::set_time`] has set it.
    #[inline]
    pub fn timestamp_ns(&self) -> u64 {
        match self.time_ns {
            0 => u64::from(self.word(TIME_HIGH_AT)) << 32 | u64::from(self.word(TIME_LOW_AT)),
            time_ns => time_ns,
        }
    }

    /// The NIC's hash, if the program asks for it and the packet has one.
    pub fn hash(&self) -> Option<PackedHash> {
        self.options().hash
    }

    /// The direction, if the program records it.
    pub fn direction(&self) -> Option<Direction> {
        self.options().direction
    }

    #[inline]
    fn word(&self, at: usize) -> u32 {
        let word = self.record[at..].first_chunk();
        word.map_or(0, |&word| u32::from_ne_bytes(word))
    }

    fn options(&self) -> Options {
        let behind = (HEADER_BYTES + padded(self.captured)) as usize;
        Options::of(&self.record[behind..self.record.len() - TRAILER_BYTES as usize])
    }
}

/// A packet that is being received.
#[derive(Debug)]
pub struct PackedRecord<'a> {
    /// INVARIANT: start of a record that was [checked](RecordLengths::at), whose bytes are this value's alone
    /// during `'a`.
    start: NonNull<u8>,
    pub(super) checked: RecordLengths,
    _bytes: std::marker::PhantomData<&'a mut [u8]>,
}

/// Lengths of a record that lies in its part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordLengths {
    pub(super) total: u32,
    pub(super) captured: u32,
    pub(super) is_refused: bool,
}

impl RecordLengths {
    /// The record at the start of `left` bytes; `None` if it does not lie in them.
    ///
    /// # Safety
    /// `start` points to `left` bytes, aligned to 4, which nothing writes.
    #[inline]
    pub(super) unsafe fn at(start: NonNull<u8>, left: u32) -> Option<Self> {
        if left < HEADER_BYTES + TRAILER_BYTES {
            return None;
        }
        // SAFETY: these words lie in the bytes (checked above), aligned as the caller promises.
        let words = [TYPE_AT, TOTAL_AT, CAPTURED_AT].map(|at| unsafe { start.add(at).cast::<u32>().read() });
        Self::of(words, left)
    }

    /// A record of this type, total and captured length at the start of `left` bytes.
    #[inline]
    fn of([kind, total, captured]: [u32; 3], left: u32) -> Option<Self> {
        let lies_within = total <= left
            && total % ALIGNMENT == 0
            && captured <= total
            && padded(captured) + HEADER_BYTES + TRAILER_BYTES <= total;
        let is_refused = kind == REFUSED_TYPE;
        (lies_within && (is_refused || kind == PACKET_TYPE)).then_some(Self { total, captured, is_refused })
    }
}

impl<'a> PackedRecord<'a> {
    /// # Safety
    /// `checked` was read at `start`, and the record's bytes are the caller's alone during `'a`.
    pub(super) unsafe fn new(start: NonNull<u8>, checked: RecordLengths) -> Self {
        Self { start, checked, _bytes: std::marker::PhantomData }
    }

    /// A word of the header.
    #[inline]
    fn word(&self, at: usize) -> u32 {
        debug_assert!(at < HEADER_BYTES as usize);
        // SAFETY: a record has a header, aligned to 4, by the invariant on `start`.
        unsafe { self.start.add(at).cast::<u32>().read() }
    }

    #[inline]
    fn set_word(&mut self, at: usize, word: u32) {
        debug_assert!(at < HEADER_BYTES as usize);
        // SAFETY: as in `word`, and the bytes are this value's alone.
        unsafe { self.start.add(at).cast::<u32>().write(word) }
    }

    /// The captured bytes.
    pub fn data(&self) -> &[u8] {
        // SAFETY: the data lie in the record, as was checked, and are not written while `self` is borrowed.
        unsafe {
            let data = self.start.add(HEADER_BYTES as usize);
            std::slice::from_raw_parts(data.as_ptr(), self.checked.captured as usize)
        }
    }

    /// How long the packet was, in bytes.
    #[inline]
    pub fn original_len(&self) -> u32 {
        self.word(ORIGINAL_AT)
    }

    /// The program's time stamp; 0 without one.
    #[inline]
    pub fn stamp(&self) -> u64 {
        u64::from(self.word(TIME_HIGH_AT)) << 32 | u64::from(self.word(TIME_LOW_AT))
    }

    /// The direction, if the program records it.
    pub fn direction(&self) -> Option<Direction> {
        let RecordLengths { total, captured, .. } = self.checked;
        // SAFETY: the record lies in memory that is mapped, and is not written while `self` is borrowed.
        let record = unsafe { std::slice::from_raw_parts(self.start.as_ptr(), total as usize) };
        PackedPacket { record, captured, time_ns: 0 }.direction()
    }

    /// Whether the program has cut the packet.
    #[inline]
    pub fn is_cut(&self) -> bool {
        self.checked.captured < self.original_len()
    }

    /// Sets the time of the packet, in nanoseconds since 1970 (UTC).
    #[inline]
    pub fn set_time(&mut self, timestamp_ns: u64) {
        self.set_word(TIME_HIGH_AT, (timestamp_ns >> 32) as u32);
        self.set_word(TIME_LOW_AT, timestamp_ns as u32);
    }

    /// Marks the packet, so that readers skip it.
    pub(super) fn refuse(&mut self) {
        self.set_word(TYPE_AT, REFUSED_TYPE);
    }

    /// The packet, without holding on to the record.
    ///
    /// # Safety
    /// The record is not written during `'b`.
    #[inline]
    pub(super) unsafe fn packet<'b>(self) -> PackedPacket<'b> {
        let RecordLengths { total, captured, .. } = self.checked;
        // SAFETY: the record lies in memory that is mapped, and is not written during `'b`.
        let record = unsafe { std::slice::from_raw_parts(self.start.as_ptr(), total as usize) };
        PackedPacket { record, captured, time_ns: 0 }
    }
}

/// A record among others: where it ends, and when its packet came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordMark {
    /// The time of the packet, as the program or [`PackedRecord::set_time`] has set it.
    pub timestamp_ns: u64,
    /// Length of the record, in bytes.
    pub len: u32,
}

impl RecordMark {
    /// The record at the start of `bytes`, if one lies there that readers may see.
    #[inline]
    pub(super) fn at(bytes: &[u8]) -> Option<Self> {
        let header: &[u8; HEADER_BYTES as usize] = bytes.first_chunk()?;
        let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|byte| header[at + byte]));
        let left = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let checked = RecordLengths::of([TYPE_AT, TOTAL_AT, CAPTURED_AT].map(word), left)?;
        let timestamp_ns = u64::from(word(TIME_HIGH_AT)) << 32 | u64::from(word(TIME_LOW_AT));
        (!checked.is_refused).then_some(Self { timestamp_ns, len: checked.total })
    }
}

/// What the options of a packet say. A program writes at most one.
#[derive(Debug, Clone, Copy, Default)]
struct Options {
    hash: Option<PackedHash>,
    direction: Option<Direction>,
}

impl Options {
    #[inline]
    fn of(options: &[u8]) -> Self {
        let mut found = Self::default();
        match first_code(options) {
            None => {}
            Some(HASH_OPTION) => found.hash = hash_in(options),
            Some(FLAGS_OPTION) => found.direction = direction_in(options),
            Some(_) => {}
        }
        found
    }
}

/// The code of the first option.
#[inline]
fn first_code(options: &[u8]) -> Option<u16> {
    options.first_chunk().map(|&code| u16::from_ne_bytes(code))
}

/// The hash in the first option of a packet.
fn hash_in(options: &[u8]) -> Option<PackedHash> {
    let half = |at: usize| Some(u16::from_ne_bytes(options.get(at..at + 2)?.try_into().ok()?));
    if half(2)? != HASH_OPTION_LEN || *options.get(4)? != TOEPLITZ {
        return None;
    }
    let value = u32::from_be_bytes(options.get(5..9)?.try_into().ok()?);
    Some(PackedHash { value, type_bits: half(10)? })
}

/// The direction in the first option of a packet.
fn direction_in(options: &[u8]) -> Option<Direction> {
    let flags = u32::from_ne_bytes(options.get(4..8)?.try_into().ok()?) & DIRECTION_BITS;
    [Direction::In, Direction::Out].into_iter().find(|&direction| flags_of(direction) == flags)
}
