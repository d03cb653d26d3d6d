//! A watchdog: a case that does not end fails the guest, which says where its threads wait.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use crate::{boot, kernel_log};

/// How long a case may take: several times what the slowest takes on an idle machine.
const CASE_TIME_MAX: Duration = Duration::from_secs(300);

/// How long the kernel may take to print where each CPU is.
const BACKTRACE_TIME: Duration = Duration::from_secs(3);

/// Runs a case. If it takes too long, reports that and switches the machine off.
pub(crate) fn watch<T>(name: &str, case: impl FnOnce() -> T) -> T {
    let (running, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            if ended.recv_timeout(CASE_TIME_MAX) == Err(RecvTimeoutError::Timeout) {
                report(name);
                boot::power_off();
            }
        });
        let result = case();
        // Ends the thread, for which the scope waits: once it reports, no other case begins.
        drop(running);
        result
    })
}

/// Fails the case, and prints where its programs and the kernel are.
fn report(name: &str) {
    let threads = waiting_threads();
    let programs: Vec<_> = threads.iter().filter(|thread| thread.is_main).map(Thread::digest).collect();
    let (limit, programs) = (CASE_TIME_MAX.as_secs(), programs.join(", "));
    println!("vm: case {name} FAILED: it has not ended after {limit} s: {programs}");
    threads.iter().for_each(|thread| println!("vm: {thread}"));
    print_backtraces();
}

/// A thread, as `/proc` describes it.
#[derive(Debug)]
struct Thread {
    id: String,
    name: String,
    state: String,
    on_cpu: Duration,
    /// Functions of the kernel, the innermost first; none if the thread runs.
    stack: Vec<String>,
    /// It is the first of its process.
    is_main: bool,
}

impl Thread {
    /// The thread of this directory. `None` if it is one of the kernel that can be woken.
    fn read(directory: &Path, is_main: bool) -> Option<Self> {
        let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap_or_default();
        let status = read("status");
        let state = status.lines().find_map(|line| line.strip_prefix("State:\t")).unwrap_or_default();
        if read("cmdline").is_empty() && !state.starts_with('D') {
            return None;
        }
        let on_cpu = read("schedstat").split(' ').next().and_then(|time| time.parse().ok()).unwrap_or(0);
        Some(Self {
            id: directory.display().to_string(),
            name: read("comm").trim().into(),
            state: state.into(),
            on_cpu: Duration::from_nanos(on_cpu),
            stack: read("stack").lines().map(|line| line.trim_start_matches("[<0>] ").into()).collect(),
            is_main,
        })
    }

    /// In a few words.
    fn digest(&self) -> String {
        let function = self.stack.first().and_then(|function| function.split('+').next());
        format!("{} in {}", self.name, function.unwrap_or("user space, or running"))
    }
}

impl fmt::Display for Thread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, name, state, on_cpu, stack, .. } = self;
        write!(formatter, "{id} {name}, {state}, {on_cpu:.1?} on a CPU: {}", stack.join(" "))
    }
}

/// The threads of all programs, and threads of the kernel that cannot be woken.
fn waiting_threads() -> Vec<Thread> {
    let processes = entries("/proc".as_ref());
    let threads = processes.iter().flat_map(|process| {
        let main = process.file_name();
        entries(&process.join("task"))
            .into_iter()
            .filter_map(move |thread| Thread::read(&thread, thread.file_name() == main))
    });
    threads.collect()
}

/// Has the kernel print where its CPUs are, since the stack of a thread that runs cannot be read.
fn print_backtraces() {
    kernel_log::log_to_console();
    // If the kernel has no such key, the lines of the threads have to do.
    let _ = fs::write("/proc/sysrq-trigger", "l");
    thread::sleep(BACKTRACE_TIME);
}

/// The entries of a directory of `/proc` whose names are numbers.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let is_number =
        |path: &Path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()).is_some();
    let all = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    all.filter(|path| is_number(path)).collect()
}
