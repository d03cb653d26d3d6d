//! A captured packet, which borrows from the pool.
//!
//! ```text
//!   Batch (filled cells of one chunk) ──► Packets ──► Packet ──► parts: usually one slice of a cell
//!   Batch (part of a block) ────────────► Packets ──► Packet ──► one part: a slice of the block
//! ```

mod cursor;
mod packets;
mod reader;
pub(crate) mod rx_hash;

use std::fmt;

use wirecap_core::Direction;
use wirecap_sys::{packed::PackedPacket, packet::BlockPacket};

use self::cursor::{Cursor, PacketMeta};
pub(crate) use self::reader::{ChunkReader, Front};
pub use self::{packets::Packets, rx_hash::RxHash};

/// A bit that the kernel's types of hash do not use.
const HAS_HASH: u16 = 1 << 15;

/// One packet, as long as its batch is held.
#[derive(Clone)]
pub struct Packet<'b> {
    number: u64,
    body: Body<'b>,
}

/// What a packet is made of.
#[derive(Clone)]
enum Body<'b> {
    /// It lies in cells, or in a block of the kernel.
    Described(Described<'b>),
    /// Its record says all, when it is asked.
    Packed(PackedPacket<'b>),
}

/// A packet of which everything is known.
#[derive(Clone)]
struct Described<'b> {
    first: &'b [u8],
    rest: Option<Cursor<'b>>,
    len: usize,
    /// Its length on the wire, where 0 stands for `len`; or the NIC's hash, if `hash` says so.
    length_or_hash: u32,
    /// What the NIC's hash is over, if there is one, and [`HAS_HASH`].
    hash: u16,
    timestamp_ns: u64,
    direction: Option<Direction>,
}

/// Neither a hash nor the choice of a body may enlarge `Packet`.
const _: () = assert!(size_of::<Packet<'_>>() == size_of::<Option<Cursor<'_>>>() + 48);

impl<'b> Described<'b> {
    #[inline]
    fn of_cells(cursor: &mut Cursor<'b>) -> Option<Self> {
        let (descriptor, first) = cursor.next_part()?;
        let rest = descriptor.more.then(|| cursor.clone());
        let mut len = first.len();
        let mut more = descriptor.more;
        while more {
            let Some((descriptor, bytes)) = cursor.next_part() else { break };
            len += bytes.len();
            more = descriptor.more;
        }
        let timestamp_ns = descriptor.timestamp_ns;
        Some(Self { first, rest, len, length_or_hash: 0, hash: 0, timestamp_ns, direction: None })
    }

    fn with(self, meta: PacketMeta) -> Self {
        match meta {
            PacketMeta::Nothing => self,
            PacketMeta::Note(note) => {
                Self { length_or_hash: note.original_len, direction: note.direction, ..self }
            }
            PacketMeta::Hash(hash) => {
                Self { length_or_hash: hash.value(), hash: hash.type_bits() | HAS_HASH, ..self }
            }
        }
    }

    #[inline]
    fn of_block(packet: BlockPacket<'b>) -> Self {
        let BlockPacket { data: first, original_len: length_or_hash, timestamp_ns, direction } = packet;
        let (len, direction) = (first.len(), Some(direction));
        Self { first, rest: None, len, length_or_hash, hash: 0, timestamp_ns, direction }
    }

    fn original_len(&self) -> usize {
        if self.hash != 0 || self.length_or_hash == 0 { self.len } else { self.length_or_hash as usize }
    }

    fn rx_hash(&self) -> Option<RxHash> {
        (self.hash != 0).then(|| RxHash::new(self.length_or_hash, self.hash & !HAS_HASH))
    }
}

impl<'b> Packet<'b> {
    #[inline]
    fn described(number: u64, described: Described<'b>) -> Self {
        Packet { number, body: Body::Described(described) }
    }

    #[inline]
    fn packed(number: u64, packed: PackedPacket<'b>) -> Self {
        Packet { number, body: Body::Packed(packed) }
    }

    /// Length in bytes, all parts together.
    #[allow(clippy::len_without_is_empty, reason = "a packet has a header, except in odd trace files")]
    #[inline]
    pub fn len(&self) -> usize {
        match &self.body {
            Body::Described(described) => described.len,
            Body::Packed(packed) => packed.len(),
        }
    }

    /// How long it was on the wire, in bytes: more than [`Packet::len`] where the port has kept only the
    /// beginning of it.
    pub fn original_len(&self) -> usize {
        match &self.body {
            Body::Described(described) => described.original_len(),
            Body::Packed(packed) => packed.original_len() as usize,
        }
    }

    /// The hash by which the NIC chose the receive queue. `None` without
    /// [`Builder::rx_hash`](crate::Builder::rx_hash), and for a packet without a hash, which is counted. Read
    /// it before [draining](crate::Batch::drain) a batch: owned packets do not carry it.
    pub fn rx_hash(&self) -> Option<RxHash> {
        match &self.body {
            Body::Described(described) => described.rx_hash(),
            Body::Packed(packed) => packed.hash().map(|hash| RxHash::new(hash.value, hash.type_bits)),
        }
    }

    /// The direction. In, unless a passive port or a trace file says otherwise.
    pub fn direction(&self) -> Direction {
        self.known_direction().unwrap_or(Direction::In)
    }

    /// The direction, if known: always on passive ports; in trace files that record it.
    pub fn known_direction(&self) -> Option<Direction> {
        match &self.body {
            Body::Described(described) => described.direction,
            Body::Packed(packed) => packed.direction(),
        }
    }

    /// The first part: the whole packet unless it is larger than a cell. Headers are always in it.
    #[inline]
    pub fn data(&self) -> &'b [u8] {
        match &self.body {
            Body::Described(described) => described.first,
            Body::Packed(packed) => packed.data(),
        }
    }

    /// All parts, in order. One, unless the packet is larger than a cell.
    pub fn parts(&self) -> Parts<'b> {
        let rest = match &self.body {
            Body::Described(described) => described.rest.clone(),
            Body::Packed(_) => None,
        };
        Parts { first: Some(self.data()), rest }
    }

    /// The whole packet in one piece: where it lies if it has one part, or put together in `room`, whose
    /// contents are replaced.
    ///
    /// ```
    /// # fn example(batch: &wirecap::Batch) {
    /// let mut room = Vec::new();
    /// for packet in batch {
    ///     let bytes: &[u8] = packet.contiguous(&mut room);
    ///     assert_eq!(bytes.len(), packet.len());
    /// }
    /// # }
    /// ```
    #[inline]
    pub fn contiguous<'r>(&self, room: &'r mut Vec<u8>) -> &'r [u8]
    where
        'b: 'r,
    {
        let first = self.data();
        if first.len() == self.len() {
            return first;
        }
        room.clear();
        self.parts().for_each(|part| room.extend_from_slice(part));
        room
    }

    /// When it came, in nanoseconds since 1970 (UTC), as [`crate::Timestamp`] says, and how exactly, as
    /// [`Batch::uncertainty_ns`](crate::Batch::uncertainty_ns) does. Over AF_XDP strictly increasing within a
    /// queue, unless the system clock is set back
    /// ([`TimestampReport::set_back_ns`](crate::TimestampReport::set_back_ns)); of a trace file it is the
    /// file's, whatever that is, and 0 if it has none.
    #[inline]
    pub fn timestamp_ns(&self) -> u64 {
        match &self.body {
            Body::Described(described) => described.timestamp_ns,
            Body::Packed(packed) => packed.timestamp_ns(),
        }
    }

    /// How many packets of its receive queue were captured before it.
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl fmt::Debug for Packet<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Packet")
            .field("number", &self.number)
            .field("len", &self.len())
            .field("timestamp_ns", &self.timestamp_ns())
            .finish_non_exhaustive()
    }
}

/// The parts of a [`Packet`].
#[derive(Clone)]
pub struct Parts<'b> {
    first: Option<&'b [u8]>,
    rest: Option<Cursor<'b>>,
}

impl<'b> Iterator for Parts<'b> {
    type Item = &'b [u8];

    fn next(&mut self) -> Option<&'b [u8]> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        let (descriptor, bytes) = self.rest.as_mut()?.next_part()?;
        if !descriptor.more {
            self.rest = None;
        }
        Some(bytes)
    }
}
