//! News of links: a port went down, came back, was deleted.
//!
//! ```text
//!  kernel ── RTM_NEWLINK, RTM_DELLINK (group RTNLGRP_LINK) ──► socket buffer ──► next_event()
//!                                            full: ENOBUFS ──► LinkEvent::Overrun, look again
//! ```
//!
//! Rule: subscribe first, then read the state, then follow the events. The other way round, a change between
//! the two would never be seen.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use libc::{IFLA_IFNAME, IFLA_MTU, RTM_DELLINK, RTM_NEWLINK, RTMGRP_LINK};
use netlink_packet_core::{NetlinkPayload, parse_u32};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use super::error::{Error, Result};
use super::link::{LinkHeader, text};
use super::netlink::{Message, each_attribute, messages, receive, split_header};

const ACTION: &str = "watching the interfaces for changes";

/// Something that happened to a link. The kernel also tells of changes that leave `up` and `carrier` as they
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
///
/// Its file descriptor becomes readable when there are events; read until [`next_event`](Self::next_event)
/// gives `None`.
#[derive(Debug)]
pub struct LinkChanges {
    socket: Socket,
    buffer: Vec<u8>,
    /// Decoded and not yet given out: a datagram may hold several messages.
    pending: VecDeque<LinkEvent>,
    /// Events were lost, and the socket has not been read empty since.
    overrun: bool,
}

/// Subscribes to the changes of links in the network namespace of the calling thread. Needs no privilege.
///
/// # Errors
/// [`Error::System`] if the kernel refuses the socket.
pub fn changes() -> Result<LinkChanges> {
    let open = || -> io::Result<Socket> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.set_non_blocking(true)?;
        socket.bind(&SocketAddr::new(0, RTMGRP_LINK as u32))?;
        Ok(socket)
    };
    let socket = open().map_err(|source| Error::system(ACTION, source))?;
    Ok(LinkChanges { socket, buffer: Vec::new(), pending: VecDeque::new(), overrun: false })
}

impl LinkChanges {
    /// The next event, or `None` if there is none at the moment. Never blocks.
    ///
    /// # Errors
    /// [`Error::System`] if the socket fails, [`Error::Malformed`] for a message that makes no sense; reading
    /// may go on after either.
    pub fn next_event(&mut self) -> Result<Option<LinkEvent>> {
        if self.pending.is_empty() {
            self.receive_into_pending()?;
        }
        Ok(self.pending.pop_front())
    }

    /// Receives until there is something to give out, or nothing more to receive.
    ///
    /// Once its buffer overflowed, the kernel throws everything away, without saying so again, until the
    /// socket has been read empty. So the overrun is told after that: what the reader then finds in
    /// `interface()` is newer than all that was lost.
    fn receive_into_pending(&mut self) -> Result<()> {
        while self.pending.is_empty() || self.overrun {
            match receive(&self.socket, &mut self.buffer) {
                Ok(Some(datagram)) => decode(datagram, &mut self.pending)?,
                Ok(None) => {
                    let overrun = std::mem::take(&mut self.overrun);
                    self.pending.extend(overrun.then_some(LinkEvent::Overrun));
                    break;
                }
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => self.overrun = true,
                Err(error) => return Err(Error::system(ACTION, error)),
            }
        }
        Ok(())
    }
}

impl AsFd for LinkChanges {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for LinkChanges {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

fn decode(datagram: &[u8], events: &mut VecDeque<LinkEvent>) -> Result<()> {
    for message in messages(ACTION, datagram) {
        if let NetlinkPayload::InnerMessage(message) = message?.payload {
            events.extend(event(&message)?);
        }
    }
    Ok(())
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
    let (mut name, mut mtu) = (String::new(), 0);
    each_attribute(ACTION, attributes, |kind, value| {
        match kind {
            IFLA_IFNAME => name = text(value),
            IFLA_MTU => mtu = parse_u32(value)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(Some(match message.kind {
        RTM_DELLINK => LinkEvent::Removed { ifindex, name },
        _ => LinkEvent::State { ifindex, name, up: header.up(), carrier: header.carrier(), mtu },
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
        Message::new(kind, &header).with(IFLA_IFNAME, b"eth9\0").with(IFLA_MTU, &1400_u32.to_ne_bytes())
    }

    #[test]
    fn flags_become_states() {
        let message = link_message(RTM_NEWLINK, libc::AF_UNSPEC, libc::IFF_UP);
        let name = "eth9".to_owned();
        let expected = LinkEvent::State { ifindex: 9, name, up: true, carrier: false, mtu: 1400 };
        assert_eq!(event(&message).unwrap(), Some(expected));
    }

    #[test]
    fn leaving_a_bridge_is_not_removal() {
        assert_eq!(event(&link_message(RTM_DELLINK, libc::AF_BRIDGE, 0)).unwrap(), None);
        let removed = event(&link_message(RTM_DELLINK, libc::AF_UNSPEC, 0)).unwrap();
        assert_eq!(removed, Some(LinkEvent::Removed { ifindex: 9, name: "eth9".to_owned() }));
    }
}
