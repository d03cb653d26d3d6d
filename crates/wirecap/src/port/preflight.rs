//! What must hold of an interface before it is touched.

use std::{net::IpAddr, thread, time::Duration};

use wirecap_sys::{
    bpf,
    netdev::{self, HardwareType, Interface},
};

use crate::Error;

/// How long a program whose process has ended may stay attached, and how often to look.
const HOLDER_PATIENCE: Duration = Duration::from_millis(500);
const HOLDER_CHECKS: u32 = 10;

/// An Ethernet interface that is up.
pub(super) fn check_kind(interface: &Interface) -> Result<(), Error> {
    let name = interface.name.clone();
    if interface.hardware_type != HardwareType::ETHERNET {
        return Err(Error::NotEthernet { name, kind: interface.hardware_type.to_string() });
    }
    if !interface.up {
        return Err(Error::Down(name));
    }
    Ok(())
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

/// Whether taking the interface would cut the host off.
pub(super) fn check_host(interface: &Interface) -> Result<(), Error> {
    let reason = if interface.has_ip_address() {
        // Link-local IPv6 comes by itself and is no sign of use.
        let used = interface.addresses.iter().find(|address| match address.address {
            IpAddr::V4(_) => true,
            IpAddr::V6(address) => !address.is_unicast_link_local(),
        });
        used.map(|address| format!("address {}/{}", address.address, address.prefix_length))
    } else {
        interface.master.map(master_in_words)
    };
    match reason {
        Some(reason) => Err(Error::UsedByHost { name: interface.name.clone(), reason }),
        None => Ok(()),
    }
}

/// The bridge or bond an interface belongs to.
fn master_in_words(ifindex: u32) -> String {
    let all = netdev::interfaces().unwrap_or_default();
    let master = all.iter().find(|other| other.ifindex == ifindex);
    format!("member of {}", master.map_or("another interface", |master| &master.name))
}
