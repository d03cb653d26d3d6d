//! What becomes of the packets of a capture once its readers have them in batches.
//!
//! ```text
//!   a batch ──► taken ── delivered to the program ──► …
//!                 │                                        taken − delivered − refused = unread
//!                 └───── refused by a filter ──► refused
//! ```

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// The counts of a capture, shared by all that read it.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts(Arc<Figures>);

#[derive(Debug, Default)]
struct Figures {
    refused: AtomicU64,
    /// Neither delivered nor refused before the call that reads now.
    unsettled: AtomicU64,
    /// Those of `unsettled` that this call has delivered or refused. Stored for each packet, so never added
    /// to.
    progress: AtomicU64,
}

impl Counts {
    /// A reader has a batch of this number of packets.
    pub(super) fn take(&self, packets: usize) {
        self.0.unsettled.fetch_add(packets as u64, Relaxed);
    }

    /// The call has delivered or refused this number.
    #[inline]
    pub(super) fn note_progress(&self, packets: u32) {
        self.0.progress.store(packets.into(), Relaxed);
    }

    /// The call ends: it has delivered or refused `read` packets, and filters have refused `refused` of them.
    pub(super) fn settle(&self, read: u64, refused: u64) {
        self.0.progress.store(0, Relaxed);
        self.0.unsettled.fetch_sub(read, Relaxed);
        if refused > 0 {
            self.0.refused.fetch_add(refused, Relaxed);
        }
    }

    /// Packets that filters have refused.
    pub(super) fn refused(&self) -> u64 {
        self.0.refused.load(Relaxed)
    }

    /// Packets that the program has not got yet. Exact for a handle without a group, also within a callback.
    pub(super) fn unread(&self) -> u64 {
        self.0.unsettled.load(Relaxed).saturating_sub(self.0.progress.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_unread_until_they_are_delivered_or_refused() {
        let counts = Counts::default();
        counts.take(10);
        counts.note_progress(3);
        assert_eq!((counts.unread(), counts.refused()), (7, 0));
        counts.settle(5, 2);
        assert_eq!((counts.unread(), counts.refused()), (5, 2));
    }
}
