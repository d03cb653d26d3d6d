//! How often a worker asks for next hops.
//!
//! Rule: a flood of packets to unknown next hops is no flood of requests, and takes a bounded amount of
//! memory.

use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    time::{Duration, Instant},
};

use super::{Hop, UnresolvedHop};
use crate::shares::Shares;

/// How often a worker asks for the same next hop.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// Next hops of which a worker remembers when it asked for them.
const REMEMBERED: usize = 1024;
/// What each source may ask for in a period.
const REQUESTS_PER_PERIOD: u8 = 32;
const PERIOD: Duration = Duration::from_millis(10);

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
    shares: Shares,
}

impl Restraint {
    pub(super) fn new() -> Self {
        let (asked, shares) = (vec![None; REMEMBERED].into(), Shares::new(PERIOD, REQUESTS_PER_PERIOD));
        Self { hasher: RandomState::new(), asked, shares }
    }

    fn place(&self, hop: Hop) -> usize {
        self.hasher.hash_one(hop) as usize % REMEMBERED
    }

    pub(super) fn of(&mut self, pending: UnresolvedHop, now: Instant) -> Restriction {
        let asked = self.asked[self.place(pending.hop)];
        if asked.is_some_and(|(hop, then)| hop == pending.hop && now.duration_since(then) < ASK_AGAIN) {
            Restriction::AskedAlready
        } else if self.shares.take(pending.source, now) {
            Restriction::Not
        } else {
            Restriction::TooMany
        }
    }

    pub(super) fn remember(&mut self, hop: Hop, now: Instant) {
        let place = self.place(hop);
        self.asked[place] = Some((hop, now));
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::source::Source;

    fn pending(hop: u32, source: u32) -> UnresolvedHop {
        let hop = Hop { port: 1, address: Ipv4Addr::from_bits(hop).into() };
        UnresolvedHop { hop, source: Source::v4(0, source) }
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
    fn a_flood_from_one_source_is_limited() {
        let (mut restraint, now) = (Restraint::new(), Instant::now());
        let passed = (0..10_000).filter(|&hop| restraint.of(pending(hop, 1), now) == Restriction::Not);
        assert_eq!(passed.count(), usize::from(REQUESTS_PER_PERIOD));
        assert_eq!(restraint.of(pending(7, 1), now), Restriction::TooMany);
        assert_eq!(restraint.of(pending(7, 1), now + PERIOD), Restriction::Not);
    }
}
