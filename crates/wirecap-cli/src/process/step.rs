//! Steps of the start that may take long and that a signal ends.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

use crate::process::{idle_thread::no_thread, signals::Signals};

/// How often signals are checked once a step takes long.
const TICK: Duration = Duration::from_millis(50);
/// How often they are checked before that: most steps take less.
const GLANCE: Duration = Duration::from_millis(1);
/// Name of the thread that does the work.
const THREAD: &str = "wirecap-open";

/// Work that may take long and changes nothing on the machine, so that it can be given up.
pub(crate) struct Step {
    /// Printed when the step takes longer than `timeout`.
    pub(crate) waits_for: String,
    pub(crate) timeout: Duration,
    /// The error message when a signal ends the step.
    pub(crate) given_up: String,
}

impl Step {
    /// A step that is announced after a second.
    pub(crate) fn new(waits_for: &str, given_up: &str) -> Self {
        Self { waits_for: waits_for.into(), timeout: Duration::from_secs(1), given_up: given_up.into() }
    }

    /// Has libpcap compile a filter.
    pub(crate) fn compiling() -> Self {
        Self::new(
            "libpcap is compiling the filter: long lists of addresses and names take long, networks do not",
            "the filter was not compiled, so nothing was captured",
        )
    }

    /// Reads the files, of settings and of a filter, that flags name. A named pipe has no end before its
    /// writer closes it.
    pub(crate) fn reading_files(files: &[Option<&Path>]) -> Self {
        let files: Vec<_> = files.iter().flatten().map(|file| file.display().to_string()).collect();
        let files = files.join(" or ");
        match files.is_empty() {
            true => Self::new(
                "the start takes long: the machine may be busy",
                "stopped before anything was started",
            ),
            false => Self::new(
                &format!(
                    "the start takes long: {files} has not been read to its end yet, or the machine is busy"
                ),
                &format!("{files} was not read to its end, so nothing was started"),
            ),
        }
    }

    /// Does the step in a thread of its own, since it may wait where only the end of the process can reach
    /// it. Announced when it takes long, unless `quiet`, and on SIGUSR1.
    ///
    /// # Errors
    /// A signal ended the step.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        signals: &Signals,
        quiet: bool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let working = thread::Builder::new().name(THREAD.into()).spawn(work);
        let working = working.map_err(|cause| no_thread(THREAD, &cause))?;
        let begun = Instant::now();
        let mut announced = quiet;
        while !working.is_finished() {
            let is_late = begun.elapsed() >= self.timeout;
            if signals.take_report_request() || (is_late && !announced) {
                note!("{}", self.waits_for);
                announced = true;
            }
            ensure!(!signals.end(), "{}", self.given_up);
            thread::sleep(if is_late { TICK } else { GLANCE });
        }
        Ok(working.join().expect("no panic"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_were_named_are_waited_for() {
        let given_up = |files: &[Option<&Path>]| Step::reading_files(files).given_up;
        let (one, other) = (Some(Path::new("a.toml")), Some(Path::new("f")));
        assert_eq!(given_up(&[None, None]), "stopped before anything was started");
        assert_eq!(given_up(&[one, None]), "a.toml was not read to its end, so nothing was started");
        assert!(Step::reading_files(&[one, other]).waits_for.contains("a.toml or f has not been read"));
    }

    #[test]
    fn a_signal_ends_the_wait_for_a_step() {
        let step = Step::new("waiting", "it was not there");
        let begun = Instant::now();
        let given_up =
            step.run(&Signals::sent(), true, || thread::sleep(Duration::from_secs(60))).unwrap_err();
        assert_eq!(given_up.to_string(), "it was not there");
        assert!(begun.elapsed() < Duration::from_secs(30));
        let done = step.run(&Signals::default(), true, || {
            thread::sleep(Duration::from_millis(30));
            7
        });
        assert_eq!(done.unwrap(), 7);
    }
}
