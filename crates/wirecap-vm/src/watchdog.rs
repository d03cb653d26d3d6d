//! A watchdog: a case that does not end fails the guest, which says where its threads wait.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::boot;

/// How long a case may take: several times what the slowest takes on an idle machine.
const CASE_TIME_MAX: Duration = Duration::from_secs(300);

/// Switches the machine off unless it is dropped in time.
#[derive(Debug)]
pub(crate) struct Watchdog {
    /// Disconnected when the case has ended.
    case: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Watches the case of this name until the watchdog is dropped.
    pub(crate) fn of_case(name: &'static str) -> Self {
        let (case, ended) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            if ended.recv_timeout(CASE_TIME_MAX) == Err(RecvTimeoutError::Timeout) {
                println!("vm: case {name} FAILED: it has not ended after {} s", CASE_TIME_MAX.as_secs());
                print_waiting_threads();
                boot::power_off();
            }
        });
        Self { case: Some(case), thread: Some(thread) }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.case.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Prints where in the kernel the threads of programs wait, and threads of its own that cannot be woken.
fn print_waiting_threads() {
    for process in entries("/proc".as_ref()) {
        for thread in entries(&process.join("task")) {
            let read = |name: &str| fs::read_to_string(thread.join(name)).unwrap_or_default();
            let (command, status, stack) = (read("cmdline"), read("status"), read("stack"));
            let state = status.lines().find_map(|line| line.strip_prefix("State:\t")).unwrap_or_default();
            if command.is_empty() && !state.starts_with('D') {
                continue;
            }
            let name = read("comm");
            let stack = stack.lines().collect::<Vec<_>>().join(" ");
            println!("vm: {} {}, {state}: {stack}", thread.display(), name.trim());
        }
    }
}

/// The entries of a directory of `/proc` whose names are numbers.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let is_number =
        |path: &Path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()).is_some();
    let all = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    all.filter(|path| is_number(path)).collect()
}
