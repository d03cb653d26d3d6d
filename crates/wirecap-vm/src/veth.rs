//! A pair of virtual interfaces, for cases that need no NIC.

use crate::machine::{run, try_run};

pub(crate) const VETH: &str = "veth0";
/// Its other end.
const PEER: &str = "veth1";
/// What leaves here comes in at [`VETH`], over a bridge.
pub(crate) const SOURCE: &str = "source0";
const SOURCE_PEER: &str = "source1";
const BRIDGE: &str = "bridge0";

/// The pair exists while `body` runs, unless that deletes it.
pub(crate) fn with_veth(body: impl FnOnce()) {
    let _pair = add_pair(VETH, PEER);
    body();
}

/// The pair, and [`SOURCE`], from which frames come with their outermost VLAN tag beside them: the kernel
/// takes it off a frame that comes in to a bridge.
pub(crate) fn with_tags_beside(body: impl FnOnce()) {
    with_veth(|| {
        let _source = add_pair(SOURCE, SOURCE_PEER);
        run("ip", &["link", "add", BRIDGE, "up", "type", "bridge"]);
        let _bridge = Link(BRIDGE);
        for member in [SOURCE_PEER, PEER] {
            run("ip", &["link", "set", member, "master", BRIDGE]);
        }
        body();
    });
}

fn add_pair(name: &'static str, peer: &str) -> Link {
    run("ip", &["link", "add", name, "type", "veth", "peer", "name", peer]);
    run("ip", &["link", "set", name, "up"]);
    run("ip", &["link", "set", peer, "up"]);
    Link(name)
}

pub(crate) fn delete() {
    run("ip", &["link", "del", VETH]);
}

/// An interface that is deleted with this, also when a case fails: the next one adds it again. A body may
/// have deleted it already.
struct Link(&'static str);

impl Drop for Link {
    fn drop(&mut self) {
        let _ = try_run("ip", &["link", "del", self.0]);
    }
}
