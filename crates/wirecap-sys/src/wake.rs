//! Threads that wait in the kernel, and what wakes them.
//!
//! ```text
//!   socket of queue 0 ─┐
//!   socket of queue 1 ─┼─ Wakers: shared by all threads, closed by one ─┐
//!   pipe of a trace   ─┘                                                ├─► Watch: poll(2) by one thread
//!   Bell: rung by other threads ────────────────────────────────────────┘
//! ```
//!
//! Rule: a [`Watch`] keeps no waker open but while it waits. So a queue is free for others once the
//! [`Wakers`] are dropped and all bells have been rung.

use std::{
    fmt, io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    ptr,
    sync::{Arc, Weak},
    time::Duration,
};

use nix::sys::{
    epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags},
    eventfd::{EfdFlags, EventFd},
};

use crate::socket_option;

/// Wakes one thread that waits.
#[derive(Debug)]
pub struct Bell {
    event: EventFd,
}

impl Bell {
    /// A bell that has not been rung.
    ///
    /// # Errors
    /// The kernel's error: too many open files, most likely.
    pub fn new() -> io::Result<Self> {
        Ok(Self { event: EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)? })
    }

    /// Ends the wait of the thread, or its next one. From any thread.
    pub fn ring(&self) {
        // It fails only when the bell has been rung 2^64 - 1 times and not been heard.
        let _ = self.event.write(1);
    }

    fn hear(&self) {
        // Fails when it has not been rung.
        let _ = self.event.read();
    }
}

/// A descriptor that becomes readable when packets wait, and is not for anything else. It is open as long as
/// there is one.
#[derive(Debug, Clone)]
pub struct Waker {
    fd: Arc<OwnedFd>,
    /// Armed before each wait.
    alarm: Option<Arc<dyn Alarm>>,
}

/// Makes a descriptor readable only when a thread waits for it.
pub(crate) trait Alarm: fmt::Debug + Send + Sync {
    /// From now on a packet makes the descriptor readable. Returns false if one waits already.
    fn arm(&self) -> bool;
}

impl Waker {
    /// One that has to be armed before each wait.
    pub(crate) fn with_alarm(fd: Arc<OwnedFd>, alarm: Arc<dyn Alarm>) -> Self {
        Self { fd, alarm: Some(alarm) }
    }

    fn arm(&self) -> bool {
        self.alarm.as_ref().is_none_or(|alarm| alarm.arm())
    }
}

impl From<Arc<OwnedFd>> for Waker {
    fn from(fd: Arc<OwnedFd>) -> Self {
        Self { fd, alarm: None }
    }
}

/// The wakers of queues, by their numbers. A queue may have none.
#[derive(Debug)]
pub struct Wakers(Vec<Option<Waker>>);

impl Wakers {
    /// Of all queues.
    pub fn new(wakers: Vec<Option<Waker>>) -> Self {
        Self(wakers)
    }

    /// Whether this queue has one.
    pub fn has(&self, queue: usize) -> bool {
        self.0[queue].is_some()
    }
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeCause {
    /// The time is over.
    Timeout,
    /// The bell was rung.
    Bell,
    /// One of the wakers is readable, or broken.
    Waker,
}

/// What one thread waits for. Allocates only when it is made.
#[derive(Debug)]
pub struct Watch {
    bell: Arc<Bell>,
    wakers: Weak<Wakers>,
    /// The queues that have a waker.
    queues: Vec<usize>,
    /// The bell's, then the wakers of `queues`; -1, which the kernel skips, for one at its end. INVARIANT:
    /// each but the first is of one of `wakers`, so that it is open as long as that can be upgraded.
    polls: Vec<libc::pollfd>,
}

impl Watch {
    /// For the thread of this bell, with the wakers of these queues, as far as they have one.
    pub fn new(bell: &Arc<Bell>, wakers: &Arc<Wakers>, queues: impl IntoIterator<Item = usize>) -> Self {
        let queues: Vec<_> = queues.into_iter().filter(|&queue| wakers.has(queue)).collect();
        let of_queues = queues.iter().filter_map(|&queue| wakers.0[queue].as_ref());
        let fds =
            [bell.event.as_fd().as_raw_fd()].into_iter().chain(of_queues.map(|waker| waker.fd.as_raw_fd()));
        let poll = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let polls = fds.map(poll).collect();
        Self { bell: Arc::clone(bell), wakers: Arc::downgrade(wakers), queues, polls }
    }

    /// Wakers it waits for.
    pub fn wakers(&self) -> usize {
        self.queues.len()
    }

    /// A descriptor that is readable when the bell was rung, or when one of the wakers is readable or broken.
    /// Wakers with an alarm have to be armed, which [`Watch::wait`] does, if only with a timeout of zero.
    ///
    /// # Errors
    /// The kernel's error: too many open files, most likely.
    pub fn readiness(&self) -> io::Result<OwnedFd> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&self.bell.event, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        if let Some(open) = self.wakers.upgrade() {
            for waker in self.queues.iter().filter_map(|&queue| open.0[queue].as_ref()) {
                epoll.add(&waker.fd, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
            }
        }
        Ok(epoll.0)
    }

    /// Whether the descriptors are still open. A library's may be closed by its program, which does not know
    /// them.
    pub fn is_open(&self) -> bool {
        // SAFETY: asks for the flags of a descriptor, open or not.
        unsafe { libc::fcntl(self.bell.event.as_fd().as_raw_fd(), libc::F_GETFD) != -1 }
    }

    /// Waits until the bell is rung or one of the first `wakers` is readable or broken, at most `timeout`.
    /// For an AF_XDP socket this is also the call that wakes its driver. Once the wakers are dropped, it
    /// waits for the bell alone.
    pub fn wait(&mut self, wakers: usize, timeout: Duration) -> WakeCause {
        let open = self.wakers.upgrade();
        let count = if open.is_some() { 1 + wakers.min(self.wakers()) } else { 1 };
        let of = |queue: &usize| open.as_ref().and_then(|wakers| wakers.0[*queue].as_ref());
        if !self.queues[..count - 1].iter().filter_map(of).all(Waker::arm) {
            return WakeCause::Waker;
        }
        let polls = &mut self.polls[..count];
        let timeout = libc::timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        // SAFETY: pointer and count are those of one slice, and the timespec lives through the call; no
        // signal mask is given. The descriptors are open: `open` holds them, and `self.bell` its own.
        let ready = unsafe {
            libc::ppoll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, &raw const timeout, ptr::null())
        };
        if ready <= 0 {
            return WakeCause::Timeout;
        }
        let [bell, polls @ ..] = polls else { unreachable!("the bell is always there") };
        for (poll, queue) in polls.iter_mut().zip(&self.queues) {
            settle(poll, of(queue));
        }
        if bell.revents == 0 {
            return WakeCause::Waker;
        }
        self.bell.hear();
        WakeCause::Bell
    }
}

/// Clears what would wake the thread again and again.
fn settle(poll: &mut libc::pollfd, waker: Option<&Waker>) {
    if poll.revents & libc::POLLERR != 0 {
        // Asking for the error of a socket takes it away: its link was down for a moment, for instance. A
        // pipe has none.
        let _ = waker.map(|waker| socket_option::get::<u32>(&waker.fd, libc::SOL_SOCKET, libc::SO_ERROR));
    }
    if poll.revents & (libc::POLLHUP | libc::POLLIN) == libc::POLLHUP {
        // A pipe at its end: its reader finds that out without being woken.
        poll.fd = -1;
    }
}

#[cfg(test)]
mod tests {
    use std::{os::fd::AsFd, os::unix::net::UnixDatagram, thread, time::Instant};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn waker(socket: &UnixDatagram) -> Option<Waker> {
        Some(Waker::from(Arc::new(socket.as_fd().try_clone_to_owned().unwrap())))
    }

    #[test]
    fn a_bell_ends_one_wait_even_if_rung_before() {
        let (bell, wakers) = (Arc::new(Bell::new().unwrap()), Arc::new(Wakers::new(vec![])));
        let mut watch = Watch::new(&bell, &wakers, []);
        bell.ring();
        bell.ring();
        assert_eq!(watch.wait(0, LONG), WakeCause::Bell);
        assert_eq!(watch.wait(0, Duration::from_micros(100)), WakeCause::Timeout);
        thread::scope(|scope| {
            let begun = Instant::now();
            scope.spawn(|| bell.ring());
            assert_eq!(watch.wait(0, LONG), WakeCause::Bell);
            assert!(begun.elapsed() < LONG);
        });
    }

    #[test]
    fn the_first_wakers_wake_and_the_others_do_not() {
        let pairs = [(); 3].map(|()| UnixDatagram::pair().unwrap());
        let wakers =
            Arc::new(Wakers::new(vec![waker(&pairs[0].0), None, waker(&pairs[1].0), waker(&pairs[2].0)]));
        let bell = Arc::new(Bell::new().unwrap());
        assert!(wakers.has(0) && !wakers.has(1));
        let mut watch = Watch::new(&bell, &wakers, [1, 2, 0]);
        assert_eq!(watch.wakers(), 2, "queue 1 has no waker");
        let short = Duration::from_millis(1);
        pairs[2].1.send(b"not watched").unwrap();
        assert_eq!(watch.wait(2, short), WakeCause::Timeout);
        pairs[0].1.send(b"the second").unwrap();
        assert_eq!((watch.wait(1, short), watch.wait(2, LONG)), (WakeCause::Timeout, WakeCause::Waker));
        bell.ring();
        assert_eq!(watch.wait(2, LONG), WakeCause::Bell);
        drop(wakers);
        assert_eq!(watch.wait(2, short), WakeCause::Timeout, "descriptors that may be closed are left alone");
        bell.ring();
        assert_eq!(watch.wait(2, LONG), WakeCause::Bell);
    }

    #[test]
    fn one_descriptor_is_readable_when_anything_wakes() {
        let pair = UnixDatagram::pair().unwrap();
        let (bell, wakers) = (Arc::new(Bell::new().unwrap()), Arc::new(Wakers::new(vec![waker(&pair.0)])));
        let mut watch = Watch::new(&bell, &wakers, [0]);
        let readiness = Epoll(watch.readiness().unwrap());
        let is_readable = || readiness.wait(&mut [EpollEvent::empty()], 0_u8).unwrap() == 1;
        assert!(!is_readable());
        bell.ring();
        assert!(is_readable() && is_readable());
        assert_eq!(watch.wait(1, Duration::ZERO), WakeCause::Bell);
        assert!(!is_readable());
        pair.1.send(b"a packet").unwrap();
        assert!(is_readable());
        drop((wakers, pair.0));
        assert!(!is_readable(), "a descriptor that is closed");
    }

    #[test]
    fn a_pipe_at_its_end_wakes_once() {
        let (read, write) = nix::unistd::pipe().unwrap();
        let wakers = Arc::new(Wakers::new(vec![Some(Waker::from(Arc::new(read)))]));
        let mut watch = Watch::new(&Arc::new(Bell::new().unwrap()), &wakers, [0]);
        drop(write);
        assert_eq!(watch.wait(1, LONG), WakeCause::Waker);
        assert_eq!(watch.wait(1, Duration::from_millis(1)), WakeCause::Timeout);
    }
}
