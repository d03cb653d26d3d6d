//! Opens outputs: a file that no other process writes, a pipe with a reader, or a device.
//!
//! ```text
//!   open ─┬─ a file: lock it ─┬─ held by another ──────► refused, and untouched
//!         │                   ├─ replaced in between ──► opened again
//!         │                   └─ ours ─────────────────► written: NAME.partial, or NAME in place
//!         ├─ a pipe without a reader ──────────────────► refused: the caller waits
//!         └─ a pipe with a reader, a device ───────────► written
//! ```

use std::{
    fs::{File, Metadata, OpenOptions, Permissions},
    io::{self, ErrorKind, IsTerminal},
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown},
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    unistd::{close, geteuid},
};
use wirecap_sys::file_lock;

use super::{
    error::RecordError,
    naming::{FileOptions, Target, WORLD_WRITABLE, partial_names},
};

/// Permissions of a new file: captured traffic is confidential.
const NEW_FILE: u32 = 0o640;
/// The bits of permissions, as in chmod(2).
const PERMISSIONS: u32 = 0o7777;

/// A file that is open for writing.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) file: File,
    /// Its path now.
    pub(crate) path: PathBuf,
    /// What it becomes when it is complete.
    pub(crate) becomes: Option<FutureName>,
    /// Whether it is a regular file, which can be cut and is locked.
    pub(crate) is_regular: bool,
    /// Whether opening created it.
    pub(crate) is_new: bool,
    /// Why it could not be locked, on a file system without locks.
    pub(crate) lock_error: Option<io::Error>,
    /// A file that a capture of the same name has left, because it was killed.
    pub(crate) left_over: Option<PathBuf>,
}

/// The name of a file that is not complete yet.
#[derive(Debug)]
pub(crate) struct FutureName {
    pub(crate) path: PathBuf,
    /// The file that has the name now. Its lock keeps other captures from writing it.
    _replaced: Option<File>,
}

/// Opens a path for writing without changing its contents. Does not wait.
///
/// # Errors
/// Why it cannot be written.
pub(crate) fn open(path: &Path, options: FileOptions) -> Result<OpenFile, RecordError> {
    match Target::of(path)? {
        Target::File(path) if options.in_place => {
            let mut opened = open_in_place(&path, OFlag::O_NOFOLLOW)?;
            opened.set_permissions(options.mode)?;
            Ok(opened)
        }
        Target::File(path) => open_partial(&path, options.mode),
        Target::Other => open_in_place(path, OFlag::empty()),
    }
}

/// Opens what has this path, or creates a file.
fn open_in_place(path: &Path, flags: OFlag) -> Result<OpenFile, RecordError> {
    loop {
        let (file, is_new) = open_path(path, flags)
            .map_err(|cause| if lacks_reader(path, &cause) { RecordError::NoReader } else { cause.into() })?;
        if file.is_terminal() {
            return Err(RecordError::Terminal);
        }
        // From now on, writes wait for room.
        fcntl(&file, FcntlArg::F_SETFL(OFlag::empty())).map_err(io::Error::from)?;
        let metadata = file.metadata()?;
        let is_regular = metadata.is_file();
        if is_regular && !is_new && !is_trusted(path, &metadata)? {
            return Err(RecordError::SharedFile);
        }
        let lock_error = match is_regular.then(|| lock(&file)) {
            // Another capture, which failed to start, removed it between the two steps.
            Some(Ok(None)) if !is_at(&file, path) => continue,
            Some(lock_error) => lock_error?,
            None => None,
        };
        let is_new = is_new && is_regular;
        let (path, becomes, left_over) = (path.into(), None, None);
        return Ok(OpenFile { file, path, becomes, is_regular, is_new, lock_error, left_over });
    }
}

/// Creates the file that will have this path when it is complete.
fn open_partial(path: &Path, mode: Option<u32>) -> Result<OpenFile, RecordError> {
    let replaced = match open_existing(path) {
        Ok(file) => {
            // Only root can put another one in its place, which then gets nothing of it.
            if !is_trusted(path, &file.metadata()?)? && !geteuid().is_root() {
                return Err(RecordError::SharedFile);
            }
            lock(&file)?;
            Some(file)
        }
        Err(cause) if cause.kind() == ErrorKind::NotFound => None,
        Err(cause) => return Err(cause.into()),
    };
    let before = replaced.as_ref().map(File::metadata).transpose()?;
    let mut left_over = None;
    for name in partial_names(path) {
        let file = match OpenOptions::new().write(true).create_new(true).mode(NEW_FILE).open(&name) {
            Ok(file) => file,
            Err(cause) if cause.kind() == ErrorKind::AlreadyExists => {
                check_unused(&name)?;
                left_over = left_over.or(Some(name));
                continue;
            }
            Err(cause) => return Err(cause.into()),
        };
        let lock_error = lock_new(&file, &name)?;
        let becomes = Some(FutureName { path: path.into(), _replaced: replaced });
        let mut opened =
            OpenFile { file, path: name, becomes, is_regular: true, is_new: true, lock_error, left_over };
        if let Some(before) = before.filter(|before| is_trusted(path, before).unwrap_or(false)) {
            // Fails if this process may not give files away: then it is the owner's own.
            let _ = fchown(&opened.file, Some(before.uid()), Some(before.gid()));
            opened.set_permissions(Some(before.mode() & PERMISSIONS))?;
        }
        opened.set_permissions(mode)?;
        return Ok(opened);
    }
    Err(io::Error::from(ErrorKind::AlreadyExists).into())
}

impl OpenFile {
    fn set_permissions(&mut self, mode: Option<u32>) -> Result<(), RecordError> {
        let Some(mode) = mode else { return Ok(()) };
        if let Err(cause) = self.file.set_permissions(Permissions::from_mode(mode)) {
            if self.is_new {
                // The caller has the error that led here.
                let _ = std::fs::remove_file(&self.path);
            }
            return Err(cause.into());
        }
        Ok(())
    }
}

/// Whether no other user can have put a file where it is, to read what is captured: the new file gets its
/// owner and permissions. The kernel distrusts the same ones where a file might be created
/// (`fs.protected_regular`). On a mount that maps owners, the files of this user are another's.
fn is_trusted(path: &Path, metadata: &Metadata) -> io::Result<bool> {
    let directory = path.parent().unwrap_or(Path::new("/")).metadata()?;
    let is_shared = directory.mode() & WORLD_WRITABLE != 0;
    let owners = [geteuid().as_raw(), directory.uid()];
    Ok(!is_shared || owners.contains(&metadata.uid()))
}

/// Refuses a file that another capture is writing now. One that was killed holds no lock.
///
/// # Errors
/// [`RecordError::InUse`].
pub fn check_unused(path: &Path) -> Result<(), RecordError> {
    // A lock needs no right to write: that of a capture of another user is seen, too. Of a file that cannot
    // even be read, nothing is known.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path);
    opened.map_or(Ok(()), |file| lock(&file).map(drop))
}

/// Opens a file for writing, if there is one.
fn open_existing(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    OpenOptions::new().write(true).custom_flags(flags.bits()).open(path)
}

/// Locks a file. Returns why not, on a file system without locks.
///
/// # Errors
/// [`RecordError::InUse`].
fn lock(file: &File) -> Result<Option<io::Error>, RecordError> {
    match file_lock::try_lock(file) {
        Ok(true) => Ok(None),
        Ok(false) => Err(RecordError::InUse),
        Err(cause) => Ok(Some(cause)),
    }
}

/// Locks a file that was created a moment ago. If another process was faster, the file is removed: a capture
/// that does not start leaves none.
fn lock_new(file: &File, path: &Path) -> Result<Option<io::Error>, RecordError> {
    lock(file).inspect_err(|_| {
        if is_at(file, path) {
            // The caller has the error that led here; a remaining empty file is the smaller problem.
            let _ = std::fs::remove_file(path);
        }
    })
}

/// Opens the file, and returns whether it is new. Does not wait for the reader of a pipe.
fn open_path(path: &Path, flags: OFlag) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.write(true).mode(NEW_FILE).custom_flags((flags | OFlag::O_NONBLOCK).bits());
    match options.clone().create_new(true).open(path) {
        Err(cause) if cause.kind() == ErrorKind::AlreadyExists => {
            options.create(true).truncate(false).open(path).map(|file| (file, false))
        }
        opened => opened.map(|file| (file, true)),
    }
}

/// Asks the file system whether it has kept everything: network file systems, and those in user space, say so
/// when a descriptor is closed. Costs nothing elsewhere.
///
/// # Errors
/// Something was not kept.
pub(crate) fn check_kept(file: &File) -> Result<(), RecordError> {
    // Dropping a file would discard the answer. The file itself stays open, and so locked.
    let closed = file.try_clone().and_then(|file| match close(file) {
        Err(Errno::EINTR) | Ok(()) => Ok(()),
        Err(cause) => Err(cause.into()),
    });
    closed.map_err(RecordError::NotKept)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_that_another_process_has_locked_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.pcapng.partial");
        let file = File::create_new(&path).unwrap();
        let other = File::open(&path).unwrap();
        assert!(matches!(lock(&other), Ok(None)));
        assert!(matches!(lock_new(&file, &path), Err(RecordError::InUse)));
        assert!(!path.exists());
    }
}
