//! A small router: which port a packet goes out of, and to whom.
//!
//! ```text
//!   for this router's Ethernet address? ─► filter ─► longest prefix ─► TTL ─► MTU ─► next hop's Ethernet address ─► out of its port
//!                                                        └───────────┴──────┴──────────┴─► or the sender is told: icmp.rs
//! ```
//!
//! What is not to be routed never comes here: ARP, neighbour discovery, multicast, and what is for the router's own addresses
//! is left to the host by the filter in front ([`filter`]), which answers, and keeps the neighbours.

use std::{net::IpAddr, sync::Arc};

use anyhow::Result;
use wirecap::OwnedPacket;
use wirecap_filter::{Filter, NativeFilter};
use wirecap_headers::{IcmpProblem, Layout, MacAddress, NextHop, Route, Routes, SourceMac, Ttl};
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
        if self.filter.as_ref().is_some_and(|filter| !filter.wants(data, packet.len())) {
            return Err(Cause::Unwanted);
        }
        let layout = Layout::of(data).ok_or(Cause::NoRoute)?;
        let Some(Route::Via { device, next_hop }) = self.routes.look_up(&layout, data).copied() else {
            return Err(Cause::NoRoute);
        };
        if self.ttl.expires(&layout, data) {
            return Err(Cause::TtlExpired);
        }
        let port = self.port_of[device];
        if packet.len() - layout.network() > mtus.of(port) {
            return Err(Cause::TooLong);
        }
        let on_link = |address: Option<IpAddr>| address.map(|address| Hop { port, address });
        let hop = match next_hop {
            NextHop::Mac(mac) => Ok(mac),
            NextHop::Address(address) => Err(on_link(Some(address))),
            NextHop::Direct => Err(on_link(layout.ip().and_then(|ip| ip.destination(data)))),
        };
        let mac = match hop {
            Ok(mac) => mac,
            Err(hop) => {
                let hop = hop.ok_or(Cause::NoRoute)?;
                let address = layout.ip().and_then(|ip| ip.source(data));
                let source = Source::new(from, address.unwrap_or(hop.address));
                match hops.look_up(hop, source) {
                    Found::Mac(mac) => mac,
                    Found::NotYet => return Ok(Next::Wait(hop, source)),
                    Found::Silent => return Err(Cause::NoNeighbour),
                }
            }
        };
        let data = packet.data_mut();
        self.ttl.apply(&layout, data);
        self.ports[port].set_source(data);
        mac.set_destination(data);
        Ok(Next::Out(port))
    }

    /// What the sender of a packet is to be told that went no further for this cause; `data` as it came. `None` if that is
    /// nobody's business: what is not for the router, what the user does not want, and what is only bad luck.
    pub(super) fn problem(&self, cause: Cause, data: &[u8], mtus: &Mtus) -> Option<IcmpProblem> {
        match cause {
            Cause::TtlExpired => Some(IcmpProblem::Expired),
            Cause::NoNeighbour => Some(IcmpProblem::HostUnreachable),
            Cause::NoRoute => self.no_route(data),
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
        let layout = Layout::of(data)?;
        let ip = layout.ip()?;
        let (from, to) = (ip.source(data)?, ip.destination(data)?);
        match self.routes.to(to) {
            // Without a word, as it says.
            Some(Route::Drop) => None,
            _ if is_link_local(to) => None,
            _ if from.is_ipv6() && is_link_local(from) => Some(IcmpProblem::BeyondScope),
            None => Some(IcmpProblem::NoRoute),
            // From an address that no router forwards from.
            Some(Route::Via { .. }) => None,
        }
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
