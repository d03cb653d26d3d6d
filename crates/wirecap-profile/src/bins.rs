//! Bins of time: which of them are still open.
//!
//! ```text
//!   closed: their rows have left │ open: the bin of the newest packet, and those up to a second before it
//!   ─────────────────────────────┼──────────────────────────────────────────────────────────────────────┼──► time
//!                                │ workers that are behind add to these                                 newest
//! ```
//!
//! Rule: bins without packets take no memory and have no row. Bins are open for a time, not for a number of
//! bins, but with narrow bins or many queues never for more than [`MAX_WORDS`]: then the oldest ones close
//! early.

use std::collections::BTreeMap;

/// How far the times of packets may be apart and still be on one line of time: longer than a worker is behind
/// unless it is overloaded, and short enough to follow the rows of a running profile.
pub const TOLERANCE_NS: u64 = 1_000_000_000;

/// The most words of 8 bytes that open bins take: 32 MiB.
const MAX_WORDS: usize = 1 << 22;
/// What a bin takes beyond a word for each queue: its entry in the map, and what the allocator adds.
const WORDS_PER_BIN: usize = 8;

/// Whether bins of this width may close before they are a second old, with this number of queues.
pub fn may_close_early(queues: usize, bin_ns: u64) -> bool {
    let bins = TOLERANCE_NS.div_ceil(bin_ns.max(1));
    bins.saturating_mul((queues + WORDS_PER_BIN) as u64) > MAX_WORDS as u64
}

/// A closed bin: its packets by queue, at least one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its number: time since 1970 in units of its width.
    pub bin: u64,
    /// The number of bins from the start of the profile to it; jumps of the time do not count.
    pub position: u64,
    /// How many jumps came before it.
    pub stretch: u64,
    /// Packets of each queue.
    pub packets: Box<[u64]>,
}

/// The packets of a bin, by queue.
pub(crate) type BinPackets = Box<[u64]>;

/// Bins that are open.
#[derive(Debug)]
pub(crate) struct Bins {
    queues: usize,
    open: BTreeMap<u64, BinPackets>,
    /// Bins before this one are closed.
    open_from: u64,
}

impl Bins {
    pub(crate) fn new(queues: usize) -> Self {
        Self { queues, open: BTreeMap::new(), open_from: 0 }
    }

    /// Adds packets. `false` if their bin is closed.
    pub(crate) fn add(&mut self, bin: u64, queue: usize, packets: u64) -> bool {
        if bin < self.open_from {
            return false;
        }
        self.open.entry(bin).or_insert_with(|| vec![0; self.queues].into())[queue] += packets;
        true
    }

    /// The first and the last open bin.
    pub(crate) fn span(&self) -> Option<(u64, u64)> {
        let ((first, _), (last, _)) = (self.open.first_key_value()?, self.open.last_key_value()?);
        Some((*first, *last))
    }

    /// Whether it has as many bins as memory allows.
    pub(crate) fn is_full(&self) -> bool {
        self.words() >= MAX_WORDS
    }

    fn words(&self) -> usize {
        self.open.len() * (self.queues + WORDS_PER_BIN)
    }

    /// Packets of a queue in open bins.
    pub(crate) fn packets(&self, queue: usize) -> u64 {
        self.open.values().map(|packets| packets[queue]).sum()
    }

    /// Closes bins before this one, and as many of the others as memory requires.
    pub(crate) fn close_before(&mut self, open_from: u64, each: &mut impl FnMut(u64, BinPackets)) {
        while let Some(first) = self.open.first_entry() {
            let bin = *first.key();
            if bin >= open_from && self.words() <= MAX_WORDS {
                break;
            }
            let Some((bin, packets)) = self.open.pop_first() else { break };
            self.open_from = bin.saturating_add(1);
            each(bin, packets);
        }
        self.open_from = self.open_from.max(open_from);
    }

    /// Closes all bins, and forgets where they were.
    pub(crate) fn take(&mut self) -> BTreeMap<u64, BinPackets> {
        self.open_from = 0;
        std::mem::take(&mut self.open)
    }

    /// Adds bins that are later than all open ones.
    pub(crate) fn append(&mut self, mut later: BTreeMap<u64, BinPackets>) {
        self.open.append(&mut later);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_close_in_order_and_stay_closed() {
        let (mut bins, mut rows) = (Bins::new(2), Vec::new());
        for (bin, queue, packets) in [(5_001, 1, 2), (5_000, 0, 1), (5_001, 0, 4)] {
            assert!(bins.add(bin, queue, packets));
        }
        assert_eq!((bins.packets(0), bins.span()), (5, Some((5_000, 5_001))));
        bins.close_before(5_001, &mut |bin, packets| rows.push((bin, packets)));
        assert!(!bins.add(5_000, 0, 1) && bins.add(5_001, 0, 1));
        assert_eq!(rows, [(5_000, [1, 0].into())]);
    }

    #[test]
    fn only_narrow_bins_of_many_queues_may_close_early() {
        let early = [(1, 10_000_000), (64, 100_000), (64, 1_000), (1, 1_000), (1, 0)];
        assert_eq!(
            early.map(|(queues, bin_ns)| may_close_early(queues, bin_ns)),
            [false, false, true, true, true]
        );
    }

    #[test]
    fn many_queues_in_narrow_bins_close_early() {
        let queues = MAX_WORDS / 4 - WORDS_PER_BIN;
        let (mut bins, mut closed) = (Bins::new(queues), Vec::new());
        for bin in 0..6 {
            assert!(bins.add(bin, 0, 1));
            bins.close_before(0, &mut |bin, _| closed.push(bin));
        }
        assert!(bins.is_full() && closed == [0, 1], "{closed:?}");
        assert!(!bins.add(1, 0, 1) && bins.add(2, 0, 1));
    }
}
