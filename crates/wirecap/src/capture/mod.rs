//! A capture that runs: its workers, its ports, its end, its account.
//!
//! ```text
//!   Builder::open ──► Capture ── take_workers() ──► Worker, one for each application thread
//!                        ├── report()     at any time
//!                        ├── set_threshold_percent()     T, at any time
//!                        ├── stopper()    ends it, from any thread
//!                        └── finish()     the account, closed
//! ```

mod events;
mod offloading;
mod processes;
mod report_builder;
mod start;
mod stopper;

use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
    time::Instant,
};

use wirecap_core::QueueAccount;
use wirecap_sys::{
    memory::PacketMemory,
    netdev::{FrameSocket, LinkChanges},
};

use self::processes::Processes;
pub(crate) use self::start::Parts;
pub use self::stopper::Stopper;
use crate::{
    Horizons, PacketAllocator, Report, Transmitter, Worker,
    engine::{EngineState, queue::Queue},
    port::open_port::OpenPort,
    report::MemoryReport,
    transmit::TransmitCounters,
};

/// A running capture. Dropping it ends it and gives the interfaces back, unless a forked process has it, too:
/// see [`Config::readable_in_children`](crate::Config::readable_in_children).
#[derive(Debug)]
pub struct Capture {
    shared: Arc<EngineState>,
    ports: Arc<Mutex<Vec<OpenPort>>>,
    memory: MemoryReport,
    /// Keeps the packet memory mapped while the capture runs.
    _memories: Vec<Arc<PacketMemory>>,
    workers: Vec<Worker>,
    transmitters: Vec<Transmitter>,
    /// What each transmitter has sent.
    sent: Vec<Arc<TransmitCounters>>,
    allocators: Vec<PacketAllocator>,
    worker_cores: Vec<Option<usize>>,
    threads: Vec<JoinHandle<()>>,
    changes: Option<LinkChanges>,
    started: Instant,
    /// `None` where only this process can have it, and once this one has let go of it.
    processes: Option<Processes>,
    is_abandoned: bool,
}

impl Capture {
    /// The workers, one for each application thread. The second call returns none.
    pub fn take_workers(&mut self) -> Vec<Worker> {
        std::mem::take(&mut self.workers)
    }

    /// The transmitters, one for each receive queue of the AF_XDP ports, in their order; empty without
    /// [`Builder::transmit`](crate::Builder::transmit). The second call returns none.
    pub fn take_transmitters(&mut self) -> Vec<Transmitter> {
        std::mem::take(&mut self.transmitters)
    }

    /// The packet allocators, as many as [`Builder::allocators`](crate::Builder::allocators) says. The second
    /// call returns none.
    pub fn take_allocators(&mut self) -> Vec<PacketAllocator> {
        std::mem::take(&mut self.allocators)
    }

    /// A socket by which a `packet:` port sends frames that it does not capture, where that was
    /// [asked for](crate::Builder::own_sender); the first one's. The second call returns none.
    pub fn take_sender(&mut self) -> Option<FrameSocket> {
        let mut ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        ports.iter_mut().find_map(|port| port.sender.take())
    }

    /// A handle that ends the capture.
    pub fn stopper(&self) -> Stopper {
        Stopper { shared: Arc::downgrade(&self.shared), ports: Arc::downgrade(&self.ports) }
    }

    /// A handle that gives lower bounds on the times of future packets.
    pub fn horizons(&self) -> Horizons {
        Horizons { shared: Arc::downgrade(&self.shared) }
    }

    /// Whether every port is a trace file that is read, so that the capture ends by itself: workers get what
    /// is left, then [`crate::WaitOutcome::Ended`].
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
    /// assert!(capture.is_at_end());                     // without a stop
    /// let report = capture.finish();
    /// assert_eq!((report.ports[0].error.is_none(), report.ports[0].read_percent), (true, Some(100.0)));
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), wirecap::Error>(())
    /// ```
    pub fn is_at_end(&self) -> bool {
        self.shared.stopping.is_at_end()
    }

    /// The accounts so far. It reads the queues one after the other while they run, so packets on their way
    /// show as unexplained.
    pub fn report(&self) -> Report {
        self.report_with(false)
    }

    /// The accounts of all queues added up, for signal handlers: it allocates nothing once it was called, and
    /// waits for no lock. `None` if another thread, or the function that was interrupted, has a queue.
    ///
    /// ```
    /// # let port = wirecap::port::null::NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 10 };
    /// # let mut capture = wirecap::Capture::builder().port(port).chunks_per_pool(4).open()?;
    /// # let mut worker = capture.take_workers().remove(0);
    /// let batch = worker.next_batch();
    /// assert_eq!(capture.try_total().map(|account| account.delivered), Some(10));
    /// # drop(batch);
    /// # Ok::<(), wirecap::Error>(())
    /// ```
    pub fn try_total(&self) -> Option<QueueAccount> {
        let accounts = self.shared.queues.iter().enumerate().map(|(index, queue)| {
            let counts = queue.try_lock()?.source.counts();
            Some(QueueAccount { delivered: self.delivered(index).0, ..counts.account() })
        });
        accounts.sum()
    }

    /// From now on [`Capture::finish`], or dropping it, ends the capture for forked processes that have it,
    /// too: see [`Config::readable_in_children`](crate::Config::readable_in_children). With capture threads,
    /// only the process that has them does.
    pub fn end_for_all(&mut self) {
        if self.threads.is_empty() {
            self.processes = None;
        }
    }

    /// Ends the capture, waits for the capture threads, and closes the account: packets no worker
    /// took are `left_at_stop`. Call it when the workers are done.
    ///
    /// Where a forked process has the capture, too, it goes on there, and the account is that
    /// [of the last reading](Report::of_last_reading) here.
    pub fn finish(mut self) -> Report {
        if self.leave_to_others() {
            let report = self.report_with(false).of_last_reading();
            self.abandon();
            return report;
        }
        self.end();
        self.shared.queues.iter().for_each(|queue| queue.discard_rest(&self.shared.stopping));
        let report = self.report_with(true);
        self.close();
        report
    }

    fn close(&self) {
        // Waiting threads still hold the wakers for a moment: the stop rang their bells.
        self.shared.wakers.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.shared.queues.iter().for_each(Queue::close);
    }

    /// Lets go of the capture. Returns whether another process goes on with it.
    fn leave_to_others(&mut self) -> bool {
        let has_threads = !self.threads.is_empty();
        self.processes.take().is_some_and(|processes| processes.leave(has_threads))
    }

    /// Closes the descriptors of this process. A lock that another thread held during the fork is never
    /// released here; what it guards stays open until this process ends.
    fn abandon(&mut self) {
        self.threads.drain(..).for_each(mem::forget);
        self.workers.clear();
        if let Ok(mut ports) = self.ports.try_lock() {
            ports.iter_mut().for_each(OpenPort::abandon);
        }
        self.shared.wakers.try_lock().ok().and_then(|mut wakers| wakers.take());
        self.shared.queues.iter().for_each(Queue::abandon);
        self.is_abandoned = true;
    }

    fn end(&mut self) {
        self.stopper().stop();
        self.workers.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if self.leave_to_others() {
            self.abandon();
        }
        if !self.is_abandoned {
            self.end();
            self.close();
        }
    }
}
