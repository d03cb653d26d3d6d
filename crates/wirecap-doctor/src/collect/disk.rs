//! The directory that packets are to be written to.
//!
//! Rule: a test file is written only if the user agreed. It has no name, or loses it at once, so that nothing
//! is left behind however the process ends.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use nix::{fcntl::OFlag, sys::statvfs::statvfs};

use super::{Error, files::Files};
use crate::snapshot::{Disk, FileSystem};

/// O_DIRECT needs memory and sizes that are multiples of a block of the device; a page is one of each.
const ALIGNMENT: usize = 4096;
const PIECE_BYTES: usize = 4 << 20;
/// The measurement ends after this time, or after `MAX_BYTES`.
const LONGEST: Duration = Duration::from_secs(3);
const MAX_BYTES: u64 = 2 << 30;
/// Less than this is written too fast to be measured.
const MIN_BYTES: u64 = 64 << 20;

/// What is known of a directory, or of the directory of a file, without writing to it.
///
/// # Errors
/// [`Error::File`] if there is no such directory.
pub fn disk(path: &Path) -> Result<Disk, Error> {
    let directory = directory_of(path)?;
    let room = statvfs(&directory).map_err(|errno| Error::file(&directory, errno.into()))?;
    let type_name = type_name(&Files::new("/").text("/proc/self/mounts").unwrap_or_default(), &directory);
    Ok(Disk {
        kind: FileSystem::of_type(&type_name),
        type_name,
        #[allow(clippy::useless_conversion, reason = "their width depends on the target")]
        free_bytes: u64::from(room.blocks_available()) * u64::from(room.fragment_size()),
        takes_direct_io: None,
        bytes_per_second: None,
        path: directory.display().to_string(),
    })
}

/// Writes a test file there for some seconds, and adds what was found.
///
/// # Errors
/// [`Error::Measure`].
pub fn measure(disk: &mut Disk) -> Result<(), Error> {
    let path = PathBuf::from(&disk.path);
    let failed = |cause| Error::Measure { path: path.clone(), cause };
    let direct = nameless(&path, OFlag::O_DIRECT);
    disk.takes_direct_io = match &direct {
        Ok(_) => Some(true),
        Err(cause) if cause.kind() == io::ErrorKind::InvalidInput => Some(false),
        Err(_) => None,
    };
    let mut file = direct.or_else(|_| nameless(&path, OFlag::empty())).map_err(failed)?;
    let most = MAX_BYTES.min(disk.free_bytes / 4);
    if most < MIN_BYTES {
        let why = format!("{} MiB have to be free", (4 * MIN_BYTES) >> 20);
        return Err(failed(io::Error::new(io::ErrorKind::StorageFull, why)));
    }
    disk.bytes_per_second = Some(written_per_second(&mut file, most).map_err(failed)?);
    Ok(())
}

/// The directory, or that of a file that exists or will.
fn directory_of(path: &Path) -> Result<PathBuf, Error> {
    let directory = match path.parent() {
        _ if path.is_dir() => path,
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::canonicalize(directory).map_err(|cause| Error::file(directory, cause))
}

/// The type of the file system that a directory is on: that of the longest mount point above it, and of equal
/// ones the last, which hides the others.
fn type_name(mounts: &str, directory: &Path) -> String {
    let mount = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        let (point, name) = (fields.next()?.replace("\\040", " "), fields.next()?.to_owned());
        directory.starts_with(&point).then_some((point.len(), name))
    };
    let found = mounts.lines().filter_map(mount).max_by_key(|(length, _)| *length);
    found.map(|(_, name)| name).unwrap_or_default()
}

/// A file without a name.
fn nameless(directory: &Path, flags: OFlag) -> io::Result<File> {
    let open = |flags: OFlag, path: &Path, create: bool| {
        OpenOptions::new().write(true).create_new(create).mode(0o600).custom_flags(flags.bits()).open(path)
    };
    match open(flags | OFlag::O_TMPFILE, directory, false) {
        Err(cause) if is_unsupported(&cause) => {
            let path = directory.join(format!(".wirecap-doctor-{}", std::process::id()));
            let file = open(flags, &path, true);
            // Whether it could be opened or not: an open that is refused can leave the file.
            match fs::remove_file(&path) {
                Err(gone) if file.is_ok() => Err(gone),
                _ => file,
            }
        }
        file => file,
    }
}

/// Whether the file system has no files without a name.
fn is_unsupported(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::Unsupported | io::ErrorKind::IsADirectory)
}

fn written_per_second(file: &mut File, most: u64) -> io::Result<u64> {
    let memory = vec![0x5a; PIECE_BYTES + ALIGNMENT];
    let start = memory.as_ptr().align_offset(ALIGNMENT);
    let piece = &memory[start..start + PIECE_BYTES];
    let (begun, mut written) = (Instant::now(), 0);
    while written + piece.len() as u64 <= most && begun.elapsed() < LONGEST {
        file.write_all(piece)?;
        written += piece.len() as u64;
    }
    file.sync_data()?;
    Ok((written as f64 / begun.elapsed().as_secs_f64().max(1e-6)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_point_decides() {
        let mounts = "/dev/vda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\nx /my\\040disk xfs rw 0 0\n";
        for (directory, expected) in
            [("/var", "ext4"), ("/tmp/a", "tmpfs"), ("/tmpfile", "ext4"), ("/my disk/b", "xfs")]
        {
            assert_eq!(type_name(mounts, Path::new(directory)), expected, "{directory}");
        }
        assert_eq!(type_name("", Path::new("/")), "");
    }

    #[test]
    fn a_disk_is_measured_and_nothing_is_left_behind() {
        let directory = tempfile::tempdir().unwrap();
        let mut found = disk(&directory.path().join("x.pcapng")).unwrap();
        assert_eq!(found.path, fs::canonicalize(directory.path()).unwrap().display().to_string());
        assert!(found.free_bytes > 0 && !found.type_name.is_empty(), "{found:?}");
        assert_eq!((found.bytes_per_second, found.takes_direct_io), (None, None), "not without consent");
        found.free_bytes = (256 << 20) - 1;
        let error = measure(&mut found).unwrap_err();
        assert!(error.to_string().ends_with("256 MiB have to be free"), "{error}");
        // 64 MiB.
        found.free_bytes = 256 << 20;
        measure(&mut found).unwrap();
        assert!(found.bytes_per_second.is_some_and(|speed| speed > 0), "{found:?}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        assert!(disk(Path::new("/nonexistent/x")).is_err());
    }
}
