//! Opens outputs: a file that no other process writes, a pipe with a reader, or a device.
//!
//! ```text
//!   open ─┬─ a file: lock it ─┬─ held by another ──────► refused, and untouched
//!         │                   ├─ replaced in between ──► opened again
//!         │                   └─ ours ─────────────────► written
//!         ├─ a pipe without a reader ──────────────────► refused: the caller waits
//!         └─ a pipe with a reader, a device ───────────► written
//! ```

use std::{
    fs::{File, Metadata, OpenOptions},
    io::{self, ErrorKind, IsTerminal},
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    path::Path,
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
};
use wirecap_sys::file_lock;

use super::error::RecordError;

/// Permissions of a new file: captured traffic is confidential.
const OWNER_ONLY: u32 = 0o600;

/// A file that is open for writing.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) file: File,
    /// Whether it is a regular file, which can be cut and is locked.
    pub(crate) is_regular: bool,
    /// Whether opening created it.
    pub(crate) is_new: bool,
    /// Why it could not be locked, on a file system without locks.
    pub(crate) lock_error: Option<io::Error>,
}

/// Opens a path for writing without changing its contents. Does not wait.
///
/// # Errors
/// Why it cannot be written.
pub(crate) fn open(path: &Path) -> Result<OpenFile, RecordError> {
    loop {
        let (file, is_new) = open_path(path)
            .map_err(|cause| if lacks_reader(path, &cause) { RecordError::NoReader } else { cause.into() })?;
        if file.is_terminal() {
            return Err(RecordError::Terminal);
        }
        // From now on, writes wait for room.
        fcntl(&file, FcntlArg::F_SETFL(OFlag::empty())).map_err(io::Error::from)?;
        let is_regular = file.metadata()?.is_file();
        let lock_error = match is_regular.then(|| file_lock::try_lock(&file)) {
            // Another capture, which failed to start, removed it between the two steps.
            Some(Ok(true)) if !is_at(&file, path) => continue,
            Some(Ok(false)) => return Err(RecordError::InUse),
            Some(Err(cause)) => Some(cause),
            Some(Ok(true)) | None => None,
        };
        return Ok(OpenFile { file, is_regular, is_new: is_new && is_regular, lock_error });
    }
}

/// Opens the file, and returns whether it is new. Does not wait for the reader of a pipe.
fn open_path(path: &Path) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.write(true).mode(OWNER_ONLY).custom_flags(OFlag::O_NONBLOCK.bits());
    match options.clone().create_new(true).open(path) {
        // Still creates the file if the path is a link to one that does not exist.
        Err(cause) if cause.kind() == ErrorKind::AlreadyExists => {
            options.create(true).truncate(false).open(path).map(|file| (file, false))
        }
        opened => opened.map(|file| (file, true)),
    }
}

/// Whether `path` names this file.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let identity = |metadata: Metadata| (metadata.dev(), metadata.ino());
    let (Ok(ours), Ok(there)) = (file.metadata(), path.metadata()) else { return false };
    identity(ours) == identity(there)
}

/// Whether opening failed because a pipe has no reader yet. A socket always gives the same error.
fn lacks_reader(path: &Path, cause: &io::Error) -> bool {
    cause.raw_os_error() == Some(Errno::ENXIO as i32)
        && path.metadata().is_ok_and(|metadata| metadata.file_type().is_fifo())
}
