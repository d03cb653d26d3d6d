//! A router at work: its workers, and the thread that finds out their next hops.

use std::sync::Arc;

use crate::{Error, NextHopCounts, Router, RouterWorker, neighbours::Resolver};

/// A router whose next hops are found out by a thread of their own. The thread ends when this and all workers
/// are dropped.
#[derive(Debug)]
pub struct RunningRouter {
    router: Arc<Router>,
    resolver: Resolver,
}

impl Router {
    /// Starts the thread, named [`THREAD`](crate::THREAD), in the network namespace of the calling thread.
    /// This takes no privilege; to have the kernel ask for a neighbour takes CAP_NET_ADMIN.
    ///
    /// # Errors
    /// When the kernel cannot be asked, or the thread cannot be started.
    pub fn start(self) -> Result<RunningRouter, Error> {
        self.start_after(|| ())
    }

    /// Like [`Router::start`]; the thread calls `first` before anything else, for instance to give up
    /// privileges that it does not need.
    ///
    /// # Errors
    /// When the kernel cannot be asked, or the thread cannot be started.
    pub fn start_after(self, first: impl FnOnce() + Send + 'static) -> Result<RunningRouter, Error> {
        let resolver = Resolver::start(self.ifindexes.clone(), Arc::clone(&self.macs), first)?;
        Ok(RunningRouter { router: Arc::new(self), resolver })
    }
}

impl RunningRouter {
    /// What one of this number of workers decides with; packets that wait for a next hop are of type `P`.
    pub fn worker<P>(&self, workers: usize) -> RouterWorker<P> {
        RouterWorker::new(&self.router, &self.resolver, workers)
    }

    /// What became of the next hops that were wanted. Keeping it does not keep the thread.
    pub fn next_hop_counts(&self) -> Arc<NextHopCounts> {
        self.resolver.counts()
    }
}
