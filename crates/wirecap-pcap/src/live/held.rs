//! Packets that a handle has, and has not delivered yet.
//!
//! ```text
//!   queue 0 ── batch, batch ──► lane ──┐
//!   queue 1 ── batch ─────────► lane ──┴─► the earliest, if it is not younger than the round ──► next
//! ```
//!
//! A handle with one queue has one lane, whose packets are in order. With several, a *round* takes what waits
//! in all queues, and delivers in the order of times what is not younger than the round. What is younger is
//! left to the next one: earlier packets of other queues may still be on their way.

use std::{
    collections::VecDeque,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use wirecap::{Packet, Packets, port::LONGEST_HOLD};

use super::{counts::Counts, workers::CountedBatch};
use crate::boxed_batch::BoxedBatch;

/// With several queues, packets are delivered when they are as old as this: ports hold packets back, so that
/// more can join them, and a driver publishes those of one round together.
pub(super) const SETTLED: Duration = LONGEST_HOLD.saturating_add(Duration::from_millis(1));

/// The same in immediate mode, where a program publishes each packet as soon as it has stamped it, and ports
/// hold it back for 40 µs at most.
pub(super) const SETTLED_SOON: Duration = Duration::from_micros(200);

/// Packets that are younger than the round by more than this are not waited for.
const CLOCK_SET_BACK_NS: u64 = 1_000_000_000;

/// A batch with its packets.
struct HeldBatch {
    /// The next packet, if it was looked at. Before the batch, as `packets`, so that it is dropped first.
    head: Option<Packet<'static>>,
    packets: Packets<'static>,
    _batch: BoxedBatch,
}

impl HeldBatch {
    fn new(batch: wirecap::Batch) -> Self {
        let batch = BoxedBatch::new(batch);
        // SAFETY: the packets are dropped before the batch, and `Held` lends none for longer than it is
        // borrowed itself.
        let packets = unsafe { batch.get() }.packets();
        Self { head: None, packets, _batch: batch }
    }

    fn len(&self) -> usize {
        self.packets.len() + usize::from(self.head.is_some())
    }

    #[inline]
    fn next(&mut self) -> Option<Packet<'static>> {
        self.head.take().or_else(|| self.packets.next())
    }

    fn peek(&mut self) -> Option<&Packet<'static>> {
        if self.head.is_none() {
            self.head = self.packets.next();
        }
        self.head.as_ref()
    }
}

/// The batches of a queue.
struct Lane {
    port: usize,
    queue: u16,
    /// The first may be at its end: the program has a pointer into it until the next packet is taken.
    batches: VecDeque<HeldBatch>,
}

impl Lane {
    /// The next packet.
    #[inline]
    fn next(&mut self) -> Option<Packet<'static>> {
        loop {
            let packet = self.batches.front_mut()?.next();
            if packet.is_some() || self.batches.len() == 1 {
                return packet;
            }
            self.batches.pop_front();
        }
    }

    /// The batch of the next packet. Those before it stay: the program may point into one.
    fn unread(&mut self) -> Option<&mut HeldBatch> {
        self.batches.iter_mut().find(|batch| batch.len() > 0)
    }

    /// The time of the next packet.
    fn next_ns(&mut self) -> Option<u64> {
        Some(self.unread()?.peek()?.timestamp_ns())
    }

    /// Gives back what was read.
    fn drop_read(&mut self) {
        while self.batches.front().is_some_and(|batch| batch.len() == 0) {
            self.batches.pop_front();
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.batches.iter().map(HeldBatch::len).sum()
    }
}

/// The packets of a handle.
pub(crate) struct Held {
    /// At least one.
    lanes: Vec<Lane>,
    counts: Counts,
    /// Packets that are younger are left to the next round; in nanoseconds since 1970.
    bound_ns: u64,
    has_round: bool,
}

impl Held {
    /// With this batch.
    pub(super) fn new(batch: CountedBatch) -> Self {
        let (counts, bound_ns) = (batch.counts.clone(), u64::MAX);
        let mut held = Self { lanes: Vec::with_capacity(1), counts, bound_ns, has_round: false };
        held.push(batch);
        held
    }

    /// Adds a batch, which is younger than those of its queue.
    pub(super) fn push(&mut self, CountedBatch { batch, counts }: CountedBatch) {
        counts.take(batch.len());
        let (port, queue) = (batch.port(), batch.queue());
        let batch = HeldBatch::new(batch);
        match self.lanes.iter_mut().find(|lane| (lane.port, lane.queue) == (port, queue)) {
            Some(lane) => lane.batches.push_back(batch),
            None => self.lanes.push(Lane { port, queue, batches: VecDeque::from([batch]) }),
        }
    }

    /// The next packet; `None` if all that are left are younger than the round. Its bytes are there until the
    /// next call, or until this value is dropped.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Packet<'_>> {
        match &mut self.lanes[..] {
            [lane] if self.bound_ns == u64::MAX => lane.next(),
            _ => self.next_in_order(),
        }
    }

    fn next_in_order(&mut self) -> Option<Packet<'_>> {
        let (time_ns, index) = self.earliest()?;
        self.is_of_round(time_ns).then(|| self.lanes[index].next())?
    }

    /// The time of the next packet, and its lane.
    fn earliest(&mut self) -> Option<(u64, usize)> {
        let lanes = self.lanes.iter_mut().enumerate();
        lanes.filter_map(|(index, lane)| Some((lane.next_ns()?, index))).min()
    }

    /// Whether a packet is there that is not younger than the round.
    pub(super) fn is_due(&mut self) -> bool {
        self.earliest().is_some_and(|(time_ns, _)| self.is_of_round(time_ns))
    }

    /// A packet that is much younger is of a time when the clock was ahead.
    fn is_of_round(&self, time_ns: u64) -> bool {
        time_ns <= self.bound_ns || time_ns - self.bound_ns > CLOCK_SET_BACK_NS
    }

    /// Begins a round of packets that are not younger than `round_ns`. The packet before must not be used any
    /// more. If all packets are later than `now_ns`, their times are of another clock: all are of the round.
    pub(super) fn begin_round(&mut self, round_ns: u64, now_ns: u64) {
        self.lanes.iter_mut().for_each(Lane::drop_read);
        let is_younger = self.earliest().is_some_and(|(time_ns, _)| time_ns > now_ns);
        self.bound_ns = if is_younger { u64::MAX } else { round_ns };
        self.has_round = true;
    }

    /// Whether a round has begun, since the first batch came.
    pub(super) fn has_round(&self) -> bool {
        self.has_round
    }

    /// How long it takes until a packet can be delivered, which is when it is as old as `settled`.
    pub(super) fn time_to_due(&mut self, now_ns: u64, settled: Duration) -> Duration {
        match self.earliest() {
            Some((time_ns, _)) if self.has_round && !self.is_of_round(time_ns) => {
                let due_ns = time_ns.saturating_add(settled.as_nanos() as u64);
                Duration::from_nanos(due_ns.saturating_sub(now_ns)).clamp(Duration::from_micros(1), settled)
            }
            _ => Duration::ZERO,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        // From the end, where those are that were not read.
        self.lanes.iter().all(|lane| lane.batches.iter().rev().all(|batch| batch.len() == 0))
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.lanes.iter().map(Lane::len).sum()
    }

    /// Where its packets count.
    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Skips packets while `is_refused` holds; returns their number.
    pub(super) fn skip(&mut self, mut is_refused: impl FnMut(&Packet<'_>) -> bool) -> u64 {
        let mut skipped = 0;
        loop {
            let earliest = self.earliest();
            let batch = earliest.and_then(|(_, index)| self.lanes[index].unread());
            let Some(batch) = batch else { return skipped };
            match batch.peek() {
                Some(packet) if is_refused(packet) => {
                    batch.head = None;
                    skipped += 1;
                }
                _ => return skipped,
            }
        }
    }
}

/// The time, as packets have it.
pub(super) fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use wirecap::{Batch, Capture, Worker, port::null::NullPort};

    use super::*;

    /// A worker of a port in memory with this number of queues, each with three packets.
    fn worker(queues: u16) -> (Capture, Worker) {
        let port = NullPort { queues, packet_bytes: 60, packets_per_queue: 3 };
        let mut capture = Capture::builder().port(port).workers(1).chunks_per_pool(4).open().unwrap();
        let worker = capture.take_workers().remove(0);
        (capture, worker)
    }

    fn counted(batch: Batch) -> CountedBatch {
        CountedBatch { batch, counts: Counts::default() }
    }

    fn times(held: &mut Held) -> Vec<u64> {
        std::iter::from_fn(|| held.next().map(|packet| packet.timestamp_ns())).collect()
    }

    #[test]
    fn packets_of_several_queues_come_in_the_order_of_time_up_to_the_round() {
        let (_capture, mut worker) = worker(3);
        let batches: Vec<_> = (0..3).map(|_| worker.next_batch().unwrap()).collect();
        let last_ns = |batch: &Batch| batch.packets().last().unwrap().timestamp_ns();
        let round_ns = last_ns(&batches[1]);
        // The last one is added first.
        let mut batches = batches.into_iter().rev().map(counted);
        let mut held = Held::new(batches.next().unwrap());
        batches.for_each(|batch| held.push(batch));
        assert_eq!((held.len(), held.has_round()), (9, false));

        held.begin_round(round_ns, u64::MAX);
        assert!(held.is_due() && held.has_round());
        let of_round = times(&mut held);
        assert!(of_round.len() >= 6 && of_round.is_sorted() && of_round[of_round.len() - 1] <= round_ns);
        assert_eq!(of_round.len() + held.len(), 9);

        assert!(held.is_empty() || held.time_to_due(round_ns + 2, SETTLED) > Duration::ZERO);
        held.begin_round(u64::MAX - 1, u64::MAX);
        assert_eq!(held.time_to_due(round_ns, SETTLED), Duration::ZERO);
        let left = held.len() as u64;
        assert_eq!(held.skip(|packet| packet.timestamp_ns() > round_ns), left);
        assert!(held.is_empty() && held.next().is_none());
    }

    #[test]
    fn packets_that_are_all_younger_are_of_the_round() {
        let (_capture, mut worker) = worker(1);
        let mut held = Held::new(counted(worker.next_batch().unwrap()));
        held.begin_round(1, 2);
        assert_eq!(times(&mut held).len(), 3);
    }
}
