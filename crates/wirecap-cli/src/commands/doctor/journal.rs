//! Where the journal of `--fix` is, and what helps if it cannot be kept there.

use std::{
    fmt, io,
    path::{Path, PathBuf},
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
    fn from(path: &Path) -> Self {
        Self(path.into())
    }
}

impl JournalDirectory {
    /// The flag that names it in a command; empty for the usual one.
    pub(crate) fn flag(&self) -> String {
        if *self == Self::default() { String::new() } else { format!(" --journal {self}") }
    }

    /// Opens the journal to write it. The directory is made if it is missing.
    ///
    /// # Errors
    /// It cannot be kept there.
    pub(crate) fn open(&self) -> Result<(Journal, LiveSettings)> {
        Ok((Journal::open(&self.0, place()?).map_err(|error| self.describe(&error))?, LiveSettings::open()?))
    }

    /// Opens the journal to restore what it has; `None` if there is none and none was named.
    ///
    /// # Errors
    /// It cannot be opened, or the named directory is missing.
    pub(crate) fn open_to_undo(&self) -> Result<Option<(Journal, LiveSettings)>> {
        let Some(journal) = Journal::find(&self.0, place()?).map_err(|error| self.describe(&error))? else {
            if *self == Self::default() {
                return Ok(None);
            }
            bail!(
                "there is no journal to restore settings from: {self} does not exist (the usual one is {USUAL})"
            );
        };
        Ok(Some((journal, LiveSettings::open()?)))
    }

    /// The error with what helps.
    pub(crate) fn describe(&self, error: &fix::Error) -> anyhow::Error {
        let path = self.0.display();
        match error {
            fix::Error::Journal { cause, .. } if cause.kind() == io::ErrorKind::PermissionDenied => {
                match geteuid().is_root() {
                    true => anyhow!("{error}; name another directory (--journal DIR)"),
                    false => anyhow!("{error}; run it as root"),
                }
            }
            fix::Error::Open { is_sticky: true, .. } => {
                anyhow!("{error}; name a directory in it, which is made: --journal {path}/wirecap-doctor")
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
}

fn place() -> Result<Place> {
    Place::current().map_err(|cause| anyhow!("cannot read the network namespace: {cause}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_command_names_a_journal_that_is_not_the_usual_one() {
        assert_eq!(JournalDirectory::from(Path::new(USUAL)).flag(), "");
        assert_eq!(JournalDirectory::from(Path::new("./j")).flag(), " --journal ./j");
    }

    #[test]
    fn an_error_says_what_helps_in_its_case() {
        let journal = JournalDirectory::from(Path::new("/d"));
        let text = |error| journal.describe(&error).to_string();
        let open = |is_sticky| text(fix::Error::Open { path: "/d".into(), is_sticky });
        assert!(open(true).ends_with("; name a directory in it, which is made: --journal /d/wirecap-doctor"));
        assert!(open(false).ends_with("make the directory yours (chown, chmod go-w), or name another one"));
        let cause = io::ErrorKind::PermissionDenied.into();
        let refused = text(fix::Error::Journal { path: "/d".into(), cause });
        let remedy =
            if geteuid().is_root() { "name another directory (--journal DIR)" } else { "run it as root" };
        assert!(refused.ends_with(remedy), "{refused}");
    }
}
