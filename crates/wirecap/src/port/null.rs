//! The `null` port: packets from nowhere, as fast as they are taken.
//!
//! Cells that are attached count as filled at once, with whatever is in memory, so that a
//! measurement shows the engine alone: capture, hand over, read, recycle.

use std::{collections::VecDeque, os::fd::OwnedFd};

use wirecap_core::{Descriptor, Pool};

use super::{QueueCounts, ReceiveQueue};

/// Where the kernel would put a packet in its cell.
const HEADROOM_BYTES: u64 = 256;

/// A port that makes packets of nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NullPort {
    /// Number of receive queues.
    pub queues: u16,
    /// Length of each packet in bytes. Longer ones than a cell holds come in several parts.
    pub packet_bytes: u32,
    /// Packets each queue makes, then it falls silent.
    pub packets_per_queue: u64,
}

#[derive(Debug)]
pub(crate) struct NullQueue {
    /// Cells the "kernel" has. Room for all of the pool's from the start.
    cells: VecDeque<u64>,
    packet_bytes: u32,
    cell_payload: u32,
    /// Bytes of the packet that was begun and is not whole.
    remaining: u32,
    left: u64,
    seen: u64,
}

impl NullQueue {
    pub(crate) fn new(port: &NullPort, cells: u32, cell_bytes: u32) -> Self {
        Self {
            cells: VecDeque::with_capacity(cells as usize),
            packet_bytes: port.packet_bytes,
            cell_payload: cell_bytes - HEADROOM_BYTES as u32,
            remaining: 0,
            left: port.packets_per_queue,
            seen: 0,
        }
    }
}

impl ReceiveQueue for NullQueue {
    #[inline]
    fn receive(&mut self, max: u32, mut take: impl FnMut(Descriptor)) -> u32 {
        let count = (self.cells.len() as u32).min(max);
        for taken in 0..count {
            if self.remaining == 0 {
                if self.left == 0 {
                    return taken;
                }
                self.left -= 1;
                self.seen += 1;
                self.remaining = self.packet_bytes;
            }
            let Some(cell) = self.cells.pop_front() else { return taken };
            let len = self.remaining.min(self.cell_payload);
            self.remaining -= len;
            take(Descriptor {
                address: cell + HEADROOM_BYTES,
                len,
                more: self.remaining > 0,
                timestamp_ns: 0,
            });
        }
        count
    }

    fn attach(&mut self, pool: &mut Pool) {
        let room = (self.cells.capacity() - self.cells.len()) as u32;
        pool.attach(room, |cell| self.cells.push_back(cell));
    }

    fn backlog(&self) -> u32 {
        (self.cells.len() as u64).min(self.left.saturating_add(u64::from(self.remaining > 0))) as u32
    }

    fn counts(&self) -> QueueCounts {
        QueueCounts { seen: self.seen, ..QueueCounts::default() }
    }

    fn waker(&self) -> Option<OwnedFd> {
        None
    }
}
