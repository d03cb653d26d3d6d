//! Opens the output, and has the texts of its errors.

use std::{
    fs::{File, OpenOptions},
    io::{self, ErrorKind},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{FileTypeExt, OpenOptionsExt},
    },
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow, ensure};
use nix::{errno::Errno, fcntl::OFlag};
use wirecap_file::Format;
use wirecap_record::{Compression, FileOptions, Output, RecordError};
use wirecap_sys::standard_output;

use crate::{
    process::signals::Signals, settings::OutputSettings, text::error::directory_hint, values::FileMode,
};

/// How often to check whether a pipe has a reader.
const TICK: Duration = Duration::from_millis(50);
/// When to say that it has none: programs that start together need some time.
const LONG: Duration = Duration::from_millis(500);
/// How long a file that another process writes is waited for, and how often it is tried.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
const LOCK_TURN: Duration = Duration::from_millis(20);

/// Standard output, as an output.
///
/// # Errors
/// It was closed; the process may have no more files open.
pub(super) fn stdout(format: Format) -> Result<Output> {
    ensure!(
        !standard_output::was_closed(),
        "standard output is closed (>&-), so nothing would get the packets; let -w name a file or a pipe"
    );
    Ok(Output::stream(File::from(io::stdout().as_fd().try_clone_to_owned()?), format))
}

/// How outputs are opened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opening {
    options: FileOptions,
    /// Whether to write past the page cache.
    direct_io: bool,
    /// Whether old files are deleted.
    is_ring: bool,
}

impl Opening {
    pub(super) fn of(settings: &OutputSettings) -> Self {
        let mode = settings.file_mode.map(|FileMode(mode)| mode);
        let options = FileOptions { mode, in_place: settings.in_place, compression: None };
        Self { options, direct_io: settings.direct_io, is_ring: settings.kept_files().is_some() }
    }

    /// Opens an output without changing its contents.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub(super) fn open(self, path: &Path, format: Format) -> Result<Output, RecordError> {
        let compression = Compression::from_path(path);
        let output = Output::open_with(path, format, FileOptions { compression, ..self.options })?;
        if let Some(left_over) = output.left_over() {
            let fate =
                if self.is_ring { "it counts as one of the files that are kept" } else { "it is kept" };
            note!("{} is left from a capture that was killed; {fate}", left_over.display());
        }
        if self.direct_io { output.direct() } else { Ok(output) }
    }
}

/// Opens a file as soon as no other process writes it: one that was killed a moment ago holds its lock until
/// the kernel has taken its memory apart.
pub(super) fn once_unlocked<T>(mut open: impl FnMut() -> Result<T, RecordError>) -> Result<T, RecordError> {
    let begun = Instant::now();
    loop {
        match open() {
            Err(RecordError::InUse) if begun.elapsed() < LOCK_TIMEOUT => thread::sleep(LOCK_TURN),
            opened => return opened,
        }
    }
}

/// The wait for the reader of a pipe.
#[derive(Debug)]
struct ReaderWait<'a> {
    path: &'a Path,
    signals: &'a Signals,
    begun: Instant,
    is_noted: bool,
}

impl<'a> ReaderWait<'a> {
    fn new(path: &'a Path, signals: &'a Signals) -> Self {
        Self { path, signals, begun: Instant::now(), is_noted: false }
    }

    /// Waits a little longer, and says so when it takes long.
    ///
    /// # Errors
    /// A signal has requested the end.
    fn go_on(&mut self) -> Result<()> {
        let path = self.path.display();
        if !self.is_noted && self.begun.elapsed() >= LONG {
            note!("waiting for a program that reads {path}");
            self.is_noted = true;
        }
        ensure!(!self.signals.end(), "no program reads {path}, so nothing was captured");
        thread::sleep(TICK);
        Ok(())
    }
}

/// Opens an output without changing its contents. Waits for the reader of a pipe until a signal requests the
/// end.
///
/// # Errors
/// Why it cannot be written, and what to do about it.
pub(super) fn open(path: &Path, format: Format, opening: Opening, signals: &Signals) -> Result<Output> {
    let mut wait = ReaderWait::new(path, signals);
    loop {
        match once_unlocked(|| opening.open(path, format)) {
            Err(RecordError::NoReader) => wait.go_on()?,
            Err(error) => return Err(cannot_open(path, &error)),
            Ok(output) => {
                if let Some(cause) = output.lock_error() {
                    note!(
                        "{} cannot be locked ({cause}); make sure that no other program writes it",
                        path.display()
                    );
                }
                return Ok(output);
            }
        }
    }
}

/// Opens a named pipe that gets a copy. Waits for its reader until a signal requests the end.
///
/// # Errors
/// Why it cannot be written, and what to do about it.
pub(super) fn open_pipe(path: &Path, signals: &Signals) -> Result<OwnedFd> {
    let found = path.metadata();
    let (name, is_missing) =
        (path.display(), found.as_ref().is_err_and(|cause| cause.kind() == ErrorKind::NotFound));
    ensure!(!is_missing, "--copy-to {name}: there is no such pipe; make it first: mkfifo {name}");
    let is_pipe = found.map_err(|cause| cannot_open(path, &cause.into()))?.file_type().is_fifo();
    ensure!(is_pipe, "--copy-to {name}: that is not a named pipe; name one, which mkfifo makes");
    let mut wait = ReaderWait::new(path, signals);
    loop {
        match OpenOptions::new().write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path) {
            Err(cause) if cause.raw_os_error() == Some(Errno::ENXIO as i32) => wait.go_on()?,
            Err(cause) => return Err(cannot_open(path, &cause.into())),
            Ok(pipe) => return Ok(pipe.into()),
        }
    }
}

/// An output that cannot be opened because its disk is full, or a quota used up: what happened, and what to
/// do about it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NoRoom(pub(super) String);

/// Why recording cannot start, and what to do about it.
pub(super) fn cannot_start(output: &str, error: &RecordError) -> anyhow::Error {
    match error {
        RecordError::GivenUp => anyhow!("writing {output} was given up on a signal"),
        error => cannot_open(Path::new(output), error),
    }
}

pub(crate) fn cannot_open(path: &Path, error: &RecordError) -> anyhow::Error {
    let name = path.display();
    let RecordError::Io(cause) = error else {
        return match error {
            RecordError::InUse => anyhow!(
                "cannot write {name}: another process is writing it; end that process (fuser -v {name} shows it), or name \
                 another file"
            ),
            error @ (RecordError::NoFile | RecordError::NoDirectWrites(_)) => {
                anyhow!("cannot write {name}: {error}; leave --direct-io out, or name a file on another disk")
            }
            error => anyhow!("cannot write {name}: {error}"),
        };
    };
    let hint = match cause.kind() {
        ErrorKind::PermissionDenied if path.is_file() => {
            "; choose a directory you may write to, or write over the file by --in-place".into()
        }
        ErrorKind::IsADirectory => format!("; name a file in it: {}", path.join("trace.pcapng").display()),
        _ => directory_hint(path, cause),
    };
    let text = format!("{}{hint}", cannot_write(&name.to_string(), error));
    match cause.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => NoRoom(text).into(),
        _ => anyhow!(text),
    }
}

/// Why an output accepts no more, and what to do about it.
pub(super) fn cannot_write(output: &str, error: &RecordError) -> String {
    match error {
        RecordError::Io(cause) if cause.kind() == ErrorKind::BrokenPipe => {
            format!("cannot write {output}: the program that read it has ended (broken pipe)")
        }
        error => format!("cannot write {output}: {error}{}", hint(error)),
    }
}

fn hint(error: &RecordError) -> &'static str {
    match error {
        RecordError::Io(cause) => match cause.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "; make room, or choose another disk",
            ErrorKind::FileTooLarge => {
                "; raise the limit on the size of files (ulimit -f), or stop earlier with -c"
            }
            _ if cause.raw_os_error() == Some(Errno::EMFILE as i32) => {
                "; raise the limit on open files (ulimit -n, LimitNOFILE= in a service)"
            }
            _ => "",
        },
        RecordError::NextFile { cause, .. } => hint(cause),
        RecordError::WriterGone => ": the thread that writes panicked, please report this",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_opened_once_the_process_that_writes_it_has_ended() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.pcapng");
        let open = || Output::open(&path, Format::Pcapng);
        let other = open().unwrap();
        assert!(matches!(open(), Err(RecordError::InUse)));
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(LOCK_TURN * 5);
                drop(other);
            });
            once_unlocked(open).unwrap();
        });
        let _other = open().unwrap();
        let begun = Instant::now();
        assert!(matches!(once_unlocked(open), Err(RecordError::InUse)) && begun.elapsed() >= LOCK_TIMEOUT);
    }

    #[test]
    fn a_kernel_error_has_its_hint() {
        let cannot_open = |kind: ErrorKind| {
            let error = RecordError::Io(kind.into());
            cannot_open(Path::new("/there/a.pcapng"), &error).to_string()
        };
        assert!(cannot_open(ErrorKind::NotFound).ends_with("make the directory first: mkdir -p /there"));
        let in_proc = RecordError::Io(ErrorKind::NotFound.into());
        let in_proc = super::cannot_open(Path::new("/proc/x.pcapng"), &in_proc).to_string();
        assert!(in_proc.ends_with("; /proc takes no new files: choose another directory"), "{in_proc}");
        assert!(cannot_open(ErrorKind::IsADirectory).ends_with("/there/a.pcapng/trace.pcapng"));
        assert!(cannot_open(ErrorKind::StorageFull).contains("; make room"));
        for (kind, is_room) in
            [(ErrorKind::StorageFull, true), (ErrorKind::QuotaExceeded, true), (ErrorKind::NotFound, false)]
        {
            let error = super::cannot_open(Path::new("a.pcapng"), &io::Error::from(kind).into());
            assert_eq!(error.is::<NoRoom>(), is_room, "{kind}");
        }
        let in_use = super::cannot_open(Path::new("a.pcapng"), &RecordError::InUse).to_string();
        assert!(in_use.contains("another process is writing it"), "{in_use}");
        let broken = cannot_write("standard output", &RecordError::Io(ErrorKind::BrokenPipe.into()));
        assert!(broken.ends_with("has ended (broken pipe)"), "{broken}");
    }

    #[test]
    fn a_file_that_cannot_follow_has_the_hint_of_its_cause() {
        for (errno, hint) in
            [(Errno::ENOSPC, "; make room"), (Errno::EMFILE, "; raise the limit on open files")]
        {
            let cause = Box::new(RecordError::Io(errno.into()));
            let error = RecordError::NextFile { path: "x_00002.pcapng".into(), cause };
            let text = cannot_write("x_*.pcapng", &error);
            assert!(text.starts_with("cannot write x_*.pcapng: x_00002.pcapng: "), "{text}");
            assert!(text.contains(hint), "{text}");
        }
    }
}
