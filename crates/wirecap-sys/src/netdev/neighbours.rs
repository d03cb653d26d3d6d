//! Ethernet addresses of neighbours, as the kernel's ARP and neighbour discovery find them out.
//!
//! ```text
//!   ask(interface, 192.0.2.1) ─┬─ no entry: RTM_NEWNEIGH, NTF_USE, NLM_F_EXCL ──► the kernel sends ARP requests
//!                              └─ one: RTM_GETNEIGH ─┬─ the kernel's own, and stale, failed or idle: NTF_USE asks anew
//!                                                    └─ all others stay as they are
//! ```
//!
//! So a program that forwards packets past the kernel's routing still has the kernel keep its neighbours
//! (rtnetlink(7)).
//!
//! Rule: an entry is looked at before the kernel is asked to use it. Since Linux 5.16, NTF_USE without a
//! state makes an ordinary entry of a permanent one, and takes off the mark of one that a routing daemon has
//! set; ARP then may have it fail, for the host as well. What remains is an entry that is made permanent
//! between the look and the request, some microseconds, while it is stale or failed.

use std::net::IpAddr;

use libc::{EEXIST, ENOENT, NTF_USE, RTM_DELNEIGH, RTM_GETNEIGH, RTM_NEWNEIGH};

use super::{
    error::{Error, Result},
    link,
    neighbour::{Neighbour, NeighbourState},
    netlink::{Conversation, Message, Scope},
};

/// Asks the kernel about neighbours, in the network namespace of the thread that opened it.
///
/// ```no_run
/// # use wirecap_sys::netdev::{interface, Neighbours};
/// let (interface, router) = (interface("eth1")?, "192.0.2.1".parse().unwrap());
/// let mut neighbours = Neighbours::open()?;
/// neighbours.ask(interface.ifindex, router)?;
/// while neighbours.get(interface.ifindex, router)?.is_none_or(|router| router.usable_mac().is_none()) {
///     std::thread::sleep(std::time::Duration::from_millis(10));
/// }
/// # Ok::<(), wirecap_sys::netdev::Error>(())
/// ```
#[derive(Debug)]
pub struct Neighbours(Conversation);

/// What the kernel knew of a neighbour when it was asked to resolve it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskedNeighbour {
    /// The entry as it was before the kernel was asked to use it, or after it was made; `None` if it was
    /// removed at once.
    pub entry: Option<Neighbour>,
    /// Whether asking created the entry: nobody had asked for the neighbour before.
    pub is_new: bool,
}

impl Neighbours {
    /// Opens a socket. Needs no privilege.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn open() -> Result<Self> {
        link::open().map(Self)
    }

    /// Has the kernel find out the Ethernet address of a neighbour, or verify it if it is stale. Does not
    /// wait for the answer. Entries that are not the kernel's own stay as they are. Needs CAP_NET_ADMIN.
    /// Takes two or three system calls.
    ///
    /// # Errors
    /// [`Error::NotPermitted`]; [`Error::System`], for instance where the interface is gone, or the table is
    /// full (ENOBUFS).
    pub fn ask(&mut self, ifindex: u32, address: IpAddr) -> Result<AskedNeighbour> {
        let is_there = match self.change(Scope::Create, ifindex, address) {
            Err(error) if error.errno() == Some(EEXIST) => true,
            made => made.map(|()| false)?,
        };
        let found = self.get(ifindex, address)?;
        let is_to_be_asked = found.is_some_and(|found| {
            use NeighbourState::{Failed, Idle, Stale};
            found.is_kernels_own && matches!(found.state, Idle | Stale | Failed)
        });
        if is_there && is_to_be_asked {
            self.change(Scope::Change, ifindex, address)?;
        }
        Ok(AskedNeighbour { entry: found, is_new: !is_there })
    }

    /// The entry of a neighbour, if the kernel has one.
    ///
    /// # Errors
    /// [`Error::System`], [`Error::Malformed`].
    pub fn get(&mut self, ifindex: u32, address: IpAddr) -> Result<Option<Neighbour>> {
        const ACTION: &str = "reading the Ethernet address of a neighbour";
        let request = Neighbour::request(RTM_GETNEIGH, ifindex, address, 0);
        let replies = match self.0.ask(ACTION, Scope::One, &request) {
            Err(error) if error.errno() == Some(ENOENT) => return Ok(None),
            replies => replies?,
        };
        replies.first().map_or(Ok(None), |reply| Neighbour::read(ACTION, reply))
    }

    /// Removes the entry of a neighbour that has not answered yet, if it is the kernel's own, and returns
    /// whether it did. This frees the room in the kernel's table that [`Neighbours::ask`] took; of an entry
    /// that the host has made, it drops the packets that wait for the answer. Needs CAP_NET_ADMIN.
    ///
    /// # Errors
    /// As [`Neighbours::ask`].
    pub fn forget(&mut self, ifindex: u32, address: IpAddr) -> Result<bool> {
        let found = self.get(ifindex, address)?;
        let is_unanswered =
            found.is_some_and(|found| found.is_kernels_own && found.state == NeighbourState::Incomplete);
        if !is_unanswered {
            return Ok(false);
        }
        let request = Neighbour::request(RTM_DELNEIGH, ifindex, address, 0);
        match self.request(Scope::Remove, address, &request) {
            Err(error) if error.errno() == Some(ENOENT) => Ok(false),
            removed => removed.map(|()| true),
        }
    }

    fn change(&mut self, scope: Scope, ifindex: u32, address: IpAddr) -> Result<()> {
        self.request(scope, address, &Neighbour::request(RTM_NEWNEIGH, ifindex, address, NTF_USE))
    }

    fn request(&mut self, scope: Scope, address: IpAddr, request: &Message) -> Result<()> {
        let action = format!("asking for the Ethernet address of {address}");
        match self.0.ask(&action, scope, request) {
            Err(Error::System { source, .. }) => Err(Error::refused(action, "CAP_NET_ADMIN", source)),
            answered => answered.map(drop),
        }
    }
}
