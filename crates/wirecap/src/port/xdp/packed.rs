//! Packets that the XDP program packs into blocks, where the driver has no zero-copy.
//!
//! ```text
//!   packet ──► XDP program ── copies it behind the last one ──► block of its queue ── a part ──► PackedQueue ──► pool
//! ```
//!
//! Rule: there is no socket. The program is on the interface for as long as its link is held, and drops what
//! it has packed.

use std::{ops::Range, sync::Arc};

use wirecap_core::PoolId;
use wirecap_filter::UserFilter;
use wirecap_sys::{
    clock::StampClock,
    memory::LivePool,
    packed::{PackedError, PackedMemory, PackedStream},
};

use super::stamp_reader::StampReader;
use crate::{
    packet::ChunkReader,
    port::{
        intake::Intake,
        queue::{Look, OpenQueue, QueueCounts, ReceiveQueue, Waiting},
    },
    program::CaptureProgram,
};

/// One receive queue of a port whose program packs packets.
#[derive(Debug)]
pub(super) struct PackedQueue {
    stream: PackedStream,
    program: Arc<CaptureProgram>,
    queue: u32,
    cell_bytes: u32,
    /// Decides what the kernel has not.
    filter: Option<Arc<UserFilter>>,
    /// Packets that it has refused.
    refused: u64,
    stamps: StampReader,
    /// The last counters that could be read.
    last: QueueCounts,
}

impl PackedQueue {
    /// The queue `id` of an interface, whose packets `program` packs into the stream of its number.
    pub(super) fn open(
        memory: &Arc<PackedMemory>,
        id: PoolId,
        program: &Arc<CaptureProgram>,
        filter: Option<Arc<UserFilter>>,
        stamps: StampReader,
    ) -> Result<OpenQueue, PackedError> {
        let queue = u32::from(id.ring_id);
        let (mut stream, mut pool, reader) = memory.open_stream(queue, id)?.expect("a stream for each queue");
        let waker = Some(stream.waker());
        stream.attach(Some(&mut pool));
        let cell_bytes = pool.geometry().cell_bytes();
        let program = Arc::clone(program);
        let last = QueueCounts::default();
        let queue = Self { stream, program, queue, cell_bytes, filter, refused: 0, stamps, last };
        Ok(OpenQueue { waker, ..OpenQueue::new(queue, pool, ChunkReader::Packed(reader)) })
    }

    /// Cells that these bytes take.
    fn cells(&self, bytes: &Range<u64>) -> u32 {
        (bytes.end - bytes.start).div_ceil(self.cell_bytes.into()) as u32
    }
}

impl ReceiveQueue for PackedQueue {
    fn receive(&mut self, _max: u32, intake: &mut Intake<'_>) {
        let Self { stream, filter, refused, stamps, .. } = self;
        let batch = intake.batch;
        let mut times = stamps.times(batch.now_ns);
        let part = stream.receive(batch.end, intake.space(), |packet| {
            let is_wanted =
                filter.as_ref().is_none_or(|filter| filter.wants(packet.data(), packet.original_len()));
            if is_wanted {
                packet.set_time(intake.times.next(times(packet.stamp())));
            }
            *refused += u64::from(!is_wanted);
            is_wanted
        });
        if let Some(part) = part {
            intake.take_part(part);
        }
    }

    fn attach(&mut self, pool: Option<&mut LivePool>) {
        self.stream.attach(pool);
    }

    fn backlog(&self) -> u32 {
        self.cells(&self.stream.waiting())
    }

    fn look(&self) -> Look {
        let bytes = self.stream.waiting();
        let (outlook, unreceived) = (self.stamps.outlook(!bytes.is_empty()), self.cells(&bytes));
        Look { waiting: Some(Waiting { cells: bytes, may_refuse: true }), unreceived, outlook }
    }

    fn counts(&mut self) -> QueueCounts {
        if let Ok(program) = self.program.counts(self.queue) {
            self.last = QueueCounts {
                filtered: program.filtered + self.refused,
                // The reader also counts implausible stamps.
                unstamped: program.unstamped.max(self.stamps.unknown()),
                ..program
            };
        }
        self.last
    }

    fn stamp_clock(&self) -> Option<&StampClock> {
        self.stamps.clock()
    }
}
