//! Wakes the thread that serves, from any other.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
};

use nix::sys::eventfd::{EfdFlags, EventFd};

/// Becomes readable when it is woken.
#[derive(Debug)]
pub(crate) struct Waker(EventFd);

impl Waker {
    /// # Errors
    /// The process has too many files open.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?))
    }

    /// Wakes the thread now, or keeps it from sleeping the next time.
    pub(crate) fn wake(&self) {
        // Fails only if the counter is full; then the thread is awake in any case.
        let _ = self.0.write(1);
    }

    /// Sleeps again from now on.
    pub(super) fn reset(&self) {
        // Fails if nothing woke it.
        let _ = self.0.read();
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
