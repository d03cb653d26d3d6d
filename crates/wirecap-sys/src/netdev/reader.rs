//! What changes about an interface, asked again and again.

use wirecap_headers::MacAddress;

use super::error::Result;
use super::ethtool::Ethtool;
use super::interface::queues;
use super::link::{self, Selector};
use super::netlink::Conversation;
use super::statistics::{LinkStatistics, statistics};
use super::{AttachedProgram, Interface, Queues};

/// Asks about interfaces of the network namespace it was opened in, whichever thread does so later.
#[derive(Debug)]
pub struct LinkReader {
    rtnetlink: Conversation,
    ethtool: Ethtool,
}

/// What an interface can send now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkState {
    /// Switched on by the administrator.
    pub up: bool,
    /// Switched on and connected.
    pub carrier: bool,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Its Ethernet address, if it has one.
    pub mac: Option<MacAddress>,
}

impl LinkReader {
    /// Opens its sockets in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`Error::System`](super::Error::System) if they cannot be opened.
    pub fn open() -> Result<Self> {
        Ok(Self { rtnetlink: link::open()?, ethtool: Ethtool::open()? })
    }

    /// The counters of the interface with index `ifindex`, whatever its current name is.
    ///
    /// # Errors
    /// [`Error::NoSuchIndex`](super::Error::NoSuchIndex) once the interface is gone.
    pub fn statistics(&mut self, ifindex: u32) -> Result<LinkStatistics> {
        statistics(&mut self.rtnetlink, Selector::Index(ifindex))
    }

    /// Whether it is switched on and connected now, its MTU in bytes, and its Ethernet address.
    ///
    /// # Errors
    /// [`Error::NoSuchIndex`](super::Error::NoSuchIndex) once the interface is gone.
    pub fn state(&mut self, ifindex: u32) -> Result<LinkState> {
        let link = link::link(&mut self.rtnetlink, Selector::Index(ifindex))?;
        let Interface { up, carrier, mtu, mac, .. } = link.interface;
        Ok(LinkState { up, carrier, mtu, mac })
    }

    /// The XDP programs attached to it now, native first.
    ///
    /// # Errors
    /// [`Error::NoSuchIndex`](super::Error::NoSuchIndex) once the interface is gone.
    pub fn xdp_programs(&mut self, ifindex: u32) -> Result<Vec<AttachedProgram>> {
        let link = link::link(&mut self.rtnetlink, Selector::Index(ifindex))?;
        Ok(link.interface.xdp_programs)
    }

    /// How many transmit queues it has now, as [`transmit_queues`](super::transmit_queues).
    ///
    /// # Errors
    /// [`Error::NoSuchIndex`](super::Error::NoSuchIndex) once the interface is gone.
    pub fn transmit_queues(&mut self, ifindex: u32) -> Result<Option<u32>> {
        let link = link::link(&mut self.rtnetlink, Selector::Index(ifindex))?;
        Ok(self.ethtool.transmit_queues(&link.interface.name))
    }

    /// The receive queues that it has now.
    ///
    /// # Errors
    /// [`Error::NoSuchIndex`](super::Error::NoSuchIndex) once the interface is gone.
    pub fn queues(&mut self, ifindex: u32) -> Result<Queues> {
        // The driver has to be asked by name, which may have changed.
        let link = link::link(&mut self.rtnetlink, Selector::Index(ifindex))?;
        Ok(queues(&link, &self.ethtool))
    }
}
