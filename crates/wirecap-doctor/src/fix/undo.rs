//! Restores what settings were, by the journal.

use std::io;

use super::{
    Settings,
    error::Error,
    journal::{Entry, Journal},
};
use crate::setting::{Setting, Value};

/// What became of a setting that is in the journal.
#[derive(Debug)]
pub struct Restored {
    /// The setting.
    pub setting: Setting,
    /// What it was before the first change.
    pub value: Value,
    /// What became of it.
    pub outcome: UndoOutcome,
}

/// What became of a setting.
#[derive(Debug)]
pub enum UndoOutcome {
    /// It was restored, and reads so.
    Restored,
    /// It was so already.
    Unchanged,
    /// Its interface, or whatever else had it, is gone.
    Gone,
    /// The machine was restarted, and settings do not survive that.
    Restarted,
    /// It was refused, or it reads otherwise. The journal stays.
    Refused(io::Error),
}

/// Restores all settings of the journal, the last changed first, and renames the journal away unless one was
/// refused.
///
/// # Errors
/// If the journal cannot be read or renamed.
pub fn undo(journal: &Journal, settings: &impl Settings) -> Result<Vec<Restored>, Error> {
    let mut oldest: Vec<Entry> = Vec::new();
    for entry in journal.read()? {
        let is_same = |earlier: &Entry| {
            earlier.change.setting == entry.change.setting
                && (&earlier.place, earlier.ifindex) == (&entry.place, entry.ifindex)
        };
        if !oldest.iter().any(is_same) {
            oldest.push(entry);
        }
    }
    let restore = |entry: Entry| {
        let outcome = restore(settings, &entry, &journal.place.boot);
        Restored { setting: entry.change.setting, value: entry.change.from, outcome }
    };
    let restored: Vec<_> = oldest.into_iter().rev().map(restore).collect();
    if !restored.iter().any(|restored| matches!(restored.outcome, UndoOutcome::Refused(_))) {
        journal.retire()?;
    }
    Ok(restored)
}

fn restore(settings: &impl Settings, entry: &Entry, boot: &str) -> UndoOutcome {
    let (setting, value) = (&entry.change.setting, &entry.change.from);
    if entry.place.boot != boot {
        return UndoOutcome::Restarted;
    }
    if setting.interface().is_some_and(|interface| settings.ifindex(interface) != entry.ifindex) {
        return UndoOutcome::Gone;
    }
    let write = || {
        if settings.read(setting)? == *value {
            return Ok(UndoOutcome::Unchanged);
        }
        settings.write(setting, value)?;
        if settings.read(setting)? == *value {
            Ok(UndoOutcome::Restored)
        } else {
            Err(io::Error::other("it reads otherwise after it was written"))
        }
    };
    match write() {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => UndoOutcome::Gone,
        outcome => outcome.unwrap_or_else(UndoOutcome::Refused),
    }
}
