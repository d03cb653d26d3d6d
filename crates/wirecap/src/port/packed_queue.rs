//! A queue whose packets a program packs into blocks.
//!
//! ```text
//!   packet ──► program ── copies it behind the last one ──► block of its stream ── a part ──► PackedQueue ──► pool
//! ```
//!
//! Rule: there is no socket. The stream is filled as long as a link keeps the program attached.

use std::{ops::Range, sync::Arc};

use wirecap_core::{Direction, PoolId};
use wirecap_filter::UserFilter;
use wirecap_sys::{
    clock::StampClock,
    memory::LivePool,
    packed::{PackedError, PackedMemory, PackedStream},
};

use super::{
    intake::Intake,
    queue::{Look, OpenQueue, QueueCounts, ReceiveQueue, Waiting},
    stamp_reader::StampReader,
};
use crate::{filter::packet_type, packet::ChunkReader, program::Counters};

/// Holds a few packets back for more that follow closely: a receiver that is close behind the program
/// contends with it for each cache line.
#[derive(Debug)]
struct Hold {
    /// When packets were received last, in nanoseconds since 1970 (UTC).
    received_ns: u64,
    /// The program gets free blocks: it is not the end.
    gives: bool,
}

impl Hold {
    /// How long after a part packets wait for more. Shorter than the shortest sleep, so that one sleep ends
    /// it.
    const NS: u64 = 40_000;
    /// This many bytes do not wait.
    const BYTES: u64 = 32 << 10;

    /// Whether this many bytes wait for more at `now_ns`, by a clock that may have been set back.
    fn applies(&self, bytes: u64, now_ns: u64) -> bool {
        self.gives && bytes < Self::BYTES && now_ns.abs_diff(self.received_ns) < Self::NS
    }
}

/// One stream of a port whose program packs packets: a receive queue, or a CPU.
#[derive(Debug)]
pub(crate) struct PackedQueue {
    stream: PackedStream,
    counters: Arc<Counters>,
    queue: u32,
    cell_bytes: u32,
    /// Decides what the kernel has not.
    filter: Option<Arc<UserFilter>>,
    /// Packets that it has refused.
    refused: u64,
    stamps: StampReader,
    hold: Hold,
    /// The last counters that could be read.
    last: QueueCounts,
}

impl PackedQueue {
    /// The queue `id` of an interface, whose packets a program packs into the stream of its number, and
    /// counts.
    pub(crate) fn open(
        memory: &Arc<PackedMemory>,
        id: PoolId,
        counters: &Arc<Counters>,
        filter: Option<Arc<UserFilter>>,
        stamps: StampReader,
    ) -> Result<OpenQueue, PackedError> {
        let queue = u32::from(id.ring_id);
        let (mut stream, mut pool, reader) = memory.open_stream(queue, id)?.expect("a stream for each queue");
        let waker = Some(stream.waker());
        stream.attach(Some(&mut pool));
        let cell_bytes = pool.geometry().cell_bytes();
        let counters = Arc::clone(counters);
        let last = QueueCounts::default();
        let hold = Hold { received_ns: 0, gives: true };
        let queue = Self { stream, counters, queue, cell_bytes, filter, refused: 0, stamps, hold, last };
        Ok(OpenQueue { waker, ..OpenQueue::new(queue, pool, ChunkReader::Packed(reader)) })
    }

    /// Cells that these bytes take.
    fn cells(&self, bytes: &Range<u64>) -> u32 {
        (bytes.end - bytes.start).div_ceil(self.cell_bytes.into()) as u32
    }
}

impl ReceiveQueue for PackedQueue {
    fn receive(&mut self, _max: u32, intake: &mut Intake<'_>) {
        let batch = intake.batch;
        if self.hold.applies(batch.end.saturating_sub(self.stream.received()), batch.now_ns) {
            return;
        }
        let Self { stream, filter, refused, stamps, .. } = self;
        let mut times = stamps.times(batch.now_ns);
        let part = stream.receive(batch.end, intake.space(), |packet| {
            let is_wanted = filter.as_ref().is_none_or(|filter| {
                // Without a direction it came in.
                let direction = packet.direction().unwrap_or(Direction::In);
                filter.wants_of_type(packet_type(direction), packet.data(), packet.original_len())
            });
            if is_wanted {
                packet.set_time(intake.times.next(times(packet.stamp())));
            }
            *refused += u64::from(!is_wanted);
            is_wanted
        });
        if let Some(part) = part {
            intake.take_part(part);
            self.hold.received_ns = batch.now_ns;
        }
    }

    fn attach(&mut self, pool: Option<&mut LivePool>) {
        self.hold.gives = pool.is_some();
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
        if let Ok(program) = self.counters.of(self.queue) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_packets_that_follow_closely_wait_for_more() {
        let hold = Hold { received_ns: 1_000_000, gives: true };
        for (bytes, now_ns, applies) in [
            (96, 1_000_000 + Hold::NS - 1, true),
            (96, 1_000_000 + Hold::NS, false),
            (Hold::BYTES - 1, 1_000_000, true),
            (Hold::BYTES, 1_000_000, false),
            // The clock was set back: a little, and far.
            (96, 1_000_000 - Hold::NS + 1, true),
            (96, 0, false),
        ] {
            assert_eq!(hold.applies(bytes, now_ns), applies, "{bytes} bytes at {now_ns}");
        }
        let at_the_end = Hold { gives: false, ..hold };
        assert!(!at_the_end.applies(96, 1_000_000));
    }
}
