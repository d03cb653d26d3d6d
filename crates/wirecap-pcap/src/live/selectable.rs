//! A descriptor for programs that wait by themselves.
//!
//! ```text
//!   packets, the end ─► readiness of each worker ┐
//!   packets of a batch that is held ─► eventfd ──┴─► epoll descriptor: what select, poll and epoll see
//! ```
//!
//! Rule: it is readable whenever a call would deliver something, and else, but for a moment, not. So after
//! each call the worker is armed; if that finds something waiting, or packets are held, the eventfd says so.

use std::{
    ffi::c_int,
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    time::Duration,
};

/// The descriptor, and what makes it readable.
#[derive(Debug)]
pub(super) struct Selectable {
    all: OwnedFd,
    /// An eventfd.
    waiting: OwnedFd,
    readiness: Vec<OwnedFd>,
}

impl Selectable {
    /// # Errors
    /// The kernel's error: too many open files, most likely.
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: system calls without pointers; the descriptors are new, and nobody else's.
        let (all, waiting) = unsafe {
            let all = owned(libc::epoll_create1(libc::EPOLL_CLOEXEC))?;
            (all, owned(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?)
        };
        watch(&all, &waiting)?;
        Ok(Self { all, waiting, readiness: Vec::new() })
    }

    /// Makes it readable whenever this descriptor is.
    ///
    /// # Errors
    /// The kernel's error.
    pub(super) fn add(&mut self, readiness: OwnedFd) -> io::Result<()> {
        watch(&self.all, &readiness)?;
        self.readiness.push(readiness);
        Ok(())
    }

    /// Waits until it is readable, at most `limit`, or until a signal comes.
    pub(super) fn wait(&self, limit: Duration) {
        let mut poll = libc::pollfd { fd: self.all.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let limit = c_int::try_from(limit.as_millis()).unwrap_or(c_int::MAX);
        // SAFETY: one structure, which lives through the call.
        unsafe { libc::poll(&raw mut poll, 1, limit) };
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

fn watch(all: &OwnedFd, part: &OwnedFd) -> io::Result<()> {
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
    // SAFETY: the event lives through the call, and both descriptors are open.
    let added =
        unsafe { libc::epoll_ctl(all.as_raw_fd(), libc::EPOLL_CTL_ADD, part.as_raw_fd(), &raw mut event) };
    if added < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
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
