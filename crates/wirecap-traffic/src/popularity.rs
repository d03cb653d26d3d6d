//! The choice of flows.

use crate::random::Random;

/// The distribution of frames over flows.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Popularity {
    /// The flows take turns.
    #[default]
    RoundRobin,
    /// Random, each equally likely.
    Uniform,
    /// The likelihood of flow k (from 1) is proportional to 1/k to this power: few large flows, many small
    /// ones.
    Zipf(f64),
}

/// Draws flows.
#[derive(Debug, Clone)]
pub(crate) enum FlowChooser {
    RoundRobin { flows: u32, next: u32 },
    Uniform { flows: u32 },
    Zipf(AliasTable),
}

impl FlowChooser {
    /// For flows 0 to `flows` - 1, at least one. Zipf takes 8 bytes of memory for each.
    pub(crate) fn new(flows: u32, popularity: Popularity) -> Self {
        match popularity {
            Popularity::RoundRobin => Self::RoundRobin { flows, next: 0 },
            Popularity::Uniform => Self::Uniform { flows },
            Popularity::Zipf(exponent) => {
                Self::Zipf(AliasTable::new((1..=flows).map(|rank| f64::from(rank).powf(-exponent)).collect()))
            }
        }
    }

    #[inline]
    pub(crate) fn next(&mut self, random: &mut Random) -> u32 {
        match self {
            Self::RoundRobin { flows, next } => {
                let flow = *next;
                *next = if flow + 1 == *flows { 0 } else { flow + 1 };
                flow
            }
            Self::Uniform { flows } => random.below(*flows),
            Self::Zipf(table) => table.draw(random),
        }
    }
}

/// Draws from any distribution in constant time (Walker 1977, Vose 1991).
#[derive(Debug, Clone)]
pub(crate) struct AliasTable {
    /// For each number, the part of 2^32 below which it is drawn itself, and the number that is drawn above.
    slots: Vec<(u32, u32)>,
}

impl AliasTable {
    fn new(mut weights: Vec<f64>) -> Self {
        let count = weights.len();
        let scale = count as f64 / weights.iter().sum::<f64>();
        weights.iter_mut().for_each(|weight| *weight *= scale);
        // Slots that rounding leaves over are drawn themselves.
        let mut slots: Vec<(u32, u32)> = (0..count as u32).map(|own| (u32::MAX, own)).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..count as u32).partition(|&index| weights[index as usize] < 1.0);
        while let (Some(&donor), Some(poor)) = (large.last(), small.pop()) {
            let share = weights[poor as usize];
            slots[poor as usize] = ((share * 2f64.powi(32)) as u32, donor);
            weights[donor as usize] -= 1.0 - share;
            if weights[donor as usize] < 1.0 {
                large.pop();
                small.push(donor);
            }
        }
        Self { slots }
    }

    #[inline]
    fn draw(&self, random: &mut Random) -> u32 {
        let slot = random.below(self.slots.len() as u32);
        let (own_below, other) = self.slots[slot as usize];
        if (random.next() as u32) < own_below { slot } else { other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u32 = 400_000;

    fn counts(flows: u32, popularity: Popularity) -> Vec<u32> {
        let (mut chooser, mut random) = (FlowChooser::new(flows, popularity), Random::new(5));
        let mut counts = vec![0; flows as usize];
        for _ in 0..DRAWS {
            counts[chooser.next(&mut random) as usize] += 1;
        }
        counts
    }

    #[test]
    fn flows_take_turns() {
        let (mut chooser, mut random) = (FlowChooser::new(3, Popularity::RoundRobin), Random::new(1));
        let flows: Vec<u32> = (0..7).map(|_| chooser.next(&mut random)).collect();
        assert_eq!(flows, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn uniform_is_even() {
        let counts = counts(40, Popularity::Uniform);
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn zipf_matches_its_formula() {
        for (flows, exponent) in [(1, 1.0), (10, 1.0), (1_000, 1.2), (100, 0.0)] {
            let counts = counts(flows, Popularity::Zipf(exponent));
            let total: f64 = (1..=flows).map(|rank| f64::from(rank).powf(-exponent)).sum();
            for rank in 1..=flows.min(10) {
                let expected = f64::from(DRAWS) * f64::from(rank).powf(-exponent) / total;
                let found = f64::from(counts[rank as usize - 1]);
                // Five times the standard deviation.
                assert!((found - expected).abs() <= 5.0 * expected.sqrt(), "{flows}, {exponent}: {counts:?}");
            }
        }
    }
}
