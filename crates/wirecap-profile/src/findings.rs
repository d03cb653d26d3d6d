//! What the figures mean: which imbalance there is, in the paper's two kinds.
//!
//! ```text
//!   long-term    a queue has far more than an even share of all packets            ─► buddies help (T), another table
//!   short-term   a queue has far more packets in a window than it has on average   ─► a larger pool (R x M)
//!                and the other queues have not: else the traffic comes in bursts, and the queues are even
//! ```
//!
//! Rule: what chance would do to independent packets is no finding: an excess counts beyond five standard
//! deviations (Poisson), and a few packets are never a burst.

use serde::Serialize;

use crate::summary::{Peak, QueueSummary, Summary};

/// From this multiple of an even share on, a queue has too much in the long term: its core has half as much
/// again to do as with an even share.
const SKEWED: f64 = 1.5;
/// From this multiple of its mean on, a window of a queue is a burst.
const BURST: f64 = 3.0;
/// If the others have at least this part of a queue's burst, relative to their mean, it is a burst of all.
const TOGETHER: f64 = 0.5;
/// Standard deviations that chance does not reach.
const DEVIATIONS: f64 = 5.0;
/// An excess of up to this many packets never counts.
const FEW: f64 = 20.0;

/// How the whole time was.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum LongTerm {
    /// No packets, or a single queue: there is nothing to compare.
    NotComparable,
    /// No queue had far more than an even share.
    Even,
    /// A queue had far more than an even share.
    Skewed {
        /// The position of the queue with the most packets.
        queue: usize,
        /// Its share of all packets, 0 to 1.
        share: f64,
        /// The share as a multiple of an even one.
        factor: f64,
    },
}

/// A queue that had far more packets in a window than it has on average.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Burst {
    /// The position of the queue.
    pub queue: usize,
    /// Packets of its fullest window.
    pub packets: u64,
    /// When the window begins, in seconds since the profile does.
    pub seconds: f64,
    /// How many times the mean of the queue it is.
    pub to_mean: f64,
    /// Whether the other queues have a burst in the same window, which is no imbalance: relative to their
    /// mean, at least half as large.
    pub together: bool,
}

/// Which imbalance there is.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Findings {
    /// How the whole time was: long-term imbalance.
    pub long_term: LongTerm,
    /// Queues with bursts, the largest first. They are short-term imbalance unless all have them together.
    pub bursts: Vec<Burst>,
}

impl Findings {
    /// What is found in a summary.
    pub fn of(summary: &Summary) -> Self {
        let mean: f64 = summary.queues.iter().map(|queue| queue.mean_per_bin).sum();
        let found = |(queue, figures)| burst(queue, figures, mean);
        let mut bursts: Vec<_> = summary.queues.iter().enumerate().filter_map(found).collect();
        bursts.sort_by_key(|burst| std::cmp::Reverse(burst.packets));
        Self { long_term: long_term(summary), bursts }
    }
}

fn long_term(summary: &Summary) -> LongTerm {
    let queues = summary.queues.iter().enumerate();
    let Some((queue, most)) = queues.max_by_key(|(_, queue)| queue.packets) else {
        return LongTerm::NotComparable;
    };
    if summary.packets == 0 || summary.queues.len() < 2 {
        return LongTerm::NotComparable;
    }
    let even = summary.packets as f64 / summary.queues.len() as f64;
    let factor = summary.long_term_factor;
    if factor >= SKEWED && is_beyond_chance(most.packets, even) {
        LongTerm::Skewed { queue, share: most.share, factor }
    } else {
        LongTerm::Even
    }
}

/// The burst of a queue, given the packets of all queues per bin, on average.
fn burst(queue: usize, figures: &QueueSummary, mean_of_all: f64) -> Option<Burst> {
    let Peak { packets, of_all, seconds, to_mean } = figures.burst?;
    let mean = packets as f64 / to_mean;
    if to_mean < BURST || !is_beyond_chance(packets, mean) {
        return None;
    }
    // The window is the same for all.
    let mean_of_others = mean * (mean_of_all / figures.mean_per_bin - 1.0);
    // Without other queues, rounding may leave a little.
    let has_others = mean_of_others > mean * 1e-9;
    let together = has_others && (of_all - packets) as f64 >= TOGETHER * to_mean * mean_of_others;
    Some(Burst { queue, packets, seconds, to_mean, together })
}

/// Whether chance does not explain this number of packets, given the expected number.
fn is_beyond_chance(packets: u64, expected: f64) -> bool {
    packets as f64 - expected > f64::max(DEVIATIONS * expected.sqrt(), FEW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BinSettings, Profiler, Tally};

    /// Findings of bins of 10 ms, each with these packets by queue.
    fn findings(bins: impl IntoIterator<Item = Vec<u64>>) -> (Findings, Summary) {
        let mut tally = Tally::new(10_000_000);
        let mut queues = 0;
        for (bin, packets) in bins.into_iter().enumerate() {
            queues = packets.len();
            for (queue, &packets) in packets.iter().enumerate() {
                (0..packets).for_each(|_| tally.count(bin as u64 * 10_000_000, queue));
            }
        }
        let mut profiler = Profiler::new(queues, BinSettings::new(10_000_000, 100_000_000));
        profiler.add(&tally, |_| {});
        profiler.close(|_| {});
        let summary = profiler.summary();
        (Findings::of(&summary), summary)
    }

    #[test]
    fn even_traffic_has_no_imbalance() {
        let (found, summary) = findings((0..500).map(|_| vec![20, 21, 19]));
        assert_eq!(found, Findings { long_term: LongTerm::Even, bursts: vec![] });
        assert!((summary.seconds - 5.0).abs() < 1e-9 && summary.packets == 30_000);
        let queue = &summary.queues[1];
        assert_eq!((queue.packets, queue.mean_per_bin, queue.peak.unwrap().packets), (10_500, 21.0, 21));
        assert!((queue.share - 0.35).abs() < 1e-9 && (queue.burst.unwrap().to_mean - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_hot_queue_is_long_term_and_a_burst_is_short_term() {
        // As in the paper: queue 0 is hot, and 2,724 packets come to another within 110 ms at 3.86 s.
        let bins = (0..1_000).map(|bin| {
            let burst = if (386..397).contains(&bin) { 247 } else { 0 };
            vec![80, 20, 20, 20 + burst]
        });
        let (found, summary) = findings(bins);
        let LongTerm::Skewed { queue, share, factor } = found.long_term else { panic!("{found:?}") };
        assert_eq!(queue, 0);
        assert!((share - 0.56).abs() < 0.01 && (factor - 2.25).abs() < 0.01, "{share} {factor}");
        assert_eq!(found.bursts.len(), 1);
        let Burst { queue, packets, seconds, to_mean, together } = found.bursts[0];
        assert_eq!((queue, packets, together), (3, 10 * 267, false));
        assert!((seconds - 3.86).abs() < 1e-9 && to_mean > 10.0, "{seconds} {to_mean}");
        let worst = summary.worst_window.unwrap();
        assert_eq!((worst.queue, worst.packets), (3, 2_670));
    }

    #[test]
    fn traffic_that_comes_in_bursts_is_no_imbalance() {
        // A second of traffic in ten, in all queues at once; in the second case queue 1 has more of it.
        let bins = |of_1: u64| {
            (0..1_000).map(move |bin| {
                if bin < 100 {
                    vec![60, 20 + of_1 * u64::from(bin < 10), 20]
                } else {
                    vec![u64::from(bin == 999); 3]
                }
            })
        };
        let together = |of_1| {
            let bursts = findings(bins(of_1)).0.bursts;
            bursts.iter().map(|burst| (burst.queue, burst.together)).collect::<Vec<_>>()
        };
        assert_eq!(together(0), [(0, true), (1, true), (2, true)]);
        assert_eq!(together(100), [(1, false), (0, true), (2, true)]);
        // A single queue has no others.
        assert!(!findings((0..100).map(|bin| vec![10 + u64::from(bin == 7) * 900])).0.bursts[0].together);
    }

    #[test]
    fn few_packets_and_a_single_queue_are_no_imbalance() {
        let few = findings((0..1_000).map(|bin| vec![u64::from(bin == 500) * 15, u64::from(bin == 1)])).0;
        assert_eq!(few, Findings { long_term: LongTerm::Even, bursts: vec![] });
        for single in [findings([vec![1_000]]).0, findings([]).0, findings([vec![0, 0]]).0] {
            assert_eq!(single.long_term, LongTerm::NotComparable);
        }
    }
}
