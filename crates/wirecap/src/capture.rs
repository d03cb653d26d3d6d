//! A capture that runs: its workers, its ports, its end, its account.
//!
//! ```text
//!   Builder::open ──► Capture ── take_workers() ──► Worker, one for each application thread
//!                        ├── report()     at any time
//!                        ├── stopper()    ends it, from any thread
//!                        └── finish()     the account, closed
//! ```

use std::{
    sync::{Arc, Mutex, PoisonError, Weak, atomic::AtomicUsize},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use wirecap_core::{
    BuddyGroup, CaptureConsumer, CaptureProducer, CaptureQueues, Geometry, Mode, Orphans, capture_queue,
};
use wirecap_file::LINK_TYPE_ETHERNET;
use wirecap_sys::{
    clock::BatchClock,
    cpu,
    netdev::{self, LinkChanges, LinkEvent, LinkStatistics},
    xsk::Sender,
};

use crate::{
    Builder, Config, Diagnostic, Dispatch, Error, Grouping, Homes, PortEvent, Worker,
    books::Books,
    engine::{
        self, Shared, WorkerState, capture_thread::CaptureThread, doze::Sleepers, queue::Queue,
        stopping::Stopping,
    },
    horizon::Horizons,
    nic::link::LinkWatch,
    port::open_port::OpenPort,
    report::Report,
    reserve::CaptureMemory,
    transmit::{Stock, StockParts, Transmitter},
};

/// How long packets that are being processed when a program is detached may take to reach their
/// socket, on kernels that cannot tell when they have.
const SETTLE: Duration = Duration::from_millis(5);

/// What the builder has opened.
pub(crate) struct Parts {
    pub(crate) ring_entries: u32,
    /// From before the ports were opened, so that nothing is missed.
    pub(crate) changes: Option<LinkChanges>,
    pub(crate) geometry: Geometry,
    pub(crate) memory: CaptureMemory,
    pub(crate) clock: BatchClock,
    pub(crate) ports: Vec<OpenPort>,
    pub(crate) stocks: Vec<StockParts>,
}

/// A running capture. Dropping it ends it and gives the interfaces back.
#[derive(Debug)]
pub struct Capture {
    shared: Arc<Shared>,
    ports: Arc<Mutex<Vec<OpenPort>>>,
    memory: CaptureMemory,
    ring_entries: u32,
    workers: Vec<Worker>,
    transmitters: Vec<Transmitter>,
    stocks: Vec<Stock>,
    worker_cores: Vec<Option<usize>>,
    threads: Vec<JoinHandle<()>>,
    changes: Option<LinkChanges>,
    started: Instant,
}

/// Ends a capture from another thread, one that waits for signals for instance (not from a signal
/// handler itself: it takes a lock). Keeping it keeps nothing else.
#[derive(Debug, Clone)]
pub struct Stopper {
    shared: Weak<Shared>,
    ports: Weak<Mutex<Vec<OpenPort>>>,
}

impl Stopper {
    /// Gives the interfaces back. Workers still get what was captured before, then
    /// [`crate::Next::Ended`]. A second call does nothing.
    pub fn stop(&self) {
        let (Some(shared), Some(ports)) = (self.shared.upgrade(), self.ports.upgrade()) else { return };
        let mut ports = ports.lock().unwrap_or_else(PoisonError::into_inner);
        let are_on_their_way = ports.iter_mut().map(OpenPort::close).fold(false, |any, port| any | port);
        if are_on_their_way && !cpu::wait_for_kernel() {
            thread::sleep(SETTLE);
        }
        ports.iter_mut().for_each(OpenPort::settle);
        shared.stopping.stop();
    }
}

impl Capture {
    /// Says what to capture.
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

    pub(crate) fn start(config: &Config, mut parts: Parts) -> Result<Self, Error> {
        let queue_count: usize = parts.ports.iter().map(|port| port.queues.len()).sum();
        let workers = config.workers.unwrap_or(queue_count);
        let pull = config.dispatch == Dispatch::Pull;
        let threads = if pull { 0 } else { config.capture_threads.clamp(1, queue_count) };

        // Room for all full chunks of the queues a capture thread serves, each with a lead, and for
        // what it hands over in part: see the rule in `capture_thread`. There may be more runs than that; then packets
        // wait in the ring.
        let served = queue_count.div_ceil(threads.max(1));
        let queue_room = 2 * (parts.geometry.chunks_per_pool() as usize + 1) * served;
        let mut producers: Vec<Vec<CaptureProducer>> = (0..threads).map(|_| Vec::new()).collect();
        let mut consumers: Vec<Vec<CaptureConsumer>> = (0..workers).map(|_| Vec::new()).collect();
        let mut gauges = vec![Vec::new(); workers];
        for thread in &mut producers {
            for worker in 0..workers {
                let (producer, consumer) = capture_queue(queue_room);
                gauges[worker].push(producer.gauge());
                consumers[worker].push(consumer);
                thread.push(producer);
            }
        }

        let senders = senders(&mut parts.ports);
        let (mut queues, ranges) = assemble(&mut parts.ports, (workers, config.homes), &parts.clock);
        for queue in &mut queues {
            queue.is_of_frames = parts.ports[queue.port].link_type == LINK_TYPE_ETHERNET;
            queue.set_ring(parts.ring_entries);
        }
        let wakers = engine::wakers(&mut queues, config.wait);
        let sleepers = Arc::new(Sleepers::new(workers, threads).map_err(Error::Descriptor)?);
        let (groups, group_of) = group(&config.grouping, config.mode, workers)?;
        let homes = (0..workers)
            .map(|worker| (0..queue_count).filter(|&queue| queues[queue].home == worker).collect())
            .collect();
        let (stocks, stock_pools): (Vec<_>, Vec<_>) = parts.stocks.into_iter().unzip();
        let numbers = queues.iter().map(|queue| queue.lock().pool.number());
        let numbers = numbers.chain(stock_pools.iter().map(|(pool, _)| pool.number())).collect();
        let shared = Arc::new(Shared {
            geometry: parts.geometry,
            wait: config.wait,
            queues,
            homes,
            ports: ranges,
            numbers,
            workers: (0..workers).map(|_| WorkerState::new(queue_count)).collect(),
            stopping: Stopping::new(queue_count, Arc::clone(&sleepers)),
            sleepers,
            wakers: Mutex::new(Some(Arc::new(wakers))),
            groups,
            group_of,
            gauges,
            pull,
            ring_cells: parts.ring_entries.min(parts.geometry.cells_per_pool()),
            orphans: Orphans::default(),
            capture_threads: AtomicUsize::new(threads),
            stocks,
        });

        let core = |cores: &[usize], index: usize| cores.get(index % cores.len().max(1)).copied();
        let worker_cores: Vec<_> = (0..workers).map(|index| core(&config.worker_cores, index)).collect();
        let workers = consumers
            .into_iter()
            .enumerate()
            .map(|(index, capture_queues)| {
                let capture_queues = CaptureQueues::new(capture_queues);
                Worker::new(&shared, index, worker_cores[index], capture_queues)
            })
            .collect();
        let transmitters = transmitters(&shared, senders, &mut parts.ports);
        let mut capture = Self {
            transmitters,
            stocks: Stock::all(&shared, stock_pools),
            ports: Arc::new(Mutex::new(parts.ports)),
            memory: parts.memory,
            ring_entries: parts.ring_entries,
            workers,
            worker_cores,
            threads: Vec::new(),
            changes: parts.changes,
            started: Instant::now(),
            shared,
        };
        for (index, capture_queues) in producers.into_iter().enumerate() {
            let served = (index..queue_count).step_by(threads).collect();
            let core = core(&config.capture_cores, index);
            let thread = CaptureThread::new(&capture.shared, (index, core), served, capture_queues);
            let name = format!("wirecap-cap-{index}");
            let handle =
                thread::Builder::new().name(name).spawn(move || thread.run()).map_err(Error::Thread)?;
            capture.threads.push(handle);
        }
        Ok(capture)
    }

    /// The workers, one for each application thread. The second call returns none.
    pub fn take_workers(&mut self) -> Vec<Worker> {
        std::mem::take(&mut self.workers)
    }

    /// What sends, one for each receive queue of the AF_XDP ports, in their order; none without
    /// [`Builder::transmit`](crate::Builder::transmit). The second call returns none.
    pub fn take_transmitters(&mut self) -> Vec<Transmitter> {
        std::mem::take(&mut self.transmitters)
    }

    /// What makes packets, as many as [`Builder::stocks`](crate::Builder::stocks) says. The second call returns none.
    pub fn take_stocks(&mut self) -> Vec<Stock> {
        std::mem::take(&mut self.stocks)
    }

    /// A handle that ends the capture.
    pub fn stopper(&self) -> Stopper {
        Stopper { shared: Arc::downgrade(&self.shared), ports: Arc::downgrade(&self.ports) }
    }

    /// A handle that tells what is certain of packets that have not come yet.
    pub fn horizons(&self) -> Horizons {
        Horizons::new(&self.shared)
    }

    /// What happened to the ports since the last call.
    pub fn events(&mut self) -> Vec<PortEvent> {
        let mut ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let mut events = queues_changed(&mut ports);
        let doubtful = ports.iter_mut().filter(|port| port.outlet.take_doubt());
        events.extend(doubtful.filter_map(OpenPort::look_at_link));
        events.extend(ports.iter_mut().flat_map(OpenPort::look_after));
        let Some(changes) = &mut self.changes else { return events };
        while let Ok(Some(event)) = changes.next_event() {
            match event {
                LinkEvent::Removed { ifindex, .. } => remove(&mut ports, ifindex, &mut events),
                LinkEvent::State { ifindex, up, carrier, mtu, .. } => {
                    let of_link = ports.iter().filter(|port| port.ifindex == Some(ifindex));
                    let event = if up && carrier { PortEvent::Up } else { PortEvent::Down };
                    events.extend(of_link.map(|port| {
                        port.outlet.note(up && carrier, mtu);
                        event(port.name.clone())
                    }));
                }
                // Some events are lost: that one is gone, or what it can send now.
                _ => {
                    ports.iter_mut().for_each(|port| events.extend(port.look_at_link()));
                    let indexes: Vec<_> = ports.iter().filter_map(|port| port.ifindex).collect();
                    let gone = indexes.into_iter().filter(|&ifindex| {
                        matches!(LinkStatistics::of_index(ifindex), Err(netdev::Error::NoSuchIndex { .. }))
                    });
                    gone.for_each(|ifindex| remove(&mut ports, ifindex, &mut events));
                }
            }
        }
        events.dedup();
        events
    }

    /// Whether every interface is gone, and every trace file read, so that nothing can come any more, as far as
    /// [`Capture::events`] has told.
    pub fn is_deserted(&self) -> bool {
        let ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        ports.iter().all(|port| port.removed || port.is_read) && ports.iter().any(|port| port.removed)
    }

    /// The ports whose interfaces are gone, as far as [`Capture::events`] has told.
    pub fn removed_ports(&self) -> Vec<String> {
        let ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        ports.iter().filter(|port| port.removed).map(|port| port.name.clone()).collect()
    }

    /// Whether every port is a trace file that is read, so that the capture ends by itself: workers get what is left,
    /// then [`crate::Next::Ended`].
    ///
    /// ```
    /// # let mut file = Vec::new();
    /// # wirecap_file::pcap::file_header(&mut file, wirecap_file::LINK_TYPE_ETHERNET, 0);
    /// # let path = std::env::temp_dir().join(format!("wirecap-example-{}.pcap", std::process::id()));
    /// # std::fs::write(&path, file).unwrap();
    /// let mut capture = wirecap::Capture::builder().port(wirecap::PortSpec::Trace { path: path.clone() }).open()?;
    /// let mut worker = capture.take_workers().remove(0);
    /// while let Some(batch) = worker.next_batch() {
    ///     println!("{} packets", batch.len());
    /// }
    /// assert!(capture.is_at_end());                     // nobody has stopped it
    /// let report = capture.finish();
    /// assert_eq!((report.ports[0].error.as_deref(), report.ports[0].read_percent), (None, Some(100.0)));
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), wirecap::Error>(())
    /// ```
    pub fn is_at_end(&self) -> bool {
        self.shared.stopping.is_at_end()
    }

    /// The accounts as they stand. Queues that are in use are asked in turn, so that packets on their
    /// way show as unexplained.
    pub fn report(&self) -> Report {
        self.report_with(false)
    }

    /// Ends the capture, waits for the capture threads, and closes the account: packets no worker
    /// took are `left_at_stop`. Call it when the workers are done.
    pub fn finish(mut self) -> Report {
        self.end();
        self.shared.queues.iter().for_each(|queue| queue.discard_rest(&self.shared.stopping));
        let report = self.report_with(true);
        self.close();
        report
    }

    fn close(&self) {
        // Threads that wait on them have them for a moment still: their bells were rung at the stop.
        self.shared.wakers.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.shared.queues.iter().for_each(Queue::close);
    }

    fn end(&mut self) {
        self.stopper().stop();
        self.workers.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }

    fn report_with(&self, closed: bool) -> Report {
        let mut ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let books = Books {
            shared: &self.shared,
            ports: &mut ports,
            ring_entries: self.ring_entries,
            worker_cores: &self.worker_cores,
            closed,
        };
        books.report(self.started.elapsed().as_secs_f64(), &self.memory)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.end();
        self.close();
    }
}

fn queues_changed(ports: &mut [OpenPort]) -> Vec<PortEvent> {
    let added = ports.iter_mut().filter_map(|port| {
        let link = port.link.as_mut()?;
        let removed = link.taken_away().map(|queues| Diagnostic::QueuesGone { queues });
        let added = || {
            let queues = link.added()?;
            Some(Diagnostic::QueuesNotCaptured { captured: link.captured(), queues })
        };
        let warning = removed.or_else(added)?;
        Some(PortEvent::Warning { port: port.name.clone(), warning })
    });
    added.collect()
}

fn remove(ports: &mut [OpenPort], ifindex: u32, events: &mut Vec<PortEvent>) {
    for port in ports.iter_mut().filter(|port| port.ifindex == Some(ifindex) && !port.removed) {
        port.removed = true;
        port.outlet.note_gone();
        events.push(PortEvent::Removed(port.name.clone()));
    }
}

/// The sending half of each queue that has one.
fn senders(ports: &mut [OpenPort]) -> Vec<Option<Sender>> {
    let queues = ports.iter_mut().flat_map(|port| &mut port.queues);
    queues.map(|queue| queue.socket.as_mut()?.sender.take()).collect()
}

/// What sends from each queue. Where an interface has fewer transmit queues than receive queues, the kernel lets the others be bound,
/// and never sends.
fn transmitters(
    shared: &Arc<Shared>,
    senders: Vec<Option<Sender>>,
    ports: &mut [OpenPort],
) -> Vec<Transmitter> {
    let mut transmitters = Vec::new();
    for (index, (queue, sender)) in shared.queues.iter().zip(senders).enumerate() {
        let port = &mut ports[queue.port];
        let Some(mut sender) = sender else { continue };
        let there = port.link.as_mut().and_then(LinkWatch::transmit_queues);
        if let Some(there) = there.filter(|&there| u32::from(queue.ring_id) >= there) {
            port.fallbacks
                .push(Diagnostic::QueueDoesNotSend { queue: queue.ring_id, transmit_queues: there });
            continue;
        }
        sender.limit_parts(port.max_parts);
        let transmitter = Transmitter::new(shared, index, sender, &port.outlet);
        port.sent.push(Arc::clone(transmitter.sent()));
        transmitters.push(transmitter);
    }
    transmitters
}

/// Lays out the queues of all ports in one list and deals them out to the workers.
fn assemble(
    ports: &mut [OpenPort],
    (workers, homes): (usize, Homes),
    clock: &BatchClock,
) -> (Vec<Queue>, Vec<std::ops::Range<usize>>) {
    let (mut queues, mut ranges) = (Vec::new(), Vec::new());
    for (index, port) in ports.iter_mut().enumerate() {
        let begin = queues.len();
        for opened in std::mem::take(&mut port.queues) {
            let home = homes.of(queues.len(), queues.len() - begin, workers);
            queues.push(Queue::new(index, home, opened, clock.clone()));
        }
        ranges.push(begin..queues.len());
    }
    (queues, ranges)
}

/// The buddy groups, and the group of each worker.
fn group(grouping: &Grouping, mode: Mode, workers: usize) -> Result<(Vec<BuddyGroup>, Vec<usize>), Error> {
    let mut sets = match grouping {
        Grouping::All => vec![(0..workers).collect()],
        Grouping::Sets(sets) => sets.clone(),
    };
    let mut group_of = vec![None; workers];
    for (group, &worker) in
        sets.iter().enumerate().flat_map(|(group, set)| set.iter().map(move |w| (group, w)))
    {
        match group_of.get_mut(worker) {
            Some(place @ None) => *place = Some(group),
            _ => return Err(Error::Grouping { worker, workers }),
        }
    }
    let group_of = group_of.into_iter().enumerate().map(|(worker, group)| {
        group.unwrap_or_else(|| {
            sets.push(vec![worker]);
            sets.len() - 1
        })
    });
    let group_of = group_of.collect();
    Ok((sets.into_iter().map(|members| BuddyGroup::new(members, mode)).collect(), group_of))
}

#[cfg(test)]
#[path = "capture_tests.rs"]
mod tests;
