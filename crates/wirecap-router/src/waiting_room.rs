//! Packets of one worker that wait for the Ethernet address of their next hop.
//!
//! ```text
//!   packet ── room? ──► oldest │ … │ newest ── its next hop is known ──► forwarded
//!      │                   │                └─ silent, or waited for too long ──► dropped: no_neighbour
//!      └── no room: dropped, or the oldest in its place: waiting_full
//! ```
//!
//! Rules: each packet keeps its own age. And while there is room, no source holds more of it than is left, so
//! that a source that sends to addresses without a host leaves room for the packets of others.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    time::{Duration, Instant},
};

use crate::{
    neighbours::{HopStatus, UnresolvedHop},
    source::Source,
};

/// Packets that may wait.
const MAX_WAITING: usize = 256;
/// How long one may: the kernel asks three times, a second apart.
const TIMEOUT: Duration = Duration::from_secs(3);
/// How long one waits at least before another takes its place: an answer comes within milliseconds.
const CHANCE: Duration = Duration::from_millis(100);

/// A packet that waits.
#[derive(Debug)]
struct ParkedPacket<P> {
    packet: P,
    pending: UnresolvedHop,
    since: Instant,
}

/// Packets that wait, the oldest first.
#[derive(Debug)]
pub(crate) struct WaitingRoom<P> {
    packets: VecDeque<ParkedPacket<P>>,
    /// How many are of each source. INVARIANT: has only sources with packets, so [`MAX_WAITING`] at most.
    of_source: HashMap<Source, usize>,
}

/// Whether one more packet may wait.
#[derive(Debug)]
pub enum Admission<P> {
    /// It may.
    Free,
    /// It may, in place of this one, which is dropped as [`WaitingFull`](crate::DropCause::WaitingFull).
    InsteadOf(P),
    /// It may not, and is dropped as [`WaitingFull`](crate::DropCause::WaitingFull).
    Full,
}

/// What becomes of a packet that waits no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Its next hop is known: it is routed again.
    Known,
    /// Its next hop does not answer: it is dropped as [`NoNeighbour`](crate::DropCause::NoNeighbour).
    Lost,
}

impl<P> WaitingRoom<P> {
    pub(crate) fn new() -> Self {
        Self { packets: VecDeque::new(), of_source: HashMap::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Whether a packet may wait. Unless it is full, the packet has to be put in.
    pub(crate) fn admit(&mut self, pending: UnresolvedHop, now: Instant) -> Admission<P> {
        let room = MAX_WAITING - self.packets.len();
        if room > 0 {
            let own = self.of_source.get(&pending.source).copied().unwrap_or(0);
            return if own <= room { Admission::Free } else { Admission::Full };
        }
        let had_its_chance = |oldest: &ParkedPacket<P>| now.duration_since(oldest.since) >= CHANCE;
        let is_replaced = self.packets.front().is_some_and(had_its_chance);
        match is_replaced.then(|| self.packets.pop_front()).flatten() {
            Some(oldest) => Admission::InsteadOf(self.leave(oldest)),
            None => Admission::Full,
        }
    }

    /// Puts in a packet.
    pub(crate) fn put(&mut self, packet: P, pending: UnresolvedHop, now: Instant) {
        debug_assert!(self.packets.len() < MAX_WAITING);
        *self.of_source.entry(pending.source).or_insert(0) += 1;
        self.packets.push_back(ParkedPacket { packet, pending, since: now });
    }

    /// Whether one has waited for too long.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        self.packets.front().is_some_and(|oldest| now.duration_since(oldest.since) >= TIMEOUT)
    }

    /// Takes out those that wait no longer, the oldest first, by what is known of their next hops.
    pub(crate) fn settle(
        &mut self,
        now: Instant,
        mut look_up: impl FnMut(UnresolvedHop) -> HopStatus,
    ) -> Vec<(P, Outcome)> {
        let mut settled = Vec::new();
        for _ in 0..self.packets.len() {
            let Some(waiting) = self.packets.pop_front() else { break };
            let is_late = now.duration_since(waiting.since) >= TIMEOUT;
            let outcome = match look_up(waiting.pending) {
                HopStatus::Mac(_) => Outcome::Known,
                HopStatus::NotYet if !is_late => {
                    self.packets.push_back(waiting);
                    continue;
                }
                HopStatus::NotYet | HopStatus::Silent => Outcome::Lost,
            };
            settled.push((self.leave(waiting), outcome));
        }
        settled
    }

    /// Takes out all.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = P> + use<P> {
        self.of_source.clear();
        std::mem::take(&mut self.packets).into_iter().map(|waiting| waiting.packet)
    }

    /// One that was taken out counts no longer.
    fn leave(&mut self, waiting: ParkedPacket<P>) -> P {
        if let Entry::Occupied(mut own) = self.of_source.entry(waiting.pending.source) {
            *own.get_mut() -= 1;
            if *own.get() == 0 {
                own.remove();
            }
        }
        waiting.packet
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use wirecap_headers::MacAddress;

    use super::*;
    use crate::neighbours::Hop;

    const MAC: HopStatus = HopStatus::Mac(MacAddress([2, 0, 0, 0, 0, 1]));

    /// A packet of `source` that waits for the next hop `hop`.
    fn pending(source: u32, hop: u8) -> UnresolvedHop {
        let source = Source::v4(0, 0x0a00_0000 + source);
        UnresolvedHop { hop: Hop { port: 1, address: IpAddr::from([198, 51, 100, hop]) }, source }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Adds packets of `source` while there is room for it. Returns how many.
    fn fill(room: &mut WaitingRoom<u32>, source: u32, now: Instant) -> usize {
        (0..1_000)
            .take_while(|&packet| {
                let is_admitted = matches!(room.admit(pending(source, 1), now), Admission::Free);
                if is_admitted {
                    room.put(packet, pending(source, 1), now);
                }
                is_admitted
            })
            .count()
    }

    #[test]
    fn each_packet_keeps_its_own_age() {
        let (mut room, begun) = (WaitingRoom::new(), Instant::now());
        room.put("to a", pending(1, 1), begun);
        room.put("to b", pending(1, 2), begun + ms(2_900));
        let look_up = |known: Option<u8>| {
            move |asked: UnresolvedHop| {
                if known.is_some_and(|known| asked == pending(1, known)) { MAC } else { HopStatus::NotYet }
            }
        };
        assert_eq!((room.settle(begun + ms(2_950), look_up(Some(1)))), [("to a", Outcome::Known)]);
        // The packet to b keeps waiting, although the one to a has gone.
        room.put("to c", pending(1, 3), begun + ms(3_500));
        assert!(!room.is_overdue(begun + ms(5_800)));
        assert_eq!((room.settle(begun + ms(5_800), look_up(None))), []);
        assert!(room.is_overdue(begun + ms(5_900)));
        assert_eq!((room.settle(begun + ms(5_900), look_up(None))), [("to b", Outcome::Lost)]);
        assert_eq!((room.settle(begun + ms(6_000), |_| HopStatus::Silent)), [("to c", Outcome::Lost)]);
        assert!(room.is_empty() && room.of_source.is_empty());
    }

    #[test]
    fn one_source_takes_half_and_others_find_room() {
        let (mut room, now) = (WaitingRoom::new(), Instant::now());
        assert_eq!(fill(&mut room, 1, now), MAX_WAITING / 2 + 1);
        // Whatever its address.
        for source in 2..10_000 {
            assert!(matches!(room.admit(pending(source, 1), now), Admission::Free), "{source}");
        }
        assert!(fill(&mut room, 2, now) > MAX_WAITING / 5);
        assert!(matches!(room.admit(pending(3, 1), now), Admission::Free));
    }

    #[test]
    fn when_many_sources_fill_the_room_the_oldest_packet_goes_after_its_chance() {
        let (mut room, now) = (WaitingRoom::new(), Instant::now());
        for number in 0..10_000 {
            if let Admission::Free = room.admit(pending(number, 1), now) {
                room.put(number, pending(number, 1), now + ms(number.into()) / 1_000);
            }
        }
        assert!(matches!(room.admit(pending(20_000, 1), now + CHANCE / 2), Admission::Full));
        let Admission::InsteadOf(oldest) = room.admit(pending(20_000, 1), now + CHANCE) else { panic!() };
        assert_eq!(oldest, 0);
        room.put(7, pending(20_000, 1), now + CHANCE);
        assert_eq!(room.take_all().count(), MAX_WAITING);
        assert!(room.of_source.is_empty());
    }
}
