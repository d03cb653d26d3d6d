//! What waits for the output of a job that does not wait for it: its packets go on, and the file loses what
//! the output does not take.
//!
//! ```text
//!   worker ── block ──► waits, 64 MiB at most ──► writer thread ──► output
//!      └── no room: not encoded, counted
//! ```
//!
//! Rule: once there is no room, nothing is taken until half of it is free: a copy with few long gaps is of
//! more use than one with many short ones.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Bytes of encoded packets that may wait for the writer, and how many of them have to go before more are
/// taken.
const MAX_BYTES: usize = 64 << 20;
const ENOUGH_BYTES: usize = MAX_BYTES / 2;

/// Shared by workers, the writer, and the thread that reports. No figure guards other memory, so all accesses
/// are relaxed.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// Memory of all blocks on their way. Grows by workers, shrinks by the writer.
    bytes: AtomicUsize,
    /// Set by a worker that finds no room, taken back by one that finds enough.
    is_full: AtomicBool,
    /// Packets that the output did not take in time. Written by workers.
    not_taken: AtomicU64,
}

impl Backlog {
    /// Whether one more block may be made.
    pub(crate) fn has_room(&self) -> bool {
        let bytes = self.bytes.load(Ordering::Relaxed);
        let is_full = self.is_full.load(Ordering::Relaxed);
        let is_to_be = if is_full { bytes > ENOUGH_BYTES } else { bytes > MAX_BYTES };
        if is_to_be != is_full {
            self.is_full.store(is_to_be, Ordering::Relaxed);
        }
        !is_to_be
    }

    /// A block is on its way that takes so much memory.
    pub(crate) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The writer has received the block, or no writer will.
    pub(crate) fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts packets that are not written as there was no room.
    pub(crate) fn count_not_taken(&self, packets: u64) {
        self.not_taken.fetch_add(packets, Ordering::Relaxed);
    }

    /// Packets that were not written as there was no room.
    pub(crate) fn not_taken(&self) -> u64 {
        self.not_taken.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_full_takes_more_when_half_of_it_is_free() {
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
