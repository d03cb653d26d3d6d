//! The network namespace of a thread, to do something in it later, whichever thread does it.
//!
//! ```text
//!   Namespace::current() ── opens /proc/thread-self/ns/net
//!   enter(work) ──┬─ the calling thread is in it ──► work, right here
//!                 └─ it is in another one ─────────► work, by a thread of its own that moves there: setns(2)
//! ```
//!
//! Rule: indexes and names of interfaces mean something in one namespace only. Links by BPF are made where
//! the calling thread is.

use std::{fs::File, io, os::unix::fs::MetadataExt, thread};

use nix::sched::{CloneFlags, setns};

/// Where the kernel shows the namespace of the calling thread.
const PATH: &str = "/proc/thread-self/ns/net";

/// Device and inode of the calling thread's network namespace, which distinguish it from all others that
/// exist.
///
/// # Errors
/// When `/proc` is not mounted.
pub fn namespace_id() -> io::Result<(u64, u64)> {
    std::fs::metadata(PATH).map(|namespace| (namespace.dev(), namespace.ino()))
}

/// A network namespace, kept alive by this value.
#[derive(Debug)]
pub struct Namespace(File);

impl Namespace {
    /// That of the calling thread.
    ///
    /// # Errors
    /// When `/proc` is not mounted, or the process may not open another file.
    pub fn current() -> io::Result<Self> {
        File::open(PATH).map(Self)
    }

    /// Runs `work` in it. Needs CAP_SYS_ADMIN unless the calling thread is in it.
    ///
    /// # Errors
    /// When no thread can enter it.
    ///
    /// # Panics
    /// When `work` does.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        if self.is_current()? {
            return Ok(work());
        }
        let inside = || {
            // It moves this thread alone, which ends with this closure.
            setns(&self.0, CloneFlags::CLONE_NEWNET)?;
            io::Result::Ok(work())
        };
        thread::scope(|scope| {
            let thread = thread::Builder::new().name("wirecap-netns".into()).spawn_scoped(scope, inside)?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn is_current(&self) -> io::Result<bool> {
        let ours = self.0.metadata()?;
        Ok((ours.dev(), ours.ino()) == namespace_id()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_current_namespace_the_work_is_done_in_place() {
        let namespace = Namespace::current().unwrap();
        let here = thread::current().id();
        assert_eq!(namespace.enter(|| thread::current().id()).unwrap(), here);
    }
}
