//! Merges the packets of several queues by time.
//!
//! ```text
//!   queue 0   ██ 1-4 ██  ██ 9-12 ██        ─┐
//!   queue 1   ██ 5-8 ██  ██ 10-14 ██       ─┼─► 1-4  5-8  9 10 10 11 …       whole blocks where they do not overlap,
//!   queue 2   idle, and certainly later     ─┘                               runs copied together where they do
//!             than 15: its horizon
//! ```
//!
//! Rules: a packet is passed on when no queue can have an earlier one: each holds a later one, or has
//! promised one. Times within a queue increase, so a received packet is a promise, too; an idle queue is
//! asked for its [`Horizon`]; a paused queue, whose times are unknown, is not waited for. Of packets with the
//! same time, that of the lower queue is first, so that the order depends only on the packets. Packets of one
//! queue keep their order, whatever their times. And a packet that is more than a second in the future has
//! its time from before the clock was set back: it is passed on at once, and no queue waits for one.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use wirecap::Horizon;

use super::{
    block::Block,
    buffers::Buffers,
    records::{Position, Records},
    sequencer::Sequencer,
};

/// Runs are copied together up to this size.
const MERGED_BYTES: usize = 256 << 10;
/// Packets and promises that are later than now by more than this are from before the clock was set back.
const SET_BACK_NS: u64 = 1_000_000_000;
/// A block up to this size is copied to the run before it, which costs less than a write of its own.
const SMALL_BYTES: usize = 4 << 10;

/// Holds packets back until it is their turn.
#[derive(Debug)]
pub(crate) struct Merger {
    sequencer: Sequencer<Records>,
    queues: Vec<Queue>,
    /// The queues that hold something, by the time of their first packet. INVARIANT: each once.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    /// Memory of everything that is held, in `queues` and in the sequencer, in bytes.
    held_bytes: usize,
    /// Runs that were copied together.
    merged: Records,
}

/// Packets of one queue.
#[derive(Debug, Default)]
struct Queue {
    /// In order.
    waiting: VecDeque<Records>,
    /// Memory of everything that is held of it, in bytes.
    held_bytes: usize,
    /// How much of the first is passed on.
    taken: Position,
    /// Future packets are later than this.
    certain_ns: u64,
    /// A promise that holds once all packets before its number have arrived.
    horizon: Option<Horizon>,
    /// Not waited for in the next merge, after which the queue is asked again.
    has_paused: bool,
}

/// Receives records in order, and drops empty ones, which stand for skipped packets.
struct NonEmptyRecords<'q>(&'q mut VecDeque<Records>);

impl Extend<Records> for NonEmptyRecords<'_> {
    fn extend<I: IntoIterator<Item = Records>>(&mut self, records: I) {
        self.0.extend(records.into_iter().filter(|records| !records.is_empty()));
    }
}

impl Queue {
    /// Time of the first waiting packet.
    fn head_ns(&self) -> Option<u64> {
        let first = self.waiting.front()?;
        first.entries.get(self.taken.entries).map(|entry| entry.time_ns)
    }

    /// Applies the promise, if all packets before `next` have arrived.
    fn keep_promise(&mut self, next: u64) {
        if let Some(horizon) = self.horizon.take_if(|horizon| horizon.number <= next) {
            self.certain_ns = self.certain_ns.max(horizon.time_ns);
            // If later packets have arrived, the pause is over.
            self.has_paused = horizon.is_pause() && horizon.number == next;
        }
    }

    /// Forgets promises about times after `latest_ns`. The promise that no packet comes is kept.
    fn forget_after(&mut self, latest_ns: u64) {
        let is_after = |time_ns: u64| time_ns > latest_ns && time_ns < u64::MAX;
        self.horizon = self.horizon.filter(|horizon| !is_after(horizon.time_ns));
        if is_after(self.certain_ns) {
            self.certain_ns = 0;
        }
    }

    /// Whether the others wait for its next packet.
    fn is_awaited(&self) -> bool {
        self.waiting.is_empty() && !self.has_paused
    }
}

impl Merger {
    /// A merger for this number of queues.
    pub(crate) fn new(queues: usize) -> Self {
        Self {
            sequencer: Sequencer::new(queues),
            queues: (0..queues).map(|_| Queue::default()).collect(),
            heads: BinaryHeap::with_capacity(queues),
            held_bytes: 0,
            merged: Records::new(None),
        }
    }

    /// Memory of everything that is held back, in bytes: see [`Records::memory_bytes`].
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// The part of [`Self::held_bytes`] of this queue.
    pub(crate) fn held_of(&self, queue: usize) -> usize {
        self.queues[queue].held_bytes
    }

    /// Takes a block.
    pub(crate) fn accept(&mut self, block: Block) {
        let Block { queue, numbers, records } = block;
        self.held_bytes += records.memory_bytes();
        self.queues[queue].held_bytes += records.memory_bytes();
        self.extend(queue, |sequencer, waiting| sequencer.accept(queue, numbers, records, waiting));
    }

    fn extend(&mut self, queue: usize, add: impl FnOnce(&mut Sequencer<Records>, &mut NonEmptyRecords<'_>)) {
        let to = &mut self.queues[queue];
        let before = to.waiting.len();
        add(&mut self.sequencer, &mut NonEmptyRecords(&mut to.waiting));
        for records in to.waiting.range(before..) {
            to.certain_ns = to.certain_ns.max(records.span.newest_ns);
        }
        to.keep_promise(self.sequencer.next(queue));
        if let (0, Some(first)) = (before, to.waiting.front()) {
            self.heads.push(Reverse((first.span.first_ns, queue)));
        }
    }

    /// Asks for the horizon of each queue that holds the others up, unless its last promise does not hold
    /// yet.
    pub(crate) fn ask(&mut self, mut horizon: impl FnMut(usize) -> Option<Horizon>) {
        let Some(&Reverse((first_ns, _))) = self.heads.peek() else { return };
        for (queue, asked) in self.queues.iter_mut().enumerate() {
            if asked.waiting.is_empty() && asked.certain_ns < first_ns && asked.horizon.is_none() {
                asked.horizon = horizon(queue);
                asked.keep_promise(self.sequencer.next(queue));
            }
        }
    }

    /// Whether no packet from before this time can come any more: nothing is held, and each queue has passed
    /// on or promised a later one. Asks those that have not.
    pub(crate) fn is_certain(
        &mut self,
        time_ns: u64,
        mut horizon: impl FnMut(usize) -> Option<Horizon>,
    ) -> bool {
        for (queue, asked) in self.queues.iter_mut().enumerate() {
            if asked.certain_ns < time_ns && asked.horizon.is_none() {
                asked.horizon = horizon(queue);
                asked.keep_promise(self.sequencer.next(queue));
            }
        }
        self.held_bytes == 0 && self.queues.iter().all(|queue| queue.certain_ns >= time_ns)
    }

    /// Follows the system clock, from which packets have their times and which shows `now_ns`. If it was set
    /// back, packets from before are passed on at once, and promises by the old time are forgotten. Otherwise
    /// the queues would hold each other up until the clock has caught up.
    pub(crate) fn follow_clock(&mut self, now_ns: u64, out: &mut VecDeque<Records>, buffers: &mut Buffers) {
        let latest_ns = now_ns.saturating_add(SET_BACK_NS);
        self.queues.iter_mut().for_each(|queue| queue.forget_after(latest_ns));
        if !self.heads.iter().any(|Reverse((first_ns, _))| *first_ns > latest_ns) {
            return;
        }
        for queue in 0..self.queues.len() {
            while self.queues[queue].head_ns().is_some_and(|head_ns| head_ns > latest_ns) {
                self.take_run(queue, |records, start| records.run_after(start, latest_ns), out, buffers);
            }
        }
        let heads = self.queues.iter().enumerate();
        self.heads = heads.filter_map(|(queue, held)| Some(Reverse((held.head_ns()?, queue)))).collect();
        self.close(out, buffers);
    }

    /// Passes on packets that are certainly next.
    pub(crate) fn merge(&mut self, out: &mut VecDeque<Records>, buffers: &mut Buffers) {
        self.pass_on(None, out, buffers);
        self.queues.iter_mut().for_each(|queue| queue.has_paused = false);
    }

    /// Passes on the next packets, certain or not, until at most `max_bytes` are held.
    pub(crate) fn force(&mut self, max_bytes: usize, out: &mut VecDeque<Records>, buffers: &mut Buffers) {
        self.pass_on(Some(max_bytes), out, buffers);
        if self.held_bytes > max_bytes {
            for queue in 0..self.queues.len() {
                self.extend(queue, |sequencer, waiting| sequencer.drain(queue, waiting));
            }
            self.pass_on(Some(max_bytes), out, buffers);
        }
    }

    fn pass_on(&mut self, force: Option<usize>, out: &mut VecDeque<Records>, buffers: &mut Buffers) {
        let silent = self.queues.iter().filter(|queue| queue.is_awaited());
        let mut certain_ns = match force {
            None => silent.map(|queue| queue.certain_ns).min().unwrap_or(u64::MAX),
            Some(_) => u64::MAX,
        };
        while let Some(&Reverse((first_ns, queue))) = self.heads.peek() {
            if first_ns > certain_ns || force.is_some_and(|max_bytes| self.held_bytes <= max_bytes) {
                break;
            }
            self.heads.pop();
            // Up to the first packet of the next queue, which is first at the same time if it is the lower
            // queue.
            let limit_ns = match self.heads.peek() {
                Some(&Reverse((next_ns, next))) => certain_ns.min(next_ns - u64::from(next < queue)),
                None => certain_ns,
            };
            self.take(queue, limit_ns, out, buffers);
            match self.queues[queue].head_ns() {
                Some(head_ns) => self.heads.push(Reverse((head_ns, queue))),
                None if force.is_none() && self.queues[queue].is_awaited() => {
                    certain_ns = certain_ns.min(self.queues[queue].certain_ns);
                }
                None => {}
            }
        }
        self.close(out, buffers);
    }

    /// Passes on the packets of a queue up to a time.
    fn take(&mut self, queue: usize, limit_ns: u64, out: &mut VecDeque<Records>, buffers: &mut Buffers) {
        let until = |records: &Records, start| match records.span.newest_ns <= limit_ns {
            true => records.end(),
            false => records.run_until(start, limit_ns),
        };
        while self.take_run(queue, until, out, buffers) {}
    }

    /// Passes on the run of a queue that begins with its first packet, and whose end `end_of` finds. Returns
    /// whether there is such a packet, and the run reaches the end of its block.
    fn take_run(
        &mut self,
        queue: usize,
        end_of: impl FnOnce(&Records, Position) -> Position,
        out: &mut VecDeque<Records>,
        buffers: &mut Buffers,
    ) -> bool {
        let Some(first) = self.queues[queue].waiting.front() else { return false };
        let start = self.queues[queue].taken;
        let end = end_of(first, start);
        let is_rest = end.entries == first.entries.len();
        if !is_rest || start.entries > 0 {
            self.merged.append_run(first, start..end);
            self.queues[queue].taken = end;
        }
        if self.merged.len() >= MERGED_BYTES {
            self.close(out, buffers);
        }
        if is_rest {
            self.give_block(queue, out, buffers);
        }
        is_rest
    }

    /// Removes the first block of a queue: to the output as it is, or, if it was copied, back to its worker.
    fn give_block(&mut self, queue: usize, out: &mut VecDeque<Records>, buffers: &mut Buffers) {
        let from = &mut self.queues[queue];
        let Some(first) = from.waiting.pop_front() else { return };
        self.held_bytes -= first.memory_bytes();
        from.held_bytes -= first.memory_bytes();
        if std::mem::take(&mut from.taken).entries > 0 {
            buffers.give_back(first);
        } else if !self.merged.is_empty() && first.len() <= SMALL_BYTES {
            self.merged.append(&first);
            buffers.give_back(first);
        } else {
            self.close(out, buffers);
            out.push_back(first);
        }
    }

    /// Passes on the runs that were copied together.
    fn close(&mut self, out: &mut VecDeque<Records>, buffers: &mut Buffers) {
        if !self.merged.is_empty() {
            out.push_back(std::mem::replace(&mut self.merged, buffers.take()));
        }
    }
}

#[cfg(test)]
mod tests;
