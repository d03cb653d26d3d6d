//! Where programs are.

use std::{
    env,
    ffi::OsStr,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Whether a path is that of a file that may be executed.
pub(crate) fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The file of a program in PATH, as a shell finds it.
pub(crate) fn in_path(name: &OsStr) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|directory| directory.join(name)).find(|path| is_program(path))
}

/// The file of a program in PATH, or where programs for administrators are.
pub(crate) fn in_path_or_sbin(name: &str) -> Option<PathBuf> {
    let beside = ["/usr/sbin", "/sbin"].map(|directory| Path::new(directory).join(name));
    in_path(OsStr::new(name)).or_else(|| beside.into_iter().find(|path| is_program(path)))
}
