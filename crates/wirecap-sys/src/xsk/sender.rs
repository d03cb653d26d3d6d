//! Sends cells that user space has: captured on whatever port, as they lie.
//!
//! ```text
//!   ChunkRange (a whole packet) ──► tx ring ──► the driver, or a copy by the kernel
//!        │ split into single cells                          │
//!        └── in flight, by number of the cell ◄── completion ring
//!                        └── ChunkRange ──► its pool
//! ```
//!
//! Rule: a cell that is in flight is the kernel's. Its token is kept here, comes out only when the kernel has said that
//! the cell was sent, and never if it does not.

use std::{io, sync::Arc};

use wirecap_core::{ChunkRange, Descriptor};

use super::{
    Socket,
    abi::{RingDescriptor, XDP_PKT_CONTD},
    outlet::Outlet,
};
use crate::memory::{CellReader, PacketMemory};

/// The sending half of a [`Socket`].
#[derive(Debug)]
pub struct Sender {
    outlet: Outlet,
    memory: Arc<PacketMemory>,
    cell_bytes: u32,
    /// By number of the cell in the memory: what is with the kernel.
    in_flight: Box<[Option<ChunkRange>]>,
    /// Completions that name no cell in flight: 0, or a driver is broken.
    foreign: u64,
}

impl Sender {
    fn new(outlet: Outlet, memory: Arc<PacketMemory>, cell_bytes: u32) -> Self {
        let cells = memory.len() / u64::from(cell_bytes);
        let in_flight = (0..cells).map(|_| None).collect();
        Self { outlet, memory, cell_bytes, in_flight, foreign: 0 }
    }

    /// How many more cells could be sent now.
    pub fn room(&mut self) -> u32 {
        self.outlet.room()
    }

    /// Puts a packet into the ring, all its parts in order: `ranges` are its cells. It is sent with
    /// [`Sender::flush`], or by the kernel when it comes by. `reader` is that of the pool they belong to.
    ///
    /// # Errors
    /// The ranges as they were, when there is no room, when they do not name cells of that pool in this sender's
    /// memory, or when they are not one whole packet.
    pub fn send(
        &mut self,
        reader: &CellReader,
        ranges: [Option<ChunkRange>; 2],
    ) -> Result<(), [Option<ChunkRange>; 2]> {
        let cells: u32 = ranges.iter().flatten().map(ChunkRange::count).sum();
        if cells > self.room() || !reader.is_of(&self.memory) || !self.is_packet(reader, &ranges) {
            return Err(ranges);
        }
        for range in ranges.into_iter().flatten() {
            let mut rest = Some(range);
            while let Some(range) = rest.take() {
                let (cell, others) = range.split_at(1);
                rest = others;
                let Some(descriptor) = reader.descriptors(&cell).next() else { continue };
                self.stage(descriptor, cell);
            }
        }
        Ok(())
    }

    /// Whether the ranges are one packet from its beginning to its end, and none of its cells is in flight.
    fn is_packet(&self, reader: &CellReader, ranges: &[Option<ChunkRange>; 2]) -> bool {
        let expected: u32 = ranges.iter().flatten().map(ChunkRange::count).sum();
        let (mut parts, mut ended) = (0, false);
        for descriptor in ranges.iter().flatten().flat_map(|range| reader.descriptors(range)) {
            let index = descriptor.address / u64::from(self.cell_bytes);
            let free = matches!(self.in_flight.get(index as usize), Some(None));
            // The kernel refuses an empty part and never says so.
            if ended || !free || descriptor.len == 0 {
                return false;
            }
            ended = !descriptor.more;
            parts += 1;
        }
        ended && parts == expected
    }

    fn stage(&mut self, descriptor: Descriptor, cell: ChunkRange) {
        let Descriptor { address, len, more, .. } = descriptor;
        let index = (address / u64::from(self.cell_bytes)) as usize;
        let options = if more { XDP_PKT_CONTD } else { 0 };
        self.outlet.stage(RingDescriptor { address, len, options });
        self.in_flight[index] = Some(cell);
    }

    /// Has the kernel send what was put into the ring: one publication, and a system call if the kernel wants one.
    ///
    /// # Errors
    /// What the kernel said: ENETDOWN when the interface is down, for instance. What is in the ring stays there, and is
    /// sent when it is up again.
    pub fn flush(&mut self) -> io::Result<()> {
        self.outlet.flush()
    }

    /// Takes back cells that were sent, and gives them to `home`. Returns how many.
    pub fn complete(&mut self, mut home: impl FnMut(ChunkRange)) -> u32 {
        let Self { outlet, in_flight, cell_bytes, foreign, .. } = self;
        outlet.complete(|address| {
            let index = address / u64::from(*cell_bytes);
            match in_flight.get_mut(index as usize).and_then(Option::take) {
                Some(cell) => home(cell),
                None => {
                    *foreign += 1;
                    return false;
                }
            }
            true
        })
    }

    /// Cells that are with the kernel.
    pub fn in_flight(&self) -> u32 {
        self.outlet.flying()
    }

    /// Completions that named no cell in flight; 0 unless a driver is broken.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }
}

impl Socket {
    /// Takes the sending half out of a socket that has a transmit ring; once.
    ///
    /// # Errors
    /// What the kernel said to copying the descriptor.
    pub fn take_sender(&mut self) -> io::Result<Option<Sender>> {
        let Some(outlet) = self.take_outlet()? else { return Ok(None) };
        Ok(Some(Sender::new(outlet, Arc::clone(&self.memory), self.cell_bytes())))
    }
}
