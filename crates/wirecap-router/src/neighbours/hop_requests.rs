//! Next hops that the kernel is asking for: a limited number, shared among the sources of the packets that
//! want them.
//!
//! ```text
//!   oldest ─► hop of a scanner │ hop of a scanner │ hop of a client │ hop of a scanner ◄─ newest
//!                  └── goes first when there is no room, since the scanner has the most
//! ```
//!
//! Rule: while there is room, every hop is asked for. Then the oldest hop of a source with the most is
//! replaced: at once by a source that has fewer, by the others only after it had its chance. A hop that
//! answers does so in a millisecond; one that does not is asked for three seconds.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use super::Hop;
use crate::source::Source;

/// Most next hops that are asked for at once: a quarter of what the kernel keeps by default (gc_thresh3), so
/// that the host can still ask for its own.
pub(super) const MAX_ASKED: usize = 256;
/// How long a hop has to answer before another one of the same source replaces it.
pub(super) const CHANCE: Duration = Duration::from_millis(100);

/// A next hop that the kernel asks for.
#[derive(Debug, Clone, Copy)]
struct Request {
    hop: Hop,
    source: Source,
    /// The kernel had no entry before.
    is_new: bool,
    since: Instant,
}

/// The next hops that the kernel asks for.
#[derive(Debug, Default)]
pub(super) struct HopRequests {
    /// Oldest first. INVARIANT: at most [`MAX_ASKED`], each hop once.
    hops: Vec<Request>,
}

/// Whether there is room for another hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    Free,
    /// If this hop is given up.
    InsteadOf(Hop),
    None,
}

impl HopRequests {
    pub(super) fn contains(&self, hop: Hop) -> bool {
        self.hops.iter().any(|asked| asked.hop == hop)
    }

    /// Whether a hop that this source wants can be asked for.
    pub(super) fn room(&self, source: Source, now: Instant) -> Room {
        if self.hops.len() < MAX_ASKED {
            return Room::Free;
        }
        let mut counts = HashMap::new();
        self.hops.iter().for_each(|asked| *counts.entry(asked.source).or_insert(0_usize) += 1);
        let own = counts.get(&source).copied().unwrap_or(0);
        let most = counts.values().copied().max().unwrap_or(0);
        let oldest = self.hops.iter().find(|asked| counts[&asked.source] == most);
        let is_over_its_share = most > own + 1;
        let replaced = oldest.filter(|asked| is_over_its_share || now.duration_since(asked.since) >= CHANCE);
        replaced.map_or(Room::None, |asked| Room::InsteadOf(asked.hop))
    }

    /// Adds a hop that the kernel begins to ask for, by an entry that is new or was there. There has to be
    /// room.
    pub(super) fn insert(&mut self, hop: Hop, source: Source, is_new: bool, now: Instant) {
        debug_assert!(self.hops.len() < MAX_ASKED && !self.contains(hop));
        self.hops.push(Request { hop, source, is_new, since: now });
    }

    /// Whether the kernel's entry was made for this request.
    pub(super) fn has_made(&self, hop: Hop) -> bool {
        self.hops.iter().any(|asked| asked.hop == hop && asked.is_new)
    }

    /// Removes a hop. Returns whether the kernel was asking for it.
    pub(super) fn remove(&mut self, hop: Hop) -> bool {
        let at = self.hops.iter().position(|asked| asked.hop == hop);
        at.map(|at| self.hops.remove(at)).is_some()
    }

    /// Those that are asked for since then at least.
    pub(super) fn since(&self, then: Instant) -> impl Iterator<Item = Hop> {
        self.hops.iter().take_while(move |asked| asked.since <= then).map(|asked| asked.hop)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn hop(number: usize) -> Hop {
        Hop { port: 1, address: Ipv4Addr::from_bits(0x0a00_0000 + number as u32).into() }
    }

    fn source(number: u8) -> Source {
        Source::v4(0, [192, 0, 2, number])
    }

    /// Full of hops that `sources` sources want in turn, a millisecond apart; and the time of the next one.
    fn full(sources: usize) -> (HopRequests, Instant) {
        let (mut asked, mut now) = (HopRequests::default(), Instant::now());
        for number in 0..MAX_ASKED {
            let source = source((number % sources) as u8);
            assert_eq!(asked.room(source, now), Room::Free);
            asked.insert(hop(number), source, true, now);
            now += Duration::from_millis(1);
        }
        (asked, now)
    }

    #[test]
    fn a_source_with_fewer_hops_gets_its_share_at_once() {
        let (mut asked, now) = full(2);
        // A source with fewer hops replaces the oldest one each time, its chance over or not.
        for number in 0..MAX_ASKED / 3 {
            let Room::InsteadOf(replaced) = asked.room(source(9), now) else { panic!("{number}") };
            assert_eq!(replaced, hop(number), "the oldest hop of the sources with the most");
            assert!(asked.remove(replaced));
            asked.insert(hop(1_000 + number), source(9), true, now);
        }
        // A source with as many hops as the others waits until the oldest hop has had its chance.
        let young = full(3).0;
        let begun = young.hops[0].since;
        assert_eq!(young.room(source(1), begun + CHANCE / 2), Room::None);
    }

    #[test]
    fn the_oldest_hop_goes_after_its_chance() {
        let (asked, _) = full(1);
        let begun = asked.hops[0].since;
        assert_eq!(asked.room(source(0), begun + CHANCE / 2), Room::None);
        assert_eq!(asked.room(source(0), begun + CHANCE), Room::InsteadOf(hop(0)));
    }

    #[test]
    fn among_sources_with_one_hop_each_the_oldest_goes() {
        let (asked, _) = full(MAX_ASKED);
        let begun = asked.hops[0].since;
        let stranger = Source::v4(1, [192, 0, 2, 1]);
        assert_eq!(asked.room(stranger, begun), Room::None);
        assert_eq!(asked.room(stranger, begun + CHANCE), Room::InsteadOf(hop(0)));
    }

    #[test]
    fn hops_asked_for_since_a_time_are_found() {
        let (asked, _) = full(1);
        let then = asked.hops[2].since;
        assert_eq!(asked.since(then).collect::<Vec<_>>(), [hop(0), hop(1), hop(2)]);
    }
}
