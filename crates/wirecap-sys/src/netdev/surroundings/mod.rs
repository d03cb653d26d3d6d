//! What the host has around the interfaces of a network namespace: each table is read once, for all of them.
//!
//! ```text
//!   Surroundings::read() ── rtnetlink ─── links, addresses          uppers(ifindex)
//!                        ├─ /proc ─────── packet                    listeners(ifindex)
//!                        ├─ /proc ─────── igmp, dev_mcast           groups(ifindex), hidden_uppers(…)
//!                        └─ /proc ─────── pppoe                     pppoe_sessions(name)
//! ```
//!
//! Rule: nothing is decided here. What one interface alone is asked about is elsewhere:
//! [`find_route`](super::find_route), [`bridge_table`](super::bridge_table),
//! [`ingress_filters`](super::ingress_filters).

mod groups;
mod listeners;
mod pppoe;
mod uppers;

use std::{cell::OnceCell, collections::BTreeMap, fs, io, net::Ipv4Addr, path::Path};

use self::groups::Groups;
pub use self::{listeners::PacketSocket, pppoe::PppoeSession, uppers::UpperInterface};
use super::error::Result;
use super::link::{self, Link, MulticastTargets};
use super::{InterfaceAddress, MacAddress};
use crate::process::{self, Process};

/// Where the kernel shows the calling thread's network namespace; `/proc/net` is that of the process's first
/// thread.
const PROC_NET: &str = "/proc/thread-self/net";

/// The surroundings of all interfaces of a namespace, as they were when they were read.
#[derive(Debug)]
pub struct Surroundings {
    links: Vec<Link>,
    addresses: Vec<(u32, InterfaceAddress)>,
    packet_sockets: io::Result<Vec<PacketSocket>>,
    groups: io::Result<Groups>,
    pppoe_sessions: io::Result<Vec<PppoeSession>>,
    /// Of all packet sockets, once it was asked for.
    holders: OnceCell<BTreeMap<u64, Vec<Process>>>,
}

impl Surroundings {
    /// Reads those of the calling thread's network namespace. Needs no privilege.
    ///
    /// # Errors
    /// As [`interfaces`](super::interfaces). A table of `/proc` that cannot be read is the error of the
    /// method that needs it.
    pub fn read() -> Result<Self> {
        let mut rtnetlink = link::open()?;
        let table = |name: &str| read_table(Path::new(PROC_NET), name);
        let groups = || Ok(Groups::parse(&table("igmp")?, &table("dev_mcast")?));
        Ok(Self {
            links: link::links(&mut rtnetlink)?,
            addresses: link::addresses(&mut rtnetlink)?,
            packet_sockets: table("packet").map(|text| listeners::parse(&text)),
            groups: groups(),
            pppoe_sessions: table("pppoe").map(|text| pppoe::parse(&text)),
            holders: OnceCell::new(),
        })
    }

    /// Everything in this network namespace that is on top of the interface with index `ifindex`, the nearest
    /// first.
    pub fn uppers(&self, ifindex: u32) -> Vec<UpperInterface> {
        uppers::of(ifindex, &self.links, &self.addresses)
    }

    /// Whether an interface that is up is on top of the one with index `ifindex`, and cannot be seen: it is
    /// in another network namespace, as a container's macvlan is.
    ///
    /// # Errors
    /// Why it cannot be known.
    pub fn has_hidden_upper(&self, ifindex: u32) -> std::result::Result<bool, &io::Error> {
        let directly = uppers::directly_on_top(ifindex, &self.links);
        let seen = directly.filter(|(link, _)| link.interface.up).count();
        self.groups.as_ref().map(|groups| {
            let below = self.asked_from_below(ifindex, groups);
            groups.asked_by_others(ifindex) > seen as u32 + below
        })
    }

    /// To how many devices this one hands the address of all hosts down. A bond
    /// asks only the members that it uses.
    fn asked_from_below(&self, ifindex: u32, groups: &Groups) -> u32 {
        let link = self.links.iter().find(|link| link.interface.ifindex == ifindex);
        let is_asked = |member: &&Link| {
            member.interface.master == Some(ifindex) && groups.asked_by_others(member.interface.ifindex) > 0
        };
        match link.map_or(MulticastTargets::Nowhere, |link| link.multicast_targets) {
            MulticastTargets::Nowhere => 0,
            MulticastTargets::ToOne => 1,
            MulticastTargets::ToMembers => self.links.iter().filter(is_asked).count() as u32,
        }
    }

    /// Whether an interface of this network namespace has this Ethernet address.
    pub fn has_interface_with(&self, address: MacAddress) -> bool {
        self.links.iter().any(|link| link.interface.mac == Some(address))
    }

    /// The groups of IPv4 that the host has joined on the interface with index `ifindex`, but that of all
    /// hosts.
    ///
    /// # Errors
    /// Why it cannot be known.
    pub fn groups(&self, ifindex: u32) -> std::result::Result<Vec<Ipv4Addr>, &io::Error> {
        self.groups.as_ref().map(|groups| groups.joined(ifindex).collect())
    }

    /// The AF_PACKET sockets that hear what comes in by the interface with index `ifindex`.
    ///
    /// # Errors
    /// Why it cannot be known.
    pub fn listeners(&self, ifindex: u32) -> std::result::Result<Vec<PacketSocket>, &io::Error> {
        let hears = |socket: &&PacketSocket| [0, ifindex].contains(&socket.ifindex);
        self.packet_sockets.as_ref().map(|sockets| sockets.iter().filter(hears).copied().collect())
    }

    /// The processes that have a socket of [`Surroundings::listeners`]; none if they cannot be seen. The
    /// first call looks at every open file of the machine.
    pub fn holders(&self, socket: &PacketSocket) -> Vec<Process> {
        let all = || self.packet_sockets.iter().flatten().map(|socket| socket.inode).collect::<Vec<_>>();
        let holders = self.holders.get_or_init(|| process::holders_of_sockets(&all()));
        holders.get(&socket.inode).cloned().unwrap_or_default()
    }

    /// The PPPoE sessions over the interface called `name`.
    ///
    /// # Errors
    /// Why it cannot be known.
    pub fn pppoe_sessions(&self, name: &str) -> std::result::Result<Vec<PppoeSession>, &io::Error> {
        let of = |sessions: &Vec<PppoeSession>| {
            sessions.iter().filter(|session| session.interface == name).cloned().collect()
        };
        self.pppoe_sessions.as_ref().map(of)
    }
}

/// A table of the kernel's. One that a kernel does not have, as without the module, is empty.
fn read_table(directory: &Path, name: &str) -> io::Result<String> {
    let path = directory.join(name);
    match fs::read_to_string(&path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound && directory.exists() => Ok(String::new()),
        Err(cause) => Err(io::Error::new(cause.kind(), format!("{}: {cause}", path.display()))),
        read => read,
    }
}

#[cfg(test)]
mod tests {
    use super::super::link::tests::{LinkMessage, parsed};
    use super::*;

    #[test]
    fn a_missing_table_is_empty_and_an_unreadable_one_an_error() {
        let directory = std::env::temp_dir();
        assert_eq!(read_table(&directory, "wirecap-no-such-table").unwrap(), "");
        let nowhere = directory.join("wirecap-no-such-directory");
        let error = read_table(&nowhere, "packet").unwrap_err().to_string();
        assert!(error.contains("wirecap-no-such-directory/packet"), "{error}");
        assert!(read_table(Path::new(PROC_NET), "dev").unwrap().contains("lo:"));
    }

    #[test]
    fn what_an_interface_hands_down_is_not_on_top_of_it() {
        let link = |ifindex, kind, lower: Option<u32>, master| {
            let mut link = parsed(LinkMessage { ifindex, kind, lower, master, ..Default::default() });
            link.interface.up = true;
            link
        };
        let hidden = |links: Vec<Link>, askers: &[(u32, u32)]| -> Vec<bool> {
            let lines =
                askers.iter().map(|(ifindex, askers)| format!("{ifindex} x {askers} 0 01005e000001\n"));
            // Each interface has joined the group of all hosts.
            let group = u32::from_ne_bytes([224, 0, 0, 1]);
            let joined = |ifindex: u32| format!("{ifindex}\tx : 1 V3\n\t\t\t\t{group:08X} 1 0:00000000 0\n");
            let igmp: String = askers.iter().map(|&(ifindex, _)| joined(ifindex)).collect();
            let surroundings = Surroundings {
                groups: Ok(Groups::parse(&format!("Idx\n{igmp}"), &lines.collect::<String>())),
                links,
                addresses: Vec::new(),
                packet_sockets: Ok(Vec::new()),
                pppoe_sessions: Ok(Vec::new()),
                holders: OnceCell::new(),
            };
            askers.iter().map(|&(ifindex, _)| surroundings.has_hidden_upper(ifindex).unwrap()).collect()
        };
        let macvlan = || vec![link(2, "", None, None), link(3, "macvlan", Some(2), None)];
        assert_eq!(hidden(macvlan(), &[(2, 2), (3, 2)]), [false, false]);
        assert_eq!(hidden(macvlan(), &[(2, 3), (3, 3)]), [true, true]);
        // One member of two is in use, and a VLAN of a container is on the bond.
        let bond =
            || vec![link(2, "", None, Some(4)), link(3, "", None, Some(4)), link(4, "bond", None, None)];
        assert_eq!(hidden(bond(), &[(2, 2), (3, 1), (4, 2)]), [false, false, false]);
        assert_eq!(hidden(bond(), &[(2, 2), (3, 1), (4, 3)]), [false, false, true]);
        assert_eq!(hidden(bond(), &[(2, 2), (3, 2), (4, 3)]), [false, false, false]);
        // A bridge hands nothing down.
        let bridge = vec![link(2, "", None, Some(4)), link(4, "bridge", None, None)];
        assert_eq!(hidden(bridge, &[(2, 1), (4, 2)]), [false, true]);
    }

    #[test]
    fn loopback_has_nothing_on_top() {
        let surroundings = Surroundings::read().unwrap();
        let loopback = super::super::interface("lo").unwrap().ifindex;
        assert_eq!(surroundings.uppers(loopback), []);
        assert!(!surroundings.has_hidden_upper(loopback).unwrap());
        assert_eq!(surroundings.pppoe_sessions("lo").unwrap(), []);
    }
}
