//! A descriptor for programs that wait by themselves.
//!
//! ```text
//!   packets, the end ─► readiness of the worker ─┐
//!   packets of a batch that is held ─► eventfd ──┴─► epoll descriptor: what select, poll and epoll see
//! ```
//!
//! Rule: it is readable whenever a call would deliver something, and else, but for a moment, not. So after
//! each call the worker is armed; if that finds something waiting, or packets are held, the eventfd says so.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
};

/// The descriptor, and what makes it readable.
#[derive(Debug)]
pub(crate) struct Selectable {
    all: OwnedFd,
    /// An eventfd.
    waiting: OwnedFd,
    _readiness: OwnedFd,
}

impl Selectable {
    /// Of a worker with this readiness.
    ///
    /// # Errors
    /// The kernel's error: too many open files, most likely.
    pub(super) fn new(readiness: OwnedFd) -> io::Result<Self> {
        // SAFETY: system calls without pointers.
        let (all, waiting) = unsafe {
            (
                owned(libc::epoll_create1(libc::EPOLL_CLOEXEC))?,
                owned(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?,
            )
        };
        for part in [&waiting, &readiness] {
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
            // SAFETY: the event lives through the call, and both descriptors are open.
            let added = unsafe {
                libc::epoll_ctl(all.as_raw_fd(), libc::EPOLL_CTL_ADD, part.as_raw_fd(), &raw mut event)
            };
            if added < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Self { all, waiting, _readiness: readiness })
    }

    /// What the program waits on.
    pub(super) fn descriptor(&self) -> RawFd {
        self.all.as_raw_fd()
    }

    /// Says whether something waits.
    pub(super) fn set_waiting(&self, waits: bool) {
        let mut value = 1_u64;
        let place = (&raw mut value).cast();
        // SAFETY: the value has 8 bytes, and lives through the call. Either fails only if it has no effect.
        unsafe {
            if waits {
                libc::write(self.waiting.as_raw_fd(), place, 8);
            } else {
                libc::read(self.waiting.as_raw_fd(), place, 8);
            }
        }
    }
}

/// # Safety
/// The descriptor is new and nobody else's, or negative.
unsafe fn owned(descriptor: RawFd) -> io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: by the caller's promise.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
