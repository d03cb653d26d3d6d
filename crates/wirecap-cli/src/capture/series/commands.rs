//! The thread that runs the command of `-z` with each file that is complete, one after the other.

use std::{
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Sender, channel},
    },
    thread::{self, JoinHandle},
};

use anyhow::{Result, anyhow};
use wirecap_sandbox::{Profile, Sandbox};

use super::old_files::REPORTED;
use crate::settings::OutputSettings;

/// The thread that runs a command with each file that is complete.
#[derive(Debug)]
pub(crate) struct Commands {
    /// `None` ends the series.
    names: Sender<Option<PathBuf>>,
    thread: JoinHandle<FailedCommands>,
    /// Files that the command was begun with.
    begun: Arc<AtomicU64>,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FailedCommands {
    pub(crate) command: String,
    /// Files with which it failed.
    pub(crate) failed: u64,
    /// Files that were complete.
    pub(crate) files: u64,
}

impl Commands {
    /// Starts the thread, if there is a command.
    ///
    /// # Errors
    /// There are too many threads.
    pub(crate) fn start(settings: &OutputSettings, sandbox: &Sandbox) -> Result<Option<Self>> {
        let Some(command) = settings.rotate_command.clone() else { return Ok(None) };
        let (names, named) = channel::<Option<PathBuf>>();
        let sandbox = sandbox.clone();
        let begun = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&begun);
        let run = move || {
            sandbox.enter(&Profile::Commands);
            let files = named.iter().map_while(|name| name);
            run_with_each(&command, files.inspect(|_| _ = counted.fetch_add(1, Ordering::Relaxed)))
        };
        let thread = thread::Builder::new().name("wirecap-command".into()).spawn(run);
        let thread = thread.map_err(|error| anyhow!("cannot start the thread for -z: {error}"))?;
        Ok(Some(Self { names, thread, begun }))
    }

    /// Where to send the names of complete files.
    pub(crate) fn sender(&self) -> Sender<Option<PathBuf>> {
        self.names.clone()
    }

    /// Files that the command was begun with.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// No more files follow.
    pub(crate) fn end_series(&self) {
        // Fails if the thread has panicked.
        let _ = self.names.send(None);
    }

    /// Whether the command has run with all files of a series that has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until the command has run with all files. Returns how it ended, if it failed.
    pub(crate) fn end(self) -> Option<FailedCommands> {
        self.thread.join().ok().filter(|failed| failed.failed > 0)
    }
}

/// Runs a command with each file, and reports its failures.
fn run_with_each(command: &str, files: impl Iterator<Item = PathBuf>) -> FailedCommands {
    let (mut count, mut failed) = (0_u64, 0_u64);
    for path in files {
        count += 1;
        let result = Command::new(command)
            .arg(&path)
            .env_remove("NOTIFY_SOCKET")
            // Ctrl-C is for wirecap, which waits until the last file is done.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status();
        let why = match result {
            Ok(status) if status.success() => continue,
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        failed += 1;
        if failed <= REPORTED {
            warn!("{command} {} failed: {why}", path.display());
        }
    }
    FailedCommands { command: command.into(), failed, files: count }
}
