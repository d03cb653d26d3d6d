//! How the host, or another program of it, uses an interface, as data.

use std::net::Ipv4Addr;

use serde::{Serialize, Serializer};
use wirecap_headers::MacAddress;
use wirecap_sys::{
    netdev::{InterfaceAddress, Route},
    process::Process,
};

use super::{as_text, as_text_or_null};

/// EtherType of the link layer discovery protocol (IEEE 802.1AB).
const ETHERTYPE_LLDP: u16 = 0x88cc;

/// One way in which an interface is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum HostUse {
    /// It has an IP address that is not link-local of IPv6.
    Address {
        /// The address.
        #[serde(serialize_with = "as_text")]
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        address: InterfaceAddress,
    },
    /// Something on top of it is in use.
    Upper {
        /// Name of that interface.
        name: String,
        /// A bridge, bond or the like that it is a member of.
        is_master: bool,
        /// Its IP address, if it has one.
        #[serde(serialize_with = "as_text_or_null")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
        address: Option<InterfaceAddress>,
    },
    /// An interface of another network namespace is on top of it and up, such as a container's macvlan.
    HiddenUpper {
        /// Ethernet addresses that may be those of such interfaces: one with the address of this one has no
        /// other.
        #[serde(serialize_with = "as_texts")]
        #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
        addresses: Vec<MacAddress>,
    },
    /// It takes frames to an Ethernet address that is not its own.
    ForeignAddress {
        /// The address.
        #[serde(serialize_with = "as_text")]
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        address: MacAddress,
    },
    /// It has no address, and a route leads over it: it is unnumbered.
    Route {
        /// The network, or `default`.
        #[serde(serialize_with = "as_text")]
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        destination: Route,
        /// Number of the routing table; 254 is the main one.
        table: u32,
    },
    /// A PPPoE session of the kernel runs over it.
    PppoeSession {
        /// Number of the session.
        session: u16,
        /// The other end.
        #[serde(serialize_with = "as_text")]
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        peer: MacAddress,
    },
    /// The host has joined a group of IPv4 multicast on it, as routing daemons do.
    MulticastGroup {
        /// The group.
        group: Ipv4Addr,
    },
    /// Processes listen on it by AF_PACKET. They hear nothing of what is taken.
    Listener {
        /// EtherType that they listen for; 3 is all.
        protocol: u16,
        /// Whether they listen on all interfaces.
        on_all_interfaces: bool,
        /// The processes; empty if they cannot be seen.
        processes: Vec<Process>,
        /// The inodes of their sockets, as `ss -0e` shows them.
        sockets: Vec<u64>,
    },
    /// A filter of traffic control looks at what comes in.
    IngressFilter {
        /// Its kind, and its program if it has one: `u32`, `bpf mirror.o`.
        filter: String,
    },
    /// A BPF program looks at what comes in, attached by TCX.
    IngressProgram {
        /// Its number in the kernel.
        program_id: u32,
        /// Its name; `None` without the privilege to ask.
        program: Option<String>,
        /// The processes that hold it; empty if they cannot be seen, or if none does.
        processes: Vec<Process>,
    },
    /// An XDP program is attached, and sees packets before anything else does.
    XdpProgram {
        /// Its number in the kernel.
        program_id: u32,
        /// Its name; `None` without the privilege to ask.
        program: Option<String>,
    },
    /// Whether it is used in some way cannot be known.
    Unknown {
        /// In which way.
        what: Sight,
        /// Why it cannot be known.
        reason: String,
    },
}

/// What may be impossible to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Sight {
    /// Addresses, routes and what is on top.
    Addresses,
    /// Interfaces of other network namespaces on top, and multicast groups.
    HiddenUppers,
    /// The bridge table.
    BridgeTable,
    /// PPPoE sessions.
    PppoeSessions,
    /// AF_PACKET sockets.
    Listeners,
    /// Filters of traffic control and TCX programs.
    IngressFilters,
}

impl HostUse {
    /// Whether such an interface is left to the host unless it is asked for by `xdp:`.
    pub fn keeps_interface(&self) -> bool {
        match self {
            HostUse::Listener { protocol, .. } => *protocol != ETHERTYPE_LLDP,
            HostUse::XdpProgram { .. } | HostUse::Unknown { .. } => false,
            _ => true,
        }
    }

    /// Whether sending without a copy may disturb such a user: zero-copy takes the receive queue of the same
    /// number as well.
    pub fn forbids_zero_copy_sending(&self) -> bool {
        self.keeps_interface() || matches!(self, HostUse::XdpProgram { .. })
    }
}

/// Why an interface is captured passively although that was not asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PassiveReason {
    /// AF_XDP captures Ethernet interfaces only.
    NotEthernet {
        /// What it is.
        kind: String,
    },
    /// It is in use in these ways, the most telling one first.
    InUse(Vec<HostUse>),
}

impl PassiveReason {
    /// The reason that these uses are, if they are one.
    pub(crate) fn for_uses(uses: &[HostUse]) -> Option<Self> {
        let keep: Vec<_> = uses.iter().filter(|host_use| host_use.keeps_interface()).cloned().collect();
        (!keep.is_empty()).then_some(PassiveReason::InUse(keep))
    }
}

fn as_texts<S: Serializer>(values: &[MacAddress], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(ToString::to_string))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lldp_xdp_and_unknown_uses_do_not_keep_an_interface() {
        let listener = |protocol| {
            let (processes, sockets) = (Vec::new(), Vec::new());
            HostUse::Listener { protocol, on_all_interfaces: false, processes, sockets }
        };
        let xdp = HostUse::XdpProgram { program_id: 1, program: None };
        let unknown = HostUse::Unknown { what: Sight::Addresses, reason: String::new() };
        let others = [listener(ETHERTYPE_LLDP), xdp.clone(), unknown];
        assert_eq!(PassiveReason::for_uses(&others), None);
        assert!(xdp.forbids_zero_copy_sending());
        let ids = listener(3);
        let all = [others.as_slice(), std::slice::from_ref(&ids)].concat();
        assert_eq!(PassiveReason::for_uses(&all), Some(PassiveReason::InUse(vec![ids])));
    }
}
