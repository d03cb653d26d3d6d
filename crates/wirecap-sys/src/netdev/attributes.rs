//! What an interface is made of, as plain values.

use std::fmt;
use std::net::IpAddr;

use serde::Serialize;
use wirecap_core::choices;

#[cfg(doc)]
use super::PromiscuousMode;
use super::{MacAddress, xdp_features::XdpFeatures};

/// A network interface, as it was when it was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Name, at most 15 bytes.
    pub name: String,
    /// Its alternative names (`ip link property add altname`), at most 127 bytes each. Each is accepted
    /// wherever a name is.
    pub alternative_names: Vec<String>,
    /// Index: the same for as long as the interface exists in this namespace, while the name may change.
    pub ifindex: u32,
    /// Switched on by the administrator.
    pub up: bool,
    /// Switched on and connected; false whenever `up` is.
    pub carrier: bool,
    /// Largest packet without the link-layer header, in bytes.
    pub mtu: u32,
    /// Longest packet that the host hands to it in one piece (`gso_max_size`) or puts together from those
    /// that come in (`gro_max_size`), without the link-layer header, in bytes; 0 if the kernel does not say.
    pub longest_aggregate: u32,
    /// What its packets begin with.
    pub hardware_type: HardwareType,
    /// Hardware address; `None` where the type has none of 6 bytes, or it is all zeros (loopback).
    pub mac: Option<MacAddress>,
    /// IP addresses of the host on this interface, link-local ones included.
    pub addresses: Vec<InterfaceAddress>,
    /// Index of the bridge, bond, … that this interface is a member of.
    pub master: Option<u32>,
    /// Index of the other end of a pair such as veth, if it is in this namespace.
    pub peer: Option<u32>,
    /// Requests for promiscuous mode: the administrator's flag, and one for each [`PromiscuousMode`] or other
    /// capture.
    pub promiscuity: u32,
    /// The driver; `None` if it does not say (loopback).
    pub driver: Option<Driver>,
    /// Receive queues.
    pub queues: Queues,
    /// Link speed in Mb/s; `None` while it is not known, as without a carrier.
    pub speed_mbps: Option<u32>,
    /// Whether the NIC takes VLAN tags off packets that come in (`ethtool -k`: rx-vlan-offload); false if the
    /// driver does not say.
    pub takes_vlan_tags: bool,
    /// Memory node that the NIC is attached to; `None` if it has none, or the node is unknown in this
    /// namespace.
    pub numa_node: Option<u32>,
    /// XDP programs attached now, native first; empty if none is. More than one are attached in different
    /// modes.
    pub xdp_programs: Vec<AttachedProgram>,
    /// What XDP can do; `None` ("unknown") on kernels older than 6.3.
    pub xdp_features: Option<XdpFeatures>,
}

impl Interface {
    /// Whether this is its name, or one of its alternative names.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.names().any(|own| own == name)
    }

    /// Every name it has, the alternative ones last.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        [&self.name].into_iter().chain(&self.alternative_names)
    }
}

/// How many receive queues an interface has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queues {
    /// In use now: queue numbers are 0 to `current` - 1.
    pub current: u32,
    /// Most that can be configured (`ethtool -L`).
    pub max: u32,
    /// Who says so.
    pub source: QueueSource,
}

/// Where the number of queues comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueSource {
    /// The driver (ETHTOOL_GCHANNELS).
    Driver,
    /// The driver does not say; this is what the kernel allocated, of which the driver may use fewer.
    #[default]
    Allocated,
}

/// The driver of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// Name of the driver, like `ixgbe` or `veth`.
    pub name: String,
    /// Its version; drivers of the kernel tree report the kernel's.
    pub version: Option<String>,
    /// Version of the NIC's firmware.
    pub firmware: Option<String>,
    /// Where the device is, like the PCI address `0000:03:00.1`; `None` for virtual devices.
    pub bus: Option<String>,
}

/// An XDP program that is attached to an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AttachedProgram {
    /// Where it runs.
    pub mode: AttachedMode,
    /// Its number in the kernel, as `bpftool prog` shows it.
    pub program_id: u32,
}

choices! {
    /// Where an XDP program runs.
    #[derive(PartialOrd, Ord)]
    pub enum AttachedMode {
        /// In the driver, before the kernel has made anything of the packet.
        Native = "native",
        /// In the network stack, on a packet buffer already allocated; works with any driver.
        Generic = "generic",
        /// On the NIC.
        Offload = "offload",
    }
}

/// An IP address of the host, and how much of it is the network's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The host's own address.
    pub address: IpAddr,
    /// Length of the network prefix in bits.
    pub prefix_length: u8,
}

impl InterfaceAddress {
    /// Those of one link.
    pub(super) fn of(ifindex: u32, addresses: &[(u32, InterfaceAddress)]) -> Vec<Self> {
        addresses.iter().filter(|(index, _)| *index == ifindex).map(|(_, address)| *address).collect()
    }

    /// Whether it is a link-local one of IPv6, which every interface gives itself: no sign that the host uses
    /// the interface.
    #[must_use]
    pub fn is_ipv6_link_local(&self) -> bool {
        matches!(self.address, IpAddr::V6(address) if address.is_unicast_link_local())
    }
}

impl fmt::Display for InterfaceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_length)
    }
}

/// The kernel's ARPHRD_ number of a link: it decides which header a packet begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HardwareType(pub u16);

impl HardwareType {
    /// ARPHRD_ETHER: 14 bytes of Ethernet header. Also veth, bridges, bonds and most Wi-Fi.
    pub const ETHERNET: Self = Self(libc::ARPHRD_ETHER);
    /// ARPHRD_LOOPBACK: Ethernet headers with zeros for addresses.
    pub const LOOPBACK: Self = Self(libc::ARPHRD_LOOPBACK);
    /// ARPHRD_NONE: no header, packets begin with IP (tun, WireGuard).
    pub const NONE: Self = Self(libc::ARPHRD_NONE);
    /// ARPHRD_IEEE80211_RADIOTAP: Wi-Fi in monitor mode.
    pub const RADIOTAP: Self = Self(libc::ARPHRD_IEEE80211_RADIOTAP);

    /// What packets of such an interface begin with: a link type of the registry of pcap (LINKTYPE_…), as
    /// libpcap has it. `None` where libpcap makes up a header of its own.
    pub fn link_type(self) -> Option<u16> {
        match self.0 {
            libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => Some(1),
            // They begin with IPv4 or IPv6: tun, WireGuard, and tunnels of IP in IP.
            libc::ARPHRD_NONE
            | ARPHRD_RAWIP
            | libc::ARPHRD_TUNNEL
            | libc::ARPHRD_TUNNEL6
            | libc::ARPHRD_SIT => Some(101),
            libc::ARPHRD_IEEE80211 => Some(105),
            libc::ARPHRD_IEEE80211_RADIOTAP => Some(127),
            _ => None,
        }
    }
}

/// `ARPHRD_RAWIP` of `<linux/if_arp.h>`, which libc does not have.
const ARPHRD_RAWIP: u16 = 519;

impl fmt::Display for HardwareType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ETHERNET => f.write_str("ethernet"),
            Self::LOOPBACK => f.write_str("loopback"),
            Self::NONE => f.write_str("none"),
            Self::RADIOTAP => f.write_str("radiotap"),
            Self(number) => write!(f, "type {number}"),
        }
    }
}

/// The Ethernet address that the kernel gives as a link's: `None` if it has another length (InfiniBand,
/// tunnels) or is all zeros (loopback).
pub(super) fn mac_address(link_address: &[u8]) -> Option<MacAddress> {
    let octets: [u8; 6] = link_address.try_into().ok()?;
    (octets != [0; 6]).then_some(MacAddress(octets))
}

/// Longest frame that the kernel lets out of an Ethernet interface with this MTU, both in bytes, without
/// checksum (FCS): the MTU, an Ethernet header and one VLAN tag, whether the frame has a tag or not. That is
/// what it compares frames with that are forwarded to a device (`__is_skb_forwardable` in linux/netdevice.h,
/// as veth does) and redirected to one by XDP (`xdp_ok_fwd_dev` in linux/filter.h). AF_XDP itself does not
/// compare: what is longer, a driver takes or drops.
///
/// ```
/// assert_eq!(wirecap_sys::netdev::longest_frame(1500), 1518);
/// ```
#[must_use]
pub fn longest_frame(mtu: u32) -> u32 {
    const ETHERNET_HEADER_BYTES: u32 = 14;
    const VLAN_TAG_BYTES: u32 = 4;
    mtu.saturating_add(ETHERNET_HEADER_BYTES + VLAN_TAG_BYTES)
}
