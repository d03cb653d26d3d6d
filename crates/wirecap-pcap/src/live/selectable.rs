//! A descriptor for programs that wait by themselves.
//!
//! ```text
//!   packets, the end ─► readiness of each worker ┐
//!   packets of a batch that is held ─► eventfd ──┴─► epoll descriptor: what select, poll and epoll see
//! ```
//!
//! Rule: readable if and only if a call would deliver packets, apart from short spurious wake-ups. So after
//! each call the worker is armed; if it finds something waiting, or packets are held, the eventfd is set.

use std::{
    cell::Cell,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    time::Duration,
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags},
        eventfd::{EfdFlags, EventFd},
    },
};

/// The descriptor, and what makes it readable.
#[derive(Debug)]
pub(super) struct Selectable {
    all: Epoll,
    waiting: EventFd,
    is_waiting: Cell<bool>,
    readiness: Vec<OwnedFd>,
}

impl Selectable {
    /// # Errors
    /// The kernel's error: too many open files, most likely.
    pub(super) fn new() -> io::Result<Self> {
        let all = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let waiting = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        all.add(&waiting, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        Ok(Self { all, waiting, is_waiting: Cell::new(false), readiness: Vec::new() })
    }

    /// Makes it readable whenever this descriptor is.
    ///
    /// # Errors
    /// The kernel's error.
    pub(super) fn add(&mut self, readiness: OwnedFd) -> io::Result<()> {
        self.all.add(&readiness, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        self.readiness.push(readiness);
        Ok(())
    }

    /// Waits until it is readable, at most `limit`, or until a signal comes.
    pub(super) fn wait(&self, limit: Duration) {
        let mut polls = [PollFd::new(self.all.0.as_fd(), PollFlags::POLLIN)];
        // The caller looks for packets, whatever ended the wait.
        let _ = poll(&mut polls, PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX));
    }

    /// The descriptor that the program waits on.
    pub(super) fn descriptor(&self) -> RawFd {
        self.all.0.as_raw_fd()
    }

    /// Makes it readable, or not, for what makes no worker's descriptor readable.
    pub(super) fn set_waiting(&self, waits: bool) {
        if self.is_waiting.replace(waits) == waits {
            return;
        }
        // Neither fails: the counter is 0 or 1.
        let _ = if waits { self.waiting.write(1).map(drop) } else { self.waiting.read().map(drop) };
    }
}
