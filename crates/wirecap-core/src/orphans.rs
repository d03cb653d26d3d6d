//! Capture queues whose worker is gone, and what their heirs take next.
//!
//! ```text
//!   capture thread t ─┬─ 1 ── 2 ── 5 ──► queue of worker 0, gone: an orphan ─┐ by turn
//!                     └─ 3 ── 4 ── 6 ──► queue of worker 1 ──────────────────┴──► worker 1 takes 1 2 3 4 5 6
//! ```
//!
//! A capture thread numbers its hand-overs with *turns*, whichever worker they go to. A worker takes, of what
//! one capture thread has pushed to it and to the orphans of its buddy group, the lowest turn first.
//!
//! Rule: a worker leaves its queues here before it is marked as gone, and its own queue is looked at before
//! the orphans. The capture thread gives a worker's packets to buddies only when it has seen the mark. So a
//! buddy that finds such packets in its own queue finds the orphan, too, with all that the capture thread had
//! pushed there before.
//!
//! What follows from it: of each receive queue, **every worker gets packets in order, also those it
//! inherits**, with one exception. In advanced mode a buddy may have been given later packets of the queue
//! while the worker still lived and was over T. What waited for that worker then comes behind them, since
//! neither can be undone.

use std::sync::PoisonError;

use crate::{
    capture_queue::CaptureConsumer,
    chunk::Handover,
    sync::{AtomicBool, Mutex, Ordering},
};

/// The capture queues of one worker, one for each capture thread, in the order of the threads.
#[derive(Debug, Default)]
pub struct CaptureQueues {
    queues: Vec<CaptureConsumer>,
    /// Which capture thread is looked at first.
    first: usize,
}

impl CaptureQueues {
    /// The queues of a worker.
    pub fn new(queues: Vec<CaptureConsumer>) -> Self {
        Self { queues, first: 0 }
    }

    /// Takes what comes next, from the own queues or from orphans of buddy group `group`: capture threads in
    /// turn, and of each what it has pushed first.
    ///
    /// ```
    /// use wirecap_core::{CaptureQueues, Orphans, capture_queue};
    ///
    /// let (producer, consumer) = capture_queue(500);
    /// assert!(CaptureQueues::new(vec![consumer]).pop(0, &Orphans::default()).is_none());
    /// # drop(producer);
    /// ```
    pub fn pop(&mut self, group: usize, orphans: &Orphans) -> Option<Handover> {
        for ahead in 0..self.queues.len() {
            let thread = (self.first + ahead) % self.queues.len();
            // Before the orphans, see the rule above.
            let own = self.queues[thread].next_turn();
            // Only what was compared is taken: more may have been pushed since.
            let taken = orphans
                .pop(group, thread, own.unwrap_or(u64::MAX))
                .or_else(|| own.and_then(|_| self.queues[thread].pop()));
            if taken.is_some() {
                self.first = thread + 1;
                return taken;
            }
        }
        None
    }

    /// Takes what waits in the own queues, in no certain order.
    pub fn pop_own(&mut self) -> Option<Handover> {
        self.queues.iter_mut().find_map(CaptureConsumer::pop)
    }

    /// Whether nothing waits in the own queues.
    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(|queue| queue.backlog_cells() == 0)
    }
}

/// Capture queues whose workers are gone, for their buddies to empty.
#[derive(Debug, Default)]
pub struct Orphans {
    /// Written by a worker that goes away, once its queues are in `queues`. Most captures never have one, and
    /// then look at nothing else.
    any: AtomicBool,
    queues: Mutex<Vec<Orphan>>,
}

/// A capture queue without its worker.
#[derive(Debug)]
struct Orphan {
    /// The buddy group of the worker that is gone.
    group: usize,
    /// Who pushes into it.
    thread: usize,
    queue: CaptureConsumer,
}

impl Orphans {
    /// A worker of `group` goes away: leaves its queues to its buddies, and only then sets the mark that it
    /// is gone.
    pub fn leave(&self, group: usize, own: CaptureQueues, gone: &AtomicBool) {
        let left = (0..).zip(own.queues).map(|(thread, queue)| Orphan { group, thread, queue });
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).extend(left);
        // Pairs with the load in `is_none`.
        self.any.store(true, Ordering::Release);
        // Pairs with the load by the thread that checks whether the worker is gone, before it pushes to
        // another one.
        gone.store(true, Ordering::Release);
    }

    /// Takes what waits longest of what a capture thread had pushed before turn `before` to workers of the
    /// group that are gone.
    fn pop(&self, group: usize, thread: usize, before: u64) -> Option<Handover> {
        if self.is_none() {
            return None;
        }
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let of_thread = queues.iter_mut().filter(|orphan| (orphan.group, orphan.thread) == (group, thread));
        let waiting = of_thread.filter_map(|orphan| Some((orphan.queue.next_turn()?, orphan)));
        let (turn, oldest) = waiting.min_by_key(|(turn, _)| *turn)?;
        if turn < before { oldest.queue.pop() } else { None }
    }

    /// Whether something waits for the buddies of a worker that is gone.
    pub fn wait_for(&self, group: usize) -> bool {
        if self.is_none() {
            return false;
        }
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.iter().any(|orphan| orphan.group == group && orphan.queue.backlog_cells() > 0)
    }

    fn is_none(&self) -> bool {
        // Pairs with the store in `leave`.
        !self.any.load(Ordering::Acquire)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
