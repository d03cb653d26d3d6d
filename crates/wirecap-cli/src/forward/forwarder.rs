//! What a worker does with the packets of one batch: each goes out of another port, or is dropped for a cause.
//!
//! ```text
//!   batch of (port A, queue q) ── drain ──► packet ── changed ──► transmitter of (port B, queue q) ── one kick ──► latency
//!                                             │                      └── no room, link down, too long: counted by cause
//!                                             ├── next hop not known yet: waits
//!                                             └── a router's, and cannot be sent on: its sender is told, icmp.rs
//! ```
//!
//! Rule: packets of one receive queue go out of one transmit queue of a port, by one thread, so they stay in order.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use wirecap::{Batch, Drain, OwnedPacket, Transmitter};
use wirecap_headers::{Rewrite, Toward, checksum::Pending};

use super::{
    icmp::IcmpErrors,
    neighbours::{Hop, Hops, Source},
    router::{Next, SharedRouter},
    waiting::{Admission, Outcome, Waiting, WaitingRoom},
    way::{Cause, Way},
};
use crate::capture::job::Onward;

/// How long a packet waits for room before it is dropped: a ring that does not move for so long is stuck.
const ROOM_PATIENCE: Duration = Duration::from_millis(20);
/// How often the kernel is asked for cells that it has sent, while nothing comes: at first, and at most.
const TICK: Duration = Duration::from_millis(1);
const MAX_TICK: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(1);
/// How long packets that were taken have to leave at the end.
const LAST_PATIENCE: Duration = Duration::from_millis(500);

/// Where packets go.
#[derive(Debug)]
pub(super) enum Paths {
    /// Between two ports, their headers changed so, by port that they go out of.
    Cable([Rewrite; 2]),
    /// Where their addresses say.
    Routes(SharedRouter),
}

/// How packets are forwarded: the same for all workers.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) paths: Paths,
    /// By port that packets come in by: whether senders may have left checksums to be completed.
    pub(super) complete_checksums: Vec<bool>,
    /// Whether a packet waits for room.
    pub(super) wait: bool,
    /// Whether all packets of a batch have the same time, as far as latency goes.
    pub(super) batch_times: bool,
}

/// Forwards what one worker is given.
pub(super) struct Forwarder {
    rules: Arc<Rules>,
    /// By port, those of this worker.
    transmitters: Vec<Vec<Transmitter>>,
    /// By port that packets come in by.
    ways: Vec<Arc<Way>>,
    workers: usize,
    tick: Duration,
    stuck: Stuck,
    /// Of a router.
    hops: Option<Hops>,
    icmp: Option<IcmpErrors>,
    waiting: WaitingRoom<OwnedPacket<'static>>,
    /// Empty between batches.
    tally: Tally,
}

/// Which transmit queues did not move while they were waited for: each by itself, since a worker may have several of a port, and
/// one that moves says nothing about another.
#[derive(Debug)]
struct Stuck {
    /// By port, those of this worker.
    lanes: Vec<Vec<bool>>,
}

impl Stuck {
    /// None is, of so many by port.
    fn none(lanes: impl Iterator<Item = usize>) -> Self {
        Self { lanes: lanes.map(|lanes| vec![false; lanes]).collect() }
    }

    fn is(&self, (port, lane): (usize, usize)) -> bool {
        self.lanes[port][lane]
    }

    /// It has taken a packet, or has not though it was waited for.
    fn note(&mut self, (port, lane): (usize, usize), is_stuck: bool) {
        self.lanes[port][lane] = is_stuck;
    }
}

/// Packets of one batch that were sent.
#[derive(Debug, Default)]
struct Tally {
    packets: u64,
    bytes: u64,
    /// Time of the first of them.
    first_ns: u64,
    /// Time of each, where each has its own.
    each_ns: Vec<u64>,
}

impl Tally {
    /// Adds packets that were sent after those that it has.
    fn add(&mut self, packets: u64, bytes: u64, first_ns: u64) {
        if self.packets == 0 {
            self.first_ns = first_ns;
        }
        self.packets += packets;
        self.bytes += bytes;
    }

    /// Without packets, its memory kept for the next batch.
    fn emptied(mut self) -> Self {
        self.each_ns.clear();
        Self { each_ns: self.each_ns, ..Self::default() }
    }
}

impl Forwarder {
    /// With those of the transmitters that are this worker's own, by port.
    pub(super) fn new(
        rules: &Arc<Rules>,
        mut transmitters: Vec<Vec<Transmitter>>,
        ways: Vec<Arc<Way>>,
        workers: usize,
        (hops, icmp): (Option<Hops>, Option<IcmpErrors>),
    ) -> Self {
        let stuck = Stuck::none(transmitters.iter().map(Vec::len));
        // A router may send a packet back out of the port that it came in by.
        let outputs = if matches!(rules.paths, Paths::Cable(_)) { 1 } else { transmitters.len() };
        transmitters.iter_mut().flatten().for_each(|transmitter| transmitter.share_pools(outputs));
        let (rules, waiting) = (Arc::clone(rules), WaitingRoom::new());
        let tally = Tally::default();
        Self { rules, transmitters, ways, workers, tick: TICK, stuck, hops, icmp, waiting, tally }
    }

    /// Forwards packets from the front as long as nothing has to be decided about them: between two ports, their headers as
    /// they are, one time for all.
    fn forward_run(&mut self, drain: &mut Drain<'_>, from: usize, queue: u16, tally: &mut Tally) {
        let Paths::Cable(rewrite) = &self.rules.paths else { return };
        let to = 1 - from;
        if !rewrite[to].is_nothing() || !self.rules.batch_times {
            return;
        }
        let (completes, way) = (self.rules.complete_checksums[from], &self.ways[from]);
        let lanes = &mut self.transmitters[to];
        let lane = (usize::from(queue) / self.workers) % lanes.len();
        let run = drain.forward(&mut lanes[lane], |packet| {
            if completes && complete_checksum_in_place(packet) {
                way.count_completed();
            }
        });
        if run.packets > 0 {
            self.stuck.note((to, lane), false);
            tally.add(run.packets, run.bytes, run.first_timestamp_ns);
        }
    }

    /// Forwards one packet that came in by a port, or counts why not.
    fn forward(&mut self, mut packet: OwnedPacket<'_>, from: usize, queue: u16, tally: &mut Tally) {
        let way = &self.ways[from];
        if self.rules.complete_checksums[from] && complete_checksum(&mut packet) {
            way.count_completed();
        }
        let decided = match &self.rules.paths {
            Paths::Cable(rewrite) => {
                let to = 1 - from;
                let toward = if to == 0 { Toward::A } else { Toward::B };
                let changed =
                    if rewrite[to].is_nothing() { Ok(()) } else { rewrite[to].apply(toward, &mut packet) };
                changed.map(|()| Next::Out(to)).map_err(Cause::from)
            }
            Paths::Routes(router) => {
                let hops = self.hops.as_mut().expect("a router has next hops");
                let icmp = self.icmp.as_ref().expect("a router tells of errors");
                router.route(&mut packet, from, hops, &icmp.mtus)
            }
        };
        match decided {
            Ok(Next::Out(to)) => self.send(packet, from, to, queue, tally),
            Ok(Next::Wait(hop, source)) => self.wait(packet, (from, queue), (hop, source)),
            Err(cause) => {
                way.count_dropped(cause);
                self.tell(&packet, from, queue, cause);
            }
        }
    }

    /// Has a packet wait for its next hop, if there is room for one more.
    #[cold]
    fn wait(&mut self, packet: OwnedPacket<'_>, (from, queue): (usize, u16), whither: (Hop, Source)) {
        let (Some(hops), Some(icmp)) = (&self.hops, &mut self.icmp) else { return };
        let admission = self.waiting.admit(whither.1, hops.now());
        if let Admission::InsteadOf(Waiting { from, .. }) = &admission {
            self.ways[*from].count_dropped(Cause::WaitingFull);
        }
        let kept = match admission {
            Admission::No => None,
            Admission::Yes | Admission::InsteadOf(_) => icmp.keep(packet),
        };
        match kept {
            Some(packet) => self.waiting.put(packet, (from, queue), whither, hops.now()),
            None => self.ways[from].count_dropped(Cause::WaitingFull),
        }
    }

    /// Tells the sender of a packet, which is as it came, why it goes no further, if a router has to.
    #[cold]
    fn tell(&mut self, packet: &OwnedPacket<'_>, from: usize, queue: u16, cause: Cause) {
        let (Paths::Routes(router), Some(icmp)) = (&self.rules.paths, &mut self.icmp) else { return };
        let lanes = &mut self.transmitters[from];
        let lane = (usize::from(queue) / self.workers) % lanes.len();
        icmp.tell(router, (packet, from, cause), &mut lanes[lane], &self.ways[from]);
    }

    /// Sends a packet out of a port, or counts why not.
    fn send(&mut self, packet: OwnedPacket<'_>, from: usize, to: usize, queue: u16, tally: &mut Tally) {
        let lanes = &mut self.transmitters[to];
        let lane = (usize::from(queue) / self.workers) % lanes.len();
        let transmitter = &mut lanes[lane];
        let (len, came_ns) = (packet.len() as u64, packet.timestamp_ns());
        let sent = match packet.forward(transmitter) {
            Err(refused) if refused.reason.is_for_room() && self.rules.wait && !self.stuck.is((to, lane)) => {
                refused.wait(transmitter, ROOM_PATIENCE)
            }
            sent => sent,
        };
        let way = &self.ways[from];
        match sent {
            Ok(()) => {
                self.stuck.note((to, lane), false);
                tally.add(1, len, came_ns);
                if !self.rules.batch_times {
                    tally.each_ns.push(came_ns);
                }
            }
            Err(refused) => {
                if refused.reason.is_for_room() && self.rules.wait {
                    self.stuck.note((to, lane), true);
                }
                way.count_dropped(refused.reason.into());
                refused.give_up(transmitter);
            }
        }
    }

    /// Counts what was taken of the packets that came in by a port, once the kernel was told of it.
    fn count(&self, from: usize, tally: &Tally) {
        let way = &self.ways[from];
        if tally.packets > 0 {
            let (mut latency, now_ns) = (way.latency(), now_ns());
            match self.rules.batch_times {
                true => latency.note(tally.first_ns, now_ns, tally.packets),
                false => tally.each_ns.iter().for_each(|&came_ns| latency.note(came_ns, now_ns, 1)),
            }
        }
        way.count_forwarded(tally.packets, tally.bytes);
    }

    /// Tells the kernel of what was taken, and takes home what it has sent. Returns whether anything moved.
    fn flush_all(&mut self) -> bool {
        let mut moved = false;
        for transmitter in self.transmitters.iter_mut().flatten() {
            let before = transmitter.in_flight();
            if before > 0 {
                // What is wrong with the link is told by its events, and by what is refused from then on.
                let _ = transmitter.flush();
                moved |= transmitter.in_flight() != before;
            }
        }
        moved
    }

    /// Tries the packets anew that wait for next hops, if there is news of these. Those that have waited too long are dropped.
    fn retry(&mut self) {
        let (Some(hops), Some(icmp)) = (&mut self.hops, &mut self.icmp) else { return };
        icmp.begin(&self.transmitters);
        let has_news = hops.refresh();
        let now = hops.now();
        if !has_news && !self.waiting.is_overdue(now) {
            return;
        }
        let settled = self.waiting.settle(now, |hop, source| hops.look_up(hop, source));
        let mut taken = Vec::new();
        for (Waiting { packet, from, queue, .. }, outcome) in settled {
            if outcome == Outcome::Lost {
                self.ways[from].count_dropped(Cause::NoNeighbour);
                self.tell(&packet, from, queue, Cause::NoNeighbour);
                continue;
            }
            let mut tally = Tally::default();
            self.forward(packet, from, queue, &mut tally);
            // Each with its own time: they may have waited for seconds.
            taken.push((from, tally));
        }
        // Once for all, since each is a system call.
        self.flush_all();
        taken.iter().for_each(|(from, tally)| self.count(*from, tally));
    }
}

impl Onward for Forwarder {
    fn batch(&mut self, mut batch: Batch) {
        self.retry();
        let (from, queue) = (batch.port(), batch.queue());
        let Some(mut drain) = batch.drain() else { return };
        let mut tally = std::mem::take(&mut self.tally);
        loop {
            self.forward_run(&mut drain, from, queue, &mut tally);
            let Some(packet) = drain.next() else { break };
            self.forward(packet, from, queue, &mut tally);
        }
        self.flush_all();
        self.count(from, &tally);
        self.tally = tally.emptied();
        self.tick = TICK;
    }

    fn patience(&self) -> Duration {
        let flies = self.transmitters.iter().flatten().any(|transmitter| transmitter.in_flight() > 0);
        match flies {
            true if self.waiting.is_empty() => self.tick,
            false if self.waiting.is_empty() => LONG,
            _ => TICK,
        }
    }

    fn idle(&mut self) {
        self.tick = if self.flush_all() { TICK } else { (self.tick * 2).min(MAX_TICK) };
        self.retry();
    }

    fn end(&mut self) {
        for waiting in self.waiting.take_all() {
            self.ways[waiting.from].count_dropped(Cause::NoNeighbour);
        }
        for transmitter in self.transmitters.iter_mut().flatten() {
            // What is left in a ring whose link is down is not sent; the account has it in flight.
            let _ = transmitter.finish(LAST_PATIENCE);
        }
    }
}

/// As [`complete_checksum`], for a packet that lies in one piece.
fn complete_checksum_in_place(packet: &mut [u8]) -> bool {
    let Some(pending) = Pending::of_frame(packet) else { return false };
    let checksum = pending.complete([&*packet].into_iter());
    checksum.is_some_and(|checksum| pending.write(packet, checksum))
}

/// Completes the checksum of a packet if its sender has left that to a NIC. Returns whether it has.
fn complete_checksum(packet: &mut OwnedPacket<'_>) -> bool {
    let Some(pending) = Pending::of_frame(packet.data()) else { return false };
    let checksum = pending.complete(packet.parts());
    checksum.is_some_and(|checksum| pending.write(packet.data_mut(), checksum))
}

/// The system clock, in nanoseconds since 1970.
fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_moves_says_nothing_about_another() {
        let mut stuck = Stuck::none([2, 2].into_iter());
        stuck.note((1, 0), true);
        // The other one of the same port, and the same one of the other port.
        stuck.note((1, 1), false);
        stuck.note((0, 0), false);
        let places = [(0, 0), (0, 1), (1, 0), (1, 1)];
        assert_eq!(places.map(|place| stuck.is(place)), [false, false, true, false]);
        stuck.note((1, 0), false);
        assert!(!places.iter().any(|&place| stuck.is(place)));
    }
}
