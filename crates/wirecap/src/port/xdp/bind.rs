//! Getting a receive queue for a socket, where another socket may have it.
//!
//! ```text
//!   bind ── busy ──┬─ a program on the interface says whose the queue is ─► refused at once, by name
//!                  └─ none does: a capture that is starting or ending     ─► waited for; after a moment that is reported
//! ```
//!
//! A capture takes its sockets before it attaches its program, and detaches it before it closes them; the kernel frees the
//! queue some time after that. So a busy queue without a program is one that is about to be either.

use std::time::Duration;

use wirecap_sys::{
    netdev::{self, Interface},
    xsk::{BindMode, Socket, XskError},
};

use super::shared::Way;
use crate::{Error, QueueWait, nic::preflight, port::opening::Hooks};

/// How long a queue may stay busy after its last user has gone.
const TIMEOUT: Duration = Duration::from_secs(3);
/// A wait that is longer is reported.
const MOMENT: Duration = Duration::from_millis(300);

/// A wait for a queue that a socket is to have.
#[derive(Debug, Clone, Copy)]
pub(super) struct BusyWait<'a> {
    pub(super) interface: &'a Interface,
    pub(super) queue: u16,
    pub(super) way: &'a Way,
    pub(super) hooks: &'a Hooks,
}

impl BusyWait<'_> {
    /// Gives the queue to `socket`.
    ///
    /// # Errors
    /// Who has it, or what the kernel said.
    pub(super) fn bind(self, socket: &mut Socket, mode: BindMode) -> Result<(), Error> {
        let (mut refused, mut reported) = (None, false);
        let bound = socket.bind(mode, TIMEOUT, |waited| {
            refused = self.hooks.gives_up.check().and_then(|()| self.check_holder()).err();
            if waited >= MOMENT && !std::mem::replace(&mut reported, waited >= MOMENT) {
                self.hooks.on_wait.inspect(|report| report(&self.wait()));
            }
            refused.is_none()
        });
        match refused {
            Some(error) => Err(error),
            None => bound.map_err(|source| socket_error(&self.interface.name, source)),
        }
    }

    /// Fails if a program on the interface says who has the queue.
    fn check_holder(self) -> Result<(), Error> {
        let interface = netdev::interface(&self.interface.name)?;
        match self.way {
            Way::Whole => preflight::check_holder(&interface),
            Way::Found | Way::Join(_) => Way::of_queues(&interface, [self.queue]).map(drop),
        }
    }

    fn wait(self) -> QueueWait {
        QueueWait { interface: self.interface.name.clone(), queue: self.queue, timeout: TIMEOUT }
    }
}

/// What the failure to set up a socket means to the user.
pub(super) fn socket_error(interface: &str, source: XskError) -> Error {
    match source {
        XskError::NotPermitted => Error::not_permitted(source),
        source => Error::Socket { name: interface.into(), source },
    }
}
