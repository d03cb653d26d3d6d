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
mod report_builder;
mod start;
mod stopper;

use std::{
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
    time::Instant,
};

use wirecap_core::QueueAccount;
use wirecap_sys::{memory::PacketMemory, netdev::LinkChanges};

pub(crate) use self::start::Parts;
pub use self::stopper::Stopper;
use crate::{
    Horizons, PacketAllocator, Report, Transmitter, Worker,
    engine::{EngineState, queue::Queue},
    port::open_port::OpenPort,
    report::MemoryReport,
    transmit::TransmitCounters,
};

/// A running capture. Dropping it ends it and gives the interfaces back.
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
        // Waiting threads still hold the wakers for a moment: the stop rang their bells.
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
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.end();
        self.close();
    }
}
