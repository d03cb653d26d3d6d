//! News of neighbours: one was found, became stale, does not answer, was removed.
//!
//! ```text
//!  kernel ── RTM_NEWNEIGH, RTM_DELNEIGH (group RTNLGRP_NEIGH) ──► subscription.rs ──► next_event()
//! ```
//!
//! The kernel announces an Ethernet address that was found or has changed, and that one is stale or does not
//! answer. It announces neither that it begins to ask nor what an entry was made with.

use std::net::IpAddr;

use libc::{RTM_DELNEIGH, RTM_NEWNEIGH, RTMGRP_NEIGH};

use super::error::Result;
use super::neighbour::Neighbour;
use super::netlink::Message;
use super::subscription::Subscription;

const ACTION: &str = "watching the neighbours for changes";
/// Room for events that were not read yet: some 5,000 of them.
const BUFFER_BYTES: usize = 1 << 20;

/// Something that happened to a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NeighbourEvent {
    /// The entry is new, or something about it changed: this is its state at that moment.
    State(Neighbour),
    /// The entry was removed: by a user, because its link lost its carrier, or because the table was full.
    Removed {
        /// Index of the interface.
        ifindex: u32,
        /// The IP address that it was of.
        address: IpAddr,
    },
    /// Events were lost because they were not read in time: every neighbour of interest has to be read again.
    Overrun,
}

/// A subscription to the changes of all neighbours of one network namespace.
pub type NeighbourChanges = Subscription<NeighbourEvent>;

impl NeighbourChanges {
    /// Subscribes in the network namespace of the calling thread. Needs no privilege.
    ///
    /// # Errors
    /// [`Error::System`](super::Error::System) if the kernel refuses the socket.
    pub fn open() -> Result<Self> {
        let mut changes = Self::subscribe(ACTION, RTMGRP_NEIGH, || NeighbourEvent::Overrun, event)?;
        changes.enlarge(BUFFER_BYTES);
        Ok(changes)
    }
}

fn event(message: &Message) -> Result<Option<NeighbourEvent>> {
    if !matches!(message.kind, RTM_NEWNEIGH | RTM_DELNEIGH) {
        return Ok(None);
    }
    let neighbour = Neighbour::read(ACTION, message)?;
    Ok(neighbour.map(|neighbour| match message.kind {
        RTM_DELNEIGH => NeighbourEvent::Removed { ifindex: neighbour.ifindex, address: neighbour.address },
        _ => NeighbourEvent::State(neighbour),
    }))
}

#[cfg(test)]
mod tests {
    use libc::RTM_GETNEIGH;

    use super::*;

    #[test]
    fn messages_become_events() {
        let address = IpAddr::from([192, 0, 2, 1]);
        let message = |kind| Neighbour::request(kind, 3, address, 0);
        assert!(matches!(event(&message(RTM_NEWNEIGH)).unwrap(), Some(NeighbourEvent::State(_))));
        let removed = event(&message(RTM_DELNEIGH)).unwrap();
        assert_eq!(removed, Some(NeighbourEvent::Removed { ifindex: 3, address }));
        assert_eq!(event(&message(RTM_GETNEIGH)).unwrap(), None);
    }
}
