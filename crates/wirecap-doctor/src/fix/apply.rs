//! Makes changes, once they are in the journal.

use std::{
    io, thread,
    time::{Duration, Instant},
};

use super::{
    Settings,
    error::Error,
    journal::{Entry, Journal},
};
use crate::setting::{Change, Setting, Value};

/// How long a NIC that restarts may show what was before, or nothing.
const RESTART: Duration = Duration::from_secs(5);
/// How long to wait before it is asked again.
const RETRY: Duration = Duration::from_millis(100);

impl Applied {
    /// Whether the setting has changed.
    pub fn is_made(&self) -> bool {
        matches!(self.outcome, ApplyOutcome::Made | ApplyOutcome::Adjusted(_))
    }
}

/// What became of a change.
#[derive(Debug)]
pub struct Applied {
    /// The change.
    pub change: Change,
    /// What became of it.
    pub outcome: ApplyOutcome,
}

/// What became of a change.
#[derive(Debug)]
pub enum ApplyOutcome {
    /// It was made, and reads so.
    Made,
    /// The kernel or the driver accepted it, and made it this instead.
    Adjusted(Value),
    /// The setting is no longer what it was when the snapshot was taken: it was left alone.
    Stale(Value),
    /// It was refused.
    Refused(io::Error),
}

/// Makes changes in their order; of several of one setting, the first.
///
/// # Errors
/// If the journal cannot be written; then nothing was changed.
pub fn apply(
    journal: &Journal,
    settings: &impl Settings,
    changes: impl IntoIterator<Item = Change>,
) -> Result<Vec<Applied>, Error> {
    let mut applied: Vec<Applied> = Vec::new();
    let mut entries = Vec::new();
    for change in changes {
        if applied.iter().any(|earlier| earlier.change.setting == change.setting) {
            continue;
        }
        let outcome = match settings.read(&change.setting) {
            Err(cause) => ApplyOutcome::Refused(cause),
            Ok(now) if now != change.from => ApplyOutcome::Stale(now),
            Ok(_) => {
                let ifindex = change.setting.interface().and_then(|interface| settings.ifindex(interface));
                let (place, change) = (journal.place.clone(), change.clone());
                entries.push(Entry { place, ifindex, change, left: None });
                ApplyOutcome::Made
            }
        };
        applied.push(Applied { change, outcome });
    }
    journal.append(&entries)?;
    let planned = applied.iter_mut().filter(|applied| matches!(applied.outcome, ApplyOutcome::Made));
    for (applied, entry) in planned.zip(&mut entries) {
        applied.outcome = make(settings, &applied.change);
        entry.left = settings.read(&applied.change.setting).ok();
        note(journal, entry);
    }
    // A change may have changed the setting of an earlier one, as a number of queues does that of rings.
    for entry in &mut entries {
        let now = settings.read(&entry.change.setting).ok();
        if entry.left.as_ref() != Some(&entry.change.from) && now != entry.left {
            entry.left = now;
            note(journal, entry);
        }
    }
    Ok(applied)
}

/// Notes what a change has left. Without the note it is undone whatever the setting is then, so a failure
/// costs no change, and ends none.
fn note(journal: &Journal, entry: &Entry) {
    if entry.left.is_some() {
        let _ = journal.note(entry);
    }
}

fn make(settings: &impl Settings, change: &Change) -> ApplyOutcome {
    let written = settings.write(&change.setting, &change.to);
    match written.and_then(|()| read_back(settings, &change.setting, &change.from)) {
        Ok(now) if now == change.to => ApplyOutcome::Made,
        Ok(now) if now == change.from => {
            ApplyOutcome::Refused(io::Error::other("it reads as before, though nothing refused it"))
        }
        Ok(now) => ApplyOutcome::Adjusted(now),
        Err(cause) => ApplyOutcome::Refused(cause),
    }
}

/// Reads a setting that was written, and was `before`. Where the link restarts, it may take some time.
pub(super) fn read_back(settings: &impl Settings, setting: &Setting, before: &Value) -> io::Result<Value> {
    let end = Instant::now() + RESTART;
    loop {
        let now = settings.read(setting);
        let has_changed = now.as_ref().is_ok_and(|now| now != before);
        if has_changed || setting.disturbs().is_none() || Instant::now() >= end {
            return now;
        }
        thread::sleep(RETRY);
    }
}
