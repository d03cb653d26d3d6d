//! Frames sent by a packet socket.

use std::{
    io, mem,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use crate::socket_option;

/// Sends frames from an interface, as the host does: packet sockets there see them, except this one and those
/// of its fanout group.
#[derive(Debug)]
pub struct FrameSocket(OwnedFd);

impl From<OwnedFd> for FrameSocket {
    /// A packet socket that is bound.
    fn from(socket: OwnedFd) -> Self {
        Self(socket)
    }
}

impl FrameSocket {
    /// Opens a socket that receives nothing.
    ///
    /// # Errors
    /// The kernel's error: EPERM without CAP_NET_RAW.
    pub fn new() -> io::Result<Self> {
        socket_option::open(libc::AF_PACKET, libc::SOCK_RAW).map(Self)
    }

    /// From now on, frames leave by the interface with this index, of the calling thread's network namespace.
    ///
    /// # Errors
    /// The kernel's error: ENODEV if there is no such interface.
    pub fn bind(&self, ifindex: u32) -> io::Result<()> {
        bind_packet_socket(self.0.as_fd(), ifindex)
    }

    /// The number by which BPF programs know it ([`Helper::GetSocketCookie`](crate::bpf::Helper)).
    ///
    /// # Errors
    /// The kernel's error.
    pub fn cookie(&self) -> io::Result<u64> {
        socket_option::get(&self.0, libc::SOL_SOCKET, libc::SO_COOKIE)
    }

    /// Sends a frame; returns its length.
    ///
    /// # Errors
    /// The kernel's error: EMSGSIZE if it is longer than the MTU allows, ENOBUFS if there is no room for it,
    /// ENETDOWN if the interface is down, ENXIO if it is gone.
    pub fn send(&self, frame: &[u8]) -> io::Result<usize> {
        // SAFETY: pointer and length are those of one slice, which lives through the call.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

impl AsFd for FrameSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Binds a packet socket to an interface. The type of packets that it receives stays.
///
/// # Errors
/// The kernel's error: ENODEV if there is no such interface.
pub fn bind_packet_socket(socket: BorrowedFd<'_>, ifindex: u32) -> io::Result<()> {
    // SAFETY: a structure of integers, for which zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = ifindex as i32;
    socket_option::bind(socket, &address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_is_refused() {
        // Without the privilege, there is nothing to test; the end-to-end tests have it.
        if let Ok(socket) = FrameSocket::new() {
            let refused = socket.bind(i32::MAX as u32).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::ENODEV));
        }
    }
}
