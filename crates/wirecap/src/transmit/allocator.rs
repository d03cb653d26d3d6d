//! Makes packets from bytes, in cells of a pool that belongs to no receive queue.
//!
//! ```text
//!   bytes ── one copy ──► cell of the allocator ──► OwnedPacket ── forward ──► transmit ring of any port
//!                              ▲                    │ dropped               │ sent
//!                              └─── recycle queue ◄─┴───────────────────────┘
//! ```
//!
//! It also forwards packets that do not lie in cells: a packet that was captured passively lies in a
//! block of the kernel, which no transmit ring can name, so the allocator copies it once and counts the
//! bytes.

use std::sync::Arc;

use wirecap_core::{
    Geometry, PoolId, RecycleQueue, chunk::MAX_NICS, geometry::MIN_CELLS_PER_CHUNK_MULTI_BUFFER,
};
use wirecap_sys::memory::{CellWriter, LivePool, MemoryError, Note, PacketMemory};

use crate::{
    OwnedPacket, Packet,
    engine::{AllocatorHome, EngineState, batch::Owner},
};

/// The port that allocators belong to, by their names: one more than there can be.
const ALLOCATOR_NIC: u16 = MAX_NICS - 1;

/// An allocator before the engine runs: what all threads share of it, and what is its own.
pub(crate) type AllocatorParts = (AllocatorHome, (LivePool, CellWriter));

/// Carves the pools of allocators, each out of its memory.
pub(crate) fn carve<'m>(
    memories: impl Iterator<Item = &'m Arc<PacketMemory>>,
    geometry: Geometry,
) -> Result<Vec<AllocatorParts>, MemoryError> {
    let carve = |(ring_id, memory): (u16, &Arc<PacketMemory>)| {
        let mut pool = memory.carve(PoolId { nic_id: ALLOCATOR_NIC, ring_id }, geometry)?;
        pool.allow_runs(MIN_CELLS_PER_CHUNK_MULTI_BUFFER);
        let writer = CellWriter::new(&pool).expect("a new pool");
        let (reader, recycle) = (pool.reader(), RecycleQueue::new(&pool));
        Ok((AllocatorHome { reader, recycle }, (pool, writer)))
    };
    (0..).zip(memories).map(carve).collect()
}

/// Makes packets. From [`Builder::allocators`](crate::Builder::allocators); moved to the thread that uses it.
///
/// ```no_run
/// # let mut capture = wirecap::Capture::builder().port("eth1").transmit(1024).allocators(1).open()?;
/// # let mut out = capture.take_transmitters().remove(0);
/// let mut allocator = capture.take_allocators().remove(0);
/// let mut frame = [0; 60];
/// frame[..6].fill(0xff);
/// let packet = allocator.packet(&frame).expect("nothing else is out");
/// packet.forward(&mut out).map_err(|refused| format!("{:?}", refused.reason))?;
/// out.flush()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PacketAllocator {
    shared: Arc<EngineState>,
    index: usize,
    pool: LivePool,
    writer: CellWriter,
    numbers: u64,
    copied_bytes: u64,
    /// A packet of several parts in one piece.
    whole: Vec<u8>,
}

impl PacketAllocator {
    /// Those of an engine.
    pub(crate) fn all(shared: &Arc<EngineState>, pools: Vec<(LivePool, CellWriter)>) -> Vec<Self> {
        let allocator = |(index, (pool, writer))| {
            let shared = Arc::clone(shared);
            Self { shared, index, pool, writer, numbers: 0, copied_bytes: 0, whole: Vec::new() }
        };
        pools.into_iter().enumerate().map(allocator).collect()
    }

    /// A packet of these bytes, in as many cells as it takes, with head room and timestamp 0. `None` if too
    /// few cells are free, or if the packet is empty or longer than a chunk. Sent cells come home when the
    /// transmitter is flushed; the allocator can use them again once all M cells of their chunk, or 64 in a
    /// row, are home.
    pub fn packet(&mut self, bytes: &[u8]) -> Option<OwnedPacket<'static>> {
        self.make(bytes, 0)
    }

    /// A copy of a captured packet, as far as it was captured, with its timestamp. `None` as for
    /// [`PacketAllocator::packet`].
    pub fn copy_of(&mut self, packet: &Packet<'_>) -> Option<OwnedPacket<'static>> {
        self.make_of(packet.parts(), packet.timestamp_ns())
    }

    /// Keeps a packet for long, with its timestamp, as a copy: [keeping](OwnedPacket::keep) the packet itself
    /// would keep its cells from the pool of its receive queue. A packet of an allocator stays as it is.
    /// Drops the packet and returns `None` as for [`PacketAllocator::packet`].
    pub fn keep(&mut self, packet: OwnedPacket<'_>) -> Option<OwnedPacket<'static>> {
        if packet.is_copy() {
            return Some(packet.keep());
        }
        self.make_of(packet.parts(), packet.timestamp_ns())
    }

    fn make_of<'p>(
        &mut self,
        mut parts: impl Iterator<Item = &'p [u8]>,
        timestamp_ns: u64,
    ) -> Option<OwnedPacket<'static>> {
        let first = parts.next()?;
        let Some(second) = parts.next() else { return self.make(first, timestamp_ns) };
        let mut whole = std::mem::take(&mut self.whole);
        whole.clear();
        [first, second].into_iter().chain(parts).for_each(|part| whole.extend_from_slice(part));
        let made = self.make(&whole, timestamp_ns);
        self.whole = whole;
        made
    }

    /// Bytes that were copied into its cells so far.
    pub fn copied_bytes(&self) -> u64 {
        self.copied_bytes
    }

    fn make(&mut self, bytes: &[u8], timestamp_ns: u64) -> Option<OwnedPacket<'static>> {
        let geometry = self.pool.geometry();
        let cells = bytes.len().div_ceil(self.writer.payload_bytes()) as u32;
        if cells == 0 || cells > geometry.cells_per_chunk() {
            return None;
        }
        if !self.pool.fits(cells) {
            self.bring_home();
            if !self.pool.fits(cells) {
                return None;
            }
        }
        let (mut rest, note) = (bytes, Note { original_len: bytes.len() as u32, direction: None });
        let handover = loop {
            let mut filler = self.pool.filler()?;
            while !rest.is_empty() && filler.space() > 0 {
                let part = self.writer.write(note, rest)?;
                rest = &rest[part.len() as usize..];
                filler.fill(std::iter::once((part, timestamp_ns)));
            }
            filler.finish();
            // At the end of a chunk, what has begun goes on in the next one.
            match self.pool.hand_over() {
                Some(handover) => break handover,
                None if rest.is_empty() => return None,
                None => {}
            }
        };
        self.copied_bytes += bytes.len() as u64;
        self.numbers += 1;
        Some(OwnedPacket {
            owner: Owner::Engine {
                shared: Arc::clone(&self.shared),
                pool: self.shared.queues.len() + self.index,
            },
            ranges: [handover.lead, Some(handover.range)],
            len: bytes.len(),
            number: self.numbers - 1,
            timestamp_ns,
        })
    }

    fn bring_home(&mut self) {
        let Self { shared, index, pool, writer, .. } = self;
        // A refusal is counted by the pool.
        shared.allocators[*index].recycle.take_all(|range| {
            let _ = pool.recycle(range);
        });
        writer.attach(pool);
    }
}
