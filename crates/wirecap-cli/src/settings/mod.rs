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
//! | what becomes of the packets | [`output`] |
//! | values that are text in files | [`text`] |
//!
//! Rule: a setting of the command is a field here or in the `settings.rs` of the command, one of the capture
//! a field of [`wirecap::Config`]. Flags are read into them, and whatever runs looks at nothing else.

pub(crate) mod file;
mod output;
pub(crate) mod text;

pub(crate) use self::{file::Settings, output::OutputSettings};
use crate::exit::Usage;

/// Refuses the first of these settings that is not as the command needs it.
pub(crate) fn refuse(
    command: &str,
    settings: impl IntoIterator<Item = (&'static str, bool, &'static str)>,
) -> Result<(), Usage> {
    match settings.into_iter().find(|(_, is_needed, _)| !is_needed) {
        Some((key, _, reason)) => Err(usage!("{key} cannot be set for {command}: {reason}; leave it out")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
