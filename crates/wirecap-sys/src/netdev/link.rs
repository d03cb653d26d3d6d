//! What rtnetlink says about a link and its addresses: RTM_GETLINK and RTM_GETADDR.
//!
//! ```text
//!  RTM_NEWLINK = ifinfomsg (16 bytes) + IFLA_IFNAME, IFLA_MTU, IFLA_XDP { … }, …
//!  RTM_NEWADDR = ifaddrmsg  (8 bytes) + IFA_LOCAL or IFA_ADDRESS
//! ```

use std::ffi::CStr;
use std::net::IpAddr;

use libc::{
    IFA_ADDRESS, IFA_LOCAL, IFLA_ADDRESS, IFLA_ALT_IFNAME, IFLA_EXT_MASK, IFLA_IFNAME, IFLA_INFO_KIND,
    IFLA_LINK, IFLA_LINK_NETNSID, IFLA_LINKINFO, IFLA_MASTER, IFLA_MTU, IFLA_NUM_RX_QUEUES, IFLA_PROMISCUITY,
    IFLA_PROP_LIST, IFLA_XDP, RTEXT_FILTER_SKIP_STATS, RTM_GETADDR, RTM_GETLINK,
};
use netlink_packet_core::{DecodeError, NlasIterator, parse_ip, parse_u32};
use netlink_sys::protocols::NETLINK_ROUTE;

use super::error::{Error, Result};
use super::name;
use super::netlink::{Conversation, Message, Scope, each_attribute, split_header};
use super::{AttachedMode, AttachedProgram, HardwareType, Interface, InterfaceAddress, mac_address};

// linux/if_link.h; not in libc.
const IFLA_GSO_MAX_SIZE: u16 = 41;
const IFLA_GRO_MAX_SIZE: u16 = 58;
const IFLA_GSO_IPV4_MAX_SIZE: u16 = 63;
const IFLA_GRO_IPV4_MAX_SIZE: u16 = 64;
const IFLA_XDP_DRV_PROG_ID: u16 = 5;
const IFLA_XDP_SKB_PROG_ID: u16 = 6;
const IFLA_XDP_HW_PROG_ID: u16 = 7;

/// Devices that come in pairs: there IFLA_LINK is the other end, not a device below.
const PAIR_KINDS: [&str; 3] = ["veth", "netkit", "vxcan"];

/// Devices on one other device, which hand the multicast addresses that they are asked for down to it
/// (`dev_mc_sync()` of the kernel).
const ONE_BELOW_KINDS: [&str; 6] = ["vlan", "macvlan", "macvtap", "ipvlan", "ipvtap", "macsec"];
/// The same for devices that have members.
const MEMBER_KINDS: [&str; 2] = ["bond", "team"];

/// Bytes of `struct ifinfomsg` and `struct ifaddrmsg`.
const IFINFOMSG_BYTES: usize = 16;
const IFADDRMSG_BYTES: usize = 8;
const _: () = assert!(size_of::<libc::ifinfomsg>() == IFINFOMSG_BYTES);
const _: () = assert!(size_of::<libc::ifaddrmsg>() == IFADDRMSG_BYTES);

/// How a caller names a link.
#[derive(Clone, Copy, Debug)]
pub(super) enum Selector<'a> {
    /// By name.
    Name(&'a str),
    /// By index.
    Index(u32),
}

/// The fixed header of RTM_NEWLINK and RTM_DELLINK.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkHeader {
    /// AF_UNSPEC for news of the link itself, AF_BRIDGE for news of its membership in a bridge.
    pub family: u8,
    pub hardware_type: u16,
    pub ifindex: u32,
    flags: u32,
}

impl LinkHeader {
    /// Reads `struct ifinfomsg`: family u8, pad u8, type u16, index i32, flags u32, change mask u32.
    pub fn parse(bytes: &[u8; IFINFOMSG_BYTES]) -> Self {
        Self {
            family: bytes[0],
            hardware_type: u16::from_ne_bytes([bytes[2], bytes[3]]),
            ifindex: u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
            flags: u32::from_ne_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]),
        }
    }

    /// Switched on by the administrator.
    pub fn up(&self) -> bool {
        self.flags & libc::IFF_UP as u32 != 0
    }

    /// Switched on and connected. The kernel does not report a carrier for a link that is switched off.
    pub fn carrier(&self) -> bool {
        self.flags & libc::IFF_LOWER_UP as u32 != 0
    }
}

/// A link as rtnetlink describes it.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// What rtnetlink says of the interface. Its addresses, and what its driver and others say, are not asked
    /// for yet.
    pub interface: Interface,
    /// The interface of this namespace that it is built on, as a VLAN is.
    pub lower: Option<u32>,
    /// To which devices it hands its multicast addresses down.
    pub multicast_targets: MulticastTargets,
    /// Receive queues allocated, of which the driver may use fewer.
    pub rx_queues_allocated: u32,
}

/// To which devices a device hands down the multicast addresses that it is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum MulticastTargets {
    /// None.
    #[default]
    Nowhere,
    /// The one below it, which may be in another namespace.
    ToOne,
    /// Some or all of its members.
    ToMembers,
}

/// All links of the namespace, sorted by index.
pub(super) fn links(rtnetlink: &mut Conversation) -> Result<Vec<Link>> {
    const ACTION: &str = "listing the interfaces";
    let request = link_request(0).with(IFLA_EXT_MASK, &(RTEXT_FILTER_SKIP_STATS as u32).to_ne_bytes());
    let replies = rtnetlink.ask(ACTION, Scope::All, &request)?;
    let mut links =
        replies.iter().map(|reply| parse_link(ACTION, &reply.payload)).collect::<Result<Vec<_>>>()?;
    links.sort_by_key(|link| link.interface.ifindex);
    links.dedup_by_key(|link| link.interface.ifindex);
    Ok(links)
}

/// One link.
pub(super) fn link(rtnetlink: &mut Conversation, selector: Selector<'_>) -> Result<Link> {
    let reply = raw_link(rtnetlink, selector, RTEXT_FILTER_SKIP_STATS as u32)?;
    parse_link("reading about an interface", &reply.payload)
}

/// The RTM_NEWLINK message of one link. `extra_mask` is RTEXT_FILTER_*.
pub(super) fn raw_link(
    rtnetlink: &mut Conversation,
    selector: Selector<'_>,
    extra_mask: u32,
) -> Result<Message> {
    let request = match selector {
        Selector::Index(ifindex) => link_request(ifindex),
        Selector::Name(name) => {
            name::check(name)?;
            let mut zero_terminated = name.as_bytes().to_vec();
            zero_terminated.push(0);
            // A short name may be of either kind; the kernel looks among both then.
            let is_short = name.len() <= crate::interface_name::MAX_NAME_BYTES;
            link_request(0).with(if is_short { IFLA_IFNAME } else { IFLA_ALT_IFNAME }, &zero_terminated)
        }
    };
    let request = request.with(IFLA_EXT_MASK, &extra_mask.to_ne_bytes());
    match rtnetlink.ask(&selector.action(), Scope::One, &request) {
        Ok(mut replies) if !replies.is_empty() => Ok(replies.swap_remove(0)),
        Ok(_) => Err(missing(rtnetlink, selector)),
        Err(error) if error.errno() == Some(libc::ENODEV) => Err(missing(rtnetlink, selector)),
        // The kernel's answer to index 0 and to indexes that do not fit its signed integer.
        Err(error) if error.errno() == Some(libc::EINVAL) && matches!(selector, Selector::Index(_)) => {
            Err(missing(rtnetlink, selector))
        }
        Err(error) => Err(error),
    }
}

impl Selector<'_> {
    fn action(&self) -> String {
        match self {
            Selector::Name(name) => format!("reading about interface {name:?}"),
            Selector::Index(ifindex) => format!("reading about the interface with index {ifindex}"),
        }
    }
}

fn link_request(ifindex: u32) -> Message {
    let mut header = [0; IFINFOMSG_BYTES];
    header[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    Message::new(RTM_GETLINK, &header)
}

/// The error for a link that does not exist. Without the existing names it has no suggestion.
fn missing(rtnetlink: &mut Conversation, selector: Selector<'_>) -> Error {
    match selector {
        Selector::Index(ifindex) => Error::NoSuchIndex(ifindex),
        Selector::Name(name) => {
            let existing = links(rtnetlink).unwrap_or_default();
            let names = existing.iter().flat_map(|link| link.interface.names());
            let nearest = name::nearest(name, names.map(String::as_str));
            Error::NoSuchInterface { name: name.to_owned(), nearest }
        }
    }
}

fn parse_link(action: &str, payload: &[u8]) -> Result<Link> {
    let (header, attributes) = split_header(action, payload)?;
    let header = LinkHeader::parse(header);
    let interface = Interface {
        ifindex: header.ifindex,
        up: header.up(),
        carrier: header.carrier(),
        hardware_type: HardwareType(header.hardware_type),
        ..Interface::default()
    };
    let mut link =
        Link { interface, lower: None, multicast_targets: MulticastTargets::Nowhere, rx_queues_allocated: 1 };
    let (mut foreign_lower, mut is_pair) = (false, false);
    each_attribute(action, attributes, |kind, value| {
        match kind {
            IFLA_IFNAME => link.interface.name = text(value),
            IFLA_MTU => link.interface.mtu = parse_u32(value)?,
            IFLA_GSO_MAX_SIZE | IFLA_GRO_MAX_SIZE | IFLA_GSO_IPV4_MAX_SIZE | IFLA_GRO_IPV4_MAX_SIZE => {
                let longest = &mut link.interface.longest_aggregate;
                *longest = parse_u32(value)?.max(*longest);
            }
            IFLA_ADDRESS => link.interface.mac = mac_address(value),
            IFLA_MASTER => link.interface.master = Some(parse_u32(value)?),
            IFLA_LINK => link.lower = Some(parse_u32(value)?),
            // The index is one of another namespace then.
            IFLA_LINK_NETNSID => foreign_lower = true,
            IFLA_LINKINFO => {
                // What a virtual device is, such as "vlan".
                let kinds = texts(value, IFLA_INFO_KIND)?;
                let is_one_of = |list: &[&str]| kinds.iter().any(|kind| list.contains(&kind.as_str()));
                is_pair = is_one_of(&PAIR_KINDS);
                if is_one_of(&ONE_BELOW_KINDS) {
                    link.multicast_targets = MulticastTargets::ToOne;
                } else if is_one_of(&MEMBER_KINDS) {
                    link.multicast_targets = MulticastTargets::ToMembers;
                }
            }
            IFLA_PROMISCUITY => link.interface.promiscuity = parse_u32(value)?,
            IFLA_NUM_RX_QUEUES => link.rx_queues_allocated = parse_u32(value)?,
            IFLA_XDP => link.interface.xdp_programs = parse_xdp(value)?,
            IFLA_PROP_LIST => link.interface.alternative_names = texts(value, IFLA_ALT_IFNAME)?,
            _ => {}
        }
        Ok(())
    })?;
    let near = link.lower.filter(|&lower| lower != 0 && !foreign_lower);
    (link.lower, link.interface.peer) = if is_pair { (None, near) } else { (near, None) };
    Ok(link)
}

/// The texts of the attributes of one kind that lie within another attribute.
pub(super) fn texts(value: &[u8], kind: u16) -> std::result::Result<Vec<String>, DecodeError> {
    let attributes =
        NlasIterator::new(value).filter(|found| !found.as_ref().is_ok_and(|found| found.kind() != kind));
    attributes.map(|attribute| Ok(text(attribute?.value()))).collect()
}

/// The programs attached, native first. The kernel (4.19 and newer) reports one attribute per mode in use.
fn parse_xdp(value: &[u8]) -> std::result::Result<Vec<AttachedProgram>, DecodeError> {
    let mut programs = Vec::new();
    for attribute in NlasIterator::new(value) {
        let attribute = attribute?;
        let mode = match attribute.kind() {
            IFLA_XDP_DRV_PROG_ID => AttachedMode::Native,
            IFLA_XDP_SKB_PROG_ID => AttachedMode::Generic,
            IFLA_XDP_HW_PROG_ID => AttachedMode::Offload,
            _ => continue,
        };
        programs.push(AttachedProgram { mode, program_id: parse_u32(attribute.value())? });
    }
    programs.sort_by_key(|program| program.mode);
    Ok(programs)
}

/// The zero-terminated text of an attribute. Interface names are bytes; one that is no UTF-8 gets replacement
/// signs.
pub(super) fn text(value: &[u8]) -> String {
    match CStr::from_bytes_until_nul(value) {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => String::from_utf8_lossy(value).into_owned(),
    }
}

/// The addresses of all links of the namespace, each with the index of its link.
pub(super) fn addresses(rtnetlink: &mut Conversation) -> Result<Vec<(u32, InterfaceAddress)>> {
    const ACTION: &str = "listing the IP addresses";
    let request = Message::new(RTM_GETADDR, &[0; IFADDRMSG_BYTES]);
    let replies = rtnetlink.ask(ACTION, Scope::All, &request)?;
    let parsed = replies.iter().map(|reply| parse_address(ACTION, &reply.payload));
    parsed.filter_map(Result::transpose).collect()
}

/// `None` for a message without an IP address, such as one of another address family.
fn parse_address(action: &str, payload: &[u8]) -> Result<Option<(u32, InterfaceAddress)>> {
    let (header, attributes) = split_header::<IFADDRMSG_BYTES>(action, payload)?;
    if !matches!(i32::from(header[0]), libc::AF_INET | libc::AF_INET6) {
        return Ok(None);
    }
    let prefix_length = header[1];
    let ifindex = u32::from_ne_bytes([header[4], header[5], header[6], header[7]]);
    // IFA_ADDRESS is the other end's address on a point-to-point link, where IFA_LOCAL is there too.
    let (mut local, mut address) = (None::<IpAddr>, None::<IpAddr>);
    each_attribute(action, attributes, |kind, value| {
        match kind {
            IFA_LOCAL => local = Some(parse_ip(value)?),
            IFA_ADDRESS => address = Some(parse_ip(value)?),
            _ => {}
        }
        Ok(())
    })?;
    Ok(local.or(address).map(|address| (ifindex, InterfaceAddress { address, prefix_length })))
}

/// Opens the socket for the questions of this file.
pub(super) fn open() -> Result<Conversation> {
    Conversation::open(NETLINK_ROUTE)
}

#[cfg(test)]
pub(super) mod tests;
