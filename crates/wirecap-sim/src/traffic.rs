//! Packets: when they come, and in which receive queue.
//!
//! ```text
//!   Traffic: by queue, runs of packets at a constant rate          ┆┆┆┆┆┆      ┆ ┆ ┆ ┆ ┆         ┆┆┆┆
//!   Arrivals: a cursor over one of them                            └ run ┘     └── run ──┘       └ run
//! ```
//!
//! Rule: packets are described by runs, so that many of them cost as much as one.

use wirecap_traffic::Random;

use crate::{
    SECOND_NS,
    random::{exponential, pareto},
};

/// Packets of one queue, with the same time between each two.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// When the first one comes, in nanoseconds.
    pub from_ns: f64,
    /// The time between two of them.
    pub gap_ns: f64,
    /// How many they are; at least one.
    pub packets: u64,
}

/// The packets of all queues.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Traffic {
    /// By queue, in the order of time; runs of one queue do not overlap.
    pub queues: Vec<Vec<Run>>,
}

impl Traffic {
    /// A burst for a single queue.
    pub fn burst(packets: u64, pps: f64) -> Self {
        Self { queues: vec![vec![Run { from_ns: 0.0, gap_ns: SECOND_NS as f64 / pps, packets }]] }
    }

    /// Packets at a constant rate for each queue.
    pub fn steady(pps: &[f64], seconds: f64) -> Self {
        let run = |pps: &f64| {
            let packets = (pps * seconds).round() as u64;
            let run = Run { from_ns: 0.0, gap_ns: SECOND_NS as f64 / pps, packets };
            if packets > 0 { vec![run] } else { Vec::new() }
        };
        Self { queues: pps.iter().map(run).collect() }
    }

    /// Packets for a single queue that come at random: Poisson.
    pub fn poisson(pps: f64, packets: u64, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut now_ns = 0.0;
        let runs = (0..packets).map(|_| {
            now_ns += exponential(&mut random, SECOND_NS as f64 / pps);
            Run { from_ns: now_ns, gap_ns: 0.0, packets: 1 }
        });
        Self { queues: vec![runs.collect()] }
    }

    /// Bursts for each queue, at the mean rates of its phases. A burst has a length distributed as Pareto
    /// (shape 1.5, at most 4,000 packets) and comes at a tenth of the wire rate of 10 Gigabit Ethernet; the
    /// silence between two bursts is exponentially distributed.
    pub fn bursty(queues: &[Vec<Phase>], mean_burst: f64, seed: u64) -> Self {
        let least = least_burst(mean_burst);
        let gap_ns = SECOND_NS as f64 / PEAK_PPS;
        let queue = |(number, phases): (usize, &Vec<Phase>)| {
            let mut random = Random::new(stream(seed, number));
            let mut runs = Vec::new();
            for &Phase { from_s, until_s, pps } in phases {
                let until_ns = until_s * SECOND_NS as f64;
                let silence_ns = mean_burst * (SECOND_NS as f64 / pps - gap_ns);
                let mut now_ns = from_s * SECOND_NS as f64;
                loop {
                    now_ns += exponential(&mut random, silence_ns);
                    let packets = pareto(&mut random, least, SHAPE).min(LONGEST_BURST).round();
                    let lasts_ns = packets * gap_ns;
                    if now_ns + lasts_ns > until_ns {
                        break;
                    }
                    runs.push(Run { from_ns: now_ns, gap_ns, packets: packets as u64 });
                    now_ns += lasts_ns;
                }
            }
            runs
        };
        Self { queues: queues.iter().enumerate().map(queue).collect() }
    }

    /// All packets.
    pub fn packets(&self) -> u64 {
        self.queues.iter().flatten().map(|run| run.packets).sum()
    }
}

/// A time in which a queue has one mean rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Phase {
    /// From then on, in seconds.
    pub from_s: f64,
    /// Until then.
    pub until_s: f64,
    /// Packets per second; more than 0.
    pub pps: f64,
}

/// The shape of the distribution of lengths.
const SHAPE: f64 = 1.5;
/// The longest burst, in packets.
const LONGEST_BURST: f64 = 4_000.0;
/// The rate within a burst.
const PEAK_PPS: f64 = 1_488_095.0;

/// Where the random numbers of a queue begin. Each seed has numbers of its own: were it the sum of seed and
/// queue, the next seed would give the same bursts to other queues.
fn stream(seed: u64, queue: usize) -> u64 {
    /// More than the queues of any traffic; odd, so that no two seeds begin at the same number.
    const STREAMS: u64 = 257;
    seed.wrapping_sub(1).wrapping_mul(STREAMS).wrapping_add(1 + queue as u64)
}

/// The least length that gives bursts this mean, by bisection, with the limit on their length taken into
/// account.
fn least_burst(mean: f64) -> f64 {
    let mean_of = |least: f64| {
        let beyond = libm::pow(least, SHAPE) * libm::pow(LONGEST_BURST, 1.0 - SHAPE) / (SHAPE - 1.0);
        least * SHAPE / (SHAPE - 1.0) - beyond
    };
    let (mut low, mut high) = (0.0, mean);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if mean_of(middle) < mean { low = middle } else { high = middle }
    }
    low.max(1.0)
}

/// A cursor over the packets of a queue.
#[derive(Debug)]
pub struct Arrivals<'t> {
    runs: &'t [Run],
    /// Packets of the first run that have come.
    taken: u64,
}

impl<'t> Arrivals<'t> {
    /// Before the first packet.
    pub fn new(runs: &'t [Run]) -> Self {
        Self { runs, taken: 0 }
    }

    /// When the packet behind `ahead` others comes; `None` if there is no such packet.
    pub fn time_ns(&self, mut ahead: u64) -> Option<f64> {
        let mut taken = self.taken;
        for run in self.runs {
            let left = run.packets - taken;
            if ahead < left {
                return Some(run.from_ns + (taken + ahead) as f64 * run.gap_ns);
            }
            ahead -= left;
            taken = 0;
        }
        None
    }

    /// Takes the packets that have come until `until_ns`, at most `most`. Returns their number.
    pub fn take(&mut self, until_ns: f64, most: u64) -> u64 {
        let mut sum = 0;
        while let Some(run) = self.runs.first() {
            let left = run.packets - self.taken;
            let first_ns = run.from_ns + self.taken as f64 * run.gap_ns;
            if first_ns > until_ns || sum == most {
                break;
            }
            let come = if run.gap_ns > 0.0 {
                (((until_ns - first_ns) / run.gap_ns) as u64).saturating_add(1)
            } else {
                left
            };
            let taken = come.min(left).min(most - sum);
            sum += taken;
            self.taken += taken;
            if self.taken == run.packets {
                (self.runs, self.taken) = (&self.runs[1..], 0);
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_taken_in_order_and_once() {
        let runs = [
            Run { from_ns: 10.0, gap_ns: 5.0, packets: 3 },
            Run { from_ns: 100.0, gap_ns: 0.0, packets: 1 },
            Run { from_ns: 101.0, gap_ns: 1.0, packets: 10 },
        ];
        let mut arrivals = Arrivals::new(&runs);
        let times: Vec<_> = (0..5).map(|ahead| arrivals.time_ns(ahead)).collect();
        assert_eq!(times, [Some(10.0), Some(15.0), Some(20.0), Some(100.0), Some(101.0)]);
        assert_eq!((arrivals.time_ns(13), arrivals.time_ns(14)), (Some(110.0), None));
        assert_eq!((arrivals.take(9.0, 99), arrivals.take(15.0, 99), arrivals.take(15.0, 99)), (0, 2, 0));
        assert_eq!((arrivals.take(105.0, 3), arrivals.time_ns(0)), (3, Some(102.0)));
        assert_eq!((arrivals.take(f64::MAX, 99), arrivals.time_ns(0)), (9, None));
    }

    #[test]
    fn bursts_have_their_mean_rates_and_lengths_and_a_seed_repeats_them() {
        let phase = |from_s, until_s, pps| Phase { from_s, until_s, pps };
        let queues =
            [vec![phase(0.0, 10.0, 14_000.0), phase(10.0, 60.0, 80_000.0)], vec![phase(1.0, 60.0, 20_000.0)]];
        let traffic = Traffic::bursty(&queues, 60.0, 1);
        for (runs, phases) in traffic.queues.iter().zip(&queues) {
            for phase in phases {
                let is_in = |run: &&Run| (phase.from_s..phase.until_s).contains(&(run.from_ns / 1e9));
                let packets: u64 = runs.iter().filter(is_in).map(|run| run.packets).sum();
                let expected = phase.pps * (phase.until_s - phase.from_s);
                // Lengths vary much: five standard deviations of the sum of the bursts.
                let error = 5.0 * 200.0 * (expected / 60.0).sqrt();
                assert!((packets as f64 - expected).abs() < error, "{packets} {expected} {error}");
            }
            let end = |run: &Run| run.from_ns + run.gap_ns * (run.packets - 1) as f64;
            assert!(runs.windows(2).all(|two| end(&two[0]) < two[1].from_ns));
        }
        let all = traffic.queues.concat();
        let mean = traffic.packets() as f64 / all.len() as f64;
        assert!((mean - 60.0).abs() < 3.0, "{mean}");
        assert_eq!(all.iter().map(|run| run.packets).max(), Some(4_000));
        assert_eq!(traffic, Traffic::bursty(&queues, 60.0, 1));
    }

    #[test]
    fn no_two_seeds_have_bursts_in_common() {
        let queues = vec![vec![Phase { from_s: 0.0, until_s: 1.0, pps: 20_000.0 }]; 6];
        let of = |seed| Traffic::bursty(&queues, 60.0, seed).queues;
        let all: Vec<_> = (0..20).chain(u64::MAX - 2..=u64::MAX).flat_map(of).collect();
        for (number, runs) in all.iter().enumerate() {
            assert!(!all[..number].contains(runs), "queue {} of seed {}", number % 6, number / 6);
        }
    }
}
