//! Sending: packets that were captured go out of any port of the engine, from the cells they lie in.
//!
//! ```text
//!   Batch ── drain() ──► OwnedPacket ── data_mut(), prepend() ──► forward(&mut Transmitter)
//!                            │ dropped: home                          │ flush(): one kick for all
//!                            └───────────────────► its pool ◄─────────┘ when the kernel has sent it
//! ```
//!
//! Nothing is copied in user space: what is put into the transmit ring is the descriptor of the cell. All
//! AF_XDP ports of an engine that sends, and its trace files, lie in one packet memory, so it does not matter
//! which of them a packet came by (section 3.2.3 of the paper; here the cell is lent to the kernel for as
//! long as it sends, and goes home by itself); with [`Reach::Worker`](crate::Reach), those of one worker do.

mod allocator;
mod counters;
mod forward;
mod share;
mod transmitter;

pub use self::{
    allocator::PacketAllocator,
    forward::{ForwardCounts, UnsentPacket},
    transmitter::Transmitter,
};
pub(crate) use self::{
    allocator::{AllocatorParts, carve as carve_allocators},
    counters::TransmitCounters,
};
