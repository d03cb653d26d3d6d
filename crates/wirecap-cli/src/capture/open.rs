//! Opening what packets are written to: a file that nobody else writes, a pipe with a reader, a device.
//!
//! ```text
//!   open ─┬─ a file: lock it ─┬─ held by another ──► refused, and untouched
//!         │                   ├─ replaced meanwhile ─► open again
//!         │                   └─ ours ──────────────► written
//!         ├─ a pipe nobody reads: say so, wait, look at signals, open again
//!         └─ a pipe that is read, a device ─────────► written
//! ```

use std::{
    fs::{File, OpenOptions},
    io::{self, ErrorKind, IsTerminal},
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    path::Path,
    thread,
    time::Duration,
};

use anyhow::{Result, anyhow};
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
};
use wirecap_sys::file_lock;

use crate::{exit::tell, signals::Signals};

/// How often it is looked whether a pipe has a reader.
const TICK: Duration = Duration::from_millis(50);

/// Permissions of a new file.
const OWNER_ONLY: u32 = 0o600;

/// A file that is open for writing.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: File,
    /// Whether it is a file on a disk: it can be cut, and is locked.
    pub(super) is_regular: bool,
    /// Whether it was not there before.
    pub(super) is_new: bool,
}

/// Opens a path for writing, and leaves its contents alone.
///
/// # Errors
/// Why it cannot be written, in words.
pub(super) fn open(path: &Path, signals: &Signals) -> Result<Opened> {
    let mut waiting = false;
    loop {
        match try_open(path) {
            Ok((file, is_new)) => {
                if let Some(opened) = take(path, file, is_new)? {
                    return Ok(opened);
                }
            }
            Err(cause) if lacks_reader(path, &cause) => {
                if !waiting {
                    tell(format_args!("wirecap: waiting for a program that reads {}", path.display()));
                    waiting = true;
                }
                if signals.end() {
                    return Err(anyhow!("nobody reads {}, so nothing was captured", path.display()));
                }
                thread::sleep(TICK);
            }
            Err(cause) => return Err(explain(path, &cause)),
        }
    }
}

/// Opens a file for writing and says whether it is new. Does not wait for the reader of a pipe. A new one is for its owner alone: what
/// others say to each other is in it.
fn try_open(path: &Path) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.write(true).mode(OWNER_ONLY).custom_flags(OFlag::O_NONBLOCK.bits());
    match options.clone().create_new(true).open(path) {
        // Created all the same if it is a link to a file that does not exist.
        Err(cause) if cause.kind() == ErrorKind::AlreadyExists => {
            options.create(true).truncate(false).open(path).map(|file| (file, false))
        }
        opened => opened.map(|file| (file, true)),
    }
}

/// Makes an open file ours. `None` if it is no longer what the path names.
fn take(path: &Path, file: File, is_new: bool) -> Result<Option<Opened>> {
    let failed = |cause| explain(path, &cause);
    if file.is_terminal() {
        return Err(anyhow!("cannot write {}: it is a terminal; name a file or a pipe", path.display()));
    }
    // From now on a write waits until there is room.
    fcntl(&file, FcntlArg::F_SETFL(OFlag::empty())).map_err(|errno| failed(errno.into()))?;
    let is_regular = file.metadata().map_err(failed)?.is_file();
    if is_regular {
        match file_lock::try_lock(&file) {
            Ok(true) if is_at(&file, path) => {}
            // Another capture that did not come about has removed it between our two steps.
            Ok(true) => return Ok(None),
            Ok(false) => {
                return Err(anyhow!(
                    "cannot write {0}: it is being written by another process; end that one, or name another file \
                     (fuser -v {0} shows it)",
                    path.display()
                ));
            }
            Err(cause) => tell(format_args!(
                "wirecap: {} cannot be locked ({cause}); see to it that nothing else writes it",
                path.display()
            )),
        }
    }
    Ok(Some(Opened { file, is_regular, is_new: is_new && is_regular }))
}

/// Whether `path` names this very file.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    let (Ok(ours), Ok(there)) = (file.metadata(), path.metadata()) else { return false };
    identity(ours) == identity(there)
}

/// Whether opening failed as a pipe has no reader yet. A socket gives the same answer, and for ever.
fn lacks_reader(path: &Path, cause: &io::Error) -> bool {
    cause.raw_os_error() == Some(Errno::ENXIO as i32)
        && path.metadata().is_ok_and(|metadata| metadata.file_type().is_fifo())
}

/// Why a path cannot be written, with what to do about it.
pub(super) fn explain(path: &Path, cause: &io::Error) -> anyhow::Error {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let hint = match cause.kind() {
        ErrorKind::NotFound => format!("; make the directory first: mkdir -p {}", directory.display()),
        ErrorKind::PermissionDenied => {
            format!("; choose a directory you may write to, not {}", directory.display())
        }
        ErrorKind::IsADirectory => format!("; name a file in it: {}", path.join("trace.pcapng").display()),
        ErrorKind::ReadOnlyFilesystem => "; choose another disk".into(),
        _ => String::new(),
    };
    anyhow!("cannot write {}: {}{hint}", path.display(), in_words(cause))
}

/// What the kernel said to a write, and what to do about it.
pub(super) fn in_words(cause: &io::Error) -> String {
    let hint = match cause.kind() {
        ErrorKind::BrokenPipe => return "the program that read it has gone away (broken pipe)".into(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "; make room, or choose another disk",
        ErrorKind::FileTooLarge => {
            "; raise the limit on the size of files (ulimit -f), or stop earlier with -c"
        }
        _ => "",
    };
    format!("{cause}{hint}")
}
