//! The `null` port: packets from nowhere, as fast as they are taken.
//!
//! Cells that are attached count as filled at once, with whatever is in memory, so that a
//! measurement shows the engine alone: capture, hand over, read, recycle.

use std::{os::fd::OwnedFd, sync::Arc};

use wirecap_core::{Descriptor, Pool};
use wirecap_sys::{clock::StampClock, memory::HEAD_ROOM_BYTES};

pub use crate::config::NullPort;

use super::{Intake, Outlook, QueueCounts, ReceiveQueue, Waiting};

#[derive(Debug)]
pub(crate) struct NullQueue {
    /// The cells the "kernel" has: a ring like the real one.
    /// INVARIANT: the length is a power of two, and `head <= tail <= head + length`.
    cells: Box<[u64]>,
    head: usize,
    tail: usize,
    packet_bytes: u32,
    cell_payload: u32,
    /// Bytes of the packet that was begun and is not whole.
    remaining: u32,
    left: u64,
    seen: u64,
}

impl NullQueue {
    pub(crate) fn new(port: &NullPort, pool: &mut Pool) -> Self {
        let geometry = pool.geometry();
        let cell_payload = geometry.cell_bytes() - HEAD_ROOM_BYTES;
        // Long enough that a packet lies in two at most.
        pool.allow_runs(port.packet_bytes.div_ceil(cell_payload));
        Self {
            cells: vec![0; geometry.ring_entries() as usize].into(),
            head: 0,
            tail: 0,
            packet_bytes: port.packet_bytes,
            cell_payload,
            remaining: 0,
            left: port.packets_per_queue,
            seen: 0,
        }
    }

    fn filled(&self) -> usize {
        self.tail - self.head
    }

    fn next_cell(&mut self) -> u64 {
        let cell = self.cells[self.head & (self.cells.len() - 1)];
        self.head += 1;
        cell
    }

    /// The next part of a packet of several cells.
    fn next_part(&mut self) -> Option<Descriptor> {
        if self.filled() == 0 || (self.remaining == 0 && self.left == 0) {
            return None;
        }
        if self.remaining == 0 {
            self.left -= 1;
            self.seen += 1;
            self.remaining = self.packet_bytes;
        }
        let len = self.remaining.min(self.cell_payload);
        self.remaining -= len;
        let (address, more) = (self.next_cell() + u64::from(HEAD_ROOM_BYTES), self.remaining > 0);
        Some(Descriptor { address, len, more, timestamp_ns: 0 })
    }
}

impl ReceiveQueue for NullQueue {
    fn receive(&mut self, max: u32, intake: &mut Intake<'_>) {
        if self.remaining > 0 || self.packet_bytes > self.cell_payload {
            return intake.take((0..max).map_while(|_| self.next_part()));
        }
        let count = (self.filled() as u64).min(u64::from(max)).min(self.left);
        let (len, mask) = (self.packet_bytes, self.cells.len() - 1);
        intake.take((self.head..self.head + count as usize).map(|index| {
            let address = self.cells[index & mask] + u64::from(HEAD_ROOM_BYTES);
            Descriptor { address, len, more: false, timestamp_ns: 0 }
        }));
        self.head += count as usize;
        self.left -= count;
        self.seen += count;
    }

    fn attach(&mut self, pool: &mut Pool) {
        let (room, mask) = (self.cells.len() - self.filled(), self.cells.len() - 1);
        pool.attach(room as u32, |cell| {
            self.cells[self.tail & mask] = cell;
            self.tail += 1;
        });
    }

    fn tidy(&mut self, _gives: bool) {}

    fn backlog(&self) -> u32 {
        (self.filled() as u64).min(self.left.saturating_add(u64::from(self.remaining > 0))) as u32
    }

    fn unreceived(&self) -> u32 {
        0
    }

    fn waiting(&self) -> Option<Waiting> {
        let first = self.head as u64;
        Some(Waiting { cells: first..first + u64::from(self.backlog()), may_refuse: false })
    }

    fn counts(&mut self) -> QueueCounts {
        QueueCounts { seen: self.seen, ..QueueCounts::default() }
    }

    fn waker(&self) -> Option<Arc<OwnedFd>> {
        None
    }

    /// As of an interface: also what waits gets its time when it is received.
    fn outlook(&self, _now_ns: u64) -> Outlook {
        Outlook::OnReceipt
    }

    fn stamp_clock(&self) -> Option<&StampClock> {
        None
    }

    fn can_wait(&self) -> bool {
        false
    }

    fn is_at_end(&self) -> bool {
        false
    }
}
