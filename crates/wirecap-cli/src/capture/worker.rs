//! The work of a worker thread: recording or counting.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
    mpsc::Sender,
};

use wirecap::{Batch, WaitOutcome, Worker};
use wirecap_record::Lane;

use super::{end::Notice, job::BatchHandler};
use crate::control::sample::Sampler;

/// Where a worker's packets go before the job gets them.
#[derive(Debug)]
pub(super) enum Sink {
    Record(Lane),
    Count(Count),
}

impl Sink {
    /// Takes a batch, and gives it to the job. Returns whether the worker continues.
    fn take<H: BatchHandler>(&mut self, batch: Batch, handler: &mut H) -> bool {
        match self {
            // The writer accepts packets as long as there are workers, unless it panicked.
            Sink::Record(lane) if H::USES_RECORDED => {
                lane.record_then(batch, |batch| handler.batch(batch)).is_ok()
            }
            Sink::Record(lane) => lane.record(batch).is_ok(),
            Sink::Count(count) => {
                count.add(batch.len() as u64);
                handler.batch(batch);
                true
            }
        }
    }
}

/// Counts packets, and requests the end when there are enough. Does nothing without a limit, as the engine
/// counts what it delivers.
#[derive(Debug, Clone)]
pub(super) struct Count {
    enough: Option<u64>,
    packets: Arc<AtomicU64>,
    notices: Sender<Notice>,
}

impl Count {
    pub(super) fn new(enough: Option<u64>, notices: &Sender<Notice>) -> Self {
        Self { enough, packets: Arc::default(), notices: notices.clone() }
    }

    fn add(&self, packets: u64) {
        let Some(enough) = self.enough else { return };
        let before = self.packets.fetch_add(packets, Ordering::Relaxed);
        if before < enough && before + packets >= enough {
            // No thread listens once the capture is ending.
            let _ = self.notices.send(Notice::CountReached);
        }
    }
}

/// Takes batches until the capture has ended and everything was delivered.
pub(super) fn run(mut worker: Worker, mut sink: Sink, mut handler: impl BatchHandler, sampler: &Sampler) {
    loop {
        let goes_on = match worker.next_batch_within(handler.timeout()) {
            WaitOutcome::Batch(batch) => {
                sampler.look(&batch);
                sink.take(batch, &mut handler)
            }
            WaitOutcome::Idle => {
                handler.idle();
                if let Sink::Record(lane) = &mut sink {
                    lane.idle();
                }
                true
            }
            WaitOutcome::Ended => false,
        };
        if !goes_on {
            break;
        }
    }
    handler.end();
}
