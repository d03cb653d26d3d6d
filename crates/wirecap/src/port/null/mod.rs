//! The `null` port: packets from nowhere, as fast as they are taken.
//!
//! Cells that are attached count as filled at once, with whatever is in memory, so that a
//! measurement shows the engine alone: capture, hand over, read, recycle.

use wirecap_sys::{
    clock::StampClock,
    memory::{CellWriter, FilledCell, LivePool},
    wake::Waker,
};

pub use crate::config::NullPort;

use super::{Intake, Outlook, QueueCounts, ReceiveQueue, Waiting};

#[derive(Debug)]
pub(crate) struct NullQueue {
    writer: CellWriter,
    packet_bytes: u32,
    cell_payload: u32,
    /// Bytes of the packet that was begun and is not whole.
    remaining: u32,
    left: u64,
    seen: u64,
}

impl NullQueue {
    pub(crate) fn new(port: &NullPort, pool: &mut LivePool) -> Self {
        let writer = CellWriter::new(pool).expect("a new pool");
        let cell_payload = writer.payload_bytes() as u32;
        // Long enough that a packet lies in two at most.
        pool.allow_runs(port.packet_bytes.div_ceil(cell_payload));
        let (packet_bytes, left) = (port.packet_bytes, port.packets_per_queue);
        Self { writer, packet_bytes, cell_payload, remaining: 0, left, seen: 0 }
    }

    /// The next part of a packet of several cells.
    fn next_part(&mut self) -> Option<FilledCell> {
        if self.remaining == 0 && self.left == 0 {
            return None;
        }
        let rest = if self.remaining == 0 { self.packet_bytes } else { self.remaining };
        let len = rest.min(self.cell_payload);
        let part = self.writer.fill_unwritten(1, len, rest > len).next()?;
        if self.remaining == 0 {
            self.left -= 1;
            self.seen += 1;
        }
        self.remaining = rest - len;
        Some(part)
    }
}

impl ReceiveQueue for NullQueue {
    fn receive(&mut self, max: u32, intake: &mut Intake<'_>) {
        if self.remaining > 0 || self.packet_bytes > self.cell_payload {
            return intake.take((0..max).map_while(|_| self.next_part()));
        }
        let most = u64::from(max).min(self.left) as u32;
        let cells = self.writer.fill_unwritten(most, self.packet_bytes, false);
        let count = cells.len() as u64;
        intake.take(cells);
        self.left -= count;
        self.seen += count;
    }

    fn attach(&mut self, pool: &mut LivePool) {
        self.writer.attach(pool);
    }

    fn tidy(&mut self, _gives: bool) {}

    fn backlog(&self) -> u32 {
        u64::from(self.writer.attached()).min(self.left.saturating_add(u64::from(self.remaining > 0))) as u32
    }

    fn unreceived(&self) -> u32 {
        0
    }

    fn waiting(&self) -> Option<Waiting> {
        let first = self.writer.waiting().start;
        Some(Waiting { cells: first..first + u64::from(self.backlog()), may_refuse: false })
    }

    fn counts(&mut self) -> QueueCounts {
        QueueCounts { seen: self.seen, ..QueueCounts::default() }
    }

    fn waker(&self) -> Option<Waker> {
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
