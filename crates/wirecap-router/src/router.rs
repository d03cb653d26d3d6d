//! What a router decides before it needs the Ethernet addresses of next hops: which port a packet goes out
//! of, and to which next hop.
//!
//! ```text
//!   for this router's Ethernet address? ─► header, addresses ─► filter ─► longest prefix ─► TTL ─► link, MTU ─► path: port, next hop
//!                                             └─ discarded                     └───────────┴────────────┴─► answered, if its sender is to know
//! ```
//!
//! Packets that are not to be routed never come here: the filter in front ([`Router::capture_filter`]) leaves
//! ARP, neighbour discovery, multicast and packets for the router's own addresses to the host, which answers
//! them and keeps the neighbours.
//!
//! Rule: before anything else is made of a packet, its header is valid and its addresses are such as may be
//! forwarded from and to (RFC 1812, sections 5.2.2, 5.3.4, 5.3.5 and 5.3.7; RFC 2644).

use std::{net::IpAddr, sync::Arc, time::Instant};

use ipnet::IpNet;
use wirecap_filter::{Filter, UserFilter};
use wirecap_headers::{Layout, MacAddress, SourceMac, Ttl};
use wirecap_sys::netdev::Interface;

use crate::{
    DropCause, Error, NextHop, Route, Routes,
    addresses::Addresses,
    limit::Limit,
    neighbours::{Hop, UnresolvedHop},
    own_macs::OwnMacs,
    source::Source,
    valid_ip,
};

/// What a router has to know of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterPort {
    /// Its name first, then its alternative names: a route may use any.
    pub names: Vec<String>,
    /// Its index, by which the kernel knows its neighbours.
    pub ifindex: u32,
    /// Its Ethernet address.
    pub mac: Option<MacAddress>,
    /// The router's addresses on it, each with the prefix length of its network.
    pub addresses: Vec<IpNet>,
}

impl From<&Interface> for RouterPort {
    fn from(interface: &Interface) -> Self {
        let names = interface.names();
        let addresses = interface.addresses.iter();
        Self {
            names: names.cloned().collect(),
            ifindex: interface.ifindex,
            mac: interface.mac,
            addresses: addresses.filter_map(|own| IpNet::new(own.address, own.prefix_length).ok()).collect(),
        }
    }
}

impl RouterPort {
    fn name(&self) -> String {
        self.names.first().cloned().unwrap_or_default()
    }
}

/// Routes, ports and their addresses: the same for all workers. It does not change while it is in use.
///
/// # Example
///
/// ```
/// use wirecap_headers::Ttl;
/// use wirecap_router::{Router, RouterPort};
///
/// let port = RouterPort {
///     names: vec!["eth1".into()],
///     ifindex: 2,
///     mac: Some("02:00:00:00:00:01".parse()?),
///     addresses: vec!["192.0.2.254/24".parse()?],
/// };
/// let router = Router::new("192.0.2.0/24 dev eth1".parse()?, &[port.clone()], Ttl::Decrement)?;
/// assert!(router.capture_filter().ends_with("not (dst host 192.0.2.254)"));
///
/// let error = Router::new("default dev eth9".parse()?, &[port], Ttl::Decrement).unwrap_err();
/// assert_eq!(error.to_string(), "routes name the device eth9, but the interfaces are eth1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Router {
    pub(crate) routes: Routes,
    /// Port of each device of the routes.
    pub(crate) port_of: Vec<usize>,
    pub(crate) macs: Arc<OwnMacs>,
    /// Interface indexes of the ports.
    pub(crate) ifindexes: Vec<u32>,
    pub(crate) addresses: Addresses,
    ttl: Ttl,
    /// What is forwarded at all, if not everything.
    filter: Option<UserFilter>,
    /// On ICMP errors of all workers.
    pub(crate) error_limit: Limit,
}

/// The way of a packet, before the Ethernet address of its next hop is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Path {
    /// Which port it goes out of.
    pub(crate) port: usize,
    pub(crate) to: Receiver,
    layout: Layout,
    /// Offset in the frame at which the IP packet ends.
    pub(crate) end: usize,
}

/// Where a packet is sent next.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Receiver {
    Mac(MacAddress),
    /// To a next hop whose Ethernet address has to be known.
    Hop(UnresolvedHop),
}

/// A packet that may be forwarded: its addresses, and the offset in the frame at which it ends.
#[derive(Debug, Clone, Copy)]
struct ValidPacket {
    source: IpAddr,
    destination: IpAddr,
    end: usize,
}

/// The link of a port, for packets that go out of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutgoingLink {
    /// The longest IP packet that it takes, in bytes; 0 if that is not known.
    pub mtu: u32,
    /// Why it takes no packets now, if it takes none: [`DropCause::LinkDown`] or [`DropCause::Gone`].
    pub fault: Option<DropCause>,
}

impl OutgoingLink {
    /// The longest IP packet that it takes, in bytes.
    pub(crate) fn longest(self) -> usize {
        if self.mtu == 0 { usize::MAX } else { self.mtu as usize }
    }
}

/// All of a packet of which the first part is there already.
#[derive(Debug, Clone, Copy)]
pub enum WholePacket<'p> {
    /// The first part is all of it.
    FirstPart,
    /// It lies in several parts, of this length together, and no filter needs to see them
    /// ([`RouterWorker::has_filter`](crate::RouterWorker::has_filter)).
    Unseen(usize),
    /// It lies in several parts; this is a copy in one piece.
    Copy(&'p [u8]),
}

impl WholePacket<'_> {
    pub(crate) fn len(self, first: &[u8]) -> usize {
        match self {
            Self::FirstPart => first.len(),
            Self::Unseen(len) => len,
            Self::Copy(bytes) => bytes.len(),
        }
    }

    fn bytes<'a>(&'a self, first: &'a [u8]) -> &'a [u8] {
        match self {
            Self::FirstPart | Self::Unseen(_) => first,
            Self::Copy(bytes) => bytes,
        }
    }
}

impl Router {
    /// A router over these ports, which have the numbers of their places.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if no route leads over a port,
    /// [`Error::UnknownDevice`] if routes name a device that none of the ports is,
    /// [`Error::NoEthernetAddress`] if a port has none.
    pub fn new(routes: Routes, ports: &[RouterPort], ttl: Ttl) -> Result<Self, Error> {
        if routes.devices().is_empty() {
            return Err(Error::NoDevice);
        }
        let port_of = |device: &String| {
            let port = ports.iter().position(|port| port.names.contains(device));
            port.ok_or_else(|| {
                let interfaces = ports.iter().map(RouterPort::name).collect();
                Error::UnknownDevice { device: device.clone(), interfaces }
            })
        };
        let mac = |port: &RouterPort| {
            let own = port.mac.and_then(|mac| SourceMac::try_from(mac).ok());
            own.ok_or_else(|| Error::NoEthernetAddress(port.name()))
        };
        Ok(Self {
            port_of: routes.devices().iter().map(port_of).collect::<Result<_, _>>()?,
            macs: Arc::new(OwnMacs::new(&ports.iter().map(mac).collect::<Result<Vec<_>, _>>()?)),
            ifindexes: ports.iter().map(|port| port.ifindex).collect(),
            addresses: Addresses::new(ports.iter().map(|port| port.addresses.clone()).collect()),
            routes,
            ttl,
            filter: None,
            error_limit: Limit::new(Instant::now()),
        })
    }

    /// Forwards only what a filter wants, which is compiled for Ethernet.
    #[must_use]
    pub fn with_filter(self, filter: Filter) -> Self {
        Self { filter: Some(UserFilter::new(&filter)), ..self }
    }

    /// Which packets are to be routed, as a filter: all others are left to the host, those for the router's
    /// own addresses among them.
    pub fn capture_filter(&self) -> String {
        let own: Vec<_> = self.addresses.all().map(|address| format!("dst host {address}")).collect();
        let routed = "(ip or ip6) and not (ether broadcast or ether multicast)".to_owned();
        if own.is_empty() { routed } else { format!("{routed} and not ({})", own.join(" or ")) }
    }

    /// Whether a filter looks at packets as a whole.
    pub(crate) fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    /// The path of a packet that came in by port `from`.
    pub(crate) fn path(
        &self,
        data: &[u8],
        whole: WholePacket<'_>,
        from: usize,
        links: &[OutgoingLink],
    ) -> Result<Path, DropCause> {
        if MacAddress::destination_of(data) != Some(self.macs.of(from).address()) {
            return Err(DropCause::NotForUs);
        }
        let layout = Layout::of(data).ok_or(DropCause::BadHeader)?;
        let len = whole.len(data);
        let ValidPacket { source, destination, end } = self.check(&layout, data, len)?;
        if self.filter.as_ref().is_some_and(|filter| !filter.wants(whole.bytes(data), len as u32)) {
            return Err(DropCause::Unwanted);
        }
        let Some(&Route::Via { device, next_hop }) = self.routes.to(destination) else {
            return Err(DropCause::NoRoute);
        };
        if self.ttl.expires(&layout, data) {
            return Err(DropCause::TtlExpired);
        }
        let port = self.port_of[device];
        if let Some(fault) = links[port].fault {
            return Err(fault);
        }
        if end.saturating_sub(layout.network()) > links[port].longest() {
            return Err(DropCause::TooLong);
        }
        let hop = |address| {
            let mac = MacAddress::source_of(data).unwrap_or(MacAddress([0; 6]));
            let source = Source::new(from, mac, source);
            Receiver::Hop(UnresolvedHop { hop: Hop { port, address }, source })
        };
        let to = match next_hop {
            NextHop::Mac(mac) => Receiver::Mac(mac),
            NextHop::Address(address) => hop(address),
            NextHop::Direct => hop(destination),
        };
        Ok(Path { port, to, layout, end })
    }

    /// Changes the headers of a packet that takes a path, for the next hop with this Ethernet address.
    pub(crate) fn rewrite(&self, data: &mut [u8], path: &Path, next_hop: MacAddress) {
        self.ttl.apply(&path.layout, data);
        self.macs.of(path.port).set_source(data);
        next_hop.set_destination(data);
    }

    /// Checks that the header of a packet is valid, and that its addresses may be forwarded from and to.
    fn check(&self, layout: &Layout, data: &[u8], len: usize) -> Result<ValidPacket, DropCause> {
        let ip = valid_ip(layout, data, len)?;
        let (source, destination) = ip.source(data).zip(ip.destination(data)).ok_or(DropCause::BadHeader)?;
        if self.addresses.is_own(source) {
            Err(DropCause::OwnSource)
        } else if self.routes.is_martian(source) || self.addresses.is_broadcast(source) {
            Err(DropCause::MartianSource)
        } else if self.routes.is_martian(destination) {
            Err(DropCause::MartianDestination)
        } else if self.addresses.is_broadcast(destination) {
            Err(DropCause::DirectedBroadcast)
        } else {
            // One of IPv6 that does not say how long it is takes all of the frame.
            Ok(ValidPacket { source, destination, end: ip.packet_end(data).unwrap_or(len) })
        }
    }
}
