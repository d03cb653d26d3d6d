//! The drop account: where every packet of a receive queue went.
//!
//! ```text
//!   seen = filtered + passed + delivered + lost(no free cell) + lost(no free block) + lost(rx ring full) + lost(…)
//! ```
//!
//! Rule: each packet is in exactly one term. What no term explains is [`QueueAccount::unexplained`],
//! and anything but 0 there is a defect of the highest rank.

use std::{iter::Sum, ops::AddAssign};

use serde::Serialize;

/// Packets that were wanted and did not reach a worker, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LossCounts {
    /// No cell was attached when the packet came: the pool was used up.
    pub no_free_cell: u64,
    /// No block had room for the packet: the pool was used up. Instead of `no_free_cell` where packets lie in
    /// blocks: in the modes packed, tap and packet.
    pub no_free_block: u64,
    /// The receive ring had no entry left.
    pub rx_ring_full: u64,
    /// The packet was longer than a cell and the port cannot split packets.
    pub too_long: u64,
    /// Captured, but no worker took it before the capture ended.
    pub left_at_stop: u64,
}

impl LossCounts {
    /// The causes with their names, in the order in which they are printed.
    pub fn causes(&self) -> [(&'static str, u64); 5] {
        [
            ("no_free_cell", self.no_free_cell),
            ("no_free_block", self.no_free_block),
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

impl AddAssign for LossCounts {
    fn add_assign(&mut self, other: Self) {
        self.no_free_cell += other.no_free_cell;
        self.no_free_block += other.no_free_block;
        self.rx_ring_full += other.rx_ring_full;
        self.too_long += other.too_long;
        self.left_at_stop += other.left_at_stop;
    }
}

/// The account of one receive queue, in packets since the capture began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueAccount {
    /// Packets that reached the port.
    pub seen: u64,
    /// Packets the filter did not want.
    pub filtered: u64,
    /// Packets left to the host.
    pub passed: u64,
    /// Packets given to workers.
    pub delivered: u64,
    /// Packets lost.
    pub lost: LossCounts,
}

impl QueueAccount {
    /// Packets that are in no term of the identity (negative: in two). 0 once the capture has
    /// ended; while it runs, what is on its way shows here.
    ///
    /// ```
    /// use wirecap_core::{LossCounts, QueueAccount};
    /// let account = QueueAccount {
    ///     seen: 10, filtered: 1, passed: 2, delivered: 4,
    ///     lost: LossCounts { no_free_cell: 3, ..LossCounts::default() },
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

impl Sum for QueueAccount {
    fn sum<I: Iterator<Item = Self>>(accounts: I) -> Self {
        let mut sum = Self::default();
        accounts.for_each(|account| sum += account);
        sum
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Each counter has its own bit, so that no sum of others equals it.
    fn lost() -> LossCounts {
        LossCounts { no_free_cell: 1, no_free_block: 2, rx_ring_full: 4, too_long: 8, left_at_stop: 16 }
    }

    fn account() -> QueueAccount {
        QueueAccount { seen: 1024, filtered: 32, passed: 64, delivered: 128, lost: lost() }
    }

    #[test]
    fn every_cause_has_its_name_and_is_in_the_total() {
        let causes = [
            ("no_free_cell", 1),
            ("no_free_block", 2),
            ("rx_ring_full", 4),
            ("too_long", 8),
            ("left_at_stop", 16),
        ];
        assert_eq!(lost().causes(), causes);
        assert_eq!(lost().total(), 31);
        assert_eq!(LossCounts::default().total(), 0);
    }

    #[test]
    fn accounts_are_added_term_by_term() {
        let mut sum = account();
        sum += account();
        let lost =
            LossCounts { no_free_cell: 2, no_free_block: 4, rx_ring_full: 8, too_long: 16, left_at_stop: 32 };
        assert_eq!(sum, QueueAccount { seen: 2048, filtered: 64, passed: 128, delivered: 256, lost });
        assert_eq!([account(), account()].into_iter().sum::<QueueAccount>(), sum);
        sum += QueueAccount::default();
        assert_eq!((sum.seen, sum.lost), (2048, lost));
    }

    #[test]
    fn packets_in_no_term_are_unexplained() {
        assert_eq!(account().unexplained(), 1024 - 32 - 64 - 128 - 31);
        let closed = QueueAccount { seen: 32 + 64 + 128 + 31, ..account() };
        assert_eq!(closed.unexplained(), 0);
        // Each term counts exactly once.
        for term in 0..9 {
            let mut one_more = closed;
            *[
                &mut one_more.seen,
                &mut one_more.filtered,
                &mut one_more.passed,
                &mut one_more.delivered,
                &mut one_more.lost.no_free_cell,
                &mut one_more.lost.no_free_block,
                &mut one_more.lost.rx_ring_full,
                &mut one_more.lost.too_long,
                &mut one_more.lost.left_at_stop,
            ][term] += 1;
            assert_eq!(one_more.unexplained(), if term == 0 { 1 } else { -1 }, "term {term}");
        }
    }
}
