//! Interfaces whose driver runs a program on other interfaces.

use wirecap_sys::netdev::{self, Interface};

/// The driver, if it runs the program on the members of the interface, where packets have the queues of the
/// members: on several CPUs at a time for one number of a queue, and `xsk_rcv_check()` of the kernel drops
/// those for a socket of the interface.
///
/// See `bond_xdp_set()` and `netvsc_vf_setxdp()` of the kernel: the latter does so while it has a member, the
/// virtual function that it is given.
pub(super) fn running_driver(interface: &Interface) -> Option<&str> {
    let driver = interface.driver.as_ref().map_or("", |driver| &driver.name);
    let is_on_members = match driver {
        // Also without a member: those that come later get the program, too.
        "bonding" => true,
        "hv_netvsc" => has_member(interface.ifindex),
        _ => false,
    };
    is_on_members.then_some(driver)
}

/// Whether an interface has a member, as far as the kernel says.
fn has_member(ifindex: u32) -> bool {
    netdev::interfaces().map_or(true, |all| all.iter().any(|other| other.master == Some(ifindex)))
}
