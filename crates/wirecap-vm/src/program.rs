//! A `wirecap` that runs as a process of its own, as its users have it.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use crate::support::{wait_or_explain, wait_until};

/// What it says once it captures.
const READY: &str = "wirecap: M = ";

/// A running `wirecap`. Killed when it is dropped.
pub(crate) struct Running {
    child: Child,
    stdout: Option<JoinHandle<String>>,
    stderr: Arc<Mutex<String>>,
    listener: Option<JoinHandle<()>>,
}

/// How it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its exit code; `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    /// What it printed.
    pub(crate) stdout: String,
    /// What it said.
    pub(crate) stderr: String,
}

impl Running {
    /// Starts it, and waits until it captures.
    #[track_caller]
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let running = Self::spawn(arguments);
        wait_or_explain(|| running.said(), || running.said().contains(READY));
        running
    }

    /// Starts it.
    pub(crate) fn spawn(arguments: &[&str]) -> Self {
        let mut command = Command::new("wirecap");
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it is in the image");
        let (mut out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let stderr = Arc::new(Mutex::new(String::new()));
        let said = Arc::clone(&stderr);
        let listener = thread::spawn(move || {
            for line in BufReader::new(err).lines().map_while(Result::ok) {
                let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                *said += &line;
                said.push('\n');
            }
        });
        let stdout = thread::spawn(move || {
            let mut text = String::new();
            out.read_to_string(&mut text).expect("text");
            text
        });
        Self { child, stdout: Some(stdout), stderr, listener: Some(listener) }
    }

    /// What it has said so far.
    pub(crate) fn said(&self) -> String {
        self.stderr.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the file has so many bytes.
    #[track_caller]
    pub(crate) fn wait_for_bytes(&self, path: &Path, bytes: u64) {
        let len = || fs::metadata(path).map_or(0, |file| file.len());
        let explain = || format!("{} has {} of {bytes} bytes\n{}", path.display(), len(), self.said());
        wait_or_explain(explain, || len() >= bytes);
    }

    /// Kills it: it can tidy up nothing.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end, and gives its account.
    #[track_caller]
    pub(crate) fn stop(self) -> Value {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM).unwrap();
        let ended = self.wait();
        assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
        ended.account()
    }

    /// Waits until it has ended by itself.
    #[track_caller]
    pub(crate) fn wait(mut self) -> Ended {
        wait_until("wirecap ends", || self.child.try_wait().unwrap().is_some());
        let code = self.child.wait().unwrap().code();
        let stdout = self.stdout.take().expect("not taken yet").join().expect("no panic");
        self.listener.take().expect("not taken yet").join().expect("no panic");
        Ended { code, stdout, stderr: self.said() }
    }
}

impl Ended {
    /// The account: its last line.
    #[track_caller]
    pub(crate) fn account(&self) -> Value {
        let last = self.stdout.trim_end().lines().last().unwrap_or_else(|| panic!("no account: {self:?}"));
        serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended, unless the case failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
