//! Packets that the program sends (`pcap_inject`).
//!
//! ```text
//!   default ─────────────────► packet socket ─► queueing discipline, other listeners ─► NIC
//!   with `transmit=ENTRIES` ─► RingSender ────► transmit ring of the engine ──────────► NIC
//! ```
//!
//! The packet socket is libpcap's way. It is made at activation, before programs give up privileges. The
//! capture leaves out what it sends: otherwise a program that forwards packets between two handles would
//! forward its own again and again.

use std::io;

use wirecap_sys::netdev::FrameSocket;

use super::{account::AccountedCapture, ring_sender::RingSender};

/// Sends packets from an interface.
#[derive(Debug)]
pub(crate) struct Injector {
    way: Way,
    ifindex: u32,
}

/// How packets leave.
#[derive(Debug)]
enum Way {
    Socket(FrameSocket),
    Ring(Box<RingSender>),
}

impl Injector {
    /// # Errors
    /// What the kernel said, and to which call.
    pub(crate) fn open(ifindex: u32) -> Result<Self, (&'static str, io::Error)> {
        let socket = FrameSocket::new().map_err(|error| ("socket", error))?;
        socket.bind(ifindex).map_err(|error| ("bind", error))?;
        Ok(Self { way: Way::Socket(socket), ifindex })
    }

    /// Sends by this socket of the capture instead.
    pub(crate) fn use_socket(&mut self, socket: FrameSocket) {
        self.way = Way::Socket(socket);
    }

    /// Sends by a transmit ring of the capture instead.
    pub(super) fn use_ring(&mut self, ring: RingSender) {
        self.way = Way::Ring(ring.into());
    }

    /// By which the engine knows what it has sent.
    pub(crate) fn cookie(&self) -> Option<u64> {
        match &self.way {
            Way::Socket(socket) => socket.cookie().ok(),
            Way::Ring(_) => None,
        }
    }

    pub(crate) fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Sends a packet; returns its length.
    ///
    /// # Errors
    /// What the kernel said, or would have said to a packet socket.
    pub(super) fn send(&self, packet: &[u8], capture: &AccountedCapture) -> io::Result<usize> {
        match &self.way {
            Way::Socket(socket) => socket.send(packet),
            Way::Ring(ring) => ring.send(packet, capture),
        }
    }
}
