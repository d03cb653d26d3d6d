//! How recording ended, and why nothing more is written.

use std::{fmt, path::PathBuf, sync::Arc};

use super::{copy::CopyReader, error::RecordError, output::Whereabouts, progress::WrittenCounts};

/// Why nothing more is written, although packets may still arrive.
#[derive(Debug)]
pub enum StopReason<'a> {
    /// The file, or the files of all queues together, have the requested number of packets.
    LimitReached,
    /// The last file of a series is full: [`Rotation::max_files`](crate::Rotation::max_files).
    FilesComplete,
    /// An output accepts no more.
    Failed {
        /// Which one: 0, or the index of its queue.
        output: usize,
        /// Why.
        cause: &'a RecordError,
    },
}

/// A callback for the [`StopReason`].
#[derive(Clone)]
pub struct StopCallback(pub(crate) Arc<dyn Fn(StopReason<'_>) + Send + Sync>);

impl<F: Fn(StopReason<'_>) + Send + Sync + 'static> From<F> for StopCallback {
    fn from(callback: F) -> Self {
        Self(Arc::new(callback))
    }
}

impl fmt::Debug for StopCallback {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("StopCallback")
    }
}

/// The result of recording.
#[derive(Debug)]
pub struct Outcome {
    /// What is in the output.
    pub written: WrittenCounts,
    /// Why packets may be missing in its copy, if there is one.
    pub copy_reader: CopyReader,
    /// Packets in its last file.
    pub last_packets: u64,
    /// Why the output is incomplete.
    pub failure: Option<RecordError>,
    /// Whether it may end within a packet: writing failed there, and the part was not cut off.
    pub may_end_in_packet: bool,
    /// Where the file was at the end, of a series the last one.
    pub whereabouts: Whereabouts,
    /// The name of the file if it is not complete, because of the failure: `NAME.partial`.
    pub partial: Option<PathBuf>,
    /// The files of a series before it whose packets another program removed.
    pub lost_files: Vec<LostFile>,
    /// Those that another program moved, with their packets.
    pub moved_files: Vec<MovedFile>,
}

/// A file of a series that another program moved while it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedFile {
    /// The path that it would have got.
    pub path: PathBuf,
    /// Where it was when it was complete.
    pub moved_to: PathBuf,
}

/// A file of a series that another program deleted or truncated while it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostFile {
    /// Its path.
    pub path: PathBuf,
    /// Packets that were written to it.
    pub packets: u64,
    /// What became of it.
    pub whereabouts: Whereabouts,
}
