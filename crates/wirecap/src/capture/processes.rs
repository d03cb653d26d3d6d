//! The processes that have a capture, after a fork.
//!
//! ```text
//!   last process that has it ─────────────► ends it: packets are counted, the interfaces given back
//!   another one, while others have it ────► abandons it: closes its own descriptors
//! ```

use std::{process, time::Duration};

use wirecap_sys::fork::Holding;

use crate::Error;

/// How long to wait for a process that was forked to execute a program, so that the interfaces are given back
/// by the time the capture has ended.
const EXECUTION_TIMEOUT: Duration = Duration::from_millis(20);

/// Which processes have a capture.
#[derive(Debug)]
pub(super) struct Processes {
    /// The one that has opened it, and its threads.
    opener: u32,
    holding: Holding,
}

impl Processes {
    /// This one.
    pub(super) fn new() -> Result<Self, Error> {
        Ok(Self { opener: process::id(), holding: Holding::new().map_err(Error::Descriptor)? })
    }

    /// This process lets go of the capture. Returns whether others go on with it; with capture threads, only
    /// the process that has them can.
    pub(super) fn leave(self, has_threads: bool) -> bool {
        if has_threads { process::id() != self.opener } else { self.holding.let_go(EXECUTION_TIMEOUT) }
    }
}
