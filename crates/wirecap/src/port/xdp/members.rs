//! Interfaces whose driver runs a program on other interfaces.

use wirecap_sys::netdev::Interface;

/// The driver, if it runs the program on the members of the interface, where packets have the queues of the
/// members: on several CPUs at a time for one number of a queue, and `xsk_rcv_check()` of the kernel drops
/// those for a socket of the interface.
///
/// See `bond_xdp_set()` and `netvsc_vf_setxdp()` of the kernel. Also without a member: a bond gets others,
/// and the hypervisor takes a virtual function away and brings it back while the machine runs; those that
/// come later get the program, too.
pub(super) fn running_driver(interface: &Interface) -> Option<&str> {
    let driver = interface.driver.as_ref().map_or("", |driver| &driver.name);
    ["bonding", "hv_netvsc"].contains(&driver).then_some(driver)
}
