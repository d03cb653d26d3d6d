//! From the name of a port to its open queues, in two steps: looked up, then opened.
//!
//! Rule: looking up changes nothing on the machine; all ports are looked up before one is opened.

use std::sync::Arc;

use wirecap_core::{Geometry, Pool, PoolId};
use wirecap_sys::{
    memory::{CellReader, PacketMemory},
    netdev::{self, Interface},
};

use super::{
    AnyQueue, PortSpec,
    fault::{FaultQueue, Faults},
    null::{NullPort, NullQueue},
    preflight,
    xdp::{self, Sharable, XdpOptions},
};
use crate::{
    Error,
    capture::{LinkCounters, OpenPort},
    report::QueueMode,
};

/// One pool for each receive queue of each port, near the NIC.
pub(crate) fn carve(
    memory: &Arc<PacketMemory>,
    geometry: Geometry,
    sources: &[Source],
) -> Result<Vec<(Pool, CellReader)>, Error> {
    let mut pools = Vec::new();
    for (nic_id, source) in sources.iter().enumerate() {
        for &ring_id in &source.rings {
            let id = PoolId { nic_id: nic_id as u16, ring_id };
            let (pool, reader) = memory.carve(id, geometry)?;
            if let Some(node) = source.numa_node() {
                // A preference; where it cannot be had, memory of another node serves as well.
                let _ = memory.prefer_node(pool.base(), geometry.pool_bytes(), node);
            }
            pools.push((pool, reader));
        }
    }
    Ok(pools)
}

/// A port, looked up but not opened.
pub(crate) struct Source {
    pub(crate) name: String,
    kind: Kind,
    /// The receive queues that are captured.
    pub(crate) rings: Vec<u16>,
    /// Trouble to inject, innermost first.
    faults: Vec<Faults>,
}

enum Kind {
    Interface(Box<Interface>),
    Null(NullPort),
}

/// A queue of an open port with its pool.
pub(crate) type OpenQueue = (AnyQueue, Pool, CellReader);

impl Source {
    pub(crate) fn resolve(spec: &PortSpec) -> Result<Self, Error> {
        match spec {
            PortSpec::Xdp { name, force } => {
                let interface = netdev::interface(name)?;
                if !force {
                    preflight::check_host(&interface)?;
                }
                let rings = (0..interface.queues.current.max(1) as u16).collect();
                let name = interface.name.clone();
                Ok(Self { name, kind: Kind::Interface(Box::new(interface)), rings, faults: Vec::new() })
            }
            PortSpec::Null(port) => {
                let rings = (0..port.queues).collect();
                Ok(Self { name: spec.name(), kind: Kind::Null(port.clone()), rings, faults: Vec::new() })
            }
            PortSpec::Fault { inner, faults } => {
                let mut source = Self::resolve(inner)?;
                source.faults.push(*faults);
                Ok(source)
            }
        }
    }

    pub(crate) fn is_interface(&self) -> bool {
        matches!(self.kind, Kind::Interface(_))
    }

    fn numa_node(&self) -> Option<u32> {
        match &self.kind {
            Kind::Interface(interface) => interface.numa_node,
            Kind::Null(_) => None,
        }
    }

    pub(crate) fn open(
        &self,
        pools: Vec<(Pool, CellReader)>,
        memory: &Arc<PacketMemory>,
        options: XdpOptions,
        others: &[Vec<OpenQueue>],
    ) -> Result<(OpenPort, Vec<OpenQueue>), Error> {
        let (mut pools, readers): (Vec<Pool>, Vec<CellReader>) = pools.into_iter().unzip();
        let (port, queues): (OpenPort, Vec<AnyQueue>) = match &self.kind {
            Kind::Interface(interface) => {
                let (port, queues) = xdp::open(interface, &mut pools, memory, options, sharable(others))?;
                let open = OpenPort::interface(interface, port);
                (open, queues.into_iter().map(AnyQueue::Xdp).collect())
            }
            Kind::Null(null) => {
                let queues = pools.iter().map(|pool| AnyQueue::Null(NullQueue::new(null, pool.geometry())));
                (OpenPort::memory(&self.name), queues.collect())
            }
        };
        let queues = queues.into_iter().zip(&self.rings).map(|(queue, &ring)| {
            self.faults
                .iter()
                .fold(queue, |inner, &faults| AnyQueue::Fault(Box::new(FaultQueue::new(inner, faults, ring))))
        });
        let opened = queues.zip(pools).zip(readers).map(|((queue, pool), reader)| (queue, pool, reader));
        Ok((port, opened.collect()))
    }
}

/// The first socket of the ports that are open whose UMEM registration others may use.
fn sharable(others: &[Vec<OpenQueue>]) -> Sharable<'_> {
    others.iter().find_map(|queues| match queues.first() {
        Some((AnyQueue::Xdp(queue), ..)) if queue.can_share() => Some((queue, queue.bind_mode())),
        _ => None,
    })
}

impl OpenPort {
    fn interface(interface: &Interface, port: xdp::XdpPort) -> Self {
        Self {
            name: interface.name.clone(),
            ifindex: Some(interface.ifindex),
            driver: interface.driver.as_ref().map_or_else(|| "unknown".into(), |driver| driver.name.clone()),
            numa_node: interface.numa_node,
            link: LinkCounters::open(interface.ifindex),
            mode: port.mode,
            fallbacks: port.fallbacks.clone(),
            multi_buffer: port.multi_buffer,
            xdp: Some(port),
            removed: false,
        }
    }

    fn memory(name: &str) -> Self {
        Self {
            name: name.into(),
            ifindex: None,
            driver: "none".into(),
            numa_node: None,
            link: None,
            mode: QueueMode::Memory,
            fallbacks: Vec::new(),
            multi_buffer: false,
            xdp: None,
            removed: false,
        }
    }
}
