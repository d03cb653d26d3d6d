//! The files of a profile, written by a thread: `--csv` while it runs, `--picture` at the end.
//!
//! Rule: a file is `NAME.partial` until it is complete, and only then replaces one that exists. Devices are
//! written as they are, and pipes are refused.

use std::{
    fmt, fs,
    io::Write,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
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
    failure: Arc<Mutex<Option<String>>>,
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
        let Self { thread, mut csv, mut picture, sandbox } = self;
        let (sender, receiver) = pieces();
        let failure = Arc::<Mutex<Option<String>>>::default();
        let (has_csv, has_picture) = (csv.is_some(), picture.is_some());
        let failed = Arc::clone(&failure);
        let thread = thread.run(move || {
            let mut paths = WritePaths { names_files: true, ..WritePaths::default() };
            csv.iter().chain(&picture).for_each(|file| paths.add(file.path()));
            csv.iter_mut().for_each(PlainFile::settle);
            sandbox.enter(&Profile::Writer(paths));
            if let Err(why) = write_all(&receiver, &head, &mut csv, &mut picture) {
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
            }
        });
        Files { sender, thread, failure, has_csv, has_picture }
    }
}

impl Files {
    pub(super) fn sender(&self) -> SyncSender<Piece> {
        self.sender.clone()
    }

    /// Writes the picture, if there is one, and completes the files. Returns why that failed, if it did.
    pub(super) fn finish(self, picture: Option<String>) -> Option<String> {
        if let Some(picture) = picture {
            let _ = self.sender.send(Piece::Picture(picture));
        }
        drop(self.sender);
        let _ = self.thread.join();
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Whether both names lead to one file.
fn is_same(one: &Path, other: &Path) -> bool {
    matches!((fs::canonicalize(one), fs::canonicalize(other)), (Ok(one), Ok(other)) if one == other)
}

/// Writes until the last sender is gone.
fn write_all(
    pieces: &Receiver<Piece>,
    head: &[u8],
    csv: &mut Option<PlainFile>,
    picture: &mut Option<PlainFile>,
) -> Result<(), String> {
    write(csv, head)?;
    for piece in pieces {
        match piece {
            Piece::Rows(rows) => write(csv, &rows)?,
            Piece::Picture(svg) => {
                write(picture, svg.as_bytes())?;
                complete(picture)?;
            }
        }
    }
    complete(csv)?;
    // Without packets there is no picture: dropping the file leaves the one that may exist.
    Ok(())
}

fn write(file: &mut Option<PlainFile>, bytes: &[u8]) -> Result<(), String> {
    let Some(file) = file else { return Ok(()) };
    file.write_all(bytes).map_err(|cause| cannot("write", file.path(), &cause))
}

fn complete(file: &mut Option<PlainFile>) -> Result<(), String> {
    let Some(file) = file.take() else { return Ok(()) };
    let path = file.path().to_owned();
    file.complete().map_err(|cause| cannot("complete", &path, &cause))
}

fn cannot(what: &str, path: &Path, cause: &dyn fmt::Display) -> String {
    format!("cannot {what} {}: {cause}; the profile itself is complete", path.display())
}
