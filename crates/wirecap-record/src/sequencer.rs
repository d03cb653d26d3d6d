//! Puts blocks of several workers back into the order of the receive queue.
//!
//! ```text
//!   numbers of one queue     0-9   10-19   20-29   30-39
//!   arrive                    1.      3.      2.      4.
//!   passed on                 0-9  ·  10-19 20-29  ·  30-39        (20-29 waits for 10-19)
//! ```
//!
//! Rule: it never refuses a block, so that the thread that feeds it never waits for a gap to close: the block
//! that closes it may be next in the same channel. Few blocks wait, because a gap lasts as long as a worker
//! takes to encode one batch.

use std::{collections::BTreeMap, ops::Range};

/// Puts items of several queues in order, each queue independently: what several workers made of the batches
/// of a queue, by the numbers of its packets ([`wirecap::Batch::first_number`]).
///
/// ```
/// let (mut sequencer, mut ready) = (wirecap_record::Sequencer::new(1), Vec::new());
/// sequencer.accept(0, 10..20, "second", &mut ready);
/// assert!(ready.is_empty());
/// sequencer.accept(0, 0..10, "first", &mut ready);
/// assert_eq!(ready, ["first", "second"]);
/// ```
#[derive(Debug)]
pub struct Sequencer<T> {
    queues: Vec<Queue<T>>,
}

#[derive(Debug)]
struct Queue<T> {
    /// The next number.
    next: u64,
    /// Items that arrived early, by their first number, with the number after their last.
    early: BTreeMap<u64, (u64, T)>,
}

impl<T> Sequencer<T> {
    /// A sequencer for this number of queues, each of which starts with number 0.
    pub fn new(queues: usize) -> Self {
        Self { queues: (0..queues).map(|_| Queue { next: 0, early: BTreeMap::new() }).collect() }
    }

    /// The next number: all before it were passed on.
    pub fn next(&self, queue: usize) -> u64 {
        self.queues[queue].next
    }

    /// Takes an item that covers `numbers` of a queue, and passes on all items that are next.
    pub fn accept(&mut self, queue: usize, numbers: Range<u64>, item: T, ready: &mut impl Extend<T>) {
        let queue = &mut self.queues[queue];
        if numbers.start > queue.next {
            queue.early.insert(numbers.start, (numbers.end, item));
            return;
        }
        ready.extend([item]);
        // Never lower: an item may arrive although nothing waits for it any more.
        queue.next = queue.next.max(numbers.end);
        while let Some(entry) = queue.early.first_entry() {
            if *entry.key() > queue.next {
                break;
            }
            let (end, item) = entry.remove();
            queue.next = end;
            ready.extend([item]);
        }
    }

    /// Passes on all waiting items of a queue, in order, and stops waiting for the gaps before them. At the
    /// end of a capture nothing waits, unless a worker panicked while it had a batch.
    pub fn drain(&mut self, queue: usize, ready: &mut impl Extend<T>) {
        let queue = &mut self.queues[queue];
        for (_, (end, item)) in std::mem::take(&mut queue.early) {
            queue.next = end;
            ready.extend([item]);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Consecutive items of several queues, in a shuffled order of arrival.
    fn arrivals() -> impl Strategy<Value = Vec<(usize, Range<u64>)>> {
        let queue = prop::collection::vec(1..20_u64, 0..30);
        prop::collection::vec(queue, 1..4)
            .prop_map(|queues| {
                let mut items = Vec::new();
                for (queue, lengths) in queues.into_iter().enumerate() {
                    let mut start = 0;
                    for length in lengths {
                        items.push((queue, start..start + length));
                        start += length;
                    }
                }
                items
            })
            .prop_shuffle()
    }

    fn of_queue(items: &[(usize, Range<u64>)], queue: usize) -> Vec<Range<u64>> {
        items.iter().filter(|item| item.0 == queue).map(|item| item.1.clone()).collect()
    }

    proptest! {
        #[test]
        fn each_queue_comes_out_in_order_for_any_order_of_arrival(items in arrivals()) {
            let mut sequencer = Sequencer::new(4);
            let mut out = Vec::new();
            for (queue, numbers) in &items {
                sequencer.accept(*queue, numbers.clone(), (*queue, numbers.clone()), &mut out);
            }
            for queue in 0..4 {
                let mut expected = of_queue(&items, queue);
                expected.sort_by_key(|numbers| numbers.start);
                prop_assert_eq!(of_queue(&out, queue), expected);
            }
        }

        #[test]
        fn items_before_a_gap_pass_at_once_and_the_rest_at_the_end(
            items in arrivals(), missing in any::<prop::sample::Index>(),
        ) {
            prop_assume!(!items.is_empty());
            let (gap_queue, gap) = items[missing.index(items.len())].clone();
            let mut sequencer = Sequencer::new(4);
            let mut out = Vec::new();
            for (queue, numbers) in items.iter().filter(|item| **item != (gap_queue, gap.clone())) {
                sequencer.accept(*queue, numbers.clone(), (*queue, numbers.clone()), &mut out);
            }
            prop_assert!(of_queue(&out, gap_queue).iter().all(|numbers| numbers.end <= gap.start));
            (0..4).for_each(|queue| sequencer.drain(queue, &mut out));
            prop_assert_eq!(out.len(), items.len() - 1, "nothing is kept back");
            for queue in 0..4 {
                prop_assert!(of_queue(&out, queue).is_sorted_by_key(|numbers| numbers.start));
            }
        }
    }

    #[test]
    fn an_item_in_turn_does_not_wait() {
        let mut sequencer = Sequencer::new(1);
        let mut out = Vec::new();
        for start in 0..5 {
            sequencer.accept(0, start..start + 1, start, &mut out);
            assert_eq!(out.last(), Some(&start));
        }
    }

    #[test]
    fn an_item_no_longer_waited_for_passes_when_it_comes() {
        let mut sequencer = Sequencer::new(1);
        let mut out = Vec::new();
        sequencer.accept(0, 5..9, "early", &mut out);
        sequencer.drain(0, &mut out);
        sequencer.accept(0, 0..5, "late", &mut out);
        sequencer.accept(0, 9..10, "next", &mut out);
        assert_eq!((out, sequencer.next(0)), (vec!["early", "late", "next"], 10));
    }
}
