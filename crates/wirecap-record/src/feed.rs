//! A worker's way to one writer, and what happens when the writer is behind.

use std::{
    ops::Range,
    sync::{
        Arc,
        mpsc::{SyncSender, TrySendError},
    },
};

use super::{backlog::Backlog, block::Block, error::RecordError};

/// Passes the blocks of a worker on to a writer.
#[derive(Debug)]
pub(crate) struct Feed {
    messages: SyncSender<Block>,
    /// If packets are dropped when the output is behind.
    backlog: Option<Arc<Backlog>>,
    /// Packets that will not come, but that the writer still waits for.
    gaps: Vec<Block>,
}

impl Feed {
    pub(crate) fn new(messages: SyncSender<Block>, backlog: Option<Arc<Backlog>>) -> Self {
        Self { messages, backlog, gaps: Vec::new() }
    }

    /// Whether one more block may be made.
    pub(crate) fn has_room(&self) -> bool {
        self.backlog.as_ref().is_none_or(|backlog| backlog.has_room())
    }

    /// Counts packets for which there is no room. `numbers` are theirs within the queue.
    pub(crate) fn skip(&mut self, queue: usize, numbers: Range<u64>) {
        if let Some(backlog) = &self.backlog {
            backlog.count_not_taken(numbers.end - numbers.start);
        }
        self.add_gap(queue, numbers);
        self.idle();
    }

    /// Passes a block on to the writer.
    ///
    /// # Errors
    /// [`RecordError::WriterGone`].
    pub(crate) fn pass_on(&mut self, mut block: Block) -> Result<(), RecordError> {
        block.records.trim();
        match self.backlog.clone() {
            Some(backlog) => self.offer(&backlog, block),
            None => self.messages.send(block).map_err(|_| RecordError::WriterGone),
        }
    }

    /// Tells the writer which packets will not come, so that others do not wait for them.
    pub(crate) fn idle(&mut self) {
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
