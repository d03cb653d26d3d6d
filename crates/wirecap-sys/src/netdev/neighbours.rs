//! Ethernet addresses of neighbours, as the kernel's ARP and neighbour discovery find them out.
//!
//! ```text
//!   ask(interface, 192.0.2.1) ──► RTM_NEWNEIGH, NTF_USE ──► the kernel sends ARP requests, and tries anew what is stale
//!   address(…)                ──► RTM_GETNEIGH           ──► its Ethernet address, once there is one
//! ```
//!
//! Whoever forwards packets past the kernel's own routing has its neighbours kept by the kernel all the same (rtnetlink(7)).

use std::net::IpAddr;

use libc::{AF_INET, AF_INET6, ENOENT, NDA_DST, NDA_LLADDR, RTM_GETNEIGH, RTM_NEWNEIGH};
use netlink_sys::protocols::NETLINK_ROUTE;

use super::{
    MacAddress,
    error::{Error, Result},
    mac_address,
    netlink::{Conversation, Message, Scope, each_attribute, split_header},
};

/// Length of `struct ndmsg`.
const HEADER_BYTES: usize = 12;
/// States with an Ethernet address that may be used: reachable, stale, delay, probe, no ARP, permanent
/// (include/uapi/linux/neighbour.h).
const USABLE_STATES: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;
/// Flag of an entry that is made to be used, not set.
const NTF_USE: u8 = 0x01;

/// Asks the kernel about neighbours, in the network namespace of the thread that opened it.
///
/// ```no_run
/// # use wirecap_sys::netdev::{interface, Neighbours};
/// let (interface, router) = (interface("eth1")?, "192.0.2.1".parse().unwrap());
/// let mut neighbours = Neighbours::open()?;
/// neighbours.ask(interface.ifindex, router)?;
/// while neighbours.address(interface.ifindex, router)?.is_none() {
///     std::thread::sleep(std::time::Duration::from_millis(10));
/// }
/// # Ok::<(), wirecap_sys::netdev::Error>(())
/// ```
#[derive(Debug)]
pub struct Neighbours(Conversation);

impl Neighbours {
    /// Opens a socket. Needs no privilege.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn open() -> Result<Self> {
        Ok(Self(Conversation::open(NETLINK_ROUTE)?))
    }

    /// Has the kernel find out the Ethernet address of a neighbour, or find out anew whether it is still right. Does not wait
    /// for it. Needs CAP_NET_ADMIN.
    ///
    /// # Errors
    /// [`Error::NotPermitted`]; [`Error::System`], for instance where the interface is gone.
    pub fn ask(&mut self, ifindex: u32, address: IpAddr) -> Result<()> {
        let action = format!("asking for the Ethernet address of {address}");
        let request = request(RTM_NEWNEIGH, ifindex, NTF_USE, address);
        match self.0.ask(&action, Scope::Change, &request) {
            Err(Error::System { source, .. }) if source.raw_os_error() == Some(libc::EPERM) => {
                Err(Error::NotPermitted { action, capability: "CAP_NET_ADMIN" })
            }
            asked => asked.map(drop),
        }
    }

    /// The Ethernet address of a neighbour, if the kernel has one that may be used. Kernels before 5.0 have none to tell.
    ///
    /// # Errors
    /// [`Error::System`], [`Error::Malformed`].
    pub fn address(&mut self, ifindex: u32, address: IpAddr) -> Result<Option<MacAddress>> {
        const ACTION: &str = "reading the Ethernet address of a neighbour";
        let replies = match self.0.ask(ACTION, Scope::One, &request(RTM_GETNEIGH, ifindex, 0, address)) {
            Err(Error::System { source, .. }) if source.raw_os_error() == Some(ENOENT) => return Ok(None),
            replies => replies?,
        };
        let Some(reply) = replies.first() else { return Ok(None) };
        let (header, attributes) = split_header::<HEADER_BYTES>(ACTION, &reply.payload)?;
        let state = u16::from_ne_bytes([header[8], header[9]]);
        let mut found = None;
        each_attribute(ACTION, attributes, |kind, value| {
            if kind == NDA_LLADDR {
                found = mac_address(value);
            }
            Ok(())
        })?;
        Ok(found.filter(|_| state & USABLE_STATES != 0))
    }
}

fn request(kind: u16, ifindex: u32, flags: u8, address: IpAddr) -> Message {
    let mut header = [0; HEADER_BYTES];
    header[0] = if address.is_ipv4() { AF_INET } else { AF_INET6 } as u8;
    header[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    header[10] = flags;
    let message = Message::new(kind, &header);
    match address {
        IpAddr::V4(v4) => message.with(NDA_DST, &v4.octets()),
        IpAddr::V6(v6) => message.with(NDA_DST, &v6.octets()),
    }
}
