//! What ends a capture.

use wirecap_core::choices;

/// What other threads report to the one that watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The requested number of packets was reached.
    CountReached,
    /// The requested number of files is complete.
    FilesComplete,
    /// The output accepts no more packets, and the error message.
    WriteFailed(String),
}

choices! {
    /// What ended a capture.
    pub(crate) enum End {
        /// SIGINT, SIGTERM or SIGHUP.
        Signal = "signal",
        /// `wirecap stop`.
        Stopped = "stop",
        /// The requested time is over.
        Duration = "duration",
        /// The requested number of packets was reached.
        Count = "count",
        /// The requested number of files is complete.
        Files = "files",
        /// The output accepts no more packets.
        WriteFailed = "write_failed",
        /// Every trace file is read, and there is no interface.
        Read = "read",
        /// Every interface is gone.
        PortsGone = "interfaces_gone",
        /// A worker ended before the capture.
        WorkerGone = "worker_ended",
        /// An interface that forwarding needs is gone.
        Cut = "interface_gone",
    }
}

#[cfg(test)]
mod tests {
    use wirecap_core::Choice;

    use super::*;

    #[test]
    fn the_manual_has_every_end() {
        let manual = include_str!("../../../../docs/book/reference/json.md");
        for end in End::ALL {
            assert!(manual.contains(&format!("`{}`", end.name)), "{end:?}");
        }
    }
}
