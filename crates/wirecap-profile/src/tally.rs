//! The packets of a batch, counted before they are added to a profile, so that a lock is held only briefly.

/// Packets by bin and queue, in the order in which they came.
#[derive(Debug, Clone)]
pub struct Tally {
    bin_ns: u64,
    pub(crate) counts: Vec<Count>,
}

/// Packets of one queue in one bin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) bin: u64,
    pub(crate) queue: usize,
    pub(crate) packets: u64,
}

impl Tally {
    /// An empty tally with bins of this width; 0 counts as 1.
    pub fn new(bin_ns: u64) -> Self {
        Self { bin_ns: bin_ns.max(1), counts: Vec::new() }
    }

    /// Counts a packet.
    pub fn count(&mut self, timestamp_ns: u64, queue: usize) {
        let bin = timestamp_ns / self.bin_ns;
        match self.counts.last_mut() {
            Some(last) if (last.bin, last.queue) == (bin, queue) => last.packets += 1,
            _ => self.counts.push(Count { bin, queue, packets: 1 }),
        }
    }

    /// Forgets all packets, and keeps the memory.
    pub fn clear(&mut self) {
        self.counts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_a_bin_and_queue_are_one_count() {
        let mut tally = Tally::new(10);
        for (time, queue) in [(0, 1), (9, 1), (10, 1), (10, 0), (19, 0), (5, 1)] {
            tally.count(time, queue);
        }
        let counts: Vec<_> = tally.counts.iter().map(|one| (one.bin, one.queue, one.packets)).collect();
        assert_eq!(counts, [(0, 1, 2), (1, 1, 1), (1, 0, 2), (0, 1, 1)]);
        tally.clear();
        assert!(tally.counts.is_empty());
    }
}
