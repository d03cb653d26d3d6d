//! Signals: the first ends a command in an orderly way, later ones give up what takes long, then end the
//! process.
//!
//! | signal | asks for |
//! |---|---|
//! | SIGINT, SIGTERM, SIGHUP | the end; while it is ending, to give up what is left; then the end of the process |
//! | SIGUSR1 | a report, while the command goes on |

use std::{
    fs, io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Result, anyhow};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXFSZ},
    flag,
};
use wirecap_sys::signals::Escalation;

use crate::exit::Exit;

/// How long a signal may be repeated before that means impatience: `timeout` and some service managers
/// send theirs twice.
const TIMEOUT: Duration = Duration::from_secs(1);

/// What signals have asked for.
#[derive(Debug, Clone)]
pub(crate) struct Signals {
    pub(crate) escalation: Arc<Escalation>,
    /// A report. Set by the signal handler, taken back by the thread that prints it.
    report: Arc<AtomicBool>,
}

impl Default for Signals {
    /// Without listening.
    fn default() -> Self {
        Self { escalation: Escalation::new(TIMEOUT), report: Arc::default() }
    }
}

impl Signals {
    /// Listens to SIGINT, SIGTERM and SIGHUP, which end the command, and to SIGUSR1, which asks for a report.
    ///
    /// # Errors
    /// What the kernel said.
    pub(crate) fn listen() -> Result<Self> {
        let signals = Self::default();
        signals.register().map_err(|cause| anyhow!("cannot listen to signals: {cause}"))?;
        Ok(signals)
    }

    fn register(&self) -> io::Result<()> {
        // Under nohup a command outlives its terminal.
        let stays = is_ignored(SIGHUP);
        let ends = |signal: &i32| *signal != SIGHUP || !stays;
        let signals: Vec<_> = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(ends).collect();
        self.escalation.register(&signals, Exit::Failed as i32)?;
        flag::register(SIGUSR1, Arc::clone(&self.report))?;
        // A limit on the size of files becomes an error of the write, not the end of the process.
        flag::register(SIGXFSZ, Arc::default())?;
        Ok(())
    }

    /// As after the first signal.
    #[cfg(test)]
    pub(crate) fn sent() -> Self {
        let signals = Self::default();
        signals.escalation.raise();
        signals
    }

    /// Whether the command has been asked to end.
    pub(crate) fn end(&self) -> bool {
        self.escalation.is_asked_to_end()
    }

    /// Whether a report has been asked for since the last call.
    pub(crate) fn take_report_request(&self) -> bool {
        // Not written unless there is one: some ask between two batches of packets.
        self.report.load(Ordering::Relaxed) && self.report.swap(false, Ordering::Relaxed)
    }
}

/// Whether the parent process had this signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| (mask >> (signal - 1)) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_asked_for_once() {
        let signals = Signals::default();
        signals.report.store(true, Ordering::Relaxed);
        assert!(signals.take_report_request() && !signals.take_report_request());
        assert!(!signals.end() && Signals::sent().end());
    }
}
