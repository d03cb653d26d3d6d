//! What must hold of an interface before it is touched.

use std::{thread, time::Duration};

use wirecap_sys::{
    bpf,
    netdev::{self, HardwareType, Interface, InterfaceAddress, Upper},
};

use super::shared;
use crate::Error;

/// How long a program whose process has ended may stay attached, and how often to look.
const HOLDER_PATIENCE: Duration = Duration::from_millis(500);
const HOLDER_CHECKS: u32 = 10;

/// An Ethernet interface that is up.
pub(super) fn check_kind(interface: &Interface) -> Result<(), Error> {
    if interface.hardware_type != HardwareType::ETHERNET {
        let kind = interface.hardware_type.to_string();
        return Err(Error::NotEthernet { name: interface.name.clone(), kind });
    }
    check_up(interface)
}

/// An interface that is up.
pub(super) fn check_up(interface: &Interface) -> Result<(), Error> {
    if interface.up { Ok(()) } else { Err(Error::Down(interface.name.clone())) }
}

/// Why an interface is better left to the host, in words: the host uses it, or AF_XDP cannot take it.
pub(super) fn reason_for_passive(interface: &Interface) -> Result<Option<String>, Error> {
    if interface.hardware_type != HardwareType::ETHERNET {
        return Ok(Some(format!("it is no Ethernet interface ({})", interface.hardware_type)));
    }
    Ok(host_use(interface)?.map(|reason| format!("the host uses it ({reason})")))
}

/// Whether another XDP program holds the interface. One whose process has just ended may still be
/// there for a moment.
pub(super) fn check_holder(interface: &Interface) -> Result<(), Error> {
    let mut attached = interface.xdp_programs.clone();
    for _ in 0..HOLDER_CHECKS {
        if attached.is_empty() {
            return Ok(());
        }
        thread::sleep(HOLDER_PATIENCE / HOLDER_CHECKS);
        attached = netdev::interface(&interface.name)?.xdp_programs;
    }
    let Some(program) = attached.first() else { return Ok(()) };
    if let Some(members) = shared::members(*program) {
        return Err(Error::Shared { name: interface.name.clone(), holders: shared::in_words(&members) });
    }
    let program_name = bpf::Program::name_by_id(program.program_id).unwrap_or_else(|_| "unnamed".into());
    let links = bpf::links().unwrap_or_default();
    let holders = links
        .iter()
        .filter(|link| link.prog_id == program.program_id)
        .flat_map(|link| bpf::link_holders(link.id))
        .map(|holder| format!("{} (pid {})", holder.name, holder.pid));
    Err(Error::Held {
        name: interface.name.clone(),
        program: program_name,
        holders: holders.collect::<Vec<_>>().join(", "),
    })
}

/// What the host uses the interface for, or what is on top of it: taking it would cut the host off.
fn host_use(interface: &Interface) -> Result<Option<String>, Error> {
    Ok(match host_address(&interface.addresses) {
        Some(address) => Some(format!("address {address}")),
        None => use_of_uppers(&netdev::uppers(interface.ifindex)?),
    })
}

/// Link-local IPv6 comes by itself and is no sign of use.
fn host_address(addresses: &[InterfaceAddress]) -> Option<&InterfaceAddress> {
    addresses.iter().find(|address| !address.is_ipv6_link_local())
}

/// How the host uses what is on top of an interface, in words. One that is switched off and has no address is
/// not in use; a bridge or bond is, since the interface was made a member of it.
fn use_of_uppers(uppers: &[Upper]) -> Option<String> {
    let addressed = uppers.iter().find_map(|upper| {
        let (name, address) = (&upper.name, host_address(&upper.addresses)?);
        Some(if upper.is_master {
            format!("member of {name}, which has address {address}")
        } else {
            format!("{name} on top of it has address {address}")
        })
    });
    let member = || Some(format!("member of {}", uppers.iter().find(|upper| upper.is_master)?.name));
    let up = || Some(format!("{} on top of it is up", uppers.iter().find(|upper| upper.up)?.name));
    addressed.or_else(member).or_else(up)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upper(name: &str, up: bool, is_master: bool, addresses: &[&str]) -> Upper {
        let addresses = addresses.iter().map(|text| text.parse().unwrap());
        let addresses = addresses.map(|address| InterfaceAddress { address, prefix_length: 24 }).collect();
        Upper { name: name.into(), up, is_master, addresses }
    }

    #[test]
    fn the_best_reason_is_an_address_then_membership_then_being_up() {
        let idle = upper("eth1.4", false, false, &["fe80::1"]);
        let up = upper("eth1.5", true, false, &["fe80::1"]);
        let bond = upper("bond0", false, true, &[]);
        let vlan = upper("bond0.7", false, false, &["fe80::1", "192.0.2.1"]);
        let bridge = upper("br0", true, true, &["192.0.2.2"]);
        let reason = |uppers: &[&Upper]| use_of_uppers(&uppers.iter().copied().cloned().collect::<Vec<_>>());
        assert_eq!(reason(&[]), None);
        assert_eq!(reason(&[&idle]), None);
        assert_eq!(reason(&[&idle, &up]).unwrap(), "eth1.5 on top of it is up");
        assert_eq!(reason(&[&up, &bond]).unwrap(), "member of bond0");
        assert_eq!(reason(&[&up, &bond, &vlan]).unwrap(), "bond0.7 on top of it has address 192.0.2.1/24");
        assert_eq!(reason(&[&bridge]).unwrap(), "member of br0, which has address 192.0.2.2/24");
    }
}
