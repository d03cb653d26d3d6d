//! The runtime: threads, waiting and shutting down, around the state machines of `wirecap-core`.
//!
//! ```text
//!   pull (default)                                push (the paper's)
//!
//!   ring 0 ──► worker 0                           ring 0 ─┐                 ┌─► worker 0
//!   ring 1 ──► worker 1 ◄─ idle: helps itself     ring 1 ─┼► capture thread ┼─► worker 1
//!   ring 2 ──► worker 2    from ring 0, over T    ring 2 ─┘   over T: to the └─► worker 2
//!                                                             least busy buddy
//! ```
//!
//! | to read about | open |
//! |---|---|
//! | what all threads share | this file |
//! | a receive queue and its lock | [`queue`] |
//! | how full its pool is | [`gauge`] |
//! | when its packets came | [`arrival`] |
//! | the thread of the application | [`worker`] |
//! | the thread that captures for others | [`capture_thread`] |
//! | how it comes to an end | [`stopping`] |
//! | what to do while nothing comes | [`wait`] |

pub(crate) mod arrival;
pub(crate) mod capture_thread;
pub(crate) mod gauge;
pub(crate) mod queue;
pub(crate) mod stopping;
pub(crate) mod wait;
pub(crate) mod worker;

use std::{
    os::fd::OwnedFd,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread::Thread,
    time::Duration,
};

use wirecap_core::{BacklogGauge, BuddyGroup, ChunkRange, Geometry, Handover, Load, Orphans, PoolId};

use self::{queue::Queue, stopping::Stopping, wait::Wait};
use crate::transmit::{STOCK_NIC, StockHome};

/// Counters of one worker. Written by the worker alone, read by reports.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct WorkerState {
    pub(crate) packets: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) offloaded_in: AtomicU64,
    /// The worker was dropped: it ended, or its thread panicked.
    pub(crate) gone: AtomicBool,
    /// Push: the worker dozes and wants to be woken.
    dozing: AtomicBool,
    /// The thread that dozed last: a worker may be moved to another between two calls.
    thread: Mutex<Option<Thread>>,
    /// It could not be bound to its core.
    pub(crate) unbound: AtomicBool,
    /// Packets given to this worker, by queue.
    pub(crate) delivered: Box<[AtomicU64]>,
}

impl WorkerState {
    pub(crate) fn new(queues: usize) -> Self {
        Self { delivered: (0..queues).map(|_| AtomicU64::new(0)).collect(), ..Self::default() }
    }

    /// Sleeps until [`WorkerState::wake`], at most `limit`, unless `ready` says there is something.
    pub(crate) fn doze(&self, limit: Duration, ready: impl FnOnce() -> bool) {
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::thread::current());
        self.dozing.store(true, Ordering::Relaxed);
        // Pairs with the fence in `wake`: either we see what was pushed, or the pusher sees that we
        // doze.
        fence(Ordering::SeqCst);
        if !ready() {
            std::thread::park_timeout(limit);
        }
        self.dozing.store(false, Ordering::Relaxed);
    }

    /// Wakes the worker if it dozes. Call after the push.
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.dozing.load(Ordering::Relaxed) {
            if let Some(thread) = &*self.thread.lock().unwrap_or_else(PoisonError::into_inner) {
                thread.unpark();
            }
        }
    }
}

/// Adds to a counter that only one thread writes.
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
}

/// What all threads of an engine share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) geometry: Geometry,
    /// Cells of a queue that the kernel can have at once: what a thread may sleep on.
    pub(crate) ring_cells: u32,
    pub(crate) wait: Wait,
    pub(crate) queues: Vec<Queue>,
    /// The queues whose home each worker is.
    pub(crate) homes: Vec<Vec<usize>>,
    /// For each port, where its queues begin in `queues`, and how many there are.
    pub(crate) ports: Vec<std::ops::Range<usize>>,
    pub(crate) workers: Vec<WorkerState>,
    pub(crate) groups: Vec<BuddyGroup>,
    /// The group of each worker.
    pub(crate) group_of: Vec<usize>,
    /// Push: backlog of each worker, by capture thread.
    pub(crate) gauges: Vec<Vec<BacklogGauge>>,
    /// Pull: nobody feeds capture queues.
    pub(crate) pull: bool,
    pub(crate) stopping: Stopping,
    /// Push, advanced mode: capture queues of workers that are gone, for their buddies to empty.
    pub(crate) orphans: Orphans,
    /// Push: capture threads that still may push.
    pub(crate) capture_threads: AtomicUsize,
    /// Where cells go that were made into packets here.
    pub(crate) stocks: Vec<StockHome>,
}

impl Shared {
    /// Captures at most the rest of one chunk from a queue. After the stop no cell is given to the
    /// kernel any more, so that this comes to an end whatever the port.
    pub(crate) fn capture(&self, queue: usize) -> Option<Handover> {
        self.queues[queue].capture(!self.is_stopping(), &self.stopping)
    }

    /// Wakes all workers of a group: something waits that is for any of them.
    pub(crate) fn wake_group(&self, group: usize) {
        self.groups[group].members().iter().for_each(|&member| self.workers[member].wake());
    }

    /// Sends cells home, whoever they belong to.
    #[inline]
    pub(crate) fn send_home(&self, range: ChunkRange) {
        self.send_home_to(self.pool_index(range.chunk().pool), range);
    }

    /// Sends cells of a pool home.
    #[inline]
    pub(crate) fn send_home_to(&self, pool: usize, range: ChunkRange) {
        if let Some(queue) = self.queues.get(pool) {
            return queue.send_home_range(range);
        }
        let refused = self.stocks[pool - self.queues.len()].recycle.push(range);
        debug_assert!(refused.is_ok(), "{refused:?}");
    }

    /// How many pools there are.
    pub(crate) fn pools(&self) -> usize {
        self.queues.len() + self.stocks.len()
    }

    /// The number of a pool: those of the queues first, as in `queues`, then those of the stocks.
    #[inline]
    pub(crate) fn pool_index(&self, pool: PoolId) -> usize {
        if pool.nic_id == STOCK_NIC {
            return self.queues.len() + usize::from(pool.ring_id);
        }
        self.queue_index(pool)
    }

    /// Where the queue of a pool is in `queues`.
    pub(crate) fn queue_index(&self, pool: PoolId) -> usize {
        let range = self.ports[usize::from(pool.nic_id)].clone();
        let queues = &self.queues[range.clone()];
        // Nearly always a port has all queues from its first one on.
        let guess = usize::from(pool.ring_id.wrapping_sub(queues[0].ring_id));
        if queues.get(guess).is_some_and(|queue| queue.ring_id == pool.ring_id) {
            return range.start + guess;
        }
        let found = queues.iter().position(|queue| queue.ring_id == pool.ring_id);
        range.start + found.expect("a pool of this engine")
    }

    /// The buddy group of a worker.
    pub(crate) fn group(&self, worker: usize) -> &BuddyGroup {
        &self.groups[self.group_of[worker]]
    }

    /// Descriptors that become readable when packets wait in one of these queues, if that is what is
    /// waited for.
    pub(crate) fn wakers(&self, queues: &[usize]) -> Vec<OwnedFd> {
        // Only where they are used: they keep a socket open as long as the thread's waiter lives.
        if self.wait != Wait::Block {
            return Vec::new();
        }
        queues.iter().filter_map(|&queue| self.queues[queue].lock().waker()).collect()
    }

    /// How busy a worker is. With `pull`, a queue that somebody is working at right now counts as
    /// having no backlog: it is being looked after.
    pub(crate) fn load(&self, worker: usize) -> Load {
        let backlog_cells = if self.pull {
            self.homes[worker].iter().map(|&queue| self.queues[queue].backlog()).max().unwrap_or(0)
        } else {
            self.gauges[worker].iter().map(BacklogGauge::cells).sum()
        };
        Load {
            backlog_cells,
            // T is a percentage of one pool, also when a worker has several: the hot one must not hide
            // behind those that are idle.
            capacity_cells: u64::from(self.geometry.cells_per_pool()),
            gone: self.workers[worker].gone.load(Ordering::Acquire),
        }
    }

    /// Whether what is in the rings and pools is the last: the capture was stopped, or every port is at its end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.is_stopping()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{thread, time::Instant};

    #[test]
    fn a_worker_that_was_moved_to_another_thread_is_woken_there() {
        let state = WorkerState::new(1);
        state.doze(Duration::from_millis(1), || false);
        thread::scope(|scope| {
            let elsewhere = scope.spawn(|| {
                let begun = Instant::now();
                state.doze(Duration::from_secs(60), || false);
                begun.elapsed()
            });
            while !elsewhere.is_finished() {
                state.wake();
                thread::sleep(Duration::from_millis(1));
            }
            assert!(elsewhere.join().unwrap() < Duration::from_secs(30));
        });
    }
}
