//! A `wirecap` process, run as users run it, and its result.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
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

/// Lines that a reader thread appends, and whether they are complete.
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
pub struct RunningCommand {
    child: Child,
    stderr: Arc<Lines>,
    stdout: Option<JoinHandle<Vec<u8>>>,
}

/// The result of a `wirecap` that has ended.
#[derive(Debug)]
pub struct CommandOutput {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: String,
}

/// The name of a file while a capture writes it.
pub fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

impl RunningCommand {
    /// Starts `command` and keeps its output.
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

    /// Starts `command` without a reader of its standard output; see [`RunningCommand::take_stdout`].
    pub fn spawn_unread(command: Command) -> Self {
        Self::spawn_into(command, Stdio::piped())
    }

    /// Starts `command` with the given standard output.
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

    /// The standard output after [`RunningCommand::spawn_unread`].
    pub fn take_stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().unwrap()
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its standard error so far.
    pub fn said(&self) -> String {
        self.stderr.joined()
    }

    /// Waits until a line of standard error contains `words`.
    #[track_caller]
    pub fn wait_for(&self, words: &str) {
        let deadline = Instant::now() + PATIENCE;
        let mut text = self.stderr.text.lock().unwrap();
        while !text.0.iter().any(|line| line.contains(words)) {
            assert!(!text.1 && Instant::now() < deadline, "it did not print {words:?}: {:#?}", text.0);
            text = self.stderr.changed.wait_timeout(text, Duration::from_millis(100)).unwrap().0;
        }
    }

    /// Waits until the file at `path`, or the partial one that becomes it, has at least `bytes` bytes.
    #[track_caller]
    pub fn wait_for_bytes(&self, path: &Path, bytes: u64) {
        let len = || fs::metadata(partial(path)).or_else(|_| fs::metadata(path)).map_or(0, |file| file.len());
        let explain = || format!("{} has {} of {bytes} bytes\n{}", path.display(), len(), self.said());
        wait_or_explain(explain, || len() >= bytes);
    }

    /// Sends `signal` to the process. After SIGSTOP, waits until none of its threads runs any more.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
        if signal == Signal::SIGSTOP {
            wait_or_explain(
                || "every thread stops".into(),
                || self.threads().all(|state| state == Some('T')),
            );
        }
    }

    /// The state of each thread, as in proc_pid_stat(5).
    fn threads(&self) -> impl Iterator<Item = Option<char>> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten().flatten();
        threads.map(|thread| {
            let stat = fs::read_to_string(thread.path().join("stat")).ok()?;
            // The name, in brackets, may have any character.
            stat.rsplit_once(") ")?.1.chars().next()
        })
    }

    /// The account so far of a capture with `--json` whose packets go to standard output, asked for by
    /// SIGUSR1.
    #[track_caller]
    pub fn account_so_far(&self) -> Account {
        let records = |said: &str| said.lines().filter(|line| line.starts_with('{')).count();
        let before = records(&self.said());
        self.signal(Signal::SIGUSR1);
        wait_or_explain(|| format!("an account comes\n{}", self.said()), || records(&self.said()) > before);
        let said = self.said();
        let record = said.lines().rfind(|line| line.starts_with('{')).expect("one came");
        Account(serde_json::from_str(record).unwrap_or_else(|error| panic!("{error}: {record}")))
    }

    /// Kills the process, so that it cannot clean up.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends SIGTERM and waits for the end.
    pub fn stop(self) -> CommandOutput {
        self.signal(Signal::SIGTERM);
        self.wait()
    }

    /// Waits for the end. Checks each printed JSON record against the schema of its command.
    ///
    /// # Panics
    /// If the process does not end, or a record does not match its schema.
    pub fn wait(mut self) -> CommandOutput {
        let said = Arc::clone(&self.stderr);
        wait_or_explain(
            || format!("wirecap ends\n{}", said.joined()),
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
        // Whatever a test is about: a call that a thread makes is on its list.
        assert!(!stderr.contains("BUG: the sandbox"), "{stderr}");
        check_records(&stdout);
        check_records(stderr.as_bytes());
        CommandOutput { code: status.code(), stdout, stderr }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        // The process has ended, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl CommandOutput {
    /// Whether standard error is one line. Lines about steps that take longer than a second do not count: on
    /// a busy machine any step may.
    pub fn has_one_line_of_stderr(&self) -> bool {
        const SLOW_STEPS: [&str; 3] =
            ["libpcap is compiling", "asking the kernel", "reserving the packet memory"];
        let is_slow_step = |line: &&str| SLOW_STEPS.iter().any(|step| line.contains(step));
        self.stderr.lines().filter(|line| !is_slow_step(line)).count() == 1
    }

    /// The account: the last line of standard output, checked.
    pub fn account(&self) -> Account {
        Account::read(std::str::from_utf8(&self.stdout).unwrap(), self)
    }

    /// The account of a capture whose packets went to standard output.
    pub fn account_on_stderr(&self) -> Account {
        Account::read(&self.stderr, self)
    }
}

/// The account that `--json` prints of a capture. Reading it checks that every packet is explained.
#[derive(Debug)]
pub struct Account(pub Value);

impl Account {
    fn read(text: &str, ended: &CommandOutput) -> Self {
        let last = text.trim_end().lines().last().unwrap_or_else(|| panic!("no account: {ended:#?}"));
        let account = Self(serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {ended:#?}")));
        account.check();
        account
    }

    /// Asserts that the account of each queue closes.
    fn check(&self) {
        for queue in self.queues() {
            let figure = |name: &str| queue[name].as_u64().unwrap();
            let explained = figure("filtered") + figure("passed") + figure("delivered") + lost(queue);
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

    /// The sum of a figure over all queues.
    pub fn sum(&self, name: &str) -> u64 {
        self.queues().iter().map(|queue| queue[name].as_u64().unwrap()).sum()
    }

    /// Packets that were seen and are neither delivered nor lost nor left to others: they wait for a worker.
    pub fn waiting(&self) -> u64 {
        let lost: u64 = self.queues().into_iter().map(lost).sum();
        self.sum("seen")
            - ["filtered", "passed", "delivered"].map(|name| self.sum(name)).iter().sum::<u64>()
            - lost
    }

    /// Asserts that all `sent` packets were seen and delivered.
    #[track_caller]
    pub fn assert_lossless(&self, sent: u64) {
        assert_eq!((self.sum("seen"), self.sum("delivered")), (sent, sent), "{:#}", self.0);
    }

    /// A figure of the file written.
    #[track_caller]
    pub fn written(&self, name: &str) -> u64 {
        self.0["written"][name].as_u64().unwrap_or_else(|| panic!("{:#}", self.0))
    }
}

/// The packets that a queue lost.
fn lost(queue: &Value) -> u64 {
    queue["lost"].as_object().unwrap().values().map(|packets| packets.as_u64().unwrap()).sum()
}
