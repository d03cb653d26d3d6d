//! Why settings could not be changed or restored at all. What one setting did is in its outcome.

use std::{io, path::PathBuf};

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The journal cannot be kept or read.
    #[error("cannot use the journal {}: {cause}", path.display())]
    Journal {
        /// The file or its directory.
        path: PathBuf,
        /// The kernel's answer.
        cause: io::Error,
    },

    /// Another process changes or restores settings.
    #[error("another wirecap doctor uses the journal in {}: wait until it has ended", path.display())]
    Busy {
        /// The directory.
        path: PathBuf,
    },

    /// Other users could change the journal, and with it what is restored.
    #[error(
        "users other than this one may write {}, and what a journal says is written to the machine",
        path.display()
    )]
    Open {
        /// The directory.
        path: PathBuf,
        /// Whether it is meant for the files of all users, like `/tmp`: its sticky bit is set.
        is_sticky: bool,
    },

    /// A line of the journal is damaged, and not the last one.
    #[error("line {line} of the journal {} is damaged: {cause}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The number of the line.
        line: usize,
        /// Where reading stopped.
        cause: serde_json::Error,
    },
}

impl Error {
    pub(super) fn journal(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        |cause| Self::Journal { path, cause }
    }
}
