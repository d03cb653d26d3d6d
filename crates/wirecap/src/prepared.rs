//! A capture that is prepared: everything is known, and nothing is changed yet.
//!
//! ```text
//!   Builder::prepare ──► PreparedCapture ── reserve(): memory ──► open(): sockets, programs ──► Capture
//! ```
//!
//! Rule: until `open` nothing is changed on the machine, so that a thread that is in it may be given up at any time.

use std::fmt;

use wirecap_core::Geometry;
use wirecap_sys::{clock::BatchClock, netdev};

use crate::{
    Capture, Config, Dispatch, Error,
    capture::Parts,
    port::{
        opening::{Hooks, OpenContext},
        source::Source,
    },
    report::BoundedMemory,
    reserve::{CaptureMemory, Layout, Reserved},
};

/// Open files for each port: two maps, a program, a link, its network namespace, two for statistics, promiscuous mode, one for what
/// only some need; two more where its queues are shared: the dispatcher and its table.
const FILES_PER_PORT: usize = 11;

/// What [`Builder::prepare`](crate::Builder::prepare) has found: ports that can be opened, traces whose writers are there. Dropping it gives back
/// all there is.
pub struct PreparedCapture {
    pub(crate) config: Config,
    pub(crate) hooks: Hooks,
    pub(crate) geometry: Geometry,
    /// Why the default size of the pools was reduced.
    pub(crate) bounded: Option<BoundedMemory>,
    pub(crate) ring_entries: u32,
    pub(crate) sources: Vec<Source>,
    pub(crate) layout: Layout,
    /// Memory for their packets, once it is there.
    pub(crate) reserved: Option<Reserved>,
}

impl fmt::Debug for PreparedCapture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.sources.iter().map(|source| &source.name).collect();
        f.debug_struct("PreparedCapture")
            .field("config", &self.config)
            .field("sources", &names)
            .finish_non_exhaustive()
    }
}

impl PreparedCapture {
    /// M, R and the size of a cell.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Receive queues; beside the host, sockets.
    pub fn queues(&self) -> usize {
        self.sources.iter().map(|source| source.rings.len()).sum()
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.config.workers.unwrap_or_else(|| self.queues())
    }

    /// How many files the capture will have open, about. With a lower limit (`RLIMIT_NOFILE`) opening fails.
    pub fn open_files(&self) -> usize {
        let sends = usize::from(self.config.transmit_entries > 0);
        let of = |source: &Source| {
            let by_queue = match source.is_passive() {
                // The socket, and what closes it.
                true => 2,
                // The socket, and again for its sending half.
                false => 1 + sends,
            };
            FILES_PER_PORT + source.rings.len() * by_queue
        };
        // Each worker and each capture thread has one that others wake it by.
        let capture_threads = match self.config.dispatch {
            Dispatch::Pull => 0,
            Dispatch::Push => self.queues(),
        };
        self.sources.iter().map(of).sum::<usize>() + self.workers() + capture_threads
    }

    /// Bytes of cells of all pools.
    pub fn cells_bytes(&self) -> u64 {
        self.layout.cells_bytes(self.geometry)
    }

    /// Brings in the packet memory, which [`PreparedCapture::open`] does otherwise: all of it is written to, which can take seconds
    /// on a busy machine. Nothing else is changed, so that a thread that is in it may be given up at any time.
    ///
    /// # Errors
    /// [`Error::Memory`] when there is not enough.
    pub fn reserve(mut self) -> Result<Self, Error> {
        if self.reserved.is_none() {
            self.reserved = Some(self.layout.reserve(self.geometry, &self.sources, &self.hooks.gives_up)?);
        }
        Ok(self)
    }

    /// Opens the ports and starts capturing: packets that come from now on are kept for the workers.
    ///
    /// # Errors
    /// [`Error`], each variant with a hint. Nothing stays behind on the machine.
    pub fn open(self) -> Result<Capture, Error> {
        let Self { config, hooks, geometry, bounded, ring_entries, sources, layout, reserved } =
            self.reserve()?;
        let Reserved { memories, pools, allocators } = reserved.expect("just reserved");
        // Only batches need it; beside the host the kernel has stamped the packets.
        let is_in_memory = |source: &Source| source.queues_in_memory() > 0;
        let clock = if sources.iter().any(is_in_memory) { BatchClock::new() } else { BatchClock::system() };
        let context = OpenContext { config: &config, hooks: &hooks, geometry, ring_entries };
        let watched = sources.iter().any(Source::is_interface);
        let changes = watched.then(netdev::changes).transpose()?;
        let (mut open_ports, mut opened) = (Vec::new(), Vec::new());
        for (source, pools) in sources.iter().zip(pools) {
            let (port, queues) = source.open(pools, &context, &opened)?;
            open_ports.push(port);
            opened.push(queues);
        }
        let memory = CaptureMemory::new(memories, &layout, geometry, bounded);
        let (ports, queues) = (open_ports, opened);
        Capture::start(
            &config,
            Parts { ring_entries, changes, geometry, memory, clock, ports, queues, allocators },
        )
    }
}
