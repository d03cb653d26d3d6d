//! Packets as lines (`--print`): tcpdump prints them, from a pipe.
//!
//! ```text
//!   with -w:      writer ─┬─► file
//!                         └─► pipe ─► tcpdump -r - ─► standard output     packets that tcpdump reads too slowly are not printed
//!   without it:   writer ───► pipe ─► tcpdump -r - ─► standard output     workers wait, as for any output
//! ```

use std::{
    os::{fd::OwnedFd, unix::process::CommandExt},
    process::{Child, Command, ExitStatus, Stdio},
};

use anyhow::{Result, anyhow};
use wirecap_sandbox::Sandbox;

use crate::process::executable;

/// What prints.
const PROGRAM: &str = "tcpdump";
/// From standard input, line by line, without looking up names.
const ARGUMENTS: [&str; 4] = ["-r", "-", "-n", "-l"];

/// A tcpdump that prints the packets of a capture.
#[derive(Debug)]
pub(super) struct Printer {
    child: Child,
}

impl Printer {
    /// Starts it. Returns it with its standard input.
    ///
    /// # Errors
    /// It is not installed, or cannot be started.
    pub(super) fn start(sandbox: &Sandbox) -> Result<(Self, OwnedFd)> {
        let program = executable::in_path_or_sbin(PROGRAM).ok_or_else(|| {
            anyhow!("--print prints by {PROGRAM}, which is not installed: install it, or leave --print out")
        })?;
        let mut command = Command::new(program);
        // Ctrl-C ends the capture; tcpdump prints what is left.
        command.args(ARGUMENTS).process_group(0).stdin(Stdio::piped());
        sandbox.run_as_user(&mut command);
        let mut child = command.spawn().map_err(|error| anyhow!("cannot start {PROGRAM}: {error}"))?;
        let input = child.stdin.take().expect("a pipe");
        Ok((Self { child }, input.into()))
    }

    /// Whether it has printed everything, after its standard input was closed.
    pub(super) fn has_ended(&mut self) -> bool {
        // An error means that the child is gone.
        self.child.try_wait().map_or(true, |status| status.is_some())
    }

    /// How it ended, if that was badly.
    pub(super) fn failure(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten().filter(|status| !status.success())
    }
}

impl Drop for Printer {
    /// A capture that does not start leaves no tcpdump behind.
    fn drop(&mut self) {
        if !self.has_ended() {
            // Fails if it ends just now.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
