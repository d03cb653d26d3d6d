//! The ring of blocks, and the packets of a block.
//!
//! ```text
//!   block:  │ tpacket_block_desc: status, packets, first ─┼─► │ tpacket3_hdr: next ─┼─► …
//!                 ▲                                           │ mac ─► bytes of the packet
//!                 └ written by the kernel when it hands the block over, by us when we give it back
//! ```
//!
//! Rule: offsets come from the kernel and are checked all the same. A packet whose header or bytes
//! would leave its block ends the block.

use std::{
    marker::PhantomData,
    mem::offset_of,
    os::fd::BorrowedFd,
    ptr::{self, NonNull},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use wirecap_core::{ChunkRange, Direction, Pool, PoolNumber};

use super::PacketError;
use crate::mmap::Mmap;

/// Bytes of a VLAN tag.
const VLAN_TAG_BYTES: usize = 4;
/// Where a VLAN tag stands in a frame: behind the two addresses.
const VLAN_TAG_OFFSET: usize = 12;
const ETHERTYPE_VLAN: u16 = 0x8100;
const NS_PER_S: u64 = 1_000_000_000;
/// If the time of a packet is later than the clock by more than this, the clock was set back. Times of
/// packets that cores put in out of order rarely differ by more.
const SET_BACK_NS: u64 = 10_000_000;
/// Our own mark in `tp_status`, a bit that the kernel does not use: the packet is unwanted.
const LEFT_OUT: u32 = 1 << 24;

/// The mapped ring of a socket.
#[derive(Debug)]
pub struct BlockRing {
    /// INVARIANT: `blocks × block_bytes` bytes, shared with the kernel. Bytes of a block are only touched by
    /// its owner: the kernel, or user space between [`Self::is_filled`] and [`Self::give_back`]. Its status
    /// word is only accessed atomically.
    memory: Mmap,
    block_bytes: usize,
    blocks: u32,
}

impl BlockRing {
    pub(super) fn map(fd: BorrowedFd<'_>, blocks: u32, block_bytes: u32) -> Result<Self, PacketError> {
        let len = blocks as usize * block_bytes as usize;
        let failed = |source| PacketError::SetUp { step: "mapping the ring", source };
        let memory = Mmap::ring(fd, len, 0).map_err(failed)?;
        Ok(Self { memory, block_bytes: block_bytes as usize, blocks })
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// # Panics
    /// When the ring has no such block.
    fn block(&self, block: u32) -> NonNull<u8> {
        assert!(block < self.blocks, "block {block} of {}", self.blocks);
        // SAFETY: within the mapping, by the assertion and the invariant on `memory`.
        unsafe { self.memory.start().add(block as usize * self.block_bytes) }
    }

    /// The owner of the block. Written by the owner, to hand it over.
    fn status(&self, block: u32) -> &AtomicU32 {
        self.word(block, offset_of!(libc::tpacket_hdr_v1, block_status))
    }

    /// Packets in the block. Written by the kernel, and by us before we give the block back.
    fn packets(&self, block: u32) -> &AtomicU32 {
        self.word(block, offset_of!(libc::tpacket_hdr_v1, num_pkts))
    }

    /// Bytes of the block that are taken, its headers included. Written by the kernel.
    fn taken_bytes(&self, block: u32) -> &AtomicU32 {
        self.word(block, offset_of!(libc::tpacket_hdr_v1, blk_len))
    }

    /// A word of a block's header.
    fn word(&self, block: u32, offset: usize) -> &AtomicU32 {
        let offset = offset_of!(libc::tpacket_block_desc, hdr) + offset;
        // SAFETY: every block begins with a `tpacket_block_desc`, aligned to a page; these words of it are
        // only accessed atomically on our side while the kernel may write them.
        unsafe { self.block(block).add(offset).cast::<AtomicU32>().as_ref() }
    }

    /// Whether the kernel has handed the block over.
    pub(super) fn is_filled(&self, block: u32) -> bool {
        // Pairs with the kernel's release of the block in prb_flush_block() and prb_close_block().
        self.status(block).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Whether the kernel has the block and has begun to fill it.
    pub(super) fn is_begun(&self, block: u32) -> bool {
        self.status(block).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0
            && self.packets(block).load(Ordering::Relaxed) > 0
    }

    /// Bytes of a block that the kernel has begun to fill; 0 if it has not.
    pub(super) fn begun_bytes(&self, block: u32) -> u32 {
        if self.is_begun(block) { self.taken_bytes(block).load(Ordering::Relaxed) } else { 0 }
    }

    /// Gives a block back to the kernel: its token came home, so it has no reader any more.
    pub(super) fn give_back(&self, block: u32) {
        // The kernel does so, too, but only when it comes to the block again.
        self.packets(block).store(0, Ordering::Relaxed);
        // Pairs with the kernel's read of the status in prb_dispatch_next_block(): all our reads of
        // the block come before.
        self.status(block).store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }

    /// Makes a block that the kernel has handed over ready to be read: puts the VLAN tags back that the
    /// kernel took out of the frames, drops packets that `keep` rejects, makes times strictly increase unless
    /// the clock was set back, and counts packets and captured bytes. `last_ns` is the time of the packet
    /// before, `now_ns` the present.
    ///
    /// # Safety
    /// The kernel has handed the block over, and it has no reader yet.
    pub(super) unsafe fn receive(
        &self,
        block: u32,
        last_ns: &mut u64,
        now_ns: u64,
        mut keep: impl FnMut(&CandidatePacket<'_>) -> bool,
    ) -> (u32, u32) {
        let (mut packets, mut bytes) = (0, 0);
        for (mut header, at) in Headers::new(self, block) {
            // SAFETY: `at` is where `Headers` has read this header from, and checked it; the block is ours
            // alone, as the caller promises.
            let tag_restored = unsafe { restore_vlan_tag(self.block(block), at, &mut header) };
            // SAFETY: as above; the packet lies in the block before the tag is restored (checked by
            // `Headers`) and after.
            let data = unsafe { packet_bytes(self.block(block), at, &header) };
            // SAFETY: as above.
            let packet_type = unsafe { packet_type(self.block(block), self.block_bytes, at) };
            let kept =
                keep(&CandidatePacket { data, original_len: header.tp_len, tag_restored, packet_type });
            let changed = if kept {
                packets += 1;
                bytes += header.tp_snaplen;
                make_later(&mut header, last_ns, now_ns)
            } else {
                header.tp_status |= LEFT_OUT;
                true
            };
            if changed || tag_restored {
                // SAFETY: as above.
                unsafe { self.block(block).add(at).cast::<libc::tpacket3_hdr>().write_unaligned(header) };
            }
        }
        (packets, bytes)
    }
}

/// The bytes of a packet.
///
/// # Safety
/// `header` was read at offset `at` of the block and checked by [`Headers`], and the block is not written
/// during `'a`.
unsafe fn packet_bytes<'a>(block: NonNull<u8>, at: usize, header: &libc::tpacket3_hdr) -> &'a [u8] {
    // SAFETY: the bytes lie in the block, and are not written, as the caller promises.
    unsafe {
        let start = block.add(at + usize::from(header.tp_mac));
        std::slice::from_raw_parts(start.as_ptr(), header.tp_snaplen as usize)
    }
}

/// Whom the packet is for, of the link-level address behind its header: a `PACKET_…` of <linux/if_packet.h>.
///
/// # Safety
/// `at` is where a header was read from the block, which has `block_bytes` and is not the kernel's.
unsafe fn packet_type(block: NonNull<u8>, block_bytes: usize, at: usize) -> u8 {
    let place = at + size_of::<libc::tpacket3_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
    if place + size_of::<libc::sockaddr_ll>() > block_bytes {
        return libc::PACKET_HOST;
    }
    // SAFETY: lies in the block (checked above), which is not the kernel's, as the caller promises.
    unsafe { block.add(place).cast::<libc::sockaddr_ll>().read_unaligned() }.sll_pkttype
}

/// The time of a packet, in nanoseconds since 1970.
fn time_ns(header: &libc::tpacket3_hdr) -> u64 {
    u64::from(header.tp_sec) * NS_PER_S + u64::from(header.tp_nsec)
}

/// Cores have the time from the same clock, but put packets into a ring in no certain order, and two may have
/// the same time: a packet is then 1 ns later than the one before. Unless that one came in what is the future
/// now: the clock was set back. Returns whether the header was changed.
fn make_later(header: &mut libc::tpacket3_hdr, last_ns: &mut u64, now_ns: u64) -> bool {
    let stamped = time_ns(header);
    let is_in_future = last_ns.saturating_sub(now_ns) > SET_BACK_NS;
    let was_set_back = is_in_future && last_ns.saturating_sub(stamped) > SET_BACK_NS;
    let least = if was_set_back { 0 } else { *last_ns + 1 };
    *last_ns = stamped.max(least);
    if stamped < least {
        header.tp_sec = (least / NS_PER_S) as u32;
        header.tp_nsec = (least % NS_PER_S) as u32;
    }
    stamped < least
}

/// Moves the addresses to the front and puts the tag behind them. The socket reserves the room.
/// Returns whether the header was changed.
///
/// # Safety
/// `header` was read at offset `at` of the block and checked by [`Headers`]; the caller alone has the block.
unsafe fn restore_vlan_tag(block: NonNull<u8>, at: usize, header: &mut libc::tpacket3_hdr) -> bool {
    let status = header.tp_status;
    let from = at + usize::from(header.tp_mac);
    let has_tag = status & libc::TP_STATUS_VLAN_VALID != 0;
    let room = usize::from(header.tp_mac) >= size_of::<libc::tpacket3_hdr>() + VLAN_TAG_BYTES;
    if !has_tag || !room || (header.tp_snaplen as usize) < VLAN_TAG_OFFSET {
        return false;
    }
    let tpid = match status & libc::TP_STATUS_VLAN_TPID_VALID {
        0 => ETHERTYPE_VLAN,
        _ => header.hv1.tp_vlan_tpid,
    };
    let mut tag = [0; VLAN_TAG_BYTES];
    tag[..2].copy_from_slice(&tpid.to_be_bytes());
    tag[2..].copy_from_slice(&(header.hv1.tp_vlan_tci as u16).to_be_bytes());
    // SAFETY: `Headers` has checked that the packet lies in the block, and the room in front of it was
    // checked above; the block is ours alone, as the caller promises.
    unsafe {
        let frame = block.add(from);
        ptr::copy(frame.as_ptr(), frame.sub(VLAN_TAG_BYTES).as_ptr(), VLAN_TAG_OFFSET);
        let place = frame.add(VLAN_TAG_OFFSET - VLAN_TAG_BYTES);
        ptr::copy_nonoverlapping(tag.as_ptr(), place.as_ptr(), VLAN_TAG_BYTES);
    }
    header.tp_mac -= VLAN_TAG_BYTES as u16;
    header.tp_snaplen += VLAN_TAG_BYTES as u32;
    header.tp_len += VLAN_TAG_BYTES as u32;
    header.tp_status &= !(libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID);
    true
}

/// The packet headers of a block, with their offset in it, each checked: header and bytes lie in the block.
#[derive(Debug, Clone)]
struct Headers {
    block: NonNull<u8>,
    block_bytes: usize,
    next: usize,
    left: u32,
}

impl Headers {
    fn new(ring: &BlockRing, block: u32) -> Self {
        let start = ring.block(block);
        // SAFETY: every block begins with a `tpacket_block_desc`; it was handed over to us.
        let descriptor = unsafe { start.cast::<libc::tpacket_block_desc>().read() };
        // SAFETY: version 1 is the only variant there is.
        let header = unsafe { descriptor.hdr.bh1 };
        let next = header.offset_to_first_pkt as usize;
        Self { block: start, block_bytes: ring.block_bytes, next, left: header.num_pkts }
    }

    fn none() -> Self {
        Self { block: NonNull::dangling(), block_bytes: 0, next: 0, left: 0 }
    }
}

impl Iterator for Headers {
    type Item = (libc::tpacket3_hdr, usize);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let at = self.next;
        if at + size_of::<libc::tpacket3_hdr>() > self.block_bytes {
            return None;
        }
        // SAFETY: the header lies in the block (checked), which is not the kernel's.
        let header = unsafe { self.block.add(at).cast::<libc::tpacket3_hdr>().read_unaligned() };
        let end = at + usize::from(header.tp_mac) + header.tp_snaplen as usize;
        self.next = at + header.tp_next_offset as usize;
        (end <= self.block_bytes).then_some((header, at))
    }
}

/// A packet of a block that is being received.
#[derive(Debug)]
pub struct CandidatePacket<'a> {
    /// Its captured bytes, VLAN tag included.
    pub data: &'a [u8],
    /// How long it was before the snap length.
    pub original_len: u32,
    /// Whether its VLAN tag was elsewhere when the kernel's filter saw it.
    pub tag_restored: bool,
    /// Whom it is for: a `PACKET_…` of <linux/if_packet.h>.
    pub packet_type: u8,
}

/// A packet of a block.
#[derive(Debug, Clone, Copy)]
pub struct BlockPacket<'a> {
    /// Its captured bytes, VLAN tag included.
    pub data: &'a [u8],
    /// How long it was before the snap length.
    pub original_len: u32,
    /// When the kernel had it, in nanoseconds since 1970 (UTC).
    pub timestamp_ns: u64,
    /// Its direction.
    pub direction: Direction,
}

/// Reads captured blocks of one ring.
#[derive(Debug, Clone)]
pub struct BlockReader {
    ring: Arc<BlockRing>,
    /// INVARIANT: the pool that was carved for the socket of `ring`; only one is.
    pool: PoolNumber,
    cells_per_block: u32,
}

impl BlockReader {
    /// Of the blocks of this ring, which are the chunks of the pool.
    pub(super) fn new(ring: &Arc<BlockRing>, pool: &Pool) -> Self {
        let cells_per_block = pool.geometry().cells_per_chunk();
        Self { ring: Arc::clone(ring), pool: pool.number(), cells_per_block }
    }

    /// The packets of a captured block, in the order in which they came. Empty when the block is of
    /// another pool.
    pub fn packets<'a>(&'a self, range: &'a ChunkRange) -> BlockPackets<'a> {
        let headers = if range.pool() == self.pool {
            Headers::new(&self.ring, range.first() / self.cells_per_block)
        } else {
            Headers::none()
        };
        BlockPackets { headers, _block: PhantomData }
    }
}

/// The packets of a block.
#[derive(Debug, Clone)]
pub struct BlockPackets<'a> {
    /// INVARIANT: of a block that is captured, in a ring that is mapped, as long as `'a` lasts: a
    /// `ChunkRange` of its pool is borrowed, and such a range is made from a block that was received
    /// and consumed before the block is given back (rule of `memory.rs`).
    headers: Headers,
    _block: PhantomData<&'a [u8]>,
}

// SAFETY: only reads bytes that are not written during `'a`.
unsafe impl Send for BlockPackets<'_> {}
// SAFETY: as above.
unsafe impl Sync for BlockPackets<'_> {}

impl<'a> Iterator for BlockPackets<'a> {
    type Item = BlockPacket<'a>;

    fn next(&mut self) -> Option<BlockPacket<'a>> {
        let (header, at) = self.headers.find(|(header, _)| header.tp_status & LEFT_OUT == 0)?;
        // SAFETY: the header was just read there and checked; the block is not written during `'a`, by the
        // invariant on `headers`.
        let data = unsafe { packet_bytes(self.headers.block, at, &header) };
        // SAFETY: as above.
        let packet_type = unsafe { packet_type(self.headers.block, self.headers.block_bytes, at) };
        Some(BlockPacket {
            data,
            original_len: header.tp_len,
            timestamp_ns: time_ns(&header),
            direction: if packet_type == libc::PACKET_OUTGOING { Direction::Out } else { Direction::In },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600 * NS_PER_S;
    const START: u64 = 1_000_000 * NS_PER_S;

    /// The times of packets with these stamps, each of which is looked at when the clock shows the time
    /// beside it.
    fn times(stamps_and_clock: &[(u64, u64)]) -> Vec<u64> {
        let mut last_ns = 0;
        let made_later = |&(stamp, now_ns): &(u64, u64)| {
            // SAFETY: a header is plain numbers.
            let mut header: libc::tpacket3_hdr = unsafe { std::mem::zeroed() };
            (header.tp_sec, header.tp_nsec) = ((stamp / NS_PER_S) as u32, (stamp % NS_PER_S) as u32);
            let changed = make_later(&mut header, &mut last_ns, now_ns);
            assert_eq!(changed, time_ns(&header) != stamp);
            assert_eq!(last_ns, time_ns(&header));
            last_ns
        };
        stamps_and_clock.iter().map(made_later).collect()
    }

    #[test]
    fn times_increase_although_cores_put_packets_in_out_of_order() {
        let now = START + HOUR;
        let stamps = [START, START, START + 5, START + 3, START + 9].map(|stamp| (stamp, now));
        assert_eq!(times(&stamps), [START, START + 1, START + 5, START + 6, START + 9]);
        // A core that was stopped before it put its packet in.
        let late = [START + NS_PER_S, START, START + 2 * NS_PER_S].map(|stamp| (stamp, now));
        assert_eq!(times(&late), [START + NS_PER_S, START + NS_PER_S + 1, START + 2 * NS_PER_S]);
    }

    #[test]
    fn times_go_back_with_a_clock_that_was_set_back() {
        let back = START - HOUR;
        let stamps = [START, START + 7, back, back, back + 5];
        // The block is looked at after the clock was set.
        assert_eq!(times(&stamps.map(|stamp| (stamp, back + 9)))[2..], [back, back + 1, back + 5]);
        // By less than what changes the order of packets, it is not seen, and times go on.
        let slewed = [START, START - 1_000].map(|stamp| (stamp, START - 900));
        assert_eq!(times(&slewed), [START, START + 1]);
    }
}
