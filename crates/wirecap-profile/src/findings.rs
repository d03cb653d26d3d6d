//! What the figures mean: which imbalance there is, in the paper's two kinds.
//!
//! ```text
//!   long-term    a queue has far more than an even share of all packets            ─► buddies help (T), another table
//!   short-term   a queue has far more packets in a window than it has on average,  ─► a larger pool (R x M)
//!                and most other queues have not: else it is the traffic that comes in bursts
//! ```
//!
//! Rule: what chance does to independent packets (Poisson) is no finding. An excess counts if it is more than
//! five standard deviations, and if chance produces one, in any window, in at most one of a thousand such
//! profiles. A few packets are never a burst.

use serde::Serialize;

use crate::summary::{Peak, QueueSummary, Summary};

/// From this multiple of an even share on, a queue has too much in the long term: its core has half as much
/// again to do as with an even share.
const SKEWED: f64 = 1.5;
/// From this multiple of its mean on, a window of a queue is a burst.
const BURST: f64 = 3.0;
/// Another queue has the burst as well if it has at least this part of it, relative to its own mean.
const ALONG: f64 = 0.5;
/// If more than one packet in this number is in no bin, bins say nothing of bursts.
const MANY_IN_NO_BIN: u64 = 10;
/// Standard deviations that chance does not reach.
const DEVIATIONS: f64 = 5.0;
/// Chance alone produces an excess in at most one of this number of profiles.
const PROFILES: f64 = 1_000.0;
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

/// How windows were.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ShortTerm {
    /// No packets: there is nothing to compare.
    NoPackets,
    /// Too many packets are in no bin (more than a tenth), or no bin is closed yet (`first_ns` is null).
    Unknown {
        /// How many are in no bin.
        in_no_bin: u64,
    },
    /// No queue had a burst without most of the others.
    Even,
    /// A queue had a burst that most of the others had not, or that no other queue has enough packets to be
    /// compared with.
    Uneven,
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
    /// The other queues that can be compared: those in which such a burst would be beyond chance.
    pub others: usize,
    /// How many of them have a burst in the same window: relative to their mean, at least half as large.
    pub along: usize,
}

impl Burst {
    /// Whether most of the other queues have it as well, so that it is no imbalance.
    pub fn is_of_most(&self) -> bool {
        2 * self.along > self.others
    }
}

/// Which imbalance there is.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Findings {
    /// How the whole time was: long-term imbalance.
    pub long_term: LongTerm,
    /// Whether there was short-term imbalance.
    pub short_term: ShortTerm,
    /// Queues with bursts, the largest first; none if bursts are unknown.
    pub bursts: Vec<Burst>,
}

impl Findings {
    /// What is found in a summary.
    pub fn of(summary: &Summary) -> Self {
        let in_no_bin = summary.queues.iter().map(|queue| queue.late + queue.ahead).sum::<u64>();
        let long_term = long_term(summary);
        let is_too_early = summary.packets > 0 && !summary.has_closed_bins();
        if is_too_early || in_no_bin > summary.packets / MANY_IN_NO_BIN {
            return Self { long_term, short_term: ShortTerm::Unknown { in_no_bin }, bursts: vec![] };
        }
        let mut bursts: Vec<_> =
            (0..summary.queues.len()).filter_map(|queue| burst(queue, summary)).collect();
        bursts.sort_by_key(|burst| std::cmp::Reverse(burst.packets));
        let short_term = match () {
            () if summary.packets == 0 => ShortTerm::NoPackets,
            () if bursts.iter().all(Burst::is_of_most) => ShortTerm::Even,
            () => ShortTerm::Uneven,
        };
        Self { long_term, short_term, bursts }
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
    if factor >= SKEWED && is_beyond_chance(most.packets, even, summary.queues.len() as f64) {
        LongTerm::Skewed { queue, share: most.share, factor }
    } else {
        LongTerm::Even
    }
}

/// The burst of a queue, if its fullest window is one.
fn burst(queue: usize, summary: &Summary) -> Option<Burst> {
    let queues = &summary.queues;
    // A window begins with each bin of each queue.
    let windows = summary.seconds * 1e9 / summary.bin_ns as f64 * queues.len() as f64;
    let QueueSummary { burst, beside_burst, mean_per_bin, .. } = &queues[queue];
    let Peak { packets, seconds, to_mean, .. } = (*burst)?;
    let mean = packets as f64 / to_mean;
    if to_mean < BURST || !is_beyond_chance(packets, mean, windows) {
        return None;
    }
    let (mut others, mut along) = (0, 0);
    for (other, (figures, &beside)) in queues.iter().zip(beside_burst).enumerate() {
        // The window is the same for all.
        let mean_of_other = mean * figures.mean_per_bin / mean_per_bin;
        let such_a_burst = to_mean * mean_of_other;
        if other != queue && is_beyond_chance(such_a_burst.round() as u64, mean_of_other, windows) {
            others += 1;
            along += usize::from(beside as f64 >= ALONG * such_a_burst);
        }
    }
    Some(Burst { queue, packets, seconds, to_mean, others, along })
}

/// Whether chance does not explain this number of packets, if it is the greatest of `counts` numbers that are
/// all `expected` on average.
fn is_beyond_chance(packets: u64, expected: f64, counts: f64) -> bool {
    let packets = packets as f64;
    let excess = packets - expected;
    // Chernoff's bound: a Poisson number is that large with a probability of e to the power of minus this.
    let rarity = packets * (packets / expected).ln() - excess;
    excess > f64::max(DEVIATIONS * expected.sqrt(), FEW) && rarity > (counts.max(1.0) * PROFILES).ln()
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
        assert_eq!(
            found,
            Findings { long_term: LongTerm::Even, short_term: ShortTerm::Even, bursts: vec![] }
        );
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
        let Burst { queue, packets, seconds, to_mean, others, along } = found.bursts[0];
        assert_eq!((queue, packets, others, along), (3, 10 * 267, 3, 0));
        assert_eq!(found.short_term, ShortTerm::Uneven);
        assert!((seconds - 3.86).abs() < 1e-9 && to_mean > 10.0, "{seconds} {to_mean}");
        let worst = summary.worst_window.unwrap();
        assert_eq!((worst.queue, worst.packets), (3, 2_670));
    }

    /// The short term, and of each burst its queue, the queues to compare and those that have it as well.
    fn bursts(bins: impl IntoIterator<Item = Vec<u64>>) -> (ShortTerm, Vec<[usize; 3]>) {
        let found = findings(bins).0;
        let bursts = found.bursts.iter().map(|burst| [burst.queue, burst.others, burst.along]);
        (found.short_term, bursts.collect())
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
        assert_eq!(bursts(bins(0)), (ShortTerm::Even, vec![[0, 2, 2], [1, 2, 2], [2, 2, 2]]));
        assert_eq!(bursts(bins(100)), (ShortTerm::Uneven, vec![[1, 2, 0], [0, 2, 2], [2, 2, 2]]));
    }

    #[test]
    fn small_bursts_of_all_queues_are_bursts_of_the_traffic() {
        let bins = (0..1_000).map(|bin| vec![if (500..510).contains(&bin) { 13 } else { 4 }; 4]);
        let (short_term, bursts) = bursts(bins);
        assert_eq!((short_term, bursts.len()), (ShortTerm::Even, 4));
        assert!(bursts.iter().all(|burst| burst[1..] == [3, 3]), "{bursts:?}");
    }

    #[test]
    fn a_burst_of_few_of_the_queues_is_imbalance() {
        // Two of four queues have it, and most of the packets anyway.
        let two = (0..1_000).map(|bin| {
            let burst = 360 * u64::from((500..510).contains(&bin));
            vec![40 + burst, 40 + burst, 10, 10]
        });
        assert_eq!(bursts(two), (ShortTerm::Uneven, vec![[0, 3, 1], [1, 3, 1]]));
        // A queue with hardly a packet, which happens to come with the burst, says nothing.
        let hardly = (0..1_000).map(|bin| {
            let is_burst = (500..510).contains(&bin);
            vec![40 + 360 * u64::from(is_burst), u64::from(bin == 505)]
        });
        assert_eq!(bursts(hardly), (ShortTerm::Uneven, vec![[0, 0, 0]]));
        // A single queue has no others.
        let single = (0..100).map(|bin| vec![10 + u64::from(bin == 7) * 900]);
        assert_eq!(bursts(single), (ShortTerm::Uneven, vec![[0, 0, 0]]));
    }

    #[test]
    fn with_many_packets_in_no_bin_bursts_are_unknown() {
        let (_, mut summary) = findings((0..1_000).map(|bin| vec![10 + u64::from(bin == 7) * 900]));
        summary.queues[0].late = summary.packets / MANY_IN_NO_BIN;
        assert_eq!(Findings::of(&summary).short_term, ShortTerm::Uneven);
        summary.queues[0].ahead = 1;
        let found = Findings::of(&summary);
        assert_eq!(found.short_term, ShortTerm::Unknown { in_no_bin: 1_091 });
        assert!(found.bursts.is_empty());
    }

    #[test]
    fn before_a_bin_is_closed_bursts_are_unknown() {
        let mut profiler = Profiler::new(2, BinSettings::new(10_000_000, 100_000_000));
        let mut add = |ms: u64, packets: u64| {
            let mut tally = Tally::new(10_000_000);
            (0..packets).for_each(|_| tally.count(ms * 1_000_000, 0));
            profiler.add(&tally, |_| {});
            let summary = profiler.summary();
            (Findings::of(&summary).short_term, summary.in_open_bins)
        };
        assert_eq!(add(0, 0), (ShortTerm::NoPackets, 0));
        assert_eq!(add(0, 50), (ShortTerm::Unknown { in_no_bin: 0 }, 50));
        assert_eq!(add(1_000, 30), (ShortTerm::Unknown { in_no_bin: 0 }, 80));
        assert_eq!(add(1_010, 20), (ShortTerm::Even, 50));
        profiler.close(|_| {});
        assert_eq!(profiler.summary().in_open_bins, 0);
    }

    /// Independent packets, ten in each window on average: one window in 12 million has 31 or more.
    #[test]
    fn in_a_day_of_independent_packets_no_window_is_a_burst() {
        for (bins, is_burst) in [(100, true), (8_640_000, false)] {
            let windows = bins as f64 * 4.0;
            assert_eq!(is_beyond_chance(31, 10.0, windows), is_burst, "{bins}");
            assert!(is_beyond_chance(60, 10.0, windows), "{bins}");
        }
        assert!(is_beyond_chance(21, 0.0, 1.0) && !is_beyond_chance(20, 0.0, 1.0));
    }

    #[test]
    fn few_packets_and_a_single_queue_are_no_imbalance() {
        let few = findings((0..1_000).map(|bin| vec![u64::from(bin == 500) * 15, u64::from(bin == 1)])).0;
        assert_eq!(few, Findings { long_term: LongTerm::Even, short_term: ShortTerm::Even, bursts: vec![] });
        for single in [findings([vec![1_000]]).0, findings([]).0, findings([vec![0, 0]]).0] {
            assert_eq!(single.long_term, LongTerm::NotComparable);
        }
    }
}
