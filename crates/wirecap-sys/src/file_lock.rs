//! A lock on a file, for as long as the file is open.

use std::{fs::File, io, os::fd::AsRawFd};

/// Takes the exclusive advisory lock (`flock(2)`) of a file without waiting, and returns whether it
/// succeeded. It is held until the file and every duplicate of it are closed.
///
/// # Errors
/// The kernel's error; ENOLCK, for instance, on a file system without locks.
pub fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: flock takes no pointers, and the descriptor is open for as long as `file` is borrowed.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        cause if cause.kind() == io::ErrorKind::WouldBlock => Ok(false),
        cause => Err(cause),
    }
}
