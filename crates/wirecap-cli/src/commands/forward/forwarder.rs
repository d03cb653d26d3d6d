//! What a worker does with the packets of one batch: it sends each out of another port, or drops it for a
//! cause.
//!
//! ```text
//!   batch of (port A, queue q) ── drain ──► packet ── changed ──► transmitter of (port B, queue q) ── one kick ──► latency
//!                                             │                      └── no room, link down, too long: counted by cause
//!                                             ├── next hop still unknown: waits
//!                                             └── a router discards it: its sender may get an ICMP error
//! ```
//!
//! Rule: one thread sends the packets of a receive queue from one transmit queue of a port, so they stay in
//! order.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use wirecap::{Batch, Drain, OwnedPacket, PacketAllocator, Transmitter};
use wirecap_headers::{Rewrite, Side, checksum};
use wirecap_router::{
    Admission, Answer, Decision, DropCause, Outcome, OutgoingLink, RouterWorker, UnresolvedHop, WholePacket,
};

use super::{
    latency_clock::LatencyClock,
    output::{Output, ReclaimSchedule},
    stats::{ForwardStats, cause_of},
};
use crate::capture::job::BatchHandler;

/// The shortest frame of Ethernet, in bytes, without checksum (FCS).
const SHORTEST_FRAME: usize = 60;

/// Where the packets of one worker go.
pub(super) enum Path {
    /// From one port to the other. The changes of headers, by port that packets leave by.
    Cable([Rewrite; 2]),
    /// By destination address.
    Router(Box<RouterPath>),
}

/// The parts of a router that one worker uses.
pub(super) struct RouterPath {
    pub(super) router: RouterWorker<WaitingPacket>,
    /// Makes ICMP errors, and copies of packets that wait: the originals would keep their cells from the
    /// pool, and the cells after them would go to the kernel in short runs.
    pub(super) allocator: PacketAllocator,
    /// A packet of several parts in one piece, for the filter.
    pub(super) whole: Vec<u8>,
}

/// Where a packet was received.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    port: usize,
    queue: u16,
}

/// A packet that waits for its next hop.
pub(super) struct WaitingPacket {
    packet: OwnedPacket<'static>,
    origin: Origin,
}

/// How packets are forwarded: the same for all workers.
#[derive(Debug)]
pub(super) struct Rules {
    /// By receiving port: whether senders may have left checksums to be completed.
    pub(super) complete_checksums: Vec<bool>,
    /// Whether a packet waits for room.
    pub(super) wait: bool,
    /// Whether all packets of a batch have the same time for the latency.
    pub(super) batch_times: bool,
}

/// Forwards the packets of one worker.
pub(super) struct Forwarder {
    rules: Arc<Rules>,
    /// By port.
    outputs: Vec<Vec<Output>>,
    /// By receiving port.
    stats: Vec<Arc<ForwardStats>>,
    workers: usize,
    reclaim: ReclaimSchedule,
    path: Path,
    clock: LatencyClock,
    /// Empty between batches.
    tally: Tally,
}

/// Packets of one batch that were sent.
#[derive(Debug, Default)]
struct Tally {
    packets: u64,
    bytes: u64,
    /// Time of the first of them.
    first_ns: u64,
    /// Time of each, if each has its own.
    each_ns: Vec<u64>,
}

impl Tally {
    /// Adds packets that were sent after the ones counted before.
    fn add(&mut self, packets: u64, bytes: u64, first_ns: u64) {
        if self.packets == 0 {
            self.first_ns = first_ns;
        }
        self.packets += packets;
        self.bytes += bytes;
    }

    /// Resets the tally and keeps its memory for the next batch.
    fn emptied(mut self) -> Self {
        self.each_ns.clear();
        Self { each_ns: self.each_ns, ..Self::default() }
    }
}

impl Forwarder {
    /// `transmitters` are those of this worker, by port.
    pub(super) fn new(
        rules: &Arc<Rules>,
        path: Path,
        transmitters: Vec<Vec<Transmitter>>,
        stats: Vec<Arc<ForwardStats>>,
        workers: usize,
    ) -> Self {
        // A router may send a packet back out of the port that it came in by.
        let sharers = if matches!(path, Path::Cable(_)) { 1 } else { transmitters.len() };
        let output = |transmitter| Output::new(transmitter, sharers);
        let outputs = transmitters.into_iter().map(|of_port| of_port.into_iter().map(output).collect());
        let (rules, tally) = (Arc::clone(rules), Tally::default());
        let reclaim = ReclaimSchedule::default();
        let clock = LatencyClock::default();
        Self { rules, outputs: outputs.collect(), stats, workers, reclaim, path, clock, tally }
    }

    /// Forwards packets from the front as long as nothing has to be decided about them: on a cable, with
    /// unchanged headers and one time for all.
    fn forward_run(&mut self, drain: &mut Drain<'_>, origin: Origin, tally: &mut Tally) {
        let Path::Cable(rewrite) = &self.path else { return };
        let (from, to) = (origin.port, 1 - origin.port);
        if !rewrite[to].is_nothing() || !self.rules.batch_times {
            return;
        }
        let (completes, stats) = (self.rules.complete_checksums[from], &self.stats[from]);
        let lane = self.lane(to, origin.queue);
        let output = &mut self.outputs[to][lane];
        let run = output.send_run(drain, |packet| {
            if completes && complete_checksum_in_place(packet) {
                stats.count_completed();
            }
        });
        if run.packets > 0 {
            tally.add(run.packets, run.bytes, run.first_timestamp_ns);
        }
    }

    /// Which of this worker's outputs of a port serves a receive queue.
    fn lane(&self, port: usize, queue: u16) -> usize {
        (usize::from(queue) / self.workers) % self.outputs[port].len()
    }

    /// Forwards one packet, or counts why it was dropped.
    fn forward(&mut self, mut packet: OwnedPacket<'_>, origin: Origin, tally: &mut Tally) {
        let stats = &self.stats[origin.port];
        if self.rules.complete_checksums[origin.port] && complete_checksum(&mut packet) {
            stats.count_completed();
        }
        let Path::Cable(rewrite) = &self.path else { return self.route(packet, origin, tally) };
        let to = 1 - origin.port;
        let toward = if to == 0 { Side::A } else { Side::B };
        let changed = if rewrite[to].is_nothing() { Ok(()) } else { rewrite[to].apply(toward, &mut packet) };
        match changed {
            Ok(()) => self.send(packet, origin, to, tally),
            Err(refused) => stats.count_dropped(refused.into()),
        }
    }

    /// Carries out the decision of the router about a packet.
    fn route(&mut self, mut packet: OwnedPacket<'_>, origin: Origin, tally: &mut Tally) {
        let Path::Router(path) = &mut self.path else { return };
        let RouterPath { router, whole, .. } = &mut **path;
        let seen = if packet.data().len() == packet.len() {
            WholePacket::FirstPart
        } else if router.has_filter() {
            whole.clear();
            packet.parts().for_each(|part| whole.extend_from_slice(part));
            WholePacket::Copy(whole)
        } else {
            WholePacket::Unseen(packet.len())
        };
        match router.route(packet.data_mut(), seen, origin.port) {
            Decision::Forward { port, len } => {
                if trim(&mut packet, len) {
                    self.send(packet, origin, port, tally);
                } else {
                    self.stats[origin.port].count_dropped(DropCause::NotSendable);
                }
            }
            Decision::Wait(pending) => self.wait(packet, origin, pending),
            Decision::Discard { cause } => self.discard(&packet, origin, cause),
        }
    }

    /// Parks a packet until its next hop is known, if there is room.
    #[cold]
    fn wait(&mut self, packet: OwnedPacket<'_>, origin: Origin, pending: UnresolvedHop) {
        let Path::Router(path) = &mut self.path else { return };
        let RouterPath { router, allocator, .. } = &mut **path;
        let admission = router.admit(pending);
        if let Admission::InsteadOf(WaitingPacket { origin, .. }) = &admission {
            self.stats[origin.port].count_dropped(DropCause::WaitingFull);
        }
        let kept = match admission {
            Admission::Full => None,
            // The replaced packet is dropped, which frees its cells.
            Admission::Free | Admission::InsteadOf(_) => allocator.keep(packet),
        };
        match kept {
            Some(packet) => router.park(WaitingPacket { packet, origin }, pending),
            None => self.stats[origin.port].count_dropped(DropCause::WaitingFull),
        }
    }

    /// Counts a discarded packet, and sends its sender the ICMP error with which the router answers, if any.
    #[cold]
    fn discard(&mut self, packet: &OwnedPacket<'_>, origin: Origin, cause: DropCause) {
        let stats = &self.stats[origin.port];
        stats.count_dropped(cause);
        let lane = self.lane(origin.port, origin.queue);
        let Path::Router(path) = &mut self.path else { return };
        let RouterPath { router, allocator, .. } = &mut **path;
        let transmitter = &mut self.outputs[origin.port][lane].transmitter;
        let is_sent = match router.answer(packet.data(), packet.len(), origin.port, cause) {
            Answer::Silence => return,
            Answer::Suppressed => false,
            Answer::Error(frame) => {
                allocator.packet(frame).is_some_and(|error| error.forward(transmitter).is_ok())
            }
        };
        stats.count_icmp_error(is_sent);
    }

    /// Sends a packet out of a port, or counts why it was dropped.
    fn send(&mut self, packet: OwnedPacket<'_>, origin: Origin, to: usize, tally: &mut Tally) {
        let lane = self.lane(to, origin.queue);
        let (len, came_ns) = (packet.len() as u64, packet.timestamp_ns());
        match self.outputs[to][lane].send(packet, self.rules.wait) {
            Ok(()) => {
                tally.add(1, len, came_ns);
                if !self.rules.batch_times {
                    tally.each_ns.push(came_ns);
                }
            }
            Err(refusal) => self.stats[origin.port].count_dropped(cause_of(refusal)),
        }
    }

    /// Counts the packets of a receiving port that were sent, after the system call that sends them.
    fn count(&mut self, from: usize, tally: &Tally) {
        let stats = &self.stats[from];
        let now_ns = if tally.packets > 0 { self.clock.now_ns() } else { None };
        if let Some(now_ns) = now_ns {
            let mut latency = stats.latency();
            match self.rules.batch_times {
                // The NIC's clock may be ahead: a packet may have a later time than now.
                true => latency.note(now_ns.saturating_sub(tally.first_ns), tally.packets),
                false => {
                    let times = tally.each_ns.iter().map(|&came_ns| now_ns.saturating_sub(came_ns));
                    times.for_each(|time_ns| latency.note(time_ns, 1));
                }
            }
        }
        stats.count_forwarded(tally.packets, tally.bytes);
    }

    /// Has the kernel send staged packets, and takes back sent cells. Returns whether anything moved.
    fn flush_all(&mut self) -> bool {
        let mut moved = false;
        for output in self.outputs.iter_mut().flatten() {
            moved |= output.flush();
        }
        moved
    }

    /// Begins a batch of a router: sends parked packets whose next hops are known now, and drops those that
    /// waited too long.
    fn retry(&mut self) {
        let Path::Router(path) = &mut self.path else { return };
        let link = |outputs: &Vec<Output>| {
            let transmitter = outputs.first().map(|output| &output.transmitter);
            let mtu = transmitter.map_or(0, Transmitter::mtu);
            OutgoingLink { mtu, fault: transmitter.and_then(Transmitter::link_fault).map(cause_of) }
        };
        path.router.begin(Instant::now(), self.outputs.iter().map(link));
        let settled = path.router.settle();
        if settled.is_empty() {
            return;
        }
        let mut taken = Vec::new();
        for (WaitingPacket { packet, origin }, outcome) in settled {
            match outcome {
                Outcome::Lost => self.discard(&packet, origin, DropCause::NoNeighbour),
                Outcome::Known => {
                    let mut tally = Tally::default();
                    self.forward(packet, origin, &mut tally);
                    // Counted one by one: each may have waited for seconds.
                    taken.push((origin.port, tally));
                }
            }
        }
        // Once for all packets, because it is a system call per output.
        self.flush_all();
        taken.iter().for_each(|(from, tally)| self.count(*from, tally));
    }
}

impl BatchHandler for Forwarder {
    fn batch(&mut self, mut batch: Batch) {
        self.retry();
        let origin = Origin { port: batch.port(), queue: batch.queue() };
        let Some(mut drain) = batch.drain() else { return };
        let mut tally = std::mem::take(&mut self.tally);
        loop {
            self.forward_run(&mut drain, origin, &mut tally);
            let Some(packet) = drain.next() else { break };
            self.forward(packet, origin, &mut tally);
        }
        self.flush_all();
        self.count(origin.port, &tally);
        self.tally = tally.emptied();
        self.reclaim.restart();
    }

    fn timeout(&self) -> Duration {
        let in_flight = self.outputs.iter().flatten().any(Output::is_sending);
        let waits = matches!(&self.path, Path::Router(path) if path.router.has_waiting());
        if waits { ReclaimSchedule::SHORTEST } else { self.reclaim.timeout(in_flight) }
    }

    fn idle(&mut self) {
        let moved = self.flush_all();
        self.reclaim.looked(moved);
        self.retry();
    }

    fn end(&mut self) {
        if let Path::Router(path) = &mut self.path {
            for WaitingPacket { origin, .. } in path.router.take_waiting() {
                self.stats[origin.port].count_dropped(DropCause::NoNeighbour);
            }
        }
        self.outputs.iter_mut().flatten().for_each(Output::finish);
    }
}

/// Takes off what is behind the IP packet, which ends at offset `end`: it is of the link that the packet came
/// by. A frame is not made shorter than the shortest that a NIC sends. `false` if there is as much behind the
/// packet as the last cell holds.
fn trim(packet: &mut OwnedPacket<'_>, end: usize) -> bool {
    let shortest = SHORTEST_FRAME.min(packet.len());
    if packet.len() > end.max(shortest) && !packet.trim_end(packet.len() - end.max(shortest)) {
        return false;
    }
    if end < shortest {
        // A frame of 60 bytes is in one part.
        packet.data_mut()[end..shortest].fill(0);
    }
    true
}

/// Like [`complete_checksum`], for a packet in one piece.
fn complete_checksum_in_place(packet: &mut [u8]) -> bool {
    let Some(pending) = checksum::PendingChecksum::of_frame(packet) else { return false };
    let checksum = pending.complete([&*packet].into_iter());
    checksum.is_some_and(|checksum| pending.write(packet, checksum))
}

/// Completes the checksum of a packet whose sender left that to a NIC. Returns whether it did.
fn complete_checksum(packet: &mut OwnedPacket<'_>) -> bool {
    let Some(pending) = checksum::PendingChecksum::of_frame(packet.data()) else { return false };
    let checksum = pending.complete(packet.parts());
    checksum.is_some_and(|checksum| pending.write(packet.data_mut(), checksum))
}
