//! What is counted of a queue where its packets come from: by an XDP program, a socket, or the port itself.

use wirecap_core::{LossCounts, QueueAccount};

use super::{QueueMode, QueueReport};

/// What happened to packets of a queue before they reached its ring, since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct QueueCounts {
    pub(crate) seen: u64,
    pub(crate) filtered: u64,
    pub(crate) passed: u64,
    pub(crate) no_free_cell: u64,
    pub(crate) no_free_block: u64,
    pub(crate) rx_ring_full: u64,
    pub(crate) too_long: u64,
    /// How often the kernel found no cell in the fill ring.
    pub(crate) fill_ring_empty: u64,
    /// Packets for the socket that could not be stamped one by one, where that was asked for.
    pub(crate) unstamped: u64,
    /// Packets whose VLAN tag could not be put back, where that is tried.
    pub(crate) untagged: u64,
    /// Packets for the socket without a hash of the NIC's, where that was asked for.
    pub(crate) unhashed: u64,
    /// Packets that were longer than the port can capture, and were cut.
    pub(crate) cut: u64,
}

impl QueueCounts {
    /// The account, before any packet is delivered.
    pub(crate) fn account(&self) -> QueueAccount {
        let &Self { seen, filtered, passed, .. } = self;
        let &Self { no_free_cell, no_free_block, rx_ring_full, too_long, .. } = self;
        let lost = LossCounts { no_free_cell, no_free_block, rx_ring_full, too_long, left_at_stop: 0 };
        QueueAccount { seen, filtered, passed, delivered: 0, lost }
    }

    /// A report with these counts alone.
    pub(crate) fn report(&self, queue: u16, mode: QueueMode) -> QueueReport {
        let (account, fill_ring_empty) = (self.account(), self.fill_ring_empty);
        let unexplained = account.unexplained();
        QueueReport { queue, mode, account, unexplained, fill_ring_empty, ..QueueReport::default() }
    }
}
