//! Series of files (`-C`, `-G`, `-b`, `-W`, `-z`): their names, how they are opened, and what is run with
//! each.
//!
//! ```text
//!   -w x.pcapng -C 100                    x_00001.pcapng   x_00002.pcapng   …
//!   -w x.pcapng -C 100 -W 2               x_00001.pcapng   x_00002.pcapng   x_00001.pcapng   …
//!   -w x.pcapng -C 100 -b files:2         …   x_00007.pcapng   x_00008.pcapng
//!   -w %H%M%S.pcapng -G 60                121500.pcapng    121600.pcapng    …
//!   -w %H%M%S.pcapng -G 60 -C 100         121500_00001.pcapng   121500_00002.pcapng   121600_00003.pcapng   …
//! ```
//!
//! Rule: no file replaces another of the series, except in the ring of `-W`, and where a later day gives the
//! same name.

use std::{
    collections::VecDeque,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Mutex, PoisonError,
        mpsc::{Sender, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Result, anyhow, ensure};
use jiff::{Timestamp, fmt::strtime, tz::TimeZone};
use wirecap_record::{NextFile, Output, RecordError, Rotation};
use wirecap_sandbox::{Profile, Sandbox};
use wirecap_sys::clock::system_ns;

use super::file_name::numbered;
use crate::{process::executable, settings::OutputSettings};

/// The fewest digits of a number in a name.
const DIGITS: usize = 5;
/// The shortest period of a file.
const SHORTEST: Duration = Duration::from_millis(100);

/// Refuses settings of a series that contradict each other. `path` is the name of the file that is written,
/// if it is one.
///
/// # Errors
/// [`Usage`](crate::exit::Usage) that says which.
pub(super) fn check(output: &OutputSettings, path: Option<&Path>) -> Result<()> {
    let OutputSettings { rotate_size, rotate_time, rotate_packets, rotate_files, rotate_command, .. } =
        output;
    let OutputSettings { keep_files, stop_files, stop_size, .. } = output;
    let numbers = [rotate_size, rotate_packets, rotate_files, stop_files, stop_size];
    ensure!(
        numbers.iter().all(|number| **number != Some(0)),
        usage!("files take sizes and numbers that are not 0")
    );
    if !output.rotates() {
        ensure!(
            keep_files.is_none() && stop_files.is_none(),
            usage!(
                "a number of files is for a series: add -C SIZE, -G TIME or -b packets:N, or leave it out"
            )
        );
        ensure!(
            stop_size.is_none() || path.is_some_and(is_file_or_new),
            usage!("-a filesize: is for a file: name one with -w FILE.pcapng, or leave it out")
        );
        ensure!(
            rotate_files.is_none(),
            usage!("-W is for a series of files: add -C SIZE or -G TIME, or leave it out")
        );
        ensure!(
            rotate_command.is_none(),
            usage!("-z is for a series of files: add -C SIZE or -G TIME, or leave it out")
        );
        return Ok(());
    }
    ensure!(
        rotate_files.is_none() || rotate_size.is_none() || rotate_time.is_none(),
        usage!("-W counts the files of -C, or those of -G: leave one of the three out")
    );
    ensure!(
        *rotate_files != Some(1) || rotate_size.is_none(),
        usage!(
            "-W 1 would replace the only file of -C by itself: keep two or more, or stop with -c or --duration"
        )
    );
    ensure!(
        stop_size.is_none(),
        usage!(
            "-a filesize: is the size of one file, and -C that of each of a series: leave one of them out"
        )
    );
    ensure!(
        keep_files.is_none_or(|files| files > 1),
        usage!("-b files: counts the file that is written, too: keep two or more")
    );
    ensure!(
        keep_files.is_none() || rotate_files.is_none(),
        usage!("-W and -b files: both say how many files there are: leave one of them out")
    );
    ensure!(
        keep_files.is_none() || rotate_command.is_none(),
        usage!(
            "-b files: deletes files while the command of -z may still read them: leave one of them out, or have the command \
             delete old files"
        )
    );
    ensure!(
        rotate_command.is_none() || rotate_files.is_none() || rotate_size.is_none(),
        usage!(
            "-C -W replaces files while the command of -z may still read them: leave one of them out, or have the command \
             delete old files"
        )
    );
    rotate_command.as_deref().map_or(Ok(()), check_command)?;
    ensure!(
        rotate_time.is_none_or(|time| time >= SHORTEST),
        usage!(
            "a file each {} ms is too much: -G takes {} ms or more",
            rotate_time.unwrap_or_default().as_millis(),
            SHORTEST.as_millis()
        )
    );
    let path = path.ok_or_else(|| {
        usage!("-C and -G are for files: name them with -w FILE.pcapng, or leave these flags out")
    })?;
    ensure!(
        is_file_or_new(path),
        usage!(
            "-C and -G make names from that of a file, which {} is not: write -w FILE.pcapng",
            path.display()
        )
    );
    Names::new(path, output).path(1, system_ns()).map(drop)
}

fn is_file_or_new(path: &Path) -> bool {
    path.metadata().map_or(true, |metadata| metadata.is_file())
}

/// Checks that the command of `-z` can be run.
fn check_command(command: &str) -> Result<()> {
    let is_there = match command.contains('/') {
        true => executable::is_program(Path::new(command)),
        false => !command.is_empty() && executable::in_path(OsStr::new(command)).is_some(),
    };
    let hint = match command.contains(' ') {
        true => "it gets no other arguments than the file; name a script that has them",
        false => "name a program, or a script with its path",
    };
    ensure!(is_there, usage!("-z {command:?}: there is no such program; {hint}"));
    Ok(())
}

/// The names of a series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names {
    template: PathBuf,
    /// Whether the template has the beginning of the period in it.
    has_time: bool,
    is_numbered: bool,
    /// The number of names that are used in turn.
    ring: Option<u64>,
}

impl Names {
    pub(super) fn new(template: &Path, output: &OutputSettings) -> Self {
        let has_percent = template.as_os_str().as_encoded_bytes().contains(&b'%');
        let has_time = has_percent && output.rotate_time.is_some();
        let by_volume = output.rotate_size.is_some() || output.rotate_packets.is_some();
        let is_numbered = by_volume || !has_time;
        let ring = output.rotate_files.filter(|_| output.rotate_size.is_some());
        Self { template: template.into(), has_time, is_numbered, ring }
    }

    /// The name of the file with this number, from 1 on, whose period begins at this time.
    ///
    /// # Errors
    /// [`Usage`](crate::exit::Usage) if the template is wrong.
    pub(super) fn path(&self, number: u64, begins_ns: u64) -> Result<PathBuf> {
        let mut path = self.template.clone();
        if self.has_time {
            let name = path.to_str();
            let name =
                name.ok_or_else(|| usage!("{} is not text, which a name with % has to be", path.display()))?;
            let time = Timestamp::from_nanosecond(begins_ns.into())?.to_zoned_datetime(TimeZone::system());
            let name = strtime::format(name, &time)
                .map_err(|error| usage!("{name}: {error}; %% stands for a percent sign"))?;
            path = name.into();
        }
        if self.is_numbered {
            let number = self.ring.map_or(number, |ring| (number - 1) % ring + 1);
            path = numbered(&path, &format!("{number:0DIGITS$}"));
        }
        Ok(path)
    }

    /// A pattern for messages.
    pub(super) fn pattern(&self) -> PathBuf {
        if self.is_numbered { numbered(&self.template, "*") } else { self.template.clone() }
    }
}

/// The series that follows a first file. `open` opens the others, and `commands` gets the names of files that
/// are complete.
pub(super) fn rotation(
    first_path: PathBuf,
    names: Names,
    settings: &OutputSettings,
    commands: Option<Sender<Option<PathBuf>>>,
    open: impl Fn(&Path) -> Result<Output, RecordError> + Send + Sync + 'static,
) -> Rotation {
    let last_name = Mutex::new(first_path.clone());
    let kept = settings.keep_files.map(|files| Mutex::new(KeptFiles::new(first_path, files)));
    let open_next = move |NextFile { number, begins_ns }| {
        let name = names.path(number, begins_ns).map_err(|error| io::Error::other(format!("{error:#}")))?;
        let mut last_name = last_name.lock().unwrap_or_else(PoisonError::into_inner);
        // A period may be shorter than what the name tells apart.
        let path = match name == *last_name {
            true => numbered(&name, &format!("{number:0DIGITS$}")),
            false => name.clone(),
        };
        *last_name = name;
        if let Some(kept) = &kept {
            kept.lock().unwrap_or_else(PoisonError::into_inner).add(path.clone());
        }
        // The series is named in the message; this is which file of it.
        open(&path).map_err(|error| io::Error::other(format!("{}: {error}", path.display())).into())
    };
    let by_number = settings.rotate_files.filter(|_| settings.rotate_size.is_none());
    Rotation {
        max_bytes: settings.rotate_size,
        max_packets: settings.rotate_packets,
        period: settings.rotate_time,
        max_files: settings.stop_files.or(by_number),
        open: open_next.into(),
        // Fails if the thread is gone.
        on_complete: commands
            .map(|commands| (move |path: &Path| _ = commands.send(Some(path.into()))).into()),
    }
}

/// The end of a file of this size, after which none follows.
pub(super) fn end_at_size(max_bytes: u64) -> Rotation {
    Rotation {
        max_bytes: Some(max_bytes),
        max_packets: None,
        period: None,
        max_files: Some(1),
        open: (|_: NextFile| Err(io::Error::other("no file follows").into())).into(),
        on_complete: None,
    }
}

/// The newest files of a series. Older ones are deleted.
#[derive(Debug)]
struct KeptFiles {
    paths: VecDeque<PathBuf>,
    max_files: u64,
    failures: u64,
}

impl KeptFiles {
    fn new(first: PathBuf, max_files: u64) -> Self {
        Self { paths: [first].into(), max_files, failures: 0 }
    }

    /// Makes room for a file that follows.
    fn add(&mut self, path: PathBuf) {
        while self.paths.len() as u64 >= self.max_files {
            let Some(oldest) = self.paths.pop_front() else { break };
            match fs::remove_file(&oldest) {
                // NotFound: another program has moved or deleted it.
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    self.failures += 1;
                    if self.failures <= REPORTED {
                        warn!(
                            "{} cannot be deleted: {error}; more files are kept than requested",
                            oldest.display()
                        );
                    }
                }
            }
        }
        // A name that comes again is the newest.
        self.paths.retain(|known| *known != path);
        self.paths.push_back(path);
    }
}

/// The thread that runs a command with each file that is complete.
#[derive(Debug)]
pub(super) struct Commands {
    /// The end of the series is `None`.
    names: Sender<Option<PathBuf>>,
    thread: JoinHandle<FailedCommands>,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FailedCommands {
    pub(super) command: String,
    /// Files with which it failed.
    pub(super) failed: u64,
    /// Files that were complete.
    pub(super) files: u64,
}

impl Commands {
    /// Starts the thread, if there is a command.
    ///
    /// # Errors
    /// There are too many threads.
    pub(super) fn start(settings: &OutputSettings, sandbox: &Sandbox) -> Result<Option<Self>> {
        let Some(command) = settings.rotate_command.clone() else { return Ok(None) };
        let (names, named) = channel::<Option<PathBuf>>();
        let sandbox = sandbox.clone();
        let run = move || {
            sandbox.enter(&Profile::Commands);
            run_with_each(&command, named.iter().map_while(|name| name))
        };
        let thread = thread::Builder::new().name("wirecap-command".into()).spawn(run);
        let thread = thread.map_err(|error| anyhow!("cannot start the thread for -z: {error}"))?;
        Ok(Some(Self { names, thread }))
    }

    /// Where the names go.
    pub(super) fn sender(&self) -> Sender<Option<PathBuf>> {
        self.names.clone()
    }

    /// No more files follow.
    pub(super) fn end_series(&self) {
        // Fails if the thread has panicked.
        let _ = self.names.send(None);
    }

    /// Whether the command has run with all files of a series that has ended.
    pub(super) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until then. Returns whether it failed.
    pub(super) fn end(self) -> Option<FailedCommands> {
        self.thread.join().ok().filter(|failed| failed.failed > 0)
    }
}

/// How many failures of a kind are reported one by one.
const REPORTED: u64 = 3;

/// Runs a command with each file, and reports its failures.
fn run_with_each(command: &str, files: impl Iterator<Item = PathBuf>) -> FailedCommands {
    let (mut count, mut failed) = (0_u64, 0_u64);
    for path in files {
        count += 1;
        let result = Command::new(command)
            .arg(&path)
            .env_remove("NOTIFY_SOCKET")
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

#[cfg(test)]
mod tests {
    use super::*;

    fn names(template: &str, settings: OutputSettings) -> Names {
        Names::new(Path::new(template), &settings)
    }

    #[test]
    fn the_oldest_files_are_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let path = |number: u32| directory.path().join(format!("x_{number}"));
        let mut kept = KeptFiles::new(path(1), 3);
        for number in 1..=6 {
            if number > 1 {
                kept.add(path(number));
            }
            fs::write(path(number), "").unwrap();
            let there: Vec<_> = (1..=6).filter(|&number| path(number).exists()).collect();
            assert_eq!(there, (number.saturating_sub(2).max(1)..=number).collect::<Vec<_>>());
        }
        // Another program moves the oldest file, and a name is used again.
        fs::remove_file(path(4)).unwrap();
        kept.add(path(6));
        assert_eq!((kept.paths, kept.failures), ([path(5), path(6)].into(), 0));
    }

    #[test]
    fn files_are_numbered_or_have_their_time() {
        let size = || OutputSettings { rotate_size: Some(1), ..OutputSettings::default() };
        let time =
            || OutputSettings { rotate_time: Some(Duration::from_secs(60)), ..OutputSettings::default() };
        let path = |names: &Names, number| names.path(number, 1_790_000_000_000_000_000).unwrap();
        let numbered = names("d/x.pcapng", size());
        assert_eq!(path(&numbered, 1), Path::new("d/x_00001.pcapng"));
        assert_eq!(path(&numbered, 123_456), Path::new("d/x_123456.pcapng"));
        assert_eq!(numbered.pattern(), Path::new("d/x_*.pcapng"));
        assert_eq!(path(&names("x.pcapng", time()), 2), Path::new("x_00002.pcapng"));
        let timed = names("d%Y/%Y-%j.pcapng", time());
        assert_eq!(path(&timed, 2), Path::new("d2026/2026-264.pcapng"));
        assert_eq!(timed.pattern(), Path::new("d%Y/%Y-%j.pcapng"));
        let both = OutputSettings { rotate_size: Some(1), ..time() };
        assert_eq!(path(&names("%Y.pcap", both), 3), Path::new("2026_00003.pcap"));
        assert_eq!(path(&names("%Y.pcap", size()), 3), Path::new("%Y_00003.pcap"), "without a time");
        let ring = names("x.pcapng", OutputSettings { rotate_files: Some(3), ..size() });
        let numbers: Vec<_> = (1..=5).map(|number| path(&ring, number).display().to_string()).collect();
        assert_eq!(
            numbers,
            ["x_00001.pcapng", "x_00002.pcapng", "x_00003.pcapng", "x_00001.pcapng", "x_00002.pcapng"]
        );
        let wrong = names("%!.pcapng", time()).path(1, 0).unwrap_err().to_string();
        assert!(wrong.contains("%% stands for a percent sign"), "{wrong}");
    }
}
