//! From the name of a port to its open queues, in two steps: looked up, then opened.
//!
//! Rule: looking up changes nothing on the machine; all ports are looked up before one is opened.

use std::{cell::Cell, sync::Arc, thread};

use wirecap_core::{Geometry, PoolId};
use wirecap_sys::{
    clock,
    memory::{LivePool, PacketMemory},
    netdev::{self, Interface},
    xsk::BindMode,
};

use super::{
    AnyQueue,
    fault::{FaultQueue, Faults},
    null::{NullPort, NullQueue},
    open_port::OpenPort,
    opening::OpenContext,
    packet,
    trace::{self, Trace},
    xdp::{self, XdpQueue},
};
use crate::{
    Access, Diagnostic, Error, HostUse, LeftToHost, PortSpec, QueueSet, Sight, Timestamp, Unmatched,
    config::device_name,
    diagnostic::NicDataRefusal,
    filter::{Knows, PortFilter},
    nic::{devices, host_use::HostView, link::Watched, stamping},
    packet::Reader,
    program::rx_hash,
    report::{QueueMode, TimestampReport},
};

/// The pools of a port, one for each receive queue.
pub(crate) struct PortPools {
    pools: Vec<LivePool>,
    /// In which memory each of them lies.
    memories: Vec<Arc<PacketMemory>>,
    /// Why they are not near the NIC.
    far: Option<Diagnostic>,
}

/// A port, looked up but not opened.
pub(crate) struct Source {
    pub(crate) name: String,
    kind: Kind,
    /// The receive queues that are captured.
    pub(crate) rings: Vec<u16>,
    /// Trouble to inject, innermost first.
    faults: Vec<Faults>,
    filter: Option<PortFilter>,
    /// How its interface is used by the host and by others.
    host_use: Vec<HostUse>,
}

enum Kind {
    /// All its receive queues.
    Xdp(Box<Interface>),
    /// Some of them, shared with others.
    Queues(Box<Interface>),
    /// With the reason, if it was not asked for.
    Passive(Box<Interface>, Option<LeftToHost>),
    /// Taken when the port is opened.
    Replay(Cell<Option<Box<Trace>>>),
    Null(NullPort),
}

/// A queue of an open port with its pool.
pub(crate) type OpenQueue = (AnyQueue, LivePool, Reader);

impl Source {
    /// Finds out what a port is; an interface among the `known` ones was looked up already. A passive port gets a socket for each of
    /// `workers`.
    pub(crate) fn resolve(
        spec: &PortSpec,
        workers: Option<usize>,
        known: &[Interface],
    ) -> Result<Self, Error> {
        match spec {
            PortSpec::Interface { name, access, queues } => {
                let known = known.iter().find(|interface| interface.is_called(name)).cloned();
                let interface = known.map_or_else(|| netdev::interface(name), Ok)?;
                Self::interface(Box::new(interface), *access, queues.as_ref(), workers)
            }
            PortSpec::Replay { path } => {
                let kind = Kind::Replay(Cell::new(Some(Box::new(Trace::open(path)?))));
                Ok(Self::new(spec.name(), kind, vec![0]))
            }
            PortSpec::Null(port) => {
                Ok(Self::new(spec.name(), Kind::Null(port.clone()), (0..port.queues).collect()))
            }
            PortSpec::Fault { inner, faults } => {
                let mut source = Self::resolve(inner, workers, known)?;
                source.faults.push(*faults);
                Ok(source)
            }
        }
    }

    fn new(name: String, kind: Kind, rings: Vec<u16>) -> Self {
        Self { name, kind, rings, faults: Vec::new(), filter: None, host_use: Vec::new() }
    }

    fn interface(
        interface: Box<Interface>,
        access: Access,
        wanted: Option<&QueueSet>,
        workers: Option<usize>,
    ) -> Result<Self, Error> {
        let (reason, host_use) = match access {
            Access::Auto => {
                let choice = HostView::read()?.choose_for(&interface)?;
                (choice.left_to_host, choice.uses)
            }
            Access::Xdp => (None, uses_of(&interface)),
            Access::Packet => (None, Vec::new()),
        };
        if let Some(wanted) = wanted {
            devices::check(&interface, wanted, access, reason)?;
            let name = device_name(&interface.name, Some(wanted));
            let (kind, rings) = (Kind::Queues(interface), wanted.iter().collect());
            return Ok(Self { host_use, ..Self::new(name, kind, rings) });
        }
        let (name, queues) = (interface.name.clone(), interface.queues.current.max(1) as usize);
        let (kind, rings) = if reason.is_some() || access == Access::Packet {
            (
                Kind::Passive(interface, reason),
                workers.unwrap_or(queues.min(thread::available_parallelism().map_or(1, usize::from))).max(1),
            )
        } else {
            devices::check_all(&interface)?;
            (Kind::Xdp(interface), queues)
        };
        Ok(Self { host_use, ..Self::new(name, kind, (0..rings as u16).collect()) })
    }

    /// From now on only packets that the filter wants are captured.
    pub(crate) fn set_filter(&mut self, expression: &str, unmatched: Unmatched) -> Result<(), Error> {
        let (link_type, knows) = match &self.kind {
            Kind::Xdp(interface) | Kind::Queues(interface) => {
                (Some(packet::LINK_TYPE_ETHERNET), Knows::Incoming { ifindex: interface.ifindex })
            }
            // One that has none is refused when it is opened.
            Kind::Passive(interface, _) => (interface.hardware_type.link_type(), Knows::Each),
            Kind::Replay(trace) => {
                let looked_at = trace.take();
                let link_type = looked_at.as_ref().map(|trace| trace.link_type);
                trace.set(looked_at);
                (link_type, Knows::Nothing)
            }
            Kind::Null(_) => return Err(Error::NoFilter { name: self.name.clone() }),
        };
        let compile = |link_type| PortFilter::compile(expression, link_type, unmatched, knows);
        self.filter = link_type.map(compile).transpose()?;
        Ok(())
    }

    pub(crate) fn is_interface(&self) -> bool {
        self.interface_index().is_some()
    }

    fn interface_index(&self) -> Option<u32> {
        match &self.kind {
            Kind::Xdp(interface) | Kind::Queues(interface) | Kind::Passive(interface, _) => {
                Some(interface.ifindex)
            }
            Kind::Replay(_) | Kind::Null(_) => None,
        }
    }

    /// Whether both would capture the same packets.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        if let (Kind::Replay(_), Kind::Replay(_)) = (&self.kind, &other.kind) {
            return self.name == other.name;
        }
        let is_set = |source: &Self| matches!(source.kind, Kind::Queues(_));
        let disjoint = || !self.rings.iter().any(|ring| other.rings.contains(ring));
        self.is_interface()
            && self.interface_index() == other.interface_index()
            && !(is_set(self) && is_set(other) && disjoint())
    }

    pub(crate) fn is_passive(&self) -> bool {
        matches!(self.kind, Kind::Passive(..))
    }

    /// Why it is captured beside the host although that was not asked for.
    pub(crate) fn reason_for_passive(&self) -> Option<&LeftToHost> {
        match &self.kind {
            Kind::Passive(_, reason) => reason.as_ref(),
            Kind::Xdp(_) | Kind::Queues(_) | Kind::Replay(_) | Kind::Null(_) => None,
        }
    }

    /// Whether its packets can be stamped as wanted.
    pub(crate) fn check_timestamp(&self, wanted: Timestamp) -> Result<(), Error> {
        let name = || self.name.clone();
        match (&self.kind, wanted) {
            // They have the file's times, and that is said.
            (Kind::Replay(_), _) => Ok(()),
            (_, Timestamp::File) => Err(Error::NoFile { name: name() }),
            (Kind::Null(_), Timestamp::Hardware | Timestamp::Kernel) => {
                Err(Error::OnlyBatchTimestamps { name: name(), source_name: wanted.as_str() })
            }
            (Kind::Passive(..), Timestamp::Hardware) => {
                let reason = NicDataRefusal::BesideHost;
                Err(Error::NoHardwareTimestamps { name: name(), reason })
            }
            (Kind::Queues(_), Timestamp::Hardware) => {
                let reason = NicDataRefusal::SomeQueues;
                Err(Error::NoHardwareTimestamps { name: name(), reason })
            }
            (Kind::Xdp(interface), Timestamp::Hardware) => stamping::hardware_clock(interface).map(drop),
            _ => Ok(()),
        }
    }

    /// Whether its packets can have the NIC's hash.
    pub(crate) fn check_rx_hash(&self) -> Result<(), Error> {
        let reason = match &self.kind {
            Kind::Xdp(interface) => return rx_hash::offered(interface),
            Kind::Queues(_) => NicDataRefusal::SomeQueues,
            Kind::Passive(..) => NicDataRefusal::BesideHost,
            Kind::Replay(_) | Kind::Null(_) => NicDataRefusal::NoInterface,
        };
        Err(rx_hash::refusal(&self.name, reason))
    }

    /// Queues whose pools are parts of the packet memory. Those of a passive port are rings of their own.
    pub(crate) fn queues_in_memory(&self) -> usize {
        if self.is_passive() { 0 } else { self.rings.len() }
    }

    fn numa_node(&self) -> Option<u32> {
        match &self.kind {
            Kind::Xdp(interface) | Kind::Queues(interface) => interface.numa_node,
            Kind::Passive(..) | Kind::Replay(_) | Kind::Null(_) => None,
        }
    }

    /// Whether each of its queues has a socket that its pool is registered with.
    pub(crate) fn is_active(&self) -> bool {
        matches!(self.kind, Kind::Xdp(_) | Kind::Queues(_))
    }

    /// One pool for each receive queue, each in its memory, near the NIC if that can be had: memory of another node serves as
    /// well, only slower.
    pub(crate) fn carve<'m>(
        &self,
        nic_id: u16,
        memories: impl Iterator<Item = &'m Arc<PacketMemory>>,
        geometry: Geometry,
    ) -> Result<PortPools, Error> {
        let mut carved = PortPools { pools: Vec::new(), memories: Vec::new(), far: None };
        for (&ring_id, memory) in self.rings.iter().zip(memories) {
            let pool = memory.carve(PoolId { nic_id, ring_id }, geometry)?;
            if let Some(node) = self.numa_node() {
                if let Err(refused) = memory.prefer_node(pool.base(), geometry.pool_bytes(), node) {
                    carved.far = Some(Diagnostic::FarMemory { node, cause: refused.into() });
                }
            }
            carved.pools.push(pool);
            carved.memories.push(Arc::clone(memory));
        }
        Ok(carved)
    }

    pub(crate) fn open(
        &self,
        pools: PortPools,
        context: &OpenContext<'_>,
        others: &[Vec<OpenQueue>],
    ) -> Result<(OpenPort, Vec<OpenQueue>), Error> {
        let PortPools { mut pools, memories, far } = pools;
        let (mut port, queues): (OpenPort, Vec<AnyQueue>) = match &self.kind {
            Kind::Passive(interface, reason) => {
                let (timestamp, fallback) = passive_timestamp(context.config.timestamp);
                let nic_id = others.len() as u16;
                let (port, queues) =
                    packet::open(interface, nic_id, &self.rings, context, self.filter.as_ref())?;
                let mut open = OpenPort::passive(interface, port, reason.as_ref(), self.filter.as_ref());
                open.timestamp = Some(timestamp);
                open.fallbacks.extend(fallback);
                open.host_use = self.host_use.clone();
                return Ok((open, queues.into_iter().map(|queue| self.with_faults(queue)).collect()));
            }
            Kind::Xdp(interface) | Kind::Queues(interface) => {
                let (sharable, shared) = (sharable(others), matches!(self.kind, Kind::Queues(_)));
                let wishes = (context, self.filter.as_ref());
                let (port, queues) = xdp::open(interface, shared, &mut pools, &memories, wishes, &sharable)?;
                let watched = if shared { Watched::Some(&self.rings) } else { Watched::All };
                let open = OpenPort::active(&self.name, interface, port, watched, self.filter.as_ref());
                (open, queues.into_iter().map(AnyQueue::Xdp).collect())
            }
            Kind::Replay(trace) => {
                let trace = trace.take().expect("a port is opened once");
                let wishes = (self.filter.as_ref(), context.config.timestamp);
                let (open, queue) = trace::open(*trace, &mut pools[0], wishes);
                (open, vec![queue])
            }
            Kind::Null(null) => {
                let queues = pools.iter_mut().map(|pool| AnyQueue::Null(NullQueue::new(null, pool)));
                (OpenPort::of_memory(&self.name, QueueMode::Memory), queues.collect())
            }
        };
        port.fallbacks.extend(far);
        port.host_use = self.host_use.clone();
        if port.xdp().is_some() {
            port.upkeep.watch_host(&self.host_use);
        }
        let hash_at = port.xdp().and_then(|xdp| xdp.hash_at);
        let reader = |cells| match hash_at {
            _ if port.mode == QueueMode::Replay => Reader::Noted(cells),
            Some(at) => Reader::Hashed(cells, at),
            None => Reader::Cells(cells),
        };
        // Only now: a pool that was given to a second socket is a new one.
        let opened = queues.into_iter().zip(pools).map(|(queue, pool)| {
            let reader = reader(pool.reader());
            self.with_faults((queue, pool, reader))
        });
        let opened = opened.collect();
        Ok((port, opened))
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

/// How an interface is used that is taken in any case.
fn uses_of(interface: &Interface) -> Vec<HostUse> {
    let uses = HostView::read().and_then(|host| host.uses(interface));
    uses.unwrap_or_else(|error| vec![HostUse::Unknown { what: Sight::Addresses, reason: error.to_string() }])
}

/// The timestamps of a passive port, and that others were asked for, if so.
fn passive_timestamp(wanted: Option<Timestamp>) -> (TimestampReport, Option<Diagnostic>) {
    let wanted = wanted.filter(|&wanted| wanted == Timestamp::Batch);
    let fallback = wanted.map(|wanted| Diagnostic::OtherTimestamps { wanted, used: Timestamp::Kernel });
    let clock = "the system clock (UTC)".into();
    (TimestampReport::of_packets(Timestamp::Kernel, clock, clock::resolution_ns()), fallback)
}

/// The sockets of ports that are open whose UMEM registrations others may use, with their modes.
fn sharable(others: &[Vec<OpenQueue>]) -> Vec<(&XdpQueue, BindMode)> {
    let queues = others.iter().flatten().filter_map(|(queue, ..)| queue.xdp());
    queues.filter(|queue| queue.can_share()).map(|queue| (queue, queue.bind_mode())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_the_caller_has_looked_up_is_not_looked_up_again() {
        let known = [Interface { name: "none0".into(), ..netdev::interface("lo").unwrap() }];
        let resolve = |known: &[Interface]| Source::resolve(&"packet:none0".into(), Some(1), known);
        assert!(resolve(&[]).is_err(), "the kernel knows none");
        assert_eq!(resolve(&known).unwrap().name, "none0");
    }

    #[test]
    fn pools_that_are_far_from_the_nic_are_told_of() {
        let mut interface = netdev::interface("lo").unwrap();
        interface.numa_node = Some(63);
        let mut source = Source::resolve(
            &NullPort { queues: 2, packet_bytes: 60, packets_per_queue: 0 }.into(),
            None,
            &[],
        )
        .unwrap();
        let geometry = Geometry::new(1, 2, 4096).unwrap();
        let memory = Arc::new(PacketMemory::allocate(4 * geometry.pool_bytes(), 4096).unwrap());
        assert_eq!(source.carve(0, [&memory; 2].into_iter(), geometry).unwrap().far, None);
        source.kind = Kind::Xdp(Box::new(interface));
        let carved = source.carve(1, [&memory; 2].into_iter(), geometry).unwrap();
        assert_eq!(carved.pools.len(), 2, "it is a preference only");
        assert!(matches!(carved.far, Some(Diagnostic::FarMemory { node: 63, .. })));
    }
}
