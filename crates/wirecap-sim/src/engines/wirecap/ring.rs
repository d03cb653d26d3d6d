//! A receive queue with its ring and its pool: what both dispatches do with them.

use std::collections::VecDeque;

use wirecap_core::{Descriptor, Geometry, Pool, PoolId};

use super::time::Time;
use crate::{
    outcome::QueueOutcome,
    traffic::{Arrivals, Run},
};

/// Length of the packets, which nothing depends on.
const PACKET_BYTES: u32 = 60;

/// A receive queue: its packets, its ring, its pool.
pub(super) struct ReceiveQueue<'t> {
    pub(super) arrivals: Arrivals<'t>,
    /// Cells that the NIC has; the first `waiting` of them have packets.
    ring: VecDeque<u64>,
    ring_entries: u32,
    waiting: u64,
    pub(super) pool: Pool,
    pub(super) outcome: QueueOutcome,
    /// When the first packet that is lost came.
    first_loss_ns: Option<f64>,
}

impl<'t> ReceiveQueue<'t> {
    /// The queue of this number, whose ring has a chunk at least, and all the cells that it has room for.
    pub(super) fn new(number: usize, runs: &'t [Run], geometry: Geometry, ring_entries: u32) -> Self {
        let mut pool = Pool::new(PoolId { nic_id: 0, ring_id: number as u16 }, geometry, 0);
        pool.allow_runs(1);
        let mut queue = Self {
            arrivals: Arrivals::new(runs),
            ring: VecDeque::new(),
            ring_entries: ring_entries.max(geometry.cells_per_chunk()),
            waiting: 0,
            pool,
            outcome: QueueOutcome::default(),
            first_loss_ns: None,
        };
        queue.attach();
        queue
    }

    /// The packets that have come: they wait in the ring, or are lost if it has no cell for them.
    pub(super) fn arrive(&mut self, now: Time) {
        let room = self.room();
        let come = self.arrivals.take(now.0, room);
        self.waiting += come;
        self.outcome.offered += come;
        if come == room {
            self.first_loss_ns = self.first_loss_ns(now);
            let lost = self.arrivals.take(now.0, u64::MAX);
            self.outcome.not_captured += lost;
            self.outcome.offered += lost;
        }
    }

    /// Moves packets that wait out of the ring, up to the room in the current chunk.
    pub(super) fn fill(&mut self, now: Time) {
        self.arrive(now);
        let packets = self.waiting.min(self.pool.space().into());
        if packets == 0 {
            return;
        }
        self.waiting -= packets;
        let mut filler = self.pool.filler().expect("a chunk is attached, whose cells the NIC has");
        let packet = |address| Descriptor { address, len: PACKET_BYTES, more: false, timestamp_ns: 0 };
        filler.fill_all(self.ring.drain(..packets as usize).map(packet));
        filler.finish();
    }

    /// Gives free cells to the NIC, as far as its ring has room. Packets that came before could not use them,
    /// so [`ReceiveQueue::arrive`] goes first.
    pub(super) fn attach(&mut self) {
        let room = self.ring_entries - self.ring.len() as u32;
        self.pool.attach(room, |address| self.ring.push_back(address));
    }

    /// Whether the NIC has cells, with packets or without.
    pub(super) fn has_cells(&self) -> bool {
        !self.ring.is_empty()
    }

    /// Packets that wait in the ring, or in the current chunk.
    pub(super) fn backlog(&self) -> u64 {
        self.waiting + u64::from(self.pool.filled_cells())
    }

    /// When this many packets will wait in the ring if none leaves it; `None` if it has no cells for them, or
    /// fewer are left to come.
    pub(super) fn waiting_ns(&self, packets: u64, now: Time) -> Option<f64> {
        match packets.checked_sub(self.waiting) {
            None | Some(0) => Some(now.0),
            Some(more) if more > self.room() => None,
            Some(more) => self.arrivals.time_ns(more - 1),
        }
    }

    /// How many packets can still come before one is lost.
    fn room(&self) -> u64 {
        self.ring.len() as u64 - self.waiting
    }

    /// When the first packet came that has been lost until now; `None` if all are kept.
    pub(super) fn first_loss_ns(&self, now: Time) -> Option<f64> {
        let without_cell = || self.arrivals.time_ns(self.room());
        self.first_loss_ns.or_else(|| without_cell().filter(|come_ns| *come_ns <= now.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CELL_BYTES, SECOND_NS};

    #[test]
    fn a_packet_that_found_no_cell_is_lost_though_cells_come_home_before_it_is_counted() {
        let geometry = Geometry::new(64, 4, CELL_BYTES).unwrap();
        let runs = [Run { from_ns: 0.0, gap_ns: 1.0, packets: 1_000 }];
        let mut queue = ReceiveQueue::new(0, &runs, geometry, 64);
        // The current chunk is full and stays, as with a worker that has no room.
        queue.fill(Time(63.5));
        queue.attach();
        queue.fill(Time(99.5));
        assert_eq!((queue.outcome.offered, queue.outcome.lost(), queue.backlog()), (100, 0, 100));
        assert_eq!((queue.waiting_ns(64, Time(99.5)), queue.waiting_ns(65, Time(99.5))), (Some(127.0), None));
        assert_eq!((queue.first_loss_ns(Time(127.0)), queue.first_loss_ns(Time(128.0))), (None, Some(128.0)));
        queue.arrive(Time(199.5));
        let _handed_over = queue.pool.hand_over().expect("a full chunk");
        queue.fill(Time(199.5));
        queue.attach();
        assert_eq!((queue.outcome.offered, queue.outcome.lost()), (200, 72));
        assert_eq!(queue.first_loss_ns(Time(199.5)), Some(128.0));
        queue.arrive(Time(SECOND_NS as f64));
        assert_eq!(
            (queue.outcome.offered, queue.backlog()),
            (1_000, 128),
            "beside the chunk that was handed over"
        );
    }
}
