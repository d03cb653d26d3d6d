//! Getting a receive queue for a socket, where another socket may have it.
//!
//! ```text
//!   bind ── busy ──┬─ a program on the interface tells whose the queue is ─► refused at once, by name
//!                  └─ none does: a capture that is starting or ending      ─► waited for; after a moment that is told
//! ```
//!
//! A capture takes its sockets before it attaches its program, and detaches it before it closes them; the kernel frees the
//! queue some time after that. So a busy queue without a program is one that is about to be either.

use std::{
    thread,
    time::{Duration, Instant},
};

use wirecap_sys::{
    netdev::{self, Interface},
    xsk::{BindMode, Socket, XskError},
};

use super::{super::opening::Hooks, shared::Way};
use crate::{Error, QueueWait, nic::preflight};

/// How long a queue may stay busy after its last user has gone.
const PATIENCE: Duration = Duration::from_secs(3);
/// A wait that is longer is told of.
const MOMENT: Duration = Duration::from_millis(300);
/// The first and the longest pause between two attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// A queue that a socket shall have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) interface: &'a Interface,
    pub(super) queue: u16,
    pub(super) way: &'a Way,
    pub(super) hooks: &'a Hooks,
}

impl Wanted<'_> {
    /// Gives the queue to `socket`.
    ///
    /// # Errors
    /// Who has it, or what the kernel said.
    pub(super) fn bind(self, socket: &mut Socket, mode: BindMode) -> Result<(), Error> {
        let (begun, mut pause, mut told) = (Instant::now(), FIRST_PAUSE, false);
        loop {
            let busy = match socket.bind(mode, Duration::ZERO) {
                Err(busy @ XskError::Busy { .. }) => busy,
                bound => return bound.map_err(|source| self.error(source)),
            };
            self.hooks.gives_up.check()?;
            self.check_holder()?;
            let waited = begun.elapsed();
            if waited >= PATIENCE {
                return Err(self.error(after(busy, waited)));
            }
            if waited >= MOMENT && !told {
                told = true;
                self.hooks.on_wait.inspect(|tell| tell(&self.wait()));
            }
            thread::sleep(pause);
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// Fails if a program on the interface tells who has the queue.
    fn check_holder(self) -> Result<(), Error> {
        let interface = netdev::interface(&self.interface.name)?;
        match self.way {
            Way::Whole => preflight::check_holder(&interface),
            Way::Found | Way::Join(_) => Way::of_queues(&interface, [self.queue]).map(drop),
        }
    }

    fn wait(self) -> QueueWait {
        QueueWait { interface: self.interface.name.clone(), queue: self.queue, timeout: PATIENCE }
    }

    fn error(self, source: XskError) -> Error {
        super::open::socket_error(&self.interface.name, source)
    }
}

/// The error, with the time that was waited.
fn after(busy: XskError, waited: Duration) -> XskError {
    match busy {
        XskError::Busy { ifindex, queue_id, .. } => {
            XskError::Busy { ifindex, queue_id, waited_ms: waited.as_millis() }
        }
        other => other,
    }
}
