//! A `wirecap` that runs as a process of its own, as its users run it, and how it ended.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    sync::{Arc, Condvar, Mutex},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use crate::{PATIENCE, schema::check_records, wait_or_explain};

/// The line that `wirecap` prints once it captures.
pub const READY: &str = "wirecap: M = ";

/// Lines that another thread still writes, and whether they are complete.
#[derive(Default)]
struct Lines {
    text: Mutex<(Vec<String>, bool)>,
    changed: Condvar,
}

impl Lines {
    fn joined(&self) -> String {
        self.text.lock().unwrap().0.join("\n")
    }
}

/// A running `wirecap`. Killed when dropped.
pub struct Running {
    child: Child,
    stderr: Arc<Lines>,
    stdout: Option<JoinHandle<Vec<u8>>>,
}

/// How it ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: Vec<u8>,
    /// What it printed on standard error.
    pub stderr: String,
}

impl Running {
    /// Starts it, and keeps what it prints.
    pub fn spawn(command: Command) -> Self {
        let mut running = Self::spawn_unread(command);
        let mut stdout = running.take_stdout();
        running.stdout = Some(thread::spawn(move || {
            let mut bytes = Vec::new();
            stdout.read_to_end(&mut bytes).unwrap();
            bytes
        }));
        running
    }

    /// Starts it without a reader of its standard output; see [`Running::take_stdout`].
    pub fn spawn_unread(command: Command) -> Self {
        Self::spawn_into(command, Stdio::piped())
    }

    /// Starts it with a standard output of the test's own.
    pub fn spawn_into(mut command: Command, stdout: Stdio) -> Self {
        command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = Arc::new(Lines::default());
        let (lines, pipe) = (Arc::clone(&stderr), BufReader::new(child.stderr.take().unwrap()));
        thread::spawn(move || {
            for line in pipe.lines() {
                lines.text.lock().unwrap().0.push(line.unwrap());
                lines.changed.notify_all();
            }
            lines.text.lock().unwrap().1 = true;
            lines.changed.notify_all();
        });
        Self { child, stderr, stdout: None }
    }

    /// The standard output of one that was spawned unread.
    pub fn take_stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().unwrap()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed on standard error so far.
    pub fn said(&self) -> String {
        self.stderr.joined()
    }

    /// Waits until it prints this on standard error.
    #[track_caller]
    pub fn wait_for(&self, words: &str) {
        let deadline = Instant::now() + PATIENCE;
        let mut text = self.stderr.text.lock().unwrap();
        while !text.0.iter().any(|line| line.contains(words)) {
            assert!(!text.1 && Instant::now() < deadline, "it did not say {words:?}: {:#?}", text.0);
            text = self.stderr.changed.wait_timeout(text, Duration::from_millis(100)).unwrap().0;
        }
    }

    /// Waits until the file has at least `bytes` bytes.
    #[track_caller]
    pub fn wait_for_bytes(&self, path: &Path, bytes: u64) {
        let len = || fs::metadata(path).map_or(0, |file| file.len());
        let explain = || format!("{} has {} of {bytes} bytes\n{}", path.display(), len(), self.said());
        wait_or_explain(explain, || len() >= bytes);
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Kills it, so that it cannot tidy up.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end, and waits.
    pub fn stop(self) -> Ended {
        self.signal(Signal::SIGTERM);
        self.wait()
    }

    /// Waits until it has ended. Holds each JSON record that it has printed to the schema of its command.
    ///
    /// # Panics
    /// If it does not end, or has printed what its schema does not describe.
    pub fn wait(mut self) -> Ended {
        let said = Arc::clone(&self.stderr);
        wait_or_explain(
            || format!("it ends\n{}", said.joined()),
            || self.child.try_wait().unwrap().is_some(),
        );
        let status = self.child.wait().unwrap();
        let mut text = self.stderr.text.lock().unwrap();
        while !text.1 {
            text = self.stderr.changed.wait(text).unwrap();
        }
        let stderr = text.0.join("\n");
        drop(text);
        let stdout = self.stdout.take().map_or_else(Vec::new, |reader| reader.join().unwrap());
        check_records(&stdout);
        check_records(stderr.as_bytes());
        Ended { code: status.code(), stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// The account: the last line of standard output, checked.
    pub fn account(&self) -> Account {
        Account::read(std::str::from_utf8(&self.stdout).unwrap(), self)
    }

    /// The account of a capture whose packets went to standard output.
    pub fn account_on_stderr(&self) -> Account {
        Account::read(&self.stderr, self)
    }
}

/// What `--json` says of a capture, checked: every packet is explained.
#[derive(Debug)]
pub struct Account(pub Value);

impl Account {
    fn read(text: &str, ended: &Ended) -> Self {
        let last = text.trim_end().lines().last().unwrap_or_else(|| panic!("no account: {ended:#?}"));
        let account = Self(serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {ended:#?}")));
        account.check();
        account
    }

    /// The identity, for each queue.
    fn check(&self) {
        for queue in self.queues() {
            let figure = |name: &str| queue[name].as_u64().unwrap();
            let lost: u64 =
                queue["lost"].as_object().unwrap().values().map(|packets| packets.as_u64().unwrap()).sum();
            let explained = figure("filtered") + figure("passed") + figure("delivered") + lost;
            assert_eq!(figure("seen"), explained, "{queue:#}");
            assert_eq!((queue["unexplained"].as_i64(), figure("refused")), (Some(0), 0), "{queue:#}");
        }
        let workers: u64 = self.0["workers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|worker| worker["packets"].as_u64().unwrap())
            .sum();
        assert_eq!(workers, self.sum("delivered"), "{:#}", self.0);
    }

    fn queues(&self) -> Vec<&Value> {
        let ports = self.0["ports"].as_array().unwrap();
        ports.iter().flat_map(|port| port["queues"].as_array().unwrap()).collect()
    }

    /// A figure, over all queues.
    pub fn sum(&self, name: &str) -> u64 {
        self.queues().iter().map(|queue| queue[name].as_u64().unwrap()).sum()
    }

    /// Asserts that everything that was sent was delivered.
    #[track_caller]
    pub fn assert_lossless(&self, sent: u64) {
        assert_eq!((self.sum("seen"), self.sum("delivered")), (sent, sent), "{:#}", self.0);
    }

    /// A figure of what was written.
    #[track_caller]
    pub fn written(&self, name: &str) -> u64 {
        self.0["written"][name].as_u64().unwrap_or_else(|| panic!("{:#}", self.0))
    }
}
