//! From open ports to an engine that runs.

use std::{
    ops::Range,
    sync::{Arc, Mutex, atomic::AtomicUsize},
    thread,
    time::Instant,
};

use wirecap_core::{
    BacklogGauge, BuddyGroup, CaptureConsumer, CaptureProducer, CaptureQueues, Geometry, Mode, Orphans,
    capture_queue,
};
use wirecap_file::LINK_TYPE_ETHERNET;
use wirecap_sys::{clock::BatchClock, memory::PacketMemory, netdev::LinkChanges, xsk::Sender};

use super::{Capture, processes::Processes};
use crate::{
    Config, Diagnostic, Dispatch, Error, Grouping, PacketAllocator, Transmitter, Worker,
    engine::{
        self, EngineState, WorkerState, capture_thread::CaptureThread, doze::Sleepers, queue::Queue,
        stop_state::StopState,
    },
    nic::link::LinkWatch,
    port::{open_port::OpenPort, opening::ThreadHook},
    report::MemoryReport,
    transmit::AllocatorParts,
};

/// What the builder has opened.
pub(crate) struct Parts {
    /// Opened before the ports, so that no event is missed.
    pub(crate) changes: Option<LinkChanges>,
    pub(crate) geometry: Geometry,
    pub(crate) memory: MemoryReport,
    /// Of the rings of AF_XDP, where there are any.
    pub(crate) ring_entries: u32,
    pub(crate) memories: Vec<Arc<PacketMemory>>,
    pub(crate) clock: BatchClock,
    pub(crate) ports: Vec<OpenPort>,
    pub(crate) allocators: Vec<AllocatorParts>,
    /// What capture threads do first.
    pub(crate) on_thread: ThreadHook,
}

impl Capture {
    pub(crate) fn start(config: &Config, mut parts: Parts) -> Result<Self, Error> {
        let queue_count: usize = parts.ports.iter().map(|port| port.queues.len()).sum();
        let workers = config.workers.unwrap_or(queue_count);
        let pull = config.dispatch == Dispatch::Pull;
        let threads = if pull { 0 } else { config.capture_threads.clamp(1, queue_count) };
        // Room for all full chunks of the queues that a capture thread serves, each with a lead, and for what
        // it hands over in part: see the rule in `capture_thread`. More runs than that wait in the ring.
        let served = queue_count.div_ceil(threads.max(1));
        let queue_room = 2 * (parts.geometry.chunks_per_pool() as usize + 1) * served;
        let WorkQueues { producers, consumers, gauges } = WorkQueues::new(threads, workers, queue_room);

        let open_queues = parts.ports.iter_mut().flat_map(|port| &mut port.queues);
        let senders: Vec<_> = open_queues.map(|queue| queue.socket.as_mut()?.sender.take()).collect();
        let (mut queues, ranges) = assemble(&mut parts, config, workers);
        let wakers = engine::wakers(&mut queues, config.wait);
        let sleepers = Arc::new(Sleepers::new(workers, threads).map_err(Error::Descriptor)?);
        let (groups, group_of) = group(&config.grouping, config.mode, workers)?;
        let homes = |worker| (0..queue_count).filter(|&queue| queues[queue].home == worker).collect();
        let homes = (0..workers).map(homes).collect();
        let (allocators, allocator_pools): (Vec<_>, Vec<_>) = parts.allocators.into_iter().unzip();
        let numbers = queues.iter().map(|queue| queue.lock().pool.number());
        let numbers = numbers.chain(allocator_pools.iter().map(|(pool, _)| pool.number())).collect();
        let room_frames = queues.iter().map(|queue| queue.room_frames).min().unwrap_or(0);
        let shared = Arc::new(EngineState {
            geometry: parts.geometry,
            wait: config.wait,
            queues,
            homes,
            ports: ranges,
            numbers,
            workers: (0..workers).map(|_| WorkerState::new(queue_count)).collect(),
            stopping: StopState::new(queue_count, Arc::clone(&sleepers)),
            sleepers,
            wakers: Mutex::new(Some(Arc::new(wakers))),
            groups,
            group_of,
            gauges,
            pull,
            room_frames,
            orphans: Orphans::default(),
            capture_threads: AtomicUsize::new(threads),
            allocators,
        });

        let worker_cores: Vec<_> = (0..workers).map(|index| core(&config.worker_cores, index)).collect();
        let worker =
            |(index, queues)| Worker::new(&shared, index, worker_cores[index], CaptureQueues::new(queues));
        let workers = consumers.into_iter().enumerate().map(worker).collect();
        let transmitters = transmitters(&shared, senders, &mut parts.ports);
        let mut capture = Self {
            sent: transmitters.iter().map(|transmitter| Arc::clone(&transmitter.sent)).collect(),
            transmitters,
            allocators: PacketAllocator::all(&shared, allocator_pools),
            ports: Arc::new(Mutex::new(parts.ports)),
            memory: parts.memory,
            _memories: parts.memories,
            workers,
            worker_cores,
            threads: Vec::new(),
            changes: parts.changes,
            started: Instant::now(),
            shared,
            processes: config.readable_in_children.then(Processes::new).transpose()?,
            is_abandoned: false,
        };
        capture.start_threads(&config.capture_cores, producers, &parts.on_thread)?;
        Ok(capture)
    }

    /// Starts a capture thread for each set of producers. They share the receive queues.
    fn start_threads(
        &mut self,
        cores: &[usize],
        producers: Vec<Vec<CaptureProducer>>,
        on_thread: &ThreadHook,
    ) -> Result<(), Error> {
        let (queues, threads) = (self.shared.queues.len(), producers.len());
        for (index, producers) in producers.into_iter().enumerate() {
            let served = (index..queues).step_by(threads).collect();
            let thread = CaptureThread::new(&self.shared, index, core(cores, index), served, producers);
            let builder = thread::Builder::new().name(format!("wirecap-cap-{index}"));
            let on_thread = on_thread.clone();
            let run = move || {
                on_thread.call();
                thread.run();
            };
            self.threads.push(builder.spawn(run).map_err(Error::Thread)?);
        }
        Ok(())
    }
}

/// The core of a thread: the cores in turn, if there are any.
fn core(cores: &[usize], index: usize) -> Option<usize> {
    cores.get(index % cores.len().max(1)).copied()
}

/// The capture queues between capture threads and workers.
struct WorkQueues {
    /// By capture thread, then by worker.
    producers: Vec<Vec<CaptureProducer>>,
    /// By worker, then by capture thread; as are the gauges.
    consumers: Vec<Vec<CaptureConsumer>>,
    gauges: Vec<Vec<BacklogGauge>>,
}

impl WorkQueues {
    fn new(threads: usize, workers: usize, room: usize) -> Self {
        let mut queues = Self {
            producers: Vec::new(),
            consumers: (0..workers).map(|_| Vec::new()).collect(),
            gauges: vec![Vec::new(); workers],
        };
        for _ in 0..threads {
            let made: Vec<_> = (0..workers).map(|_| capture_queue(room)).collect();
            let (producers, consumers): (Vec<_>, Vec<_>) = made.into_iter().unzip();
            producers.iter().zip(&mut queues.gauges).for_each(|(one, gauges)| gauges.push(one.gauge()));
            consumers.into_iter().zip(&mut queues.consumers).for_each(|(one, all)| all.push(one));
            queues.producers.push(producers);
        }
        queues
    }
}

/// The transmitter of each queue that sends. Where an interface has fewer transmit queues than receive
/// queues, the kernel binds sockets to the others too, but never sends from them.
fn transmitters(
    shared: &Arc<EngineState>,
    senders: Vec<Option<Sender>>,
    ports: &mut [OpenPort],
) -> Vec<Transmitter> {
    let mut transmitters = Vec::new();
    for (index, (queue, sender)) in shared.queues.iter().zip(senders).enumerate() {
        let port = &mut ports[queue.port];
        let Some(mut sender) = sender else { continue };
        let there = port.link.as_mut().and_then(LinkWatch::transmit_queues);
        if let Some(there) = there.filter(|&there| u32::from(queue.ring_id) >= there) {
            port.report
                .fallbacks
                .push(Diagnostic::QueueDoesNotSend { queue: queue.ring_id, transmit_queues: there });
            continue;
        }
        sender.limit_parts(port.max_parts);
        transmitters.push(Transmitter::new(shared, index, sender, &port.outlet));
    }
    transmitters
}

/// Lays out the queues of all ports in one list and deals them out to the workers.
fn assemble(parts: &mut Parts, config: &Config, workers: usize) -> (Vec<Queue>, Vec<Range<usize>>) {
    let (mut queues, mut ranges) = (Vec::new(), Vec::new());
    for (index, port) in parts.ports.iter_mut().enumerate() {
        let begin = queues.len();
        let is_of_frames = port.report.link_type == LINK_TYPE_ETHERNET;
        // Where the driver decides whether there are cells, the settings decide, so that a program works
        // with every driver or with none.
        let can_drain = port.ifindex.is_none() || config.needs_cells();
        for opened in std::mem::take(&mut port.queues) {
            let home = config.homes.of(queues.len(), queues.len() - begin, workers);
            let clock = parts.clock.clone();
            let mut queue = Queue::new(index, home, opened, clock, parts.ring_entries);
            (queue.is_of_frames, queue.can_drain) = (is_of_frames, can_drain);
            queues.push(queue);
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
    let of_worker = |(worker, group): (usize, Option<usize>)| {
        group.unwrap_or_else(|| {
            sets.push(vec![worker]);
            sets.len() - 1
        })
    };
    let group_of = group_of.into_iter().enumerate().map(of_worker).collect();
    Ok((sets.into_iter().map(|members| BuddyGroup::new(members, mode)).collect(), group_of))
}

#[cfg(test)]
mod tests;
