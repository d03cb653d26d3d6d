//! What workers do with packets: count them by queue and time.
//!
//! Rule: a worker gives its batch back before it takes the lock, so that waiting workers hold no cells.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, mpsc::SyncSender},
    thread,
    time::Duration,
};

use wirecap::{Batch, Direction};
use wirecap_profile::{Profiler, Tally, rss::QUEUE_WITHOUT_HASH};

use super::{
    csv,
    files::Piece,
    queues::{QueueSelector, Queues},
};
use crate::capture::job::BatchHandler;

/// How often the lock is tried, and how long to wait in between: busy workers have it often, each for
/// microseconds.
const TRIES: usize = 20;
const TURN: Duration = Duration::from_millis(1);

/// Packets that are also counted apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SpecialPackets {
    /// They left the host, and so passed no receive queue.
    pub(super) outgoing: u64,
    /// RSS gives them no hash; 0 where queues are not computed.
    pub(super) without_hash: u64,
    /// Their file has no time for them; the bin of 1970 has them.
    pub(super) untimed: u64,
}

/// What is profiled, shared by the workers and the thread that prints.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) profiler: Profiler,
    pub(super) special: SpecialPackets,
    /// Where rows are written.
    rows: Option<SyncSender<Piece>>,
}

/// A shared handle to it.
#[derive(Debug, Clone)]
pub(super) struct SharedProgress(Arc<Mutex<Progress>>);

impl SharedProgress {
    pub(super) fn new(profiler: Profiler, rows: Option<SyncSender<Piece>>) -> Self {
        let special = SpecialPackets::default();
        Self(Arc::new(Mutex::new(Progress { profiler, special, rows })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, but waits for 20 ms at most: workers have it for microseconds. `None` most likely means that
    /// one of them waits for the disk.
    pub(super) fn lock_soon(&self) -> Option<MutexGuard<'_, Progress>> {
        (0..TRIES).find_map(|number| {
            if number > 0 {
                thread::sleep(TURN);
            }
            self.try_lock()
        })
    }

    /// The same without waiting: `None` while a worker has it, which may wait for the disk.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, Progress>> {
        match self.0.try_lock() {
            Ok(progress) => Some(progress),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Progress {
    fn add(&mut self, tally: &Tally, special: SpecialPackets) {
        self.special.outgoing += special.outgoing;
        self.special.without_hash += special.without_hash;
        self.special.untimed += special.untimed;
        let mut rows = Vec::new();
        let Self { profiler, rows: sender, .. } = self;
        let bin_ns = profiler.settings().bin_ns;
        profiler.add(tally, |row| {
            if sender.is_some() {
                csv::row(row, bin_ns, &mut rows);
            }
        });
        self.send(rows);
    }

    /// Closes all bins: no more packets come.
    pub(super) fn close(&mut self) {
        let mut rows = Vec::new();
        let bin_ns = self.profiler.settings().bin_ns;
        self.profiler.close(|row| csv::row(row, bin_ns, &mut rows));
        csv::outliers(&self.profiler.summary(), &mut rows);
        self.send(rows);
        self.rows = None;
    }

    /// Under the lock, so that rows stay in order. Waits if the disk is slow: the pools buffer packets.
    fn send(&mut self, rows: Vec<u8>) {
        if let Some(sender) = self.rows.as_ref().filter(|_| !rows.is_empty()) {
            // The thread reports why it has ended.
            let _ = sender.send(Piece::Rows(rows));
        }
    }
}

/// Counts the packets of one worker.
#[derive(Debug)]
pub(crate) struct ProfileWorker {
    queues: Arc<Queues>,
    tally: Tally,
    progress: SharedProgress,
}

impl ProfileWorker {
    pub(super) fn new(queues: &Arc<Queues>, progress: &SharedProgress) -> Self {
        let tally = Tally::new(progress.lock().profiler.settings().bin_ns);
        Self { queues: Arc::clone(queues), tally, progress: progress.clone() }
    }
}

impl BatchHandler for ProfileWorker {
    fn batch(&mut self, batch: Batch) {
        let mut special = SpecialPackets::default();
        let captured = match &self.queues.selector {
            QueueSelector::Captured(positions) => positions.get(&(batch.port(), batch.queue())).copied(),
            QueueSelector::Computed(..) => None,
        };
        for packet in &batch {
            if packet.direction() == Direction::Out {
                special.outgoing += 1;
                continue;
            }
            let queue = match &self.queues.selector {
                QueueSelector::Captured(_) => captured.expect("the report has all queues"),
                QueueSelector::Computed(rss, first) => {
                    let hashed = rss.hashed_queue(packet.data(), *first);
                    special.without_hash += u64::from(hashed.is_none());
                    hashed.unwrap_or(QUEUE_WITHOUT_HASH)
                }
            };
            let time_ns = packet.timestamp_ns();
            special.untimed += u64::from(time_ns == 0);
            self.tally.count(time_ns, queue);
        }
        drop(batch);
        self.progress.lock().add(&self.tally, special);
        self.tally.clear();
    }
}
