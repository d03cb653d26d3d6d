//! What [`Capture::events`](crate::Capture::events) reports, and a wait while a capture is opened.

use std::time::Duration;

use super::{HostUse, diagnostic::Diagnostic};

/// What happened to a port while the capture ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortEvent {
    /// The interface was switched off. The capture continues when it is switched on and connected again.
    Down(String),
    /// The interface is switched on and not connected. The capture continues when it has a carrier again.
    NoCarrier(String),
    /// The link is up.
    Up(String),
    /// The interface was deleted; what had been captured is kept.
    Removed(String),
    /// A trace file is read, to its end or as far as it can be: see [`crate::report::PortReport::error`].
    Read(String),
    /// The host, or another program, has begun to use an interface that is taken, and gets none of the
    /// packets that are. Looked for every few seconds.
    InUse {
        /// The port.
        port: String,
        /// In which ways.
        uses: Vec<HostUse>,
    },
    /// Something that also stands among the port's [warnings](crate::report::PortReport::warnings) from now
    /// on.
    Warning {
        /// The port.
        port: String,
        /// What it is.
        warning: Diagnostic,
    },
}

/// A wait for a receive queue with an AF_XDP socket of another process, whose program is not on the
/// interface: that of a capture which is starting or ending. See
/// [`Builder::on_wait`](crate::Builder::on_wait).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueWait {
    /// The interface.
    pub interface: String,
    /// The receive queue.
    pub queue: u16,
    /// How long it is waited for at most.
    pub timeout: Duration,
}
