//! A descriptor for programs that wait by themselves.
//!
//! ```text
//!   packets, the end ─► readiness of each worker that is armed ┐
//!   packets of a batch that is held; time to look again ─► timer ─┴─► epoll descriptor: what select, poll and epoll see
//! ```
//!
//! Rule: readable if a call would deliver packets. So after each call the worker is armed, and says when to
//! look again, armed or not; if it finds something waiting, or packets are held, the time is now. A program
//! that is woken in vain gets 0 from its call.

use std::{
    cell::Cell,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    time::{Duration, Instant},
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags},
        time::TimeSpec,
        timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags},
    },
};

/// The descriptor, and what makes it readable.
#[derive(Debug)]
pub(super) struct Selectable {
    all: Epoll,
    timer: TimerFd,
    /// When the timer makes it readable.
    due: Cell<Instant>,
}

/// What one worker adds to a [`Selectable`].
#[derive(Debug)]
pub(super) struct Readiness {
    descriptor: OwnedFd,
    is_watched: bool,
}

impl Readiness {
    pub(super) fn new(descriptor: OwnedFd) -> Self {
        Self { descriptor, is_watched: false }
    }
}

impl Selectable {
    /// Readable at once.
    ///
    /// # Errors
    /// The kernel's error: too many open files, most likely.
    pub(super) fn new() -> io::Result<Self> {
        let all = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let timer =
            TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?;
        all.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        let selectable = Self { all, timer, due: Cell::new(Instant::now()) };
        selectable.set_timer(Duration::ZERO);
        Ok(selectable)
    }

    /// Makes it readable whenever this descriptor is, once that is [watched](Self::watch).
    ///
    /// # Errors
    /// The kernel's error.
    pub(super) fn add(&self, readiness: &Readiness) -> io::Result<()> {
        Ok(self.all.add(&readiness.descriptor, EpollEvent::empty())?)
    }

    /// A descriptor that was added is going to be closed. It would stay if a child process had it open, too.
    pub(super) fn remove(&self, readiness: &Readiness) {
        let _ = self.all.delete(&readiness.descriptor);
    }

    /// Whether a descriptor that was added makes it readable.
    pub(super) fn watch(&self, readiness: &mut Readiness, is_watched: bool) {
        if std::mem::replace(&mut readiness.is_watched, is_watched) != is_watched {
            let events = if is_watched { EpollFlags::EPOLLIN } else { EpollFlags::empty() };
            // It was added, so the kernel has nothing to refuse.
            let _ = self.all.modify(&readiness.descriptor, &mut EpollEvent::new(events, 0));
        }
    }

    /// Waits until it is readable, or until a signal comes.
    pub(super) fn wait(&self) {
        // The caller looks for packets, whatever ended the wait.
        self.poll(PollTimeout::NONE);
    }

    fn poll(&self, limit: PollTimeout) -> bool {
        let mut polls = [PollFd::new(self.all.0.as_fd(), PollFlags::POLLIN)];
        poll(&mut polls, limit).is_ok_and(|readable| readable > 0)
    }

    /// The descriptor that the program waits on.
    pub(super) fn descriptor(&self) -> RawFd {
        self.all.0.as_raw_fd()
    }

    /// Makes it readable after this time, whatever comes; not before, unless a descriptor that is watched is.
    ///
    /// If it stays readable, there is no edge (EPOLLET of epoll(7)); so it may only while the program `takes`
    /// packets.
    pub(super) fn set_due(&self, after: Duration, takes: bool) {
        let now = Instant::now();
        if takes && after.is_zero() && self.due.get() <= now {
            return;
        }
        self.due.set(now + after);
        self.set_timer(after);
    }

    /// Whether it is readable.
    pub(super) fn is_readable(&self) -> bool {
        self.due.get() <= Instant::now() || self.poll(PollTimeout::ZERO)
    }

    fn set_timer(&self, after: Duration) {
        // Zero would stop it.
        let after = TimeSpec::from_duration(after.max(Duration::from_nanos(1)));
        // A time that is valid is not refused. What had expired is gone.
        let _ = self.timer.set(Expiration::OneShot(after), TimerSetTimeFlags::empty());
    }
}
