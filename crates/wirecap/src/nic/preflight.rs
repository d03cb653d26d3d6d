//! Checks of an interface before anything on it is changed.

use std::{thread, time::Duration};

use wirecap_sys::{
    bpf::{self, XdpLink},
    netdev::{self, AttachedProgram, HardwareType, Interface},
};

use super::holders;
use crate::{Error, XdpAttachment};

/// How long a program whose process has ended may stay attached, and how often to look.
const HOLDER_TIMEOUT: Duration = Duration::from_millis(500);
const HOLDER_CHECKS: u32 = 10;

/// Fails unless it is an Ethernet interface that is up.
pub(crate) fn check_kind(interface: &Interface) -> Result<(), Error> {
    if interface.hardware_type != HardwareType::ETHERNET {
        let kind = interface.hardware_type.to_string();
        return Err(Error::NotEthernet { name: interface.name.clone(), kind });
    }
    check_up(interface)
}

/// Fails unless the interface is up.
pub(crate) fn check_up(interface: &Interface) -> Result<(), Error> {
    if interface.up { Ok(()) } else { Err(Error::Down(interface.name.clone())) }
}

/// Fails if another XDP program holds the interface. A program whose process has just ended may stay attached
/// for a moment.
pub(crate) fn check_holder(interface: &Interface) -> Result<(), Error> {
    let mut attached = interface.xdp_programs.clone();
    for _ in 0..HOLDER_CHECKS {
        if attached.is_empty() {
            return Ok(());
        }
        thread::sleep(HOLDER_TIMEOUT / HOLDER_CHECKS);
        attached = netdev::interface(&interface.name)?.xdp_programs;
    }
    let Some(program) = attached.first() else { return Ok(()) };
    if let Some(members) = holders::members(*program) {
        let free = holders::free_queue(*program, interface.queues.current);
        return Err(Error::Shared { name: interface.name.clone(), holders: members, free });
    }
    let program_name = bpf::Program::name_by_id(program.program_id).unwrap_or_else(|_| "unnamed".into());
    let links = bpf::links();
    let attachment = match &links {
        Err(_) => XdpAttachment::Unknown,
        Ok(links) if links.iter().any(|link| is_of(link, *program, interface)) => XdpAttachment::Link,
        Ok(_) => XdpAttachment::Netlink(program.mode),
    };
    let links = links.unwrap_or_default();
    let links = links.iter().filter(|link| is_of(link, *program, interface));
    Err(Error::Held {
        name: interface.name.clone(),
        program: program_name,
        holders: links.flat_map(|link| bpf::link_holders(link.id)).collect(),
        attachment,
    })
}

/// Whether the link keeps this program on this interface.
fn is_of(link: &XdpLink, program: AttachedProgram, interface: &Interface) -> bool {
    link.prog_id == program.program_id && link.ifindex == interface.ifindex
}
