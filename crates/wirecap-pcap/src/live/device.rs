//! Which devices the engine serves, and how they are named.
//!
//! | name | served |
//! |---|---|
//! | `eth1`, an Ethernet interface | by the engine; passively if the host uses it |
//! | `eth1@2`, `xdp:eth1`, `tap:eth1`, `packet:eth1` | by the engine, as its ports are named |
//! | any of them with `?M=256&R=500` behind | with these settings |
//! | `any`, `lo`, tunnels, Wi-Fi in monitor mode, USB, Bluetooth, nflog, D-Bus, remote devices | by libpcap |

use std::{
    ffi::{CStr, CString},
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

use wirecap::{
    Access, PortSpec,
    config::prefix::{PACKET, TAP, XDP},
};

/// A device that the engine serves.
#[derive(Debug)]
pub(crate) struct Device {
    /// What the program calls it.
    pub(crate) name: String,
    pub(crate) port: PortSpec,
    /// The interface, as libpcap knows it.
    pub(crate) interface: CString,
    /// What stands behind the question mark.
    pub(crate) options: String,
}

impl Device {
    /// The device of this name; `None` if libpcap serves it.
    pub(crate) fn named(name: &str) -> Option<Self> {
        // A program can be told to do without, whoever has preloaded this library.
        if crate::environment::variable("WIRECAP_OFF").is_some_and(|value| value != "0") {
            return None;
        }
        let (port, options) = name.split_once('?').unwrap_or((name, ""));
        let port: PortSpec = port.parse().ok()?;
        let PortSpec::Interface { name: interface, .. } = &port else { return None };
        let interface = CString::new(interface.as_str()).ok()?;
        (hardware_type(&interface)? == libc::ARPHRD_ETHER).then(|| Self {
            name: name.into(),
            options: options.into(),
            interface,
            port,
        })
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

/// Other names of an interface, if the engine serves it.
pub(crate) fn variants(interface: &str) -> Vec<ListedDevice> {
    if Device::named(interface).is_none() {
        return Vec::new();
    }
    let listed = |name: String, description| ListedDevice { name, description };
    let mut devices = vec![
        listed(format!("{XDP}{interface}"), format!("{interface}, taken from the host (wirecap, XDP)")),
        listed(format!("{TAP}{interface}"), format!("{interface}, beside the host (wirecap, a tap)")),
        listed(format!("{PACKET}{interface}"), format!("{interface}, beside the host (wirecap, AF_PACKET)")),
    ];
    let queues = wirecap::queue_devices(interface).unwrap_or_default();
    if queues.len() > 1 {
        devices.extend(queues.into_iter().map(|queue| {
            let description = format!("receive queue {} of {interface} (wirecap)", queue.queue);
            listed(queue.name, description)
        }));
    }
    devices
}

/// The type of an interface, as <net/if_arp.h> numbers them; `None` if there is none of this name here.
fn hardware_type(interface: &CStr) -> Option<u16> {
    let name = interface.to_bytes();
    // SAFETY: a system call without pointers.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    // SAFETY: the descriptor is new, and nobody else's.
    let socket = (socket >= 0).then(|| unsafe { OwnedFd::from_raw_fd(socket) })?;
    // SAFETY: a structure of integers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let field = request.ifr_name.get_mut(..name.len()).filter(|field| field.len() < libc::IFNAMSIZ)?;
    field.iter_mut().zip(name).for_each(|(to, &from)| *to = from as _);
    // SAFETY: the request lives through the call, and its name ends with a zero byte.
    let answered = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR, &raw mut request) };
    // SAFETY: all members are integers, so any bytes are values.
    let family = unsafe { request.ifr_ifru.ifru_hwaddr.sa_family };
    (answered == 0).then_some(family)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_and_what_is_no_interface_are_libpcaps() {
        assert_eq!(hardware_type(c"lo"), Some(libc::ARPHRD_LOOPBACK));
        assert_eq!(hardware_type(c"a-name-that-is-much-too-long"), None);
        for name in
            ["lo", "any", "", "rpcap://host/eth1", "trace:file", "nflog:3", "no-such", "xdp:lo", "lo?M=2"]
        {
            assert!(Device::named(name).is_none(), "{name}");
        }
    }
}
