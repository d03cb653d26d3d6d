//! From the name of a port to its open queues, in two steps: looked up, then opened.
//!
//! Rule: looking up changes nothing on the machine; all ports are looked up before one is opened.

use std::{cell::Cell, sync::Arc, thread};

use wirecap_core::{Geometry, Pool, PoolId};
use wirecap_sys::{
    cpu,
    memory::{CellReader, PacketMemory},
    netdev::{self, Interface},
    packet::Fanout,
    xsk::BindMode,
};

use super::{
    Access, AnyQueue, PortSpec,
    fault::{FaultQueue, Faults},
    link::LinkWatch,
    null::{NullPort, NullQueue},
    packet::{self, PacketPort},
    preflight,
    replay::{self, Trace},
    xdp::{self, XdpOptions, XdpQueue},
};
use crate::{
    Error,
    batch::Reader,
    capture::{OpenPort, Taken},
    report::QueueMode,
};

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
    Xdp(Box<Interface>),
    /// With the reason, if it was not asked for.
    Passive(Box<Interface>, Option<String>),
    /// Taken when the port is opened.
    Replay(Cell<Option<Box<Trace>>>),
    Null(NullPort),
}

/// A queue of an open port with its pool.
pub(crate) type OpenQueue = (AnyQueue, Pool, Reader);

/// How the ports of a capture are opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenOptions {
    pub(crate) xdp: XdpOptions,
    pub(crate) geometry: Geometry,
    pub(crate) fanout: Fanout,
}

impl Source {
    /// Finds out what a port is. A passive one gets a socket for each of `workers`.
    pub(crate) fn resolve(spec: &PortSpec, workers: Option<usize>) -> Result<Self, Error> {
        match spec {
            PortSpec::Interface { name, access } => Self::interface(name, *access, workers),
            PortSpec::Replay { path } => {
                let kind = Kind::Replay(Cell::new(Some(Box::new(Trace::open(path)?))));
                Ok(Self { name: spec.name(), kind, rings: vec![0], faults: Vec::new() })
            }
            PortSpec::Null(port) => {
                let rings = (0..port.queues).collect();
                Ok(Self { name: spec.name(), kind: Kind::Null(port.clone()), rings, faults: Vec::new() })
            }
            PortSpec::Fault { inner, faults } => {
                let mut source = Self::resolve(inner, workers)?;
                source.faults.push(*faults);
                Ok(source)
            }
        }
    }

    fn interface(name: &str, access: Access, workers: Option<usize>) -> Result<Self, Error> {
        let interface = Box::new(netdev::interface(name)?);
        let reason = match access {
            Access::Auto => preflight::reason_for_passive(&interface)?,
            Access::Xdp | Access::Packet => None,
        };
        let (name, queues) = (interface.name.clone(), interface.queues.current.max(1) as usize);
        let (kind, rings) = if reason.is_some() || access == Access::Packet {
            (
                Kind::Passive(interface, reason),
                workers.unwrap_or(queues.min(thread::available_parallelism().map_or(1, usize::from))).max(1),
            )
        } else {
            (Kind::Xdp(interface), queues)
        };
        Ok(Self { name, kind, rings: (0..rings as u16).collect(), faults: Vec::new() })
    }

    pub(crate) fn is_interface(&self) -> bool {
        matches!(self.kind, Kind::Xdp(_) | Kind::Passive(..))
    }

    /// Whether it can be opened once only.
    pub(crate) fn is_unique(&self) -> bool {
        self.is_interface() || matches!(self.kind, Kind::Replay(_))
    }

    pub(crate) fn is_passive(&self) -> bool {
        matches!(self.kind, Kind::Passive(..))
    }

    /// Why it is captured beside the host although nobody has asked for it, in words.
    pub(crate) fn reason_for_passive(&self) -> Option<&str> {
        match &self.kind {
            Kind::Passive(_, reason) => reason.as_deref(),
            Kind::Xdp(_) | Kind::Replay(_) | Kind::Null(_) => None,
        }
    }

    /// Queues whose pools are parts of the packet memory. Those of a passive port are rings of their own.
    pub(crate) fn queues_in_memory(&self) -> usize {
        if self.is_passive() { 0 } else { self.rings.len() }
    }

    fn numa_node(&self) -> Option<u32> {
        match &self.kind {
            Kind::Xdp(interface) => interface.numa_node,
            Kind::Passive(..) | Kind::Replay(_) | Kind::Null(_) => None,
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
        for &ring_id in &self.rings[..self.queues_in_memory()] {
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
        options: &OpenOptions,
        others: &[Vec<OpenQueue>],
    ) -> Result<(OpenPort, Vec<OpenQueue>), Error> {
        let PortPools { mut pools, readers, far } = pools;
        let (mut port, queues): (OpenPort, Vec<AnyQueue>) = match &self.kind {
            Kind::Passive(interface, reason) => {
                let nic_id = others.len() as u16;
                let (port, queues) = packet::open(interface, nic_id, &self.rings, options)?;
                let open = OpenPort::passive(interface, port, reason.as_deref());
                return Ok((open, queues.into_iter().map(|queue| self.with_faults(queue)).collect()));
            }
            Kind::Xdp(interface) => {
                let sharable = sharable(others);
                let (port, queues) = xdp::open(interface, &mut pools, memory, options.xdp, &sharable)?;
                let open = OpenPort::active(interface, port, self.rings.len());
                (open, queues.into_iter().map(AnyQueue::Xdp).collect())
            }
            Kind::Replay(trace) => {
                let trace = trace.take().expect("a port is opened once");
                let (open, queue) = replay::open(*trace, &pools[0], memory);
                (open, vec![queue])
            }
            Kind::Null(null) => {
                let queues = pools.iter().map(|pool| AnyQueue::Null(NullQueue::new(null, pool.geometry())));
                (OpenPort::memory(&self.name), queues.collect())
            }
        };
        port.fallbacks.extend(far);
        let reader = if port.mode == QueueMode::Replay { Reader::Noted } else { Reader::Cells };
        let opened = queues.into_iter().zip(pools).zip(readers.into_iter().map(reader));
        let opened = opened.map(|((queue, pool), reader)| self.with_faults((queue, pool, reader)));
        Ok((port, opened.collect()))
    }

    fn with_faults(&self, (queue, pool, reader): OpenQueue) -> OpenQueue {
        let ring_id = pool.id().ring_id;
        let queue = self
            .faults
            .iter()
            .fold(queue, |inner, &faults| AnyQueue::Fault(Box::new(FaultQueue::new(inner, faults, ring_id))));
        (queue, pool, reader)
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
    fn passive(interface: &Interface, port: PacketPort, reason: Option<&str>) -> Self {
        let name = &interface.name;
        let mut fallbacks =
            Vec::from_iter(reason.map(|reason| format!("captured beside the host, since {reason}")));
        // Queues do not matter here, only what the NIC drops.
        let link = LinkWatch::open(interface, u32::MAX);
        let link =
            link.inspect_err(|error| fallbacks.push(format!("what the NIC drops cannot be told: {error}")));
        Self {
            name: name.clone(),
            ifindex: Some(interface.ifindex),
            driver: interface.driver.as_ref().map_or_else(|| "unknown".into(), |driver| driver.name.clone()),
            numa_node: interface.numa_node,
            link_type: port.link_type,
            link: link.ok(),
            mode: QueueMode::Packet,
            fallbacks,
            multi_buffer: false,
            taken: Taken::Passive(port),
            removed: false,
        }
    }

    fn active(interface: &Interface, port: xdp::XdpPort, captured: usize) -> Self {
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
            link_type: packet::LINK_TYPE_ETHERNET,
            link: link.ok(),
            mode: port.mode,
            fallbacks,
            multi_buffer: port.multi_buffer,
            taken: Taken::Xdp(port),
            removed: false,
        }
    }

    fn memory(name: &str) -> Self {
        Self {
            name: name.into(),
            ifindex: None,
            driver: "none".into(),
            numa_node: None,
            link_type: packet::LINK_TYPE_ETHERNET,
            link: None,
            mode: QueueMode::Memory,
            fallbacks: Vec::new(),
            multi_buffer: false,
            taken: Taken::Nothing,
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
            Source::resolve(&NullPort { queues: 2, packet_bytes: 60, packets_per_queue: 0 }.into(), None)
                .unwrap();
        let geometry = Geometry::new(1, 2, 4096).unwrap();
        let memory = Arc::new(PacketMemory::allocate(4 * geometry.pool_bytes()).unwrap());
        assert_eq!(source.carve(0, &memory, geometry).unwrap().far, None);
        source.kind = Kind::Xdp(Box::new(interface));
        let carved = source.carve(1, &memory, geometry).unwrap();
        assert_eq!((carved.pools.len(), carved.readers.len()), (2, 2), "it is a preference only");
        assert!(carved.far.is_some_and(|line| line.contains("memory node 63")));
    }
}
