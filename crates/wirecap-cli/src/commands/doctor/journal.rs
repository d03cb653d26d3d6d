//! Where the journal of `--fix` is, and what helps if it cannot be kept there.

use std::{
    fmt, io,
    path::{self, Path, PathBuf},
};

use anyhow::{Result, anyhow, bail};
use nix::unistd::geteuid;
use wirecap_doctor::fix::{self, Journal, LiveSettings, Place};

/// The usual directory.
// Not beneath `/var/lib/wirecap`, which belongs to the user of the services: `--undo` writes, as root, what
// the journal says.
pub(crate) const USUAL: &str = "/var/lib/wirecap-doctor";

/// The directory of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JournalDirectory(PathBuf);

impl Default for JournalDirectory {
    fn default() -> Self {
        Self(USUAL.into())
    }
}

impl fmt::Display for JournalDirectory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(formatter)
    }
}

impl From<&Path> for JournalDirectory {
    /// With the absolute path, which a command that is printed needs in any directory.
    fn from(path: &Path) -> Self {
        Self(path::absolute(path).unwrap_or_else(|_| path.into()))
    }
}

impl JournalDirectory {
    /// The flag that names it in a command; empty for the usual one.
    pub(crate) fn flag(&self) -> String {
        if *self == Self::default() {
            return String::new();
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
        let path = self.to_string();
        match path.chars().all(is_plain) {
            true => format!(" --journal {path}"),
            false => format!(" --journal '{}'", path.replace('\'', r"'\''")),
        }
    }

    /// Opens the journal to write it. The directory is made if it is missing.
    ///
    /// # Errors
    /// It cannot be kept there.
    pub(crate) fn open(&self) -> Result<(Journal, LiveSettings)> {
        let journal = Journal::open(&self.0, place()?).map_err(|error| match &error {
            fix::Error::Open { is_sticky: true, .. } => {
                let directory = self.0.join("wirecap-doctor");
                anyhow!("{error}; name a directory in it, which is made: --journal {}", directory.display())
            }
            error if is_refused(error) && geteuid().is_root() => {
                anyhow!("{error}; name another directory (--journal DIR)")
            }
            error => describe(error),
        })?;
        Ok((journal, LiveSettings::open()?))
    }

    /// Opens the journal to restore what it has. Returns `None` if the usual one is meant and does not exist.
    ///
    /// # Errors
    /// It cannot be opened, or the named directory is missing.
    pub(crate) fn open_to_undo(&self) -> Result<Option<(Journal, LiveSettings)>> {
        let Some(journal) = Journal::find(&self.0, place()?).map_err(|error| describe(&error))? else {
            if *self == Self::default() {
                return Ok(None);
            }
            bail!(
                "there is no journal to restore settings from: {self} does not exist; name the one that --fix has printed, or leave \
                 --journal out"
            );
        };
        Ok(Some((journal, LiveSettings::open()?)))
    }
}

/// The error with what helps.
pub(crate) fn describe(error: &fix::Error) -> anyhow::Error {
    match error {
        error if is_refused(error) && !geteuid().is_root() => anyhow!("{error}; run it as root"),
        fix::Error::Open { is_sticky: true, .. } => {
            anyhow!("{error}; name the directory that --fix has printed (--journal DIR)")
        }
        fix::Error::Open { is_sticky: false, .. } => anyhow!(
            "{error}; if you trust what is in it, make the directory yours (chown, chmod go-w), or name another one"
        ),
        fix::Error::Damaged { path, .. } => {
            anyhow!("{error}; mend or remove the line, or move {} away", path.display())
        }
        fix::Error::Journal { .. } | fix::Error::Busy { .. } => anyhow!("{error}"),
    }
}

fn is_refused(error: &fix::Error) -> bool {
    matches!(error, fix::Error::Journal { cause, .. } if cause.kind() == io::ErrorKind::PermissionDenied)
}

fn place() -> Result<Place> {
    Place::current().map_err(|cause| anyhow!("cannot read the network namespace: {cause}"))
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::PermissionsExt,
    };

    use super::*;

    fn flag(path: &str) -> String {
        JournalDirectory::from(Path::new(path)).flag()
    }

    #[test]
    fn a_command_names_a_journal_that_is_not_the_usual_one_for_any_directory() {
        assert_eq!((flag(USUAL).as_str(), flag("/a/j").as_str()), ("", " --journal /a/j"));
        assert_eq!(flag("/my own/j's"), r" --journal '/my own/j'\''s'");
        assert!(flag("j").starts_with(" --journal /") && flag("j").ends_with("/j"), "{}", flag("j"));
    }

    #[test]
    fn an_error_says_what_helps_in_its_case() {
        let directory = tempfile::tempdir().unwrap();
        let make = |mode| fs::set_permissions(directory.path(), Permissions::from_mode(mode)).unwrap();
        let journal = JournalDirectory::from(directory.path());
        let (fix, undo) = (
            || journal.open().unwrap_err().to_string(),
            |journal: &JournalDirectory| journal.open_to_undo().unwrap_err().to_string(),
        );
        make(0o1777);
        assert!(fix().ends_with(&format!("which is made: --journal {journal}/wirecap-doctor")), "{}", fix());
        let words = "name the directory that --fix has printed (--journal DIR)";
        assert!(undo(&journal).ends_with(words), "{}", undo(&journal));
        make(0o777);
        assert!(fix().ends_with("yours (chown, chmod go-w), or name another one"), "{}", fix());
        make(0o700);
        let missing = JournalDirectory::from(&*directory.path().join("none"));
        let words = format!("{missing} does not exist; name the one that --fix has printed");
        assert!(undo(&missing).contains(&words) && !missing.0.exists(), "{}", undo(&missing));
    }
}
