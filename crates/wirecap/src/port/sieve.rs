//! A filter in user space on an AF_XDP port: what is not wanted goes back to the kernel before its pool knows of it.
//!
//! ```text
//!   rx ring ──► one cell: wanted? ──► intake
//!           └─► several:  parts, until the packet is whole ──► wanted? ──► intake, as there is space
//!   not wanted ──► fill ring
//! ```
//!
//! So packets that are not wanted have no number, take no slot, and the chunk fills up with those that are.

use std::{collections::VecDeque, sync::Arc};

use wirecap_sys::xsk::{Contents, Received, Socket};

use super::{Intake, filter::UserFilter, stamp::StampReader};

/// Cells between two times that refused ones are given back.
const AT_ONCE: u32 = 256;

/// The filter of one queue.
#[derive(Debug)]
pub(crate) struct Sieve {
    filter: Arc<UserFilter>,
    /// Packets that could not be passed on yet.
    parts: VecDeque<Received>,
    /// INVARIANT: so many of `parts`, from the front, are of packets that are whole and wanted. The others are of one
    /// packet that is not whole.
    wanted: usize,
    refused: Vec<Received>,
    /// A packet of several cells in one piece.
    whole: Vec<u8>,
    filtered: u64,
}

impl Sieve {
    pub(crate) fn new(filter: Arc<UserFilter>) -> Self {
        let (parts, refused, whole) = (VecDeque::new(), Vec::with_capacity(AT_ONCE as usize), Vec::new());
        Self { filter, parts, wanted: 0, refused, whole, filtered: 0 }
    }

    /// Packets that were not wanted.
    pub(crate) fn filtered(&self) -> u64 {
        self.filtered
    }

    /// Cells that wait: wanted ones for space, refused ones for room in the fill ring. The kernel makes room a little
    /// after it has handed over what it filled.
    pub(crate) fn waiting(&self) -> u32 {
        (self.wanted + self.refused.len()) as u32
    }

    /// Goes through what is in the ring, until `intake` is full.
    pub(crate) fn receive(&mut self, socket: &mut Socket, stamps: &mut StampReader, intake: &mut Intake<'_>) {
        let mut left = socket.filled();
        loop {
            let space = (intake.space() as usize).min(self.wanted);
            if let Some(contents) = socket.contents() {
                stamps.take(self.parts.drain(..space), contents, intake);
                self.wanted -= space;
            }
            socket.give_back(&mut self.refused);
            let count = left.min(intake.space()).min(AT_ONCE);
            if count == 0 {
                return;
            }
            left -= count;
            if let Some(receiving) = socket.receive(count) {
                let contents = receiving.contents();
                let wanted = receiving.filter_map(|received| self.sift(received, contents));
                stamps.take(wanted, contents, intake);
            }
        }
    }

    /// Returns what can be passed on at once.
    #[inline]
    fn sift(&mut self, received: Received, contents: Contents<'_>) -> Option<Received> {
        if received.more() || !self.parts.is_empty() {
            self.sift_part(received, contents);
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
    fn sift_part(&mut self, received: Received, contents: Contents<'_>) {
        let is_last = !received.more();
        self.parts.push_back(received);
        if !is_last {
            return;
        }
        self.whole.clear();
        for part in self.parts.range(self.wanted..) {
            self.whole.extend_from_slice(contents.bytes(part));
        }
        if self.filter.wants(&self.whole, self.whole.len() as u32) {
            self.wanted = self.parts.len();
        } else {
            self.filtered += 1;
            self.refused.extend(self.parts.drain(self.wanted..));
        }
    }
}
