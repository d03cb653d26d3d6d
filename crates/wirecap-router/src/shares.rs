//! How much of something scarce each source of packets may have.
//!
//! Rules: whatever the number of sources, it takes the same memory. And a flood from one source takes the
//! shares of few others, and of different ones in each period. One from very many sources takes all.

use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    time::{Duration, Instant},
};

use crate::source::Source;

/// Groups of sources, each of which has one share. Sources that are in one group in a period are in different
/// ones in the next.
const GROUPS: usize = 256;

/// What each source may have in a period.
#[derive(Debug, Clone)]
pub(crate) struct Shares {
    period: Duration,
    share: u8,
    begun: Instant,
    /// Random, so that no sender can guess groups, and new in each period.
    hasher: RandomState,
    /// What each group had in this period.
    taken: [u8; GROUPS],
}

impl Shares {
    /// Each source may have `share` in each `period`.
    pub(crate) fn new(period: Duration, share: u8) -> Self {
        Self { period, share, begun: Instant::now(), hasher: RandomState::new(), taken: [0; GROUPS] }
    }

    /// Whether something is left of the source's share.
    pub(crate) fn is_left(&mut self, source: Source, now: Instant) -> bool {
        let share = self.share;
        *self.taken(source, now) < share
    }

    /// Takes one, if something is left of the source's share.
    pub(crate) fn take(&mut self, source: Source, now: Instant) -> bool {
        let share = self.share;
        let taken = self.taken(source, now);
        let is_left = *taken < share;
        *taken += u8::from(is_left);
        is_left
    }

    fn taken(&mut self, source: Source, now: Instant) -> &mut u8 {
        if now.duration_since(self.begun) >= self.period {
            (self.begun, self.hasher, self.taken) = (now, RandomState::new(), [0; GROUPS]);
        }
        &mut self.taken[self.hasher.hash_one(source) as usize % GROUPS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_millis(10);
    const SHARE: u8 = 32;

    fn taken(shares: &mut Shares, source: u32, tries: usize, now: Instant) -> usize {
        (0..tries).filter(|_| shares.take(Source::v4(0, source), now)).count()
    }

    #[test]
    fn a_flood_from_one_source_is_limited_and_leaves_others_their_share() {
        let mut shares = Shares::new(PERIOD, SHARE);
        let begun = shares.begun;
        assert_eq!(taken(&mut shares, 1, 10_000, begun), usize::from(SHARE));
        assert_eq!(taken(&mut shares, 1, 10_000, begun + PERIOD / 2), 0);
        assert_eq!(taken(&mut shares, 1, 10_000, begun + 2 * PERIOD), usize::from(SHARE));
        // The flood uses up one of the many groups.
        let others = (100..200).filter(|&source| taken(&mut shares, source, 1, begun + 2 * PERIOD) == 1);
        assert!(others.count() > 90);
    }

    #[test]
    fn a_source_that_shares_a_group_with_a_flood_gets_its_share_in_a_later_period() {
        let (mut shares, mut now) = (Shares::new(PERIOD, SHARE), Instant::now());
        let mut refused: Vec<_> = (2..5_000).collect();
        // One in 256 is refused each time.
        for period in 0..5 {
            now += 2 * PERIOD;
            assert_eq!(taken(&mut shares, 1, 100, now), usize::from(SHARE));
            refused.retain(|&source| taken(&mut shares, source, 1, now) == 0);
            assert_ne!((period, refused.len()), (0, 0), "none shares a group with the flood");
        }
        assert_eq!(refused, Vec::<u32>::new());
    }
}
