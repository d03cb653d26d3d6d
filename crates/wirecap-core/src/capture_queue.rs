//! The capture queue: hand-overs on their way from one capture thread to one worker.
//!
//! ```text
//!              tail (producer writes)          head (consumer writes)
//!                │                               │
//!   ┌───┬───┬───┬▼──┬───┬───┬───┬───┬───┬───┬───┬▼──┬───┐
//!   │ W │ W │ W │   │   │   │   │   │   │   │   │ W │ W │   W = the words of a hand-over
//!   └───┴───┴───┴───┴───┴───┴───┴───┴───┴───┴───┴───┴───┘
//!            filled: [head, tail), modulo the capacity
//! ```
//!
//! Single producer, single consumer, lock-free, no allocation after the start. The words are atomics,
//! so there is nothing unsafe about it; ordering comes from `tail` (release by the producer, acquire
//! by the consumer: the entries and the slots of the cells are visible) and `head` (release by the
//! consumer, acquire by the producer: an entry is not overwritten before it was read).
//!
//! Rule: a hand-over with a lead takes two entries that become visible together. Each hand-over has a *turn*:
//! how many the capture thread had pushed before it, into the queues of all workers together. Turns of a
//! queue increase.

use crate::{
    chunk::Handover,
    sync::{Arc, AtomicU64, CacheLine, Ordering},
};

/// Words of an entry. The last is the turn, also of a lead.
const WORDS: usize = 5;
const TURN: usize = WORDS - 1;

#[derive(Debug)]
struct Entry {
    /// Range, first number, volume, uncertainty, turn. Producer writes, relaxed: published by `tail`.
    words: [AtomicU64; WORDS],
}

#[derive(Debug)]
struct QueueState {
    entries: Box<[Entry]>,
    /// Producer writes (release), consumer reads (acquire). Counts entries, never wraps in practice.
    tail: CacheLine<AtomicU64>,
    /// Consumer writes (release), producer reads (acquire).
    head: CacheLine<AtomicU64>,
    /// Producer writes: cells ever pushed.
    pushed_cells: CacheLine<AtomicU64>,
    /// Consumer writes: cells ever popped.
    popped_cells: CacheLine<AtomicU64>,
}

impl QueueState {
    fn backlog_cells(&self) -> u64 {
        // Popped first: a pop in between can then only make the result too large, never negative.
        let popped = self.popped_cells.0.load(Ordering::Acquire);
        self.pushed_cells.0.load(Ordering::Acquire).saturating_sub(popped)
    }
}

/// The capture thread's end.
#[derive(Debug)]
pub struct CaptureProducer {
    shared: Arc<QueueState>,
    tail: u64,
    cached_head: u64,
    pushed_cells: u64,
}

/// The worker's end.
#[derive(Debug)]
pub struct CaptureConsumer {
    shared: Arc<QueueState>,
    head: u64,
    cached_tail: u64,
    popped_cells: u64,
}

/// A capture queue with room for at least `capacity` hand-overs.
///
/// ```
/// let (producer, consumer) = wirecap_core::capture_queue(500);
/// assert!(producer.is_empty());
/// # drop(consumer);
/// ```
pub fn capture_queue(capacity: usize) -> (CaptureProducer, CaptureConsumer) {
    let entries = (0..capacity.max(2).next_power_of_two())
        .map(|_| Entry { words: [0; WORDS].map(AtomicU64::new) })
        .collect();
    let shared = Arc::new(QueueState {
        entries,
        tail: CacheLine(AtomicU64::new(0)),
        head: CacheLine(AtomicU64::new(0)),
        pushed_cells: CacheLine(AtomicU64::new(0)),
        popped_cells: CacheLine(AtomicU64::new(0)),
    });
    let producer = CaptureProducer { shared: Arc::clone(&shared), tail: 0, cached_head: 0, pushed_cells: 0 };
    (producer, CaptureConsumer { shared, head: 0, cached_tail: 0, popped_cells: 0 })
}

impl CaptureProducer {
    /// Puts a hand-over at the end of the queue. `turn` is greater than that of the hand-over before.
    ///
    /// # Errors
    /// Gives the hand-over back when there is no room.
    pub fn push(&mut self, turn: u64, handover: Handover) -> Result<(), Handover> {
        let needed = 1 + u64::from(handover.lead.is_some());
        let capacity = self.shared.entries.len() as u64;
        if self.tail + needed - self.cached_head > capacity {
            // Pairs with the release store in `CaptureConsumer::pop`.
            self.cached_head = self.shared.head.0.load(Ordering::Acquire);
            if self.tail + needed - self.cached_head > capacity {
                return Err(handover);
            }
        }
        let cells = handover.cells();
        let (lead, words) = handover.into_words();
        if let Some(lead) = lead {
            self.write([lead, 0, 0, 0, turn]);
        }
        let [range, first_number, volume, uncertainty] = words;
        self.write([range, first_number, volume, uncertainty, turn]);
        self.pushed_cells += u64::from(cells);
        self.shared.pushed_cells.0.store(self.pushed_cells, Ordering::Release);
        // Pairs with the acquire load in `CaptureConsumer::pop`.
        self.shared.tail.0.store(self.tail, Ordering::Release);
        Ok(())
    }

    fn write(&mut self, words: [u64; WORDS]) {
        let entry = &self.shared.entries[self.tail as usize & (self.shared.entries.len() - 1)];
        for (place, word) in entry.words.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        self.tail += 1;
    }

    /// Whether the worker has taken everything.
    pub fn is_empty(&self) -> bool {
        self.shared.head.0.load(Ordering::Acquire) == self.tail
    }

    /// Whether there may be no room for the next hand-over, which takes two entries at most.
    pub fn is_full(&self) -> bool {
        let head = self.shared.head.0.load(Ordering::Acquire);
        self.tail + 2 - head > self.shared.entries.len() as u64
    }

    /// A view of the backlog for others to look at.
    pub fn gauge(&self) -> BacklogGauge {
        BacklogGauge(Arc::clone(&self.shared))
    }
}

/// Reports to any thread how much waits in a capture queue.
#[derive(Debug, Clone)]
pub struct BacklogGauge(Arc<QueueState>);

impl BacklogGauge {
    /// Cells waiting in the queue.
    pub fn cells(&self) -> u64 {
        self.0.backlog_cells()
    }
}

impl CaptureConsumer {
    /// Takes the oldest hand-over.
    pub fn pop(&mut self) -> Option<Handover> {
        if self.has_none() {
            return None;
        }
        let mut words = self.read();
        let lead = Handover::continues(words[0]).then(|| {
            let lead = words[0];
            words = self.read();
            lead
        });
        let [range, first_number, volume, uncertainty, _turn] = words;
        let handover = Handover::from_words(lead, [range, first_number, volume, uncertainty]);
        // Pairs with the acquire load in `CaptureProducer::push`.
        self.shared.head.0.store(self.head, Ordering::Release);
        self.popped_cells += u64::from(handover.cells());
        self.shared.popped_cells.0.store(self.popped_cells, Ordering::Release);
        Some(handover)
    }

    /// The turn of the oldest hand-over, which stays; `None` if there is none.
    pub fn next_turn(&mut self) -> Option<u64> {
        if self.has_none() {
            return None;
        }
        Some(self.oldest().words[TURN].load(Ordering::Relaxed))
    }

    fn has_none(&mut self) -> bool {
        if self.head == self.cached_tail {
            // Pairs with the release store in `CaptureProducer::push`.
            self.cached_tail = self.shared.tail.0.load(Ordering::Acquire);
        }
        self.head == self.cached_tail
    }

    fn oldest(&self) -> &Entry {
        &self.shared.entries[self.head as usize & (self.shared.entries.len() - 1)]
    }

    fn read(&mut self) -> [u64; WORDS] {
        let words = self.oldest().words.each_ref().map(|word| word.load(Ordering::Relaxed));
        self.head += 1;
        words
    }

    /// Cells waiting in this queue.
    pub fn backlog_cells(&self) -> u64 {
        self.shared.backlog_cells()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::chunk::{ChunkRange, PoolNumber};

    /// The queue is filled again in each. Fewer under miri.
    const ROUNDS: u32 = if cfg!(miri) { 20 } else { 100 };

    fn handover(index: u32, lead: bool) -> Handover {
        let range = |first, count| ChunkRange::new(PoolNumber::of_test(3), first, count);
        Handover {
            lead: lead.then(|| range(index + 100_000, 4)),
            range: range(index, 2),
            first_number: u64::from(index) * 10,
            packets: 2,
            bytes: 120,
            uncertainty_ns: u64::from(index) << 33,
        }
    }

    #[test]
    fn hand_overs_come_out_in_order_and_a_full_queue_gives_the_token_back() {
        for capacity in 1..10 {
            let (mut producer, mut consumer) = capture_queue(capacity);
            let (mut next_in, mut next_out) = (0, 0);
            for round in 0..ROUNDS {
                while producer.push(next_in.into(), handover(next_in, (next_in + round) % 3 == 0)).is_ok() {
                    next_in += 1;
                }
                assert!(next_in - next_out >= capacity as u32 / 2);
                for _ in 0..=round % 4 {
                    let turn = consumer.next_turn();
                    let Some(got) = consumer.pop() else { break };
                    assert_eq!(turn, Some(next_out.into()));
                    assert_eq!(got.range, handover(next_out, false).range);
                    assert_eq!(
                        (got.first_number, got.packets, got.bytes, got.uncertainty_ns),
                        (u64::from(next_out) * 10, 2, 120, u64::from(next_out) << 33)
                    );
                    next_out += 1;
                }
            }
            let waiting: u64 = std::iter::from_fn(|| consumer.pop()).map(|got| u64::from(got.cells())).sum();
            assert_eq!(next_out == next_in, waiting == 0);
            assert!(producer.is_empty());
            assert_eq!(producer.gauge().cells(), 0);
        }
    }

    #[test]
    fn a_queue_that_is_not_full_has_room_for_any_hand_over() {
        for (lead, room) in [(false, 8), (true, 4)] {
            let (mut producer, mut consumer) = capture_queue(8);
            let mut given = 0;
            while !producer.is_full() {
                producer.push(given, handover(0, lead)).unwrap();
                given += 1;
            }
            assert!(given + 1 >= room && given <= room, "{given} of {room}");
            assert!(consumer.pop().is_some() && consumer.pop().is_some() && !producer.is_full());
        }
    }

    #[test]
    fn the_backlog_counts_cells_of_lead_and_range() {
        let (mut producer, mut consumer) = capture_queue(8);
        producer.push(0, handover(1, true)).unwrap();
        producer.push(1, handover(2, false)).unwrap();
        assert!(!producer.is_empty());
        assert_eq!((consumer.backlog_cells(), producer.gauge().cells()), (8, 8));
        let first = consumer.pop().unwrap();
        assert_eq!((first.lead.unwrap().count(), consumer.backlog_cells()), (4, 2));
    }
}
