//! A worker's end of a recorder, or of the recorders of all queues.
//!
//! ```text
//!   batch ─┬─ lies in memory as in a file, and may be held ──► with the block, until it is written
//!          └─ else, or wanted by the caller ──► encoded ──► back to its pool, or to the caller
//! ```

use std::{
    ops::Range,
    sync::{Arc, mpsc::Receiver},
};

use wirecap::Batch;

use super::{
    block::Block,
    encode::Encoding,
    error::RecordError,
    feed::Feed,
    in_place::{InPlaceBatch, Places},
    records::Records,
};

/// Hands what one worker captures to the writer, or to the writer of each queue, encoded if necessary.
///
/// Give each worker's thread the lane of its index. The files are complete when all lanes are dropped.
#[derive(Debug)]
pub struct Lane {
    /// Index of the worker.
    pub(crate) worker: usize,
    pub(crate) encoding: Arc<Encoding>,
    pub(crate) places: Arc<Places>,
    /// To the writer of all queues, or to that of each queue.
    pub(crate) feeds: Vec<Feed>,
    /// Buffers that the writers have emptied.
    pub(crate) emptied: Receiver<Records>,
}

impl Lane {
    /// Records a batch, and gives its cells back: once it is encoded or, if it lies in memory as in a file
    /// ([`Batch::pcapng`]), once it is written from there. At most a quarter of each pool is held for that.
    /// Waits while the output is slow, unless the recorder drops packets then.
    ///
    /// # Errors
    /// [`RecordError::WriterGone`]. A failed output is not an error here: packets are accepted, so that no
    /// worker waits in vain, and [`Outcome::failure`](crate::Outcome::failure) says why they are not written.
    pub fn record(&mut self, mut batch: Batch) -> Result<(), RecordError> {
        let of_capture = self.encoding.queue_of(&batch);
        let (feed, queue) = self.route(of_capture);
        let has_room = self.feeds[feed].has_room();
        let permit = has_room.then(|| self.places.permit(of_capture, &mut batch)).flatten();
        let Some(permit) = permit else { return self.record_then(batch, drop) };
        let numbers = numbers_of(&batch);
        let mut records = self.empty();
        records.place(InPlaceBatch::new(batch, permit));
        self.feeds[feed].pass_on(Block { queue, numbers, records })
    }

    /// Like [`Self::record`], for a program that does more with the packets: `then` gets the batch after it
    /// was encoded, and before waiting for the writer, so that its cells return to the pool early.
    ///
    /// # Errors
    /// Like [`Self::record`].
    pub fn record_then(&mut self, batch: Batch, then: impl FnOnce(Batch)) -> Result<(), RecordError> {
        let (feed, queue) = self.route(self.encoding.queue_of(&batch));
        let numbers = numbers_of(&batch);
        if !self.feeds[feed].has_room() {
            then(batch);
            self.feeds[feed].skip(queue, numbers);
            return Ok(());
        }
        let records = self.encoding.encode(&batch, self.empty());
        then(batch);
        self.feeds[feed].pass_on(Block { queue, numbers, records })
    }

    /// Call it when no batch has arrived for a while. If the recorder drops packets, this tells the writer
    /// which ones will not come, so that packets of other workers do not wait for them.
    pub fn idle(&mut self) {
        self.feeds.iter_mut().for_each(Feed::idle);
    }

    /// The feed of a queue of the capture, and the number that the queue has for its writer.
    fn route(&self, queue: usize) -> (usize, usize) {
        if self.feeds.len() == 1 { (0, queue) } else { (queue, 0) }
    }

    /// An empty buffer. None has come back at the start, nor while the writers hold blocks back.
    fn empty(&self) -> Records {
        self.emptied.try_recv().unwrap_or_else(|_| Records::new(Some(self.worker)))
    }
}

/// The numbers of a batch's packets within their queue.
fn numbers_of(batch: &Batch) -> Range<u64> {
    batch.first_number()..batch.first_number() + batch.len() as u64
}
