//! The `null` port: packets from nowhere, as fast as they are taken.
//!
//! Cells that are attached count as filled at once, with whatever is in memory, so that a
//! measurement shows the engine alone: capture, hand over, read, recycle.

use wirecap_sys::{
    clock::StampClock,
    memory::{CellWriter, FilledCell, LivePool},
};

pub use crate::config::NullPort;

use super::{
    contract::{OpenRequest, Port, PortFacts, PortPools, PreparedPort},
    intake::Intake,
    open_port::OpenPort,
    queue::{Look, OpenQueue, Outlook, QueueCounts, ReceiveQueue, WaitingCells},
};
use crate::{
    Config, Error, Timestamp,
    diagnostic::NicDataRefusal,
    filter::Expressions,
    packet::{ChunkReader, Front},
    program::rx_hash,
    report::QueueMode,
};

pub(super) fn look_up(name: String, port: NullPort) -> PreparedPort {
    let facts = PortFacts::without_interface(name, (0..port.queues).collect());
    PreparedPort::new(facts, port)
}

impl Port for NullPort {
    fn check(&self, facts: &PortFacts, config: &Config) -> Result<(), Error> {
        let name = || facts.name.clone();
        match config.timestamp {
            _ if Expressions::of(config).is_some() => Err(Error::NoFilter(name())),
            Some(Timestamp::File) => Err(Error::NoFile(name())),
            Some(wanted @ (Timestamp::Hardware | Timestamp::Kernel)) => {
                Err(Error::OnlyBatchTimestamps { name: name(), source_name: wanted.as_str() })
            }
            _ if config.rx_hash => Err(rx_hash::refusal(&facts.name, NicDataRefusal::NoInterface)),
            _ => Ok(()),
        }
    }

    fn open(self: Box<Self>, pools: PortPools, request: &OpenRequest<'_>) -> Result<OpenPort, Error> {
        let PortFacts { name, link_type, .. } = request.facts;
        let queues = pools.pools.into_iter().map(|mut pool| {
            let queue = NullQueue::new(&self, &mut pool);
            let reader = ChunkReader::Cells(pool.reader(), Front::Nothing);
            OpenQueue::new(queue, pool, reader)
        });
        Ok(OpenPort { queues: queues.collect(), ..OpenPort::new(name, QueueMode::Memory, *link_type) })
    }
}

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
        // Long enough that a packet lies in two runs at most.
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

    fn attach(&mut self, pool: Option<&mut LivePool>) {
        if let Some(pool) = pool {
            self.writer.attach(pool);
        }
    }

    fn backlog(&self) -> u32 {
        u64::from(self.writer.attached()).min(self.left.saturating_add(u64::from(self.remaining > 0))) as u32
    }

    /// As on an interface, packets that wait get their times when they are received.
    fn look(&self) -> Look {
        let first = self.writer.waiting().start;
        let cells = first..first + u64::from(self.backlog());
        Look {
            waiting: Some(WaitingCells { cells, may_refuse: false }),
            unreceived: 0,
            outlook: Outlook::OnReceipt,
        }
    }

    fn counts(&mut self) -> QueueCounts {
        QueueCounts { seen: self.seen, ..QueueCounts::default() }
    }

    fn stamp_clock(&self) -> Option<&StampClock> {
        None
    }
}
