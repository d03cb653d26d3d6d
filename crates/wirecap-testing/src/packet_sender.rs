//! Sends any frame, one at a time, through the host's own transmit path: an `AF_PACKET` socket.
//!
//! ```text
//!  send(frame) ─► AF_PACKET socket ─┬─ Queueing ─► queueing discipline ─► driver     queue by flow hash
//!                                   └─ Direct ───────────────────────► driver     queue by the kernel's choice
//! ```
//!
//! Rule: [`PacketSender::send`] succeeds only if the kernel has accepted the frame; while the kernel's queues
//! are full, `send` retries. [`PacketSender::finish`] reports what the interface did with the frames.
//!
//! Slow (about half a million frames per second), but it sends frames that the live generator cannot: longer
//! than a page, damaged, from a trace.

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

use crate::SendAccount;

/// Shortest frame that can be sent: an Ethernet header.
pub const MIN_PACKET_LEN: usize = 14;
/// Longest frame that can be sent: a header, and the largest possible MTU.
pub const MAX_PACKET_LEN: usize = 65_549;

/// How long to retry while a queue is full.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before the next try.
const RETRY: Duration = Duration::from_micros(50);

/// The path of frames to the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SendPath {
    /// Through the queueing discipline, like the host's own frames, which spreads flows over the transmit
    /// queues.
    #[default]
    Queueing,
    /// Past the queueing discipline (`PACKET_QDISC_BYPASS`), which is faster.
    Direct,
}

/// Why a frame was not sent.
#[derive(Debug, thiserror::Error)]
pub enum PacketSenderError {
    /// It is shorter or longer than any interface accepts.
    #[error("cannot send a frame of {len} bytes: choose {MIN_PACKET_LEN} to {MAX_PACKET_LEN}")]
    FrameLen {
        /// Its length.
        len: usize,
    },
    /// The socket cannot be opened or bound to the interface.
    #[error("cannot open a packet socket on {interface}: {cause}; needs CAP_NET_RAW, run with sudo")]
    Socket {
        /// Name of the interface.
        interface: String,
        /// The kernel's error.
        cause: io::Error,
    },
    /// The kernel did not accept a frame.
    #[error(
        "{interface} did not accept a frame of {len} bytes: {cause}; is it up, and its MTU at least the length less 14?"
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

/// Sends frames of 14 to 65,549 bytes unchanged.
#[derive(Debug)]
pub struct PacketSender {
    socket: OwnedFd,
    interface: String,
    counters: TxCounters,
    frames: u64,
    started: Instant,
}

impl PacketSender {
    /// Opens a socket on interface `ifindex` of the calling thread's network namespace. The sender may be
    /// used outside that namespace.
    ///
    /// # Errors
    /// [`PacketSenderError::Interface`]; [`PacketSenderError::Socket`] without CAP_NET_RAW.
    pub fn open(ifindex: u32, path: SendPath) -> Result<Self, PacketSenderError> {
        let interface = netdev::interface_with_index(ifindex)?.name;
        let refused = |cause: io::Error| PacketSenderError::Socket { interface: interface.clone(), cause };
        let failed = |errno: Errno| refused(errno.into());
        // Without a protocol, the socket receives nothing; receiving would cost memory and time.
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
    /// [`PacketSenderError::FrameLen`]; [`PacketSenderError::NotAccepted`] if the kernel refuses the frame,
    /// e.g. because it is longer than the MTU, or has no room for ten seconds.
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
                // A full queue dropped the frame; nothing was sent.
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

    /// Frames that the kernel has accepted so far.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Waits until the interface has counted all frames sent since the socket was opened, for two seconds at
    /// most. Returns the account: frames that the kernel accepted and the interface never counted are
    /// `dropped`. Call this from a thread in the interface's network namespace.
    ///
    /// # Errors
    /// [`PacketSenderError::Interface`].
    pub fn finish(&self) -> Result<SendAccount, PacketSenderError> {
        let seconds = self.started.elapsed().as_secs_f64();
        let taken = self.counters.settled(self.frames)?.packets;
        Ok(SendAccount { frames: self.frames, taken, dropped: self.frames.saturating_sub(taken), seconds })
    }
}

/// The link-layer address of an interface. It contains the interface's index, which binding needs.
fn link_address(ifindex: u32) -> nix::Result<Option<LinkAddr>> {
    let mut addresses = getifaddrs()?.filter_map(|interface| interface.address?.as_link_addr().copied());
    Ok(addresses.find(|address| address.ifindex() == ifindex as usize))
}
