//! Sending frames from transmit queues of an interface, over AF_XDP: what every sender needs, whether it
//! makes frames or reads them from files.
//!
//! ```text
//!   Lane:  write ──► idle cells ── stage ──► ring ── flush ──► the driver, or a copy by the kernel
//!                        ▲                                             │
//!                        └───────────────── reclaim ──────────────────┘      the frame stays in its cells
//! ```
//!
//! Rule: a cell belongs to the kernel from `stage` until `reclaim` returns it; a lane lends it to no one in
//! between.
//!
//! | to read about | open |
//! |---|---|
//! | one transmit queue in use | [`Lane`] |
//! | errors of sending | [`SendError`] |
//! | loss of the link | [`LinkMonitor`] |
//! | counters of the interface | [`TxCounters`] |
//! | requests that were not met | [`SendDiagnostic`] |
//! | giving up a stalled queue | [`StallTimer`] |
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
