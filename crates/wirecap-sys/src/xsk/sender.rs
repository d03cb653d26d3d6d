//! Sends cells that user space has: captured on whatever port, as they lie.
//!
//! ```text
//!   ChunkRange (a whole packet) ──► tx ring ──► the driver, or a copy by the kernel
//!        │ split into single cells                          │
//!        └── in flight, by number of the cell ◄── completion ring
//!                        └── joined with its neighbours ──► ChunkRange ──► its pool
//! ```
//!
//! Rule: a cell that is in flight is the kernel's. Its token is kept here, and comes out only when the kernel
//! has completed the cell. Until then nothing writes to it, and no pool attaches it.
//!
//! What cannot be done with a cell that was sent, since its token went with it:
//!
//! ```compile_fail,E0382
//! # use wirecap_core::ChunkRange;
//! # use wirecap_sys::{memory::CellReader, xsk::Sender};
//! fn write_what_is_sent(sender: &mut Sender, reader: &CellReader, mut cell: ChunkRange) {
//!     sender.send_cell(reader, cell).unwrap();
//!     reader.bytes_mut(&mut cell, 0)[0] = 0;
//! }
//! ```

use std::{io, sync::Arc};

use wirecap_core::{ChunkRange, Descriptor};

use super::{
    MAX_PARTS, Socket, SocketConfig,
    abi::{RingDescriptor, XDP_PKT_CONTD},
    outlet::Outlet,
};
use crate::memory::{CellReader, PacketMemory};

/// The sending half of a [`Socket`].
#[derive(Debug)]
pub struct Sender {
    outlet: Outlet,
    memory: Arc<PacketMemory>,
    /// Binary logarithm of the size of a cell in bytes: what divides an address into cells.
    cell_shift: u32,
    /// By number of the cell in the memory: what is with the kernel. Cells are sent and come back mostly in
    /// the order in which they lie, so one cache line serves eight of them.
    in_flight: Box<[Option<ChunkRange>]>,
    /// Most cells of one packet: the kernel never completes what it refuses.
    max_parts: u32,
    /// Completions that name no cell in flight: 0, or a driver is broken.
    foreign: u64,
}

impl Sender {
    fn new(outlet: Outlet, memory: Arc<PacketMemory>, config: SocketConfig) -> Self {
        debug_assert!(memory.cell_bytes().is_power_of_two(), "the kernel takes no others");
        let cell_shift = memory.cell_bytes().trailing_zeros();
        let in_flight = (0..memory.len() >> cell_shift).map(|_| None).collect();
        let max_parts = if config.multi_buffer { outlet.capacity().min(MAX_PARTS as u32) } else { 1 };
        Self { outlet, memory, cell_shift, in_flight, max_parts, foreign: 0 }
    }

    /// No packet may have more cells: a driver takes no more in zero-copy (`xdp-zc-max-segs`).
    pub fn limit_parts(&mut self, max: u32) {
        self.max_parts = self.max_parts.min(max.max(1));
    }

    /// Whether a packet in this number of cells can be sent at all: in one, or in up to
    /// [`MAX_PARTS`](super::MAX_PARTS) where the socket was bound for packets in several.
    #[inline]
    pub fn takes(&self, cells: u32) -> bool {
        cells <= self.max_parts
    }

    /// Which entry of `in_flight` an address belongs to.
    #[inline]
    fn index(&self, address: u64) -> usize {
        (address >> self.cell_shift) as usize
    }

    /// How many more cells could be sent now.
    pub fn room(&mut self) -> u32 {
        self.outlet.room()
    }

    /// Whether this number of cells could be sent now.
    #[inline]
    pub fn has_room(&mut self, cells: u32) -> bool {
        self.outlet.has_room(cells)
    }

    /// Whether cells with this reader lie in the memory that it sends from.
    pub fn sends_from(&self, reader: &CellReader) -> bool {
        reader.is_of(&self.memory)
    }

    /// As [`Sender::send`], for a packet in a single cell: most are, and need no second look.
    ///
    /// # Errors
    /// The range as it was.
    #[inline]
    pub fn send_cell(&mut self, reader: &CellReader, cell: ChunkRange) -> Result<(), ChunkRange> {
        let Some(descriptor) = reader.first(&cell) else { return Err(cell) };
        let whole = cell.count() == 1 && !descriptor.more && descriptor.len > 0;
        let free = matches!(self.in_flight.get(self.index(descriptor.address)), Some(None));
        if !whole || !free || !self.has_room(1) || !reader.is_of(&self.memory) {
            return Err(cell);
        }
        self.stage(descriptor, cell);
        Ok(())
    }

    /// Puts a packet into the ring, all its parts in order: `ranges` are its cells. It is sent with
    /// [`Sender::flush`], or by the kernel when it comes by. `reader` is that of the pool they belong to.
    ///
    /// # Errors
    /// The ranges as they were, when there is no room or they are too many cells, when they do not name cells
    /// of that pool in this sender's memory, or when they are not one whole packet.
    pub fn send(
        &mut self,
        reader: &CellReader,
        ranges: [Option<ChunkRange>; 2],
    ) -> Result<(), [Option<ChunkRange>; 2]> {
        let cells: u32 = ranges.iter().flatten().map(ChunkRange::count).sum();
        if !self.takes(cells)
            || !self.has_room(cells)
            || !reader.is_of(&self.memory)
            || !self.is_packet(reader, &ranges)
        {
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
            let free = matches!(self.in_flight.get(self.index(descriptor.address)), Some(None));
            // The kernel refuses an empty part without a completion.
            if ended || !free || descriptor.len == 0 {
                return false;
            }
            ended = !descriptor.more;
            parts += 1;
        }
        ended && parts == expected
    }

    #[inline]
    fn stage(&mut self, descriptor: Descriptor, cell: ChunkRange) {
        let Descriptor { address, len, more, .. } = descriptor;
        let index = self.index(address);
        let options = if more { XDP_PKT_CONTD } else { 0 };
        self.outlet.stage(RingDescriptor { address, len, options });
        self.in_flight[index] = Some(cell);
    }

    /// Has the kernel send what was put into the ring: one publication, and a system call if the kernel wants
    /// one.
    ///
    /// # Errors
    /// The kernel's error: ENETDOWN when the interface is down, for instance. What is in the ring stays
    /// there, and is sent when it is up again.
    pub fn flush(&mut self) -> io::Result<()> {
        self.outlet.flush()
    }

    /// Takes back cells that were sent, and gives them to `home`, those that follow each other in a chunk as
    /// one range. Returns how many cells.
    pub fn complete(&mut self, mut home: impl FnMut(ChunkRange)) -> u32 {
        let Self { outlet, in_flight, cell_shift, foreign, .. } = self;
        let mut run: Option<ChunkRange> = None;
        let sent = outlet.complete(|address| {
            let index = (address >> *cell_shift) as usize;
            let Some(cell) = in_flight.get_mut(index).and_then(Option::take) else {
                *foreign += 1;
                return false;
            };
            run = Some(match run.take() {
                None => cell,
                Some(before) => before.join(cell).unwrap_or_else(|(before, cell)| {
                    home(before);
                    cell
                }),
            });
            true
        });
        run.map(home);
        sent
    }

    /// Cells that are with the kernel.
    pub fn in_flight(&self) -> u32 {
        self.outlet.flying()
    }

    /// System calls by which the kernel was asked to send: one for each flush that finds something to be
    /// sent, more where it takes few packets at once, none where the driver looks by itself.
    pub fn kicks(&self) -> u64 {
        self.outlet.kicks()
    }

    /// Packets that the kernel has taken and the driver has dropped, as far as it reports them: in copy mode.
    pub fn dropped(&self) -> u64 {
        self.outlet.dropped()
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
    /// The kernel's error when it is asked for the mode.
    pub fn take_sender(&mut self) -> io::Result<Option<Sender>> {
        let Some(outlet) = self.take_outlet()? else { return Ok(None) };
        Ok(Some(Sender::new(outlet, Arc::clone(&self.memory), self.config)))
    }
}
