//! Packets that the program sends (`pcap_inject`).
//!
//! They go through a packet socket, as in libpcap: they pass the interface's queueing discipline, and other
//! packet sockets there see them. The socket is made at activation, before programs give up privileges. The
//! capture leaves out what it sends: otherwise a program that forwards packets between two handles would
//! forward its own again and again.

use std::io;

use wirecap_sys::netdev::FrameSocket;

/// Sends packets from an interface.
#[derive(Debug)]
pub(crate) struct Injector {
    socket: FrameSocket,
    ifindex: u32,
}

impl Injector {
    /// # Errors
    /// What the kernel said, and to which call.
    pub(crate) fn open(ifindex: u32) -> Result<Self, (&'static str, io::Error)> {
        let socket = FrameSocket::new().map_err(|error| ("socket", error))?;
        socket.bind(ifindex).map_err(|error| ("bind", error))?;
        Ok(Self { socket, ifindex })
    }

    /// Sends by this socket of the capture instead.
    pub(crate) fn use_socket(&mut self, socket: FrameSocket) {
        self.socket = socket;
    }

    /// By which the engine knows what it has sent.
    pub(crate) fn cookie(&self) -> Option<u64> {
        self.socket.cookie().ok()
    }

    pub(crate) fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Sends a packet; returns its length.
    ///
    /// # Errors
    /// What the kernel said.
    pub(crate) fn send(&self, packet: &[u8]) -> io::Result<usize> {
        self.socket.send(packet)
    }
}
