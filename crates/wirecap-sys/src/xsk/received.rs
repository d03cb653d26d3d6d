//! What came by a receive ring, before its pool knows of it: the moment to look at a packet and to refuse it.
//!
//! ```text
//!   rx ring ──► Received ──┬── into_descriptor() ──► the pool: captured
//!                          └── give_back() ──► fill ring: as if it had never been filled
//! ```
//!
//! Rule: a [`Received`] is a token. It is made by the ring only, and going either way consumes it. So the cell is nobody
//! else's while there is one: the kernel has given it up, and no worker can have it.

use wirecap_core::Descriptor;

use super::{abi::RingDescriptor, ring::Drain};
use crate::memory::{PacketMemory, PoolPlace};

/// A filled cell that is neither the kernel's nor its pool's. To forget one loses the cell until the port is closed,
/// and nothing else.
#[derive(Debug)]
#[must_use = "the cell is lost until it is put into its pool or given back"]
pub struct Received(RingDescriptor);

impl Received {
    /// Where the bytes start, in bytes from the start of the packet memory, as the driver says.
    #[inline]
    pub fn address(&self) -> u64 {
        self.0.address
    }

    /// Bytes of this part of the packet, as the driver says.
    #[inline]
    pub fn len(&self) -> u32 {
        self.0.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Whether the packet goes on in the next one.
    #[inline]
    pub fn more(&self) -> bool {
        self.0.more()
    }

    /// For the pool, without a time.
    #[inline]
    pub fn into_descriptor(self) -> Descriptor {
        let RingDescriptor { address, len, .. } = self.0;
        Descriptor { address, len, more: self.0.more(), timestamp_ns: 0 }
    }
}

/// Takes filled cells out of the receive ring, oldest first. What is not taken stays in the ring.
#[derive(Debug)]
pub struct Receiving<'s> {
    drain: Drain<'s, RingDescriptor>,
    contents: Contents<'s>,
}

impl<'s> Receiving<'s> {
    pub(super) fn new(drain: Drain<'s, RingDescriptor>, contents: Contents<'s>) -> Self {
        Self { drain, contents }
    }

    /// What is in the cells.
    pub fn contents(&self) -> Contents<'s> {
        self.contents
    }
}

impl Iterator for Receiving<'_> {
    type Item = Received;

    #[inline]
    fn next(&mut self) -> Option<Received> {
        self.drain.next().map(Received)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.drain.size_hint()
    }
}

impl ExactSizeIterator for Receiving<'_> {}

/// Reads cells of a socket that are in hand.
#[derive(Debug, Clone, Copy)]
pub struct Contents<'s> {
    memory: &'s PacketMemory,
    place: PoolPlace,
}

impl<'s> Contents<'s> {
    pub(super) fn new(memory: &'s PacketMemory, place: PoolPlace) -> Self {
        Self { memory, place }
    }

    /// The bytes of this part of the packet. None, if the driver has reported what does not lie within one cell of the
    /// socket's pool: its pool will refuse it, too.
    #[inline]
    pub fn bytes<'r>(&self, received: &'r Received) -> &'r [u8]
    where
        's: 'r,
    {
        self.read(received.address(), received.len())
    }

    /// The word of metadata that the XDP program has put right in front of the packet, if there is room for one in its
    /// cell.
    #[inline]
    pub fn metadata(&self, received: &Received) -> Option<u64> {
        let address = received.address().checked_sub(size_of::<u64>() as u64)?;
        self.read(address, size_of::<u64>() as u32).try_into().ok().map(u64::from_ne_bytes)
    }

    #[inline]
    fn read(&self, address: u64, len: u32) -> &'s [u8] {
        if !self.place.holds(address, len) {
            return &[];
        }
        // SAFETY: the range lies within one cell of the socket's pool (checked), so of the memory. The kernel has
        // given the cell up, and nobody else can have it, since the token is still there that only the ring makes
        // and that goes to the pool or back to the kernel by value. The socket is borrowed as long as the bytes, or
        // the token is.
        unsafe { self.memory.bytes(address, len) }
    }
}
