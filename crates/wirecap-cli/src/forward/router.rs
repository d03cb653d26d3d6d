//! A small router: which port a packet goes out of, and to whom.
//!
//! ```text
//!   for this router's Ethernet address? ─► filter ─► longest prefix ─► TTL ─► next hop's Ethernet address ─► out of its port
//! ```
//!
//! What is not to be routed never comes here: ARP, neighbour discovery, multicast, and what is for the router's own addresses
//! is left to the host by the filter in front ([`filter`]), which answers, and keeps the neighbours.

use std::{net::IpAddr, sync::Arc};

use anyhow::Result;
use wirecap::OwnedPacket;
use wirecap_filter::{Filter, NativeFilter};
use wirecap_headers::{Layout, MacAddress, NextHop, Route, Routes, SourceMac, Ttl};
use wirecap_sys::netdev::Interface;

use super::{
    neighbours::{Hop, Hops},
    way::Cause,
};
use crate::exit::Usage;

/// Where a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Out of this port; its headers are as they have to be.
    Out(usize),
    /// The next hop's Ethernet address is not known yet.
    Wait(Hop),
}

/// One of its ports.
#[derive(Debug, Clone)]
struct RouterPort {
    mac: MacAddress,
    source: SourceMac,
}

/// Routes, and what they need. The same for all workers.
#[derive(Debug)]
pub(super) struct Router {
    routes: Routes,
    /// Port of each device of the routes.
    port_of: Vec<usize>,
    ports: Vec<RouterPort>,
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
            let mac = interface.mac.map(|mac| MacAddress(mac.0));
            let source = mac.and_then(|mac| mac.to_string().parse::<SourceMac>().ok());
            let port = mac.zip(source).map(|(mac, source)| RouterPort { mac, source });
            port.ok_or_else(|| {
                let message = format!("{} has no Ethernet address of its own to route by", interface.name);
                Usage(message).into()
            })
        });
        let ports = ports.collect::<Result<_>>()?;
        let filter =
            filter.map(|filter| UserFilter { native: NativeFilter::new(filter.program()).ok(), filter });
        Ok(Self { routes, port_of, ports, ttl, filter })
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
    ) -> Result<Next, Cause> {
        let data = packet.data();
        if MacAddress::destination_of(data) != Some(self.ports[from].mac) {
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
        let on_link = |address: Option<IpAddr>| address.map(|address| (port, address));
        let hop = match next_hop {
            NextHop::Mac(mac) => Ok(mac),
            NextHop::Address(address) => Err(on_link(Some(address))),
            NextHop::Direct => Err(on_link(layout.ip().and_then(|ip| ip.destination(data)))),
        };
        let mac = match hop {
            Ok(mac) => mac,
            Err(hop) => {
                let hop = hop.ok_or(Cause::NoRoute)?;
                match hops.look_up(hop) {
                    Some(mac) => mac,
                    None => return Ok(Next::Wait(hop)),
                }
            }
        };
        let data = packet.data_mut();
        self.ttl.apply(&layout, data);
        self.ports[port].source.set_source(data);
        mac.set_destination(data);
        Ok(Next::Out(port))
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
