//! Receive queues of one interface, captured by several processes.
//!
//! ```text
//!   packet ──► dispatcher: tail call of programs[rx_queue] ──┬─► program of process A ──► its sockets of queues 0 and 1
//!                  │ attached by a link,                      ├─► program of process B ──► its socket of queue 2
//!                  │ held by A and by B                       └── no entry: to the host's stack
//!                  └─ programs: a table that is found by its name
//! ```
//!
//! The first process (the founder) makes the table and attaches the dispatcher; others find both by the
//! number of the program that is on the interface, and hold them as well. So the dispatcher is there as long
//! as any of them lives, and is gone with the last, however it went; nothing is pinned.
//!
//! The entry of a queue whose packets go to a socket is the program itself. The entry of a queue whose
//! packets are packed is a gate (`program/gate.rs`), and the socket of that queue is
//! the one of its claim (`claim.rs`), which gets no packet.
//!
//! The *holder* of a queue is a process; its right to the queue's packets is its *entry* in the table. (The
//! *owner* of a queue is a thread, see `engine/queue.rs`; a socket or writer has the *lease* of a pool.)
//!
//! Rules:
//! - **A socket comes before the entry and goes after it.** The kernel gives a queue to one AF_XDP socket at
//!   a time, so only the process that has the socket writes the queue's entry: what it finds there is its
//!   own, or of a process that was killed.
//! - **The table is held before the link is, and longer.** The kernel empties a table that no process holds,
//!   some time after the last has let go of it. So members never hold the link alone.
//! - **An entry is looked after**, about once a second (`upkeep.rs`): other programs do hold the link alone
//!   for a moment, those that list the links of the machine for instance. A newcomer that finds the
//!   dispatcher in that moment writes its entry into a table that is still to be emptied. It writes it again
//!   then, and reports that.
//! - **The dispatcher is looked after** as well (`reattach.rs`): one that was detached by force is attached
//!   again by the member that sees it first, with its table; the others hold the new link then.
//! - **An entry of a dead process does no harm**: its program finds no socket, or its gate no program, and
//!   leaves the packets to the host.

mod attachment;
mod dispatcher;
mod reattach;
mod site;

use std::{thread, time::Duration};

pub(crate) use self::attachment::{AttachPlan, Attachment, Entry, EntryCheck};

/// How often a dispatcher that goes away while we join it, or comes while we found one, is looked for anew,
/// and the first and the longest pause in between.
const ATTEMPTS: u32 = 20;
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Attempts with pauses between, each twice as long as the one before.
#[derive(Debug)]
pub(crate) struct Attempts {
    left: u32,
    pause: Duration,
}

impl Attempts {
    pub(crate) fn new() -> Self {
        Self { left: ATTEMPTS, pause: FIRST_PAUSE }
    }

    /// Waits a little; `false` after the last attempt.
    pub(crate) fn again(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            thread::sleep(self.pause);
            self.pause = (2 * self.pause).min(LONGEST_PAUSE);
        }
        self.left > 0
    }
}
