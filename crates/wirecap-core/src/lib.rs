//! The engine of wirecap, without I/O.
//!
//! Plain state machines that take events and the time and return decisions. There is no socket, no
//! thread, no clock and no `unsafe` in this crate, so that the runtime and a simulator can drive the
//! same code.
//!
//! ```text
//!                 attach                      fill                     hand_over
//!   free chunks ──────────► attached chunks ────────► filled cells ──────────────► ChunkRange ──┐
//!        ▲                                                                                      │
//!        │ last cell home                                      CaptureQueue (one per worker) ◄──┤ push
//!        │                                                              │                       │
//!      Pool ◄── recycle ◄── RecycleQueue (one per pool) ◄── worker ◄────┴───────────────────────┘ pull
//! ```
//!
//! | to read about | open |
//! |---|---|
//! | what M, R and the cell size may be | [`geometry`] |
//! | basic and advanced mode, T | [`mode`] |
//! | the token that stands for filled cells | [`chunk`] |
//! | the three states of a chunk and its way home | [`pool`] |
//! | how the kernel's descriptors get into a chunk | [`filler`] |
//! | what is known of each filled cell | [`slots`] |
//! | when packets without their own timestamp came | [`arrivals`] |
//! | a histogram of lengths of time | [`spread`] |
//! | the work-queue pair | [`mod@capture_queue`], [`recycle_queue`] |
//! | who gets a chunk when a worker is behind | [`group`] |
//! | who gets what waited for a worker that is gone, and in which order | [`orphans`] |
//! | when filled cells go to which worker, with `push` | [`dispatch`] |
//! | where every packet went | [`account`] |
//! | values that a person chooses by name | [`choice`] |
//!
//! The words are those of the paper: Wu and DeMar, *WireCAP: a Novel Packet Capture Engine for
//! Commodity NICs in High-speed Networks*, IMC 2014.
#![forbid(unsafe_code)]

pub mod account;
pub mod arrivals;
mod bits;
pub mod capture_queue;
pub mod choice;
pub mod chunk;
pub mod dispatch;
pub mod filler;
pub mod geometry;
pub mod group;
pub mod mode;
pub mod orphans;
pub mod pool;
pub mod recycle_queue;
mod run;
pub mod slots;
pub mod spread;
mod sync;

pub use account::{LossCounts, QueueAccount};
pub use arrivals::{Arrivals, Window};
pub use capture_queue::{BacklogGauge, CaptureConsumer, CaptureProducer, capture_queue};
pub use choice::{Choice, nearest};
pub use chunk::{ChunkRange, ChunkState, Handover, PoolId, PoolNumber};
pub use dispatch::Dispatcher;
pub use filler::{Filler, PackedPart};
pub use geometry::{Geometry, GeometryError};
pub use group::{BuddyGroup, Load};
pub use mode::Mode;
pub use orphans::{CaptureQueues, Orphans};
pub use pool::{Pool, PoolLevels, RecycleError};
pub use recycle_queue::RecycleQueue;
pub use slots::{Descriptor, Direction, FilledParts, FilledSlots, SlotPart, SlotTable};
pub use spread::Spread;

#[cfg(all(test, loom))]
mod loom_tests;
