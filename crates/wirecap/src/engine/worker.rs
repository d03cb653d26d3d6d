//! A worker: an application thread that takes packets.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use wirecap_core::{CaptureQueues, Handover, Mode};
use wirecap_sys::cpu;

use super::{
    EngineState, add,
    batch::Batch,
    doze::{Sleeper, Sleepers},
    wait::{Elsewhere, EngineView, LONG, Rest, Waiter},
};

/// The result of waiting for packets.
#[derive(Debug)]
pub enum WaitOutcome {
    /// Packets.
    Batch(Batch),
    /// Nothing came in time, or the wait was [interrupted](Worker::interrupter).
    Idle,
    /// The capture has ended and everything was delivered.
    Ended,
}

/// The result of [arming](Worker::arm) a worker.
#[derive(Debug)]
pub enum Arming {
    /// Nothing waits: what comes makes the descriptor readable. Wait for it, at most this long: packets may
    /// come just when the worker is armed, and then nothing announces them.
    Armed(Duration),
    /// Packets came a moment ago. Look again after this time, and do not wait for the descriptor, which may
    /// be readable or not: a wake-up for each packet would cost the core that receives them.
    Later(Duration),
    /// Packets.
    Batch(Batch),
    /// There is something to do that the descriptor does not announce: the end of the capture, or cells on
    /// their way home. Call [`Worker::next_batch_within`].
    Busy,
}

/// How often a worker that finds neither rest nor packets looks again.
const ATTEMPTS_TO_ARM: u32 = 3;

/// Takes packets from the engine, in batches.
///
/// A worker may be moved to the thread that uses it; it binds that thread to its core, if it has one, and
/// makes its sleeps precise (timer slack), on the first call. Dropping a worker marks it as gone: in advanced
/// mode its buddies take over its queues, in basic mode the queues fill up and lose packets.
#[derive(Debug)]
pub struct Worker {
    shared: Arc<EngineState>,
    index: usize,
    core: Option<usize>,
    started: bool,
    /// Pull: which of the home queues is looked at first.
    turn: usize,
    /// Push: what capture threads have given to it.
    capture_queues: CaptureQueues,
    waiter: Waiter,
    interrupted: Arc<AtomicBool>,
}

/// Ends the wait of a [`Worker`], from any thread, and from a signal handler: it stores a flag, and writes to
/// an eventfd if the worker sleeps in the kernel.
#[derive(Debug, Clone)]
pub struct Interrupter {
    sleepers: Arc<Sleepers>,
    index: usize,
    interrupted: Arc<AtomicBool>,
}

impl Interrupter {
    /// Ends the wait of the worker, or its next one: it returns [`WaitOutcome::Idle`] within
    /// [`LONGEST_HOLD`](crate::port::LONGEST_HOLD), unless packets wait.
    pub fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Release);
        self.sleepers.workers[self.index].wake();
    }

    /// Takes back an interruption that has not ended a wait yet.
    pub fn reset(&self) {
        self.interrupted.store(false, Ordering::Release);
    }
}

impl Worker {
    pub(crate) fn new(
        shared: &Arc<EngineState>,
        index: usize,
        core: Option<usize>,
        capture_queues: CaptureQueues,
    ) -> Self {
        let (own, of_buddies) = if shared.pull { shared.watched_by(index) } else { Default::default() };
        Self {
            waiter: shared.waiter(&shared.sleepers.workers[index], &own, &of_buddies),
            shared: Arc::clone(shared),
            index,
            core,
            started: false,
            turn: 0,
            capture_queues,
            interrupted: Arc::default(),
        }
    }

    /// A handle that ends the waiting of this worker.
    ///
    /// ```
    /// # use wirecap::{Capture, WaitOutcome, port::null::NullPort};
    /// # use std::time::Duration;
    /// # let port = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 0 };
    /// # let mut capture = Capture::builder().port(port).chunks_per_pool(4).open()?;
    /// # let mut worker = capture.take_workers().remove(0);
    /// let interrupter = worker.interrupter();
    /// std::thread::spawn(move || interrupter.interrupt());
    /// assert!(matches!(worker.next_batch_within(Duration::from_secs(3600)), WaitOutcome::Idle));
    /// # Ok::<(), wirecap::Error>(())
    /// ```
    pub fn interrupter(&self) -> Interrupter {
        Interrupter {
            sleepers: Arc::clone(&self.shared.sleepers),
            index: self.index,
            interrupted: Arc::clone(&self.interrupted),
        }
    }

    /// Number of the worker, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Waits for packets. `None` when the capture has ended and everything was delivered.
    pub fn next_batch(&mut self) -> Option<Batch> {
        loop {
            match self.next_batch_within(Duration::from_secs(1)) {
                WaitOutcome::Batch(batch) => return Some(batch),
                WaitOutcome::Idle => {}
                WaitOutcome::Ended => return None,
            }
        }
    }

    /// Waits for packets, at most `timeout`. With a timeout of zero it only looks.
    ///
    /// ```
    /// # use wirecap::{Capture, WaitOutcome, port::null::NullPort};
    /// # let port = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 10 };
    /// # let mut capture = Capture::builder().port(port).chunks_per_pool(4).open()?;
    /// # let mut worker = capture.take_workers().remove(0);
    /// let mut kept = Vec::new();
    /// loop {
    ///     match worker.next_batch_within(std::time::Duration::from_millis(10)) {
    ///         WaitOutcome::Batch(batch) => kept.push(batch),   // holding it costs pool, nothing else
    ///         WaitOutcome::Idle => break,
    ///         WaitOutcome::Ended => unreachable!("the capture was not stopped"),
    ///     }
    /// }
    /// assert_eq!(kept.iter().map(|batch| batch.len()).sum::<usize>(), 10);
    /// # Ok::<(), wirecap::Error>(())
    /// ```
    pub fn next_batch_within(&mut self, timeout: Duration) -> WaitOutcome {
        if !self.started {
            self.start();
        }
        self.shared.sleepers.workers[self.index].disarm();
        let mut deadline = None;
        loop {
            // Read before the queues, so that everything captured before the end is delivered.
            let ending = self.is_ending();
            if let Some(batch) = self.take(ending) {
                self.waiter.reset();
                return WaitOutcome::Batch(batch);
            }
            if ending {
                let home = &self.shared.homes[self.index];
                home.iter().for_each(|&queue| self.shared.queues[queue].close_drained());
                return WaitOutcome::Ended;
            }
            let now = Instant::now();
            // A timeout beyond the range of the clock is no limit.
            let end = *deadline.get_or_insert(now.checked_add(timeout));
            let left = end.map_or(LONG, |end| end.saturating_duration_since(now));
            if self.take_interruption() || left.is_zero() {
                return WaitOutcome::Idle;
            }
            let Self { shared, waiter, capture_queues, index, interrupted, .. } = self;
            waiter.pause(now, left, &IdleWorker { shared, index: *index, capture_queues, interrupted });
        }
    }

    /// A descriptor for select(2), poll(2) and epoll(7), for threads that wait for other things as well. Once
    /// the worker is [armed](Worker::arm), it becomes readable when packets come, the capture ends, a buddy
    /// needs help, or the worker is [interrupted](Worker::interrupter).
    ///
    /// ```
    /// # use std::os::fd::AsFd;
    /// # use wirecap::{Arming, Capture, port::null::NullPort};
    /// # use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    /// # let port = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 10 };
    /// # let mut capture = Capture::builder().port(port).chunks_per_pool(4).open()?;
    /// # let mut worker = capture.take_workers().remove(0);
    /// let readiness = worker.readiness().map_err(wirecap::Error::Descriptor)?;
    /// let mut packets = 0;
    /// let mut polls = [PollFd::new(readiness.as_fd(), PollFlags::POLLIN)];    // and others
    /// while packets < 10 {
    ///     match worker.arm() {
    ///         Arming::Batch(batch) => packets += batch.len(),
    ///         Arming::Armed(limit) => {
    ///             let _ = poll(&mut polls, PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX));
    ///         }
    ///         Arming::Later(after) => std::thread::sleep(after),              // or poll the others alone
    ///         Arming::Busy => break,
    ///     }
    /// }
    /// assert_eq!(packets, 10);
    /// # Ok::<(), wirecap::Error>(())
    /// ```
    ///
    /// # Errors
    /// The kernel's error: too many open files, most likely.
    pub fn readiness(&self) -> io::Result<OwnedFd> {
        self.waiter.readiness()
    }

    /// Whether the descriptors by which the worker waits are still open. Some programs close every descriptor
    /// that they do not know; a library that captures for them asks this when nothing comes.
    ///
    /// ```
    /// # use wirecap::{Capture, port::null::NullPort};
    /// # let port = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 0 };
    /// # let mut capture = Capture::builder().port(port).chunks_per_pool(4).open()?;
    /// assert!(capture.take_workers()[0].is_open());
    /// # Ok::<(), wirecap::Error>(())
    /// ```
    pub fn is_open(&self) -> bool {
        self.waiter.is_open()
    }

    /// Says how to wait with the descriptor of [`Worker::readiness`]. What comes makes it readable, until the
    /// next call of [`Worker::next_batch_within`] or of this method; but while packets come in quick
    /// succession, the worker is better not woken for each, as it is not in [`Worker::next_batch`]. Packets
    /// that are there already are returned.
    pub fn arm(&mut self) -> Arming {
        self.shared.sleepers.workers[self.index].disarm();
        // The first look may bring cells home, which have to be there before the worker rests.
        for _ in 0..ATTEMPTS_TO_ARM {
            let ending = self.is_ending();
            if let Some(batch) = self.take(ending) {
                self.waiter.reset();
                return Arming::Batch(batch);
            }
            if ending {
                break;
            }
            let Self { shared, waiter, capture_queues, index, interrupted, .. } = self;
            let idler = IdleWorker { shared, index: *index, capture_queues, interrupted };
            match waiter.wait_elsewhere(Instant::now(), &idler) {
                Some(Elsewhere::Armed(limit)) => return Arming::Armed(limit),
                Some(Elsewhere::Later(after)) => return Arming::Later(after),
                None => {}
            }
        }
        Arming::Busy
    }

    fn take_interruption(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed) && self.interrupted.swap(false, Ordering::Acquire)
    }

    fn start(&mut self) {
        self.started = true;
        cpu::precise_sleeps();
        if let Some(core) = self.core {
            // The builder has found that the core can be used, but that may have changed.
            let unbound = cpu::pin_to_core(core).is_err();
            self.shared.workers[self.index].unbound.store(unbound, Ordering::Relaxed);
        }
    }

    /// Whether nothing will be added to what waits now.
    fn is_ending(&self) -> bool {
        if self.shared.pull {
            self.shared.stopping.is_stopping()
        } else {
            self.shared.capture_threads.load(Ordering::Acquire) == 0
        }
    }

    /// Takes what a capture thread has given to it or to buddies that are gone, or what is in a ring.
    fn take(&mut self, ending: bool) -> Option<Batch> {
        let Self { shared, capture_queues, index, .. } = self;
        let handover = if shared.pull {
            self.pull(ending)
        } else {
            capture_queues.pop(shared.group_of[*index], &shared.orphans)
        };
        handover.map(|handover| self.deliver(handover))
    }

    /// Takes from an own ring, or helps a buddy.
    fn pull(&mut self, ending: bool) -> Option<Handover> {
        let home = &self.shared.homes[self.index];
        for turn in 0..home.len() {
            let at = (self.turn + turn) % home.len();
            if let Some(handover) = self.shared.capture(home[at]) {
                self.turn = at + 1;
                return Some(handover);
            }
        }
        let group = self.shared.group(self.index);
        if let Some(buddy) = group.buddy_in_need(self.index, |worker| self.shared.load(worker)) {
            return self.help(buddy);
        }
        if group.mode() == Mode::Basic {
            return None;
        }
        // At the end there is nothing to wait for, so each worker helps all others. And a worker that is gone
        // gives no used cells back to the kernel, so its buddies do, with or without a backlog.
        let is_gone = |worker: usize| self.shared.workers[worker].gone.load(Ordering::Acquire);
        let mut buddies = group.members().iter().filter(|&&buddy| ending || is_gone(buddy));
        buddies.find_map(|&buddy| {
            // Nothing waits in a queue that has no cells at the kernel; trying it gives it some.
            let mut queues = self.shared.homes[buddy].iter();
            self.help(buddy).or_else(|| queues.find_map(|&queue| self.help_with(buddy, queue)))
        })
    }

    /// Captures from the buddy's queue that has most waiting.
    fn help(&self, buddy: usize) -> Option<Handover> {
        let queues = self.shared.homes[buddy].iter().copied();
        let fullest = queues.max_by_key(|&queue| self.shared.queues[queue].backlog())?;
        self.help_with(buddy, fullest)
    }

    fn help_with(&self, buddy: usize, queue: usize) -> Option<Handover> {
        let handover = self.shared.capture(queue)?;
        // The buddy may doze, and has to take these cells back when they come home.
        self.shared.sleepers.workers[buddy].wake();
        Some(handover)
    }

    fn deliver(&self, handover: Handover) -> Batch {
        let queue = self.shared.pool_index(handover.pool());
        let (packets, bytes) = (u64::from(handover.packets), u64::from(handover.bytes));
        let state = &self.shared.workers[self.index];
        add(&state.packets, packets);
        add(&state.bytes, bytes);
        add(&state.delivered[queue], packets);
        if self.shared.queues[queue].home != self.index {
            add(&state.offloaded_in, packets);
        }
        Batch::new(Arc::clone(&self.shared), queue, handover)
    }
}

/// A worker that waits, as the engine sees it.
struct IdleWorker<'w> {
    shared: &'w EngineState,
    index: usize,
    capture_queues: &'w CaptureQueues,
    interrupted: &'w AtomicBool,
}

impl IdleWorker<'_> {
    /// Buddies that are awake look after their queues; those that are gone do not.
    fn rest_in_pull(&self) -> Option<Rest> {
        let own = self.shared.rest(&self.shared.homes[self.index])?;
        if self.shared.stopping.is_stopping() {
            return None;
        }
        let buddies = self.shared.group(self.index).helped_by(self.index);
        buddies.map(|buddy| self.shared.rest_of_buddy(buddy)).try_fold(own, |all, one| Some(all.min(one?)))
    }

    fn rest_in_push(&self) -> Option<Rest> {
        let has_ended = self.shared.capture_threads.load(Ordering::Acquire) == 0;
        let waits =
            !self.capture_queues.is_empty() || self.shared.orphans.wait_for(self.shared.group_of[self.index]);
        (!has_ended && !waits).then_some(Rest::Long)
    }
}

impl EngineView for IdleWorker<'_> {
    fn activity(&self) -> u64 {
        if self.shared.pull && self.shared.group(self.index).mode() != Mode::Basic {
            self.shared.activity(self.shared.group_of[self.index])
        } else {
            0
        }
    }

    fn hold(&self) -> Duration {
        if self.shared.pull { self.shared.hold(&self.shared.homes[self.index]) } else { Duration::ZERO }
    }

    fn rest(&self) -> Option<Rest> {
        if self.interrupted.load(Ordering::Acquire) {
            return None;
        }
        if self.shared.pull { self.rest_in_pull() } else { self.rest_in_push() }
    }

    fn sleeper(&self) -> &Sleeper {
        &self.shared.sleepers.workers[self.index]
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let (group, gone) = (self.shared.group_of[self.index], &self.shared.workers[self.index].gone);
        if self.shared.groups[group].mode() == Mode::Basic {
            gone.store(true, Ordering::Release);
            // No other worker may take them, and in the capture queues the pool would lack them.
            while let Some(handover) = self.capture_queues.pop_own() {
                self.shared.queues[self.shared.pool_index(handover.pool())].send_home(handover);
            }
        } else {
            self.shared.orphans.leave(group, std::mem::take(&mut self.capture_queues), gone);
            self.shared.wake_group(group);
        }
    }
}
