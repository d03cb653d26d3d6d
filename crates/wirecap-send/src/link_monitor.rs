//! Watches the link while frames are sent: the kernel reports its loss late on the sending side, or never.
//!
//! Rule: subscribe first, then read the state, then follow the events.

use std::time::{Duration, Instant};

use wirecap_sys::netdev::{self, Interface, LinkChanges, LinkFault};

use crate::SendError;

/// Time between two looks at the events.
const TICK: Duration = Duration::from_millis(20);

/// Follows the link of one interface.
#[derive(Debug)]
pub struct LinkMonitor {
    changes: LinkChanges,
    interface: String,
    ifindex: u32,
    next_look: Option<Instant>,
    /// Whether an event, or the state at the start, reports a fault that has not been checked.
    is_doubtful: bool,
}

impl LinkMonitor {
    /// Follows an interface from now on, in the calling thread's network namespace.
    ///
    /// # Errors
    /// The kernel refuses the subscription.
    pub fn watch(interface: &Interface) -> Result<Self, netdev::Error> {
        let (changes, ifindex) = (netdev::changes()?, interface.ifindex);
        let is_doubtful = LinkFault::now(ifindex).is_some();
        Ok(Self { changes, interface: interface.name.clone(), ifindex, next_look: None, is_doubtful })
    }

    /// Reports each fault of the link once. Looks every 20 ms, so it can be called between any two batches;
    /// `now` is the current time.
    ///
    /// # Errors
    /// [`SendError::Link`].
    pub fn check(&mut self, now: Instant) -> Result<(), SendError> {
        if self.next_look.is_some_and(|next| now < next) {
            return Ok(());
        }
        self.next_look = Some(now + TICK);
        // A failed read says nothing about the link.
        while let Ok(Some(event)) = self.changes.next_event() {
            self.is_doubtful |= LinkFault::of_event(&event, self.ifindex).is_some();
        }
        if !std::mem::take(&mut self.is_doubtful) {
            return Ok(());
        }
        match LinkFault::settled(self.ifindex) {
            Some(fault) => Err(SendError::Link { interface: self.interface.clone(), fault }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_lost_before_the_watch_is_reported_once() {
        // No interface has this index, as if the interface was deleted after its lookup.
        let mut interface = netdev::interface("lo").unwrap();
        interface.ifindex = i32::MAX as u32;
        let mut link = LinkMonitor::watch(&interface).unwrap();
        let (now, is_removed) = (Instant::now(), |checked| {
            matches!(checked, Err(SendError::Link { fault: LinkFault::Removed, .. }))
        });
        assert!(is_removed(link.check(now)));
        assert!(link.check(now + TICK).is_ok());
        link.is_doubtful = true;
        assert!(link.check(now + TICK + TICK / 2).is_ok(), "the link is checked every 20 ms");
        assert!(is_removed(link.check(now + 2 * TICK)));
    }
}
