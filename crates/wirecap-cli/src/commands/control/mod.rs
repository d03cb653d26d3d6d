//! The commands for captures that run: `wirecap status`, `stop`, `rotate` and `set`.
//!
//! ```text
//!   TARGET: a process id, a --name, the path of a socket, or nothing for the only capture
//!      └─► control::client ─► control socket ─► answer ─► text, JSON, exit code
//! ```
//!
//! Rule: these commands know captures only by their control sockets.

pub(crate) mod rotate;
pub(crate) mod set;
pub(crate) mod status;
pub(crate) mod stop;

use anyhow::Result;
use clap::Args;

use crate::control::client::{ControlClient, socket_of};

/// Which capture.
#[derive(Debug, Args)]
pub(crate) struct TargetFlags {
    /// The capture: its process id, its --name, or the path of its control socket; needed if there are
    /// several.
    #[arg(value_name = "CAPTURE")]
    target: Option<String>,
}

impl TargetFlags {
    /// Whether the user has written which one.
    fn names_one(&self) -> bool {
        self.target.is_some()
    }

    fn connect(&self) -> Result<ControlClient> {
        ControlClient::connect(&socket_of(self.target.as_deref())?)
    }
}
