//! What a worker thread does: encode, or count.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
    mpsc::{Receiver, Sender, SyncSender},
};

use wirecap::{Batch, Next, Worker};

use super::{
    block::{Block, Encoding},
    job::Onward,
    watch::Notice,
};

/// Encodes batches for the writer.
#[derive(Debug)]
pub(crate) struct Encode {
    encoding: Arc<Encoding>,
    blocks: SyncSender<Block>,
    /// Buffers the writer has emptied.
    given_back: Receiver<Vec<u8>>,
}

impl Encode {
    pub(crate) fn new(
        encoding: &Arc<Encoding>,
        blocks: &SyncSender<Block>,
        given_back: Receiver<Vec<u8>>,
    ) -> Self {
        Self { encoding: Arc::clone(encoding), blocks: blocks.clone(), given_back }
    }

    /// Until the capture has ended and everything was delivered.
    pub(crate) fn run(self, worker: Worker, mut onward: impl Onward) {
        let index = worker.index();
        each_batch(worker, &mut onward, |batch, onward| {
            // At the start, and while the writer holds blocks back, none has come back.
            let buffer = self.given_back.try_recv().unwrap_or_default();
            let mut block = self.encoding.encode(&batch, buffer, index);
            // Before waiting for the writer: its cells are worth more in the pool.
            onward.batch(batch);
            block.records.trim();
            // The writer takes blocks for as long as there are workers; else it can only have panicked.
            self.blocks.send(block).is_ok()
        });
    }
}

/// Counts packets and asks for the end when there are enough.
#[derive(Debug, Clone)]
pub(crate) struct Count {
    enough: Option<u64>,
    packets: Arc<AtomicU64>,
    notices: Sender<Notice>,
}

impl Count {
    pub(crate) fn new(enough: Option<u64>, notices: &Sender<Notice>) -> Self {
        Self { enough, packets: Arc::default(), notices: notices.clone() }
    }

    /// Until the capture has ended and everything was delivered. The engine counts what it delivers, so
    /// without a limit there is nothing to do.
    pub(crate) fn run(self, worker: Worker, mut onward: impl Onward) {
        each_batch(worker, &mut onward, |batch, onward| {
            let packets = batch.len() as u64;
            onward.batch(batch);
            let Some(enough) = self.enough else { return true };
            let before = self.packets.fetch_add(packets, Ordering::Relaxed);
            if before < enough && before + packets >= enough {
                // Nobody listens once the capture is ending.
                let _ = self.notices.send(Notice::CountReached);
            }
            true
        });
    }
}

/// Gives each batch to `take`, until the capture has ended or `take` says so.
fn each_batch<O: Onward>(mut worker: Worker, onward: &mut O, mut take: impl FnMut(Batch, &mut O) -> bool) {
    loop {
        let goes_on = match worker.next_batch_within(onward.patience()) {
            Next::Batch(batch) => take(batch, onward),
            Next::Idle => {
                onward.idle();
                true
            }
            Next::Ended => false,
        };
        if !goes_on {
            break;
        }
    }
    onward.end();
}
