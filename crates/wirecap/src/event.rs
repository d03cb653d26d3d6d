//! What [`Capture::events`](crate::Capture::events) tells.

use crate::{HostUse, QueueSet};

/// What happened to a port while the capture ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortEvent {
    /// The link went down. The capture goes on when it is up again.
    Down(String),
    /// The link is up.
    Up(String),
    /// The interface was deleted; what had been captured is kept.
    Removed(String),
    /// A trace file is read, to its end or as far as it can be: see [`crate::report::PortReport::error`].
    Read(String),
    /// Receive queues were added (`ethtool -L`). They are not captured: their packets go to the host.
    QueuesAdded {
        /// The interface.
        port: String,
        /// Receive queues it has now.
        queues: u32,
    },
    /// Receive queues that are captured were taken away (`ethtool -L`): nothing comes from them any more.
    QueuesRemoved {
        /// The port.
        port: String,
        /// Receive queues its interface has now.
        queues: u32,
    },
    /// The XDP program of a port was taken off its interface by force (`bpftool link detach`), or replaced. Packets went to the
    /// host, uncounted, until it was attached again.
    Detached {
        /// The port.
        port: String,
        /// Why it is not attached again, if it is not. It is tried again about once a second.
        failure: Option<String>,
    },
    /// Receive queues of an interface that is shared were taken out of the table by which their packets find the capture.
    /// Their packets went to the host, uncounted, until they were put back.
    QueuesLost {
        /// The port.
        port: String,
        /// The receive queues.
        queues: QueueSet,
        /// Why they cannot be put back, if they cannot. It is tried again about once a second.
        failure: Option<String>,
    },
    /// The host, or another program, has begun to use an interface that is taken, and gets none of the packets that are. Looked for
    /// every few seconds.
    InUse {
        /// The port.
        port: String,
        /// In which ways.
        uses: Vec<HostUse>,
    },
    /// RSS was symmetric, and somebody else has changed that; about a second later it was set again.
    Asymmetric {
        /// The port.
        port: String,
        /// Why it was not set again, if it was not.
        failure: Option<String>,
    },
}
