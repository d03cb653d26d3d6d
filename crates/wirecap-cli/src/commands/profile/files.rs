//! The files of a profile, written by a thread: `--csv` while it runs, `--picture` at the end.
//!
//! Rule: a file is `NAME.partial` until it is complete, and only then replaces one that exists. Devices are
//! written as they are, and pipes are refused.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::JoinHandle,
};

use anyhow::{Result, anyhow, ensure};
use nix::fcntl::OFlag;
use wirecap::PortSpec;
use wirecap_sandbox::{Profile, Sandbox, WritePaths};

use super::flags::ProfileRequest;
use crate::{capture::plan::Plan, process::idle_thread::IdleThread};

/// Permissions of new files, less the umask.
const MODE: u32 = 0o640;

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

/// A file that is written.
#[derive(Debug)]
struct OpenFile {
    path: PathBuf,
    /// The name until it is complete; `None` for devices and pipes.
    partial: Option<PathBuf>,
    file: File,
}

impl OpenFile {
    fn create(path: &Path) -> Result<Self> {
        let is_pipe = path.metadata().is_ok_and(|metadata| metadata.file_type().is_fifo());
        ensure!(
            !is_pipe,
            usage!("{} is a pipe, whose reader could hold the profile up; name a file", path.display())
        );
        let is_special = path.metadata().is_ok_and(|metadata| !metadata.is_file());
        let partial = (!is_special).then(|| partial_name(path));
        let mut options = OpenOptions::new();
        options.write(true).create(!is_special).truncate(!is_special).mode(MODE);
        if partial.is_some() {
            // Another user's link must not choose the file.
            options.custom_flags(OFlag::O_NOFOLLOW.bits());
        }
        let opened = partial.as_deref().unwrap_or(path);
        let file = options.open(opened).map_err(|cause| {
            anyhow!(
                "cannot create {}: {cause}; name a file in a directory that exists and can be written",
                opened.display()
            )
        })?;
        Ok(Self { path: path.into(), partial, file })
    }

    fn complete(self) -> io::Result<()> {
        match self.partial {
            Some(partial) => fs::rename(partial, self.path),
            None => Ok(()),
        }
    }
}

/// The name of a file until it is complete.
fn partial_name(path: &Path) -> PathBuf {
    let name: OsString = [path.as_os_str(), ".partial".as_ref()].into_iter().collect();
    name.into()
}

/// The files, and the thread that will write them.
#[derive(Debug)]
pub(super) struct IdleFiles {
    thread: IdleThread,
    csv: Option<OpenFile>,
    picture: Option<OpenFile>,
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
            let is_read = |port: &PortSpec| {
                matches!(port, PortSpec::Trace { path: trace }
                    if is_same(trace, path) || is_same(trace, &partial_name(path)))
            };
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
        let create = |path: &Option<PathBuf>| path.as_deref().map(OpenFile::create).transpose();
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
            csv.iter().chain(&picture).for_each(|file| paths.add(&file.path));
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
    csv: &mut Option<OpenFile>,
    picture: &mut Option<OpenFile>,
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
    // Without packets there is no picture: the one that may exist stays.
    match picture.take().and_then(|file| file.partial) {
        Some(partial) => fs::remove_file(&partial).map_err(|cause| cannot("remove", &partial, &cause)),
        None => Ok(()),
    }
}

fn write(file: &mut Option<OpenFile>, bytes: &[u8]) -> Result<(), String> {
    let Some(OpenFile { file, path, partial }) = file else { return Ok(()) };
    let name = partial.as_ref().unwrap_or(path);
    file.write_all(bytes).map_err(|cause| cannot("write", name, &cause))
}

fn complete(file: &mut Option<OpenFile>) -> Result<(), String> {
    let Some(file) = file.take() else { return Ok(()) };
    let path = file.path.clone();
    file.complete().map_err(|cause| cannot("complete", &path, &cause))
}

fn cannot(what: &str, path: &Path, cause: &io::Error) -> String {
    format!("cannot {what} {}: {cause}; the profile itself is complete", path.display())
}
