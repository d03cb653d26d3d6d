//! A file that is there whole: written under another name, then renamed.

use std::{
    fs, io,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use tempfile::{Builder, NamedTempFile};

/// Who may read a new report: all whom the umask allows.
const READABLE: u32 = 0o666;

/// Replaces the file. A pipe or a device is written to as it is, since renaming would replace it.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        return fs::OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    let target = target(path);
    let mut new = beside(&target)?;
    new.write_all(bytes)?;
    new.as_file().sync_all()?;
    new.persist(&target).map(|_| ()).map_err(|error| error.error)
}

/// Whether the file can be written, without changing what is there.
pub fn check(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(there) if there.is_dir() => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        Ok(there) if !there.is_file() => Ok(()),
        _ => beside(&target(path)).map(drop),
    }
}

/// What a link leads to: the link stays.
fn target(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// A file that replaces the target, or is removed when it is dropped.
fn beside(target: &Path) -> io::Result<NamedTempFile> {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let readable = fs::Permissions::from_mode(READABLE);
    Builder::new().prefix(".report-").permissions(readable).tempfile_in(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.html");
        for bytes in [&b"first"[..], b"2"] {
            write(&path, bytes).unwrap();
            assert_eq!(fs::read(&path).unwrap(), bytes);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let link = folder.path().join("link.html");
        std::os::unix::fs::symlink("a.html", &link).unwrap();
        write(&link, b"3").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink() && fs::read(&path).unwrap() == b"3");
    }

    #[test]
    fn a_device_stays_a_device_and_a_folder_is_refused() {
        write(Path::new("/dev/null"), b"page").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let folder = tempfile::tempdir().unwrap();
        assert!(write(folder.path(), b"page").is_err());
        assert!(write(&folder.path().join("missing/a.html"), b"page").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_check_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old.html");
        fs::write(&path, b"old").unwrap();
        check(&path).unwrap();
        check(&folder.path().join("new.html")).unwrap();
        check(Path::new("/dev/null")).unwrap();
        assert!(check(folder.path()).is_err() && check(&folder.path().join("missing/a.html")).is_err());
        assert_eq!(
            (fs::read(&path).unwrap(), fs::read_dir(folder.path()).unwrap().count()),
            (b"old".to_vec(), 1)
        );
    }
}
