//! A stream's entry, as its receiver reads and writes it.
//!
//! Rule: what the program stores in front of its position is read behind a load of that position, which has
//! acquire order.

use std::{
    hint,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering, fence},
    },
};

use super::{
    PackedMemory,
    memory::{
        ADD_AFTER_AT, ADD_AT, BYTES_AT, CUT_AT, END_BYTES, GIVEN_AT, LEAP_AT, NOT_BEFORE_AT, ORDER_AT,
        ORDER_BYTES, PACKETS_AT, POSITION_AT, PUBLISHED_AT, RAISED_AT, RAISED_NS_AT, RETIRE_AT, SEEN_AT,
        WARM_IN_END, WRITER_AT,
    },
};
use crate::clock::StampShift;

/// Where packets and bytes so far are in an entry of `ends`.
const PACKETS_IN_END: u32 = 4;
const BYTES_IN_END: u32 = 8;

/// How often a publication is read that the program makes at the moment.
const ATTEMPTS_TO_READ: u32 = 100;

/// Which of the free blocks the program takes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Warmth {
    /// Used recently, so it may still be in a cache: the program takes these first.
    Warm,
    /// For bursts. If the reader is far away, all blocks are cold.
    Cold,
}

/// The entry of one stream.
#[derive(Debug)]
pub(super) struct StreamEntry {
    memory: Arc<PackedMemory>,
    stream: u32,
}

/// What the program has published: where it is, and what it has counted up to there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Published {
    pub(super) position: u64,
    pub(super) counted: Counted,
}

/// The lower halves of the numbers of packets and bytes so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    pub(super) packets: u32,
    pub(super) bytes: u32,
}

impl StreamEntry {
    pub(super) fn new(memory: &Arc<PackedMemory>, stream: u32) -> Self {
        Self { memory: Arc::clone(memory), stream }
    }

    /// A double word that the program stores, or that it loads.
    fn load(&self, at: i16, order: Ordering) -> u64 {
        self.memory.long(self.stream, at).load(order)
    }

    /// A word of a table with a word for each number.
    fn in_table(&self, table_at: u32, number: u32) -> &AtomicU32 {
        self.memory.word(self.stream, table_at + ORDER_BYTES * self.memory.layout.entry(number))
    }

    /// Sets the number of the first block, and the count of warm blocks taken to the same. Before the program
    /// is attached.
    pub(super) fn begin_at(&self, number: u32) {
        self.memory.position(self.stream).store(u64::from(number) << 32, Ordering::Relaxed);
        self.note(number, WARM_IN_END).store(number, Ordering::Relaxed);
        // The value of 0 that is there would end the block whose number is u32::MAX.
        self.retire(number.wrapping_sub(1));
        self.set_given(number, number);
    }

    /// Sets the index of the first block. The program chooses the others.
    pub(super) fn set_first(&self, index: u32) {
        self.in_table(ORDER_AT, self.memory.first_number).store(index, Ordering::Relaxed);
    }

    /// The index of the block of this number, which the program has come to.
    pub(super) fn block_of(&self, number: u32) -> u32 {
        self.in_table(ORDER_AT, number).load(Ordering::Relaxed)
    }

    /// Sets the index of the block with this number among all warm ones, or all cold ones.
    pub(super) fn set_next(&self, warmth: Warmth, number: u32, index: u32) {
        let table_at = match warmth {
            Warmth::Warm => self.memory.layout.warm_at(),
            Warmth::Cold => self.memory.layout.cold_at(),
        };
        self.in_table(table_at, number).store(index, Ordering::Relaxed);
    }

    /// Publishes how many blocks have been given to the program since the start, and how many of them warm.
    pub(super) fn set_given(&self, given: u32, warm: u32) {
        // Pairs with the program's load, behind which it reads the tables and writes into the block: all our
        // reads of the block come before.
        let both = u64::from(warm) << 32 | u64::from(given);
        self.memory.long(self.stream, GIVEN_AT).store(both, Ordering::Release);
    }

    /// How many warm blocks the program has taken since the start, up to and including the block of this
    /// number, which it has reached.
    pub(super) fn warm_taken(&self, number: u32) -> u32 {
        self.noted(number, WARM_IN_END)
    }

    /// The program stores nothing more into the block of this number, once all of its runs that have begun
    /// are over.
    pub(super) fn retire(&self, number: u32) {
        let behind = number.wrapping_add(1);
        self.memory.word(self.stream, RETIRE_AT as u32).store(behind, Ordering::Relaxed);
    }

    /// Whether the block of this number was [retired](Self::retire) last.
    pub(super) fn is_retired(&self, number: u32) -> bool {
        let behind = self.memory.word(self.stream, RETIRE_AT as u32).load(Ordering::Relaxed);
        behind == number.wrapping_add(1)
    }

    /// Whether a run of the program packs at the moment that may not know of the last
    /// [`retire`](Self::retire). False: all runs of before have published what they wrote, and all
    /// later ones know of it.
    pub(super) fn is_locked(&self) -> bool {
        // The program takes the lock by an atomic exchange, which is a full barrier, and looks at `retire`
        // afterwards: either its lock is seen here, or it sees what was stored before. Not by
        // `cpu::wait_for_kernel`, which is longer, and impossible with `nohz_full`.
        fence(Ordering::SeqCst);
        // Pairs with the program's release of the lock, which comes after its publication.
        self.memory.word(self.stream, WRITER_AT as u32).load(Ordering::Acquire) != 0
    }

    /// Where the program is, as it says so.
    pub(super) fn position(&self) -> u64 {
        // Pairs with the program's publication: all bytes in front of it are there.
        self.load(POSITION_AT, Ordering::Acquire)
    }

    /// Loads a word of the position's page, from a line that the program does not write for each packet.
    pub(super) fn touch(&self) {
        hint::black_box(self.in_table(ORDER_AT, 0).load(Ordering::Relaxed));
    }

    /// Where the program is, and what it has counted up to there. `None` if the program publishes all the
    /// time that this takes: its CPU may stand still in between, so look again later.
    pub(super) fn published(&self) -> Option<Published> {
        (0..ATTEMPTS_TO_READ).find_map(|_| {
            // Pairs with the program's stores, of which this is the last one: what is loaded below is of this
            // packet or of a later one.
            let packets = self.load(PUBLISHED_AT, Ordering::Acquire);
            let (position, bytes) = (self.position(), self.load(BYTES_AT, Ordering::Acquire));
            let counted = Counted { packets: packets as u32, bytes: bytes as u32 };
            // Stored first: nothing of a later packet was loaded.
            let is_whole = self.load(PACKETS_AT, Ordering::Acquire) == packets;
            if !is_whole {
                hint::spin_loop();
            }
            is_whole.then_some(Published { position, counted })
        })
    }

    /// A word of a block's entry of `ends`. The program writes `WARM` when it chooses the block, the others
    /// when it leaves it.
    fn note(&self, number: u32, at: u32) -> &AtomicU32 {
        let at = self.memory.layout.ends_at() + END_BYTES * self.memory.layout.entry(number) + at;
        self.memory.word(self.stream, at)
    }

    fn noted(&self, number: u32, at: u32) -> u32 {
        self.note(number, at).load(Ordering::Relaxed)
    }

    /// Where a block that the program has left ends.
    pub(super) fn end_of(&self, number: u32) -> u32 {
        self.noted(number, 0).min(self.memory.layout.geometry.chunk_bytes())
    }

    /// What the program had counted when it left a block.
    pub(super) fn counted_at_end_of(&self, number: u32) -> Counted {
        Counted { packets: self.noted(number, PACKETS_IN_END), bytes: self.noted(number, BYTES_IN_END) }
    }

    /// How stamps are brought to UTC from now on. A packet that is packed during the call may be by some of
    /// the old and some of the new words.
    pub(super) fn set_shift(&self, shift: StampShift) {
        let StampShift { add_ns, leap_at, add_after_ns, not_before_ns } = shift;
        let words = [
            (ADD_AT, add_ns as u64),
            (ADD_AFTER_AT, add_after_ns as u64),
            (NOT_BEFORE_AT, not_before_ns),
            (LEAP_AT, leap_at),
        ];
        for (at, word) in words {
            // The program loads LEAP first: with a new one, all words are new. For the first packet, all are
            // ordered by the store of `given`.
            self.memory.long(self.stream, at).store(word, Ordering::Release);
        }
    }

    /// By how much the times of packets that came after the first `packets` were raised, at most. Where none
    /// was, the program's maximum begins anew; what it was is in `before_ns`, since a run of the program may
    /// have compared with it at that moment.
    pub(super) fn raised_ns(&self, packets: u64, before_ns: &mut u64) -> u64 {
        let most_ns = self.memory.long(self.stream, RAISED_NS_AT);
        if self.load(RAISED_AT, Ordering::Relaxed) > packets {
            return most_ns.load(Ordering::Relaxed).max(*before_ns);
        }
        if *before_ns != 0 || most_ns.load(Ordering::Relaxed) != 0 {
            *before_ns = most_ns.swap(0, Ordering::Relaxed);
        }
        0
    }

    /// Packets that the program has counted as seen.
    pub(super) fn seen(&self) -> u64 {
        self.load(SEEN_AT, Ordering::Relaxed)
    }

    /// Packets that the program has cut.
    pub(super) fn cut(&self) -> u64 {
        self.load(CUT_AT, Ordering::Relaxed)
    }
}
