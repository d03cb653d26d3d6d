//! What ends a capture.

/// What other threads have to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    /// As many packets as were asked for.
    CountReached,
    /// The output does not take any more, and why, in words.
    WriteFailed(String),
}

/// What ended a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// SIGINT, SIGTERM or SIGHUP.
    Signal,
    /// The time asked for is over.
    Duration,
    /// There are as many packets as were asked for.
    Count,
    /// The output does not take any more.
    WriteFailed,
    /// Every trace file is read, and there is no interface.
    Read,
    /// Every interface is gone.
    Deserted,
    /// A worker ended before the capture.
    WorkerGone,
    /// What is done with the packets cannot go on.
    Cut,
}

impl End {
    /// Its name in records.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            End::Signal => "signal",
            End::Duration => "duration",
            End::Count => "count",
            End::WriteFailed => "write_failed",
            End::Read => "read",
            End::Deserted => "interfaces_gone",
            End::WorkerGone => "worker_ended",
            End::Cut => "interface_gone",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_has_every_end() {
        let manual = include_str!("../../../../docs/book/reference/json.md");
        let ends = [End::Signal, End::Duration, End::Count, End::WriteFailed, End::Read, End::Deserted];
        for end in ends.into_iter().chain([End::WorkerGone, End::Cut]) {
            assert!(manual.contains(&format!("`{}`", end.as_str())), "{end:?}");
        }
    }
}
