//! Forked processes: whether one still has what this one opened, and numbers that they share.
//!
//! ```text
//!   this process ── writing end ──┐
//!   a forked one ── writing end ──┴─► pipe ─► reading end: "hung up" once no process has the other end
//! ```
//!
//! A descriptor is copied by fork(2), and closed by execve(2) and at the end of the process, however it ends.
//! So a process that ends unnoticed is noticed here.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::atomic::AtomicU64,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    fcntl::OFlag,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    unistd::pipe2,
};

use crate::mmap::{Mmap, page_bytes};

/// What a process holds together with those that are forked from it, until each of them lets go of it,
/// executes another program, or ends.
///
/// ```
/// use std::time::Duration;
/// use wirecap_sys::fork::Holding;
///
/// let holding = Holding::new()?;
/// assert!(!holding.let_go(Duration::ZERO));  // nothing was forked
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Holding {
    watched: OwnedFd,
    held: OwnedFd,
}

impl Holding {
    /// Held by this process alone.
    ///
    /// # Errors
    /// The kernel's error: too many open files, most likely.
    pub fn new() -> io::Result<Self> {
        let (watched, held) = pipe2(OFlag::O_CLOEXEC)?;
        Ok(Self { watched, held })
    }

    /// Lets go of it. Returns whether another process still holds it. Waits for the others at most for
    /// `timeout`: a process that is forked to execute a program holds it for a moment.
    pub fn let_go(self, timeout: Duration) -> bool {
        let Self { watched, held } = self;
        drop(held);
        let mut polls = [PollFd::new(watched.as_fd(), PollFlags::empty())];
        let began = Instant::now();
        loop {
            let left = timeout.saturating_sub(began.elapsed());
            match poll(&mut polls, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)) {
                // A signal ends the call, whatever its handler says.
                Err(Errno::EINTR) => {}
                // A program that closes all descriptors has closed this one, too: poll returns at once, and
                // no other process counts.
                answer => return answer == Ok(0),
            }
        }
    }
}

/// Numbers that this process shares with those that are forked from it; 0 at first.
///
/// ```
/// use std::sync::atomic::Ordering;
/// use wirecap_sys::fork::SharedNumbers;
///
/// let numbers = SharedNumbers::<2>::new()?;
/// numbers.get()[1].store(7, Ordering::Relaxed);
/// assert_eq!(numbers.get()[1].load(Ordering::Relaxed), 7);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct SharedNumbers<const N: usize> {
    /// INVARIANT: begins with the numbers, which are accessed atomically only.
    memory: Mmap,
}

impl<const N: usize> SharedNumbers<N> {
    /// # Errors
    /// What mmap(2) returned.
    pub fn new() -> io::Result<Self> {
        let bytes = (N * size_of::<AtomicU64>()).next_multiple_of(page_bytes());
        Mmap::inherited(bytes, 0).map(|memory| Self { memory })
    }

    /// The numbers.
    pub fn get(&self) -> &[AtomicU64; N] {
        // SAFETY: by the invariant; the memory has room for them, is zeroed, aligned to a page, and mapped as
        // long as `self`.
        unsafe { self.memory.start().cast().as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        process::Command,
        sync::atomic::{AtomicBool, Ordering},
        thread,
    };

    use super::*;

    /// Long enough for a process to begin, or to end.
    const LONG: Duration = Duration::from_secs(10);

    /// Forks a process that waits until it is killed.
    fn forked() -> libc::pid_t {
        // SAFETY: the new process calls pause(2) alone, which may be called after a fork.
        match unsafe { libc::fork() } {
            0 => loop {
                // SAFETY: it has no arguments.
                unsafe { libc::pause() };
            },
            pid => pid,
        }
    }

    fn kill(pid: libc::pid_t) {
        // SAFETY: a process that this one has forked, and has not waited for.
        unsafe {
            libc::kill(pid, libc::SIGKILL);
            libc::waitpid(pid, std::ptr::null_mut(), 0);
        }
    }

    #[test]
    fn a_forked_process_holds_it_until_it_ends() {
        let [while_it_lives, after_its_end] = [(); 2].map(|()| Holding::new().unwrap());
        let other = forked();
        assert!(while_it_lives.let_go(Duration::from_millis(20)));
        kill(other);
        assert!(!after_its_end.let_go(LONG));
    }

    /// Of a server, for instance, whose children end.
    #[test]
    fn signals_are_no_answer() {
        extern "C" fn ignore(_signal: libc::c_int) {}
        let holding = Holding::new().unwrap();
        let other = forked();
        // SAFETY: the handler does nothing, and no other test raises this signal.
        unsafe { libc::signal(libc::SIGURG, ignore as *const () as libc::sighandler_t) };
        // SAFETY: it has no arguments.
        let waiting = unsafe { libc::pthread_self() };
        let done = AtomicBool::new(false);
        let held = thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // SAFETY: the thread waits for this one.
                    unsafe { libc::pthread_kill(waiting, libc::SIGURG) };
                    thread::sleep(Duration::from_millis(1));
                }
            });
            let held = holding.let_go(Duration::from_millis(50));
            done.store(true, Ordering::Relaxed);
            held
        });
        kill(other);
        assert!(held);
    }

    #[test]
    fn an_executed_program_does_not_hold_it() {
        let holding = Holding::new().unwrap();
        let mut program = Command::new("sleep").arg("60").spawn().unwrap();
        let began = Instant::now();
        assert!(!holding.let_go(LONG));
        assert!(began.elapsed() < LONG);
        program.kill().unwrap();
        program.wait().unwrap();
    }
}
