//! What workers and the resolver's thread pass to each other.
//!
//! ```text
//!   worker ── WorkerEnd ── pending ──► queue ──► ResolverEnd ── resolver       and a wake-up, if the thread sleeps
//!   worker ◄──────────── table, generation ◄── ResolverEnd
//! ```
//!
//! Rule: a worker never waits. It takes a lock once for each new table, and drops a request that finds the
//! queue full.

use std::{
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
        mpsc::{Receiver, SyncSender, TryRecvError, sync_channel},
    },
};

use nix::sys::eventfd::{EfdFlags, EventFd};

use super::{UnresolvedHop, counts::NextHopCounts, next_hops::Table};
use crate::Error;

/// Requests that may wait for the resolver.
const MAX_REQUESTS: usize = 1024;

/// What resolver and workers share.
#[derive(Debug)]
struct ChannelState {
    /// Written by the resolver.
    table: Mutex<Arc<Table>>,
    /// Grows with each new table. Written by the resolver; pairs with the load in [`WorkerEnd::newest`].
    generation: AtomicU64,
    /// Requests in the queue. Grows before one is sent, and shrinks after it was received.
    requests: AtomicUsize,
    /// Set by the resolver before it sleeps, cleared by the worker that wakes it.
    sleeps: AtomicBool,
    /// Wakes the resolver.
    alarm: EventFd,
    counts: Arc<NextHopCounts>,
}

/// The workers' side.
#[derive(Debug, Clone)]
pub(super) struct WorkerEnd {
    shared: Arc<ChannelState>,
    queue: SyncSender<UnresolvedHop>,
}

/// The resolver's side.
#[derive(Debug)]
pub(crate) struct ResolverEnd {
    shared: Arc<ChannelState>,
    queue: Receiver<UnresolvedHop>,
}

/// Both sides.
pub(super) fn channel() -> Result<(WorkerEnd, ResolverEnd), Error> {
    let alarm = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC);
    let shared = Arc::new(ChannelState {
        table: Mutex::default(),
        generation: AtomicU64::new(0),
        requests: AtomicUsize::new(0),
        sleeps: AtomicBool::new(false),
        alarm: alarm.map_err(|errno| Error::Alarm(errno.into()))?,
        counts: Arc::default(),
    });
    let (sender, receiver) = sync_channel(MAX_REQUESTS);
    Ok((WorkerEnd { shared: Arc::clone(&shared), queue: sender }, ResolverEnd { shared, queue: receiver }))
}

impl WorkerEnd {
    pub(super) fn counts(&self) -> &Arc<NextHopCounts> {
        &self.shared.counts
    }

    /// The newest table and its generation, unless that is the given one.
    pub(super) fn newest(&self, known: u64) -> Option<(Arc<Table>, u64)> {
        let generation = self.shared.generation.load(Ordering::Acquire);
        (generation != known).then(|| {
            let table = self.shared.table.lock().unwrap_or_else(PoisonError::into_inner);
            (Arc::clone(&table), generation)
        })
    }

    /// Asks for a next hop. Returns whether there was room in the queue.
    pub(super) fn ask(&self, pending: UnresolvedHop) -> bool {
        self.shared.requests.fetch_add(1, Ordering::Relaxed);
        let is_sent = self.queue.try_send(pending).is_ok();
        if !is_sent {
            self.shared.requests.fetch_sub(1, Ordering::Relaxed);
        }
        self.wake();
        is_sent
    }

    /// Wakes the resolver, if it sleeps: one system call however many requests there are while it is awake.
    fn wake(&self) {
        // Pairs with the fence of `ResolverEnd::falls_asleep`.
        fence(Ordering::SeqCst);
        let sleeps = &self.shared.sleeps;
        if sleeps.load(Ordering::Relaxed) && sleeps.swap(false, Ordering::Relaxed) {
            // It cannot overflow: it is read whenever it has woken the resolver.
            let _ = self.shared.alarm.write(1);
        }
    }
}

impl ResolverEnd {
    pub(crate) fn counts(&self) -> Arc<NextHopCounts> {
        Arc::clone(&self.shared.counts)
    }

    /// A next hop that a worker wants.
    ///
    /// # Errors
    /// [`TryRecvError::Empty`] without a request, [`TryRecvError::Disconnected`] once all workers have ended.
    pub(crate) fn next_request(&self) -> Result<UnresolvedHop, TryRecvError> {
        self.queue.try_recv().inspect(|_| _ = self.shared.requests.fetch_sub(1, Ordering::Relaxed))
    }

    /// Gives all workers a new table.
    pub(crate) fn publish(&self, table: Table) {
        *self.shared.table.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
        self.shared.generation.fetch_add(1, Ordering::Release);
    }

    /// Has workers sound the alarm from now on. Returns whether there is no request yet.
    pub(super) fn falls_asleep(&self) -> bool {
        self.shared.sleeps.store(true, Ordering::Relaxed);
        // Pairs with the fence of `WorkerEnd::wake`: either the worker sees that this thread sleeps, or this
        // thread sees the request.
        fence(Ordering::SeqCst);
        self.shared.requests.load(Ordering::Relaxed) == 0
    }

    /// Ends what [`falls_asleep`](Self::falls_asleep) began.
    pub(super) fn wakes(&self) {
        self.shared.sleeps.store(false, Ordering::Relaxed);
        // Emptied, so that the next poll waits.
        let _ = self.shared.alarm.read();
    }

    /// Readable once a worker has sounded the alarm.
    pub(super) fn alarm(&self) -> BorrowedFd<'_> {
        self.shared.alarm.as_fd()
    }
}
