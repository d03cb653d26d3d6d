//! Getting a receive queue for a socket, where another socket may have it.
//!
//! ```text
//!   bind ── busy ──┬─ a program on the interface says whose the queue is ─► refused at once, by name
//!                  └─ none does: a capture that is starting or ending     ─► waited for; after a moment that is reported
//! ```
//!
//! A capture takes its sockets before it attaches its program, and detaches it before it closes them; the
//! kernel frees the queue some time after that. So a busy queue without a program belongs to a capture that
//! is starting or ending.

use std::time::Duration;

use wirecap_sys::{
    netdev,
    xsk::{BindMode, Socket},
};

use super::{
    attempt::{Attempt, XdpOpener},
    shared::AttachPlan,
};
use crate::{Error, QueueWait, nic::preflight};

/// How long a queue may stay busy after its last user has gone.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A wait that is longer is reported.
const MOMENT: Duration = Duration::from_millis(300);

impl Attempt<'_> {
    /// Gives the receive queue to `socket`, in this mode.
    ///
    /// # Errors
    /// Another process has it, or the kernel refuses.
    pub(super) fn bind(&self, queue: u16, mode: BindMode, socket: &mut Socket) -> Result<(), Error> {
        let XdpOpener { interface, request, .. } = self.opener;
        let hooks = request.context.hooks;
        let wait = || QueueWait { interface: interface.name.clone(), queue, timeout: TIMEOUT };
        let (mut refused, mut reported) = (None, false);
        let bound = socket.bind(mode, TIMEOUT, |waited| {
            refused = hooks.give_up.check().and_then(|()| self.check_holder(queue)).err();
            if waited >= MOMENT && !std::mem::replace(&mut reported, waited >= MOMENT) {
                hooks.on_wait.inspect(|report| report(&wait()));
            }
            refused.is_none()
        });
        match refused {
            Some(error) => Err(error),
            None => bound.map_err(|source| self.socket_error(source)),
        }
    }

    /// Fails if a program on the interface says who has the queue.
    fn check_holder(&self, queue: u16) -> Result<(), Error> {
        let interface = netdev::interface(&self.opener.interface.name)?;
        match self.plan {
            AttachPlan::Whole => preflight::check_holder(&interface),
            AttachPlan::Found | AttachPlan::Join(_) => AttachPlan::of_queues(&interface, [queue]).map(drop),
        }
    }
}
