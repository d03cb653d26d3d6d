//! What is in force: defaults, what a file of settings says, and the flags, each over the one before.
//!
//! ```text
//!   defaults of the command ──► --config FILE ──► flags ──► settings ──┬─► plan
//!                                                                      └─► --print-config, which --config reads back
//! ```
//!
//! | to read about | open |
//! |---|---|
//! | reading and printing files | [`mod@file`] |
//! | values that stand in files as text | [`text`] |
//!
//! Rule: a setting of the command is a field here, one of the capture a field of [`wirecap::Config`]. Flags are read into them,
//! and whatever runs looks at nothing else.

pub(crate) mod file;
pub(crate) mod text;

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use wirecap::Config;

use self::file::{Table, table};
use crate::exit::Usage;

/// The settings of a command that captures.
pub(crate) trait Settings: Default + Serialize + DeserializeOwned {
    /// The tables of a file.
    fn tables() -> Vec<Table>;

    /// What becomes of the packets.
    fn output(&self) -> &OutputSettings;
}

/// The settings of `wirecap capture`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CaptureSettings {
    /// What is captured, and how.
    pub(crate) capture: Config,
    /// What becomes of it.
    pub(crate) output: OutputSettings,
}

impl Settings for CaptureSettings {
    fn tables() -> Vec<Table> {
        vec![table::<Config>("capture"), table::<OutputSettings>("output")]
    }

    fn output(&self) -> &OutputSettings {
        &self.output
    }
}

impl CaptureSettings {
    /// Refuses settings that have no effect on a capture.
    ///
    /// # Errors
    /// [`Usage`] that names the setting.
    pub(crate) fn check(&self) -> Result<(), Usage> {
        let (config, usual) = (&self.capture, Config::default());
        refuse(
            "capture",
            [
                ("transmit_entries", config.transmit_entries == usual.transmit_entries, "nothing is sent"),
                ("allocators", config.allocators == usual.allocators, "nothing is sent"),
                ("reach", config.reach == usual.reach, "nothing is sent"),
                ("rx_hash", config.rx_hash == usual.rx_hash, "nothing looks at the hashes"),
            ],
        )
    }
}

/// Refuses the first of these settings that is not as the command needs it.
pub(crate) fn refuse(
    command: &str,
    settings: impl IntoIterator<Item = (&'static str, bool, &'static str)>,
) -> Result<(), Usage> {
    match settings.into_iter().find(|(_, is_needed, _)| !is_needed) {
        Some((key, _, reason)) => {
            Err(Usage(format!("{key} cannot be set for {command}: {reason}; leave it out")))
        }
        None => Ok(()),
    }
}

/// What becomes of the packets, what is said of them, and when it ends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct OutputSettings {
    /// Where packets are written to.
    pub(crate) write: Option<PathBuf>,
    /// Bytes kept of each packet; 0 keeps all.
    pub(crate) snaplen: u32,
    /// Stop after this number of packets.
    pub(crate) count: Option<u64>,
    /// Stop after this time.
    #[serde(with = "text::time")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) duration: Option<Duration>,
    /// Judge frames of `wirecap generate`.
    pub(crate) verify: bool,
    /// Frames of each run of them.
    pub(crate) expect: Option<u64>,
    /// Print the account as JSON.
    pub(crate) json: bool,
    /// How often statistics are printed.
    #[serde(with = "text::time")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) stats: Option<Duration>,
    /// Whether a loss is an exit code of its own.
    pub(crate) fail_on_loss: bool,
    /// Print nothing but errors, losses, and what was asked for.
    pub(crate) quiet: bool,
}

impl OutputSettings {
    /// Whether the times of packets are kept, or judged.
    pub(crate) fn keeps_times(&self) -> bool {
        self.write.is_some() || self.verify
    }
}

#[cfg(test)]
mod tests;
