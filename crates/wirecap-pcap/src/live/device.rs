//! Which devices the engine serves, and how they are named.
//!
//! | name | served |
//! |---|---|
//! | `eth1`, an Ethernet interface | by the engine; passively if the host uses it |
//! | `eth1@2`, `xdp:eth1`, `tap:eth1`, `packet:eth1` | by the engine, as its ports are named |
//! | any of them, followed by `?M=256&R=500` | by the engine, with these settings |
//! | `any`, `lo`, tunnels, Wi-Fi in monitor mode, USB, Bluetooth, nflog, D-Bus, remote devices | by libpcap |

use std::ffi::CString;

use wirecap::{
    Access, HostView, PortSpec,
    config::prefix::{PACKET, TAP, XDP},
};
use wirecap_sys::netdev::{self, HardwareType};

use crate::environment;

/// A device that the engine serves.
#[derive(Debug)]
pub(crate) struct Device {
    /// What the program calls it.
    pub(crate) name: String,
    pub(crate) port: PortSpec,
    /// The interface, as libpcap knows it.
    pub(crate) interface: CString,
    /// The settings after the question mark.
    pub(crate) options: String,
}

impl Device {
    /// The device of this name; `None` if libpcap serves it.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::look_up(name).ok().flatten()
    }

    /// As [`Device::named`].
    ///
    /// # Errors
    /// The kernel does not say whether there is such an interface: AppArmor keeps it from the program,
    /// perhaps.
    pub(crate) fn look_up(name: &str) -> Result<Option<Self>, netdev::Error> {
        let (port, options) = name.split_once('?').unwrap_or((name, ""));
        let Ok(port) = port.parse::<PortSpec>() else { return Ok(None) };
        let PortSpec::Interface { name: interface, .. } = &port else { return Ok(None) };
        if environment::is_off() {
            return Ok(None);
        }
        let found = match netdev::interface(interface) {
            Err(netdev::Error::NoSuchInterface { .. } | netdev::Error::NoSuchIndex(_)) => return Ok(None),
            found => found?,
        };
        // libpcap does not know long alternative names.
        let is_served = found.hardware_type == HardwareType::ETHERNET && found.name == *interface;
        let Some(interface) = CString::new(found.name).ok().filter(|_| is_served) else { return Ok(None) };
        Ok(Some(Self { name: name.into(), options: options.into(), interface, port }))
    }

    /// Whether the name leaves open how its packets are captured.
    pub(crate) fn is_any_access(&self) -> bool {
        matches!(self.port, PortSpec::Interface { access: Access::Auto, queues: None, .. })
    }
}

/// A device that only the engine has, for the list of devices.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ListedDevice {
    pub(crate) name: String,
    pub(crate) description: String,
}

/// The other names under which the engine serves an interface; not those by which it would be taken from a
/// host that uses it, since some programs open every device that is listed. `host`: `None` if it cannot be
/// known what the host uses.
pub(crate) fn variants(interface: &str, host: Option<&HostView>) -> Vec<ListedDevice> {
    if Device::named(interface).is_none() {
        return Vec::new();
    }
    let listed = |name: String, description| ListedDevice { name, description };
    let mut devices = vec![
        listed(format!("{TAP}{interface}"), format!("{interface}, beside the host (wirecap, a tap)")),
        listed(format!("{PACKET}{interface}"), format!("{interface}, beside the host (wirecap, AF_PACKET)")),
    ];
    let choice = host.and_then(|host| host.choose(interface).ok());
    if choice.is_none_or(|choice| choice.left_to_host.is_some()) {
        return devices;
    }
    let taken = format!("{interface}, taken from the host (wirecap, XDP)");
    devices.insert(0, listed(format!("{XDP}{interface}"), taken));
    let queues = wirecap::queue_devices(interface).unwrap_or_default();
    if queues.len() > 1 {
        devices.extend(queues.into_iter().map(|queue| {
            let description = format!("receive queue {} of {interface} (wirecap)", queue.queue);
            listed(queue.name, description)
        }));
    }
    devices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_and_what_is_no_interface_are_libpcaps() {
        let long = "a-name-that-is-much-too-long";
        for name in [
            "lo",
            "any",
            "",
            "rpcap://host/eth1",
            "trace:file",
            "nflog:3",
            "no-such",
            "xdp:lo",
            "lo?M=2",
            long,
        ] {
            assert!(Device::named(name).is_none(), "{name}");
        }
    }
}
