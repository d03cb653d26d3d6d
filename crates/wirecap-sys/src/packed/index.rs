//! The index of a block: how long each of its records is, so that the receiver knows where the next ones
//! begin without a look at them.
//!
//! ```text
//!   │ record 0 │ record 1 │ record 2 │ ──►      room      ◄── │ length 2 │ length 1 │ length 0 │
//!   0                           `position`                                              end of the block
//! ```
//!
//! Rule: an entry is a hint. What a record's header says is checked, and has to agree.

use std::{
    marker::PhantomData,
    ptr::NonNull,
    sync::atomic::{AtomicU16, Ordering},
};

use super::record::{ALIGNMENT, HEADER_BYTES, TRAILER_BYTES};

/// An entry holds a length in units of [`ALIGNMENT`].
pub(super) const ENTRY_BYTES: u32 = 2;

/// The shortest record: a packet has a byte, at least.
const MIN_RECORD_BYTES: u32 = HEADER_BYTES + ALIGNMENT + TRAILER_BYTES;

/// A block has no more records, and its index no more entries.
pub(super) const fn max_records(bytes: u32) -> u32 {
    bytes / MIN_RECORD_BYTES
}

/// A record of a block, as the index leads to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cursor {
    /// Where it begins, in bytes from the start of the block.
    pub(super) at: u32,
    /// How many are in front of it.
    pub(super) number: u32,
}

impl Cursor {
    /// Behind a record of this length.
    #[inline]
    pub(super) fn behind(self, record_bytes: u32) -> Self {
        Self { at: self.at + record_bytes, number: self.number + 1 }
    }
}

/// The index of one block.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockIndex<'a> {
    /// INVARIANT: start of a block of `block_bytes` bytes, which is mapped during `'a`. Nothing but the
    /// program writes where entries are.
    block: NonNull<u8>,
    block_bytes: u32,
    _block: PhantomData<&'a [u8]>,
}

impl BlockIndex<'_> {
    /// # Safety
    /// `block` points to `block_bytes` bytes, aligned to 4, which are mapped during the lifetime. Nothing
    /// but the program writes where entries are.
    #[inline]
    pub(super) unsafe fn new(block: NonNull<u8>, block_bytes: u32) -> Self {
        Self { block, block_bytes, _block: PhantomData }
    }

    /// The entry of a record. `None` if no block has so many.
    #[inline]
    fn entry(&self, number: u32) -> Option<&AtomicU16> {
        if number >= max_records(self.block_bytes) {
            return None;
        }
        let at = self.block_bytes - ENTRY_BYTES * (number + 1);
        // SAFETY: the entry lies in the block (checked above), aligned, and is only accessed atomically on
        // our side, by the invariant on `block`.
        Some(unsafe { self.block.add(at as usize).cast().as_ref() })
    }

    /// How long the record of this number is, in bytes; 0 if no block has so many records. Records in front
    /// of `position` have an entry.
    #[inline]
    pub(super) fn record_bytes(&self, number: u32) -> u32 {
        // Ordered by the load of the position.
        self.entry(number).map_or(0, |entry| u32::from(entry.load(Ordering::Relaxed)) * ALIGNMENT)
    }

    /// How many records are in front of `end`, counted from `cursor`. `None` if no record ends there by the
    /// index.
    pub(super) fn records_until(&self, end: u32, mut cursor: Cursor) -> Option<u32> {
        while cursor.at < end {
            let record_bytes = self.record_bytes(cursor.number);
            if record_bytes == 0 {
                return None;
            }
            cursor = cursor.behind(record_bytes);
        }
        (cursor.at == end).then_some(cursor.number)
    }

    /// Writes another length into an entry, in units of four bytes, as only a broken program would.
    #[cfg(feature = "testing")]
    pub(super) fn spoil(&self, number: u32, length: u16) {
        self.entry(number).expect("a record of the block").store(length, Ordering::Relaxed);
    }
}
