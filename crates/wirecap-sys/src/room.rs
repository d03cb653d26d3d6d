//! Waiting until a pipe, a terminal or a socket takes more, or has something; what a pipe has.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
    time::Duration,
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Bytes that a pipe takes without waiting once it has any room at all (`PIPE_BUF`).
pub const PIECE: usize = 4096;

/// Waits until a write is answered at once: there is room, or an error to report. A signal ends the wait
/// early.
pub fn wait_for_room(fd: BorrowedFd<'_>, timeout: Duration) -> bool {
    wait(fd, PollFlags::POLLOUT, timeout)
}

/// Waits until a read is answered at once: there is something, the end, or an error to report. A signal ends
/// the wait early.
pub(crate) fn wait_for_bytes(fd: BorrowedFd<'_>, timeout: Duration) -> bool {
    wait(fd, PollFlags::POLLIN, timeout)
}

/// Whether no process has the reading end of this pipe open any more; called with its writing end.
pub fn is_closed_by_reader(pipe: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(pipe, PollFlags::empty())];
    poll(&mut fds, PollTimeout::ZERO).is_ok()
        && fds[0].revents().is_some_and(|events| events.contains(PollFlags::POLLERR))
}

/// Bytes in this pipe that are not read yet. Either end may be passed. They remain after the last reader has
/// closed it, until the writing end is closed.
///
/// # Errors
/// The kernel's: it is no pipe.
pub fn unread_bytes(pipe: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: FIONREAD writes one int, for which the pointer is valid (pipe_ioctl in fs/pipe.c).
    let result = unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(bytes).unwrap_or(0))
}

fn wait(fd: BorrowedFd<'_>, events: PollFlags, timeout: Duration) -> bool {
    let mut fds = [PollFd::new(fd, events)];
    let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
    poll(&mut fds, timeout).is_ok_and(|ready| ready > 0)
}
