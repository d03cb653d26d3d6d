//! What a worker gets: packets of one receive queue, with the cells that hold them.
//!
//! ```text
//!   Batch (filled cells of one chunk) ── packets() ──► Packet: borrows from the cells
//!     │                               └─ drain() ────► OwnedPacket: takes its cells out
//!     │                   of a block ─── pcapng() ───► PcapngBlocks: its packets as in a file, where they lie
//!     └─ dropped: the cells go home
//! ```
//!
//! Where packets lie in a block, a batch is a part of it, or all of it; nothing can be taken out.

mod drain;
mod owned_packet;
mod pcapng;

use std::{fmt, sync::Arc};

use wirecap_core::Handover;

pub(crate) use self::owned_packet::Owner;
pub use self::{
    drain::Drain,
    owned_packet::OwnedPacket,
    pcapng::{PcapngBlock, PcapngBlocks},
};
use super::EngineState;
use crate::{Packet, Packets};

/// Packets of one receive queue, in the order in which they came.
///
/// A worker may hold a batch for as long as it needs, and send it to another thread. The pool lacks the cells
/// of the batch until it is dropped, and no others: once many cells of a chunk are home, they go to the
/// kernel in runs of neighbours, and later batches are as short as these runs. Where packets may be longer
/// than a cell, and in trace files, short runs stay at home, so each small batch that is kept may cost a
/// whole chunk, as it does where a chunk is a block: copy what you keep there. Dropping a batch recycles it.
/// Cost of both: a few atomic operations for the whole batch.
pub struct Batch {
    shared: Arc<EngineState>,
    queue: usize,
    first_number: u64,
    uncertainty_ns: u64,
    /// INVARIANT: `Some` until it is drained or dropped.
    handover: Option<Handover>,
}

impl Batch {
    pub(crate) fn new(shared: Arc<EngineState>, queue: usize, handover: Handover) -> Self {
        let Handover { first_number, uncertainty_ns, .. } = handover;
        Self { shared, queue, first_number, uncertainty_ns, handover: Some(handover) }
    }

    /// Number of its packets.
    pub fn len(&self) -> usize {
        self.handover.as_ref().map_or(0, |handover| handover.packets as usize)
    }

    /// Whether it was drained: workers get no empty batches.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all these packets together.
    pub fn bytes(&self) -> u64 {
        self.handover.as_ref().map_or(0, |handover| handover.bytes.into())
    }

    /// How much earlier than [`Packet::timestamp_ns`] its packets may have reached their ring, at most, in
    /// nanoseconds. With times of batches ([`Timestamp::Batch`]) it is the time between two looks at the
    /// ring, and holds wherever the reading thread stalled; how far off the clock itself may be is in
    /// [`TimestampReport::error_bound_ns`]. With stamped packets it is 0, or a few nanoseconds where stamps
    /// were equal.
    ///
    /// ```
    /// # use wirecap::{Capture, port::null::NullPort};
    /// # let port = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 10 };
    /// # let mut capture = Capture::builder().port(port).chunks_per_pool(4).open()?;
    /// # let mut worker = capture.take_workers().remove(0);
    /// let batch = worker.next_batch().expect("ten packets");
    /// for packet in &batch {
    ///     let (earliest_ns, latest_ns) = (packet.timestamp_ns() - batch.uncertainty_ns(), packet.timestamp_ns());
    ///     assert!(earliest_ns < latest_ns);
    /// }
    /// # Ok::<(), wirecap::Error>(())
    /// ```
    ///
    /// [`Timestamp::Batch`]: crate::Timestamp::Batch
    /// [`TimestampReport::error_bound_ns`]: crate::TimestampReport::error_bound_ns
    pub fn uncertainty_ns(&self) -> u64 {
        self.uncertainty_ns
    }

    /// Which port the packets came from, by its position in the list of ports.
    pub fn port(&self) -> usize {
        self.shared.queues[self.queue].port
    }

    /// Which receive queue of the port they came from.
    pub fn queue(&self) -> u16 {
        self.shared.queues[self.queue].ring_id
    }

    /// Number of the first packet: how many packets of this queue came before it. Batches of a queue
    /// that went to several workers can be put in order by it.
    pub fn first_number(&self) -> u64 {
        self.first_number
    }

    /// Takes the packets out, each with its cells, to change them in place, forward or keep them. Dropping
    /// the drain recycles the rest.
    ///
    /// Packets of an interface can be taken out if the settings say so, whatever its driver: by
    /// [`Config::keep_packets`](crate::Config::keep_packets), transmit rings or packet allocators. `None`
    /// without them; `None` on a passive port, where packets lie in blocks; and `None` for a batch that was
    /// drained before.
    pub fn drain(&mut self) -> Option<Drain<'_>> {
        let (shared, index) = (&self.shared, self.queue);
        let queue = &shared.queues[index];
        let reader = queue.reader.cells().filter(|_| queue.can_drain)?;
        let Handover { lead, range, first_number: number, .. } = self.handover.take()?;
        Some(Drain { queue, reader, shared, index, lead, rest: Some(range), number })
    }

    /// The packets.
    pub fn packets(&self) -> Packets<'_> {
        match &self.handover {
            Some(handover) => Packets::of(&self.shared.queues[self.queue].reader, handover),
            None => Packets::none(self.first_number),
        }
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Batch").field("queue", &self.queue).field("handover", &self.handover).finish()
    }
}

impl<'b> IntoIterator for &'b Batch {
    type Item = Packet<'b>;
    type IntoIter = Packets<'b>;

    fn into_iter(self) -> Packets<'b> {
        self.packets()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if let Some(handover) = self.handover.take() {
            self.shared.queues[self.queue].send_home(handover);
        }
    }
}
