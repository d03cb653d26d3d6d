//! What the kernel announces by itself to a group of netlink listeners.
//!
//! ```text
//!  kernel ── messages of the group ──► socket buffer ──► next(): decoded, one by one
//!                             full: ENOBUFS ──► the event of an overrun: look again
//! ```
//!
//! Rule: subscribe first, then read the state, then follow the events. The other way round, a change between
//! the two would never be seen.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::NetlinkPayload;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use super::error::{Error, Result};
use super::netlink::{Message, messages, receive};

/// A listener of some groups, in the network namespace of the thread that opened it.
///
/// Its file descriptor becomes readable when there are events; read until
/// [`next_event`](Self::next_event) gives `None`.
#[derive(Debug)]
pub struct Subscription<E> {
    action: &'static str,
    socket: Socket,
    buffer: Vec<u8>,
    /// Decoded and not yet given out: a datagram may hold several messages.
    pending: VecDeque<E>,
    /// Events were lost, and the socket has not been read empty since.
    overrun: bool,
    /// The event that says so.
    event_of_overrun: fn() -> E,
    /// Gives `None` for a message that is no event.
    decode: fn(&Message) -> Result<Option<E>>,
}

impl<E> Subscription<E> {
    /// Subscribes to `groups` (RTMGRP_…). Needs no privilege. `action` says what for, in error messages.
    ///
    /// # Errors
    /// [`Error::System`] if the kernel refuses the socket.
    pub(super) fn subscribe(
        action: &'static str,
        groups: i32,
        event_of_overrun: fn() -> E,
        decode: fn(&Message) -> Result<Option<E>>,
    ) -> Result<Self> {
        let open = || -> io::Result<Socket> {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.set_non_blocking(true)?;
            socket.bind(&SocketAddr::new(0, groups as u32))?;
            Ok(socket)
        };
        let socket = open().map_err(|source| Error::system(action, source))?;
        let (buffer, pending) = (Vec::new(), VecDeque::new());
        Ok(Self { action, socket, buffer, pending, overrun: false, event_of_overrun, decode })
    }

    /// Asks the kernel to keep up to `bytes` of unread messages.
    pub(super) fn enlarge(&mut self, bytes: usize) {
        // With less room, more is looked at again: nothing is lost.
        let _ = self.socket.set_rx_buf_sz(bytes as u32);
    }

    /// The next event; `None` while no event waits. Never blocks.
    ///
    /// Once its buffer overflowed, the kernel throws everything away, without saying so again, until the
    /// socket has been read empty. So the event of an overrun comes after that: the state that the reader
    /// then finds is newer than all that was lost.
    ///
    /// # Errors
    /// [`Error::System`] if the socket fails, [`Error::Malformed`] for a message that makes no sense; reading
    /// may go on after either.
    pub fn next_event(&mut self) -> Result<Option<E>> {
        while self.pending.is_empty() || self.overrun {
            match receive(&self.socket, &mut self.buffer) {
                Ok(Some(datagram)) => {
                    for message in messages(self.action, datagram) {
                        if let NetlinkPayload::InnerMessage(message) = message?.payload {
                            self.pending.extend((self.decode)(&message)?);
                        }
                    }
                }
                Ok(None) => {
                    let overrun = std::mem::take(&mut self.overrun);
                    self.pending.extend(overrun.then(self.event_of_overrun));
                    break;
                }
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => self.overrun = true,
                Err(error) => return Err(Error::system(self.action, error)),
            }
        }
        Ok(self.pending.pop_front())
    }
}

impl<E> AsFd for Subscription<E> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
