//! A bridge: it forwards the frames of each of its interfaces to the others.

use std::fs;

use crate::{Error, Namespace};

/// A kernel bridge without multicast snooping and without filters. Dropping it deletes it.
///
/// The kernel removes the outermost VLAN tag of a frame that enters a bridge, and stores it beside the
/// packet: behind a bridge, frames look as if a NIC had removed their tags.
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
        // Netfilter on bridges would drop frames with invalid IPv4. A kernel without it lacks the file.
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
        // The bridge may be gone already, or go with its namespace.
        let _ = self.namespace.ip(&["link", "del", "dev", &self.name]);
    }
}
