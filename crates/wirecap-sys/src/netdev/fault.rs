//! Why an interface carries nothing: it is removed, down, or not connected.
//!
//! ```text
//!  LinkEvent ──► of_event() ─┐
//!  up, carrier ──► of() ─────┼──► LinkFault, if something is wrong
//!  ifindex ──► now() ────────┤
//!  a little later: settled() ┘
//! ```
//!
//! Rule: an interface is its index, whatever its current name is. A deleted one goes down first, so the first
//! fault that is seen is not always the one to report.

use std::{fmt, thread, time::Duration};

use super::Interface;
use super::changes::LinkEvent;
use super::link::{self, Selector};

/// The state of an interface that changes has settled after this time.
const SETTLE: Duration = Duration::from_millis(100);

/// What keeps an interface from sending. Its text follows the interface's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkFault {
    /// Switched off.
    Down,
    /// Not connected.
    NoCarrier,
    /// Deleted, or moved to another network namespace.
    Removed,
}

impl LinkFault {
    /// The fault of an interface in this state.
    #[must_use]
    pub fn of(up: bool, carrier: bool) -> Option<Self> {
        match (up, carrier) {
            (true, true) => None,
            (true, false) => Some(Self::NoCarrier),
            (false, _) => Some(Self::Down),
        }
    }

    /// The fault of the interface now. An interface that cannot be queried counts as removed.
    ///
    /// `ifindex` is an index in the calling thread's network namespace.
    #[must_use]
    pub fn now(ifindex: u32) -> Option<Self> {
        let link =
            link::open().and_then(|mut rtnetlink| link::link(&mut rtnetlink, Selector::Index(ifindex)));
        link.map_or(Some(Self::Removed), |link| link.interface.fault())
    }

    /// The fault that lasts: sleeps for 100 ms, then returns [`LinkFault::now`].
    #[must_use]
    pub fn settled(ifindex: u32) -> Option<Self> {
        thread::sleep(SETTLE);
        Self::now(ifindex)
    }

    /// The fault of the interface that the event reports. After an overrun, asks the kernel.
    #[must_use]
    pub fn of_event(event: &LinkEvent, ifindex: u32) -> Option<Self> {
        match event {
            LinkEvent::Overrun => Self::now(ifindex),
            _ if event.ifindex() != Some(ifindex) => None,
            LinkEvent::State { up, carrier, .. } => Self::of(*up, *carrier),
            LinkEvent::Removed { .. } => Some(Self::Removed),
        }
    }
}

impl Interface {
    /// What kept it from sending when it was read.
    #[must_use]
    pub fn fault(&self) -> Option<LinkFault> {
        LinkFault::of(self.up, self.carrier)
    }
}

impl fmt::Display for LinkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Down => "is down",
            Self::NoCarrier => {
                "has no carrier, so frames sent to it are lost; connect and bring up the other end"
            }
            Self::Removed => "was removed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::interface;
    use super::*;

    #[test]
    fn an_interface_is_known_by_its_index() {
        let loopback = interface("lo").unwrap();
        let is = loopback.fault();
        assert_eq!((LinkFault::now(loopback.ifindex), LinkFault::settled(loopback.ifindex)), (is, is));
        assert_eq!(LinkFault::of_event(&LinkEvent::Overrun, loopback.ifindex), is);
        // The kernel's indexes are positive 32-bit numbers.
        assert_eq!(LinkFault::now(i32::MAX as u32), Some(LinkFault::Removed));
        assert_eq!(LinkFault::now(u32::MAX), Some(LinkFault::Removed));
    }

    #[test]
    fn events_of_other_interfaces_are_ignored() {
        let state = |up, carrier| {
            let name = "eth9".into();
            LinkEvent::State { ifindex: 9, name, up, carrier, mtu: 1500, mac: None }
        };
        let removed = LinkEvent::Removed { ifindex: 9, name: "eth9".into() };
        assert_eq!(LinkFault::of_event(&state(true, true), 9), None);
        assert_eq!(LinkFault::of_event(&state(true, false), 9), Some(LinkFault::NoCarrier));
        assert_eq!(LinkFault::of_event(&state(false, false), 9), Some(LinkFault::Down));
        assert_eq!(LinkFault::of_event(&removed, 9), Some(LinkFault::Removed));
        assert_eq!(LinkFault::of_event(&state(false, false), 8), None);
        assert_eq!(LinkFault::of_event(&removed, 8), None);
    }
}
