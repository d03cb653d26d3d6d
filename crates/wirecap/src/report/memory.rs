//! The memory of a capture.

use std::path::PathBuf;

use serde::Serialize;
pub use wirecap_sys::memory::Pages;

use super::diagnostic::Diagnostic;

/// The memory of a capture, in bytes.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryReport {
    /// Packet memory, and blocks outside of it: R × M × cell size for each queue and each allocator.
    pub cells_bytes: u64,
    /// What the kernel needs besides, about: rings, its records of the cells, and page tables.
    pub kernel_bytes: u64,
    /// M.
    pub cells_per_chunk: u32,
    /// R.
    pub chunks_per_pool: u32,
    /// Size of a cell, in bytes.
    pub cell_bytes: u32,
    /// Why R is no larger; `None` unless it is smaller than by default.
    pub bounded: Option<BoundedMemory>,
    /// Which pages the packet memory is on; `None` if all packets lie in blocks, outside of it.
    pub pages: Option<Pages>,
    /// Requests about the memory that were not met.
    pub fallbacks: Vec<Diagnostic>,
    /// Entries of each ring of AF_XDP: cells of a queue that the kernel can have at once; `None` if no queue
    /// has such rings.
    pub ring_entries: Option<u32>,
}

/// Why the pools are smaller than by default: all memory together would be more than a share of what is
/// available.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BoundedMemory {
    /// R if more were available.
    pub chunks_per_pool: u32,
    /// Memory that was available, in bytes.
    pub available_bytes: u64,
    /// The pools take at most `available_bytes / share`.
    pub share: u64,
    /// The directory of the control group that bounds it; `None` if the machine does.
    pub control_group: Option<PathBuf>,
}
