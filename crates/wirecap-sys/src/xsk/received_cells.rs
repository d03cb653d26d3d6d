//! What came by a receive ring, before its pool knows of it: the moment to look at a packet and to refuse it.
//!
//! ```text
//!   rx ring ──► FilledCell ──┬── LiveFiller::fill() ──► the pool: captured
//!                            └── give_back() ──► fill ring: as if it had never been filled
//! ```
//!
//! Rule: the ring makes one [`FilledCell`] of each of its entries. Its holder alone has the cell: the kernel
//! has given it up, and no worker can have it.

use wirecap_core::PoolNumber;

use super::{abi::RingDescriptor, ring::Drain};
use crate::memory::{FilledCell, PacketMemory, PoolLease, PoolPlace};

/// Bytes of metadata in front of a packet.
const METADATA_BYTES: u32 = size_of::<u64>() as u32;

/// Takes filled cells out of the receive ring, oldest first. What is not taken stays in the ring.
#[derive(Debug)]
pub struct ReceivedCells<'s> {
    drain: Drain<'s, RingDescriptor>,
    contents: Contents<'s>,
}

impl<'s> ReceivedCells<'s> {
    pub(super) fn new(drain: Drain<'s, RingDescriptor>, contents: Contents<'s>) -> Self {
        Self { drain, contents }
    }

    /// What is in the cells.
    pub fn contents(&self) -> Contents<'s> {
        self.contents
    }
}

impl Iterator for ReceivedCells<'_> {
    type Item = FilledCell;

    #[inline]
    fn next(&mut self) -> Option<FilledCell> {
        let entry = self.drain.next()?;
        Some(FilledCell::new(self.contents.number, entry.address, entry.len, entry.more()))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.drain.size_hint()
    }
}

impl ExactSizeIterator for ReceivedCells<'_> {}

/// Reads cells of a socket that are in hand.
#[derive(Debug, Clone, Copy)]
pub struct Contents<'s> {
    memory: &'s PacketMemory,
    place: PoolPlace,
    number: PoolNumber,
}

impl<'s> Contents<'s> {
    pub(super) fn new(memory: &'s PacketMemory, lease: &PoolLease) -> Self {
        Self { memory, place: lease.place(), number: lease.number() }
    }

    /// The bytes of this part of the packet. None, if the cell was received by another socket, or the driver
    /// has reported what does not lie within one cell of the socket's pool: its pool will refuse it, too.
    #[inline]
    pub fn bytes<'r>(&self, cell: &'r FilledCell) -> &'r [u8]
    where
        's: 'r,
    {
        self.read(cell.address_in(self.number), cell.len())
    }

    /// The word of metadata that the XDP program has put right in front of the packet, if there is room for
    /// one in its cell.
    #[inline]
    pub fn metadata(&self, cell: &FilledCell) -> Option<u64> {
        let packet = cell.address_in(self.number);
        let address = packet.checked_sub(METADATA_BYTES.into())?;
        // Not that of the cell before.
        let within = self.place.cell(packet)? <= address;
        let bytes = if within { self.read(address, METADATA_BYTES) } else { &[] };
        bytes.try_into().ok().map(u64::from_ne_bytes)
    }

    /// Bytes of a cell whose token is borrowed, if they lie in a cell of the pool.
    #[inline]
    fn read(&self, address: u64, len: u32) -> &'s [u8] {
        if !self.place.holds(address, len) {
            return &[];
        }
        // SAFETY: the range lies within one cell of the socket's pool (checked), so of the memory. It is the
        // cell of a token of this lease, since others have no address here, and the holder of the token alone
        // has the cell (rule of `memory.rs`). The socket is borrowed as long as the bytes, or the token is.
        unsafe { self.memory.bytes(address, len) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wirecap_core::{Geometry, PoolId};

    use super::*;
    use crate::memory::{LivePool, Tenant};

    const CELL: u64 = 2048;

    fn leased() -> (Arc<PacketMemory>, LivePool, PoolLease) {
        let geometry = Geometry::new(4, 1, 2048).unwrap();
        let memory = Arc::new(PacketMemory::allocate(geometry.pool_bytes(), 2048).unwrap());
        let pool = memory.carve(PoolId { nic_id: 0, ring_id: 0 }, geometry).unwrap();
        let lease = pool.lease(&memory, Tenant::Writer).unwrap();
        (memory, pool, lease)
    }

    fn cell(lease: &PoolLease, address: u64, len: u32) -> FilledCell {
        FilledCell::new(lease.number(), address, len, false)
    }

    /// Once: a cell of one socket was read with the contents of another socket in another memory, where the
    /// kernel may be writing.
    #[test]
    fn a_cell_is_read_with_the_contents_of_its_own_socket_only() {
        let (memory, _pool, lease) = leased();
        let (other_memory, _other_pool, other) = leased();
        // SAFETY: only this test has the memory.
        assert!(unsafe {
            memory.write(CELL + 248, &7_u64.to_ne_bytes()) && memory.write(CELL + 256, b"own")
        });
        let own = cell(&lease, CELL + 256, 3);
        let contents = Contents::new(&memory, &lease);
        assert_eq!((contents.bytes(&own), contents.metadata(&own)), (&b"own"[..], Some(7)));
        let stranger = Contents::new(&other_memory, &other);
        assert_eq!((stranger.bytes(&own), stranger.metadata(&own)), (&[][..], None));
    }

    /// Once: the metadata of a packet at the very start of its cell was read from the previous cell.
    #[test]
    fn nothing_beyond_the_cell_is_read() {
        let (memory, _pool, lease) = leased();
        let contents = Contents::new(&memory, &lease);
        for (address, len) in [(CELL, 2049), (2 * CELL - 1, 2), (4 * CELL, 1), (u64::MAX, 1)] {
            assert!(contents.bytes(&cell(&lease, address, len)).is_empty());
        }
        for start in [0, CELL] {
            assert_eq!(contents.bytes(&cell(&lease, start, 2048)).len(), 2048);
            assert_eq!(contents.metadata(&cell(&lease, start, 60)), None);
            assert_eq!(contents.metadata(&cell(&lease, start + 7, 60)), None);
            assert_eq!(contents.metadata(&cell(&lease, start + 8, 60)), Some(0));
        }
    }
}
