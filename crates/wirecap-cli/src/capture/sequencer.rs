//! Puts what several workers encoded back into the order of the receive queue.
//!
//! ```text
//!   numbers of one queue     0-9   10-19   20-29   30-39
//!   arrive                    1.      3.      2.      4.
//!   given on                  0-9  ·  10-19 20-29  ·  30-39        (20-29 waits for 10-19)
//! ```
//!
//! Rule: it never refuses anything, so that whoever feeds it never waits for a gap to close: the block
//! that closes it may be next in the same channel. What waits is little: a gap lasts as long as a worker
//! takes to encode one batch.

use std::{collections::BTreeMap, ops::Range};

/// Puts items of several lanes in order, each lane by itself.
#[derive(Debug)]
pub(crate) struct Sequencer<T> {
    lanes: Vec<Lane<T>>,
}

#[derive(Debug)]
struct Lane<T> {
    /// The number that comes next.
    next: u64,
    /// Items that came too early, by their first number, with the number after their last.
    early: BTreeMap<u64, (u64, T)>,
}

impl<T> Sequencer<T> {
    /// For so many lanes, each of which begins with number 0.
    pub(crate) fn new(lanes: usize) -> Self {
        Self { lanes: (0..lanes).map(|_| Lane { next: 0, early: BTreeMap::new() }).collect() }
    }

    /// Takes an item that covers `numbers` of a lane, and gives on all whose turn it is now.
    pub(crate) fn accept(&mut self, lane: usize, numbers: Range<u64>, item: T, ready: &mut impl Extend<T>) {
        let lane = &mut self.lanes[lane];
        if numbers.start > lane.next {
            lane.early.insert(numbers.start, (numbers.end, item));
            return;
        }
        debug_assert_eq!(numbers.start, lane.next, "a number comes once");
        ready.extend([item]);
        lane.next = numbers.end;
        while let Some(entry) = lane.early.first_entry() {
            if *entry.key() > lane.next {
                break;
            }
            let (end, item) = entry.remove();
            lane.next = end;
            ready.extend([item]);
        }
    }

    /// Gives on all that still wait, in order. At the end of a capture there is nothing, unless a worker
    /// panicked with a batch in its hands.
    pub(crate) fn drain(&mut self, ready: &mut impl Extend<T>) {
        for lane in &mut self.lanes {
            for (_, (end, item)) in std::mem::take(&mut lane.early) {
                lane.next = end;
                ready.extend([item]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Lengths of consecutive items in several lanes, and a shuffled order of arrival.
    fn arrivals() -> impl Strategy<Value = Vec<(usize, Range<u64>)>> {
        let lane = prop::collection::vec(1..20_u64, 0..30);
        prop::collection::vec(lane, 1..4)
            .prop_map(|lanes| {
                let mut items = Vec::new();
                for (lane, lengths) in lanes.into_iter().enumerate() {
                    let mut start = 0;
                    for length in lengths {
                        items.push((lane, start..start + length));
                        start += length;
                    }
                }
                items
            })
            .prop_shuffle()
    }

    fn of_lane(items: &[(usize, Range<u64>)], lane: usize) -> Vec<Range<u64>> {
        items.iter().filter(|item| item.0 == lane).map(|item| item.1.clone()).collect()
    }

    proptest! {
        #[test]
        fn whatever_the_order_of_arrival_each_lane_comes_out_in_order(items in arrivals()) {
            let mut sequencer = Sequencer::new(4);
            let mut out = Vec::new();
            for (lane, numbers) in &items {
                sequencer.accept(*lane, numbers.clone(), (*lane, numbers.clone()), &mut out);
            }
            for lane in 0..4 {
                let mut expected = of_lane(&items, lane);
                expected.sort_by_key(|numbers| numbers.start);
                prop_assert_eq!(of_lane(&out, lane), expected);
            }
        }

        #[test]
        fn what_comes_before_a_gap_is_given_on_at_once_and_the_rest_at_the_end(
            items in arrivals(), missing in any::<prop::sample::Index>(),
        ) {
            prop_assume!(!items.is_empty());
            let (gap_lane, gap) = items[missing.index(items.len())].clone();
            let mut sequencer = Sequencer::new(4);
            let mut out = Vec::new();
            for (lane, numbers) in items.iter().filter(|item| **item != (gap_lane, gap.clone())) {
                sequencer.accept(*lane, numbers.clone(), (*lane, numbers.clone()), &mut out);
            }
            prop_assert!(of_lane(&out, gap_lane).iter().all(|numbers| numbers.end <= gap.start));
            sequencer.drain(&mut out);
            prop_assert_eq!(out.len(), items.len() - 1, "nothing is kept back");
            for lane in 0..4 {
                prop_assert!(of_lane(&out, lane).is_sorted_by_key(|numbers| numbers.start));
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
}
