//! A worker's end of a recorder.
//!
//! ```text
//!   batch ─┬─ lies in memory as in a file, and may be held ──► with the block, until it is written
//!          └─ else, or wanted by the caller ──► encoded ──► back to its pool, or to the caller
//! ```

use std::{
    ops::Range,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, TrySendError},
    },
};

use wirecap::Batch;

use super::{
    backlog::Backlog,
    block::Block,
    encode::Encoding,
    error::RecordError,
    in_place::{InPlace, Places},
    records::Records,
};

/// Hands what one worker captures to the writer, encoded if necessary.
///
/// Give each worker's thread the lane of its index. The file is complete when all lanes are dropped.
#[derive(Debug)]
pub struct Lane {
    /// Index of the worker.
    pub(crate) worker: usize,
    pub(crate) encoding: Arc<Encoding>,
    pub(crate) places: Arc<Places>,
    pub(crate) messages: SyncSender<Block>,
    /// Buffers that the writer has emptied.
    pub(crate) emptied: Receiver<Records>,
    pub(crate) backlog: Option<Arc<Backlog>>,
    /// Packets that will not come, but that the writer still waits for.
    pub(crate) gaps: Vec<Block>,
}

impl Lane {
    /// Records a batch, and gives its cells back: once it is encoded or, if it lies in memory as in a file
    /// ([`Batch::pcapng`]), once it is written from there. At most a quarter of each pool is held for that.
    /// Waits while the output is slow, unless the recorder drops packets then.
    ///
    /// # Errors
    /// [`RecordError::WriterGone`]. A failed output is not an error here: packets are accepted, so that no
    /// worker waits in vain, and [`Outcome::failure`](crate::Outcome::failure) says why they are not written.
    pub fn record(&mut self, batch: Batch) -> Result<(), RecordError> {
        let queue = self.encoding.queue_of(&batch);
        let claim = if self.has_room() { self.places.claim(queue, &batch) } else { None };
        let Some(claim) = claim else { return self.record_then(batch, drop) };
        let numbers = numbers_of(&batch);
        let mut records = self.empty();
        records.place(InPlace::new(batch, claim));
        self.pass_on(Block { queue, numbers, records })
    }

    /// Like [`Self::record`], for a program that does more with the packets: `then` gets the batch after it
    /// was encoded, and before waiting for the writer, so that its cells return to the pool early.
    ///
    /// # Errors
    /// Like [`Self::record`].
    pub fn record_then(&mut self, batch: Batch, then: impl FnOnce(Batch)) -> Result<(), RecordError> {
        if !self.has_room() {
            self.skip(&batch);
            then(batch);
            self.idle();
            return Ok(());
        }
        let empty = self.empty();
        let block = self.encoding.encode(&batch, empty);
        then(batch);
        self.pass_on(block)
    }

    /// Whether one more block may be made.
    fn has_room(&self) -> bool {
        self.backlog.as_ref().is_none_or(|backlog| backlog.has_room())
    }

    /// Counts packets for which there is no room.
    fn skip(&mut self, batch: &Batch) {
        if let Some(backlog) = &self.backlog {
            backlog.count_not_taken(batch.len() as u64);
        }
        self.add_gap(self.encoding.queue_of(batch), numbers_of(batch));
    }

    /// An empty buffer. None has come back at the start, nor while the writer holds blocks back.
    fn empty(&self) -> Records {
        self.emptied.try_recv().unwrap_or_else(|_| Records::new(Some(self.worker)))
    }

    /// Passes a block on to the writer.
    fn pass_on(&mut self, mut block: Block) -> Result<(), RecordError> {
        block.records.trim();
        match self.backlog.clone() {
            Some(backlog) => self.offer(&backlog, block),
            None => self.messages.send(block).map_err(|_| RecordError::WriterGone),
        }
    }

    /// Call it when no batch has arrived for a while. If the recorder drops packets, this tells the writer
    /// which ones will not come, so that packets of other workers do not wait for them.
    pub fn idle(&mut self) {
        let messages = &self.messages;
        self.gaps.retain(|gap| messages.try_send(Block::gap(gap.queue, gap.numbers.clone())).is_err());
    }

    /// Passes a block on if there is room; never waits.
    fn offer(&mut self, backlog: &Backlog, block: Block) -> Result<(), RecordError> {
        let bytes = block.records.memory_bytes();
        let (queue, numbers) = (block.queue, block.numbers.clone());
        backlog.add(bytes);
        self.idle();
        let Err(refused) = self.messages.try_send(block) else { return Ok(()) };
        backlog.remove(bytes);
        backlog.count_not_taken(numbers.end - numbers.start);
        self.add_gap(queue, numbers);
        match refused {
            TrySendError::Full(_) => Ok(()),
            TrySendError::Disconnected(_) => Err(RecordError::WriterGone),
        }
    }

    /// Packets that the writer will not get.
    fn add_gap(&mut self, queue: usize, numbers: Range<u64>) {
        let continues = |last: &&mut Block| last.queue == queue && last.numbers.end == numbers.start;
        match self.gaps.iter_mut().find(continues) {
            Some(last) => last.numbers.end = numbers.end,
            None => self.gaps.push(Block::gap(queue, numbers)),
        }
    }
}

/// The numbers of a batch's packets within their queue.
fn numbers_of(batch: &Batch) -> Range<u64> {
    batch.first_number()..batch.first_number() + batch.len() as u64
}
