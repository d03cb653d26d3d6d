//! Which file an output is: where its links lead, and the name it has until it is complete.
//!
//! ```text
//!   -w link.pcapng ── follow links ──► /d/x.pcapng ─┬─ /d/x.pcapng.partial, renamed when it is complete
//!                                                   └─ in place: /d/x.pcapng from the start
//! ```
//!
//! Rule: a file that exists keeps its contents until the new one is complete, and no link is followed that
//! others may have put there.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    ops::Range,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use nix::errno::Errno;

use wirecap_file::Compression;

use super::error::RecordError;

/// The most links that lead from one to the next, as in the kernel.
const MAX_LINKS: u32 = 40;
/// The extension of a file that is not complete.
const PARTIAL: &str = "partial";
/// The numbers of partial files beside the first one.
const OTHERS: Range<u32> = 2..1_000;
/// Write permission for everyone.
pub(crate) const WORLD_WRITABLE: u32 = 0o002;

/// How files are created.
///
/// ```
/// use wirecap_file::Format;
/// use wirecap_record::{FileOptions, Output};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("trace.pcapng");
/// let shared = FileOptions { mode: Some(0o664), ..FileOptions::default() };
/// let output = Output::open_with(&path, Format::Pcapng, shared)?;
/// assert!(!path.exists(), "trace.pcapng.partial until it is complete");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileOptions {
    /// Permissions, as the bits of chmod(2). Without them, a file has those of the file that it replaces, and
    /// a new one has 0640 less the umask of the process.
    pub mode: Option<u32>,
    /// Whether a file has its name from the start, and is written over one that exists. Otherwise it is
    /// `NAME.partial` until it is complete, and only then replaces `NAME`.
    pub in_place: bool,
    /// How the file is compressed.
    pub compression: Option<Compression>,
}

/// What a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// A file that exists or may be created, by a path whose last component is no link.
    File(PathBuf),
    /// A pipe, a device, a directory, or what another program has open.
    Other,
}

impl Target {
    /// What this path leads to.
    ///
    /// # Errors
    /// [`RecordError::SharedLink`], or why a directory cannot be read.
    pub(crate) fn of(path: &Path) -> Result<Self, RecordError> {
        check_links(path, 0)?;
        match path.metadata() {
            Ok(metadata) if !metadata.is_file() => return Ok(Self::Other),
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause.into()),
            _ => {}
        }
        let mut path = path.to_owned();
        while let Ok(target) = fs::read_link(&path) {
            path = directory(&path).join(target);
        }
        let Some(name) = path.file_name().filter(|_| !ends_with_slash(&path)) else { return Ok(Self::Other) };
        let directory = directory(&path).canonicalize()?;
        // Descriptors: what they name may be open elsewhere, or have no name any more.
        if directory.starts_with("/proc") {
            return Ok(Self::Other);
        }
        Ok(Self::File(directory.join(name)))
    }
}

/// Refuses a path with a link in a directory to which everyone may write, also behind other links.
fn check_links(path: &Path, depth: u32) -> Result<(), RecordError> {
    if depth > MAX_LINKS {
        return Err(io::Error::from(Errno::ELOOP).into());
    }
    for part in path.ancestors() {
        let Ok(target) = fs::read_link(part) else { continue };
        let directory = directory(part);
        if directory.metadata()?.permissions().mode() & WORLD_WRITABLE != 0 {
            return Err(RecordError::SharedLink(part.into()));
        }
        check_links(&directory.join(target), depth + 1)?;
    }
    Ok(())
}

/// The directory of a file.
fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn ends_with_slash(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// The names that a file may have until it is complete, the usual one first. The others are for a file of
/// which a killed capture has left the first.
pub(crate) fn partial_names(path: &Path) -> impl Iterator<Item = PathBuf> + use<'_> {
    let name = move |suffix: &str| {
        let mut name = OsString::from(path);
        name.push(suffix);
        PathBuf::from(name)
    };
    let others = OTHERS.map(move |number| name(&format!(".{number}.{PARTIAL}")));
    [name(&format!(".{PARTIAL}"))].into_iter().chain(others)
}

/// The name that a file gets when it is complete, if its own is that of a partial file.
///
/// ```
/// use std::path::Path;
///
/// use wirecap_record::complete_name;
///
/// assert_eq!(complete_name(Path::new("d/x.pcapng.partial")).as_deref(), Some(Path::new("d/x.pcapng")));
/// assert_eq!(complete_name(Path::new("d/x.pcapng.2.partial")).as_deref(), Some(Path::new("d/x.pcapng")));
/// assert_eq!(complete_name(Path::new("d/x.pcapng")), None);
/// ```
#[must_use]
pub fn complete_name(path: &Path) -> Option<PathBuf> {
    if path.extension()? != PARTIAL {
        return None;
    }
    let name = path.with_extension("");
    let is_number = |text: &str| text.parse().is_ok_and(|number: u32| OTHERS.contains(&number));
    let has_number = name.extension().and_then(OsStr::to_str).is_some_and(is_number);
    Some(if has_number { name.with_extension("") } else { name })
}

#[cfg(test)]
mod tests {
    use std::{fs::Permissions, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn links_are_followed_to_the_file_they_name() {
        let directory = tempfile::tempdir().unwrap();
        let (real, link) = (directory.path().join("real"), directory.path().join("link"));
        fs::create_dir(&real).unwrap();
        symlink("real/x.pcapng", &link).unwrap();
        let file = real.canonicalize().unwrap().join("x.pcapng");
        assert_eq!(Target::of(&link).unwrap(), Target::File(file.clone()), "a file that does not exist");
        fs::write(&file, "").unwrap();
        assert_eq!(Target::of(&link).unwrap(), Target::File(file));
        assert_eq!(Target::of(&real).unwrap(), Target::Other);
        for other in ["/dev/null", "/proc/self/fd/0", "/", "new/"] {
            assert_eq!(Target::of(Path::new(other)).unwrap(), Target::Other, "{other}");
        }
        symlink("ring", directory.path().join("ring")).unwrap();
        assert!(Target::of(&directory.path().join("ring")).is_err());
        let missing = Target::of(&directory.path().join("no/such/x")).unwrap_err();
        assert!(
            matches!(&missing, RecordError::Io(cause) if cause.kind() == io::ErrorKind::NotFound),
            "{missing:?}"
        );
    }

    #[test]
    fn links_that_everyone_may_make_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let shared = directory.path().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
        let (file, own, to_directory) = (shared.join("x"), directory.path().join("own"), shared.join("d"));
        symlink("/etc/passwd", &file).unwrap();
        symlink(&file, &own).unwrap();
        symlink(directory.path(), &to_directory).unwrap();
        for path in [&file, &own, &to_directory.join("y"), &shared.join("d/../z")] {
            let refused = Target::of(path);
            assert!(matches!(refused, Err(RecordError::SharedLink(_))), "{path:?}: {refused:?}");
        }
        assert!(matches!(Target::of(&shared.join("y")), Ok(Target::File(_))), "a file there is fine");
    }

    #[test]
    fn a_partial_file_has_a_name_of_its_own() {
        let names: Vec<_> = partial_names(Path::new("d/x.pcapng")).take(3).collect();
        assert_eq!(
            names,
            ["d/x.pcapng.partial", "d/x.pcapng.2.partial", "d/x.pcapng.3.partial"].map(PathBuf::from)
        );
        for name in partial_names(Path::new("d/x.pcapng")) {
            assert_eq!(complete_name(&name).as_deref(), Some(Path::new("d/x.pcapng")), "{name:?}");
        }
        for (name, complete) in [("x.1.partial", "x.1"), ("x.02a.partial", "x.02a"), (".partial", "")] {
            let expected = Some(Path::new(complete)).filter(|name| !name.as_os_str().is_empty());
            assert_eq!(complete_name(Path::new(name)).as_deref(), expected, "{name}");
        }
    }
}
