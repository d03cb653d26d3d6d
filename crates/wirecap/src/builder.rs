//! From what the user asks for to an engine that runs.
//!
//! Rule: everything that can be checked is checked before anything is changed on the machine.

use std::{collections::HashSet, sync::Arc, thread};

use wirecap_core::{
    Geometry, Mode, Pool, PoolId,
    chunk::{MAX_NICS, MAX_RINGS},
};
use wirecap_sys::{
    cpu,
    memory::{CellReader, PacketMemory},
    netdev::{self, Interface},
};

use crate::{
    Capture, Error,
    capture::{OpenPort, Parts},
    engine::wait::Wait,
    port::{
        AnyQueue, PortSpec,
        fault::FaultQueue,
        null::{NullPort, NullQueue},
        xdp::{self, Modes, XdpOptions},
    },
    report::QueueMode,
};

/// How chunks get from rings to workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dispatch {
    /// No capture thread: a worker drains its own rings, and an idle one helps a buddy over T.
    #[default]
    Pull,
    /// The paper's: capture threads drain the rings into capture queues, over T into a buddy's.
    Push,
}

/// Which workers are buddies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Grouping {
    /// All workers: one application.
    #[default]
    All,
    /// These sets of workers, by their numbers. A worker that is in none is on its own.
    Sets(Vec<Vec<usize>>),
}

/// What to capture, and how. Made by [`Capture::builder`].
#[derive(Debug, Clone)]
pub struct Builder {
    ports: Vec<PortSpec>,
    pub(crate) cells_per_chunk: u32,
    pub(crate) chunks_per_pool: u32,
    pub(crate) cell_bytes: u32,
    ring_entries: Option<u32>,
    pub(crate) mode: Mode,
    pub(crate) dispatch: Dispatch,
    pub(crate) workers: Option<usize>,
    pub(crate) worker_cores: Vec<usize>,
    pub(crate) capture_threads: usize,
    pub(crate) capture_cores: Vec<usize>,
    pub(crate) wait: Wait,
    pub(crate) grouping: Grouping,
    promiscuous: bool,
    modes: Modes,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            ports: Vec::new(),
            cells_per_chunk: 256,
            chunks_per_pool: 128,
            cell_bytes: 2048,
            ring_entries: None,
            mode: Mode::Advanced { threshold_percent: 60 },
            dispatch: Dispatch::Pull,
            workers: None,
            worker_cores: Vec::new(),
            capture_threads: 1,
            capture_cores: Vec::new(),
            wait: Wait::Sleep,
            grouping: Grouping::All,
            promiscuous: true,
            modes: Modes::Best,
        }
    }
}

impl Builder {
    /// Adds a port: `"eth1"`, `"xdp:eth1"`, or a [`PortSpec`].
    pub fn port(mut self, port: impl Into<PortSpec>) -> Self {
        self.ports.push(port.into());
        self
    }

    /// M, a power of two. Default 256.
    pub fn cells_per_chunk(mut self, cells: u32) -> Self {
        self.cells_per_chunk = cells;
        self
    }

    /// R. Default 128: with M = 256 and cells of 2 KiB that is 64 MiB for each receive queue.
    pub fn chunks_per_pool(mut self, chunks: u32) -> Self {
        self.chunks_per_pool = chunks;
        self
    }

    /// Size of a cell in bytes: 2048 (default) or 4096.
    pub fn cell_bytes(mut self, bytes: u32) -> Self {
        self.cell_bytes = bytes;
        self
    }

    /// Entries of the fill and receive rings, a power of two. Default: as many as the pool has
    /// cells, so that the kernel always has all free cells.
    pub fn ring_entries(mut self, entries: u32) -> Self {
        self.ring_entries = Some(entries);
        self
    }

    /// Basic or advanced mode. Default: advanced with T = 60 percent.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// How chunks get to workers. Default: pull.
    pub fn dispatch(mut self, dispatch: Dispatch) -> Self {
        self.dispatch = dispatch;
        self
    }

    /// Number of workers. Default: one for each receive queue. With fewer, a worker has several
    /// queues; with more (advanced mode only), some only help.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Cores for the workers, in turn. Default: not bound.
    pub fn worker_cores(mut self, cores: impl Into<Vec<usize>>) -> Self {
        self.worker_cores = cores.into();
        self
    }

    /// Number of capture threads with `push`; the receive queues are dealt out among them. Default 1.
    pub fn capture_threads(mut self, threads: usize) -> Self {
        self.capture_threads = threads;
        self
    }

    /// Cores for the capture threads, in turn. Default: not bound.
    pub fn capture_cores(mut self, cores: impl Into<Vec<usize>>) -> Self {
        self.capture_cores = cores.into();
        self
    }

    /// What to do while nothing comes. Default: sleep, with a bound.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// Which workers are buddies. Default: all.
    pub fn grouping(mut self, grouping: Grouping) -> Self {
        self.grouping = grouping;
        self
    }

    /// Whether the NIC shall accept packets for other stations. Default: yes.
    pub fn promiscuous(mut self, on: bool) -> Self {
        self.promiscuous = on;
        self
    }

    /// Which ways of attaching to an interface are tried. Default: the best that works.
    pub fn modes(mut self, modes: Modes) -> Self {
        self.modes = modes;
        self
    }

    /// Opens the ports and starts capturing: packets that come from now on are kept for the workers.
    ///
    /// # Errors
    /// [`Error`], each variant with a hint. Nothing stays behind on the machine.
    pub fn open(self) -> Result<Capture, Error> {
        let geometry = Geometry::new(self.cells_per_chunk, self.chunks_per_pool, self.cell_bytes)?;
        let ring_entries = self.check_ring(geometry)?;
        let sources = self.resolve()?;
        let queues: usize = sources.iter().map(|source| source.rings.len()).sum();
        self.check_threads(queues)?;

        let memory = Arc::new(PacketMemory::allocate(geometry.pool_bytes() * queues as u64)?);
        let mut pools = carve(&memory, geometry, &sources)?;
        memory
            .populate()
            .map_err(|source| wirecap_sys::memory::MemoryError::Map { needed: memory.len(), source })?;

        let options = XdpOptions { ring_entries, promiscuous: self.promiscuous, modes: self.modes };
        let (mut open_ports, mut opened) = (Vec::new(), Vec::new());
        for source in &sources {
            let port_pools: Vec<_> = pools.drain(..source.rings.len()).collect();
            let (port, queues) = source.open(port_pools, &memory, options, &opened)?;
            open_ports.push(port);
            opened.push(queues);
        }
        Capture::start(self, Parts { geometry, memory, ports: open_ports, queues: opened })
    }

    fn check_ring(&self, geometry: Geometry) -> Result<u32, Error> {
        let ring = self.ring_entries.unwrap_or(geometry.ring_entries());
        if !ring.is_power_of_two() || ring < geometry.cells_per_chunk() {
            return Err(Error::Ring { ring, cells_per_chunk: geometry.cells_per_chunk() });
        }
        Ok(ring)
    }

    fn check_threads(&self, queues: usize) -> Result<(), Error> {
        let workers = self.workers.unwrap_or(queues);
        if workers == 0 {
            return Err(Error::NoWorker);
        }
        if workers > queues && self.mode == Mode::Basic {
            return Err(Error::IdleWorkers { workers, queues });
        }
        for &core in self.worker_cores.iter().chain(&self.capture_cores) {
            // Tried by a thread of its own, so that this one stays where it is.
            let tried = thread::spawn(move || cpu::pin_to_core(core)).join();
            tried.expect("no panic").map_err(|source| Error::Core { core, source })?;
        }
        Ok(())
    }

    /// Finds out what the ports are, without changing anything.
    fn resolve(&self) -> Result<Vec<Source>, Error> {
        if self.ports.is_empty() {
            return Err(Error::NoPort);
        }
        limit("ports", self.ports.len(), usize::from(MAX_NICS))?;
        let mut names = HashSet::new();
        let mut sources = Vec::new();
        for spec in &self.ports {
            let source = Source::resolve(spec)?;
            if matches!(source.kind, Kind::Interface(_)) && !names.insert(source.name.clone()) {
                return Err(Error::PortTwice(source.name));
            }
            limit("receive queues of one port", source.rings.len(), usize::from(MAX_RINGS))?;
            sources.push(source);
        }
        Ok(sources)
    }
}

fn limit(what: &'static str, given: usize, most: usize) -> Result<(), Error> {
    if given > most { Err(Error::TooMany { what, given, most }) } else { Ok(()) }
}

/// One pool for each receive queue of each port, near the NIC.
fn carve(
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
struct Source {
    name: String,
    kind: Kind,
    rings: Vec<u16>,
    faults: Vec<crate::port::fault::Faults>,
}

enum Kind {
    Interface(Box<Interface>),
    Null(NullPort),
}

/// A queue of an open port with its pool.
pub(crate) type OpenQueue = (AnyQueue, Pool, CellReader);

impl Source {
    fn resolve(spec: &PortSpec) -> Result<Self, Error> {
        match spec {
            PortSpec::Xdp { name, force } => {
                let interface = netdev::interface(name)?;
                if !force {
                    check_host(&interface)?;
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

    fn numa_node(&self) -> Option<u32> {
        match &self.kind {
            Kind::Interface(interface) => interface.numa_node,
            Kind::Null(_) => None,
        }
    }

    fn open(
        &self,
        pools: Vec<(Pool, CellReader)>,
        memory: &Arc<PacketMemory>,
        options: XdpOptions,
        others: &[Vec<OpenQueue>],
    ) -> Result<(OpenPort, Vec<OpenQueue>), Error> {
        let (mut pools, readers): (Vec<Pool>, Vec<CellReader>) = pools.into_iter().unzip();
        let (port, queues): (OpenPort, Vec<AnyQueue>) = match &self.kind {
            Kind::Interface(interface) => {
                let sharable = others.iter().find_map(|queues| match queues.first() {
                    Some((AnyQueue::Xdp(queue), ..)) if queue.can_share() => Some((queue, queue.bind_mode())),
                    _ => None,
                });
                let (port, queues) = xdp::open(interface, &mut pools, memory, options, sharable)?;
                let open = OpenPort::interface(interface, port);
                (open, queues.into_iter().map(AnyQueue::Xdp).collect())
            }
            Kind::Null(null) => {
                let queues = pools.iter_mut().map(|pool| {
                    let geometry = pool.geometry();
                    AnyQueue::Null(NullQueue::new(null, geometry.cells_per_pool(), geometry.cell_bytes()))
                });
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

/// Whether taking the interface would cut the host off.
fn check_host(interface: &Interface) -> Result<(), Error> {
    let reason = if interface.has_ip_address() {
        let first = interface.addresses.iter().find(|address| !address.address.is_unspecified());
        first.map(|address| format!("address {}/{}", address.address, address.prefix_length))
    } else {
        interface.master.map(|master| match netdev::interfaces() {
            Ok(all) => all.iter().find(|other| other.ifindex == master).map_or_else(
                || "member of another interface".into(),
                |other| format!("member of {}", other.name),
            ),
            Err(_) => "member of another interface".into(),
        })
    };
    match reason {
        Some(reason) => Err(Error::UsedByHost { name: interface.name.clone(), reason }),
        None => Ok(()),
    }
}

impl OpenPort {
    fn interface(interface: &Interface, port: xdp::XdpPort) -> Self {
        Self {
            name: interface.name.clone(),
            ifindex: Some(interface.ifindex),
            driver: interface.driver.as_ref().map_or_else(|| "unknown".into(), |driver| driver.name.clone()),
            numa_node: interface.numa_node,
            before: netdev::LinkStatistics::of_index(interface.ifindex).ok(),
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
            before: None,
            mode: QueueMode::Memory,
            fallbacks: Vec::new(),
            multi_buffer: false,
            xdp: None,
            removed: false,
        }
    }
}
