//! What the host has built on top of an interface: VLANs, macvlans, bridges, bonds.
//!
//! ```text
//!   10.0.0.1/24
//!     br0.7  ── IFLA_LINK ──► br0 ◄── IFLA_MASTER ── eth1      uppers of eth1: br0, br0.7
//!     eth1.5 ── IFLA_LINK ──► eth1                             and eth1.5
//! ```
//!
//! Rule: what is taken from an interface is taken from everything on top of it, so an interface without an
//! address of its own may still be the one the host is reached over.

use super::super::InterfaceAddress;
use super::super::link::Link;

/// An interface whose packets go through another one, directly or by way of a third.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpperInterface {
    /// Its name.
    pub name: String,
    /// Switched on by the administrator.
    pub up: bool,
    /// A bridge, bond or the like, of which the interface below is a member.
    pub is_master: bool,
    /// Its IP addresses, link-local ones included.
    pub addresses: Vec<InterfaceAddress>,
}

/// Everything on top of the interface with index `ifindex`, the nearest first.
pub(super) fn of(ifindex: u32, links: &[Link], addresses: &[(u32, InterfaceAddress)]) -> Vec<UpperInterface> {
    let upper = |(above, is_master): (&Link, bool)| UpperInterface {
        name: above.interface.name.clone(),
        up: above.interface.up,
        is_master,
        addresses: InterfaceAddress::of(above.interface.ifindex, addresses),
    };
    on_top(ifindex, links).into_iter().map(upper).collect()
}

/// The links that are on top of `ifindex` with none in between; with whether it is there as a master.
pub(super) fn directly_on_top(ifindex: u32, links: &[Link]) -> impl Iterator<Item = (&Link, bool)> {
    let this = links.iter().find(|link| link.interface.ifindex == ifindex);
    let master = this.and_then(|link| link.interface.master);
    let others = links.iter().filter(move |link| link.interface.ifindex != ifindex);
    others
        .map(move |link| (link, master == Some(link.interface.ifindex)))
        .filter(move |(link, is_master)| *is_master || link.lower == Some(ifindex))
}

/// The links above `ifindex`, each once, the nearest first; with whether it is there as a master.
fn on_top(ifindex: u32, links: &[Link]) -> Vec<(&Link, bool)> {
    let mut found: Vec<(&Link, bool)> = Vec::new();
    let mut below = Some(ifindex);
    let mut looked_at = 0;
    while let Some(index) = below {
        for (link, is_master) in directly_on_top(index, links) {
            let known = || found.iter().any(|(other, _)| other.interface.ifindex == link.interface.ifindex);
            if link.interface.ifindex != ifindex && !known() {
                found.push((link, is_master));
            }
        }
        below = found.get(looked_at).map(|(link, _)| link.interface.ifindex);
        looked_at += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::super::link::tests::{LinkMessage, parsed};
    use super::*;

    fn names(ifindex: u32, links: &[Link]) -> Vec<(&str, bool)> {
        on_top(ifindex, links)
            .into_iter()
            .map(|(link, is_master)| (link.interface.name.as_str(), is_master))
            .collect()
    }

    #[test]
    fn uppers_of_uppers_are_found_the_nearest_first() {
        let links = [
            parsed(LinkMessage { ifindex: 2, name: "eth1", master: Some(4), ..Default::default() }),
            parsed(LinkMessage {
                ifindex: 3,
                name: "eth1.5",
                lower: Some(2),
                kind: "vlan",
                ..Default::default()
            }),
            parsed(LinkMessage { ifindex: 4, name: "br0", kind: "bridge", ..Default::default() }),
            parsed(LinkMessage {
                ifindex: 5,
                name: "br0.7",
                lower: Some(4),
                kind: "vlan",
                ..Default::default()
            }),
            parsed(LinkMessage { ifindex: 6, name: "eth2", ..Default::default() }),
        ];
        assert_eq!(names(2, &links), [("eth1.5", false), ("br0", true), ("br0.7", false)]);
        assert_eq!(names(4, &links), [("br0.7", false)]);
        assert_eq!(names(6, &links), []);
        assert_eq!(names(5, &links), []);
    }

    #[test]
    fn the_other_end_of_a_pair_and_links_over_other_namespaces_are_not_on_top() {
        let links = [
            parsed(LinkMessage { ifindex: 2, name: "a", lower: Some(3), kind: "veth", ..Default::default() }),
            parsed(LinkMessage { ifindex: 3, name: "b", lower: Some(2), kind: "veth", ..Default::default() }),
            parsed(LinkMessage {
                ifindex: 4,
                name: "eth0",
                lower: Some(2),
                lower_namespace: Some(0),
                kind: "macvlan",
                ..Default::default()
            }),
        ];
        assert_eq!(names(2, &links), []);
        assert_eq!(names(3, &links), []);
    }

    #[test]
    fn a_circle_of_links_ends() {
        let links = [
            parsed(LinkMessage { ifindex: 2, name: "x", lower: Some(3), kind: "vlan", ..Default::default() }),
            parsed(LinkMessage { ifindex: 3, name: "y", lower: Some(2), kind: "vlan", ..Default::default() }),
        ];
        assert_eq!(names(2, &links), [("y", false)]);
    }
}
