//! A capture that runs: its workers, its ports, its end, its account.
//!
//! ```text
//!   Builder::open ──► Capture ── take_workers() ──► Worker, one for each application thread
//!                        ├── report()     at any time
//!                        ├── stopper()    ends it, from any thread
//!                        └── finish()     the account, closed
//! ```

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use wirecap_core::{BuddyGroup, CaptureConsumer, CaptureProducer, Geometry, Lost, Mode, capture_queue};
use wirecap_sys::{
    memory::PacketMemory,
    netdev::{self, LinkChanges, LinkEvent, LinkStatistics},
};

use crate::{
    Builder, Dispatch, Error, Grouping, Worker,
    builder::OpenQueue,
    engine::{Shared, WorkerState, capture_thread::CaptureThread, queue::Queue},
    port::xdp::XdpPort,
    report::{MemoryReport, PortReport, QueueMode, QueueReport, Report, WorkerReport},
};

/// How long packets that are being processed when a program is detached may take to reach their
/// socket. The kernel lets the program finish; this is generous.
const SETTLE: Duration = Duration::from_millis(5);

/// A port of a running capture.
#[derive(Debug)]
pub(crate) struct OpenPort {
    pub(crate) name: String,
    pub(crate) ifindex: Option<u32>,
    pub(crate) driver: String,
    pub(crate) numa_node: Option<u32>,
    /// The interface's counters when the port was opened.
    pub(crate) before: Option<LinkStatistics>,
    pub(crate) mode: QueueMode,
    pub(crate) fallbacks: Vec<String>,
    pub(crate) multi_buffer: bool,
    pub(crate) xdp: Option<XdpPort>,
    pub(crate) removed: bool,
}

/// What the builder has opened.
pub(crate) struct Parts {
    pub(crate) geometry: Geometry,
    pub(crate) memory: Arc<PacketMemory>,
    pub(crate) ports: Vec<OpenPort>,
    /// The queues of each port.
    pub(crate) queues: Vec<Vec<OpenQueue>>,
}

/// What happened to a port while the capture ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortEvent {
    /// The link went down. The capture goes on when it is up again.
    Down(String),
    /// The link is up.
    Up(String),
    /// The interface was deleted; what had been captured is kept.
    Removed(String),
}

/// A running capture. Dropping it ends it and gives the interfaces back.
#[derive(Debug)]
pub struct Capture {
    shared: Arc<Shared>,
    ports: Arc<Mutex<Vec<OpenPort>>>,
    memory: Arc<PacketMemory>,
    workers: Vec<Worker>,
    worker_cores: Vec<Option<usize>>,
    threads: Vec<JoinHandle<()>>,
    changes: Option<LinkChanges>,
    started: Instant,
}

/// Ends a capture from another thread, a signal handler's for instance.
#[derive(Debug, Clone)]
pub struct Stopper {
    shared: Arc<Shared>,
    ports: Arc<Mutex<Vec<OpenPort>>>,
}

impl Stopper {
    /// Gives the interfaces back. Workers still get what was captured before, then
    /// [`crate::Next::Ended`]. A second call does nothing.
    pub fn stop(&self) {
        let mut ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let mut detached = false;
        for xdp in ports.iter_mut().filter_map(|port| port.xdp.as_mut()) {
            if let Some(link) = xdp.link.take() {
                // It fails when the interface is gone; closing the link is all there is to do then.
                let _ = link.detach();
                detached = true;
            }
        }
        if detached {
            thread::sleep(SETTLE);
        }
        self.shared.stopping.store(true, Ordering::Release);
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

    pub(crate) fn start(builder: Builder, parts: Parts) -> Result<Self, Error> {
        let queue_count: usize = parts.queues.iter().map(Vec::len).sum();
        let workers = builder.workers.unwrap_or(queue_count);
        let pull = builder.dispatch == Dispatch::Pull;
        let threads = if pull { 0 } else { builder.capture_threads.clamp(1, queue_count) };

        // Room for all full chunks of the queues a capture thread serves, each with a lead, and for
        // what it hands over in part: see the rule in `capture_thread`.
        let served = queue_count.div_ceil(threads.max(1));
        let lane_room = 2 * (parts.geometry.chunks_per_pool() as usize + 1) * served;
        let mut producers: Vec<Vec<CaptureProducer>> = (0..threads).map(|_| Vec::new()).collect();
        let mut consumers: Vec<Vec<CaptureConsumer>> = (0..workers).map(|_| Vec::new()).collect();
        let mut gauges = vec![Vec::new(); workers];
        for thread in &mut producers {
            for worker in 0..workers {
                let (producer, consumer) = capture_queue(lane_room);
                gauges[worker].push(producer.gauge());
                consumers[worker].push(consumer);
                thread.push(producer);
            }
        }

        let (queues, ranges) = assemble(parts.queues, workers);
        let (groups, group_of) = group(&builder.grouping, builder.mode, workers);
        let homes = (0..workers)
            .map(|worker| (0..queue_count).filter(|&queue| queues[queue].home == worker).collect())
            .collect();
        let shared = Arc::new(Shared {
            geometry: parts.geometry,
            wait: builder.wait,
            queues,
            homes,
            ports: ranges,
            workers: (0..workers).map(|_| WorkerState::new(queue_count)).collect(),
            groups,
            group_of,
            gauges,
            pull,
            stopping: AtomicBool::new(false),
            capture_threads: AtomicUsize::new(threads),
        });

        let core = |cores: &[usize], index: usize| cores.get(index % cores.len().max(1)).copied();
        let worker_cores: Vec<_> = (0..workers).map(|index| core(&builder.worker_cores, index)).collect();
        let workers = consumers
            .into_iter()
            .enumerate()
            .map(|(index, lanes)| Worker::new(&shared, index, worker_cores[index], lanes))
            .collect();
        let mut capture = Self {
            ports: Arc::new(Mutex::new(parts.ports)),
            memory: parts.memory,
            workers,
            worker_cores,
            threads: Vec::new(),
            changes: netdev::changes().ok(),
            started: Instant::now(),
            shared,
        };
        for (index, lanes) in producers.into_iter().enumerate() {
            let served = (index..queue_count).step_by(threads).collect();
            let core = core(&builder.capture_cores, index);
            let thread = CaptureThread::new(&capture.shared, core, served, lanes);
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

    /// A handle that ends the capture.
    pub fn stopper(&self) -> Stopper {
        Stopper { shared: Arc::clone(&self.shared), ports: Arc::clone(&self.ports) }
    }

    /// What happened to the ports since the last call.
    pub fn events(&mut self) -> Vec<PortEvent> {
        let Some(changes) = &mut self.changes else { return Vec::new() };
        let mut ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let mut events = Vec::new();
        while let Ok(Some(event)) = changes.next_event() {
            let Some(port) =
                ports.iter_mut().find(|port| port.ifindex.is_some() && port.ifindex == event.ifindex())
            else {
                continue;
            };
            match event {
                LinkEvent::Removed { .. } => {
                    port.removed = true;
                    events.push(PortEvent::Removed(port.name.clone()));
                }
                LinkEvent::State { up: true, carrier: true, .. } => {
                    events.push(PortEvent::Up(port.name.clone()))
                }
                LinkEvent::State { .. } => events.push(PortEvent::Down(port.name.clone())),
                _ => {}
            }
        }
        events.dedup();
        events
    }

    /// Whether every interface is gone, so that nothing can come any more.
    pub fn is_deserted(&self) -> bool {
        let ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        ports.iter().all(|port| port.removed)
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
        for queue in &self.shared.queues {
            // Counts what is still in the ring; nobody will read it.
            while let Some(handover) = queue.capture() {
                for range in handover.lead.into_iter().chain([handover.range]) {
                    let _ = queue.recycle.push(range);
                }
            }
        }
        self.report_with(true)
    }

    fn end(&mut self) {
        self.stopper().stop();
        self.workers.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }

    fn report_with(&self, closed: bool) -> Report {
        let ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let mut offloaded_out = vec![0; self.shared.workers.len()];
        let ports = ports
            .iter()
            .zip(&self.shared.ports)
            .map(|(port, range)| {
                let queues = range
                    .clone()
                    .map(|queue| self.queue_report(queue, port.mode, closed, &mut offloaded_out));
                port_report(port, queues.collect())
            })
            .collect();
        let workers = self.shared.workers.iter().zip(&self.worker_cores).zip(&offloaded_out);
        let workers = workers.map(|((state, &core), &offloaded_out)| WorkerReport {
            packets: state.packets.load(Ordering::Relaxed),
            bytes: state.bytes.load(Ordering::Relaxed),
            offloaded_in: state.offloaded_in.load(Ordering::Relaxed),
            offloaded_out,
            core,
        });
        Report {
            seconds: self.started.elapsed().as_secs_f64(),
            ports,
            workers: workers.collect(),
            memory: MemoryReport {
                cells_bytes: self.shared.geometry.pool_bytes() * self.shared.queues.len() as u64,
                pages: self.memory.pages().as_str().into(),
            },
        }
    }

    fn queue_report(
        &self,
        index: usize,
        mode: QueueMode,
        closed: bool,
        offloaded_out: &mut [u64],
    ) -> QueueReport {
        let queue = &self.shared.queues[index];
        let mut delivered = 0;
        for (worker, state) in self.shared.workers.iter().enumerate() {
            let packets = state.delivered[index].load(Ordering::Relaxed);
            delivered += packets;
            if worker != queue.home {
                offloaded_out[queue.home] += packets;
            }
        }
        let owner = queue.lock();
        let (counts, levels) = (owner.counts(), owner.pool.levels());
        let (captured, refused) = (owner.pool.captured_packets(), owner.pool.refused());
        drop(owner);
        let used = levels.outstanding_cells + levels.filled_cells;
        let mut report = QueueReport {
            queue: queue.ring_id,
            mode,
            seen: counts.seen,
            filtered: counts.filtered,
            passed: counts.passed,
            delivered,
            lost: Lost {
                no_free_cell: counts.no_free_cell,
                rx_ring_full: counts.rx_ring_full,
                too_long: counts.too_long,
                left_at_stop: if closed { captured.saturating_sub(delivered) } else { 0 },
            },
            unexplained: 0,
            pool_used_percent: 100.0 * f64::from(used) / f64::from(levels.cells),
            refused: refused + counts.refused_cells,
        };
        report.unexplained = report.account().unexplained();
        report
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.end();
    }
}

fn port_report(port: &OpenPort, queues: Vec<QueueReport>) -> PortReport {
    let now = port.ifindex.and_then(|ifindex| LinkStatistics::of_index(ifindex).ok());
    let dropped = match (&now, &port.before) {
        (Some(now), Some(before)) => {
            let since = now.since(before);
            since.rx_missed_errors + since.rx_fifo_errors
        }
        _ => 0,
    };
    PortReport {
        name: port.name.clone(),
        driver: port.driver.clone(),
        fallbacks: port.fallbacks.clone(),
        multi_buffer: port.multi_buffer,
        numa_node: port.numa_node,
        removed: port.removed,
        dropped_before_xdp: dropped,
        queues,
    }
}

/// Lays out the queues of all ports in one list and deals them out to the workers in turn.
fn assemble(ports: Vec<Vec<OpenQueue>>, workers: usize) -> (Vec<Queue>, Vec<std::ops::Range<usize>>) {
    let (mut queues, mut ranges) = (Vec::new(), Vec::new());
    for (port, opened) in ports.into_iter().enumerate() {
        let begin = queues.len();
        for (source, pool, reader) in opened {
            let home = queues.len() % workers;
            queues.push(Queue::new(port, home, reader, source, pool));
        }
        ranges.push(begin..queues.len());
    }
    (queues, ranges)
}

/// The buddy groups, and the group of each worker.
fn group(grouping: &Grouping, mode: Mode, workers: usize) -> (Vec<BuddyGroup>, Vec<usize>) {
    let mut sets = match grouping {
        Grouping::All => vec![(0..workers).collect()],
        Grouping::Sets(sets) => sets.clone(),
    };
    let mut group_of = vec![usize::MAX; workers];
    for (group, set) in sets.iter_mut().enumerate() {
        set.retain(|&worker| worker < workers && group_of[worker] == usize::MAX);
        set.iter().for_each(|&worker| group_of[worker] = group);
    }
    for worker in 0..workers {
        if group_of[worker] == usize::MAX {
            group_of[worker] = sets.len();
            sets.push(vec![worker]);
        }
    }
    (sets.into_iter().map(|members| BuddyGroup::new(members, mode)).collect(), group_of)
}
