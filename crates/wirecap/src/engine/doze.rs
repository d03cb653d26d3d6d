//! Threads that wait in the kernel until there is something for them.
//!
//! ```text
//!   packets ─► socket readable ────────────────────────────────────┐
//!   a chunk, the end, a buddy that went away ─► wake() ─► bell ────┴─► doze() ends
//! ```
//!
//! Rule: a thread that makes something ready calls [`Sleeper::wake`] afterwards; a thread that dozes says so,
//! then looks once more. So either the first sees that the other dozes, or the other sees what is ready.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering, fence},
    },
    time::Duration,
};

use wirecap_sys::wake::{Bell, WakeCause, Wakers, Watch};

/// Lets other threads wake a thread.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Sleeper {
    /// Written by the thread that waits.
    dozing: AtomicBool,
    bell: Arc<Bell>,
}

impl Sleeper {
    /// # Errors
    /// What the kernel said to one more descriptor.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { dozing: AtomicBool::new(false), bell: Arc::new(Bell::new()?) })
    }

    /// What the thread waits on: its bell, and the wakers of these queues.
    pub(crate) fn watch(&self, wakers: &Arc<Wakers>, queues: impl IntoIterator<Item = usize>) -> Watch {
        Watch::new(&self.bell, wakers, queues)
    }

    /// Waits until [`Sleeper::wake`], or until one of all the wakers is readable. `allowed` says for how long
    /// at most, and `None` if there is something to do; it looks for all that others wake for.
    pub(crate) fn doze(
        &self,
        watch: &mut Watch,
        allowed: impl FnOnce() -> Option<Duration>,
    ) -> Option<WakeCause> {
        let wakers = watch.wakers();
        self.doze_on(watch, wakers, allowed)
    }

    /// As [`Sleeper::doze`], with the first `wakers` of the watch alone.
    pub(crate) fn doze_on(
        &self,
        watch: &mut Watch,
        wakers: usize,
        allowed: impl FnOnce() -> Option<Duration>,
    ) -> Option<WakeCause> {
        self.dozing.store(true, Ordering::Relaxed);
        // Pairs with the fence in `wake`: either we see what was made ready, or the thread that made it ready
        // sees that we doze.
        fence(Ordering::SeqCst);
        let woken = allowed().map(|limit| watch.wait(wakers, limit));
        self.dozing.store(false, Ordering::Relaxed);
        woken
    }

    /// As [`Sleeper::doze`], for a thread that waits elsewhere, with the descriptor of
    /// [`Watch::readiness`]: from now on [`Sleeper::wake`] rings the bell, until [`Sleeper::disarm`]. Returns
    /// false if there is something to do already: then nothing rings.
    pub(crate) fn arm(&self, watch: &mut Watch, is_idle: impl FnOnce() -> bool) -> bool {
        self.dozing.store(true, Ordering::Relaxed);
        // As in `doze`.
        fence(Ordering::SeqCst);
        let is_armed = is_idle() && watch.wait(watch.wakers(), Duration::ZERO) == WakeCause::Timeout;
        if !is_armed {
            self.disarm();
        }
        is_armed
    }

    /// The thread is back. A bell that was rung stays rung: it ends one wait too many.
    pub(crate) fn disarm(&self) {
        self.dozing.store(false, Ordering::Relaxed);
    }

    /// Wakes the thread if it dozes. Call after what it is woken for.
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.dozing.load(Ordering::Relaxed) {
            self.bell.ring();
        }
    }
}

/// All threads of an engine that may doze.
#[derive(Debug)]
pub(crate) struct Sleepers {
    pub(crate) workers: Box<[Sleeper]>,
    pub(crate) capture_threads: Box<[Sleeper]>,
}

impl Sleepers {
    /// # Errors
    /// What the kernel said to one more descriptor.
    pub(crate) fn new(workers: usize, capture_threads: usize) -> io::Result<Self> {
        let sleepers = |count| (0..count).map(|_| Sleeper::new()).collect::<io::Result<_>>();
        Ok(Self { workers: sleepers(workers)?, capture_threads: sleepers(capture_threads)? })
    }

    /// Wakes all of them.
    pub(crate) fn wake_all(&self) {
        self.workers.iter().chain(&self.capture_threads).for_each(Sleeper::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::{os::fd::AsFd, sync::atomic::AtomicU32, thread};

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn no_wakers() -> Arc<Wakers> {
        Arc::new(Wakers::new(vec![]))
    }

    /// A worker may move to another thread between two calls.
    #[test]
    fn whichever_thread_dozes_is_woken() {
        let sleeper = Sleeper::new().unwrap();
        let mut watch = sleeper.watch(&no_wakers(), []);
        assert_eq!(sleeper.doze(&mut watch, || Some(Duration::from_millis(1))), Some(WakeCause::Timeout));
        thread::scope(|scope| {
            let elsewhere = scope.spawn(|| sleeper.doze(&mut watch, || Some(LONG)));
            while !elsewhere.is_finished() {
                sleeper.wake();
                thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(elsewhere.join().unwrap(), Some(WakeCause::Bell));
        });
        assert_eq!(sleeper.doze(&mut watch, || None), None, "there is work to do");
    }

    #[test]
    fn a_thread_that_waits_elsewhere_is_woken_by_its_descriptor() {
        let sleeper = Sleeper::new().unwrap();
        let mut watch = sleeper.watch(&no_wakers(), []);
        let readiness = watch.readiness().unwrap();
        let is_readable = || {
            let mut polls = [PollFd::new(readiness.as_fd(), PollFlags::POLLIN)];
            poll(&mut polls, PollTimeout::ZERO).unwrap() == 1
        };
        sleeper.wake();
        assert!(!is_readable(), "not armed");
        assert!(!sleeper.arm(&mut watch, || false), "there is work to do");
        sleeper.wake();
        assert!(!is_readable(), "not armed");
        assert!(sleeper.arm(&mut watch, || true));
        assert!(!is_readable());
        sleeper.wake();
        assert!(is_readable());
        sleeper.disarm();
        assert!(!sleeper.arm(&mut watch, || true), "the bell was rung");
        assert!(sleeper.arm(&mut watch, || true), "and was heard");
    }

    #[test]
    fn no_thread_sleeps_through_ready_work() {
        const ROUNDS: u32 = 2_000;
        let (sleeper, ready) = (Sleeper::new().unwrap(), AtomicU32::new(0));
        let mut watch = sleeper.watch(&no_wakers(), []);
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    ready.store(round, Ordering::Relaxed);
                    sleeper.wake();
                    // Now the other thread may go to sleep again.
                    while ready.load(Ordering::Relaxed) == round {
                        thread::yield_now();
                    }
                }
            });
            let mut taken = 0;
            while taken < ROUNDS {
                let waiting = ready.load(Ordering::Relaxed);
                if waiting > taken && waiting < u32::MAX {
                    taken = waiting;
                    ready.store(u32::MAX, Ordering::Relaxed);
                    continue;
                }
                let is_ready = || matches!(ready.load(Ordering::Relaxed), waiting if waiting > taken && waiting < u32::MAX);
                let woken = sleeper.doze(&mut watch, || (!is_ready()).then_some(LONG));
                assert_ne!(woken, Some(WakeCause::Timeout));
            }
        });
    }
}
