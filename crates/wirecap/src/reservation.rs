//! The memory of a capture: how large the pools are, which of them share a UMEM, and bringing it in.
//!
//! ```text
//!   Config: pool_size ──► R ──► pools ──► parts of one mapping, each a UMEM
//!
//!   nothing is sent   │ pool │ pool │ pool │ …     a part each: the kernel keeps a record of each cell of a part for each socket of the part
//!   Reach::Worker     │ pools of worker 0  │ …     a transmit ring reaches the cells of its own part only
//!   Reach::All        │ all pools          │
//! ```
//!
//! Rule: all memory is in place before a packet is captured. The kernel pins each page of a UMEM when it is
//! registered, so memory cannot come in later, and no packet waits for a page fault. It is in place even
//! before the first port is opened. There is one exception: a port that falls back from blocks to cells
//! allocates these while it is opened.

use std::sync::Arc;

use wirecap_core::Geometry;
use wirecap_sys::{
    memory::{AvailableMemory, Children, MemoryBound, MemoryFallback, Need, PacketMemory},
    packed::PackedMemory,
};

use crate::{
    Config, Diagnostic, Dispatch, Error, Homes, PoolSize, Reach,
    config::{MAX_WORKERS, limit},
    port::{
        contract::{PoolMaker, PortPools, PreparedPort},
        opening::Hooks,
        pool_memory::{Part, beside_outside, bring_in, patiently},
    },
    report::{BoundedMemory, MemoryReport},
    transmit::{AllocatorParts, carve_allocators},
};

/// Default reserve for the rest of the process: 2 MiB, and up to 6 MiB for the kernel's BTF while interfaces
/// are opened.
const REST_BYTES: u64 = 12 << 20;
/// What a thread takes: its stack in the kernel, and the pages of its own that it touches.
const THREAD_BYTES: u64 = 64 << 10;
/// By default the pools take at most the available memory divided by this.
const SHARE: u64 = 8;

/// Which pools there are, and where they lie.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// For each port, the part of each of its pools; empty for a port whose memory the kernel makes.
    pools: Vec<Vec<usize>>,
    allocators: Vec<usize>,
    parts: Vec<Part>,
    /// Queues whose memory is not the packet memory: rings of passive ports.
    rings: u64,
    /// The others: blocks of packed packets.
    blocks: u64,
    transmit_entries: u32,
    children: Children,
    /// Workers and capture threads.
    threads: u64,
}

impl Layout {
    pub(crate) fn new(config: &Config, ports: &[PreparedPort]) -> Self {
        let queues: usize = ports.iter().map(|port| port.facts.rings.len()).sum();
        let workers = config.workers.unwrap_or(queues).max(1);
        let capture_threads = match config.dispatch {
            Dispatch::Pull => 0,
            Dispatch::Push => config.capture_threads,
        };
        let threads = (workers + capture_threads) as u64;
        let (transmit_entries, children) = (config.transmit_entries, config.children());
        let mut layout = Self { transmit_entries, children, threads, ..Self::default() };
        let together = |worker: usize| match config.reach {
            _ if config.transmit_entries == 0 => None,
            Reach::Worker => Some(worker),
            Reach::All => Some(0),
        };
        let mut begin = 0;
        for PreparedPort { facts, .. } in ports {
            let in_memory = facts.queues_in_memory();
            let has_sockets = facts.pools == PoolMaker::Registered;
            let home = |at| config.homes.of(begin + at, at, workers);
            let places: Vec<_> =
                (0..in_memory).map(|at| layout.place(together(home(at)), has_sockets)).collect();
            layout.pools.push(places);
            let queues = facts.rings.len() as u64;
            match facts.pools {
                PoolMaker::Kernel => layout.rings += queues,
                PoolMaker::Packed => layout.blocks += queues,
                PoolMaker::Registered | PoolMaker::InProcess => {}
            }
            begin += facts.rings.len();
        }
        for allocator in 0..usize::from(config.allocators) {
            let place = layout.place(together(allocator % workers), false);
            layout.allocators.push(place);
        }
        if layout.parts.is_empty() {
            layout.parts.push(Part::default());
        }
        layout
    }

    /// Has pools of their own parts in the place of blocks, for the queues of a port that fell back to cells.
    pub(crate) fn have_cells(&mut self, queues: usize) {
        self.blocks -= queues as u64;
        self.parts.extend(vec![Part { pools: 1, sockets: 1 }; queues]);
    }

    /// The part for a pool: this one, or one of its own.
    fn place(&mut self, together: Option<usize>, has_socket: bool) -> usize {
        let place = together.unwrap_or(self.parts.len());
        if self.parts.len() <= place {
            self.parts.resize(place + 1, Part::default());
        }
        self.parts[place].pools += 1;
        self.parts[place].sockets += u64::from(has_socket);
        place
    }

    /// Pools in the packet memory.
    pub(crate) fn in_memory(&self) -> u64 {
        self.parts.iter().map(|part| part.pools).sum()
    }

    /// All pools.
    fn pools(&self) -> u64 {
        self.in_memory() + self.rings + self.blocks
    }

    /// What pools of these sizes take besides their cells, rings and blocks.
    fn beside(&self, geometry: Geometry) -> Need {
        let parts = self.parts.iter().map(|part| part.beside(geometry, self.transmit_entries));
        let blocks = PackedMemory::need_beside(self.blocks as u32, geometry);
        parts.chain([blocks, beside_outside(self.rings + self.blocks, geometry)]).sum()
    }

    /// What pools outside of the packet memory take. The kernel counts arrays of BPF against the control
    /// groups of the process, and rings of AF_PACKET against none.
    fn outside(&self, geometry: Geometry) -> Need {
        let (blocks, rings) = (self.blocks * geometry.pool_bytes(), self.rings * geometry.pool_bytes());
        Need { charged: blocks, kernel: rings, ..Need::default() }
    }

    /// All that pools of these sizes take.
    fn bytes(&self, geometry: Geometry) -> u64 {
        let beside = [self.beside(geometry), self.outside(geometry)].into_iter().sum::<Need>();
        beside.all() + self.in_memory() * geometry.pool_bytes()
    }

    /// The sizes of the pools, and why they are smaller than by default.
    ///
    /// # Errors
    /// [`Error::Geometry`], [`Error::LittleMemory`], and [`Error::MuchMemory`].
    pub(crate) fn sizes(
        &self,
        config: &Config,
        available: Option<AvailableMemory>,
    ) -> Result<(Geometry, Option<BoundedMemory>), Error> {
        let (cells_per_chunk, cell_bytes) = (config.cells_per_chunk, config.cell_bytes);
        let of = |chunks| Geometry::new(cells_per_chunk, chunks, cell_bytes);
        let one = of(1)?;
        let most = one.max_chunks();
        match config.pool_size {
            PoolSize::Chunks(chunks) => Ok((of(chunks)?, None)),
            PoolSize::Memory(bytes) => {
                let least = self.pools() * one.pool_bytes();
                let chunks = u32::try_from(bytes / least.max(1)).unwrap_or(u32::MAX);
                if chunks == 0 {
                    return Err(Error::LittleMemory { bytes, least });
                }
                if chunks > most {
                    return Err(Error::MuchMemory { bytes, most: u64::from(most) * least });
                }
                Ok((of(chunks)?, None))
            }
            PoolSize::AtMost(chunks) => {
                let wanted = of(chunks)?.chunks_per_pool();
                let Some(available) = available else { return Ok((of(wanted)?, None)) };
                let fits = |geometry: &Geometry| self.bytes(*geometry) <= available.bytes / SHARE;
                let geometry =
                    (1..=wanted).rev().filter_map(|chunks| of(chunks).ok()).find(fits).unwrap_or(one);
                let bounded = BoundedMemory::new(wanted, &available);
                Ok((geometry, (geometry.chunks_per_pool() < wanted).then_some(bounded)))
            }
        }
    }

    /// Bytes of all pools.
    pub(crate) fn cells_bytes(&self, geometry: Geometry) -> u64 {
        self.pools() * geometry.pool_bytes()
    }

    /// The report of the memory. `memory` is the part of it whose pages are described.
    pub(crate) fn report(
        &self,
        geometry: Geometry,
        memory: &PacketMemory,
        bounded: Option<BoundedMemory>,
        ring_entries: u32,
    ) -> MemoryReport {
        let beside = self.beside(geometry);
        let has_cells = self.in_memory() > 0;
        let has_sockets = self.parts.iter().any(|part| part.sockets > 0);
        // Without cells only a page was asked for.
        let fallbacks = memory.fallbacks().iter();
        let fallbacks = fallbacks
            .filter(|fallback| has_cells || matches!(fallback, MemoryFallback::ControlGroupUnseen(_)))
            .map(Diagnostic::from);
        MemoryReport {
            cells_bytes: self.cells_bytes(geometry),
            kernel_bytes: beside.charged + beside.kernel,
            cells_per_chunk: geometry.cells_per_chunk(),
            chunks_per_pool: geometry.chunks_per_pool(),
            cell_bytes: geometry.cell_bytes(),
            bounded,
            pages: has_cells.then(|| memory.pages()),
            fallbacks: fallbacks.collect(),
            ring_entries: has_sockets.then_some(ring_entries),
        }
    }

    /// Allocates the memory, makes the pools in it, and brings in all pages.
    ///
    /// # Errors
    /// [`Error::Memory`] when there is not enough; [`Error::GivenUp`].
    pub(crate) fn reserve(
        &self,
        geometry: Geometry,
        ports: &[PreparedPort],
        hooks: &Hooks,
    ) -> Result<Reservation, Error> {
        let give_up = &hooks.give_up;
        limit("rings of passive ports", self.rings as usize, MAX_WORKERS)?;
        let parts: Vec<_> = self.parts.iter().map(|part| part.pools * geometry.pool_bytes()).collect();
        let rest = hooks.rest_bytes.unwrap_or(REST_BYTES) + self.threads * THREAD_BYTES;
        let rest = Need { rest, ..Need::default() };
        let beside = [self.beside(geometry), self.outside(geometry), rest].into_iter().sum::<Need>();
        let allocate = || PacketMemory::allocate_parts(&parts, geometry.cell_bytes(), self.children, beside);
        let memories = patiently(give_up, allocate)?;
        let memories: Vec<_> = memories.into_iter().map(Arc::new).collect();
        let of = |place: &usize| &memories[*place];
        let carve = |(nic_id, (port, places)): (usize, (&PreparedPort, &Vec<usize>))| {
            PortPools::carve(&port.facts, nic_id as u16, places.iter().map(of), geometry)
        };
        let pools = ports.iter().zip(&self.pools).enumerate().map(carve).collect::<Result<Vec<_>, _>>()?;
        let allocators = carve_allocators(self.allocators.iter().map(of), geometry)?;
        bring_in(&memories, give_up)?;
        let with_blocks = |(pools, port): (PortPools, &PreparedPort)| {
            give_up.check()?;
            pools.with_blocks(&port.facts, geometry, give_up)
        };
        let pools = pools.into_iter().zip(ports).map(with_blocks).collect::<Result<Vec<_>, _>>()?;
        Ok(Reservation { memories, pools, allocators })
    }
}

/// Memory and pools, made before anything on the machine is changed.
#[derive(Debug)]
pub(crate) struct Reservation {
    pub(crate) memories: Vec<Arc<PacketMemory>>,
    /// By port.
    pub(crate) pools: Vec<PortPools>,
    pub(crate) allocators: Vec<AllocatorParts>,
}

impl BoundedMemory {
    fn new(chunks_per_pool: u32, available: &AvailableMemory) -> Self {
        let control_group = match &available.bound {
            MemoryBound::Machine => None,
            MemoryBound::Group { directory, .. } => Some(directory.clone()),
        };
        Self { chunks_per_pool, available_bytes: available.bytes, share: SHARE, control_group }
    }
}

impl Homes {
    /// The worker that is home of a queue: by its number over all ports, or that on its port.
    pub(crate) fn of(self, overall: usize, on_port: usize, workers: usize) -> usize {
        match self {
            Homes::InTurn => overall % workers,
            Homes::ByQueue => on_port % workers,
            Homes::First => 0,
        }
    }
}
