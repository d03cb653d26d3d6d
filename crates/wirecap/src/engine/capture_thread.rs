//! The capture thread of `push`: drains rings, hands chunks to workers, offloads over the threshold
//! (section 3.2.2 of the paper, figure 7).
//!
//! Rule: what is filled is handed over when the chunk is full, or when the worker it would go to has
//! nothing to do. So a busy worker gets few large batches, an idle one gets packets at once, and a
//! capture queue never holds more than one part-filled hand-over besides the full chunks of the pools:
//! its room suffices for all there can be. Should it be full all the same, the hand-over is held back
//! and offered again.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use wirecap_core::{CaptureProducer, Handover};
use wirecap_sys::cpu;

use super::{Shared, wait::Waiter};

pub(crate) struct CaptureThread {
    shared: Arc<Shared>,
    core: Option<usize>,
    /// Queues this thread serves.
    queues: Vec<usize>,
    /// The capture queue of each worker.
    lanes: Vec<CaptureProducer>,
    /// A hand-over that found no room, by position in `queues`.
    held_back: Vec<Option<Handover>>,
}

impl CaptureThread {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        core: Option<usize>,
        queues: Vec<usize>,
        lanes: Vec<CaptureProducer>,
    ) -> Self {
        let held_back = queues.iter().map(|_| None).collect();
        Self { shared: Arc::clone(shared), core, queues, lanes, held_back }
    }

    /// Captures until the engine stops and everything is handed over.
    pub(crate) fn run(mut self) {
        cpu::precise_sleeps();
        if let Some(core) = self.core {
            let _ = cpu::pin_to_core(core);
        }
        let shared = Arc::clone(&self.shared);
        let mut waiter = Waiter::new(shared.wait, shared.ring_cells, shared.wakers(&self.queues));
        loop {
            // Looked at before the rings: what was in them at the end is handed over.
            let stopping = shared.is_stopping();
            let mut moved = false;
            for position in 0..self.queues.len() {
                moved |= self.serve(position, stopping);
            }
            if moved {
                waiter.reset();
            } else if stopping && self.is_done() {
                break;
            } else {
                waiter.pause(Duration::from_millis(10), std::thread::sleep);
            }
        }
    }

    /// Nothing can be handed over any more: all is, or nobody is there to take it.
    fn is_done(&self) -> bool {
        let everybody_gone = self.shared.workers.iter().all(|worker| worker.gone.load(Ordering::Acquire));
        everybody_gone || self.held_back.iter().all(Option::is_none)
    }

    /// Drains one ring. Returns whether anything moved.
    fn serve(&mut self, position: usize, stopping: bool) -> bool {
        let shared = Arc::clone(&self.shared);
        let queue = &shared.queues[self.queues[position]];
        let destination = || shared.group(queue.home).destination(queue.home, |worker| shared.load(worker));
        if let Some(handover) = self.held_back[position].take() {
            // Chosen anew: the worker it was for may be gone, or its buddies less busy now.
            self.push(position, destination(), handover);
            if self.held_back[position].is_some() {
                return false;
            }
        }
        let mut owner = queue.lock();
        let mut moved = owner.bring_home(&queue.recycle, !stopping);
        loop {
            let received = owner.receive();
            moved |= received > 0;
            let full = owner.pool.is_full();
            if full || owner.pool.filled_cells() > 0 {
                let destination = destination();
                if full || stopping || self.lanes[destination].is_empty() {
                    if let Some(handover) = owner.pool.hand_over() {
                        moved = true;
                        self.push(position, destination, handover);
                    }
                }
            }
            if received == 0 || !full || self.held_back[position].is_some() {
                return moved;
            }
        }
    }

    fn push(&mut self, position: usize, worker: usize, handover: Handover) {
        match self.lanes[worker].push(handover) {
            Ok(()) => self.shared.workers[worker].wake(),
            Err(handover) => self.held_back[position] = Some(handover),
        }
    }
}

impl Drop for CaptureThread {
    /// Also when the thread panics: workers must not wait for it for ever.
    fn drop(&mut self) {
        // A hand-over nobody took goes home; its packets count as left at the stop.
        for (held_back, &queue) in self.held_back.iter_mut().zip(&self.queues) {
            if let Some(handover) = held_back.take() {
                self.shared.queues[queue].send_home(handover);
            }
        }
        self.shared.capture_threads.fetch_sub(1, Ordering::Release);
        self.shared.workers.iter().for_each(super::WorkerState::wake);
    }
}
