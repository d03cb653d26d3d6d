//! What a kind of port implements.
//!
//! ```text
//!   PortSpec ── look_up ──► PreparedPort { facts, port } ── check(config) ── open(pools, request) ──► OpenPort { queues, backend, … }
//!                           nothing is changed yet                                          engine ◄────┘        └──► looked after, closed
//! ```
//!
//! Rule: what a port is and can do is data. A port is asked only for what it does.

use std::{fmt::Debug, sync::Arc};

use wirecap_core::{Geometry, PoolId};
use wirecap_file::LINK_TYPE_ETHERNET;
use wirecap_sys::{
    bpf,
    memory::{LivePool, PacketMemory, check_available},
    packed::{MIN_BLOCK_BYTES, MIN_BLOCKS, PackedError, PackedMemory},
    xsk::{BindMode, Registration},
};

use super::{
    open_port::OpenPort,
    opening::{GiveUpFlag, OpenContext},
    pool_memory::{Part, bring_in, patiently},
};
use crate::{
    Config, Diagnostic, Error, HostUse, QueueSet,
    filter::{Expressions, OriginInfo, PortFilter},
};

/// A port that is looked up and not opened.
pub(crate) trait Port: Debug + Send {
    /// Refuses settings that it cannot serve.
    ///
    /// # Errors
    /// The first such setting, with what to do about it.
    fn check(&self, facts: &PortFacts, config: &Config) -> Result<(), Error>;

    /// Opens it: packets that come from now on are kept. `pools` are those of its rings; none if the kernel
    /// or the port makes them.
    ///
    /// # Errors
    /// [`Error`]; nothing stays behind on the machine.
    fn open(self: Box<Self>, pools: PortPools, request: &OpenRequest<'_>) -> Result<OpenPort, Error>;
}

/// A port that can be opened.
#[derive(Debug)]
pub(crate) struct PreparedPort {
    pub(crate) facts: PortFacts,
    pub(crate) filter: Option<PortFilter>,
    port: Box<dyn Port>,
}

impl PreparedPort {
    pub(crate) fn new(facts: PortFacts, port: impl Port + 'static) -> Self {
        Self { facts, filter: None, port: Box::new(port) }
    }

    /// The same port inside another one.
    pub(crate) fn wrapped<P: Port + 'static>(self, wrap: impl FnOnce(Box<dyn Port>) -> P) -> Self {
        Self { port: Box::new(wrap(self.port)), ..self }
    }

    /// Refuses settings that it cannot serve, and compiles the filter.
    pub(crate) fn set_up(&mut self, config: &Config) -> Result<(), Error> {
        self.port.check(&self.facts, config)?;
        let PortFacts { link_type, origin, .. } = self.facts;
        let expressions = Expressions::of(config);
        let compile = |expressions| {
            PortFilter::compile(expressions, link_type, config.unmatched.unwrap_or_default(), origin)
        };
        self.filter = expressions.map(compile).transpose()?;
        Ok(())
    }

    /// Opens it as the port `nic_id` of a capture; `registrations` are those of ports that are open.
    pub(crate) fn open(
        self,
        nic_id: u16,
        pools: PortPools,
        context: OpenContext<'_>,
        registrations: &[(Registration, BindMode)],
    ) -> Result<OpenPort, Error> {
        let Self { facts, filter, port } = self;
        let far = pools.far.clone();
        let request = OpenRequest { context, facts: &facts, filter: filter.as_ref(), nic_id, registrations };
        let mut open = port.open(pools, &request)?;
        open.report.fallbacks.extend(far);
        open.report.host_use = facts.host_use;
        open.report.numa_node = facts.numa_node;
        Ok(open)
    }
}

/// What is known of a port before it is opened.
#[derive(Debug, Clone)]
pub(crate) struct PortFacts {
    pub(crate) name: String,
    /// The receive queues that are captured.
    pub(crate) rings: Vec<u16>,
    /// Where its packets come from.
    pub(crate) source: PacketSource,
    /// What its packets begin with: a number of the pcap registry.
    pub(crate) link_type: u16,
    /// What it knows of the origin of each packet.
    pub(crate) origin: OriginInfo,
    /// Who makes the pools of its rings.
    pub(crate) pools: PoolMaker,
    /// The memory node of its NIC, where its pools should be.
    pub(crate) numa_node: Option<u32>,
    /// How its interface is used by the host and by others.
    pub(crate) host_use: Vec<HostUse>,
    /// Whether it is a tap that was not asked for: AF_PACKET does, where pools are too small for a tap.
    pub(crate) is_tapped_by_default: bool,
    /// Files that each of its queues has open.
    pub(crate) files_per_queue: usize,
}

/// Where packets come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PacketSource {
    /// An interface, or some of its receive queues.
    Interface { ifindex: u32, queues: Option<QueueSet> },
    /// A file.
    File,
    /// This process makes them.
    Memory,
}

/// Who makes the pools of a port, and with which sockets the kernel knows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PoolMaker {
    /// The capture, in its packet memory. A socket of each queue registers its pool.
    Registered,
    /// The capture, in its packet memory, which the process alone reads and writes.
    InProcess,
    /// The kernel: each queue has a ring of its own.
    Kernel,
    /// The port: blocks into which its XDP program packs packets. Where the kernel refuses that, and it was
    /// not asked for, the port allocates cells ([`PortPools::allocate`]).
    Packed,
}

impl PortFacts {
    /// A port without an interface, whose packets this process writes into cells.
    pub(crate) fn without_interface(name: String, rings: Vec<u16>) -> Self {
        Self {
            name,
            rings,
            source: PacketSource::Memory,
            link_type: LINK_TYPE_ETHERNET,
            origin: OriginInfo::Nothing,
            pools: PoolMaker::InProcess,
            numa_node: None,
            host_use: Vec::new(),
            is_tapped_by_default: false,
            files_per_queue: 0,
        }
    }

    /// Index of its interface, if it is one.
    pub(crate) fn ifindex(&self) -> Option<u32> {
        match self.source {
            PacketSource::Interface { ifindex, .. } => Some(ifindex),
            PacketSource::File | PacketSource::Memory => None,
        }
    }

    /// Whether both would capture the same packets, whatever the names of their interfaces.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        use PacketSource::{File, Interface};
        match (&self.source, &other.source) {
            (Interface { ifindex, queues }, Interface { ifindex: other, queues: others }) => {
                ifindex == other && QueueSet::overlap(queues.as_ref(), others.as_ref())
            }
            (File, File) => self.name == other.name,
            _ => false,
        }
    }

    /// Its queues whose pools are parts of the packet memory.
    pub(crate) fn queues_in_memory(&self) -> usize {
        match self.pools {
            PoolMaker::Registered | PoolMaker::InProcess => self.rings.len(),
            PoolMaker::Kernel | PoolMaker::Packed => 0,
        }
    }
}

/// What a port is opened with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenRequest<'a> {
    pub(crate) context: OpenContext<'a>,
    pub(crate) facts: &'a PortFacts,
    pub(crate) filter: Option<&'a PortFilter>,
    /// Its position among the ports of the capture.
    pub(crate) nic_id: u16,
    /// Registrations of packet memory by ports that are open, with their modes.
    pub(crate) registrations: &'a [(Registration, BindMode)],
}

/// The pools of a port, one for each receive queue, or the blocks that it makes them of.
#[derive(Debug)]
pub(crate) struct PortPools {
    pub(crate) pools: Vec<LivePool>,
    /// The memory of each pool.
    pub(crate) memories: Vec<Arc<PacketMemory>>,
    /// Why they are not near the NIC.
    pub(crate) far: Option<Diagnostic>,
    /// Blocks of all queues, for a port whose program packs packets.
    pub(crate) blocks: Option<Arc<PackedMemory>>,
}

impl PortPools {
    /// No pools.
    pub(crate) fn none() -> Self {
        Self { pools: Vec::new(), memories: Vec::new(), far: None, blocks: None }
    }

    /// Has blocks for the queues of a port, if it packs packets and blocks can have these sizes.
    ///
    /// # Errors
    /// As [`allocate_blocks`].
    pub(crate) fn with_blocks(
        self,
        facts: &PortFacts,
        geometry: Geometry,
        give_up: &GiveUpFlag,
    ) -> Result<Self, Error> {
        let fit = geometry.chunk_bytes() >= MIN_BLOCK_BYTES && geometry.chunks_per_pool() >= MIN_BLOCKS;
        let wanted =
            (fit && facts.pools == PoolMaker::Packed).then(|| allocate_blocks(facts, geometry, give_up));
        Ok(Self { blocks: wanted.transpose()?, ..self })
    }

    /// A pool for each ring, with a socket, in memory that is allocated and brought in now, for a port that
    /// was expected to have blocks.
    ///
    /// # Errors
    /// [`Error::Memory`] when there is not enough; [`Error::GivenUp`].
    pub(crate) fn allocate(request: &OpenRequest<'_>) -> Result<Self, Error> {
        let OpenRequest { context, facts, nic_id, .. } = *request;
        let OpenContext { config, hooks, geometry, .. } = context;
        let part = Part { pools: 1, sockets: 1 };
        let beside = facts.rings.iter().map(|_| part.beside(geometry, config.transmit_entries)).sum();
        let parts = vec![geometry.pool_bytes(); facts.rings.len()];
        // The blocks that it had may count until the kernel has freed them.
        let allocate =
            || PacketMemory::allocate_parts(&parts, geometry.cell_bytes(), config.children(), beside);
        let memories = patiently(&hooks.give_up, allocate)?;
        let memories: Vec<_> = memories.into_iter().map(Arc::new).collect();
        let pools = Self::carve(facts, nic_id, memories.iter(), geometry)?;
        bring_in(&memories, &hooks.give_up)?;
        Ok(pools)
    }

    /// One pool for each of `memories`, in it, near the NIC if the kernel allows that: memory of another node
    /// is slower, no more.
    pub(crate) fn carve<'m>(
        facts: &PortFacts,
        nic_id: u16,
        memories: impl Iterator<Item = &'m Arc<PacketMemory>>,
        geometry: Geometry,
    ) -> Result<Self, Error> {
        let mut carved = Self::none();
        for (&ring_id, memory) in facts.rings.iter().zip(memories) {
            let pool = memory.carve(PoolId { nic_id, ring_id }, geometry)?;
            if let Some(node) = facts.numa_node {
                let preferred = memory.prefer_node(pool.base(), geometry.pool_bytes(), node);
                let far =
                    preferred.err().map(|refused| Diagnostic::FarMemory { node, cause: refused.into() });
                carved.far = far.or(carved.far);
            }
            carved.pools.push(pool);
            carved.memories.push(Arc::clone(memory));
        }
        Ok(carved)
    }
}

/// Blocks for all queues of a port.
///
/// # Errors
/// [`Error::Packed`], also for sizes that blocks cannot have; [`Error::Memory`] when there is not enough;
/// [`Error::NotPermitted`]; [`Error::GivenUp`].
pub(crate) fn allocate_blocks(
    facts: &PortFacts,
    geometry: Geometry,
    give_up: &GiveUpFlag,
) -> Result<Arc<PackedMemory>, Error> {
    let streams = facts.rings.len() as u32;
    // Blocks of an attempt that failed may count until the kernel has freed them.
    patiently(give_up, || check_available(PackedMemory::need(streams, geometry)))?;
    let memory = PackedMemory::create(facts.rings.iter().map(|&ring| ring.into()), geometry);
    memory.map(Arc::new).map_err(|source| packed_error(&facts.name, source))
}

/// What a lack of blocks means to the user.
pub(crate) fn packed_error(name: &str, source: PackedError) -> Error {
    match source {
        PackedError::Map(source @ bpf::Error::NotPermitted { .. }) => Error::NotPermitted(source.to_string()),
        source => Error::Packed { name: name.into(), source },
    }
}
