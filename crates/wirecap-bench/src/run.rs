//! Child processes: started, found ready, signalled, and their last line read.
//!
//! ```text
//!   start(command, Ready) ──► Process ──► wait() ──► Ended { lines, errors }
//!                                │ next_line(timeout), signal()
//!                                └── dropped: killed
//! ```

use std::io::{BufRead, BufReader, Read};
use std::iter;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long a child may take until it is ready.
const TIMEOUT: Duration = Duration::from_secs(20);
const TICK: Duration = Duration::from_millis(5);
/// What a child said last may still be on its way.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How a child shows that no packet can be missed any more.
pub enum Ready<'a> {
    /// A line on standard error that begins like this.
    Line(&'a str),
    /// Something that can be checked from outside.
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

/// What a child left.
#[derive(Debug)]
pub struct Ended {
    /// Lines of standard output that were not read before.
    pub lines: Vec<String>,
    /// Lines of standard error.
    pub errors: Vec<String>,
}

impl Ended {
    /// The last line of standard output, as JSON.
    ///
    /// # Errors
    /// If there is none.
    pub fn json(&self) -> Result<serde_json::Value> {
        let last = self.lines.last().context("no line on standard output")?;
        serde_json::from_str(last).with_context(|| format!("not JSON: {last}"))
    }
}

impl Process {
    /// Starts a child and waits until it is ready.
    ///
    /// # Errors
    /// If it cannot be started, ends, or is not ready in time; with its output.
    pub fn start(name: &str, mut command: Command, ready: Ready<'_>) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("{name}: cannot run {command:?}"))?;
        let lines = line_channel(child.stdout.take().expect("it is piped"));
        let errors = line_channel(child.stderr.take().expect("it is piped"));
        let mut process = Self { name: name.into(), child, lines, errors, said: Vec::new() };
        process.await_ready(&ready)?;
        Ok(process)
    }

    fn await_ready(&mut self, ready: &Ready<'_>) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            // Checked before its output is read: a child that has ended has written everything.
            let status = self.child.try_wait()?;
            let heard = self.hear(if status.is_some() { LAST_WORDS } else { Duration::ZERO });
            let is_ready = match ready {
                Ready::Line(start) => heard.iter().any(|line| line.starts_with(start)),
                Ready::When(asked) => asked(),
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
    fn hear(&mut self, wait: Duration) -> Vec<String> {
        let heard: Vec<String> = iter::from_fn(|| self.errors.recv_timeout(wait).ok()).collect();
        self.said.extend(heard.iter().cloned());
        heard
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line of standard output, if one comes in time.
    pub fn next_line(&mut self, timeout: Duration) -> Option<String> {
        self.lines.recv_timeout(timeout).ok()
    }

    /// Asks it to end, as Ctrl-C would.
    ///
    /// # Errors
    /// If it is gone.
    pub fn interrupt(&self) -> Result<()> {
        kill(Pid::from_raw(self.pid() as i32), Signal::SIGINT)
            .with_context(|| format!("{} is gone", self.name))
    }

    /// Waits until it has ended by itself.
    ///
    /// # Errors
    /// If it has not ended after `timeout` (it is killed then), or failed; with its output.
    pub fn wait(mut self, timeout: Duration) -> Result<Ended> {
        let deadline = Instant::now() + timeout;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() > deadline {
                self.hear(Duration::ZERO);
                bail!("{} has not ended after {timeout:?}: {}", self.name, self.said.join("; "));
            }
            thread::sleep(TICK);
        };
        let lines: Vec<String> = self.lines.iter().collect();
        self.said.extend(self.errors.iter());
        self.check(status, &lines)?;
        Ok(Ended { lines, errors: std::mem::take(&mut self.said) })
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
        // It has usually ended; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
        // A shell that is started in the background ignores SIGINT, and so does all that it starts.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT", "sh", "-c", script]);
        command
    }

    #[test]
    fn a_child_that_behaves() {
        let script = "echo READY >&2; echo '{\"early\":1}'; echo '{\"packets\":7}'";
        let process = Process::start("child", shell(script), Ready::Line("READY")).unwrap();
        let ended = process.wait(TIMEOUT).unwrap();
        assert_eq!(ended.json().unwrap()["packets"], 7);
        assert_eq!(ended.errors, ["READY"]);
    }

    #[test]
    fn a_child_that_fails_is_quoted() {
        let early = Process::start("child", shell("echo no luck >&2; exit 1"), Ready::Line("READY"));
        assert!(format!("{:#}", early.unwrap_err()).contains("no luck"));
        let late = Process::start("child", shell("echo READY >&2; exit 3"), Ready::Line("READY")).unwrap();
        assert!(format!("{:#}", late.wait(TIMEOUT).unwrap_err()).contains("exit status: 3"));
    }

    #[test]
    fn a_child_that_hangs_is_killed() {
        let process = Process::start("child", shell("exec sleep 60"), Ready::When(&|| true)).unwrap();
        let pid = process.pid();
        assert!(process.wait(Duration::from_millis(50)).is_err());
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn a_child_can_be_interrupted() {
        let script = "trap 'echo 2; exit 0' INT; echo READY >&2; while :; do sleep 0.01; done";
        let process = Process::start("child", shell(script), Ready::Line("READY")).unwrap();
        process.interrupt().unwrap();
        assert_eq!(process.wait(TIMEOUT).unwrap().json().unwrap(), 2);
    }
}
