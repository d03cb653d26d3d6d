//! The thread that runs the command of `-z` with each file that is complete, one after the other.
//!
//! ```text
//!   complete files ─► CommandQueue ─► thread ─► command, waited for ─► the next file
//!                                        └── given up: the command goes on by itself, and no other begins
//! ```

use std::{
    fmt, io, mem,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Sender, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};
use wirecap_sandbox::{Profile, Sandbox};

use crate::{capture::silence::Silence, settings::OutputSettings, text::plural::counted};

/// A command that takes longer is reported.
const SLOW: Duration = Duration::from_secs(15 * 60);
/// Between two looks whether a command has ended.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// The thread that runs a command with each file that is complete.
#[derive(Debug)]
pub(crate) struct Commands {
    queue: CommandQueue,
    thread: JoinHandle<FailedCommands>,
    current: Arc<Mutex<Current>>,
}

/// Passes complete files on to the command.
#[derive(Debug, Clone)]
pub(crate) struct CommandQueue {
    /// `None` ends the series.
    names: Sender<Option<PathBuf>>,
    /// Files that were passed on.
    files: Arc<AtomicU64>,
}

/// What the thread does now.
#[derive(Debug, Default)]
struct Current {
    /// Files that the command was begun with.
    begun: u64,
    running: Option<RunningCommand>,
    is_given_up: bool,
}

/// A command that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RunningCommand {
    file: PathBuf,
    process: u32,
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

/// What nothing waits for any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GivenUpCommands {
    /// The command that goes on.
    running: Option<RunningCommand>,
    /// Files that the command will not run with.
    not_begun: u64,
}

impl fmt::Display for GivenUpCommands {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running = self.running.as_ref().map(|RunningCommand { file, process }| {
            format!("still runs with {} (process {process})", file.display())
        });
        let not_begun =
            (self.not_begun > 0).then(|| format!("has not run with {}", counted(self.not_begun, "file")));
        let left: Vec<_> = running.into_iter().chain(not_begun).collect();
        let left = if left.is_empty() { "has run with all files".into() } else { left.join(" and ") };
        write!(formatter, "a signal ended the wait for the command of -z, which {left}")
    }
}

impl CommandQueue {
    /// A file is complete.
    pub(crate) fn push(&self, path: &Path) {
        self.files.fetch_add(1, Ordering::Relaxed);
        // Fails if the thread has panicked.
        let _ = self.names.send(Some(path.into()));
    }
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
        let current = Arc::<Mutex<Current>>::default();
        let shared = Arc::clone(&current);
        let files = Arc::<AtomicU64>::default();
        let complete = Arc::clone(&files);
        let run = move || {
            sandbox.enter(&Profile::Commands);
            run_with_each(&command, named.iter().map_while(|name| name), &shared, &complete)
        };
        let thread = thread::Builder::new().name("wirecap-command".into()).spawn(run);
        let thread = thread.map_err(|error| anyhow!("cannot start the thread for -z: {error}"))?;
        Ok(Some(Self { queue: CommandQueue { names, files }, thread, current }))
    }

    /// Where complete files go.
    pub(crate) fn queue(&self) -> CommandQueue {
        self.queue.clone()
    }

    /// Files that the command was begun with.
    pub(crate) fn begun(&self) -> u64 {
        lock(&self.current).begun
    }

    /// No more files follow.
    pub(crate) fn end_series(&self) {
        // Fails if the thread has panicked.
        let _ = self.queue.names.send(None);
    }

    /// Whether the command has run with all files of a series that has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until the command has run with all files. Returns how it ended, if it failed.
    pub(crate) fn end(self) -> Option<FailedCommands> {
        self.thread.join().ok().filter(|failed| failed.failed > 0)
    }

    /// Begins no more commands. One that runs goes on: it may be in the middle of moving a file.
    pub(crate) fn give_up(&self) -> GivenUpCommands {
        let mut current = lock(&self.current);
        current.is_given_up = true;
        let files = self.queue.files.load(Ordering::Relaxed);
        GivenUpCommands { running: current.running.clone(), not_begun: files - current.begun }
    }
}

/// Runs a command with each file, and reports its failures.
fn run_with_each(
    command: &str,
    files: impl Iterator<Item = PathBuf>,
    current: &Mutex<Current>,
    complete: &AtomicU64,
) -> FailedCommands {
    let (mut count, mut failed) = (0_u64, 0_u64);
    let (mut silence, mut unreported) = (Silence::default(), 0_u64);
    for path in files {
        count += 1;
        let why = match run_with(command, &path, current, complete) {
            Ok(None) => break,
            Ok(Some(status)) if status.success() => continue,
            Ok(Some(status)) => status.to_string(),
            Err(error) => error.to_string(),
        };
        (failed, unreported) = (failed + 1, unreported + 1);
        let now = Instant::now();
        if !silence.lasts(now) {
            silence.begin(now);
            let others = match mem::take(&mut unreported) {
                1 => String::new(),
                more => format!("; so have {} since the last warning", counted(more - 1, "other")),
            };
            warn!("{command} {} failed: {why}{others}", path.display());
        }
    }
    FailedCommands { command: command.into(), failed, files: count }
}

/// Runs a command with a file. Returns how it ended; `None` if the commands are given up.
fn run_with(
    command: &str,
    path: &Path,
    current: &Mutex<Current>,
    complete: &AtomicU64,
) -> io::Result<Option<ExitStatus>> {
    let Some(mut child) = begin(command, path, &mut lock(current))? else { return Ok(None) };
    let (since, mut slowness, mut pause) = (Instant::now(), Slowness::default(), SHORTEST_PAUSE);
    let status = loop {
        match child.try_wait() {
            Ok(None) => {}
            ended => break ended,
        }
        if slowness.is_news(since.elapsed()) {
            let waiting = complete.load(Ordering::Relaxed).saturating_sub(lock(current).begun);
            warn!(
                "{command} still runs with {} after {} min; {} {} for it",
                path.display(),
                since.elapsed().as_secs() / 60,
                counted(waiting, "complete file"),
                if waiting == 1 { "waits" } else { "wait" }
            );
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    };
    lock(current).running = None;
    status
}

/// When to say that a command takes long: after a while, and then after twice the time.
#[derive(Debug, Default)]
struct Slowness {
    reported: Duration,
}

impl Slowness {
    fn is_news(&mut self, lasted: Duration) -> bool {
        let is_news = lasted >= SLOW.max(self.reported * 2);
        if is_news {
            self.reported = lasted;
        }
        is_news
    }
}

/// Begins the command, under the lock: what is given up names each process that there is.
fn begin(command: &str, path: &Path, current: &mut Current) -> io::Result<Option<Child>> {
    if current.is_given_up {
        return Ok(None);
    }
    current.begun += 1;
    let child = Command::new(command)
        .arg(path)
        .env_remove("NOTIFY_SOCKET")
        // Ctrl-C is for wirecap, which waits until the last file is done.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()?;
    current.running = Some(RunningCommand { file: path.into(), process: child.id() });
    Ok(Some(child))
}

fn lock(current: &Mutex<Current>) -> MutexGuard<'_, Current> {
    current.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_hangs_is_reported_at_growing_intervals() {
        let mut slowness = Slowness::default();
        let minutes = (0..24 * 60).filter(|&minute| slowness.is_news(Duration::from_secs(minute * 60)));
        assert_eq!(minutes.collect::<Vec<_>>(), [15, 30, 60, 120, 240, 480, 960]);
    }

    #[test]
    fn what_is_given_up_names_the_process_that_goes_on_and_the_files_that_are_left() {
        let running = || Some(RunningCommand { file: "a.pcapng".into(), process: 77 });
        for (running, not_begun, rest) in [
            (running(), 0, " still runs with a.pcapng (process 77)"),
            (running(), 1, " still runs with a.pcapng (process 77) and has not run with 1 file"),
            (None, 3, " has not run with 3 files"),
            (None, 0, " has run with all files"),
        ] {
            let text = GivenUpCommands { running, not_begun }.to_string();
            assert_eq!(text.strip_prefix("a signal ended the wait for the command of -z, which"), Some(rest));
        }
    }

    #[test]
    fn no_command_begins_once_they_are_given_up() {
        let current = Mutex::new(Current::default());
        let ended = run_with("true", Path::new("a"), &current, &AtomicU64::new(0)).unwrap();
        assert!(ended.is_some_and(|status| status.success()));
        lock(&current).is_given_up = true;
        assert!(run_with("true", Path::new("b"), &current, &AtomicU64::new(0)).unwrap().is_none());
        let Current { begun, running, .. } = current.into_inner().unwrap();
        assert_eq!((begun, running), (1, None));
    }
}
