//! Restores what settings were, by the journal.

use std::{io, path::PathBuf};

use super::{
    Settings,
    apply::read_back,
    error::Error,
    journal::{Entry, Journal, Place},
};
use crate::setting::{Change, Setting, Value};

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
    /// It is neither what it was nor what it became, but this: others have changed it since, and it was left.
    Changed(Value),
    /// Its interface, or whatever else had it, is gone for good.
    Gone,
    /// The machine was restarted, and settings do not survive that.
    Restarted,
    /// It is not visible here, but may be elsewhere or later. It stays in the journal.
    Hidden {
        /// The network namespace in which it was changed, by its inode, if that is another one and shows it.
        namespace: Option<u64>,
    },
    /// It is of an interface of another network namespace, where it can be undone.
    Elsewhere {
        /// That namespace, by its inode.
        namespace: u64,
        /// The file of the journal in which it stays.
        file: PathBuf,
    },
    /// It was refused, or it reads otherwise. It stays in the journal.
    Refused(io::Error),
}

impl UndoOutcome {
    /// Whether the setting stays in the journal: the next undo tries again.
    pub fn is_left(&self) -> bool {
        matches!(self, Self::Hidden { .. } | Self::Elsewhere { .. } | Self::Refused(_))
    }
}

/// Restores all settings of the journal, the last changed first, and takes them out unless they are left.
/// Leaves alone what others have changed since. Settings of interfaces of other network namespaces come last.
///
/// # Errors
/// If the journal cannot be read, written or renamed. A damaged file, also of another network namespace, is
/// found before anything is restored.
pub fn undo(journal: &Journal, settings: &impl Settings) -> Result<Vec<Restored>, Error> {
    let oldest = each_once(journal.read()?);
    let elsewhere = journal.read_elsewhere()?;
    // Before anything is restored: that may change other settings.
    let changed: Vec<_> = oldest.iter().map(|entry| changed_since(settings, entry)).collect();
    let (mut restored, mut settled, mut left) = (Vec::new(), Vec::new(), Vec::new());
    for (entry, changed) in oldest.into_iter().zip(changed).rev() {
        let one = restore(settings, &entry, &journal.place, changed);
        if one.outcome.is_left() {
            left.push(entry)
        } else {
            settled.push(entry)
        }
        restored.push(one);
    }
    journal.settle(&settled, &left)?;
    for (file, entries) in elsewhere {
        for Entry { place, change, .. } in each_once(entries).into_iter().rev() {
            let outcome = UndoOutcome::Elsewhere { namespace: place.namespace, file: file.clone() };
            restored.push(Restored { setting: change.setting, value: change.from, outcome });
        }
    }
    Ok(restored)
}

/// The oldest entry of each setting, with what the last change has left.
fn each_once(entries: Vec<Entry>) -> Vec<Entry> {
    let mut oldest: Vec<Entry> = Vec::new();
    for entry in entries {
        match oldest.iter_mut().find(|earlier| earlier.is_of_same_setting(&entry)) {
            Some(earlier) => earlier.left = entry.left,
            None => oldest.push(entry),
        }
    }
    oldest
}

/// What a setting is, if others have changed it since. A change whose process was killed is undone always.
fn changed_since(settings: &impl Settings, entry: &Entry) -> Option<Value> {
    let left = entry.left.as_ref().filter(|_| !entry.change.setting.varies())?;
    let name = present_name(settings, entry).ok()?.unwrap_or_default();
    let now = settings.read(&entry.change.setting.clone().of_interface(&name)).ok()?;
    (now != *left && now != entry.change.from).then_some(now)
}

fn restore(settings: &impl Settings, entry: &Entry, here: &Place, changed: Option<Value>) -> Restored {
    let Change { setting, from: value, .. } = entry.change.clone();
    if entry.place.boot != here.boot {
        return Restored { setting, value, outcome: UndoOutcome::Restarted };
    }
    let (setting, outcome) = match present_name(settings, entry) {
        Ok(None) if entry.ifindex.is_some() => (setting, Ok(UndoOutcome::Gone)),
        Ok(name) => {
            let setting = setting.of_interface(&name.unwrap_or_default());
            let outcome = match changed {
                Some(now) => Ok(UndoOutcome::Changed(now)),
                None => write(settings, &setting, entry, here),
            };
            (setting, outcome)
        }
        Err(cause) => (setting, Err(cause)),
    };
    Restored { setting, value, outcome: outcome.unwrap_or_else(UndoOutcome::Refused) }
}

/// What the interface of an entry is called now.
fn present_name(settings: &impl Settings, entry: &Entry) -> io::Result<Option<String>> {
    match entry.ifindex {
        Some(ifindex) => settings.name(ifindex),
        None if entry.change.setting.interface().is_none() => Ok(None),
        None => Err(io::Error::other("the journal does not say which interface it is of")),
    }
}

fn write(
    settings: &impl Settings,
    setting: &Setting,
    entry: &Entry,
    here: &Place,
) -> io::Result<UndoOutcome> {
    let value = &entry.change.from;
    let write = || {
        let before = settings.read(setting)?;
        if before == *value {
            return Ok(UndoOutcome::Unchanged);
        }
        settings.write(setting, value)?;
        if read_back(settings, setting, &before)? == *value {
            Ok(UndoOutcome::Restored)
        } else {
            Err(io::Error::other("it reads otherwise after it was written"))
        }
    };
    let written = write();
    if written.as_ref().is_err_and(|cause| cause.kind() == io::ErrorKind::NotFound) {
        // Its interface may have gone in the meantime.
        let is_gone = match entry.ifindex {
            Some(ifindex) => settings.name(ifindex)?.is_none(),
            None => false,
        };
        if is_gone || settings.is_void(setting) {
            return Ok(UndoOutcome::Gone);
        }
        // Only the initial namespace has most settings of the kernel. Others of the machine are in all.
        let is_elsewhere =
            matches!(setting, Setting::Kernel { .. }) && entry.place.namespace != here.namespace;
        return Ok(UndoOutcome::Hidden { namespace: is_elsewhere.then_some(entry.place.namespace) });
    }
    written
}
