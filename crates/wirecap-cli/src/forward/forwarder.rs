//! What a worker does with the packets of one batch: each goes out of the other port.
//!
//! ```text
//!   batch of (port A, queue q) ── drain ──► packet ──► transmitter of (port B, queue q) ── one kick ──► latency
//!                                             └── no room, link down, too long: counted by cause
//! ```
//!
//! Rule: packets of one receive queue go out of one transmit queue, by one thread, so they stay in order.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use wirecap::{Batch, OwnedPacket, Refusal, Transmitter};

use super::way::Way;
use crate::capture::job::Onward;

/// How long a packet waits for room before it is dropped: a ring that does not move for so long is stuck.
const ROOM_PATIENCE: Duration = Duration::from_millis(20);
/// How often the kernel is asked for cells that it has sent, while nothing comes: at first, and at most.
const TICK: Duration = Duration::from_millis(1);
const MAX_TICK: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(1);
/// How long packets that were taken have to leave at the end.
const LAST_PATIENCE: Duration = Duration::from_millis(500);

/// How packets are forwarded: the same for all workers.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    /// Whether a packet waits for room.
    pub(super) wait: bool,
    /// Whether all packets of a batch have the same time, as far as latency goes.
    pub(super) batch_times: bool,
}

/// Forwards what one worker is given.
#[derive(Debug)]
pub(super) struct Forwarder {
    rules: Arc<Rules>,
    /// By port, those of this worker.
    transmitters: Vec<Vec<Transmitter>>,
    /// By port that packets come in by.
    ways: Vec<Arc<Way>>,
    workers: usize,
    tick: Duration,
    /// By port: its ring did not move while it was waited for.
    stuck: Vec<bool>,
}

impl Forwarder {
    /// For worker `index` of `workers`, with those of `transmitters` that are its own.
    pub(super) fn new(
        rules: &Arc<Rules>,
        transmitters: Vec<Vec<Transmitter>>,
        ways: Vec<Arc<Way>>,
        workers: usize,
    ) -> Self {
        let stuck = vec![false; transmitters.len()];
        Self { rules: Arc::clone(rules), transmitters, ways, workers, tick: TICK, stuck }
    }

    /// Which of its transmitters of a port sends what comes in by this queue.
    fn lane(&self, port: usize, queue: u16) -> usize {
        (usize::from(queue) / self.workers) % self.transmitters[port].len()
    }

    /// Sends a packet, or counts why not. Returns whether it was taken.
    fn send(&mut self, packet: OwnedPacket<'_>, to: usize, lane: usize, way: &Way) -> bool {
        let transmitter = &mut self.transmitters[to][lane];
        let refused = match packet.forward(transmitter) {
            Ok(()) => {
                self.stuck[to] = false;
                return true;
            }
            Err(refused) if refused.reason == Refusal::Full && self.rules.wait && !self.stuck[to] => {
                match refused.wait(transmitter, ROOM_PATIENCE) {
                    Ok(()) => return true,
                    Err(refused) => {
                        self.stuck[to] = refused.reason == Refusal::Full;
                        refused
                    }
                }
            }
            Err(refused) => refused,
        };
        way.count_dropped(refused.reason.into());
        refused.give_up(transmitter);
        false
    }

    fn flush_all(&mut self) -> bool {
        let mut moved = false;
        for transmitter in self.transmitters.iter_mut().flatten() {
            let before = transmitter.in_flight();
            if before > 0 {
                // What is wrong with the link shows in what is refused.
                let _ = transmitter.flush();
                moved |= transmitter.in_flight() != before;
            }
        }
        moved
    }
}

impl Onward for Forwarder {
    fn batch(&mut self, mut batch: Batch) {
        let (from, queue) = (batch.port(), batch.queue());
        let to = 1 - from;
        let lane = self.lane(to, queue);
        let way = Arc::clone(&self.ways[from]);
        let Some(drain) = batch.drain() else { return };
        let (mut packets, mut bytes, mut first_ns) = (0, 0, 0);
        for packet in drain {
            let (len, came_ns) = (packet.len() as u64, packet.timestamp_ns());
            if !self.send(packet, to, lane, &way) {
                continue;
            }
            if packets == 0 {
                first_ns = came_ns;
            }
            packets += 1;
            bytes += len;
            if !self.rules.batch_times {
                way.latency().note(came_ns, now_ns(), 1);
            }
        }
        // What the kernel says to it is told by the link's events, and by what is refused from then on.
        let _ = self.transmitters[to][lane].flush();
        if packets > 0 && self.rules.batch_times {
            way.latency().note(first_ns, now_ns(), packets);
        }
        way.count_forwarded(packets, bytes);
        self.tick = TICK;
    }

    fn patience(&self) -> Duration {
        let waits = self.transmitters.iter().flatten().any(|transmitter| transmitter.in_flight() > 0);
        if waits { self.tick } else { LONG }
    }

    fn idle(&mut self) {
        self.tick = if self.flush_all() { TICK } else { (self.tick * 2).min(MAX_TICK) };
    }

    fn end(&mut self) {
        for transmitter in self.transmitters.iter_mut().flatten() {
            // What is left in a ring whose link is down is not sent; the account has it in flight.
            let _ = transmitter.finish(LAST_PATIENCE);
        }
    }
}

/// The system clock, in nanoseconds since 1970.
fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
