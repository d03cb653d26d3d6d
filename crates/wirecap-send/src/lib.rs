//! Sending frames from transmit queues of an interface, over AF_XDP: what every sender needs, whether it
//! makes frames or reads them.
//!
//! ```text
//!   Lane:  write ──► idle cells ── stage ──► ring ── flush ──► the driver, or a copy by the kernel
//!                        ▲                                             │
//!                        └───────────────── reclaim ──────────────────┘      the frame stays in its cells
//! ```
//!
//! Rule: a cell is the kernel's from `stage` until `reclaim` returns it, and a lane never lends it in
//! between.
//!
//! | to read about | open |
//! |---|---|
//! | one transmit queue in use | [`Lane`] |
//! | why a queue does not send | [`Obstacle`] |
//! | giving up a queue that does not move | [`StallTimer`] |
#![forbid(unsafe_code)]

mod lane;
mod obstacle;
mod stall_timer;

pub use lane::{CopyReason, Lane, LaneReport};
pub use obstacle::Obstacle;
pub use stall_timer::StallTimer;
