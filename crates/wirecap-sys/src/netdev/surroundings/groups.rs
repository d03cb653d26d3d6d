//! Multicast: the groups of IPv4 that the host has joined on an interface, and whether something on top of it
//! has joined, too.
//!
//! ```text
//!   /proc/thread-self/net/igmp        groups of the interface itself
//!   /proc/thread-self/net/dev_mcast   3  eth1  2  0  01005e000001      two ask for this address: eth1 itself, and one above
//! ```
//!
//! Each interface with IPv4 joins 224.0.0.1 (all hosts) while it is up, and passes that on to the one below
//! it, across namespaces. So if an address has more askers than the interface's own groups need, the others
//! are above it, or below: each device to which the interface hands the address down counts as one more.

use std::net::Ipv4Addr;

/// How the Ethernet address of 224.0.0.1 is written in `dev_mcast`.
const ALL_HOSTS_ADDRESS: &str = "01005e000001";
/// Bits of a group's address that are in its Ethernet address.
const ADDRESS_BITS: u32 = 0x7f_ffff;
const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);

/// Multicast in one namespace.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Groups {
    /// Interface and group.
    joined: Vec<(u32, Ipv4Addr)>,
    /// Interface, and the number of askers for the Ethernet address of all hosts.
    askers: Vec<(u32, u32)>,
}

impl Groups {
    pub(super) fn parse(igmp: &str, dev_mcast: &str) -> Self {
        let mut of = None;
        let mut joined = Vec::new();
        for line in igmp.lines().skip(1) {
            let first = line.split_whitespace().next().unwrap_or_default();
            if line.starts_with(char::is_whitespace) {
                joined.extend(of.zip(group(first)));
            } else {
                of = first.parse().ok();
            }
        }
        Self { joined, askers: dev_mcast.lines().filter_map(asker).collect() }
    }

    /// The groups that the host has joined on an interface beside the one that every interface is in.
    pub(super) fn joined(&self, ifindex: u32) -> impl Iterator<Item = Ipv4Addr> {
        self.of(ifindex).filter(|&group| group != ALL_HOSTS)
    }

    /// How many other interfaces ask for the address of all hosts: those that are on top of this one and up,
    /// if IPv4 is on them, and those to which it hands the address down. 0 if it is down itself.
    pub(super) fn asked_by_others(&self, ifindex: u32) -> u32 {
        let asked = self.askers.iter().find(|(of, _)| *of == ifindex).map_or(0, |(_, askers)| *askers);
        let is_same_address =
            |group: &Ipv4Addr| group.to_bits() & ADDRESS_BITS == ALL_HOSTS.to_bits() & ADDRESS_BITS;
        asked.saturating_sub(self.of(ifindex).filter(is_same_address).count() as u32)
    }

    fn of(&self, ifindex: u32) -> impl Iterator<Item = Ipv4Addr> {
        self.joined.iter().filter(move |(of, _)| *of == ifindex).map(|(_, group)| *group)
    }
}

/// A group as the kernel writes it: the number that its four bytes are to the CPU.
fn group(hex: &str) -> Option<Ipv4Addr> {
    u32::from_str_radix(hex, 16).ok().map(|number| Ipv4Addr::from(number.to_ne_bytes()))
}

fn asker(line: &str) -> Option<(u32, u32)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [ifindex, _, askers, _, address] = fields[..] else { return None };
    if address != ALL_HOSTS_ADDRESS {
        return None;
    }
    Some((ifindex.parse().ok()?, askers.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn igmp(groups: &[Ipv4Addr]) -> String {
        let mut text = "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n\
                        1\tlo        :     1      V3\n\t\t\t\t010000E0     1 0:00000000\t\t0\n\
                        3\teth1      :     2      V3\n"
            .to_owned();
        for group in groups {
            let number = u32::from_ne_bytes(group.octets());
            text += &format!("\t\t\t\t{number:08X}     1 0:00000000\t\t0\n");
        }
        text
    }

    fn dev_mcast(askers: u32) -> String {
        format!(
            "3    eth1            {askers}     0     333300000001\n3    eth1            {askers}     0     01005e000001\n"
        )
    }

    #[test]
    fn an_interface_above_is_distinguished_from_own_groups() {
        let ospf = Ipv4Addr::new(224, 0, 0, 5);
        let alone = Groups::parse(&igmp(&[ALL_HOSTS, ospf]), &dev_mcast(1));
        assert_eq!((alone.joined(3).collect::<Vec<_>>(), alone.asked_by_others(3)), (vec![ospf], 0));
        assert_eq!((alone.joined(2).count(), alone.asked_by_others(2)), (0, 0), "of another interface");
        let below = Groups::parse(&igmp(&[ALL_HOSTS]), &dev_mcast(3));
        assert_eq!((below.joined(3).count(), below.asked_by_others(3)), (0, 2));
        // A group with the same Ethernet address as 224.0.0.1.
        let same = Groups::parse(&igmp(&[ALL_HOSTS, Ipv4Addr::new(239, 128, 0, 1)]), &dev_mcast(2));
        assert_eq!((same.joined(3).count(), same.asked_by_others(3)), (1, 0));
        assert_eq!(Groups::parse("", ""), Groups::default());
    }
}
