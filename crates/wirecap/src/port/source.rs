//! From the name of a port to its open queues, in two steps: looked up, then opened.
//!
//! Rule: looking up changes nothing on the machine; all ports are looked up before one is opened.

use std::sync::Arc;

use wirecap_core::{Geometry, Pool, PoolId};
use wirecap_sys::{
    cpu,
    memory::{CellReader, PacketMemory},
    netdev::{self, Interface},
    xsk::BindMode,
};

use super::{
    AnyQueue, PortSpec,
    fault::{FaultQueue, Faults},
    link::LinkWatch,
    null::{NullPort, NullQueue},
    preflight,
    xdp::{self, XdpOptions, XdpQueue},
};
use crate::{Error, capture::OpenPort, report::QueueMode};

/// The pools of a port, one for each receive queue.
pub(crate) struct PortPools {
    pools: Vec<Pool>,
    readers: Vec<CellReader>,
    /// Why they are not near the NIC, in words.
    far: Option<String>,
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

    /// One pool for each receive queue, near the NIC if that can be had: memory of another node serves as well,
    /// only slower.
    pub(crate) fn carve(
        &self,
        nic_id: u16,
        memory: &Arc<PacketMemory>,
        geometry: Geometry,
    ) -> Result<PortPools, Error> {
        let mut carved = PortPools { pools: Vec::new(), readers: Vec::new(), far: None };
        for &ring_id in &self.rings {
            let (pool, reader) = memory.carve(PoolId { nic_id, ring_id }, geometry)?;
            if let Some(node) = self.numa_node() {
                if let Err(refused) = memory.prefer_node(pool.base(), geometry.pool_bytes(), node) {
                    carved.far =
                        Some(format!("its pools may not be on memory node {node}, the NIC's: {refused}"));
                }
            }
            carved.pools.push(pool);
            carved.readers.push(reader);
        }
        Ok(carved)
    }

    pub(crate) fn open(
        &self,
        pools: PortPools,
        memory: &Arc<PacketMemory>,
        options: XdpOptions,
        others: &[Vec<OpenQueue>],
    ) -> Result<(OpenPort, Vec<OpenQueue>), Error> {
        let PortPools { mut pools, readers, far } = pools;
        let (mut port, queues): (OpenPort, Vec<AnyQueue>) = match &self.kind {
            Kind::Interface(interface) => {
                let (port, queues) = xdp::open(interface, &mut pools, memory, options, &sharable(others))?;
                let open = OpenPort::interface(interface, port, self.rings.len());
                (open, queues.into_iter().map(AnyQueue::Xdp).collect())
            }
            Kind::Null(null) => {
                let queues = pools.iter().map(|pool| AnyQueue::Null(NullQueue::new(null, pool.geometry())));
                (OpenPort::memory(&self.name), queues.collect())
            }
        };
        port.fallbacks.extend(far);
        let queues = queues.into_iter().zip(&self.rings).map(|(queue, &ring)| {
            self.faults
                .iter()
                .fold(queue, |inner, &faults| AnyQueue::Fault(Box::new(FaultQueue::new(inner, faults, ring))))
        });
        let opened = queues.zip(pools).zip(readers).map(|((queue, pool), reader)| (queue, pool, reader));
        Ok((port, opened.collect()))
    }
}

/// A socket of each port that is open whose UMEM registration others may use, with its mode.
fn sharable(others: &[Vec<OpenQueue>]) -> Vec<(&XdpQueue, BindMode)> {
    let firsts = others.iter().filter_map(|queues| match queues.first() {
        Some((AnyQueue::Xdp(queue), ..)) => Some(queue),
        _ => None,
    });
    firsts.filter(|queue| queue.can_share()).map(|queue| (queue, queue.bind_mode())).collect()
}

impl OpenPort {
    fn interface(interface: &Interface, port: xdp::XdpPort, captured: usize) -> Self {
        let mut fallbacks = port.fallbacks.clone();
        if !cpu::can_wait_for_kernel() {
            fallbacks.push(
                "the end is not exact: this kernel cannot wait for packets on their way (membarrier, not with nohz_full)"
                    .into(),
            );
        }
        let link = LinkWatch::open(interface, captured as u32);
        let link = link.inspect_err(|error| {
            fallbacks.push(format!("what the NIC drops, and queues that are added, cannot be told: {error}"));
        });
        Self {
            name: interface.name.clone(),
            ifindex: Some(interface.ifindex),
            driver: interface.driver.as_ref().map_or_else(|| "unknown".into(), |driver| driver.name.clone()),
            numa_node: interface.numa_node,
            link: link.ok(),
            mode: port.mode,
            fallbacks,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_that_are_far_from_the_nic_are_told_of() {
        let mut interface = netdev::interface("lo").unwrap();
        interface.numa_node = Some(63);
        let mut source =
            Source::resolve(&NullPort { queues: 2, packet_bytes: 60, packets_per_queue: 0 }.into()).unwrap();
        let geometry = Geometry::new(1, 2, 4096).unwrap();
        let memory = Arc::new(PacketMemory::allocate(4 * geometry.pool_bytes()).unwrap());
        assert_eq!(source.carve(0, &memory, geometry).unwrap().far, None);
        source.kind = Kind::Interface(Box::new(interface));
        let carved = source.carve(1, &memory, geometry).unwrap();
        assert_eq!((carved.pools.len(), carved.readers.len()), (2, 2), "it is a preference only");
        assert!(carved.far.is_some_and(|line| line.contains("memory node 63")));
    }
}
