//! The capture thread of `push`: drains rings, hands chunks to workers, offloads over the threshold
//! (section 3.2.2 of the paper, figure 7).
//!
//! The [`Dispatcher`] decides when cells leave and which worker gets them, such that a capture queue has room
//! for all chunks. If a queue is full nevertheless, of runs for instance, the thread holds the hand-over back
//! and offers it again.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use wirecap_core::{CaptureProducer, Dispatcher, Handover, Load};
use wirecap_sys::cpu;

use super::{
    EngineState,
    doze::Sleeper,
    wait::{EngineView, LONG, Rest},
};

pub(crate) struct CaptureThread {
    shared: Arc<EngineState>,
    index: usize,
    core: Option<usize>,
    /// Queues this thread serves.
    queues: Vec<usize>,
    /// One for each, by position in `queues`.
    dispatchers: Vec<Dispatcher>,
    /// The capture queue of each worker.
    capture_queues: Vec<CaptureProducer>,
    /// Number of the next hand-over, over all workers.
    turn: u64,
    /// A hand-over that found no room, by position in `queues`.
    held_back: Vec<Option<Handover>>,
}

impl CaptureThread {
    pub(crate) fn new(
        shared: &Arc<EngineState>,
        index: usize,
        core: Option<usize>,
        queues: Vec<usize>,
        capture_queues: Vec<CaptureProducer>,
    ) -> Self {
        let dispatchers = queues.iter().map(|_| Dispatcher::default()).collect();
        let held_back = queues.iter().map(|_| None).collect();
        let shared = Arc::clone(shared);
        Self { shared, index, core, queues, dispatchers, capture_queues, turn: 0, held_back }
    }

    /// Captures until the engine stops and everything is handed over.
    pub(crate) fn run(mut self) {
        cpu::precise_sleeps();
        if let Some(core) = self.core {
            let _ = cpu::pin_to_core(core);
        }
        let shared = Arc::clone(&self.shared);
        let mut waiter = shared.waiter(&shared.sleepers.capture_threads[self.index], &self.queues, &[]);
        loop {
            // Read before the rings, so that everything in them at the stop is handed over.
            let stopping = shared.stopping.is_stopping();
            let mut moved = false;
            for position in 0..self.queues.len() {
                moved |= self.serve(position, stopping);
            }
            if moved {
                waiter.reset();
            } else if stopping && self.is_done() {
                break;
            } else {
                waiter.pause(Instant::now(), LONG, &self);
            }
        }
    }

    /// Whether no hand-over is left: all are handed over, or every worker is gone.
    fn is_done(&self) -> bool {
        let all_gone = self.shared.workers.iter().all(|worker| worker.gone.load(Ordering::Acquire));
        all_gone || self.held_back.iter().all(Option::is_none)
    }

    /// Drains one ring. Returns whether anything moved.
    fn serve(&mut self, position: usize, stopping: bool) -> bool {
        let shared = Arc::clone(&self.shared);
        let queue = &shared.queues[self.queues[position]];
        let group = shared.group(queue.home);
        if let Some(handover) = self.held_back[position].take() {
            // Chosen anew: the worker it was for has no room and may be gone, or its buddies less busy now.
            let load = |worker| load(&shared, &self.capture_queues, worker);
            let destination = group.destination(queue.home, load);
            self.push(position, destination, handover);
            if self.held_back[position].is_some() {
                return false;
            }
        }
        let mut owner = queue.lock();
        let mut moved = owner.bring_home(&queue.recycle, !stopping);
        loop {
            let received = owner.receive(None, &shared.stopping);
            moved |= received > 0;
            let full = owner.pool.is_full();
            let load = |worker| load(&shared, &self.capture_queues, worker);
            let is_idle = |worker: usize| self.capture_queues[worker].is_empty();
            let dispatcher = &mut self.dispatchers[position];
            let worker = dispatcher.next(&owner.pool, queue.home, group, load, is_idle, stopping);
            if let Some((worker, handover)) =
                worker.and_then(|worker| Some((worker, owner.pool.hand_over()?)))
            {
                moved = true;
                self.push(position, worker, handover);
            }
            if received == 0 || !full || self.held_back[position].is_some() {
                return moved;
            }
        }
    }

    fn push(&mut self, position: usize, worker: usize, handover: Handover) {
        if let Err(handover) = self.capture_queues[worker].push(self.turn, handover) {
            self.held_back[position] = Some(handover);
            return;
        }
        self.turn += 1;
        self.shared.sleepers.workers[worker].wake();
        // The worker may have ended after it was chosen: then its buddies take the hand-over.
        if self.shared.workers[worker].gone.load(Ordering::Acquire) {
            self.shared.wake_group(self.shared.group_of[worker]);
        }
    }
}

/// How busy a worker is, as the thread with these capture queues sees it.
fn load(shared: &EngineState, capture_queues: &[CaptureProducer], worker: usize) -> Load {
    Load { full: capture_queues[worker].is_full(), ..shared.load(worker) }
}

impl EngineView for CaptureThread {
    /// The thread itself receives everything that comes to it.
    fn activity(&self) -> u64 {
        0
    }

    /// None while something waits to be handed over, which nothing announces: room in a capture queue, or a
    /// worker that becomes idle.
    fn hold(&self) -> Duration {
        let has_filled = |&queue: &usize| self.shared.queues[queue].has_filled();
        let waits = self.held_back.iter().any(Option::is_some) || self.queues.iter().any(has_filled);
        if waits { Duration::ZERO } else { self.shared.hold(&self.queues) }
    }

    fn rest(&self) -> Option<Rest> {
        let is_busy = self.shared.stopping.is_stopping() || self.held_back.iter().any(Option::is_some);
        if is_busy { None } else { self.shared.rest(&self.queues) }
    }

    fn sleeper(&self) -> &Sleeper {
        &self.shared.sleepers.capture_threads[self.index]
    }
}

impl Drop for CaptureThread {
    /// Also when the thread panics: workers must not wait for it forever.
    fn drop(&mut self) {
        // A hand-over without a taker goes home; its packets count as left at the stop.
        for (held_back, &queue) in self.held_back.iter_mut().zip(&self.queues) {
            if let Some(handover) = held_back.take() {
                self.shared.queues[queue].send_home(handover);
            }
        }
        self.shared.capture_threads.fetch_sub(1, Ordering::Release);
        self.shared.sleepers.workers.iter().for_each(Sleeper::wake);
    }
}
