//! `push`: when filled cells leave their pool, and who gets them.
//!
//! ```text
//!   the chunk that is filled      ├──── with B ────┼── more ──┤ free │
//!   its cells went to B before ──► what follows goes to B, once B has nothing to do or the chunk is full
//!   none has left yet          ──► the worker whose queue it is, or over T its least busy buddy
//! ```
//!
//! Rule of the time: cells leave when their chunk is full, or when the worker they go to has nothing to
//! do. So a busy worker gets few large batches, an idle one gets packets at once, and a capture queue
//! never holds more than one part-filled hand-over of a pool besides full chunks.
//!
//! Rule of the place: **a chunk goes to one worker**, decided when its first cells leave (step 1.b of section
//! 3.2.2 of the paper), or a run of one. A chunk comes home when its last cell does. Were the cells of one
//! chunk given to several workers, each backlog would keep part of very many chunks from coming home, and a
//! pool with most of its cells free would have only short runs to attach. Two things may part from their
//! chunk, one hand-over each: the beginning of a packet that ends in the next chunk, and what found no room
//! and is offered again.

use crate::{
    group::{BuddyGroup, Load},
    pool::Pool,
};

/// Decides for one receive queue. The capture thread that serves the queue owns it.
#[derive(Debug, Default)]
pub struct Dispatcher {
    /// Who has the first cells of the chunk that is being filled.
    keeper: Option<usize>,
}

impl Dispatcher {
    /// The worker that gets what the pool [hands over](Pool::hand_over) now. `None` when there is nothing, or
    /// when it is better to wait for more. A full run may hold nothing but the beginning of a packet: the
    /// pool has to hand over all the same, to go on with the next run.
    ///
    /// `load` is how busy a worker is; `is_idle` whether it has taken all that this capture thread gave to
    /// it. With `flush` nothing waits: the capture is ending.
    pub fn next(
        &mut self,
        pool: &Pool,
        home: usize,
        group: &BuddyGroup,
        load: impl Fn(usize) -> Load,
        is_idle: impl Fn(usize) -> bool,
        flush: bool,
    ) -> Option<usize> {
        let full = pool.is_full();
        if !full && pool.filled_cells() == 0 {
            return None;
        }
        let keeper = self.keeper.filter(|&keeper| !load(keeper).gone);
        let destination = keeper.unwrap_or_else(|| group.destination(home, load));
        if !full && !flush && !is_idle(destination) {
            return None;
        }
        self.keeper = if full { None } else { Some(destination) };
        Some(destination)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
