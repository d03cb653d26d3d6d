//! Packets: when they come, and in which receive queue.
//!
//! ```text
//!   Traffic: by queue, runs of packets at a constant rate          ┆┆┆┆┆┆      ┆ ┆ ┆ ┆ ┆         ┆┆┆┆
//!   Arrivals: a cursor over one of them                            └ run ┘     └── run ──┘       └ run
//! ```
//!
//! Rule: packets are described by runs, so that many of them cost as much as one.

use crate::{SECOND_NS, random::Random};

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
            now_ns += random.exponential(SECOND_NS as f64 / pps);
            Run { from_ns: now_ns, gap_ns: 0.0, packets: 1 }
        });
        Self { queues: vec![runs.collect()] }
    }

    /// Bursts for each queue whose mean rates are given, over this time. A burst has a length distributed as
    /// Pareto (shape 1.5, at most 4,000 packets) and comes at a tenth of the wire rate of 10 Gigabit
    /// Ethernet; between two bursts is a time at random that leads to the mean rate.
    pub fn bursty(pps: &[f64], mean_burst: f64, seconds: f64, seed: u64) -> Self {
        const SHAPE: f64 = 1.5;
        const MOST: f64 = 4_000.0;
        const PEAK_PPS: f64 = 1_488_095.0;
        let least = mean_burst * (SHAPE - 1.0) / SHAPE;
        let end_ns = seconds * SECOND_NS as f64;
        let queue = |(number, &pps): (usize, &f64)| {
            let mut random = Random::new(seed.wrapping_add(number as u64));
            let (mut now_ns, mut runs) = (0.0, Vec::new());
            if pps <= 0.0 {
                return runs;
            }
            loop {
                let packets = random.pareto(least, SHAPE).min(MOST).round().max(1.0);
                let lasts_ns = packets / PEAK_PPS * SECOND_NS as f64;
                // As much silence as makes the mean of this burst, and on average of all, the rate.
                let silence_ns = (packets / pps * SECOND_NS as f64 - lasts_ns).max(0.0);
                now_ns += random.exponential(silence_ns);
                if now_ns + lasts_ns > end_ns {
                    break;
                }
                let gap_ns = SECOND_NS as f64 / PEAK_PPS;
                runs.push(Run { from_ns: now_ns, gap_ns, packets: packets as u64 });
                now_ns += lasts_ns;
            }
            runs
        };
        Self { queues: pps.iter().enumerate().map(queue).collect() }
    }

    /// All packets.
    pub fn packets(&self) -> u64 {
        self.queues.iter().flatten().map(|run| run.packets).sum()
    }
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

    /// When the packet comes before which there are `ahead` others; `None` if there are not so many.
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

    /// Takes the packets that have come until this time, at most so many. Returns their number.
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
    fn bursts_have_the_mean_rate_of_each_queue_and_a_seed_repeats_them() {
        let rates = [80_000.0, 20_000.0, 0.0];
        let traffic = Traffic::bursty(&rates, 30.0, 32.0, 1);
        for (runs, rate) in traffic.queues.iter().zip(rates) {
            let packets: u64 = runs.iter().map(|run| run.packets).sum();
            assert!((packets as f64 - rate * 32.0).abs() <= 0.05 * rate * 32.0, "{packets} at {rate}");
            let ends = |run: &Run| run.from_ns + run.gap_ns * (run.packets - 1) as f64;
            assert!(runs.windows(2).all(|two| ends(&two[0]) < two[1].from_ns));
        }
        assert_eq!(traffic, Traffic::bursty(&rates, 30.0, 32.0, 1));
        assert_ne!(traffic, Traffic::bursty(&rates, 30.0, 32.0, 2));
    }
}
