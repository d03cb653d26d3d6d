//! Why an interface carries nothing: it is gone, down, or not connected.
//!
//! ```text
//!  LinkEvent ──► told_by() ──┐
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

/// After this time it is known what has become of an interface.
const SETTLE: Duration = Duration::from_millis(100);

/// What keeps an interface from sending. In words, it goes behind the interface's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkFault {
    /// Switched off.
    Down,
    /// Not connected.
    NoCarrier,
    /// Not there any more.
    Removed,
}

impl LinkFault {
    /// What is wrong with an interface in this state, if something is.
    #[must_use]
    pub fn of(up: bool, carrier: bool) -> Option<Self> {
        match (up, carrier) {
            (true, true) => None,
            (true, false) => Some(Self::NoCarrier),
            (false, _) => Some(Self::Down),
        }
    }

    /// What is wrong with the interface now, if something is. One that cannot be asked about counts as
    /// removed.
    ///
    /// It has to be in the calling thread's network namespace, else it is another one, or none.
    #[must_use]
    pub fn now(ifindex: u32) -> Option<Self> {
        let link =
            link::open().and_then(|mut rtnetlink| link::link(&mut rtnetlink, Selector::Index(ifindex)));
        link.map_or(Some(Self::Removed), |link| link.interface.fault())
    }

    /// What is wrong with it for good, if something is: sleeps for 100 ms before it asks as
    /// [`LinkFault::now`].
    #[must_use]
    pub fn settled(ifindex: u32) -> Option<Self> {
        thread::sleep(SETTLE);
        Self::now(ifindex)
    }

    /// What the event says, or means, is wrong with the interface, if something is.
    #[must_use]
    pub fn told_by(event: &LinkEvent, ifindex: u32) -> Option<Self> {
        match event {
            LinkEvent::Overrun => Self::now(ifindex),
            _ if event.ifindex() != Some(ifindex) => None,
            LinkEvent::State { up, carrier, .. } => Self::of(*up, *carrier),
            LinkEvent::Removed { .. } => Some(Self::Removed),
        }
    }
}

impl Interface {
    /// What kept it from sending when it was asked for, if something did.
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
        assert_eq!(LinkFault::told_by(&LinkEvent::Overrun, loopback.ifindex), is);
        // The kernel's indexes are positive numbers of 32 bits.
        assert_eq!(LinkFault::now(i32::MAX as u32), Some(LinkFault::Removed));
        assert_eq!(LinkFault::now(u32::MAX), Some(LinkFault::Removed));
    }

    #[test]
    fn events_of_others_say_nothing() {
        let state =
            |up, carrier| LinkEvent::State { ifindex: 9, name: "eth9".into(), up, carrier, mtu: 1500 };
        let removed = LinkEvent::Removed { ifindex: 9, name: "eth9".into() };
        assert_eq!(LinkFault::told_by(&state(true, true), 9), None);
        assert_eq!(LinkFault::told_by(&state(true, false), 9), Some(LinkFault::NoCarrier));
        assert_eq!(LinkFault::told_by(&state(false, false), 9), Some(LinkFault::Down));
        assert_eq!(LinkFault::told_by(&removed, 9), Some(LinkFault::Removed));
        assert_eq!(LinkFault::told_by(&state(false, false), 8), None);
        assert_eq!(LinkFault::told_by(&removed, 8), None);
    }
}
