//! The modes of XDP; others, such as offload to the NIC, are not used.

use std::fmt;

/// Where on the receive path the program runs.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpMode {
    /// In the stack, after the kernel made a packet buffer: any driver, slow (`XDP_FLAGS_SKB_MODE`).
    Generic = 1 << 1,
    /// In the driver (`XDP_FLAGS_DRV_MODE`).
    Native = 1 << 2,
}

impl fmt::Display for XdpMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Generic => "generic",
            Self::Native => "native",
        })
    }
}
