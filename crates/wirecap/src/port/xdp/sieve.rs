//! A filter in user space on an AF_XDP port: what is not wanted goes back to the kernel before its pool knows
//! of it.
//!
//! ```text
//!   rx ring ──► one cell: wanted? ──► intake
//!           └─► several:  parts, until the packet is whole ──► wanted? ──► intake, as there is space
//!   not wanted ──► fill ring
//! ```
//!
//! So packets that are not wanted have no number, take no slot, and the chunk fills up with those that are.

use std::{collections::VecDeque, sync::Arc};

use wirecap_filter::UserFilter;
use wirecap_sys::{
    memory::FilledCell,
    xsk::{Contents, Socket},
};

use crate::port::{intake::Intake, stamp_reader::StampReader};

/// Cells received between two times that refused ones are given back.
const AT_ONCE: u32 = 256;
/// The longest packet that several buffers hold, in bytes, about.
const LARGEST_PACKET_BYTES: usize = 64 << 10;

/// The filter of one queue.
#[derive(Debug)]
pub(crate) struct Sieve {
    filter: Arc<UserFilter>,
    /// Packets that could not be passed on yet, each part with the number it had in the ring.
    parts: VecDeque<(u64, FilledCell)>,
    /// INVARIANT: this number of `parts`, from the front, are of packets that are whole and wanted. The
    /// others are of one packet that is not whole.
    wanted: usize,
    /// Cells that are not wanted and wait for room in the fill ring. The kernel makes room a little after it
    /// has handed over what it filled. Has room for the whole pool.
    refused: Vec<FilledCell>,
    /// Cells are still given to the kernel.
    gives: bool,
    /// A packet of several cells in one piece.
    whole: Vec<u8>,
    /// Packets that were not wanted.
    pub(super) filtered: u64,
}

impl Sieve {
    /// For a queue whose pool has `cells_per_pool` cells.
    pub(crate) fn new(filter: Arc<UserFilter>, cells_per_pool: u32) -> Self {
        Self {
            filter,
            parts: VecDeque::with_capacity(2 * AT_ONCE as usize),
            wanted: 0,
            refused: Vec::with_capacity(cells_per_pool as usize),
            gives: true,
            whole: Vec::with_capacity(LARGEST_PACKET_BYTES),
            filtered: 0,
        }
    }

    /// Number of the oldest cell that was not passed on yet, if there is one.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.parts.front().map(|(number, _)| *number)
    }

    /// Cells that are wanted and wait for space.
    pub(crate) fn wanted(&self) -> u32 {
        self.wanted as u32
    }

    /// Cells that it has, wanted, refused, or of a packet that is not whole.
    pub(crate) fn kept(&self) -> u32 {
        (self.parts.len() + self.refused.len()) as u32
    }

    /// Gives refused cells back, as far as there is room for them. Without `gives`, the kernel gets no more
    /// cells from now on.
    pub(crate) fn tidy(&mut self, socket: &mut Socket, gives: bool) {
        self.gives = gives;
        self.give_back(socket);
    }

    fn give_back(&mut self, socket: &mut Socket) {
        if self.gives && !self.refused.is_empty() {
            socket.give_back(&mut self.refused);
        }
    }

    /// Goes through what was seen in the ring, until `intake` has `max` cells more.
    pub(crate) fn receive(
        &mut self,
        socket: &mut Socket,
        stamps: &mut StampReader,
        max: u32,
        intake: &mut Intake<'_>,
    ) {
        let mut left =
            (intake.batch.end.saturating_sub(socket.waiting().start)).min(socket.filled().into()) as u32;
        let min_space = intake.space().saturating_sub(max);
        loop {
            let space = intake.space() - min_space;
            let ready = (space as usize).min(self.wanted);
            if let Some(contents) = socket.contents() {
                stamps.take(self.parts.drain(..ready).map(|(_, part)| part), contents, intake);
                self.wanted -= ready;
            }
            self.give_back(socket);
            let count = left.min(intake.space() - min_space).min(AT_ONCE);
            if count == 0 {
                return;
            }
            left -= count;
            let first = socket.waiting().start;
            if let Some(receiving) = socket.receive(count) {
                let contents = receiving.contents();
                let wanted = receiving
                    .zip(first..)
                    .filter_map(|(received, number)| self.sift(number, received, contents));
                stamps.take(wanted, contents, intake);
            }
        }
    }

    /// Returns what can be passed on at once.
    #[inline]
    fn sift(&mut self, number: u64, received: FilledCell, contents: Contents<'_>) -> Option<FilledCell> {
        if received.more() || !self.parts.is_empty() {
            self.sift_part(number, received, contents);
            return None;
        }
        if self.filter.wants(contents.bytes(&received), received.len()) {
            return Some(received);
        }
        self.filtered += 1;
        self.refused.push(received);
        None
    }

    /// A part of a packet of several cells, or a packet that comes behind one.
    #[cold]
    fn sift_part(&mut self, number: u64, received: FilledCell, contents: Contents<'_>) {
        let is_last = !received.more();
        self.parts.push_back((number, received));
        if !is_last {
            return;
        }
        self.whole.clear();
        for (_, part) in self.parts.range(self.wanted..) {
            self.whole.extend_from_slice(contents.bytes(part));
        }
        if self.filter.wants(&self.whole, self.whole.len() as u32) {
            self.wanted = self.parts.len();
        } else {
            self.filtered += 1;
            self.refused.extend(self.parts.drain(self.wanted..).map(|(_, part)| part));
        }
    }
}
