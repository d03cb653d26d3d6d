//! How often a worker asks for next hops.
//!
//! Rule: a flood of packets to unknown next hops is no flood of requests, and takes a bounded amount of
//! memory.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hash},
    time::{Duration, Instant},
};

use super::{Hop, UnresolvedHop};

/// How often a worker asks for the same next hop.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// Next hops of which a worker remembers when it asked for them.
const REMEMBERED: usize = 1024;
/// Groups of sources, each of which may have a number of requests in a period.
const GROUPS: usize = 256;
const PERIOD: Duration = Duration::from_millis(10);
const REQUESTS_PER_PERIOD: u32 = 32;

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
    /// Random, so that no sender can guess hashes.
    hasher: RandomState,
    /// Which next hop was asked for, and when: the last of those that have the same place.
    asked: Box<[Option<(Hop, Instant)>]>,
    /// How many requests each group of sources had in the period that began then.
    groups: Box<[(Instant, u32)]>,
}

impl Restraint {
    pub(super) fn new() -> Self {
        let never = Instant::now();
        let (asked, groups) = (vec![None; REMEMBERED], vec![(never, 0); GROUPS]);
        Self { hasher: RandomState::new(), asked: asked.into(), groups: groups.into() }
    }

    fn place(&self, what: impl Hash, places: usize) -> usize {
        self.hasher.hash_one(what) as usize % places
    }

    pub(super) fn of(&mut self, pending: UnresolvedHop, now: Instant) -> Restriction {
        let asked = self.asked[self.place(pending.hop, REMEMBERED)];
        if asked.is_some_and(|(hop, then)| hop == pending.hop && now.duration_since(then) < ASK_AGAIN) {
            return Restriction::AskedAlready;
        }
        let place = self.place(pending.source, GROUPS);
        let (begun, requests) = &mut self.groups[place];
        if now.duration_since(*begun) >= PERIOD {
            (*begun, *requests) = (now, 0);
        }
        *requests += 1;
        if *requests > REQUESTS_PER_PERIOD { Restriction::TooMany } else { Restriction::Not }
    }

    pub(super) fn remember(&mut self, hop: Hop, now: Instant) {
        let place = self.place(hop, REMEMBERED);
        self.asked[place] = Some((hop, now));
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::neighbours::Source;

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
        let share = REQUESTS_PER_PERIOD as usize;
        assert_eq!(passed(&mut restraint, 1, now), share);
        assert_eq!(passed(&mut restraint, 1, now + PERIOD / 2), 0);
        assert_eq!(passed(&mut restraint, 1, now + PERIOD), share);
        // The flood uses up few of the many groups.
        let others =
            (100..200).filter(|&source| restraint.of(pending(7, source), now + PERIOD) == Restriction::Not);
        assert!(others.count() > 90);
    }
}
