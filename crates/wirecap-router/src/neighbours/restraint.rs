//! How often a worker asks for next hops.
//!
//! Rules: a flood of packets to unknown next hops is no flood of requests, and takes a bounded amount of
//! memory. And no source loses its share to a flood for longer than a period.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hash},
    time::{Duration, Instant},
};

use super::{Hop, Source, UnresolvedHop};

/// How often a worker asks for the same next hop.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// Next hops of which a worker remembers when it asked for them.
const REMEMBERED: usize = 1024;
/// Groups of sources, each of which may have a number of requests in a period. Sources that share a group in
/// one period are in different ones in the next.
const GROUPS: usize = 256;
const PERIOD: Duration = Duration::from_millis(10);
const REQUESTS_PER_PERIOD: u8 = 32;

/// Whether a request is one too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Restriction {
    Not,
    AskedAlready,
    TooMany,
}

/// Keeps a worker from asking too much.
#[derive(Debug, Clone)]
pub(super) struct Restraint {
    /// Random, so that no sender can guess hashes. Of next hops.
    hasher: RandomState,
    /// Which next hop was asked for, and when: the last of those that have the same place.
    asked: Box<[Option<(Hop, Instant)>]>,
    period: Period,
}

/// How many requests the sources have had lately.
#[derive(Debug, Clone)]
struct Period {
    begun: Instant,
    hasher: RandomState,
    /// By group.
    requests: [u8; GROUPS],
}

impl Restraint {
    pub(super) fn new() -> Self {
        let asked = vec![None; REMEMBERED].into();
        Self { hasher: RandomState::new(), asked, period: Period::new(Instant::now()) }
    }

    pub(super) fn of(&mut self, pending: UnresolvedHop, now: Instant) -> Restriction {
        let asked = self.asked[place(&self.hasher, pending.hop, REMEMBERED)];
        if asked.is_some_and(|(hop, then)| hop == pending.hop && now.duration_since(then) < ASK_AGAIN) {
            return Restriction::AskedAlready;
        }
        if now.duration_since(self.period.begun) >= PERIOD {
            self.period = Period::new(now);
        }
        if self.period.allows(pending.source) { Restriction::Not } else { Restriction::TooMany }
    }

    pub(super) fn remember(&mut self, hop: Hop, now: Instant) {
        self.asked[place(&self.hasher, hop, REMEMBERED)] = Some((hop, now));
    }
}

impl Period {
    fn new(begun: Instant) -> Self {
        Self { begun, hasher: RandomState::new(), requests: [0; GROUPS] }
    }

    /// Counts a request, unless it is one too many.
    fn allows(&mut self, source: Source) -> bool {
        let requests = &mut self.requests[place(&self.hasher, source, GROUPS)];
        let is_within = *requests < REQUESTS_PER_PERIOD;
        *requests += u8::from(is_within);
        is_within
    }
}

fn place(hasher: &RandomState, what: impl Hash, places: usize) -> usize {
    hasher.hash_one(what) as usize % places
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn pending(hop: u32, source: u32) -> UnresolvedHop {
        let hop = Hop { port: 1, address: Ipv4Addr::from_bits(hop).into() };
        UnresolvedHop { hop, source: Source::new(0, Ipv4Addr::from_bits(source).into()) }
    }

    #[test]
    fn a_next_hop_is_asked_for_again_after_a_while() {
        let (mut restraint, now) = (Restraint::new(), Instant::now());
        assert_eq!(restraint.of(pending(1, 1), now), Restriction::Not);
        restraint.remember(pending(1, 1).hop, now);
        assert_eq!(restraint.of(pending(1, 2), now + ASK_AGAIN / 2), Restriction::AskedAlready);
        assert_eq!(restraint.of(pending(1, 1), now + ASK_AGAIN), Restriction::Not);
    }

    #[test]
    fn a_flood_from_one_source_is_limited_and_leaves_others_their_share() {
        let (mut restraint, now) = (Restraint::new(), Instant::now());
        let passed = |restraint: &mut Restraint, source, now| {
            (0..10_000).filter(|&hop| restraint.of(pending(hop, source), now) == Restriction::Not).count()
        };
        let share: usize = REQUESTS_PER_PERIOD.into();
        assert_eq!(passed(&mut restraint, 1, now), share);
        assert_eq!(passed(&mut restraint, 1, now + PERIOD / 2), 0);
        assert_eq!(passed(&mut restraint, 1, now + PERIOD), share);
        // The flood uses up few of the many groups.
        let others =
            (100..200).filter(|&source| restraint.of(pending(7, source), now + PERIOD) == Restriction::Not);
        assert!(others.count() > 90);
    }
    #[test]
    fn a_source_that_shares_a_group_with_a_flood_gets_its_share_in_a_later_period() {
        let (mut restraint, mut now) = (Restraint::new(), Instant::now());
        let mut refused: Vec<_> = (2..5_000).collect();
        // One in 256 is refused each time.
        for period in 0..5 {
            now += PERIOD;
            let flood = (0..100).map(|hop| restraint.of(pending(hop, 1), now));
            assert_eq!(flood.filter(|&restriction| restriction == Restriction::TooMany).count(), 68);
            refused.retain(|&source| restraint.of(pending(1_000, source), now) == Restriction::TooMany);
            assert_ne!((period, refused.len()), (0, 0), "none shares a group with the flood");
        }
        assert_eq!(refused, Vec::<u32>::new());
    }
}
