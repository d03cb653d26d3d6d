//! The right to a queue whose packets are packed into blocks, where other processes may have other queues.
//!
//! ```text
//!   claim ── socket, bound to the queue ──► the kernel gives the queue to no other socket
//!         └─ entry in the dispatcher's table ──► the program
//! ```
//!
//! Rule: the socket has no cell and gets no packet. It is closed when the process ends, however it does, and
//! only then does another process write the queue's entry: see `shared/`.

use std::sync::Arc;

use wirecap_sys::{
    memory::{MemoryError, PacketMemory},
    xsk::{RingSizes, Socket, SocketConfig, Umem, XskError},
};

use super::shared::Entry;

/// The smallest cell that the kernel registers.
const CELL_BYTES: u32 = 2048;
/// The kernel insists on rings.
const RING_ENTRIES: u32 = 64;

/// The claim to one queue. Dropping it gives the entry back, then the queue.
#[derive(Debug)]
pub(crate) struct QueueClaim {
    pub(super) entry: Option<Entry>,
    pub(super) queue: u32,
    /// Bound as long as the claim lives.
    _socket: Socket,
}

impl QueueClaim {
    /// The claim to the queue that `socket` is bound to, without an entry yet.
    pub(super) fn new(socket: Socket, queue: u16) -> Self {
        Self { entry: None, queue: queue.into(), _socket: socket }
    }

    /// Leaves the queue to a forked process, which has the socket, too.
    pub(super) fn abandon(mut self) {
        self.entry.take().into_iter().for_each(Entry::abandon);
    }

    /// Memory that the sockets of claims register: a socket without any cannot be bound.
    ///
    /// # Errors
    /// [`MemoryError`] if the machine or a limit has too little.
    pub(super) fn memory() -> Result<PacketMemory, MemoryError> {
        PacketMemory::allocate(CELL_BYTES.into(), CELL_BYTES)
    }

    /// A socket that is not bound yet.
    ///
    /// # Errors
    /// [`XskError`].
    pub(super) fn socket(memory: &Arc<PacketMemory>, ifindex: u32, queue: u16) -> Result<Socket, XskError> {
        let rings = RingSizes::receiving(RING_ENTRIES)?;
        let config =
            SocketConfig { ifindex, queue_id: queue.into(), headroom: 0, rings, multi_buffer: false };
        Socket::create(config, Umem::Register(memory))
    }
}
