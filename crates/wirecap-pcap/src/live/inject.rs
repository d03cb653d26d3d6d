//! Packets that the program sends (`pcap_inject`).
//!
//! They go through a packet socket, as in libpcap: they pass the interface's queueing discipline, and other
//! packet sockets there see them. The socket is made at activation, before programs give up privileges, and
//! receives nothing.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

/// Sends packets from an interface.
#[derive(Debug)]
pub(crate) struct Injector {
    socket: OwnedFd,
    ifindex: u32,
}

impl Injector {
    /// # Errors
    /// What the kernel said, and to which call.
    pub(crate) fn open(ifindex: u32) -> Result<Self, (&'static str, io::Error)> {
        // SAFETY: a system call without pointers.
        let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if socket < 0 {
            return Err(("socket", io::Error::last_os_error()));
        }
        // SAFETY: the descriptor is new, and no other value owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        bind(socket.as_fd(), ifindex).map_err(|error| ("bind", error))?;
        Ok(Self { socket, ifindex })
    }

    pub(crate) fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Sends a packet; returns its length.
    ///
    /// # Errors
    /// What the kernel said.
    pub(crate) fn send(&self, packet: &[u8]) -> io::Result<usize> {
        // SAFETY: pointer and length are those of one slice.
        let sent = unsafe { libc::send(self.socket.as_raw_fd(), packet.as_ptr().cast(), packet.len(), 0) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// Binds a packet socket to an interface. The type of packets that it receives stays.
///
/// # Errors
/// What the kernel said.
pub(super) fn bind(socket: BorrowedFd<'_>, ifindex: u32) -> io::Result<()> {
    // SAFETY: a structure of integers, for which zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = ifindex as i32;
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address lives through the call, and has this length.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    if bound < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
