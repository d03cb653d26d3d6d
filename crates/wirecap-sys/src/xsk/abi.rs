//! Layouts and numbers of `<linux/if_xdp.h>`.

use std::mem::{offset_of, size_of};

pub(crate) use libc::{
    SOL_XDP, XDP_COPY, XDP_MMAP_OFFSETS, XDP_OPTIONS, XDP_OPTIONS_ZEROCOPY, XDP_PGOFF_RX_RING,
    XDP_PGOFF_TX_RING, XDP_PKT_CONTD, XDP_RING_NEED_WAKEUP, XDP_RX_RING, XDP_SHARED_UMEM, XDP_STATISTICS,
    XDP_TX_RING, XDP_UMEM_COMPLETION_RING, XDP_UMEM_FILL_RING, XDP_UMEM_REG, XDP_USE_NEED_WAKEUP, XDP_USE_SG,
    XDP_ZEROCOPY,
};

use crate::socket_option::Integers;

// Not in libc, or of another type there.
pub(crate) const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;
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

// SAFETY: integers only, without padding.
unsafe impl Integers for libc::xdp_mmap_offsets {}
// SAFETY: integers only, without padding.
unsafe impl Integers for libc::xdp_statistics {}

const _: () = assert!(size_of::<RingDescriptor>() == 16 && offset_of!(RingDescriptor, options) == 12);
const _: () = assert!(size_of::<libc::xdp_umem_reg>() == 32 && size_of::<libc::sockaddr_xdp>() == 16);
const _: () = assert!(size_of::<libc::xdp_mmap_offsets>() == 128 && size_of::<libc::xdp_statistics>() == 48);
