//! Signals: the first ends a command in an orderly way, the second gives up what takes long, the third ends
//! the process.
//!
//! | signal | requests |
//! |---|---|
//! | SIGINT, SIGTERM, SIGHUP | the end; while the command ends, to give up the rest; then the end of the process |
//! | SIGUSR1 | a report; the command continues |

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
use wirecap_sys::signals::{Escalation, hold_back};

use crate::exit::Exit;

/// Repetitions of a signal within this time count as one: `timeout` and some service managers send theirs
/// twice.
const TIMEOUT: Duration = Duration::from_secs(1);

/// What signals have requested.
#[derive(Debug, Clone)]
pub(crate) struct Signals {
    pub(crate) escalation: Arc<Escalation>,
    /// A report. Set by the signal handler, cleared by the thread that prints it.
    report: Arc<AtomicBool>,
}

impl Default for Signals {
    /// Without listening.
    fn default() -> Self {
        Self { escalation: Escalation::new(TIMEOUT), report: Arc::default() }
    }
}

impl Signals {
    /// Listens for SIGINT, SIGTERM and SIGHUP, which end the command, and for SIGUSR1, which requests a
    /// report.
    ///
    /// # Errors
    /// The kernel refuses a handler.
    pub(crate) fn listen() -> Result<Self> {
        let signals = Self::default();
        signals.register().map_err(|cause| anyhow!("cannot listen for signals: {cause}"))?;
        Ok(signals)
    }

    fn register(&self) -> io::Result<()> {
        // Under nohup a command outlives its terminal.
        let stays = is_ignored(SIGHUP);
        let ends = |signal: &i32| *signal != SIGHUP || !stays;
        let signals: Vec<_> = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(ends).collect();
        self.escalation.register(&signals, Exit::Failed as i32)?;
        hold_back(&[SIGUSR1], || flag::register(SIGUSR1, Arc::clone(&self.report)))??;
        // With a handler, the limit on file sizes fails the write instead of killing the process.
        flag::register(SIGXFSZ, Arc::default())?;
        Ok(())
    }

    /// The state after the first signal.
    #[cfg(test)]
    pub(crate) fn sent() -> Self {
        let signals = Self::default();
        signals.escalation.raise();
        signals
    }

    /// Whether a signal has requested the end.
    pub(crate) fn end(&self) -> bool {
        self.escalation.is_asked_to_end()
    }

    /// Whether a second signal came too soon since the last call, so that its sender waits for an answer.
    pub(crate) fn take_repeated(&self) -> bool {
        self.escalation.take_repeated()
    }

    /// Whether a report was requested since the last call.
    pub(crate) fn take_report_request(&self) -> bool {
        // Written only if set: some callers ask between two batches of packets.
        self.report.load(Ordering::Relaxed) && self.report.swap(false, Ordering::Relaxed)
    }
}

/// Whether the parent process has set this signal to be ignored, as nohup and shells do.
pub(crate) fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| (mask >> (signal - 1)) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_for_a_report_is_taken_once() {
        let signals = Signals::default();
        signals.report.store(true, Ordering::Relaxed);
        assert!(signals.take_report_request() && !signals.take_report_request());
        assert!(!signals.end() && Signals::sent().end());
    }
}
