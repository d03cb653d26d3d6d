//! What ends a capture.

use wirecap_core::choices;

/// What other threads have to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    /// As many packets as were asked for.
    CountReached,
    /// The output does not take any more, and why, in words.
    WriteFailed(String),
}

choices! {
    /// What ended a capture, as records name it.
    pub(crate) enum End {
        /// SIGINT, SIGTERM or SIGHUP.
        Signal = "signal",
        /// The time asked for is over.
        Duration = "duration",
        /// There are as many packets as were asked for.
        Count = "count",
        /// The output does not take any more.
        WriteFailed = "write_failed",
        /// Every trace file is read, and there is no interface.
        Read = "read",
        /// Every interface is gone.
        Deserted = "interfaces_gone",
        /// A worker ended before the capture.
        WorkerGone = "worker_ended",
        /// What is done with the packets cannot go on.
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
