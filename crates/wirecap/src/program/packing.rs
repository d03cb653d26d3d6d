//! Blocks into which a program packs packets, and what it writes into each record beside the packet.

use std::sync::Arc;

use wirecap_sys::packed::PackedMemory;

/// Where the program of a port packs packets, and what it says of them. A record is what a pcapng file has
/// of its packet, with one exception: files have no hashes.
#[derive(Debug, Clone)]
pub(crate) struct Packing {
    pub(crate) memory: Arc<PackedMemory>,
    /// The number of the interface in the file: the position of the port among those of the capture.
    pub(crate) interface: u32,
    /// Whether records name the queue, as `PortReport::names_queues` says.
    pub(crate) names_queue: bool,
    /// Whether records have the NIC's hash, and do not name the queue then.
    pub(crate) has_hashes: bool,
    /// Whether the program brings stamps to UTC: those of the kernel's clock. The NIC's have to be looked at.
    pub(crate) to_utc: bool,
}
