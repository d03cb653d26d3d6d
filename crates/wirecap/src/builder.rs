//! From what the user asks for to an engine that runs.
//!
//! Rule: everything that can be checked is checked before anything is changed on the machine.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use wirecap_core::{
    Geometry, Mode,
    chunk::{MAX_NICS, MAX_RINGS},
};
use wirecap_sys::{cpu, memory, packet::Fanout};

use crate::{
    Capture, Error, LookedUp, QueueWait, Timestamp,
    engine::wait::Wait,
    port::{
        PortSpec,
        filter::Unmatched,
        rss::Rss,
        source::Source,
        xdp::{Modes, OnWait, XdpOptions},
    },
    reserve::{Layout, PoolSize},
};

/// Workers an engine can have, if it has not more receive queues: looking after buddies grows with their
/// square.
pub(crate) const MAX_WORKERS: usize = 256;

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

/// Which worker is home of which receive queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Homes {
    /// In turn over all ports, so that the queues are spread evenly.
    #[default]
    InTurn,
    /// By the queue's number on its port: queue q of every port has the same worker, as is wanted of one that forwards between
    /// them.
    ByQueue,
}

/// Which transmitters can send a packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reach {
    /// All of the engine. The kernel keeps some 128 bytes for each cell of the engine with *each* socket: with many queues that is
    /// more than the cells.
    #[default]
    All,
    /// Those of the worker that is home of the packet's queue ([`Transmitter::worker`](crate::Transmitter::worker)), and
    /// [`Stock`](crate::Stock) n goes with worker n, modulo their number. Others refuse it as
    /// [`NotSendable`](crate::Refusal::NotSendable).
    Worker,
}

/// Whether opening is given up.
#[derive(Debug, Clone, Default)]
pub(crate) struct GivesUp(Option<Arc<AtomicBool>>);

impl GivesUp {
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.as_ref().is_some_and(|wanted| wanted.load(Ordering::Relaxed))
    }

    /// # Errors
    /// [`Error::GivenUp`] if it is.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_wanted() { Err(Error::GivenUp) } else { Ok(()) }
    }
}

/// What to capture, and how. Made by [`Capture::builder`].
#[derive(Debug, Clone)]
pub struct Builder {
    ports: Vec<PortSpec>,
    pub(crate) cells_per_chunk: u32,
    pub(crate) pool_size: PoolSize,
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
    rss: Rss,
    pub(crate) fanout: Fanout,
    filter: Option<String>,
    unmatched: Unmatched,
    pub(crate) transmit_entries: u32,
    pub(crate) stocks: u16,
    pub(crate) reach: Reach,
    pub(crate) homes: Homes,
    timestamp: Option<Timestamp>,
    stamp_packets: bool,
    rx_hash: bool,
    on_wait: Option<OnWait>,
    pub(crate) gives_up: GivesUp,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            ports: Vec::new(),
            cells_per_chunk: 256,
            pool_size: PoolSize::AtMost(128),
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
            rss: Rss::Keep,
            fanout: Fanout::Hash,
            filter: None,
            unmatched: Unmatched::Pass,
            transmit_entries: 0,
            stocks: 0,
            reach: Reach::All,
            homes: Homes::InTurn,
            timestamp: None,
            stamp_packets: false,
            rx_hash: false,
            on_wait: None,
            gives_up: GivesUp::default(),
        }
    }
}

impl Builder {
    /// Adds a port: `"eth1"`, `"xdp:eth1"`, `"packet:eth1"`, `"eth1@0-3"`, `"replay:trace.pcapng"`, or a [`PortSpec`].
    pub fn port(mut self, port: impl Into<PortSpec>) -> Self {
        self.ports.push(port.into());
        self
    }

    /// M, a power of two. Default 256.
    pub fn cells_per_chunk(mut self, cells: u32) -> Self {
        self.cells_per_chunk = cells;
        self
    }

    /// R, or less where that, with what the kernel needs besides, would take more than an eighth of the memory that is available to
    /// this process; [`MemoryReport::bounded`](crate::report::MemoryReport::bounded) says so. Default 128: with M = 256 and
    /// cells of 2 KiB that is 64 MiB for each receive queue.
    pub fn most_chunks_per_pool(mut self, chunks: u32) -> Self {
        self.pool_size = PoolSize::AtMost(chunks);
        self
    }

    /// R, exactly.
    pub fn chunks_per_pool(mut self, chunks: u32) -> Self {
        self.pool_size = PoolSize::Chunks(chunks);
        self
    }

    /// Bytes for the cells of all pools together, from which R follows; instead of [`Builder::chunks_per_pool`].
    ///
    /// ```
    /// # use wirecap::{Capture, port::null::NullPort};
    /// let port = NullPort { queues: 4, packet_bytes: 60, packets_per_queue: 0 };
    /// let capture = Capture::builder().port(port).memory(16 << 20).open()?;
    /// assert_eq!(capture.report().memory.chunks_per_pool, 8);         // 4 pools of 8 chunks of 256 cells of 2 KiB
    /// # Ok::<(), wirecap::Error>(())
    /// ```
    pub fn memory(mut self, bytes: u64) -> Self {
        self.pool_size = PoolSize::Memory(bytes);
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

    /// How packets of a passive port are spread over the workers. Default: by the hash of their flow.
    pub fn fanout(mut self, fanout: Fanout) -> Self {
        self.fanout = fanout;
        self
    }

    /// Captures only what an expression of pcap-filter(7) matches, on all ports. Default: everything.
    ///
    /// It is compiled by libpcap and runs in the kernel where that can be had, else in user space; which it is, and why,
    /// is in the report. `inbound`, `outbound` and `ifindex` are answered by the socket of a passive port; over AF_XDP all
    /// packets come in; trace files do not tell, and the capture is not opened. An empty expression is none.
    ///
    /// ```no_run
    /// let capture = wirecap::Capture::builder().port("eth1").filter("tcp port 443 and net 10.0.0.0/8").open()?;
    /// assert!(capture.report().ports[0].filter.is_some());
    /// # Ok::<(), wirecap::Error>(())
    /// ```
    pub fn filter(mut self, expression: impl Into<String>) -> Self {
        self.filter = Some(expression.into()).filter(|expression| !expression.trim().is_empty());
        self
    }

    /// What becomes of packets that the filter does not want, on ports that take packets from the host. Default: the
    /// host gets them.
    pub fn unmatched(mut self, unmatched: Unmatched) -> Self {
        self.unmatched = unmatched;
        self
    }

    /// Which worker is home of which receive queue. Default: in turn.
    pub fn homes(mut self, homes: Homes) -> Self {
        self.homes = homes;
        self
    }

    /// Makes a [`Transmitter`](crate::Transmitter) for each receive queue of the AF_XDP ports, with a ring of so many
    /// entries, a power of two: see [`Capture::take_transmitters`]. Default: none.
    pub fn transmit(mut self, entries: u32) -> Self {
        self.transmit_entries = entries;
        self
    }

    /// Makes so many [`Stock`](crate::Stock)s, each with a pool of R chunks for packets of one's own: see
    /// [`Capture::take_stocks`]. Default: none.
    pub fn stocks(mut self, stocks: u16) -> Self {
        self.stocks = stocks;
        self
    }

    /// Which transmitters can send a packet. Default: all.
    pub fn reach(mut self, reach: Reach) -> Self {
        self.reach = reach;
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

    /// How the NICs spread packets over their receive queues while they are captured. Default: as they do.
    pub fn rss(mut self, rss: Rss) -> Self {
        self.rss = rss;
        self
    }

    /// Where the times of packets come from. Default: batch over AF_XDP, unless [`Builder::stamp_packets`] says otherwise, and kernel
    /// beside the host. Which it is, by which clock, is in the report ([`crate::TimestampReport`]).
    pub fn timestamp(mut self, source: Timestamp) -> Self {
        self.timestamp = Some(source);
        self
    }

    /// Whether the XDP program stamps each packet ([`Timestamp::Kernel`]) where [`Builder::timestamp`] asks for nothing: for programs
    /// that keep times, or sort by them. Unlike that it is no error where there is no such program. Default: no, since a stamp costs
    /// a reading of the clock for each packet, some 50 ns, on the core that runs the driver.
    pub fn stamp_packets(mut self, wanted: bool) -> Self {
        self.stamp_packets = wanted;
        self
    }

    /// Has each packet carry the NIC's own hash of it ([`crate::Packet::rx_hash`]), by which receive side scaling chooses the
    /// queue: for programs that spread flows themselves. Default: no, which costs nothing. It costs a call of the driver for each
    /// packet of the interface, also for those that the filter does not want.
    ///
    /// It takes a driver that hands hashes to XDP programs (ice, igc, mlx5, veth, virtio_net of Linux 6.10), native mode and the whole
    /// interface; else opening fails with [`Error::NoRxHash`], or with [`Error::NoMode`] if native mode cannot be had.
    /// Packets without a hash are counted: [`PortReport::unhashed`](crate::report::PortReport::unhashed). See
    /// Documentation/networking/xdp-rx-metadata.rst.
    ///
    /// ```no_run
    /// # use wirecap::Capture;
    /// let mut capture = Capture::builder().port("eth1").rx_hash(true).open()?;
    /// let mut worker = capture.take_workers().remove(0);
    /// let mut bytes = [0; 64];
    /// while let Some(batch) = worker.next_batch() {
    ///     for packet in &batch {
    ///         let Some(hash) = packet.rx_hash() else { continue };
    ///         bytes[hash.value() as usize % 64] += packet.len();
    ///     }
    /// }
    /// # Ok::<(), wirecap::Error>(())
    /// ```
    pub fn rx_hash(mut self, wanted: bool) -> Self {
        self.rx_hash = wanted;
        self
    }

    /// Sets a callback for when opening has to wait for a busy receive queue for longer than a moment: the capture
    /// that has it is starting or ending. Default: none.
    pub fn on_wait(mut self, tell: fn(&QueueWait)) -> Self {
        self.on_wait = Some(tell);
        self
    }

    /// Gives up opening once this is set, by a signal for instance: [`Error::GivenUp`]. It is looked at between the steps, each of
    /// which takes some milliseconds.
    pub fn give_up(mut self, once: Arc<AtomicBool>) -> Self {
        self.gives_up = GivesUp(Some(once));
        self
    }

    /// Opens the ports and starts capturing: packets that come from now on are kept for the workers.
    ///
    /// # Errors
    /// [`Error`], each variant with a hint. Nothing stays behind on the machine.
    pub fn open(self) -> Result<Capture, Error> {
        self.look_up()?.open()
    }

    /// The first half of [`Builder::open`]: finds out what the ports are, and waits until somebody has begun to write the
    /// pipes among them. Nothing is changed on the machine, so that a thread that waits in it may be given up at any time.
    ///
    /// # Errors
    /// [`Error`], each variant with a hint.
    pub fn look_up(self) -> Result<LookedUp, Error> {
        // What is wrong with M is said before anything is looked at.
        Geometry::new(self.cells_per_chunk, 1, self.cell_bytes)?;
        let sources = self.resolve()?;
        self.check_threads(sources.iter().map(|source| source.rings.len()).sum())?;
        let layout = Layout::new(&self, &sources);
        let (geometry, bounded) = layout.sizes(&self, memory::available())?;
        let ring_entries = geometry.check_ring(self.ring_entries.unwrap_or(geometry.ring_entries()))?;
        Ok(LookedUp { builder: self, geometry, bounded, ring_entries, sources, layout, reserved: None })
    }

    fn check_threads(&self, queues: usize) -> Result<(), Error> {
        let workers = self.workers.unwrap_or(queues);
        if workers == 0 {
            return Err(Error::NoWorker);
        }
        limit("workers", workers, MAX_WORKERS.max(queues))?;
        if workers > queues && self.mode == Mode::Basic {
            return Err(Error::IdleWorkers { workers, queues });
        }
        for &core in self.worker_cores.iter().chain(&self.capture_cores) {
            // Trying is the only way to know.
            let tried = cpu::keeping_affinity(|| cpu::pin_to_core(core));
            tried.and_then(|pinned| pinned).map_err(|source| Error::Core { core, source })?;
        }
        Ok(())
    }

    pub(crate) fn xdp_options(&self, ring_entries: u32) -> XdpOptions {
        XdpOptions {
            ring_entries,
            promiscuous: self.promiscuous,
            modes: self.modes,
            rss: self.rss,
            timestamp: self.timestamp,
            stamp_packets: self.stamp_packets,
            rx_hash: self.rx_hash,
            transmit_entries: self.transmit_entries,
            on_wait: self.on_wait,
            gives_up: self.gives_up.clone(),
        }
    }

    /// Finds out what the ports are, without changing anything.
    fn resolve(&self) -> Result<Vec<Source>, Error> {
        if self.ports.is_empty() {
            return Err(Error::NoPort);
        }
        limit("ports", self.ports.len(), usize::from(MAX_NICS - 1))?;
        limit("stocks", usize::from(self.stocks), usize::from(MAX_RINGS))?;
        let mut sources: Vec<Source> = Vec::new();
        for spec in &self.ports {
            let mut source = Source::resolve(spec, self.workers)?;
            if let Some(expression) = &self.filter {
                source.set_filter(expression, self.unmatched)?;
            }
            if source.is_passive() && self.modes != Modes::Best {
                let reason = source.reason_for_passive().cloned();
                return Err(Error::OnlyPassive { name: source.name.clone(), reason });
            }
            self.timestamp.map_or(Ok(()), |wanted| source.check_timestamp(wanted))?;
            if self.rx_hash {
                source.check_rx_hash()?;
            }
            if source.is_passive() && self.rss == Rss::Symmetric {
                return Err(Error::RssBesideHost(source.name));
            }
            if sources.iter().any(|other| source.overlaps(other)) {
                return Err(Error::PortTwice(source.name));
            }
            limit("receive queues of one port", source.rings.len(), usize::from(MAX_RINGS))?;
            sources.push(source);
        }
        Ok(sources)
    }
}

pub(crate) fn limit(what: &'static str, given: usize, most: usize) -> Result<(), Error> {
    if given > most { Err(Error::TooMany { what, given, most }) } else { Ok(()) }
}
