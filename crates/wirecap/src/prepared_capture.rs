//! A capture that is prepared: everything is known, and nothing is changed yet.
//!
//! ```text
//!   Builder::prepare ──► PreparedCapture ── reserve(): memory ──► open(): sockets, programs ──► Capture
//! ```
//!
//! Rule: until `open` nothing is changed on the machine, so a thread that waits in it can be abandoned at any
//! time.

use std::sync::Arc;

use wirecap_core::Geometry;
use wirecap_sys::{clock::BatchClock, netdev};

use crate::{
    Capture, Config, Dispatch, Error,
    capture::Parts,
    port::{
        contract::{PoolMaker, PreparedPort},
        opening::{Hooks, OpenContext},
    },
    report::BoundedMemory,
    reservation::{Layout, Reservation},
};

/// Open files for each port: three maps, two programs, two links, its network namespace, two for statistics,
/// promiscuous mode, two for what only some need. A port whose queues are shared has a dispatcher and its
/// table where a tap has its third map and its second link.
const FILES_PER_PORT: usize = 13;

/// What [`Builder::prepare`](crate::Builder::prepare) has found: ports that can be opened, traces whose
/// writers are there. Dropping it gives everything back.
#[derive(Debug)]
pub struct PreparedCapture {
    pub(crate) config: Config,
    pub(crate) hooks: Hooks,
    pub(crate) geometry: Geometry,
    /// Why the default size of the pools was reduced.
    pub(crate) bounded: Option<BoundedMemory>,
    pub(crate) ring_entries: u32,
    pub(crate) ports: Vec<PreparedPort>,
    pub(crate) layout: Layout,
    /// Memory for their packets, once it is there.
    pub(crate) reserved: Option<Reservation>,
}

impl PreparedCapture {
    /// M, R and the size of a cell.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Receive queues; on a passive port, sockets.
    pub fn queues(&self) -> usize {
        self.ports.iter().map(|port| port.facts.rings.len()).sum()
    }

    /// The numbers of each port's receive queues, in the order of the ports; on a passive port, of its cores
    /// or sockets.
    pub fn queues_of_ports(&self) -> impl Iterator<Item = &[u16]> {
        self.ports.iter().map(|port| port.facts.rings.as_slice())
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.config.workers.unwrap_or_else(|| self.queues())
    }

    /// How many files the capture will have open, about. With a lower limit (`RLIMIT_NOFILE`) opening fails.
    pub fn open_files(&self) -> usize {
        let of = |PreparedPort { facts, .. }: &PreparedPort| {
            FILES_PER_PORT + facts.rings.len() * facts.files_per_queue
        };
        // Each worker and each capture thread has one that others wake it by.
        let capture_threads = match self.config.dispatch {
            Dispatch::Pull => 0,
            Dispatch::Push => self.queues(),
        };
        self.ports.iter().map(of).sum::<usize>() + self.workers() + capture_threads
    }

    /// Bytes of cells of all pools.
    pub fn cells_bytes(&self) -> u64 {
        self.layout.cells_bytes(self.geometry)
    }

    /// Brings in the packet memory and blocks, which [`PreparedCapture::open`] does otherwise: all of it is
    /// written to, which can take seconds on a busy machine. Nothing else is changed, so a thread that waits
    /// in it can be abandoned at any time. Where a control group lacks memory that a capture before may have
    /// had, it waits some seconds until the kernel has freed that.
    ///
    /// # Errors
    /// [`Error::Memory`] and [`Error::Packed`] when there is not enough; [`Error::NotPermitted`].
    pub fn reserve(mut self) -> Result<Self, Error> {
        if self.reserved.is_none() {
            self.reserved = Some(self.layout.reserve(self.geometry, &self.ports, &self.hooks)?);
        }
        Ok(self)
    }

    /// Opens the ports and starts capturing: packets that come from now on are kept for the workers.
    ///
    /// # Errors
    /// [`Error`], each variant with a hint. Nothing stays behind on the machine.
    pub fn open(self) -> Result<Capture, Error> {
        let Self { config, hooks, geometry, bounded, ring_entries, ports, mut layout, reserved } =
            self.reserve()?;
        let Reservation { mut memories, pools, allocators } = reserved.expect("just reserved");
        // Only batches need it; on a passive port the kernel has stamped the packets.
        let has_batches = |port: &PreparedPort| port.facts.pools != PoolMaker::Kernel;
        let clock = if ports.iter().any(has_batches) { BatchClock::new() } else { BatchClock::system() };
        let context = OpenContext { config: &config, hooks: &hooks, geometry, ring_entries };
        let watched = ports.iter().any(|port| port.facts.ifindex().is_some());
        let changes = watched.then(netdev::changes).transpose()?;
        // The memory whose pages are reported: the capture's own, or if no pool lies in that, the memory of
        // the first port that fell back to cells.
        let mut reported = (layout.in_memory() > 0).then(|| Arc::clone(&memories[0]));
        let (mut open_ports, mut registrations) = (Vec::new(), Vec::new());
        for (nic_id, (port, pools)) in ports.into_iter().zip(pools).enumerate() {
            let mut open = port.open(nic_id as u16, pools, context, &registrations)?;
            let sockets = open.queues.iter_mut().filter_map(|queue| queue.socket.as_mut());
            registrations.extend(sockets.filter_map(|socket| socket.registration.take()));
            if let Some(memory) = open.own_memory.take() {
                layout.have_cells(open.queues.len());
                reported.get_or_insert_with(|| Arc::clone(&memory));
                memories.push(memory);
            }
            open_ports.push(open);
        }
        // They keep sockets open.
        drop(registrations);
        let reported = reported.as_ref().unwrap_or(&memories[0]);
        let memory = layout.report(geometry, reported, bounded, ring_entries);
        let ports = open_ports;
        let on_thread = hooks.on_thread.clone();
        let parts =
            Parts { changes, geometry, memory, ring_entries, memories, clock, ports, allocators, on_thread };
        Capture::start(&config, parts)
    }
}
