//! The files of a profile, written by a thread: `--csv` while it runs, `--picture` at the end.
//!
//! Rule: a file is `NAME.partial` until it is complete, and only then replaces one that exists. Devices are
//! written as they are, and pipes are refused. A file that fails is reported at once, and does not end the
//! others.

use std::{
    fmt, fs,
    io::Write,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::JoinHandle,
};

use anyhow::{Result, anyhow, ensure};
use wirecap::PortSpec;
use wirecap_record::PlainFile;
use wirecap_sandbox::{Profile, Sandbox, WritePaths};

use super::flags::ProfileRequest;
use crate::{
    capture::{output::cannot_open, plan::Plan},
    process::idle_thread::IdleThread,
};

/// How many pieces may wait for the thread that writes.
const WAITING_PIECES: usize = 64;

/// What the thread writes.
#[derive(Debug)]
pub(super) enum Piece {
    /// Rows for the CSV file.
    Rows(Vec<u8>),
    /// The picture; nothing follows it.
    Picture(String),
}

/// The channel to the thread that writes.
fn pieces() -> (SyncSender<Piece>, Receiver<Piece>) {
    sync_channel(WAITING_PIECES)
}

/// Creates a file.
///
/// # Errors
/// Why it cannot be written, and what to do about it.
fn create(path: &Path) -> Result<PlainFile> {
    let is_pipe = path.metadata().is_ok_and(|metadata| metadata.file_type().is_fifo());
    ensure!(
        !is_pipe,
        usage!("{} is a pipe, whose reader could hold the profile up; name a file", path.display())
    );
    PlainFile::create(path).map_err(|error| cannot_open(path, &error))
}

/// What went wrong, as text: one line for each file.
#[derive(Debug, Clone, Default)]
struct Failures(Arc<Mutex<Vec<String>>>);

impl Failures {
    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The files, and the thread that will write them.
#[derive(Debug)]
pub(super) struct IdleFiles {
    thread: IdleThread,
    csv: Option<PlainFile>,
    picture: Option<PlainFile>,
    sandbox: Sandbox,
}

/// The files while they are written.
#[derive(Debug)]
pub(super) struct Files {
    sender: SyncSender<Piece>,
    thread: JoinHandle<()>,
    failures: Failures,
    pub(super) has_csv: bool,
    pub(super) has_picture: bool,
}

impl IdleFiles {
    /// Creates the files; `None` if there are none.
    ///
    /// # Errors
    /// A file cannot be created, or would overwrite the trace that is read.
    pub(super) fn open(request: &ProfileRequest, plan: &Plan) -> Result<Option<Self>> {
        let paths = [&request.csv, &request.picture].into_iter().flatten();
        for path in paths.clone() {
            let is_read =
                |port: &PortSpec| matches!(port, PortSpec::Trace { path: trace } if is_same(trace, path));
            ensure!(
                !plan.config.ports.iter().any(is_read),
                usage!(
                    "{} is the trace that is read, and would be overwritten; write to another file",
                    path.display()
                )
            );
        }
        if let (Some(csv), Some(picture)) = (&request.csv, &request.picture) {
            ensure!(csv != picture, usage!("--csv and --picture name the same file; name two"));
        }
        if paths.count() == 0 {
            return Ok(None);
        }
        let sandbox = plan.sandbox.clone();
        let create = |path: &Option<PathBuf>| path.as_deref().map(create).transpose();
        let opened = sandbox.with_files_of_user(|| Ok((create(&request.csv)?, create(&request.picture)?)));
        let opened: Result<_> =
            opened.map_err(|cause| anyhow!("cannot open files as the user of -Z: {cause}"))?;
        let (csv, picture) = opened?;
        Ok(Some(Self { thread: IdleThread::start("wirecap-files")?, csv, picture, sandbox }))
    }

    /// Starts to write, with this head of the CSV file.
    pub(super) fn start(self, head: Vec<u8>) -> Files {
        let Self { thread, mut csv, picture, sandbox } = self;
        let (sender, receiver) = pieces();
        let failures = Failures::default();
        let (has_csv, has_picture) = (csv.is_some(), picture.is_some());
        let failed = failures.clone();
        let thread = thread.run(move || {
            let mut paths = WritePaths { names_files: true, ..WritePaths::default() };
            csv.iter().chain(&picture).for_each(|file| paths.add(file.path()));
            csv.iter_mut().for_each(PlainFile::settle);
            sandbox.enter(&Profile::Writer(paths));
            write_all(&receiver, &head, csv, picture, |why| failed.lock().push(why));
        });
        Files { sender, thread, failures, has_csv, has_picture }
    }
}

impl Files {
    pub(super) fn sender(&self) -> SyncSender<Piece> {
        self.sender.clone()
    }

    /// Why files could not be written so far: a text for each of them.
    pub(super) fn failures(&self) -> Vec<String> {
        self.failures.lock().clone()
    }

    /// Writes the picture, if one is wanted, and completes the files. Returns why that failed, if it did.
    pub(super) fn finish(self, picture: Option<String>) -> Option<String> {
        if let Some(picture) = picture {
            let _ = self.sender.send(Piece::Picture(picture));
        }
        drop(self.sender);
        let panicked = self.thread.join().is_err();
        let mut failures = self.failures.lock();
        if panicked {
            failures.push(
                "the thread that writes --csv and --picture failed; please report this as a bug".into(),
            );
        }
        (!failures.is_empty()).then(|| format!("{}; the profile itself is complete", failures.join("; ")))
    }
}

/// Whether both names lead to one file.
fn is_same(one: &Path, other: &Path) -> bool {
    matches!((fs::canonicalize(one), fs::canonicalize(other)), (Ok(one), Ok(other)) if one == other)
}

/// Writes until the last sender is gone. A file that fails is given up, and `report` gets the reason.
fn write_all(
    pieces: &Receiver<Piece>,
    head: &[u8],
    csv: Option<PlainFile>,
    picture: Option<PlainFile>,
    report: impl Fn(String),
) {
    let kept = |result: Result<PlainFile, String>| result.map_err(&report).ok();
    let mut csv = csv.and_then(|file| kept(write(file, head)));
    let mut picture = picture;
    for piece in pieces {
        match piece {
            Piece::Rows(rows) => csv = csv.and_then(|file| kept(write(file, &rows))),
            Piece::Picture(svg) => {
                if let Some(file) = picture.take().and_then(|file| kept(write(file, svg.as_bytes()))) {
                    complete(file).unwrap_or_else(&report);
                }
            }
        }
    }
    if let Some(file) = csv {
        complete(file).unwrap_or_else(&report);
    }
    // A profile that did not come to its end has no picture: dropping the file leaves the one that may exist.
}

fn write(mut file: PlainFile, bytes: &[u8]) -> Result<PlainFile, String> {
    match file.write_all(bytes) {
        Ok(()) => Ok(file),
        Err(cause) => Err(cannot("write", file.path(), &cause)),
    }
}

fn complete(file: PlainFile) -> Result<(), String> {
    let path = file.path().to_owned();
    file.complete().map_err(|cause| cannot("complete", &path, &cause))
}

fn cannot(what: &str, path: &Path, cause: &dyn fmt::Display) -> String {
    format!("cannot {what} {}: {cause}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_is_reported_once_and_the_other_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let drawn = directory.path().join("x.svg");
        let (csv, picture) = (create(Path::new("/dev/full")).unwrap(), create(&drawn).unwrap());
        let (sender, receiver) = pieces();
        for piece in [Piece::Rows(vec![b'1']), Piece::Rows(vec![b'2']), Piece::Picture("<svg".into())] {
            sender.send(piece).unwrap();
        }
        drop(sender);
        let failures = Failures::default();
        write_all(&receiver, b"time\n", Some(csv), Some(picture), |why| failures.lock().push(why));
        assert_eq!(*failures.lock(), ["cannot write /dev/full: No space left on device (os error 28)"]);
        assert_eq!(fs::read_to_string(&drawn).unwrap(), "<svg");
    }
}
