//! Any frame, one at a time, through the host's own transmit path: an `AF_PACKET` socket.
//!
//! ```text
//!  send(frame) ─► AF_PACKET socket ─┬─ Queueing ─► queueing discipline ─► driver     queue by flow hash
//!                                   └─ Direct ───────────────────────► driver     queue by the kernel's choice
//! ```
//!
//! Rule: a frame that [`PacketSender::send`] has taken, the kernel has taken; while its queues are full,
//! `send` tries again. [`PacketSender::finish`] reports what the interface did with the frames.
//!
//! Slow (about half a million frames per second), but it takes frames that live frames cannot be: longer than
//! a page, damaged, from a trace.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    thread,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    ifaddrs::getifaddrs,
    sys::socket::{self, AddressFamily, LinkAddr, MsgFlags, SockFlag, SockType, bind},
};
use wirecap_send::TxCounters;
use wirecap_sys::netdev::{self, bypass_queueing};

use crate::Sent;

/// Shortest frame that can be sent: an Ethernet header.
pub const MIN_PACKET_LEN: usize = 14;
/// Longest frame that can be sent: a header, and the largest MTU there is.
pub const MAX_PACKET_LEN: usize = 65_549;

/// How long a full queue is tried again.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before the next try.
const RETRY: Duration = Duration::from_micros(50);
/// Which way frames take to the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SendPath {
    /// Through the queueing discipline, as the host's own frames. Flows are spread over the transmit queues.
    #[default]
    Queueing,
    /// Past it (`PACKET_QDISC_BYPASS`), which is faster.
    Direct,
}

/// Why a frame was not sent.
#[derive(Debug, thiserror::Error)]
pub enum PacketSenderError {
    /// It is shorter or longer than any interface takes.
    #[error("a frame of {len} bytes is not possible here: choose {MIN_PACKET_LEN} to {MAX_PACKET_LEN}")]
    FrameLen {
        /// Its length.
        len: usize,
    },
    /// The socket cannot be opened, or be bound to the interface.
    #[error("cannot open a packet socket on {interface}: {cause}; needs CAP_NET_RAW, run with sudo")]
    Socket {
        /// Name of the interface.
        interface: String,
        /// The kernel's error.
        cause: io::Error,
    },
    /// The kernel did not take a frame.
    #[error(
        "{interface} did not take a frame of {len} bytes: {cause}; is it up, and its MTU at least the length less 14?"
    )]
    NotAccepted {
        /// Name of the interface.
        interface: String,
        /// Length of the frame.
        len: usize,
        /// The kernel's error.
        cause: io::Error,
    },
    /// The interface cannot be queried.
    #[error(transparent)]
    Interface(#[from] netdev::Error),
}

/// Sends frames of 14 to 65,549 bytes, as they are.
#[derive(Debug)]
pub struct PacketSender {
    socket: OwnedFd,
    interface: String,
    counters: TxCounters,
    frames: u64,
    started: Instant,
}

impl PacketSender {
    /// Opens a socket on interface `ifindex` of the calling thread's network namespace. It may be used from
    /// outside.
    ///
    /// # Errors
    /// [`PacketSenderError::Interface`]; [`PacketSenderError::Socket`] without CAP_NET_RAW.
    pub fn open(ifindex: u32, path: SendPath) -> Result<Self, PacketSenderError> {
        let interface = netdev::interface_with_index(ifindex)?.name;
        let refused = |cause: io::Error| PacketSenderError::Socket { interface: interface.clone(), cause };
        let failed = |errno: Errno| refused(errno.into());
        // No protocol: the socket receives nothing, which would cost memory and time for each frame.
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket::socket(AddressFamily::Packet, SockType::Raw, flags, None).map_err(failed)?;
        if path == SendPath::Direct {
            bypass_queueing(socket.as_fd()).map_err(refused)?;
        }
        let address = link_address(ifindex).map_err(failed)?.ok_or(netdev::Error::NoSuchIndex(ifindex))?;
        bind(socket.as_raw_fd(), &address).map_err(failed)?;
        let counters = TxCounters::start(ifindex)?;
        Ok(Self { socket, interface, counters, frames: 0, started: Instant::now() })
    }

    /// Sends a frame. Blocks while the kernel has no room for it.
    ///
    /// # Errors
    /// [`PacketSenderError::FrameLen`]; [`PacketSenderError::NotAccepted`] if the kernel refused it, e.g. as
    /// longer than the MTU, or had no room for ten seconds.
    pub fn send(&mut self, frame: &[u8]) -> Result<(), PacketSenderError> {
        let len = frame.len();
        if !(MIN_PACKET_LEN..=MAX_PACKET_LEN).contains(&len) {
            return Err(PacketSenderError::FrameLen { len });
        }
        let begun = Instant::now();
        loop {
            match socket::send(self.socket.as_raw_fd(), frame, MsgFlags::empty()) {
                // A packet socket sends a frame whole or not at all.
                Ok(_) => {
                    self.frames += 1;
                    return Ok(());
                }
                Err(Errno::EINTR) => {}
                // The frame was dropped for want of room in a queue; nothing has left.
                Err(Errno::ENOBUFS | Errno::EAGAIN) if begun.elapsed() < TIMEOUT => thread::sleep(RETRY),
                Err(errno) => {
                    return Err(PacketSenderError::NotAccepted {
                        interface: self.interface.clone(),
                        len,
                        cause: errno.into(),
                    });
                }
            }
        }
    }

    /// Frames the kernel has accepted so far.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Waits until the interface has counted what was sent since the socket was opened, for two seconds at
    /// most, and gives the account: frames the kernel accepted and the interface never counted are `dropped`.
    /// Must be called by a thread in the interface's network namespace.
    ///
    /// # Errors
    /// [`PacketSenderError::Interface`].
    pub fn finish(&self) -> Result<Sent, PacketSenderError> {
        let seconds = self.started.elapsed().as_secs_f64();
        let taken = self.counters.settled(self.frames)?.packets;
        Ok(Sent { frames: self.frames, taken, dropped: self.frames.saturating_sub(taken), seconds })
    }
}

/// The link-layer address of an interface. It names the interface by its index, which is what binding needs.
fn link_address(ifindex: u32) -> nix::Result<Option<LinkAddr>> {
    let mut addresses = getifaddrs()?.filter_map(|interface| interface.address?.as_link_addr().copied());
    Ok(addresses.find(|address| address.ifindex() == ifindex as usize))
}
