//! Signals that end a command: the first in an orderly way, an impatient one at once.

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
    consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ},
    flag,
};
use wirecap_sys::signals::end_if_repeated;

use crate::exit::Exit;

/// How long a signal may be repeated before that means impatience: `timeout` and some service managers
/// send theirs twice.
const PATIENCE: Duration = Duration::from_secs(1);

/// What signals have said.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signals {
    /// The command shall end.
    end: Arc<AtomicBool>,
}

impl Signals {
    /// Listens to SIGINT, SIGTERM and SIGHUP: the first ends the command, one that comes later than
    /// [`PATIENCE`] after it ends the process at once.
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
        end_if_repeated(&signals, PATIENCE, Exit::Failed as i32)?;
        for signal in signals {
            flag::register(signal, Arc::clone(&self.end))?;
        }
        // A limit on the size of files shall be an error of the write, not the end of the process.
        flag::register(SIGXFSZ, Arc::default())?;
        Ok(())
    }

    /// As after the first signal.
    #[cfg(test)]
    pub(crate) fn sent() -> Self {
        Self { end: Arc::new(AtomicBool::new(true)) }
    }

    /// Set once a signal has asked for the end.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.end)
    }

    /// Whether a signal has asked for the end.
    pub(crate) fn end(&self) -> bool {
        self.end.load(Ordering::Relaxed)
    }
}

/// Whether whoever started us had this signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| (mask >> (signal - 1)) & 1 == 1)
}
