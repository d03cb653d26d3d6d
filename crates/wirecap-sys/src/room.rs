//! Waiting until a pipe, a terminal or a socket takes more, or has something.

use std::{os::fd::BorrowedFd, time::Duration};

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

fn wait(fd: BorrowedFd<'_>, events: PollFlags, timeout: Duration) -> bool {
    let mut fds = [PollFd::new(fd, events)];
    let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
    poll(&mut fds, timeout).is_ok_and(|ready| ready > 0)
}
