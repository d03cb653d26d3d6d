//! What became of next hops that were wanted.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// What became of next hops that were wanted; each counter is one of [`NextHopReport`]. Written by the
/// resolver, `crowded_out` by workers as well.
#[derive(Debug, Default)]
pub struct NextHopCounts {
    pub(super) asked: AtomicU64,
    pub(super) found: AtomicU64,
    pub(super) silent: AtomicU64,
    pub(super) crowded_out: AtomicU64,
    pub(super) table_full: AtomicU64,
}

/// What became of next hops that were wanted, at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NextHopReport {
    /// Asked for.
    pub asked: u64,
    /// Of these, or of those that were silent, found.
    pub found: u64,
    /// Of these, not answered; those that were known and do not answer any more among them.
    pub silent: u64,
    /// Given up, or not asked for, since too many were wanted at once.
    pub crowded_out: u64,
    /// Not asked for, since the kernel's table of neighbours had no room.
    pub table_full: u64,
}

impl NextHopCounts {
    /// The counts as they are now.
    pub fn report(&self) -> NextHopReport {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        NextHopReport {
            asked: read(&self.asked),
            found: read(&self.found),
            silent: read(&self.silent),
            crowded_out: read(&self.crowded_out),
            table_full: read(&self.table_full),
        }
    }
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
