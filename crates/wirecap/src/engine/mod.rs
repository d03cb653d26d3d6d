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
//! | what to do while nothing comes | [`wait`], [`doze`] |

pub(crate) mod arrival;
pub(crate) mod batch;
pub(crate) mod capture_thread;
pub(crate) mod doze;
pub(crate) mod gauge;
pub(crate) mod horizon;
pub(crate) mod queue;
pub(crate) mod stop_state;
pub(crate) mod wait;
pub(crate) mod worker;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use wirecap_core::{
    BacklogGauge, BuddyGroup, ChunkRange, Geometry, Handover, Load, Orphans, PoolNumber, RecycleQueue,
};
use wirecap_sys::{memory::CellReader, wake::Wakers};

use self::{
    doze::{Sleeper, Sleepers},
    queue::Queue,
    stop_state::StopState,
    wait::{Rest, Waiter},
};
use crate::Wait;

/// Counters of one worker. Written by the worker alone, read by reports.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct WorkerState {
    pub(crate) packets: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) offloaded_in: AtomicU64,
    /// The worker was dropped: it ended, or its thread panicked.
    pub(crate) gone: AtomicBool,
    /// It could not be bound to its core.
    pub(crate) unbound: AtomicBool,
    /// Packets given to this worker, by queue.
    pub(crate) delivered: Box<[AtomicU64]>,
}

impl WorkerState {
    pub(crate) fn new(queues: usize) -> Self {
        Self { delivered: (0..queues).map(|_| AtomicU64::new(0)).collect(), ..Self::default() }
    }
}

/// What threads wait on while nothing comes, unless they poll.
pub(crate) fn wakers(queues: &mut [Queue], wait: Wait) -> Wakers {
    let waker = |queue: &mut Queue| {
        let waker = queue.waker.take().filter(|_| wait != Wait::Busy);
        queue.has_waker = waker.is_some();
        waker
    };
    Wakers::new(queues.iter_mut().map(waker).collect())
}

/// Adds to a counter that only one thread writes.
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
}

/// Where cells of an allocator come home, for all threads.
#[derive(Debug)]
pub(crate) struct AllocatorHome {
    pub(crate) reader: CellReader,
    pub(crate) recycle: RecycleQueue,
}

/// What all threads of an engine share.
#[derive(Debug)]
pub(crate) struct EngineState {
    pub(crate) geometry: Geometry,
    /// Frames of 64 bytes for which each queue has room in the kernel: they bound how long a thread may
    /// sleep.
    pub(crate) room_frames: u32,
    pub(crate) wait: Wait,
    pub(crate) queues: Vec<Queue>,
    /// The queues whose home each worker is.
    pub(crate) homes: Vec<Vec<usize>>,
    /// For each port, where its queues begin in `queues`, and how many there are.
    pub(crate) ports: Vec<std::ops::Range<usize>>,
    /// The pools of `queues`, then those of `allocators`.
    pub(crate) numbers: Vec<PoolNumber>,
    pub(crate) workers: Vec<WorkerState>,
    /// Wake the workers and the capture threads.
    pub(crate) sleepers: Arc<Sleepers>,
    /// What becomes readable when packets wait in a queue, as long as the queues are open.
    pub(crate) wakers: Mutex<Option<Arc<Wakers>>>,
    pub(crate) groups: Vec<BuddyGroup>,
    /// The group of each worker.
    pub(crate) group_of: Vec<usize>,
    /// Push: backlog of each worker, by capture thread.
    pub(crate) gauges: Vec<Vec<BacklogGauge>>,
    /// Pull: there are no capture threads.
    pub(crate) pull: bool,
    pub(crate) stopping: StopState,
    /// Push, advanced mode: capture queues of workers that are gone, for their buddies to empty.
    pub(crate) orphans: Orphans,
    /// Push: capture threads that still may push.
    pub(crate) capture_threads: AtomicUsize,
    /// Where the cells of packet allocators come home.
    pub(crate) allocators: Vec<AllocatorHome>,
}

impl EngineState {
    /// Captures at most the rest of one chunk from a queue. After the stop the kernel gets no more cells, so
    /// that draining ends with every port.
    pub(crate) fn capture(&self, queue: usize) -> Option<Handover> {
        self.queues[queue].capture(!self.stopping.is_stopping(), &self.stopping)
    }

    /// Wakes all workers of a group: something waits that is for any of them.
    pub(crate) fn wake_group(&self, group: usize) {
        self.groups[group].members().iter().for_each(|&member| self.sleepers.workers[member].wake());
    }

    /// How a thread waits: for its own queues, and for those of its buddies.
    pub(crate) fn waiter(&self, sleeper: &Sleeper, own: &[usize], of_buddies: &[usize]) -> Waiter {
        let wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        let none = Arc::new(Wakers::new(Vec::new()));
        let (wakers, queues) = match &*wakers {
            Some(wakers) => (wakers, [own, of_buddies].concat()),
            None => (&none, Vec::new()),
        };
        let own_wakers = own.iter().filter(|&&queue| self.queues[queue].has_waker).count();
        Waiter::new(self.wait, self.room_frames, sleeper.watch(wakers, queues), own_wakers)
    }

    /// Pull: the queues that a worker looks after, and those that it may come to look after.
    pub(crate) fn watched_by(&self, worker: usize) -> (Vec<usize>, Vec<usize>) {
        let buddies = self.group(worker).helped_by(worker);
        (self.homes[worker].clone(), buddies.flat_map(|buddy| self.homes[buddy].iter().copied()).collect())
    }

    /// How quiet it is around the queues of a buddy, for a worker that may have to help. A buddy that is gone
    /// takes nothing back, and a queue without a waker does not announce that it needs help.
    pub(crate) fn rest_of_buddy(&self, buddy: usize) -> Option<Rest> {
        if self.workers[buddy].gone.load(Ordering::Acquire) {
            return self.rest(&self.homes[buddy]);
        }
        let mut unannounced = self.homes[buddy].iter().filter(|&&queue| !self.queues[queue].has_waker);
        unannounced.all(|&queue| self.queues[queue].backlog() == 0).then_some(Rest::Long)
    }

    /// A figure that changes with each batch that a worker of a group is given.
    pub(crate) fn activity(&self, group: usize) -> u64 {
        let packets = |&member: &usize| self.workers[member].packets.load(Ordering::Relaxed);
        self.groups[group].members().iter().map(packets).fold(0, u64::wrapping_add)
    }

    /// How quiet it is around these queues: nothing of theirs is about to come home or be handed over.
    pub(crate) fn rest(&self, queues: &[usize]) -> Option<Rest> {
        queues
            .iter()
            .map(|&queue| self.queues[queue].rest())
            .try_fold(Rest::Long, |all, one| Some(all.min(one?)))
    }

    /// How long the ports of these queues hold back what waits, or what comes next: the shortest of these
    /// times, or zero if none does.
    pub(crate) fn hold(&self, queues: &[usize]) -> Duration {
        let holds = queues.iter().map(|&queue| self.queues[queue].hold());
        let hold = holds.filter(|hold| !hold.is_zero()).min().unwrap_or_default();
        // Others do not wait for that long.
        let all_hold = queues.iter().all(|&queue| self.queues[queue].reader.is_packed());
        if all_hold { hold } else { hold.min(wait::LONGEST_SLEEP) }
    }

    /// The reader of the cells of a pool.
    #[inline]
    pub(crate) fn cell_reader(&self, pool: usize) -> &CellReader {
        match self.queues.get(pool) {
            Some(queue) => queue.cell_reader(),
            None => &self.allocators[pool - self.queues.len()].reader,
        }
    }

    /// Sends cells of a pool home.
    #[inline]
    pub(crate) fn send_home_to(&self, pool: usize, range: ChunkRange) {
        if let Some(queue) = self.queues.get(pool) {
            return queue.send_home_range(range);
        }
        let refused = self.allocators[pool - self.queues.len()].recycle.push(range);
        debug_assert!(refused.is_ok(), "{refused:?}");
    }

    /// Where a pool is among those of the queues, in the order of `queues`, and those of the allocators
    /// behind them.
    #[inline]
    pub(crate) fn pool_index(&self, pool: PoolNumber) -> usize {
        // Nearly always they were made in this order, and no other capture made any in between.
        let guess = pool.get().wrapping_sub(self.numbers[0].get()) as usize;
        if self.numbers.get(guess) == Some(&pool) {
            return guess;
        }
        self.numbers.iter().position(|&number| number == pool).expect("a pool of this engine")
    }

    /// The buddy group of a worker.
    pub(crate) fn group(&self, worker: usize) -> &BuddyGroup {
        &self.groups[self.group_of[worker]]
    }

    /// How busy a worker is. With `pull`, a queue that another thread works on right now counts as empty: it
    /// is being looked after. With `push`, a capture thread knows whether its capture queue has room.
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
            full: false,
            gone: self.workers[worker].gone.load(Ordering::Acquire),
        }
    }
}
