//! Threads that are started before their work is known.
//!
//! Rule: a command starts all its threads before it changes anything on the machine, so that a lack of
//! threads is an error at the start, never a failure later.

use std::{
    io,
    sync::mpsc::{SyncSender, sync_channel},
    thread::{self, JoinHandle},
};

use anyhow::{Result, anyhow};

use crate::text::error::MORE_THREADS;

type Work = Box<dyn FnOnce() + Send>;

/// A thread that waits for its work. Dropping it ends the thread.
#[derive(Debug)]
pub(crate) struct IdleThread {
    work: SyncSender<Work>,
    handle: JoinHandle<()>,
}

impl IdleThread {
    /// # Errors
    /// The kernel allows no more threads.
    pub(crate) fn start(name: &str) -> Result<Self> {
        let (work, given) = sync_channel::<Work>(1);
        let run = move || {
            if let Ok(work) = given.recv() {
                work();
            }
        };
        let started = thread::Builder::new().name(name.into()).spawn(run);
        let handle = started.map_err(|cause| no_thread(name, &cause))?;
        Ok(Self { work, handle })
    }

    /// Gives the thread its work, after which it ends.
    pub(crate) fn run(self, work: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
        // The thread waits for exactly one message.
        let _ = self.work.send(Box::new(work));
        self.handle
    }
}

/// Why a command cannot start.
pub(crate) fn no_thread(name: &str, cause: &io::Error) -> anyhow::Error {
    anyhow!("cannot start the thread {name}: {cause}{MORE_THREADS}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_does_its_work_or_ends_without_any() {
        let (sender, name) = sync_channel(1);
        let work = move || sender.send(thread::current().name().map(String::from)).unwrap();
        IdleThread::start("test").unwrap().run(work).join().unwrap();
        assert_eq!(name.recv().unwrap().as_deref(), Some("test"));
        let IdleThread { work, handle } = IdleThread::start("test").unwrap();
        drop(work);
        handle.join().unwrap();
    }
}
