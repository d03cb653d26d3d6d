//! News of links: a port went down, came back, was deleted.
//!
//! ```text
//!  kernel ── RTM_NEWLINK, RTM_DELLINK (group RTNLGRP_LINK) ──► subscription.rs ──► next_event()
//! ```

use libc::{IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, RTM_DELLINK, RTM_NEWLINK, RTMGRP_LINK};
use netlink_packet_core::parse_u32;
use wirecap_headers::MacAddress;

use super::attributes::mac_address;
use super::error::Result;
use super::link::{LinkHeader, text};
use super::netlink::{Message, each_attribute, split_header};
use super::subscription::Subscription;

const ACTION: &str = "watching the interfaces for changes";

/// Something that happened to a link. The kernel also reports changes that leave `up` and `carrier` as they
/// were (MTU, promiscuous mode, …), so two equal events may follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkEvent {
    /// The link is new, or something about it changed: this is its state at that moment.
    State {
        /// Index of the link.
        ifindex: u32,
        /// Its name; links can be renamed.
        name: String,
        /// Switched on by the administrator.
        up: bool,
        /// Switched on and connected.
        carrier: bool,
        /// Its MTU in bytes; 0 if the kernel did not say.
        mtu: u32,
        /// Its Ethernet address; `None` without one, and if the kernel did not say.
        mac: Option<MacAddress>,
    },
    /// The link was deleted, its driver unbound, or it was moved to another network namespace.
    Removed {
        /// Index it had.
        ifindex: u32,
        /// Name it had.
        name: String,
    },
    /// Events were lost because they were not read in time: the state of every link has to be read again.
    Overrun,
}

impl LinkEvent {
    /// The index of the link that the event is about; `None` for [`LinkEvent::Overrun`], which is about all.
    #[must_use]
    pub fn ifindex(&self) -> Option<u32> {
        match self {
            LinkEvent::State { ifindex, .. } | LinkEvent::Removed { ifindex, .. } => Some(*ifindex),
            LinkEvent::Overrun => None,
        }
    }
}

/// A subscription to the changes of all links of one network namespace.
pub type LinkChanges = Subscription<LinkEvent>;

/// Subscribes to the changes of links in the network namespace of the calling thread. Needs no privilege.
///
/// # Errors
/// [`Error::System`](super::Error::System) if the kernel refuses the socket.
pub fn changes() -> Result<LinkChanges> {
    Subscription::subscribe(ACTION, RTMGRP_LINK, || LinkEvent::Overrun, event)
}

/// `None` for a message that is not about a link as such.
fn event(message: &Message) -> Result<Option<LinkEvent>> {
    if !matches!(message.kind, RTM_NEWLINK | RTM_DELLINK) {
        return Ok(None);
    }
    let (header, attributes) = split_header(ACTION, &message.payload)?;
    let header = LinkHeader::parse(header);
    // A port that leaves a bridge is announced as RTM_DELLINK too, with family AF_BRIDGE; the link lives on.
    if i32::from(header.family) != libc::AF_UNSPEC {
        return Ok(None);
    }
    let ifindex = header.ifindex;
    let (mut name, mut mtu, mut mac) = (String::new(), 0, None);
    each_attribute(ACTION, attributes, |kind, value| {
        match kind {
            IFLA_IFNAME => name = text(value),
            IFLA_MTU => mtu = parse_u32(value)?,
            IFLA_ADDRESS => mac = mac_address(value),
            _ => {}
        }
        Ok(())
    })?;
    Ok(Some(match message.kind {
        RTM_DELLINK => LinkEvent::Removed { ifindex, name },
        _ => LinkEvent::State { ifindex, name, up: header.up(), carrier: header.carrier(), mtu, mac },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link_message(kind: u16, family: i32, flags: i32) -> Message {
        let mut header = [0; 16];
        header[0] = family as u8;
        header[4..8].copy_from_slice(&9_u32.to_ne_bytes());
        header[8..12].copy_from_slice(&flags.to_ne_bytes());
        let message = Message::new(kind, &header).with(IFLA_IFNAME, b"eth9\0");
        message.with(IFLA_MTU, &1400_u32.to_ne_bytes()).with(IFLA_ADDRESS, &[2, 0, 0, 0, 0, 9])
    }

    #[test]
    fn flags_become_states() {
        let message = link_message(RTM_NEWLINK, libc::AF_UNSPEC, libc::IFF_UP);
        let name = "eth9".to_owned();
        let mac = Some(MacAddress([2, 0, 0, 0, 0, 9]));
        let expected = LinkEvent::State { ifindex: 9, name, up: true, carrier: false, mtu: 1400, mac };
        assert_eq!(event(&message).unwrap(), Some(expected));
    }

    #[test]
    fn leaving_a_bridge_is_not_removal() {
        assert_eq!(event(&link_message(RTM_DELLINK, libc::AF_BRIDGE, 0)).unwrap(), None);
        let removed = event(&link_message(RTM_DELLINK, libc::AF_UNSPEC, 0)).unwrap();
        assert_eq!(removed, Some(LinkEvent::Removed { ifindex: 9, name: "eth9".to_owned() }));
    }
}
