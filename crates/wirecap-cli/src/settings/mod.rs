//! The settings in force: defaults, overridden by a file, overridden by flags.
//!
//! ```text
//!   defaults of the command ──► --config FILE ──► flags ──► settings ──┬─► plan
//!                                                                      └─► --print-config, which --config reads back
//! ```
//!
//! | to read about | open |
//! |---|---|
//! | reading and printing files | [`mod@file`] |
//! | names that users try for keys | [`alias`] |
//! | values that messages show | [`example`] |
//! | what becomes of the packets | [`output`] |
//! | what the process may do | [`process`] |
//! | how a running capture is reached and supervised | [`service`] |
//! | errors, with the place of a setting in the file | [`mod@explain`] |
//! | values that are text in files | [`text`] |
//!
//! Rule: a setting of the command is a field here or in the `settings.rs` of the command, a setting of the
//! capture a field of [`wirecap::Config`]. Flags are stored in them, and what runs reads only them.

mod alias;
mod example;
mod explain;
pub(crate) mod file;
mod output;
mod process;
mod service;
pub(crate) mod text;

pub(crate) use self::{
    explain::explain,
    file::Settings,
    output::OutputSettings,
    process::ProcessSettings,
    service::{CaptureName, MetricsAddress, ServiceSettings, SocketChoice},
};
use crate::sources::RefusedSettings;

/// A setting that a command fixes.
pub(crate) struct FixedSetting {
    key: &'static str,
    is_kept: bool,
    reason: &'static str,
}

/// A setting, whether it has the value that the command needs, and why the command needs that.
pub(crate) fn fixed(key: &'static str, is_kept: bool, reason: &'static str) -> FixedSetting {
    FixedSetting { key, is_kept, reason }
}

/// Refuses the first of these settings whose value the command does not allow.
pub(crate) fn refuse(
    command: &str,
    settings: impl IntoIterator<Item = FixedSetting>,
) -> Result<(), RefusedSettings> {
    match settings.into_iter().find(|setting| !setting.is_kept) {
        Some(FixedSetting { key, reason, .. }) => {
            let message = format!("cannot be set for {command}: {reason}; leave it out");
            Err(RefusedSettings::new(move |sources| {
                sources.at(key, &message).unwrap_or_else(|| format!("{key} {message}"))
            }))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
