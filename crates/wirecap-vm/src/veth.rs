//! A pair of virtual interfaces, for cases that need no NIC.

use wirecap_sys::netdev;

use crate::machine::run;

pub(crate) const VETH: &str = "veth0";
/// Its other end.
const PEER: &str = "veth1";
/// What leaves here comes in at [`VETH`], over a bridge.
pub(crate) const SOURCE: &str = "source0";
const SOURCE_PEER: &str = "source1";
const BRIDGE: &str = "bridge0";

/// The pair exists while `body` runs, unless that deletes it.
pub(crate) fn with_veth(body: impl FnOnce()) {
    add_pair(VETH, PEER);
    body();
    if netdev::interface(VETH).is_ok() {
        delete();
    }
}

/// The pair, and [`SOURCE`], from which frames come with their outermost VLAN tag beside them: the kernel
/// takes it off a frame that comes in to a bridge.
pub(crate) fn with_tags_beside(body: impl FnOnce()) {
    with_veth(|| {
        add_pair(SOURCE, SOURCE_PEER);
        run("ip", &["link", "add", BRIDGE, "up", "type", "bridge"]);
        for member in [SOURCE_PEER, PEER] {
            run("ip", &["link", "set", member, "master", BRIDGE]);
        }
        body();
        run("ip", &["link", "del", SOURCE]);
        run("ip", &["link", "del", BRIDGE]);
    });
}

fn add_pair(name: &str, peer: &str) {
    run("ip", &["link", "add", name, "type", "veth", "peer", "name", peer]);
    run("ip", &["link", "set", name, "up"]);
    run("ip", &["link", "set", peer, "up"]);
}

pub(crate) fn delete() {
    run("ip", &["link", "del", VETH]);
}
