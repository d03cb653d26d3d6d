//! A bridge: what comes in at one of its interfaces goes out of the others.

use std::fs;

use crate::{Error, Namespace};

/// A bridge of the kernel that learns nothing of multicast and filters nothing. Dropping it deletes it.
///
/// What comes in by an interface of a bridge has its outermost VLAN tag taken off by the kernel, which keeps
/// it beside the packet from there on: behind a bridge, frames are as a NIC gives them that takes tags off.
#[derive(Debug)]
pub struct Bridge {
    namespace: Namespace,
    name: String,
}

impl Bridge {
    /// Makes a bridge of these interfaces of a namespace.
    ///
    /// # Errors
    /// [`Error::Failed`] with the words of ip(8).
    pub fn new(namespace: &Namespace, name: &str, interfaces: &[&str]) -> Result<Self, Error> {
        namespace.ip(&["link", "add", name, "type", "bridge", "mcast_snooping", "0"])?;
        let bridge = Self { namespace: namespace.clone(), name: name.into() };
        // Frames that are no good IPv4 would not get through; without netfilter there is nothing to switch
        // off.
        let unfiltered = || fs::write("/proc/sys/net/bridge/bridge-nf-call-iptables", "0");
        let _ = namespace.enter(unfiltered);
        for interface in interfaces {
            namespace.ip(&["link", "set", "dev", interface, "master", name])?;
        }
        namespace.ip(&["link", "set", "dev", name, "up"])?;
        Ok(bridge)
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // It may be gone already, or go with its namespace.
        let _ = self.namespace.ip(&["link", "del", "dev", &self.name]);
    }
}
