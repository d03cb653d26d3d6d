//! The drop account: where every packet of a receive queue went.
//!
//! ```text
//!   seen = filtered + passed + delivered + lost(no free cell) + lost(rx ring full) + lost(…)
//! ```
//!
//! Rule: each packet is in exactly one term. What no term explains is [`QueueAccount::unexplained`],
//! and anything but 0 there is a defect of the highest rank.

use std::ops::AddAssign;

use serde::Serialize;

/// Packets that were wanted and did not reach a worker, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// No cell was attached when the packet came: the pool was used up.
    pub no_free_cell: u64,
    /// The receive ring had no entry left.
    pub rx_ring_full: u64,
    /// The packet was longer than a cell and the port cannot split packets.
    pub too_long: u64,
    /// Captured, but no worker took it before the capture ended.
    pub left_at_stop: u64,
}

impl Lost {
    /// The causes with their names, in the order in which they are printed.
    pub fn causes(&self) -> [(&'static str, u64); 4] {
        [
            ("no_free_cell", self.no_free_cell),
            ("rx_ring_full", self.rx_ring_full),
            ("too_long", self.too_long),
            ("left_at_stop", self.left_at_stop),
        ]
    }

    /// All causes together.
    pub fn total(&self) -> u64 {
        self.causes().iter().map(|(_, packets)| packets).sum()
    }
}

impl AddAssign for Lost {
    fn add_assign(&mut self, other: Self) {
        self.no_free_cell += other.no_free_cell;
        self.rx_ring_full += other.rx_ring_full;
        self.too_long += other.too_long;
        self.left_at_stop += other.left_at_stop;
    }
}

/// The account of one receive queue, in packets since the capture began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueAccount {
    /// Packets that reached the XDP program (or whatever stands first in the port).
    pub seen: u64,
    /// Packets the filter did not want.
    pub filtered: u64,
    /// Packets given to the host's stack because no capture was there for them.
    pub passed: u64,
    /// Packets given to workers.
    pub delivered: u64,
    /// Packets lost, by cause.
    pub lost: Lost,
}

impl QueueAccount {
    /// Packets that are in no term of the identity (negative: in two). 0 once the capture has
    /// ended; while it runs, what is on its way shows here.
    ///
    /// ```
    /// use wirecap_core::{Lost, QueueAccount};
    /// let account = QueueAccount {
    ///     seen: 10, filtered: 1, passed: 2, delivered: 4,
    ///     lost: Lost { no_free_cell: 3, ..Lost::default() },
    /// };
    /// assert_eq!(account.unexplained(), 0);
    /// ```
    pub fn unexplained(&self) -> i64 {
        let explained = self.filtered + self.passed + self.delivered + self.lost.total();
        self.seen.wrapping_sub(explained) as i64
    }
}

impl AddAssign for QueueAccount {
    fn add_assign(&mut self, other: Self) {
        self.seen += other.seen;
        self.filtered += other.filtered;
        self.passed += other.passed;
        self.delivered += other.delivered;
        self.lost += other.lost;
    }
}
