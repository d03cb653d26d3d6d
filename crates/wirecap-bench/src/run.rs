//! Child processes: starts them, waits until they are ready, signals them, and reads their last line.
//!
//! ```text
//!   start(command, ReadySign) ──► Process ──► wait() ──► ProcessOutput { lines, errors }
//!                                    │ next_line(timeout), interrupt(), cpu_time()
//!                                    └── dropped: killed
//! ```

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::iter;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long a child may take to become ready.
const TIMEOUT: Duration = Duration::from_secs(20);
const TICK: Duration = Duration::from_millis(5);
/// What has not changed for this time is complete. tcpdump gets the packets of a partly filled block a second
/// late.
const QUIET: Duration = Duration::from_millis(1500);
/// How long something may take to become quiet.
const NOISE: Duration = Duration::from_secs(60);
/// A tick of the times in `/proc/PID/stat`.
const CLOCK_TICK: Duration = Duration::from_millis(10);
/// How long to wait for the last lines of a child that has ended.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The sign that a child misses no packet from now on.
pub enum ReadySign<'a> {
    /// A line on standard error that begins with this text.
    Line(&'a str),
    /// A condition that can be checked from outside.
    When(&'a dyn Fn() -> bool),
}

/// A child process.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    lines: Receiver<String>,
    errors: Receiver<String>,
    said: Vec<String>,
}

/// The output of a child that has ended.
#[derive(Debug)]
pub struct ProcessOutput {
    /// Lines of standard output not read before.
    pub lines: Vec<String>,
    /// Lines of standard error.
    pub errors: Vec<String>,
}

impl ProcessOutput {
    /// The last line of standard output, as JSON.
    ///
    /// # Errors
    /// If no line was printed, or the last one is not JSON.
    pub fn json(&self) -> Result<serde_json::Value> {
        let last = self.lines.last().context("no line on standard output")?;
        serde_json::from_str(last).with_context(|| format!("not JSON: {last}"))
    }
}

impl Process {
    /// Starts a child and waits until it is ready.
    ///
    /// # Errors
    /// If it cannot be started, ends early, or is not ready in time; with its output.
    pub fn start(name: &str, mut command: Command, ready: ReadySign<'_>) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("{name}: cannot run {command:?}"))?;
        let lines = line_channel(child.stdout.take().expect("standard output is piped"));
        let errors = line_channel(child.stderr.take().expect("standard error is piped"));
        let mut process = Self { name: name.into(), child, lines, errors, said: Vec::new() };
        process.await_ready(&ready)?;
        Ok(process)
    }

    fn await_ready(&mut self, ready: &ReadySign<'_>) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            // Check the status before reading the output: a child that has ended has written everything.
            let status = self.child.try_wait()?;
            let new = self.read_errors(if status.is_some() { LAST_LINES } else { Duration::ZERO });
            let is_ready = match ready {
                ReadySign::Line(start) => new.iter().any(|line| line.starts_with(start)),
                ReadySign::When(is_ready) => is_ready(),
            };
            if is_ready {
                return Ok(());
            }
            if let Some(status) = status {
                bail!("{} ended before it was ready ({status}): {}", self.name, self.said.join("; "));
            }
            if Instant::now() > deadline {
                bail!("{} is not ready after {TIMEOUT:?}: {}", self.name, self.said.join("; "));
            }
            thread::sleep(TICK);
        }
    }

    /// Takes the lines on standard error since the last call. Waits `wait` for each further line, unless the
    /// pipe ends.
    fn read_errors(&mut self, wait: Duration) -> Vec<String> {
        let new: Vec<String> = iter::from_fn(|| self.errors.recv_timeout(wait).ok()).collect();
        self.said.extend(new.iter().cloned());
        new
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line of standard output, if one arrives in time.
    pub fn next_line(&mut self, timeout: Duration) -> Option<String> {
        self.lines.recv_timeout(timeout).ok()
    }

    /// The CPU time of the process and of those that it has started so far, to 10 ms. Not of what has ended.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn cpu_time(&self) -> Result<Duration> {
        cpu_time(self.pid()).with_context(|| format!("{} is gone", self.name))
    }

    /// Asks the process to end, as Ctrl-C would.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn interrupt(&self) -> Result<()> {
        kill(Pid::from_raw(self.pid() as i32), Signal::SIGINT)
            .with_context(|| format!("{} is gone", self.name))
    }

    /// Lifts its pace: no more packets follow, and what waits is read at once.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn lift_pace(&self) -> Result<()> {
        kill(Pid::from_raw(self.pid() as i32), Signal::SIGUSR1)
            .with_context(|| format!("{} is gone", self.name))
    }

    /// Waits until the process ends by itself.
    ///
    /// # Errors
    /// If it does not end within `timeout` (then it is killed), or fails; with its output.
    pub fn wait(mut self, timeout: Duration) -> Result<ProcessOutput> {
        let deadline = Instant::now() + timeout;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() > deadline {
                self.read_errors(Duration::ZERO);
                bail!("{} has not ended after {timeout:?}: {}", self.name, self.said.join("; "));
            }
            thread::sleep(TICK);
        };
        let lines: Vec<String> = self.lines.iter().collect();
        self.said.extend(self.errors.iter());
        self.check(status, &lines)?;
        Ok(ProcessOutput { lines, errors: std::mem::take(&mut self.said) })
    }

    fn check(&self, status: ExitStatus, lines: &[String]) -> Result<()> {
        if !status.success() {
            bail!("{} failed ({status}): {} {}", self.name, self.said.join("; "), lines.join("; "));
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn cpu_time(pid: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name, in parentheses, may have spaces. The 14th and 15th field are the times in user and kernel.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ').skip(11).take(2);
    let own = fields.map(|ticks| ticks.parse::<u32>().map_or(Duration::ZERO, |ticks| CLOCK_TICK * ticks));
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    Ok(own.sum::<Duration>() + children.filter_map(|pid| cpu_time(pid).ok()).sum::<Duration>())
}

/// Waits until a figure stays as it is: the length of a file that is being written, say.
pub fn wait_until_quiet<T: PartialEq>(figure: impl Fn() -> T) {
    let (mut last, mut since, start) = (figure(), Instant::now(), Instant::now());
    while since.elapsed() < QUIET && start.elapsed() < NOISE {
        thread::sleep(Duration::from_millis(50));
        let now = figure();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
}

/// Waits until a file is complete.
pub fn wait_until_quiet_file(file: &Path) {
    wait_until_quiet(|| fs::metadata(file).map_or(0, |metadata| metadata.len()));
}

/// The lines of a pipe, read by a thread so that the writer never blocks.
fn line_channel(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        // A shell started in the background ignores SIGINT, and so do its children.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT", "sh", "-c", script]);
        command
    }

    #[test]
    fn the_last_line_of_a_child_is_its_result() {
        let script = "echo READY >&2; echo '{\"early\":1}'; echo '{\"packets\":7}'";
        let process = Process::start("child", shell(script), ReadySign::Line("READY")).unwrap();
        let ended = process.wait(TIMEOUT).unwrap();
        assert_eq!(ended.json().unwrap()["packets"], 7);
        assert_eq!(ended.errors, ["READY"]);
    }

    #[test]
    fn the_error_quotes_a_child_that_fails() {
        let early = Process::start("child", shell("echo no luck >&2; exit 1"), ReadySign::Line("READY"));
        assert!(format!("{:#}", early.unwrap_err()).contains("no luck"));
        let late =
            Process::start("child", shell("echo READY >&2; exit 3"), ReadySign::Line("READY")).unwrap();
        assert!(format!("{:#}", late.wait(TIMEOUT).unwrap_err()).contains("exit status: 3"));
    }

    #[test]
    fn a_child_that_hangs_is_killed() {
        let process = Process::start("child", shell("exec sleep 60"), ReadySign::When(&|| true)).unwrap();
        let pid = process.pid();
        assert!(process.wait(Duration::from_millis(50)).is_err());
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn the_time_of_this_process_grows() {
        let before = cpu_time(std::process::id()).unwrap();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(50) {
            std::hint::spin_loop();
        }
        let spent = cpu_time(std::process::id()).unwrap() - before;
        assert!((Duration::from_millis(10)..Duration::from_secs(10)).contains(&spent), "{spent:?}");
    }

    #[test]
    fn the_time_of_a_grandchild_counts() {
        let script = "(while :; do :; done) & echo READY >&2; wait";
        let process = Process::start("child", shell(script), ReadySign::Line("READY")).unwrap();
        let deadline = Instant::now() + TIMEOUT;
        while process.cpu_time().unwrap() < Duration::from_millis(50) {
            assert!(Instant::now() < deadline, "{:?}", process.cpu_time());
            thread::sleep(TICK);
        }
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", process.pid())).unwrap();
        kill(Pid::from_raw(children.trim().parse().unwrap()), Signal::SIGKILL).unwrap();
        process.wait(TIMEOUT).unwrap();
    }

    #[test]
    fn a_child_can_be_interrupted() {
        let script = "trap 'echo 2; exit 0' INT; echo READY >&2; while :; do sleep 0.01; done";
        let process = Process::start("child", shell(script), ReadySign::Line("READY")).unwrap();
        process.interrupt().unwrap();
        assert_eq!(process.wait(TIMEOUT).unwrap().json().unwrap(), 2);
    }
}
