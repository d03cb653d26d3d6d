//! Why packets cannot be recorded.

use std::{io, path::PathBuf, time::Duration};

/// Why an output cannot be opened, or accepts no more.
///
/// The messages do not name the output: the caller, who chose it, does.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A pipe has no reader. Opening does not wait: try again later.
    #[error("no program reads the pipe; start one, or name a file")]
    NoReader,
    /// The output is a terminal.
    #[error("it is a terminal; name a file or a pipe")]
    Terminal,
    /// Another process has locked the file, as every [`Output`](crate::Output) does.
    #[error("another process is writing it; end that process, or name another file")]
    InUse,
    /// Only a file that [`Output::open`](crate::Output::open) opened can be written past the page cache.
    #[error("it is not a file, and only files are written past the page cache")]
    NoFile,
    /// A file that follows others cannot be opened: its path, and why.
    #[error("{}: {cause}", .path.display())]
    NextFile {
        /// The file.
        path: PathBuf,
        /// Why it cannot be opened.
        #[source]
        cause: Box<RecordError>,
    },
    /// Only a file can be the first of a series:
    /// [`RecordConfig::rotations`](crate::RecordConfig::rotations).
    #[error("it is not a file, and only files are followed by others")]
    NoFileToRotate,
    /// The file system accepts no writes past the page cache.
    #[error("its file system has no direct writes: {0}")]
    NoDirectWrites(#[source] io::Error),
    /// A link that anybody may have made: the link.
    #[error(
        "{} is a link in a directory that everyone may write to; name the file it leads to",
        .0.display()
    )]
    SharedLink(PathBuf),
    /// A file of another user in a directory where everyone may make files: it would get the packets.
    #[error(
        "it belongs to another user, in a directory that everyone may write to; remove it, or name another file"
    )]
    SharedFile,
    /// The file system has not kept all that it accepted, and says so only at the end, as network file
    /// systems do. The file keeps its partial name.
    #[error("its file system accepted everything, but could not keep it: {0}")]
    NotKept(#[source] io::Error),
    /// A complete file cannot be renamed to its name.
    #[error("it is complete, but cannot be renamed: {0}")]
    Unnamed(#[source] io::Error),
    /// Classic pcap has no interfaces, so a file can hold packets of only one. The number of ports.
    #[error("a pcap file holds packets of one interface, not of {0}; write pcapng")]
    SeveralPorts(usize),
    /// One output for each receive queue is needed: the number of outputs, and of queues.
    #[error("there are {0} outputs for {1} receive queues; open one for each")]
    OutputsForQueues(usize, usize),
    /// An error of the kernel.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The flag of [`RecordConfig::give_up`](crate::RecordConfig::give_up) was set.
    #[error("writing was given up")]
    GivenUp,
    /// At the end, the output accepted nothing for this long: see
    /// [`RecordConfig::drop_when_behind`](crate::RecordConfig::drop_when_behind).
    #[error("it accepted nothing for {} s at the end", .0.as_secs())]
    Stalled(Duration),
    /// The thread of the [`Writer`](crate::Writer) has panicked, or never ran it.
    #[error("the writer is gone")]
    WriterGone,
}

/// Why the output of one queue cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub struct OutputError {
    /// The index of its queue.
    pub output: usize,
    /// Why.
    #[source]
    pub cause: RecordError,
}
