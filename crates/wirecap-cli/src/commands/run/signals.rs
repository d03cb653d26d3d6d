//! Signals for the program.
//!
//! Rule: signals of the terminal reach the program directly, since both are in one process group; those that
//! a process sends to this one are passed on. A signal to the whole group reaches the program twice. Signals
//! that are ignored when this process starts stay ignored in the program.

use std::thread;

use anyhow::{Result, anyhow};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use signal_hook::{
    consts::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH},
    iterator::{SignalsInfo, exfiltrator::WithOrigin},
};

use crate::process::signals::is_ignored;

/// Signals that are passed on.
const SIGNALS: [i32; 7] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH];

/// Passes signals on, once there is a program.
pub(super) struct Forwarder(SignalsInfo<WithOrigin>);

impl Forwarder {
    /// From now on signals are kept for the program instead of ending this process. The program starts with
    /// the default action for each.
    ///
    /// # Errors
    /// The kernel's error.
    pub(super) fn listen() -> Result<Self> {
        let passed_on = SIGNALS.into_iter().filter(|&signal| !is_ignored(signal));
        Ok(Self(SignalsInfo::new(passed_on).map_err(|cause| anyhow!("cannot listen for signals: {cause}"))?))
    }

    /// Passes them on to this process, until this one ends.
    pub(super) fn forward_to(mut self, process: u32) {
        thread::spawn(move || {
            for origin in &mut self.0 {
                let is_of_a_process = origin.process.is_some();
                if let (true, Ok(signal)) = (is_of_a_process, Signal::try_from(origin.signal)) {
                    // It fails once the program has ended.
                    let _ = kill(Pid::from_raw(process as i32), signal);
                }
            }
        });
    }
}
