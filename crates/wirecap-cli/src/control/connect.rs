//! Connects to control sockets without waiting for captures that do not answer.

use std::{
    io::{self, ErrorKind},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    thread,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket},
};

/// How often to try again while too many connections wait.
const TICK: Duration = Duration::from_millis(10);

/// Connects. The stream blocks.
///
/// # Errors
/// Nothing accepts connections there, or not in time; this user may not connect.
pub(crate) fn within(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let address = UnixAddr::new(path)?;
    let begun = Instant::now();
    loop {
        // If it blocked, it would wait for a capture that accepts nothing.
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd: OwnedFd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        match connect(fd.as_raw_fd(), &address) {
            Ok(()) => {
                let stream = UnixStream::from(fd);
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(Errno::EAGAIN | Errno::EINTR) if begun.elapsed() < timeout => thread::sleep(TICK),
            Err(Errno::EAGAIN) => return Err(ErrorKind::TimedOut.into()),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Whether no process is at a socket, or it is not there any more.
pub(super) fn is_gone(path: &Path) -> bool {
    is_left_over(path) || !path.exists()
}

/// Whether a socket was left over by a process that was killed: it refuses connections.
pub(super) fn is_left_over(path: &Path) -> bool {
    within(path, Duration::ZERO).is_err_and(|cause| cause.kind() == ErrorKind::ConnectionRefused)
}
