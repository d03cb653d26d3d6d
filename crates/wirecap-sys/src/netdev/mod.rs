//! Network interfaces: what they are, what they can do, how they fare.
//!
//! ```text
//!                    ┌ link          rtnetlink    name, state, MTU, MAC, XDP programs; IP addresses
//!  interface(name) ──┤ ethtool       ioctl        driver, queues, speed
//!                    ├ xdp_features  genetlink    what XDP can do here
//!                    └ numa          sysfs        memory node
//!
//!  Surroundings      both, /proc   what the host has around interfaces: on top of them, listeners, PPPoE, multicast
//!  find_route()      rtnetlink     routes over one interface
//!  bridge_table()    rtnetlink     Ethernet addresses it takes beside its own
//!  ingress_filters() rtnetlink     tc filters on what comes in
//!  LinkStatistics    rtnetlink     the kernel's counters
//!  LinkReader        both          counters and queues, asked again and again
//!  Promiscuous       PACKET        a mode that ends with the process
//!  HardwareStamping  ioctl         the NIC stamps what it receives, until this is dropped
//!  bypass_queueing() PACKET        frames straight to the driver
//!  longest_frame()   -             what the kernel lets out
//!  RssReader         ethtool       how receive queues are chosen: read and set
//!  Neighbours        rtnetlink     their Ethernet addresses, as the kernel finds them out
//!  NeighbourChanges  rtnetlink     found, stale, failed, removed: as it happens
//!  changes()         rtnetlink     down, up, removed: as it happens
//!  Namespace         /proc         doing something later where a thread was before
//!  LinkFault         rtnetlink     why nothing can be sent: down, no carrier, removed
//! ```
//!
//! Rule: every answer is about the *network namespace of the calling thread*, at the moment of the call. That
//! is why sockets are asked, and not sysfs, which shows the namespace it was mounted in. Nothing here needs
//! privilege but [`Promiscuous`], [`HardwareStamping`], [`Neighbours::ask`], [`Neighbours::forget`], [`RssReader::set`] and
//! [`Namespace::enter`].

mod bridge_table;
mod bypass;
mod changes;
mod error;
mod ethtool;
mod fault;
mod ingress;
mod link;
mod name;
mod namespace;
mod neighbour;
mod neighbour_changes;
mod neighbours;
mod netlink;
mod numa;
mod promiscuous;
mod reader;
mod routes;
mod rss;
mod stamping;
mod statistics;
mod subscription;
mod surroundings;
mod xdp_features;

use std::fmt;
use std::net::IpAddr;

pub use bridge_table::bridge_table;
pub use bypass::bypass_queueing;
pub use changes::{LinkChanges, LinkEvent, changes};
pub use error::{Error, Result};
use ethtool::Ethtool;
pub use fault::LinkFault;
pub use ingress::ingress_filters;
use link::{Link, Selector};
pub use namespace::Namespace;
pub use neighbour::{Neighbour, NeighbourState};
pub use neighbour_changes::{NeighbourChanges, NeighbourEvent};
pub use neighbours::Neighbours;
pub use promiscuous::Promiscuous;
pub use reader::{LinkReader, LinkState};
pub use routes::{Route, find_route};
pub use rss::{HashFunction, HashTransform, RssHash, RssReader};
pub use stamping::{HardwareStamping, StampAbilities, stamp_abilities};
pub use statistics::LinkStatistics;
pub use surroundings::{PacketSocket, PppoeSession, Surroundings, Upper};
pub use wirecap_headers::MacAddress;
use xdp_features::NetdevFamily;
pub use xdp_features::{RxMetadata, XdpFeatures};

/// A network interface, as it was when it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name, at most 15 bytes.
    pub name: String,
    /// Names it has besides (`ip link property add altname`), at most 127 bytes each. Each serves where a name is asked
    /// for.
    pub alternative_names: Vec<String>,
    /// Index: the same for as long as the interface exists in this namespace, while the name may change.
    pub ifindex: u32,
    /// Switched on by the administrator.
    pub up: bool,
    /// Switched on and connected; false whenever `up` is.
    pub carrier: bool,
    /// Largest packet without the link-layer header, in bytes.
    pub mtu: u32,
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
    /// How many want promiscuous mode: the administrator's flag and each [`Promiscuous`] or other capture
    /// count one.
    pub promiscuity: u32,
    /// The driver; `None` if it does not say (loopback).
    pub driver: Option<Driver>,
    /// Receive queues.
    pub queues: Queues,
    /// Link speed in Mb/s; `None` while it is not known, as without a carrier.
    pub speed_mbps: Option<u32>,
    /// Whether the NIC takes VLAN tags off packets that come in (`ethtool -k`: rx-vlan-offload); false if the driver does
    /// not say.
    pub takes_vlan_tags: bool,
    /// Memory node that the NIC is attached to; `None` if there is none, or it cannot be known in this
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
        self.name == name || self.alternative_names.iter().any(|alternative| alternative == name)
    }

    /// Whether the host can be reached over this interface: it has an IPv4 address, or an IPv6 address other
    /// than the link-local one that every interface gives itself.
    #[must_use]
    pub fn has_ip_address(&self) -> bool {
        self.addresses.iter().any(|address| !address.is_ipv6_link_local())
    }

    /// Whether it is in promiscuous mode now, whoever asked for it.
    #[must_use]
    pub fn is_promiscuous(&self) -> bool {
        self.promiscuity > 0
    }

    fn assemble(
        link: Link,
        addresses: &[(u32, InterfaceAddress)],
        ethtool: &Ethtool,
        features: Option<XdpFeatures>,
    ) -> Self {
        let ifindex = link.header.ifindex;
        Self {
            ifindex,
            up: link.header.up(),
            carrier: link.header.carrier(),
            mtu: link.mtu,
            hardware_type: link.hardware_type,
            mac: link.mac,
            addresses: InterfaceAddress::of(ifindex, addresses),
            master: link.master,
            peer: link.peer,
            promiscuity: link.promiscuity,
            driver: ethtool.driver(&link.name),
            queues: queues(&link, ethtool),
            speed_mbps: ethtool.speed_mbps(&link.name),
            takes_vlan_tags: ethtool.takes_vlan_tags(&link.name).unwrap_or(false),
            numa_node: numa::numa_node(&link.name, ifindex, link.mac),
            xdp_programs: link.xdp_programs,
            xdp_features: features,
            alternative_names: link.alternative_names,
            name: link.name,
        }
    }
}

/// All interfaces of this network namespace, sorted by index.
///
/// What a driver does not say is `None`, also where an interface vanishes while the list is made.
///
/// # Errors
/// [`Error::System`] if the kernel refuses a socket or a question, [`Error::Malformed`] if its answer makes
/// no sense.
pub fn interfaces() -> Result<Vec<Interface>> {
    let mut rtnetlink = link::open()?;
    let links = link::links(&mut rtnetlink)?;
    let addresses = link::addresses(&mut rtnetlink)?;
    let mut features = NetdevFamily::open()?.all()?;
    let ethtool = Ethtool::open()?;
    let assemble = |link: Link| {
        let features = features.remove(&link.header.ifindex);
        Interface::assemble(link, &addresses, &ethtool, features)
    };
    Ok(links.into_iter().map(assemble).collect())
}

/// The interface `name` of this network namespace; an alternative name serves as well.
///
/// ```
/// let loopback = wirecap_sys::netdev::interface("lo").unwrap();
/// assert_eq!((loopback.name.as_str(), loopback.mac), ("lo", None));
/// ```
///
/// # Errors
/// [`Error::NoSuchInterface`] with the names that look like it; [`Error::NameTooLong`] and
/// [`Error::NameInvalid`] for what cannot be a name; else as [`interfaces`].
pub fn interface(name: &str) -> Result<Interface> {
    interface_of(Selector::Name(name))
}

fn interface_of(selector: Selector<'_>) -> Result<Interface> {
    let mut rtnetlink = link::open()?;
    let link = link::link(&mut rtnetlink, selector)?;
    let addresses = link::addresses(&mut rtnetlink)?;
    let features = NetdevFamily::open()?.one(link.header.ifindex)?;
    Ok(Interface::assemble(link, &addresses, &Ethtool::open()?, features))
}

/// The XDP programs attached now to the interface with index `ifindex`, native first.
///
/// # Errors
/// [`Error::NoSuchIndex`] once the interface is gone; else as [`interfaces`].
pub fn xdp_programs(ifindex: u32) -> Result<Vec<AttachedProgram>> {
    Ok(link::link(&mut link::open()?, Selector::Index(ifindex))?.xdp_programs)
}

/// The interface with index `ifindex` of this network namespace, also after it was renamed.
///
/// # Errors
/// [`Error::NoSuchIndex`]; else as [`interfaces`].
pub fn interface_with_index(ifindex: u32) -> Result<Interface> {
    interface_of(Selector::Index(ifindex))
}

fn queues(link: &Link, ethtool: &Ethtool) -> Queues {
    match ethtool.channels(&link.name) {
        Some(channels) => {
            Queues { current: channels.current, max: channels.max, source: QueueSource::Driver }
        }
        None => {
            let allocated = link.rx_queues_allocated.max(1);
            Queues { current: allocated, max: allocated, source: QueueSource::Allocated }
        }
    }
}

/// How many transmit queues of an interface are in use, in the network namespace of the calling thread; `None` if its driver
/// does not say. Their numbers are 0 to one less.
///
/// # Errors
/// [`Error::System`] if there is no socket to ask through.
pub fn transmit_queues(interface: &str) -> Result<Option<u32>> {
    Ok(Ethtool::open()?.transmit_queues(interface))
}

/// Longest frame that the kernel lets out of an Ethernet interface with this MTU, both in bytes, without checksum (FCS): the
/// MTU, an Ethernet header and one VLAN tag, whether the frame has a tag or not. That is what it compares frames with that are
/// forwarded to a device (`__is_skb_forwardable` in linux/netdevice.h, as veth does) and redirected to one by XDP
/// (`xdp_ok_fwd_dev` in linux/filter.h). AF_XDP itself does not compare: what is longer, a driver takes or drops.
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

/// How many receive queues an interface has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queues {
    /// In use now: queue numbers are 0 to `current` - 1.
    pub current: u32,
    /// Most that can be configured (`ethtool -L`).
    pub max: u32,
    /// Who says so.
    pub source: QueueSource,
}

/// Where the number of queues comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueSource {
    /// The driver (ETHTOOL_GCHANNELS).
    Driver,
    /// The driver does not say; this is what the kernel allocated, of which the driver may use fewer.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachedProgram {
    /// Where it runs.
    pub mode: AttachedMode,
    /// Its number in the kernel, as `bpftool prog` shows it.
    pub program_id: u32,
}

/// Where an XDP program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttachedMode {
    /// In the driver, before the kernel has made anything of the packet.
    Native,
    /// In the network stack, on a packet buffer already allocated; works with any driver.
    Generic,
    /// On the NIC.
    Offload,
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
    fn of(ifindex: u32, addresses: &[(u32, InterfaceAddress)]) -> Vec<Self> {
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

    /// What packets of such an interface begin with: a link type of the registry of pcap (LINKTYPE_…), as libpcap has
    /// it. `None` where libpcap makes up a header of its own.
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

/// The Ethernet address that the kernel gives as a link's: `None` if it has another length (InfiniBand, tunnels) or is all zeros
/// (loopback).
fn mac_address(link_address: &[u8]) -> Option<MacAddress> {
    let octets: [u8; 6] = link_address.try_into().ok()?;
    (octets != [0; 6]).then_some(MacAddress(octets))
}
