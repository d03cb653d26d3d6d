//! The journal: what settings were before they were changed.
//!
//! ```text
//!   machine.jsonl         settings of the machine
//!   netns-INODE.jsonl     settings of interfaces of one network namespace     a line each: place, setting, from, to
//!   undone-….jsonl        either, once it is undone
//! ```
//!
//! Rule: a line is on disk before its setting is touched. A last line that is not whole was never acted upon.
//! A line with an outcome belongs to those of its setting before it. It says what the last change left, or
//! that all are settled, because some others of the journal are not. Without one, the process was killed.

use std::{
    fs::{self, DirBuilder, File, Metadata, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};
use wirecap_sys::{file_lock::try_lock, netdev::namespace_id};

use super::error::Error;
use crate::setting::{Change, Value};

/// Since when, and where, settings are valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The number of this start of the machine. Settings do not survive a restart.
    pub boot: String,
    /// The network namespace, by its inode.
    pub namespace: u64,
}

impl Place {
    /// That of the calling thread.
    ///
    /// # Errors
    /// Without `/proc`.
    pub fn current() -> io::Result<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        let (_, namespace) = namespace_id()?;
        Ok(Self { boot, namespace })
    }
}

/// A line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    #[serde(flatten)]
    pub(super) place: Place,
    /// The index of the interface: another one may get its name.
    pub(super) ifindex: Option<u32>,
    #[serde(flatten)]
    pub(super) change: Change,
    /// What the change has left; `None` if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) left: Option<Value>,
}

impl Entry {
    fn is_of_interface(&self) -> bool {
        self.change.setting.interface().is_some()
    }

    /// Whether both are of the same setting, whatever its interface was called.
    pub(super) fn is_of_same_setting(&self, other: &Self) -> bool {
        let (setting, others) = (&self.change.setting, &other.change.setting);
        let is_same = match self.ifindex {
            Some(_) => setting.clone().of_interface("") == others.clone().of_interface(""),
            None => setting == others,
        };
        is_same && (&self.place, self.ifindex) == (&other.place, other.ifindex)
    }
}

/// What a later line says of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Outcome {
    /// The last change has left what is in its line. If that is what was before, it was not made.
    Ended,
    /// Nothing is left to undo of the setting.
    Settled,
}

/// A line about an earlier one.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    #[serde(flatten)]
    entry: Entry,
    outcome: Outcome,
}

/// The journal of a place, which one process uses at a time.
#[derive(Debug)]
pub struct Journal {
    directory: PathBuf,
    pub(super) place: Place,
    /// Holds the lock.
    _lock: File,
}

impl Journal {
    /// Opens the journal in a directory, which is made if it is missing.
    ///
    /// # Errors
    /// [`Error::Journal`], [`Error::Busy`]; [`Error::Open`] if another user owns the directory or may write
    /// it.
    pub fn open(directory: &Path, place: Place) -> Result<Self, Error> {
        let make = || DirBuilder::new().recursive(true).mode(0o700).create(directory);
        make().map_err(Error::journal(directory))?;
        Self::open_existing(directory, place)
    }

    /// Opens the journal in a directory, if there is one.
    ///
    /// # Errors
    /// Like [`Self::open`].
    pub fn find(directory: &Path, place: Place) -> Result<Option<Self>, Error> {
        match directory.try_exists().map_err(Error::journal(directory))? {
            true => Self::open_existing(directory, place).map(Some),
            false => Ok(None),
        }
    }

    fn open_existing(directory: &Path, place: Place) -> Result<Self, Error> {
        let metadata = directory.metadata().map_err(Error::journal(directory))?;
        if !metadata.is_dir() {
            return Err(Error::journal(directory)(io::ErrorKind::NotADirectory.into()));
        }
        if is_open_to_others(&metadata) {
            let is_sticky = metadata.mode() & 0o1000 != 0;
            return Err(Error::Open { path: directory.into(), is_sticky });
        }
        let lock = || {
            let file = File::options().create(true).append(true).mode(0o600).open(directory.join("lock"))?;
            Ok((try_lock(&file)?, file))
        };
        match lock().map_err(Error::journal(directory))? {
            (true, lock) => Ok(Self { directory: directory.into(), place, _lock: lock }),
            (false, _) => Err(Error::Busy { path: directory.into() }),
        }
    }

    /// The two files, and whether each has settings of interfaces.
    fn files(&self) -> [(PathBuf, bool); 2] {
        let of_namespace = format!("netns-{}.jsonl", self.place.namespace);
        [(self.directory.join("machine.jsonl"), false), (self.directory.join(of_namespace), true)]
    }

    /// Writes what will be changed, and returns once it is on disk.
    pub(super) fn append(&self, entries: &[Entry]) -> Result<(), Error> {
        for (path, of_interfaces) in self.files() {
            let lines: Vec<_> =
                entries.iter().filter(|entry| entry.is_of_interface() == of_interfaces).collect();
            self.append_lines(&path, &lines)?;
        }
        Ok(())
    }

    fn append_lines(&self, path: &Path, lines: &[impl Serialize]) -> Result<(), Error> {
        if lines.is_empty() {
            return Ok(());
        }
        let write = || {
            drop_torn_line(path)?;
            let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
            let lines = lines.iter().map(|line| serde_json::to_string(line).expect("names and numbers"));
            file.write_all((lines.collect::<Vec<_>>().join("\n") + "\n").as_bytes())?;
            file.sync_all()?;
            self.sync_directory()
        };
        write().map_err(Error::journal(path))
    }

    /// Notes what changes have left. What is lost of this in a power failure is void then.
    pub(super) fn note(&self, entry: &Entry) -> Result<(), Error> {
        let [machine, interfaces] = self.files();
        let (path, _) = if entry.is_of_interface() { interfaces } else { machine };
        let note = Note { entry: entry.clone(), outcome: Outcome::Ended };
        self.append_lines(&path, &[note])
    }

    /// What was, or may have been, changed and is not undone, in the order of the changes.
    pub(super) fn read(&self) -> Result<Vec<Entry>, Error> {
        let mut all = Vec::new();
        for (path, _) in self.files() {
            all.append(&mut read(&path)?);
        }
        Ok(all)
    }

    /// What is not undone of the interfaces of other network namespaces since the machine was started, with
    /// the file of each.
    pub(super) fn read_elsewhere(&self) -> Result<Vec<(PathBuf, Vec<Entry>)>, Error> {
        let failed = Error::journal(&self.directory);
        let listed = fs::read_dir(&self.directory).and_then(|files| files.collect::<io::Result<Vec<_>>>());
        let mut paths: Vec<_> = listed.map_err(failed)?.into_iter().map(|file| file.path()).collect();
        let here = self.files().map(|(path, _)| path);
        paths.retain(|path| is_of_namespace(path) && !here.contains(path));
        paths.sort();
        let mut elsewhere = Vec::new();
        for path in paths {
            let mut entries = read(&path)?;
            entries.retain(|entry| entry.place.boot == self.place.boot);
            elsewhere.push((path, entries));
        }
        Ok(elsewhere)
    }

    /// Renames the files away that have nothing left to undo; in the others, notes what is settled.
    pub(super) fn settle(&self, settled: &[Entry], left: &[Entry]) -> Result<(), Error> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        for (path, of_interfaces) in self.files() {
            let is_here = |entry: &&Entry| entry.is_of_interface() == of_interfaces;
            if left.iter().any(|entry| is_here(&entry)) {
                let note = |entry: &Entry| Note { entry: entry.clone(), outcome: Outcome::Settled };
                let notes: Vec<_> = settled.iter().filter(is_here).map(note).collect();
                self.append_lines(&path, &notes)?;
                continue;
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let undone = self.directory.join(format!("undone-{}-{name}", now.as_nanos()));
            match fs::rename(&path, &undone) {
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
                renamed => renamed.and_then(|()| self.sync_directory()).map_err(Error::journal(&path))?,
            }
        }
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }
}

/// Whether another user than root and that of this process can put files into a directory.
fn is_open_to_others(directory: &Metadata) -> bool {
    let owner = directory.uid();
    (owner != 0 && owner != geteuid().as_raw()) || directory.mode() & 0o022 != 0
}

/// Whether a file is the journal of a network namespace, not one that is undone.
fn is_of_namespace(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_prefix("netns-").is_some_and(|rest| rest.ends_with(".jsonl"))
}

/// What a file, which may be missing, has that is not undone.
fn read(path: &Path) -> Result<Vec<Entry>, Error> {
    let mut entries: Vec<Entry> = Vec::new();
    let text = match fs::read_to_string(path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(entries),
        text => text.map_err(Error::journal(path))?,
    };
    let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    for (number, line) in whole.lines().enumerate() {
        let damaged = |cause| Error::Damaged { path: path.into(), line: number + 1, cause };
        match parse(line).map_err(damaged)? {
            (entry, None) => entries.push(entry),
            (entry, Some(Outcome::Ended)) => {
                let ended = entries.iter().rposition(|earlier| earlier.is_of_same_setting(&entry));
                match ended {
                    Some(at) if entry.left.as_ref() == Some(&entries[at].change.from) => {
                        entries.remove(at);
                    }
                    Some(at) => entries[at].left = entry.left,
                    None => {}
                }
            }
            (entry, Some(Outcome::Settled)) => {
                entries.retain(|earlier| !earlier.is_of_same_setting(&entry));
            }
        }
    }
    Ok(entries)
}

/// A line of the journal, and what it says of those before it.
fn parse(line: &str) -> serde_json::Result<(Entry, Option<Outcome>)> {
    let value: serde_json::Value = serde_json::from_str(line)?;
    if value.get("outcome").is_some() {
        let Note { entry, outcome } = serde_json::from_value(value)?;
        return Ok((entry, Some(outcome)));
    }
    Ok((serde_json::from_value(value)?, None))
}

/// Cuts off a line that a killed process did not finish.
fn drop_torn_line(path: &Path) -> io::Result<()> {
    let text = match fs::read(path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        text => text?,
    };
    let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    if whole < text.len() {
        let file = OpenOptions::new().write(true).open(path)?;
        file.set_len(whole as u64)?;
        file.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        fs::Permissions,
        os::unix::fs::{PermissionsExt, chown},
        slice,
    };

    use super::*;
    use crate::{setting::Setting, snapshot::Sysctl};

    fn entry(to: u32) -> Entry {
        let setting = Setting::Kernel { name: Sysctl::NetdevBudget };
        Entry { place: place(), ifindex: None, change: Change::text(setting, 300, to), left: None }
    }

    fn place() -> Place {
        Place { boot: "b".into(), namespace: 7 }
    }

    #[test]
    fn a_directory_that_other_users_may_write_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("journal");
        let open = || Journal::open(&directory, place()).map(drop);
        open().unwrap();
        for (mode, is_open) in [(0o770, true), (0o707, true), (0o755, false), (0o700, false)] {
            fs::set_permissions(&directory, Permissions::from_mode(mode)).unwrap();
            assert_eq!(matches!(open(), Err(Error::Open { .. })), is_open, "{mode:o}");
        }
        fs::set_permissions(&directory, Permissions::from_mode(0o1777)).unwrap();
        assert!(matches!(open(), Err(Error::Open { is_sticky: true, .. })));
        fs::set_permissions(&directory, Permissions::from_mode(0o700)).unwrap();
        if geteuid().is_root() {
            chown(&directory, Some(1), None).unwrap();
            assert!(matches!(open(), Err(Error::Open { path, is_sticky: false }) if path == directory));
        }
    }

    #[test]
    fn looking_for_a_journal_makes_none() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("journal");
        let find = || Journal::find(&directory, place()).map(|found| found.is_some());
        assert!(!find().unwrap() && !directory.exists());
        let device = Journal::find(Path::new("/dev/null"), place()).unwrap_err();
        assert!(
            device.to_string().starts_with("cannot use the journal /dev/null: not a directory"),
            "{device}"
        );
        drop(Journal::open(&directory, place()).unwrap());
        assert!(find().unwrap());
    }

    #[test]
    fn a_line_that_was_not_finished_does_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path(), place()).unwrap();
        journal.append(&[entry(600)]).unwrap();
        let path = directory.path().join("machine.jsonl");
        let mut text = fs::read(&path).unwrap();
        text.extend(b"{\"boot\":\"b\",");
        fs::write(&path, &text).unwrap();
        assert_eq!(journal.read().unwrap(), [entry(600)]);
        journal.append(&[entry(900)]).unwrap();
        assert_eq!(journal.read().unwrap(), [entry(600), entry(900)]);
        fs::write(&path, "nonsense\n").unwrap();
        assert!(matches!(journal.read(), Err(Error::Damaged { line: 1, .. })));
    }

    #[test]
    fn one_process_has_the_journal() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path(), place()).unwrap();
        assert!(matches!(Journal::open(directory.path(), place()), Err(Error::Busy { .. })));
        drop(journal);
        Journal::open(directory.path(), place()).unwrap();
    }

    #[test]
    fn an_undone_journal_is_kept_under_another_name() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path(), place()).unwrap();
        journal.append(&[entry(600)]).unwrap();
        journal.settle(&[entry(600)], &[]).unwrap();
        assert_eq!(journal.read().unwrap(), []);
        let names = fs::read_dir(directory.path()).unwrap().flatten().map(|entry| entry.file_name());
        let undone = names.filter(|name| name.to_string_lossy().starts_with("undone-")).count();
        assert_eq!(undone, 1);
        journal.settle(&[], &[]).unwrap();
    }

    #[test]
    fn what_is_settled_does_not_count_beside_what_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path(), place()).unwrap();
        let governor = Entry { change: Change::text(Setting::Governor { cpu: 1 }, "a", "b"), ..entry(0) };
        journal.append(&[entry(600), governor.clone(), entry(900)]).unwrap();
        journal.settle(&[entry(600)], slice::from_ref(&governor)).unwrap();
        assert_eq!(journal.read().unwrap(), slice::from_ref(&governor));
        // It may be changed again.
        journal.append(&[entry(700)]).unwrap();
        assert_eq!(journal.read().unwrap(), [governor, entry(700)]);
    }
}
