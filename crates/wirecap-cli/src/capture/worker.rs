//! What a worker thread does: encode, or count.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, Sender, SyncSender, TrySendError},
    },
};

use wirecap::{Batch, Next, Worker};

use super::{
    backlog::Backlog,
    block::{Block, Encoding},
    job::Onward,
    watch::Notice,
};

/// What the writer gets.
#[derive(Debug)]
pub(crate) enum ToWriter {
    Block(Block),
    /// Packets of a queue with these numbers will not come: nothing is to wait for them.
    Skipped {
        queue: usize,
        numbers: Range<u64>,
    },
}

/// Encodes batches for the writer.
#[derive(Debug)]
pub(crate) struct Encode {
    /// Index of the worker.
    worker: usize,
    encoding: Arc<Encoding>,
    blocks: SyncSender<ToWriter>,
    /// Buffers the writer has emptied.
    given_back: Receiver<Vec<u8>>,
    /// Of a job that does not wait for the output.
    backlog: Option<Arc<Backlog>>,
    /// By queue, consecutive numbers of packets that will not come, and that the writer still waits for.
    skipped: Vec<(usize, Range<u64>)>,
}

impl Encode {
    pub(crate) fn new(
        encoding: &Arc<Encoding>,
        blocks: &SyncSender<ToWriter>,
        given_back: Receiver<Vec<u8>>,
        worker: usize,
        backlog: Option<Arc<Backlog>>,
    ) -> Self {
        let (encoding, blocks) = (Arc::clone(encoding), blocks.clone());
        Self { worker, encoding, blocks, given_back, backlog, skipped: Vec::new() }
    }

    /// Until the capture has ended and everything was delivered.
    pub(crate) fn run(self, worker: Worker, onward: impl Onward) {
        each_batch(worker, onward, self);
    }

    /// Passes a block on as long as there is room, and never waits. Returns whether the writer is still there.
    fn offer(&mut self, backlog: &Backlog, block: Block) -> bool {
        let (bytes, queue) = (block.records.bytes.capacity(), block.queue);
        let numbers = block.first_number..block.first_number + block.records.packets;
        backlog.add(bytes);
        self.announce_skipped();
        let refused = self.blocks.try_send(ToWriter::Block(block)).err();
        if refused.is_some() {
            backlog.remove(bytes);
            self.skip(backlog, queue, numbers);
        }
        !matches!(refused, Some(TrySendError::Disconnected(_)))
    }

    /// Notes that packets are not written.
    fn skip(&mut self, backlog: &Backlog, queue: usize, numbers: Range<u64>) {
        backlog.count_not_taken(numbers.end - numbers.start);
        match self.skipped.iter_mut().find(|(of, last)| *of == queue && last.end == numbers.start) {
            Some((_, last)) => last.end = numbers.end,
            None => self.skipped.push((queue, numbers)),
        }
    }

    /// Sends the writer the numbers that it will not get, as far as there is room.
    fn announce_skipped(&mut self) {
        let blocks = &self.blocks;
        self.skipped.retain(|(queue, numbers)| {
            blocks.try_send(ToWriter::Skipped { queue: *queue, numbers: numbers.clone() }).is_err()
        });
    }
}

impl<O: Onward> Take<O> for Encode {
    fn take(&mut self, batch: Batch, onward: &mut O) -> bool {
        let backlog = self.backlog.clone();
        if let Some(backlog) = backlog.as_ref().filter(|backlog| !backlog.has_room()) {
            let (queue, first) = (self.encoding.queue_of(&batch), batch.first_number());
            let numbers = first..first + batch.len() as u64;
            onward.batch(batch);
            self.skip(backlog, queue, numbers);
            self.announce_skipped();
            return true;
        }
        // At the start, and while the writer holds blocks back, none has come back.
        let buffer = self.given_back.try_recv().unwrap_or_default();
        let mut block = self.encoding.encode(&batch, buffer, self.worker);
        // Before waiting for the writer: its cells are worth more in the pool.
        onward.batch(batch);
        block.records.trim();
        match backlog {
            Some(backlog) => self.offer(&backlog, block),
            // The writer takes blocks for as long as there are workers; else it can only have panicked.
            None => self.blocks.send(ToWriter::Block(block)).is_ok(),
        }
    }

    fn idle(&mut self) {
        self.announce_skipped();
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
    pub(crate) fn run(self, worker: Worker, onward: impl Onward) {
        each_batch(worker, onward, self);
    }
}

impl<O: Onward> Take<O> for Count {
    fn take(&mut self, batch: Batch, onward: &mut O) -> bool {
        let packets = batch.len() as u64;
        onward.batch(batch);
        let Some(enough) = self.enough else { return true };
        let before = self.packets.fetch_add(packets, Ordering::Relaxed);
        if before < enough && before + packets >= enough {
            // Nobody listens once the capture is ending.
            let _ = self.notices.send(Notice::CountReached);
        }
        true
    }
}

/// What is done with batches, before and after the job's own.
trait Take<O> {
    /// Takes a batch. Returns whether it goes on.
    fn take(&mut self, batch: Batch, onward: &mut O) -> bool;

    /// Nothing came for a while.
    fn idle(&mut self) {}
}

/// Gives each batch to `sink`, until the capture has ended or the sink says so.
fn each_batch<O: Onward>(mut worker: Worker, mut onward: O, mut sink: impl Take<O>) {
    loop {
        let goes_on = match worker.next_batch_within(onward.patience()) {
            Next::Batch(batch) => sink.take(batch, &mut onward),
            Next::Idle => {
                onward.idle();
                sink.idle();
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
