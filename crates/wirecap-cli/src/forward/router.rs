//! A small router: which port a packet goes out of, and to whom.
//!
//! ```text
//!   for this router's Ethernet address? ─► header, addresses ─► filter ─► longest prefix ─► TTL ─► MTU ─► next hop ─► out of its port
//!                                             └─ discarded                     └───────────┴──────┴────────┴─► or the sender is told: icmp.rs
//! ```
//!
//! What is not to be routed never comes here: ARP, neighbour discovery, multicast, and what is for the router's own addresses
//! is left to the host by the filter in front ([`filter`]), which answers, and keeps the neighbours.
//!
//! Rule: before anything else is made of a packet, its header is valid and its addresses are such as may be forwarded from and to
//! (RFC 1812, sections 5.2.2, 5.3.4, 5.3.5 and 5.3.7; RFC 2644).

use std::{net::IpAddr, sync::Arc};

use anyhow::Result;
use wirecap::OwnedPacket;
use wirecap_filter::{Filter, NativeFilter};
use wirecap_headers::{Layout, MacAddress, SourceMac, Ttl};
use wirecap_router::{IcmpProblem, NextHop, Route, Routes, valid_ip};
use wirecap_sys::netdev::Interface;

use super::{
    addresses::{Addresses, is_link_local},
    icmp::Mtus,
    neighbours::{Found, Hop, Hops, Source},
    way::Cause,
};
use crate::exit::Usage;

/// Where a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Out of this port; its headers are as they have to be.
    Out(usize),
    /// The next hop's Ethernet address is not known yet; the packet is of this source.
    Wait(Hop, Source),
}

/// Routes, and what they need. The same for all workers.
#[derive(Debug)]
pub(super) struct Router {
    routes: Routes,
    /// Port of each device of the routes.
    port_of: Vec<usize>,
    /// Ethernet addresses of the ports.
    ports: Vec<SourceMac>,
    addresses: Addresses,
    ttl: Ttl,
    /// What is forwarded at all, if not everything.
    filter: Option<UserFilter>,
}

#[derive(Debug)]
struct UserFilter {
    filter: Filter,
    native: Option<NativeFilter>,
}

impl Router {
    /// # Errors
    /// [`Usage`] for a device that is none of the interfaces, and an interface without an Ethernet address.
    pub(super) fn new(
        routes: Routes,
        interfaces: &[Interface],
        ttl: Ttl,
        filter: Option<Filter>,
    ) -> Result<Self> {
        let port_of = routes.devices().iter().map(|device| {
            let is_it = |interface: &Interface| {
                interface.name == *device || interface.alternative_names.contains(device)
            };
            interfaces.iter().position(is_it).ok_or_else(|| {
                let names: Vec<_> = interfaces.iter().map(|interface| interface.name.as_str()).collect();
                let message = format!(
                    "--route: there are routes by {device}, which is none of the interfaces ({}); name it among them",
                    names.join(", ")
                );
                Usage(message).into()
            })
        });
        let port_of = port_of.collect::<Result<_>>()?;
        let ports = interfaces.iter().map(|interface| {
            let own = interface.mac.and_then(|mac| SourceMac::try_from(mac).ok());
            own.ok_or_else(|| {
                let message = format!("{} has no Ethernet address of its own to route by", interface.name);
                Usage(message).into()
            })
        });
        let ports = ports.collect::<Result<_>>()?;
        let filter =
            filter.map(|filter| UserFilter { native: NativeFilter::new(filter.program()).ok(), filter });
        let addresses = Addresses::of(interfaces);
        Ok(Self { routes, port_of, ports, addresses, ttl, filter })
    }

    /// Decides about a packet that came in by a port, and changes its headers for the next hop.
    ///
    /// # Errors
    /// Why it goes no further.
    pub(super) fn route(
        &self,
        packet: &mut OwnedPacket<'_>,
        from: usize,
        hops: &mut Hops,
        mtus: &Mtus,
    ) -> Result<Next, Cause> {
        let data = packet.data();
        if MacAddress::destination_of(data) != Some(self.ports[from].address()) {
            return Err(Cause::NotForUs);
        }
        let layout = Layout::of(data).ok_or(Cause::BadHeader)?;
        let (source, destination) = self.check(&layout, data, packet.len())?;
        if self.filter.as_ref().is_some_and(|filter| !filter.wants(data, packet.len())) {
            return Err(Cause::Unwanted);
        }
        let Some(Route::Via { device, next_hop }) = self.routes.to(destination).copied() else {
            return Err(Cause::NoRoute);
        };
        if self.ttl.expires(&layout, data) {
            return Err(Cause::TtlExpired);
        }
        let port = self.port_of[device];
        if packet.len() - layout.network() > mtus.of(port) {
            return Err(Cause::TooLong);
        }
        let address = match next_hop {
            NextHop::Mac(mac) => return Ok(self.address(packet, &layout, port, mac)),
            NextHop::Address(address) => address,
            NextHop::Direct => destination,
        };
        let (hop, source) = (Hop { port, address }, Source::new(from, source));
        match hops.look_up(hop, source) {
            Found::Mac(mac) => Ok(self.address(packet, &layout, port, mac)),
            Found::NotYet => Ok(Next::Wait(hop, source)),
            Found::Silent => Err(Cause::NoNeighbour),
        }
    }

    /// Changes the headers of a packet for the next hop with this Ethernet address.
    fn address(
        &self,
        packet: &mut OwnedPacket<'_>,
        layout: &Layout,
        port: usize,
        next_hop: MacAddress,
    ) -> Next {
        let data = packet.data_mut();
        self.ttl.apply(layout, data);
        self.ports[port].set_source(data);
        next_hop.set_destination(data);
        Next::Out(port)
    }

    /// Source and destination of a packet whose header is valid, and whose addresses may be forwarded from and to.
    fn check(&self, layout: &Layout, data: &[u8], len: usize) -> Result<(IpAddr, IpAddr), Cause> {
        let ip = valid_ip(layout, data, len)?;
        let (source, destination) = ip.source(data).zip(ip.destination(data)).ok_or(Cause::BadHeader)?;
        if self.addresses.is_own(source) {
            Err(Cause::OwnSource)
        } else if self.routes.is_martian(source) || self.addresses.is_broadcast(source) {
            Err(Cause::MartianSource)
        } else if self.routes.is_martian(destination) {
            Err(Cause::MartianDestination)
        } else if self.addresses.is_broadcast(destination) {
            Err(Cause::DirectedBroadcast)
        } else {
            Ok((source, destination))
        }
    }

    /// What the sender of a packet is to be told that went no further for this cause; `data` as it came. `None` if that is
    /// nobody's business: what is not for the router, what the user does not want, and what is only bad luck.
    pub(super) fn problem(&self, cause: Cause, data: &[u8], mtus: &Mtus) -> Option<IcmpProblem> {
        match cause {
            Cause::TtlExpired => Some(IcmpProblem::Expired),
            Cause::NoNeighbour => Some(IcmpProblem::HostUnreachable),
            Cause::StrictSourceRoute => Some(IcmpProblem::StrictSourceRoute),
            Cause::NoRoute => self.no_route(data),
            Cause::MartianSource => self.beyond_scope(data),
            Cause::TooLong => match self.routes.look_up(&Layout::of(data)?, data)? {
                Route::Via { device, .. } => {
                    Some(IcmpProblem::TooLong { mtu: mtus.of(self.port_of[*device]) as u32 })
                }
                Route::Drop => None,
            },
            _ => None,
        }
    }

    fn no_route(&self, data: &[u8]) -> Option<IcmpProblem> {
        let to = Layout::of(data)?.ip()?.destination(data)?;
        // What a route says to drop is dropped without a word.
        self.routes.to(to).is_none().then_some(IcmpProblem::NoRoute)
    }

    /// Of packets from addresses that no router forwards from, those from a link-local address of IPv6 have a sender that an error reaches.
    fn beyond_scope(&self, data: &[u8]) -> Option<IcmpProblem> {
        let layout = Layout::of(data)?;
        let ip = layout.ip()?;
        let (from, to) = (ip.source(data)?, ip.destination(data)?);
        let is_beyond = from.is_ipv6() && is_link_local(from) && !is_link_local(to);
        (is_beyond && self.routes.to(to) != Some(&Route::Drop)).then_some(IcmpProblem::BeyondScope)
    }

    /// Whose addresses the sender of a packet that came in by a port is told from. `None` if there is no address that
    /// would do.
    pub(super) fn teller(&self, port: usize, sender: IpAddr) -> Option<(SourceMac, IpAddr)> {
        Some((self.ports[port], self.addresses.for_sender(port, sender)?))
    }

    /// Whether this is an address of all hosts of a network of the router.
    pub(super) fn is_broadcast(&self, address: IpAddr) -> bool {
        self.addresses.is_broadcast(address)
    }
}

impl UserFilter {
    fn wants(&self, data: &[u8], len: usize) -> bool {
        match &self.native {
            Some(native) => native.matches(data, len as u32) != 0,
            None => self.filter.matches(data, len as u32),
        }
    }
}

/// Which packets are routed: the host has all others, those for addresses of its own among them.
pub(super) fn filter(interfaces: &[Interface]) -> String {
    let own = interfaces.iter().flat_map(|interface| &interface.addresses);
    let own: Vec<_> = own.map(|address| format!("dst host {}", address.address)).collect();
    let routed = "(ip or ip6) and not (ether broadcast or ether multicast)".to_owned();
    if own.is_empty() { routed } else { format!("{routed} and not ({})", own.join(" or ")) }
}

/// All workers have the same.
pub(super) type SharedRouter = Arc<Router>;
