//! What a worker thread does: encode, or count.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
    mpsc::{Receiver, Sender, SyncSender},
};

use wirecap::Worker;

use super::{
    block::{Block, Encoding},
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
    pub(crate) fn run(self, mut worker: Worker) {
        while let Some(batch) = worker.next_batch() {
            // At the start, and while the writer holds blocks back, none has come back.
            let buffer = self.given_back.try_recv().unwrap_or_default();
            let mut block = self.encoding.encode(&batch, buffer, worker.index());
            // Before waiting for the writer: its cells are worth more in the pool.
            drop(batch);
            block.records.trim();
            if self.blocks.send(block).is_err() {
                // The writer takes blocks for as long as there are workers; it can only have panicked.
                return;
            }
        }
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
    pub(crate) fn run(self, mut worker: Worker) {
        while let Some(batch) = worker.next_batch() {
            let Some(enough) = self.enough else { continue };
            let packets = batch.len() as u64;
            drop(batch);
            let before = self.packets.fetch_add(packets, Ordering::Relaxed);
            if before < enough && before + packets >= enough {
                // Nobody listens once the capture is ending.
                let _ = self.notices.send(Notice::CountReached);
            }
        }
    }
}
