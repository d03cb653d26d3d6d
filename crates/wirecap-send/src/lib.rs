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
//! | why a queue does not send | [`SendError`] |
//! | a link that is lost while frames are sent | [`LinkMonitor`] |
//! | what the interface counts | [`TxCounters`] |
//! | what is not as it was asked for | [`SendDiagnostic`] |
//! | giving up a queue that does not move | [`StallTimer`] |
#![forbid(unsafe_code)]

mod diagnostic;
mod error;
mod lane;
mod link_monitor;
mod stall_timer;
mod tx_counters;

pub use diagnostic::{CopyReason, SendDiagnostic};
pub use error::{SendError, check_link, check_queues, transmit_queues};
pub use lane::{Lane, LaneReport};
pub use link_monitor::LinkMonitor;
pub use stall_timer::StallTimer;
pub use tx_counters::{TxCounters, TxDelta};
