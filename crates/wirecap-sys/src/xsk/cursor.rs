//! The arithmetic of ring indexes.
//!
//! Producer and consumer indexes are free-running 32-bit counters; what is filled is the half-open
//! interval `[consumer, producer)`, also when the producer has wrapped around and the consumer has
//! not yet. An index names entry `index mod size`, and the size is a power of two, so the entry
//! stays right across the wrap-around.

/// The size of a ring, and what follows from it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RingSize {
    /// INVARIANT: a power of two, at most 2^31.
    entries: u32,
}

impl RingSize {
    /// `None` unless `entries` is a power of two.
    pub(crate) fn new(entries: u32) -> Option<Self> {
        entries.is_power_of_two().then_some(Self { entries })
    }

    pub(crate) fn entries(self) -> u32 {
        self.entries
    }

    /// Entries in `[consumer, producer)`. Never more than the ring has, whatever the other side
    /// wrote.
    #[inline]
    pub(crate) fn filled(self, producer: u32, consumer: u32) -> u32 {
        producer.wrapping_sub(consumer).min(self.entries)
    }

    /// Entries that can still be produced.
    #[inline]
    pub(crate) fn room(self, producer: u32, consumer: u32) -> u32 {
        self.entries - self.filled(producer, consumer)
    }

    /// Which entry an index names.
    #[inline]
    pub(crate) fn entry(self, index: u32) -> usize {
        (index & (self.entries - 1)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Drives indexes and a plain queue side by side: every size up to 16, every fill level, from starting
    /// points on both sides of the wrap-around. Under miri, which takes a hundred times as long, up to 4.
    #[test]
    fn exhaustive_at_small_sizes() {
        let (sizes, starts) = if cfg!(miri) { (0..3, 17..23) } else { (0..5, 0..40) };
        for size in sizes.map(|power| RingSize::new(1 << power).unwrap()) {
            for start in starts.clone().map(|offset| (u32::MAX - 19).wrapping_add(offset)) {
                for level in 0..=size.entries() {
                    let (mut producer, mut consumer) = (start, start);
                    let mut ring = vec![None; size.entries() as usize];
                    let mut model = VecDeque::new();
                    for step in 0..3 * size.entries() {
                        while size.filled(producer, consumer) < level {
                            let entry = &mut ring[size.entry(producer)];
                            assert_eq!(*entry, None, "an entry is overwritten");
                            *entry = Some(producer);
                            model.push_back(producer);
                            producer = producer.wrapping_add(1);
                        }
                        assert_eq!(size.filled(producer, consumer) as usize, model.len());
                        assert_eq!(size.room(producer, consumer), size.entries() - level);
                        for _ in 0..=(step % 3) {
                            if size.filled(producer, consumer) > 0 {
                                assert_eq!(ring[size.entry(consumer)].take(), model.pop_front());
                                consumer = consumer.wrapping_add(1);
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn only_powers_of_two_are_sizes() {
        for entries in 0..70 {
            assert_eq!(RingSize::new(entries).is_some(), [1, 2, 4, 8, 16, 32, 64].contains(&entries));
        }
    }

    #[test]
    fn nonsense_from_the_other_side_stays_within_the_ring() {
        let size = RingSize::new(8).unwrap();
        assert_eq!(size.filled(100, 0), 8);
        assert_eq!(size.room(100, 0), 0);
        assert_eq!(size.filled(0, 1), 8);
    }
}
