//! A pair of virtual interfaces, for cases that need no NIC.

use wirecap_sys::netdev;

use crate::machine::run;

pub(crate) const VETH: &str = "veth0";
/// Its other end.
pub(crate) const PEER: &str = "veth1";

/// The pair exists while `body` runs, unless that deletes it.
pub(crate) fn with_veth(body: impl FnOnce()) {
    run("ip", &["link", "add", VETH, "type", "veth", "peer", "name", PEER]);
    run("ip", &["link", "set", VETH, "up"]);
    run("ip", &["link", "set", PEER, "up"]);
    body();
    if netdev::interface(VETH).is_ok() {
        delete();
    }
}

pub(crate) fn delete() {
    run("ip", &["link", "del", VETH]);
}
