//! What is measured over time, row by row.
//!
//! ```text
//!   rows:    …  r  r  r [r  r  r  r  r  r  r  r  r  r]      a window of the last bins slides over them
//!                        └ sums by queue ┘
//!                            ├─► burst of a queue: its largest sum
//!                            ├─► factor and Gini of the sums, weighted by the packets of the last row
//!                            └─► worst window: the largest excess of a queue over an even share
//! ```
//!
//! Weighted by packets, a figure is what the average packet finds: times with few packets, in which chance
//! makes any distribution uneven, weigh little. A window never reaches over a jump of the time.

use std::collections::VecDeque;

use crate::{
    bins::Row,
    imbalance::{factor, gini},
};

/// The bin or window in which a queue had the most packets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Largest {
    pub(crate) packets: u64,
    /// The packets of each queue in it; empty before the first packet.
    pub(crate) by_queue: Vec<u64>,
    /// The position at which it begins.
    pub(crate) begin: u64,
}

impl Largest {
    /// Takes the number of each queue, of a bin or a window, where it is larger.
    fn raise(all: &mut [Self], by_queue: &[u64], begin: u64) {
        for (largest, &packets) in all.iter_mut().zip(by_queue) {
            if packets > largest.packets {
                *largest = Self { packets, by_queue: by_queue.to_vec(), begin };
            }
        }
    }
}

/// The window in which a queue had the most packets above an even share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Excess {
    pub(crate) queue: usize,
    pub(crate) packets: u64,
    /// Of all queues.
    pub(crate) total: u64,
    /// The position at which the window begins.
    pub(crate) begin: u64,
}

/// Rows without a jump of the time between them.
#[derive(Debug, Clone, Copy, Default)]
struct Stretch {
    number: u64,
    /// The position of its first row.
    begin: u64,
}

#[derive(Debug)]
pub(crate) struct Measures {
    window_bins: u64,
    window: VecDeque<Row>,
    /// Of the rows in the window, by queue.
    sums: Vec<u64>,
    /// The largest bin of each queue.
    pub(crate) peaks: Vec<Largest>,
    /// The fullest window of each queue.
    pub(crate) bursts: Vec<Largest>,
    pub(crate) worst: Option<Excess>,
    /// Sums over all packets.
    packets: u64,
    factor: f64,
    gini: f64,
    first_bin: Option<u64>,
    /// From the first row to the last one.
    bins: u64,
    /// Where the last jump was.
    stretch: Stretch,
}

impl Measures {
    pub(crate) fn new(queues: usize, window_bins: u64) -> Self {
        Self {
            window_bins: window_bins.max(1),
            window: VecDeque::new(),
            sums: vec![0; queues],
            peaks: vec![Largest::default(); queues],
            bursts: vec![Largest::default(); queues],
            worst: None,
            packets: 0,
            factor: 0.0,
            gini: 0.0,
            first_bin: None,
            bins: 0,
            stretch: Stretch::default(),
        }
    }

    /// Adds a row, whose position is behind those of all rows before it.
    pub(crate) fn add(&mut self, row: Row) {
        let position = row.position;
        self.first_bin.get_or_insert(row.bin);
        self.bins = position + 1;
        if row.stretch != self.stretch.number {
            self.stretch = Stretch { number: row.stretch, begin: position };
            self.window.clear();
            self.sums.fill(0);
        }
        // A window that is longer than what came before begins with the first bin.
        let begin = (position + 1).saturating_sub(self.window_bins).max(self.stretch.begin);
        while let Some(first) = self.window.front().filter(|first| first.position < begin) {
            self.sums.iter_mut().zip(&first.packets).for_each(|(sum, packets)| *sum -= packets);
            self.window.pop_front();
        }
        self.sums.iter_mut().zip(&row.packets).for_each(|(sum, packets)| *sum += packets);
        Largest::raise(&mut self.peaks, &row.packets, position);
        Largest::raise(&mut self.bursts, &self.sums, begin);
        let packets: u64 = row.packets.iter().sum();
        self.packets += packets;
        self.factor += packets as f64 * factor(&self.sums);
        self.gini += packets as f64 * gini(&self.sums);
        self.look_for_worst(begin);
        self.window.push_back(row);
    }

    fn look_for_worst(&mut self, begin: u64) {
        let total: u64 = self.sums.iter().sum();
        let Some((queue, &packets)) = self.sums.iter().enumerate().max_by_key(|(_, sum)| **sum) else {
            return;
        };
        let queues = self.sums.len() as u64;
        // In units of packets times queues, to stay in integers.
        let excess = |packets: u64, total: u64| i128::from(packets) * i128::from(queues) - i128::from(total);
        let before = self.worst.map_or(0, |worst| excess(worst.packets, worst.total));
        if excess(packets, total) > before {
            self.worst = Some(Excess { queue, packets, total, begin });
        }
    }

    /// The first bin with packets, as a time.
    pub(crate) fn first_bin(&self) -> Option<u64> {
        self.first_bin
    }

    /// How many bins there are from the first to the last one with packets.
    pub(crate) fn bins(&self) -> u64 {
        self.bins
    }

    /// The factor in a window, as the average packet finds it.
    pub(crate) fn mean_factor(&self) -> f64 {
        self.factor / self.packets.max(1) as f64
    }

    /// The Gini coefficient in a window, as the average packet finds it.
    pub(crate) fn mean_gini(&self) -> f64 {
        self.gini / self.packets.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(position: u64, stretch: u64, packets: [u64; 2]) -> Row {
        Row { bin: 77 + position, position, stretch, packets: packets.into() }
    }

    fn measured(rows: &[(u64, [u64; 2])]) -> Measures {
        let mut measures = Measures::new(2, 3);
        rows.iter().for_each(|(position, packets)| measures.add(row(*position, 0, *packets)));
        measures
    }

    #[test]
    fn a_window_slides_over_bins_with_and_without_packets() {
        let measures = measured(&[(0, [4, 0]), (1, [4, 1]), (2, [4, 0]), (4, [9, 0]), (100, [1, 13])]);
        let of = |queue: usize| (measures.peaks[queue].clone(), measures.bursts[queue].clone());
        // Bins 2, 3 and 4.
        let largest = |queue: usize, by_queue: [u64; 2], begin| Largest {
            packets: by_queue[queue],
            by_queue: by_queue.into(),
            begin,
        };
        assert_eq!(of(0), (largest(0, [9, 0], 4), largest(0, [13, 0], 2)));
        assert_eq!(of(1), (largest(1, [1, 13], 100), largest(1, [1, 13], 98)));
        assert_eq!((measures.first_bin(), measures.bins()), (Some(77), 101));
        // 13 of 13 are 6.5 above an even share, more than 12 of 13 or of 14.
        assert_eq!(measures.worst, Some(Excess { queue: 0, packets: 13, total: 13, begin: 2 }));
    }

    #[test]
    fn no_window_reaches_over_a_jump() {
        let mut measures = Measures::new(2, 3);
        for (position, stretch) in [(0, 0), (1, 0), (2, 1), (3, 1)] {
            measures.add(row(position, stretch, [10, 10]));
        }
        assert_eq!(measures.bursts[0], Largest { packets: 20, by_queue: vec![20, 20], begin: 0 });
    }

    #[test]
    fn queues_that_take_turns_are_even_in_the_long_term_only() {
        let turns: Vec<_> =
            (0..100).map(|bin| (bin * 10, if bin % 2 == 0 { [50, 0] } else { [0, 50] })).collect();
        let measures = measured(&turns);
        assert!((measures.mean_factor() - 2.0).abs() < 1e-9 && (measures.mean_gini() - 0.5).abs() < 1e-9);
        let even = measured(&[(0, [5, 5]), (1, [5, 5])]);
        assert!((even.mean_factor() - 1.0).abs() < 1e-9 && even.worst.is_none());
    }
}
