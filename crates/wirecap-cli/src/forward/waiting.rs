//! Packets of one worker that wait for the Ethernet address of their next hop.
//!
//! ```text
//!   packet ── room? ──► oldest │ … │ newest ── its next hop is known ──► forwarded
//!      │                   │                └─ silent, or waited for too long ──► dropped: no_neighbour
//!      └── no room: dropped, or the oldest in its place: waiting_full
//! ```
//!
//! Rules: each packet keeps its own age. And as long as there is room, no group of sources holds more of it than is left, so
//! that one that sends to addresses that no host has leaves room for the packets of others.

use std::{
    collections::{VecDeque, hash_map::RandomState},
    hash::BuildHasher,
    time::{Duration, Instant},
};

use super::neighbours::{Found, Hop, Source};

/// Packets that may wait.
const MAX_WAITING: usize = 256;
/// How long one may: the kernel asks three times, a second apart.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long one waits at least before another takes its place: an answer comes within milliseconds.
const CHANCE: Duration = Duration::from_millis(100);
/// Groups of sources. Those in the same group share.
const GROUPS: usize = 256;

/// A packet that waits.
#[derive(Debug)]
pub(super) struct Waiting<P> {
    pub(super) packet: P,
    /// By which port and receive queue it came in.
    pub(super) from: usize,
    pub(super) queue: u16,
    hop: Hop,
    source: Source,
    since: Instant,
}

/// Packets that wait, the oldest first.
#[derive(Debug)]
pub(super) struct WaitingRoom<P> {
    packets: VecDeque<Waiting<P>>,
    /// How many are of each group of sources.
    of_group: [u16; GROUPS],
    /// Groups are not to be guessed by who sends packets.
    hasher: RandomState,
}

/// Whether one more may wait.
#[derive(Debug)]
pub(super) enum Admission<P> {
    Yes,
    /// Instead of this one.
    InsteadOf(Waiting<P>),
    No,
}

/// What becomes of a packet that waits no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Its next hop is known.
    Known,
    /// Its next hop does not answer.
    Lost,
}

impl<P> WaitingRoom<P> {
    pub(super) fn new() -> Self {
        Self { packets: VecDeque::new(), of_group: [0; GROUPS], hasher: RandomState::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Whether a packet of this source may wait. With yes, or instead of another, it has to be put in.
    pub(super) fn admit(&mut self, source: Source, now: Instant) -> Admission<P> {
        let room = MAX_WAITING - self.packets.len();
        let is_oldest_late =
            || self.packets.front().is_some_and(|oldest| now.duration_since(oldest.since) >= CHANCE);
        if room > 0 {
            let own = usize::from(self.of_group[self.group(source)]);
            return if own <= room { Admission::Yes } else { Admission::No };
        }
        let replaced = if is_oldest_late() { self.packets.pop_front() } else { None };
        replaced.map_or(Admission::No, |oldest| {
            self.leave(oldest.source);
            Admission::InsteadOf(oldest)
        })
    }

    /// Puts in a packet that came in by a port and receive queue.
    pub(super) fn put(
        &mut self,
        packet: P,
        (from, queue): (usize, u16),
        (hop, source): (Hop, Source),
        now: Instant,
    ) {
        debug_assert!(self.packets.len() < MAX_WAITING);
        let group = self.group(source);
        self.of_group[group] += 1;
        self.packets.push_back(Waiting { packet, from, queue, hop, source, since: now });
    }

    /// Whether one has waited for too long.
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        self.packets.front().is_some_and(|oldest| now.duration_since(oldest.since) >= PATIENCE)
    }

    /// Takes out those that wait no longer, the oldest first, by what is known of their next hops.
    pub(super) fn settle(
        &mut self,
        now: Instant,
        mut look_up: impl FnMut(Hop, Source) -> Found,
    ) -> Vec<(Waiting<P>, Outcome)> {
        let mut settled = Vec::new();
        for _ in 0..self.packets.len() {
            let Some(waiting) = self.packets.pop_front() else { break };
            let is_late = now.duration_since(waiting.since) >= PATIENCE;
            let outcome = match look_up(waiting.hop, waiting.source) {
                Found::Mac(_) => Outcome::Known,
                Found::NotYet if !is_late => {
                    self.packets.push_back(waiting);
                    continue;
                }
                Found::NotYet | Found::Silent => Outcome::Lost,
            };
            self.leave(waiting.source);
            settled.push((waiting, outcome));
        }
        settled
    }

    /// Takes out all.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Waiting<P>> {
        self.of_group = [0; GROUPS];
        std::mem::take(&mut self.packets).into_iter()
    }

    fn group(&self, source: Source) -> usize {
        self.hasher.hash_one(source) as usize % GROUPS
    }

    fn leave(&mut self, source: Source) {
        let group = self.group(source);
        self.of_group[group] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use wirecap_headers::MacAddress;

    use super::*;

    const PLACE: (usize, u16) = (0, 0);
    const MAC: Found = Found::Mac(MacAddress([2, 0, 0, 0, 0, 1]));

    fn hop(last: u8) -> Hop {
        Hop { port: 1, address: IpAddr::from([198, 51, 100, last]) }
    }

    fn source(number: u32) -> Source {
        Source::new(0, Ipv4Addr::from_bits(0x0a00_0000 + number).into())
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Puts in packets of a source until there is no room for it. Returns how many.
    fn fill(room: &mut WaitingRoom<u32>, source: Source, now: Instant) -> usize {
        (0..1_000)
            .take_while(|&packet| {
                let is_admitted = matches!(room.admit(source, now), Admission::Yes);
                if is_admitted {
                    room.put(packet, PLACE, (hop(1), source), now);
                }
                is_admitted
            })
            .count()
    }

    #[test]
    fn each_packet_keeps_its_own_age() {
        let (mut room, begun) = (WaitingRoom::new(), Instant::now());
        room.put("to a", PLACE, (hop(1), source(1)), begun);
        room.put("to b", PLACE, (hop(2), source(1)), begun + ms(2_900));
        let look_up = |known: Option<Hop>| move |hop, _| if Some(hop) == known { MAC } else { Found::NotYet };
        let packets = |settled: Vec<(Waiting<&'static str>, Outcome)>| {
            settled.into_iter().map(|(waiting, outcome)| (waiting.packet, outcome)).collect::<Vec<_>>()
        };
        assert_eq!(
            packets(room.settle(begun + ms(2_950), look_up(Some(hop(1))))),
            [("to a", Outcome::Known)]
        );
        // It goes on waiting whatever became of the other one.
        room.put("to c", PLACE, (hop(3), source(1)), begun + ms(3_500));
        assert!(!room.is_overdue(begun + ms(5_800)));
        assert_eq!(packets(room.settle(begun + ms(5_800), look_up(None))), []);
        assert!(room.is_overdue(begun + ms(5_900)));
        assert_eq!(packets(room.settle(begun + ms(5_900), look_up(None))), [("to b", Outcome::Lost)]);
        assert_eq!(packets(room.settle(begun + ms(6_000), |_, _| Found::Silent)), [("to c", Outcome::Lost)]);
        assert!(room.is_empty());
    }

    #[test]
    fn one_source_takes_half_and_a_stranger_finds_room() {
        let (mut room, now) = (WaitingRoom::new(), Instant::now());
        assert_eq!(fill(&mut room, source(1), now), MAX_WAITING / 2 + 1);
        assert!(fill(&mut room, source(2), now) > MAX_WAITING / 5);
        assert!(matches!(room.admit(source(3), now), Admission::Yes));
    }

    #[test]
    fn when_many_sources_fill_it_the_oldest_goes_after_its_chance() {
        let (mut room, now) = (WaitingRoom::new(), Instant::now());
        for number in 0..10_000 {
            if let Admission::Yes = room.admit(source(number), now) {
                room.put(number, PLACE, (hop(1), source(number)), now + ms(number.into()) / 1_000);
            }
        }
        assert!(matches!(room.admit(source(20_000), now + CHANCE / 2), Admission::No));
        let Admission::InsteadOf(oldest) = room.admit(source(20_000), now + CHANCE) else { panic!() };
        assert_eq!(oldest.packet, 0);
        room.put(7, PLACE, (hop(1), source(20_000)), now + CHANCE);
        assert_eq!(room.take_all().count(), MAX_WAITING);
        assert!(room.of_group.iter().all(|&packets| packets == 0));
    }
}
