//! Threads that are there before their work is.
//!
//! Rule: a command makes all its threads before it changes anything on the machine. So a lack of threads is
//! an error of the start, and never a failure later.

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
    /// There can be no more threads.
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

    /// Has it do its work, and end.
    pub(crate) fn run(self, work: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
        // It waits for one message and takes it.
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
    fn a_thread_does_its_work_or_ends_without() {
        let (sender, name) = sync_channel(1);
        let work = move || sender.send(thread::current().name().map(String::from)).unwrap();
        IdleThread::start("test").unwrap().run(work).join().unwrap();
        assert_eq!(name.recv().unwrap().as_deref(), Some("test"));
        let IdleThread { work, handle } = IdleThread::start("test").unwrap();
        drop(work);
        handle.join().unwrap();
    }
}
