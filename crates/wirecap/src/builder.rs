//! From settings to an engine that runs.
//!
//! Rule: everything that can be checked is checked before anything is changed on the machine.

use std::sync::{Arc, atomic::AtomicBool};

use wirecap_core::{Mode, chunk::MAX_RINGS};
use wirecap_sys::{cpu, memory, netdev::Interface, packed::MIN_BLOCKS, packet::Fanout};

use crate::{
    Capture, Config, Dispatch, Error, Grouping, Homes, Modes, PoolSize, PortSpec, PreparedCapture, QueueWait,
    Reach, Rss, TapHook, Timestamp, UnmatchedPolicy, Wait,
    config::{MAX_WORKERS, limit},
    port::{
        self,
        contract::PreparedPort,
        opening::{GiveUpFlag, Hooks, ThreadHook},
    },
    reservation::Layout,
};

/// Collects settings, then opens a capture with them. Made by [`Capture::builder`], or from a [`Config`].
#[derive(Debug, Clone, Default)]
pub struct Builder {
    pub(crate) config: Config,
    pub(crate) hooks: Hooks,
    /// Interfaces that the caller has looked up.
    interfaces: Vec<Interface>,
}

impl From<Config> for Builder {
    fn from(config: Config) -> Self {
        Self { config, ..Self::default() }
    }
}

/// Declares one method per setting.
macro_rules! setters {
    ($($(#[$meta:meta])* $name:ident($argument:ident: $Type:ty) => $field:ident = $value:expr;)+) => {
        /// One method for each setting: [`Config`] explains them, and has their defaults.
        impl Builder {
            $(
                $(#[$meta])*
                pub fn $name(mut self, $argument: $Type) -> Self {
                    self.config.$field = $value;
                    self
                }
            )+
        }
    };
}

setters! {
    /// M: [`Config::cells_per_chunk`].
    cells_per_chunk(cells: u32) => cells_per_chunk = cells;
    /// R, or less: [`PoolSize::AtMost`].
    max_chunks_per_pool(chunks: u32) => pool_size = PoolSize::AtMost(chunks);
    /// R, exactly: [`PoolSize::Chunks`].
    chunks_per_pool(chunks: u32) => pool_size = PoolSize::Chunks(chunks);
    /// Bytes for the cells of all pools together, from which R follows: [`PoolSize::Memory`].
    ///
    /// ```
    /// # use wirecap::{Capture, port::null::NullPort};
    /// let port = NullPort { queues: 4, packet_bytes: 60, packets_per_queue: 0 };
    /// let capture = Capture::builder().port(port).memory(16 << 20).open()?;
    /// assert_eq!(capture.report().memory.chunks_per_pool, 8);         // 4 pools of 8 chunks of 256 cells of 2 KiB
    /// # Ok::<(), wirecap::Error>(())
    /// ```
    memory(bytes: u64) => pool_size = PoolSize::Memory(bytes);
    /// [`Config::cell_bytes`].
    cell_bytes(bytes: u32) => cell_bytes = bytes;
    /// [`Config::ring_entries`].
    ring_entries(entries: u32) => ring_entries = Some(entries);
    /// [`Config::mode`].
    mode(mode: Mode) => mode = mode;
    /// [`Config::dispatch`].
    dispatch(dispatch: Dispatch) => dispatch = dispatch;
    /// [`Config::workers`].
    workers(workers: usize) => workers = Some(workers);
    /// [`Config::worker_cores`].
    worker_cores(cores: impl Into<Vec<usize>>) => worker_cores = cores.into();
    /// [`Config::capture_threads`].
    capture_threads(threads: usize) => capture_threads = threads;
    /// [`Config::capture_cores`].
    capture_cores(cores: impl Into<Vec<usize>>) => capture_cores = cores.into();
    /// [`Config::wait`].
    wait(wait: Wait) => wait = wait;
    /// [`Config::grouping`].
    grouping(grouping: Grouping) => grouping = grouping;
    /// [`Config::fanout`].
    fanout(fanout: Fanout) => fanout = Some(fanout);
    /// [`Config::tap_hook`].
    tap_hook(tap_hook: TapHook) => tap_hook = tap_hook;
    /// [`Config::filter`]. An empty expression means no filter.
    ///
    /// ```no_run
    /// let capture = wirecap::Capture::builder().port("eth1").filter("tcp port 443 and net 10.0.0.0/8").open()?;
    /// assert!(capture.report().ports[0].filter.is_some());
    /// # Ok::<(), wirecap::Error>(())
    /// ```
    filter(expression: impl Into<String>) => filter = Some(expression.into());
    /// [`Config::excluded`]. An empty expression excludes nothing.
    excluded(expression: impl Into<String>) => excluded = Some(expression.into());
    /// [`Config::unmatched`].
    unmatched(unmatched: UnmatchedPolicy) => unmatched = Some(unmatched);
    /// [`Config::homes`].
    homes(homes: Homes) => homes = homes;
    /// [`Config::keep_packets`].
    ///
    /// ```no_run
    /// let mut capture = wirecap::Capture::builder().port("eth1").keep_packets(true).open()?;
    /// let mut worker = capture.take_workers().remove(0);
    /// let mut kept = Vec::new();
    /// while let Some(mut batch) = worker.next_batch() {
    ///     let of_interest = batch.drain().into_iter().flatten().filter(|packet| packet.len() > 1_000);
    ///     kept.extend(of_interest.map(|packet| packet.keep()));      // their batch goes home without them
    /// }
    /// # Ok::<(), wirecap::Error>(())
    /// ```
    keep_packets(wanted: bool) => keep_packets = wanted;
    /// [`Config::readable_in_children`].
    readable_in_children(wanted: bool) => readable_in_children = wanted;
    /// Makes a [`Transmitter`](crate::Transmitter) for each receive queue of the AF_XDP ports:
    /// [`Config::transmit_entries`].
    transmit(entries: u32) => transmit_entries = entries;
    /// Makes this number of [`PacketAllocator`](crate::PacketAllocator)s: [`Config::allocators`],
    /// [`Capture::take_allocators`].
    allocators(allocators: u16) => allocators = allocators;
    /// [`Config::reach`].
    reach(reach: Reach) => reach = reach;
    /// [`Config::promiscuous`].
    promiscuous(on: bool) => promiscuous = on;
    /// [`Config::xdp_mode`].
    modes(modes: Modes) => xdp_mode = modes;
    /// [`Config::rss`].
    rss(rss: Rss) => rss = rss;
    /// [`Config::timestamp`].
    timestamp(source: Timestamp) => timestamp = Some(source);
    /// [`Config::stamp_packets`].
    stamp_packets(wanted: bool) => stamp_packets = wanted;
    /// Has each packet carry the NIC's own hash of it ([`crate::Packet::rx_hash`]), by which receive side
    /// scaling chooses the queue: for programs that spread flows themselves. Default: no, which costs
    /// nothing. It costs a call of the driver for each packet of the interface, including those that the
    /// filter rejects.
    ///
    /// It requires a driver that hands hashes to XDP programs (ice, igc, mlx5, veth, virtio_net of Linux
    /// 6.10), native mode and the whole interface; else opening fails with [`Error::NoRxHash`], or with
    /// [`Error::NoMode`] where native mode does not work. Packets without a hash are counted:
    /// [`PortReport::unhashed`](crate::report::PortReport::unhashed). See
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
    rx_hash(wanted: bool) => rx_hash = wanted;
}

impl Capture {
    /// A builder with the default settings.
    ///
    /// ```no_run
    /// let mut capture = wirecap::Capture::builder().port("eth1").open()?;
    /// for mut worker in capture.take_workers() {
    ///     std::thread::spawn(move || {
    ///         while let Some(batch) = worker.next_batch() {
    ///             for packet in &batch {
    ///                 println!("{} bytes", packet.len());
    ///             }
    ///         }
    ///     });
    /// }
    /// # Ok::<(), wirecap::Error>(())
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Builder {
    /// Adds a port: `"eth1"`, `"xdp:eth1"`, `"packet:eth1"`, `"eth1@0-3"`, `"trace:old.pcapng"`, or a
    /// [`PortSpec`].
    pub fn port(mut self, port: impl Into<PortSpec>) -> Self {
        self.config.ports.push(port.into());
        self
    }

    /// Sets a callback for when opening has to wait for a busy receive queue for longer than a moment: the
    /// capture that has it is starting or ending. Default: none.
    pub fn on_wait(mut self, callback: fn(&QueueWait)) -> Self {
        self.hooks.on_wait = Some(callback);
        self
    }

    /// Gives up opening with [`Error::GivenUp`] once this flag is set, by a signal for instance. Opening
    /// checks the flag between its steps, each of which takes some milliseconds.
    pub fn give_up(mut self, once: Arc<AtomicBool>) -> Self {
        self.hooks.give_up = GiveUpFlag(once);
        self
    }

    /// Has each capture thread ([`Dispatch::Push`]) call this before anything else, for instance to give up
    /// privileges: they need none. Default: nothing.
    ///
    /// ```
    /// # use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
    /// # use wirecap::{Capture, Dispatch, port::null::NullPort};
    /// # let port = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 0 };
    /// let threads = Arc::new(AtomicU32::new(0));
    /// let counted = Arc::clone(&threads);
    /// let capture = Capture::builder()
    ///     .port(port)
    ///     .chunks_per_pool(4)
    ///     .dispatch(Dispatch::Push)
    ///     .on_capture_thread(move || _ = counted.fetch_add(1, Ordering::Relaxed))
    ///     .open()?;
    /// capture.finish();
    /// assert_eq!(threads.load(Ordering::Relaxed), 1);
    /// # Ok::<(), wirecap::Error>(())
    /// ```
    pub fn on_capture_thread(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.hooks.on_thread = ThreadHook(Some(Arc::new(hook)));
        self
    }

    /// Leaves this much memory to the rest of the program, in bytes, where a control group limits what the
    /// process may have: at that limit the kernel ends it. Default: 12 MiB.
    pub fn leave_memory(mut self, bytes: u64) -> Self {
        self.hooks.rest_bytes = Some(bytes);
        self
    }

    /// Has passive ports leave out frames that the program sends itself, as libpcap does, without counting
    /// them. Taps leave out those of the packet socket with this
    /// [cookie](wirecap_sys::netdev::FrameSocket::cookie). `packet:` ports leave out those that are sent by
    /// the socket of [`Capture::take_sender`]. Default: everything that leaves is captured.
    pub fn own_sender(mut self, cookie: u64) -> Self {
        self.hooks.own_sender = Some(cookie);
        self
    }

    /// Takes interfaces that the caller looked up a moment ago, which saves looking them up again. Default:
    /// none.
    pub fn interfaces(mut self, interfaces: impl Into<Vec<Interface>>) -> Self {
        self.interfaces = interfaces.into();
        self
    }

    /// Opens the ports and starts capturing: packets that come from now on are kept for the workers.
    ///
    /// # Errors
    /// [`Error`], each variant with a hint. Nothing stays behind on the machine.
    pub fn open(self) -> Result<Capture, Error> {
        self.prepare()?.open()
    }

    /// The first half of [`Builder::open`]: finds out what the ports are, and waits for programs that write
    /// the pipes among them. Nothing is changed on the machine, so a thread that waits in it can be abandoned
    /// at any time.
    ///
    /// # Errors
    /// [`Error`], each variant with a hint.
    pub fn prepare(mut self) -> Result<PreparedCapture, Error> {
        for expression in [&mut self.config.filter, &mut self.config.excluded] {
            *expression = expression.take().filter(|expression| !expression.trim().is_empty());
        }
        self.config.check()?;
        let mut ports = self.look_up()?;
        let available = memory::available();
        let sizes = |layout: &Layout| layout.sizes(&self.config, available.clone());
        let mut layout = Layout::new(&self.config, &ports);
        let mut sized = sizes(&layout);
        let is_little = match &sized {
            Ok((geometry, _)) => geometry.chunks_per_pool() < MIN_BLOCKS,
            Err(error) => matches!(error, Error::LittleMemory { .. }),
        };
        if is_little && self.untap(&mut ports)? {
            layout = Layout::new(&self.config, &ports);
            sized = sizes(&layout);
        }
        self.check_threads(ports.iter().map(|port| port.facts.rings.len()).sum())?;
        let (geometry, bounded) = sized?;
        let Self { config, hooks, .. } = self;
        let ring_entries = geometry.check_ring(config.ring_entries.unwrap_or(geometry.ring_entries()))?;
        Ok(PreparedCapture { config, hooks, geometry, bounded, ring_entries, ports, layout, reserved: None })
    }

    fn check_threads(&self, queues: usize) -> Result<(), Error> {
        let config = &self.config;
        let workers = config.workers.unwrap_or(queues);
        limit("workers", workers, MAX_WORKERS.max(queues))?;
        if workers > queues && config.mode == Mode::Basic {
            return Err(Error::IdleWorkers { workers, queues });
        }
        for &core in config.worker_cores.iter().chain(&config.capture_cores) {
            // Only trying tells whether the process may use a core.
            let tried = cpu::keeping_affinity(|| cpu::pin_to_core(core));
            tried.and_then(|pinned| pinned).map_err(|source| Error::Core { core, source })?;
        }
        Ok(())
    }

    /// Captures over AF_PACKET what is tapped by default: the pools are too small for taps. Returns whether
    /// there was such a port.
    fn untap(&self, ports: &mut [PreparedPort]) -> Result<bool, Error> {
        let small = Config { pool_size: PoolSize::Chunks(1), ..self.config.clone() };
        let tapped = self.config.ports.iter().zip(ports).filter(|(_, port)| port.facts.is_tapped_by_default);
        let mut any = false;
        for (spec, port) in tapped {
            *port = port::look_up(spec, &small, &self.interfaces)?;
            port.set_up(&self.config)?;
            any = true;
        }
        Ok(any)
    }

    /// Finds out what the ports are, without changing anything.
    fn look_up(&self) -> Result<Vec<PreparedPort>, Error> {
        let mut ports: Vec<PreparedPort> = Vec::new();
        for spec in &self.config.ports {
            let mut port = port::look_up(spec, &self.config, &self.interfaces)?;
            port.set_up(&self.config)?;
            if ports.iter().any(|other| port.facts.overlaps(&other.facts)) {
                return Err(Error::PortTwice(port.facts.name));
            }
            limit("receive queues of one port", port.facts.rings.len(), usize::from(MAX_RINGS))?;
            ports.push(port);
        }
        Ok(ports)
    }
}
