//! Threads that run workers and keep all their packets.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

use wirecap::{Batch, Worker};

use crate::wait_until;

/// A packet as a worker got it.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// The worker that got it.
    pub worker: usize,
    /// Its port.
    pub port: usize,
    /// Its receive queue.
    pub queue: u16,
    /// Its number within the queue.
    pub number: u64,
    /// The number of its parts.
    pub parts: usize,
    /// When it was captured.
    pub timestamp_ns: u64,
    /// How much earlier it may have arrived.
    pub uncertainty_ns: u64,
    /// The bytes of all its parts.
    pub bytes: Vec<u8>,
}

/// Copies the packets of a batch.
pub fn arrivals(worker: usize, batch: &Batch) -> Vec<Arrival> {
    assert_eq!(batch.packets().len(), batch.len());
    let arrivals: Vec<Arrival> = batch
        .packets()
        .map(|packet| {
            let bytes: Vec<u8> = packet.parts().flatten().copied().collect();
            assert_eq!(bytes.len(), packet.len());
            assert!(bytes.starts_with(packet.data()));
            Arrival {
                worker,
                port: batch.port(),
                queue: batch.queue(),
                number: packet.number(),
                parts: packet.parts().count(),
                timestamp_ns: packet.timestamp_ns(),
                uncertainty_ns: batch.uncertainty_ns(),
                bytes,
            }
        })
        .collect();
    assert_eq!(arrivals.len(), batch.len());
    assert_eq!(arrivals.iter().map(|arrival| arrival.bytes.len() as u64).sum::<u64>(), batch.bytes());
    arrivals
}

/// A thread for each worker; the threads run until the capture ends.
pub struct Crew {
    threads: Vec<JoinHandle<Vec<Arrival>>>,
    arrived: Arc<AtomicU64>,
}

impl Crew {
    /// Starts the threads. Each calls `before` with the number of its worker and each batch, then copies the
    /// packets and recycles the batch.
    pub fn start(workers: Vec<Worker>, before: impl Fn(usize, &mut Batch) + Clone + Send + 'static) -> Self {
        let arrived = Arc::new(AtomicU64::new(0));
        let run = |mut worker: Worker| {
            let (before, arrived) = (before.clone(), Arc::clone(&arrived));
            thread::spawn(move || {
                let mut all = Vec::new();
                while let Some(mut batch) = worker.next_batch() {
                    before(worker.index(), &mut batch);
                    let packets = batch.len() as u64;
                    all.extend(arrivals(worker.index(), &batch));
                    drop(batch);
                    arrived.fetch_add(packets, Ordering::Release);
                }
                all
            })
        };
        Self { threads: workers.into_iter().map(run).collect(), arrived }
    }

    /// Starts threads that take packets as fast as they can.
    pub fn eager(workers: Vec<Worker>) -> Self {
        Self::start(workers, |_, _| ())
    }

    /// Packets that have arrived and whose cells are recycled.
    pub fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Acquire)
    }

    /// Waits until at least `packets` packets have arrived in total.
    #[track_caller]
    pub fn wait_for(&self, packets: u64) {
        wait_until(&format!("{packets} packets arrive"), || self.arrived() >= packets);
    }

    /// Waits for the threads, which end once the capture is stopped. Returns their packets: by worker, in the
    /// order in which the worker got them.
    pub fn join(self) -> Vec<Arrival> {
        self.threads.into_iter().flat_map(|thread| thread.join().expect("a worker panicked")).collect()
    }
}
