//! Blocks that wait for the output when workers do not: packets continue, and the file misses those that the
//! output does not accept in time.
//!
//! ```text
//!   worker ── block ──► waits, at most 64 MiB ──► writer thread ──► output
//!      └── no room: not encoded, counted
//! ```
//!
//! Rule: once the backlog is full, it accepts nothing until half of it is free: a copy with few long gaps is
//! more useful than one with many short ones.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Bytes of encoded packets that may wait for the writer; a full backlog accepts more below the second limit.
const MAX_BYTES: usize = 64 << 20;
const ENOUGH_BYTES: usize = MAX_BYTES / 2;

/// Shared by workers, the writer, and the thread that reports. No figure guards other memory, so all accesses
/// are relaxed.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// Memory of all waiting blocks. Added by workers, removed by the writer.
    bytes: AtomicUsize,
    /// Set by a worker that finds no room, cleared by one that finds enough.
    is_full: AtomicBool,
    /// Packets that the output did not accept in time. Written by workers.
    not_taken: AtomicU64,
}

impl Backlog {
    /// Whether one more block may be made.
    pub(crate) fn has_room(&self) -> bool {
        let bytes = self.bytes.load(Ordering::Relaxed);
        let is_full = self.is_full.load(Ordering::Relaxed);
        let is_now_full = if is_full { bytes > ENOUGH_BYTES } else { bytes > MAX_BYTES };
        if is_now_full != is_full {
            self.is_full.store(is_now_full, Ordering::Relaxed);
        }
        !is_now_full
    }

    /// Adds the memory of a block, in bytes.
    pub(crate) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Removes the memory of a block that the writer received, or that no writer will receive.
    pub(crate) fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts packets that are not written for lack of room.
    pub(crate) fn count_not_taken(&self, packets: u64) {
        self.not_taken.fetch_add(packets, Ordering::Relaxed);
    }

    /// Packets that were not written for lack of room.
    pub(crate) fn not_taken(&self) -> u64 {
        self.not_taken.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_backlog_takes_more_when_half_of_it_is_free() {
        let backlog = Backlog::default();
        assert!(backlog.has_room());
        backlog.add(MAX_BYTES);
        assert!(backlog.has_room());
        backlog.add(1);
        assert!(!backlog.has_room());
        backlog.remove(MAX_BYTES - ENOUGH_BYTES);
        assert!(!backlog.has_room());
        backlog.remove(1);
        assert!(backlog.has_room());
        backlog.add(1_000);
        assert!(backlog.has_room());
    }
}
