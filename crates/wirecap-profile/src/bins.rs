//! Bins of time: which of them are still open.
//!
//! ```text
//!   closed: their rows have left │ open: the newest bin, and OPEN_BINS - 1 before it │
//!   ─────────────────────────────┼───────────────────────────────────────────────────┼──► time
//!    a packet from here is late  │ workers that are behind add to these             newest
//! ```
//!
//! Rule: bins without packets take no memory and have no row, so a packet with an absurd time costs no more
//! than any other.

use std::collections::BTreeMap;

/// How many bins are open: 10 s with bins of 10 ms. Longer than a worker is behind unless it is overloaded,
/// and short enough to follow the rows of a running profile.
pub const OPEN_BINS: u64 = 1_000;

/// A closed bin: its packets by queue, at least one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its number: time since 1970 in units of its width.
    pub bin: u64,
    /// Packets of each queue.
    pub packets: Box<[u64]>,
}

/// Bins that are open.
#[derive(Debug)]
pub(crate) struct Bins {
    queues: usize,
    open: BTreeMap<u64, Box<[u64]>>,
    /// Bins before this one are closed.
    open_from: u64,
    /// Packets of each queue that came after their bin was closed.
    late: Box<[u64]>,
}

impl Bins {
    pub(crate) fn new(queues: usize) -> Self {
        Self { queues, open: BTreeMap::new(), open_from: 0, late: vec![0; queues].into() }
    }

    /// Adds packets, and closes bins that are now too old.
    pub(crate) fn add(&mut self, bin: u64, queue: usize, packets: u64, each: &mut impl FnMut(Row)) {
        if bin < self.open_from {
            self.late[queue] += packets;
            return;
        }
        let row = self.open.entry(bin).or_insert_with(|| vec![0; self.queues].into());
        row[queue] += packets;
        if bin - self.open_from >= OPEN_BINS {
            self.close_before(bin - (OPEN_BINS - 1), each);
        }
    }

    /// Closes all bins.
    pub(crate) fn close(&mut self, each: &mut impl FnMut(Row)) {
        while let Some((bin, packets)) = self.open.pop_first() {
            self.open_from = bin.saturating_add(1);
            each(Row { bin, packets });
        }
    }

    pub(crate) fn late(&self) -> &[u64] {
        &self.late
    }

    /// Packets of a queue in open bins.
    pub(crate) fn open_packets(&self, queue: usize) -> u64 {
        self.open.values().map(|packets| packets[queue]).sum()
    }

    fn close_before(&mut self, open_from: u64, each: &mut impl FnMut(Row)) {
        while let Some(first) = self.open.first_entry().filter(|first| *first.key() < open_from) {
            let (bin, packets) = first.remove_entry();
            each(Row { bin, packets });
        }
        self.open_from = open_from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_leave_in_order_and_late_packets_are_counted() {
        let (mut bins, mut rows) = (Bins::new(2), Vec::new());
        let mut row = |row: Row| rows.push((row.bin, row.packets.to_vec()));
        bins.add(5_001, 1, 2, &mut row);
        // Behind, but not too far.
        bins.add(5_000, 0, 1, &mut row);
        bins.add(5_001 - (OPEN_BINS - 1), 0, 7, &mut row);
        bins.add(5_001 - OPEN_BINS, 0, 3, &mut row);
        bins.add(5_002, 0, 4, &mut row);
        assert_eq!((bins.late(), bins.open_packets(0)), (&[3, 0][..], 5));
        bins.close(&mut row);
        let first = 5_001 - (OPEN_BINS - 1);
        let expected = [(first, vec![7, 0]), (5_000, vec![1, 0]), (5_001, vec![0, 2]), (5_002, vec![4, 0])];
        assert_eq!(rows, expected);
    }

    #[test]
    fn an_absurd_time_costs_a_row() {
        let (mut bins, mut rows) = (Bins::new(1), 0);
        for bin in [0, u64::MAX, 1, u64::MAX - 1] {
            bins.add(bin, 0, 1, &mut |_| rows += 1);
        }
        assert_eq!((rows, bins.open.len(), bins.late()), (1, 2, &[1][..]));
    }
}
