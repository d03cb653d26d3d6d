//! Layouts and numbers of `<linux/if_xdp.h>`.

use std::mem::{offset_of, size_of};

use crate::socket_option::Integers;

pub(crate) const SOL_XDP: libc::c_int = 283;
pub(crate) const XDP_MMAP_OFFSETS: libc::c_int = 1;
pub(crate) const XDP_RX_RING: libc::c_int = 2;
pub(crate) const XDP_TX_RING: libc::c_int = 3;
pub(crate) const XDP_UMEM_REG: libc::c_int = 4;
pub(crate) const XDP_UMEM_FILL_RING: libc::c_int = 5;
pub(crate) const XDP_UMEM_COMPLETION_RING: libc::c_int = 6;
pub(crate) const XDP_STATISTICS: libc::c_int = 7;
pub(crate) const XDP_OPTIONS: libc::c_int = 8;
pub(crate) const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

pub(crate) const XDP_SHARED_UMEM: u16 = 1 << 0;
pub(crate) const XDP_COPY: u16 = 1 << 1;
pub(crate) const XDP_ZEROCOPY: u16 = 1 << 2;
pub(crate) const XDP_USE_NEED_WAKEUP: u16 = 1 << 3;
pub(crate) const XDP_USE_SG: u16 = 1 << 4;

pub(crate) const XDP_OPTIONS_ZEROCOPY: u32 = 1 << 0;
pub(crate) const XDP_RING_NEED_WAKEUP: u32 = 1 << 0;
pub(crate) const XDP_PKT_CONTD: u32 = 1 << 0;

pub(crate) const XDP_PGOFF_RX_RING: libc::off_t = 0;
pub(crate) const XDP_PGOFF_TX_RING: libc::off_t = 0x8000_0000;
pub(crate) const XDP_UMEM_PGOFF_FILL_RING: libc::off_t = 0x1_0000_0000;
pub(crate) const XDP_UMEM_PGOFF_COMPLETION_RING: libc::off_t = 0x1_8000_0000;

/// `struct xdp_desc`: an entry of a receive or transmit ring.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RingDescriptor {
    /// Where the bytes start, in bytes from the start of the UMEM.
    pub address: u64,
    /// Bytes of this part of the packet.
    pub len: u32,
    /// Bit 0: the packet goes on in the next entry.
    pub options: u32,
}

impl RingDescriptor {
    /// Whether the packet goes on in the next entry.
    #[inline]
    pub fn more(&self) -> bool {
        self.options & XDP_PKT_CONTD != 0
    }
}

#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct UmemReg {
    pub(crate) address: u64,
    pub(crate) len: u64,
    pub(crate) chunk_size: u32,
    pub(crate) headroom: u32,
    pub(crate) flags: u32,
    pub(crate) tx_metadata_len: u32,
}

#[derive(Debug, Default, Clone, Copy)]
#[repr(C)]
pub(crate) struct RingOffsets {
    pub(crate) producer: u64,
    pub(crate) consumer: u64,
    pub(crate) descriptors: u64,
    pub(crate) flags: u64,
}

#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct MmapOffsets {
    pub(crate) rx: RingOffsets,
    pub(crate) tx: RingOffsets,
    pub(crate) fill: RingOffsets,
    pub(crate) completion: RingOffsets,
}

#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Statistics {
    pub(crate) rx_dropped: u64,
    pub(crate) rx_invalid_descs: u64,
    pub(crate) tx_invalid_descs: u64,
    pub(crate) rx_ring_full: u64,
    pub(crate) rx_fill_ring_empty_descs: u64,
    pub(crate) tx_ring_empty_descs: u64,
}

#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Address {
    pub(crate) family: u16,
    pub(crate) flags: u16,
    pub(crate) ifindex: u32,
    pub(crate) queue_id: u32,
    pub(crate) shared_umem_fd: u32,
}

// SAFETY: 64-bit integers only, so there is no padding.
unsafe impl Integers for MmapOffsets {}
// SAFETY: as above.
unsafe impl Integers for Statistics {}

const _: () = assert!(size_of::<RingDescriptor>() == 16 && offset_of!(RingDescriptor, options) == 12);
const _: () = assert!(size_of::<UmemReg>() == 32 && offset_of!(UmemReg, flags) == 24);
const _: () = assert!(size_of::<MmapOffsets>() == 128 && offset_of!(RingOffsets, flags) == 24);
const _: () = assert!(size_of::<Statistics>() == 48);
const _: () = assert!(size_of::<Address>() == 16 && offset_of!(Address, shared_umem_fd) == 12);
