//! Why packets cannot be recorded.

use std::{io, time::Duration};

/// Why an output cannot be opened, or takes no more.
///
/// It does not name the output: the caller does, who has named it first.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A pipe has no reader. Open it again later: the attempt waits for nothing.
    #[error("no program reads the pipe; start one, or name a file")]
    NoReader,
    /// Packets on a terminal are of no use.
    #[error("it is a terminal; name a file or a pipe")]
    Terminal,
    /// Another process has locked the file, as every [`Output`](crate::Output) does.
    #[error("another process writes it; end that process, or name another file")]
    InUse,
    /// Classic pcap names no interfaces, so that a file holds packets of one. This is their number.
    #[error("a pcap file holds packets of one interface, not of {0}; write pcapng")]
    SeveralPorts(usize),
    /// What the kernel said.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The flag of [`RecordConfig::give_up`](crate::RecordConfig::give_up) was set.
    #[error("writing was given up")]
    GivenUp,
    /// At the end the output has taken nothing for this long: see
    /// [`RecordConfig::drop_when_behind`](crate::RecordConfig::drop_when_behind).
    #[error("it took nothing for {} s at the end", .0.as_secs())]
    Stalled(Duration),
    /// The thread of the [`Writer`](crate::Writer) has panicked, or never ran it.
    #[error("the writer is gone")]
    WriterGone,
}
