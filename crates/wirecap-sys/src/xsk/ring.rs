//! The rings shared with the kernel, seen from user space.
//!
//! ```text
//!   mapping:  │ producer index │ consumer index │ flags │ entries … │
//!                   │                 │
//!   ConsumerRing:   kernel writes     we write             (rx, completion)
//!   ProducerRing:   we write          kernel writes        (fill, tx)
//! ```
//!
//! The index of the other side is loaded with acquire, so that the entries it published are visible
//! (producer) or free (consumer); our own is stored with release, once per batch. The pairs in the
//! kernel are in `net/xdp/xsk_queue.h`: `smp_load_acquire`/`smp_store_release` on both indexes.

use std::{
    io,
    marker::PhantomData,
    ops::Range,
    os::fd::BorrowedFd,
    ptr::NonNull,
    sync::atomic::{AtomicU32, Ordering, fence},
};

use super::{abi::XDP_RING_NEED_WAKEUP, cursor::RingSize};
use crate::mmap::Mmap;

/// The parts of a ring's mapping.
#[derive(Debug)]
pub(super) struct RingMap<T> {
    /// Keeps the memory; `None` when a test owns it.
    _mapped: Option<Mmap>,
    /// INVARIANT: the next three point into the mapping, aligned for a u32 that is only accessed
    /// atomically.
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    /// INVARIANT: points to `size` entries in the mapping, aligned for T.
    entries: NonNull<T>,
    size: RingSize,
    _entries: PhantomData<T>,
}

// SAFETY: the mapping belongs to no thread, and the rings below need `&mut self` for every change.
unsafe impl<T: Send> Send for RingMap<T> {}
// SAFETY: through `&self` only the atomic indexes and flags are read.
unsafe impl<T: Send> Sync for RingMap<T> {}

impl<T> RingMap<T> {
    pub(super) fn new(
        fd: BorrowedFd<'_>,
        page_offset: libc::off_t,
        offsets: libc::xdp_ring_offset,
        size: RingSize,
    ) -> io::Result<Self> {
        let len = offsets.desc as usize + size.entries() as usize * size_of::<T>();
        let mapped = Mmap::ring(fd, len, page_offset)?;
        // SAFETY: the kernel reports offsets that lie within the mapping whose length was computed
        // from them, and lays the fields out aligned (`struct xdp_ring`).
        let at = |offset: u64| unsafe { mapped.start().add(offset as usize) };
        Ok(Self {
            producer: at(offsets.producer).cast(),
            consumer: at(offsets.consumer).cast(),
            flags: at(offsets.flags).cast(),
            entries: at(offsets.desc).cast(),
            _mapped: Some(mapped),
            size,
            _entries: PhantomData,
        })
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: valid and aligned by the invariant on the field.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: valid and aligned by the invariant on the field.
        unsafe { self.consumer.as_ref() }
    }

    fn needs_wakeup(&self) -> bool {
        // Our index must be visible before the flag is read. A driver sets the flag, then looks for entries a
        // last time (i40e_clean_xdp_tx_irq(), for instance). Without a full barrier on this side, the
        // processor may read the flag before the store of our index leaves its store buffer: then the driver
        // sees no entry, we see no flag, and the ring waits forever. It is the same argument as for
        // IORING_SQ_NEED_WAKEUP of io_uring(7).
        fence(Ordering::SeqCst);
        // SAFETY: valid and aligned by the invariant on the field.
        unsafe { self.flags.as_ref() }.load(Ordering::Relaxed) & XDP_RING_NEED_WAKEUP != 0
    }
}

/// A ring the kernel fills and we empty: rx or completion.
#[derive(Debug)]
pub struct ConsumerRing<T> {
    map: RingMap<T>,
    /// Our index; the kernel sees the same, except while a [`Drain`] is at work.
    consumer: u32,
    /// The kernel's index as last loaded.
    cached_producer: u32,
    /// Our index as it would be if it had 64 bits, when a [`Drain`] was last dropped.
    taken: u64,
}

impl<T: Copy> ConsumerRing<T> {
    pub(super) fn over(map: RingMap<T>) -> Self {
        let consumer = map.consumer().load(Ordering::Relaxed);
        Self { map, consumer, cached_producer: consumer, taken: consumer.into() }
    }

    /// Up to `max` entries, oldest first. Dropping the iterator gives the places of those that were
    /// taken from it back to the kernel, with one store.
    #[inline]
    pub fn drain(&mut self, max: u32) -> Drain<'_, T> {
        let mut filled = self.map.size.filled(self.cached_producer, self.consumer);
        if filled < max {
            // Pairs with the kernel's release store in xskq_prod_submit().
            self.cached_producer = self.map.producer().load(Ordering::Acquire);
            filled = self.map.size.filled(self.cached_producer, self.consumer);
        }
        let next = self.consumer;
        // As if all were taken: a drain that is forgotten must not give the same entries again.
        self.consumer = next.wrapping_add(filled.min(max));
        Drain { next, end: self.consumer, ring: self }
    }

    /// Entries that wait to be taken.
    pub fn filled(&self) -> u32 {
        self.map.size.filled(self.map.producer().load(Ordering::Acquire), self.consumer)
    }

    /// The entries that wait to be taken, by their numbers: entries are numbered through as they come.
    pub fn waiting(&self) -> Range<u64> {
        let first = self.number(self.consumer);
        first..first + u64::from(self.filled())
    }

    /// An index that is not behind `taken`, as if it had 64 bits.
    fn number(&self, index: u32) -> u64 {
        self.taken + u64::from(index.wrapping_sub(self.taken as u32))
    }

    /// Entries the ring has.
    pub fn entries(&self) -> u32 {
        self.map.size.entries()
    }
}

/// Entries on their way out of a ring that the kernel fills.
#[derive(Debug)]
pub struct Drain<'r, T: Copy> {
    ring: &'r mut ConsumerRing<T>,
    /// INVARIANT: the kernel has published the entries `next .. end`, modulo 2^32.
    next: u32,
    end: u32,
}

impl<T: Copy> Iterator for Drain<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        if self.next == self.end {
            return None;
        }
        let map = &self.ring.map;
        // SAFETY: the entry is below the ring's size; the kernel published it (acquire in `drain`) and
        // does not write it again before our release store in `drop`.
        let entry = unsafe { map.entries.add(map.size.entry(self.next)).read() };
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.end.wrapping_sub(self.next) as usize;
        (left, Some(left))
    }
}

impl<T: Copy> ExactSizeIterator for Drain<'_, T> {}

impl<T: Copy> Drop for Drain<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.ring.consumer = self.next;
        self.ring.taken = self.ring.number(self.next);
        // Pairs with the kernel's acquire load in xskq_prod_reserve(): we have read the entries.
        self.ring.map.consumer().store(self.next, Ordering::Release);
    }
}

/// A ring we fill and the kernel empties: fill or tx.
#[derive(Debug)]
pub struct ProducerRing<T> {
    map: RingMap<T>,
    /// Our index; what the kernel sees is behind it only while entries are staged.
    producer: u32,
    /// The kernel's index as last loaded.
    cached_consumer: u32,
}

impl<T: Copy> ProducerRing<T> {
    pub(super) fn over(map: RingMap<T>) -> Self {
        let producer = map.producer().load(Ordering::Relaxed);
        Self { map, producer, cached_consumer: producer }
    }

    /// Entries the ring has.
    pub fn entries(&self) -> u32 {
        self.map.size.entries()
    }

    /// How many entries can be produced now.
    pub fn room(&mut self) -> u32 {
        // Pairs with the kernel's release store in __xskq_cons_release().
        self.cached_consumer = self.map.consumer().load(Ordering::Acquire);
        self.map.size.room(self.producer, self.cached_consumer)
    }

    /// Whether this number of entries can be produced now. Loads the kernel's index only if the copy shows
    /// too little room.
    #[inline]
    pub fn has_room(&mut self, entries: u32) -> bool {
        self.map.size.room(self.producer, self.cached_consumer) >= entries || self.room() >= entries
    }

    /// Writes an entry that the kernel does not see before [`ProducerRing::publish`]. Returns false, and
    /// changes nothing, when there is no room.
    #[inline]
    pub fn stage(&mut self, value: T) -> bool {
        if !self.has_room(1) {
            return false;
        }
        let entry = self.map.size.entry(self.producer);
        // SAFETY: `entry` is below the ring's size, and there is room, so the kernel has consumed what was
        // there (acquire in `room`).
        unsafe { self.map.entries.add(entry).write(value) };
        self.producer = self.producer.wrapping_add(1);
        true
    }

    /// Makes everything that was staged visible to the kernel.
    pub fn publish(&mut self) {
        let published = self.map.producer();
        // With nothing staged, a store would only take the cache line from the kernel.
        if published.load(Ordering::Relaxed) != self.producer {
            // Pairs with the kernel's acquire load in __xskq_cons_peek(): the entries are written.
            published.store(self.producer, Ordering::Release);
        }
    }

    /// The kernel's index: it grows by one for each entry that the kernel has taken.
    pub fn taken(&self) -> u32 {
        self.map.consumer().load(Ordering::Acquire)
    }

    /// Whether the kernel has taken all entries.
    pub fn is_drained(&self) -> bool {
        self.map.consumer().load(Ordering::Acquire) == self.map.producer().load(Ordering::Relaxed)
    }

    /// Whether the kernel wants a system call before it goes on with this ring. Ask after publishing: it is a
    /// full barrier.
    pub fn needs_wakeup(&self) -> bool {
        self.map.needs_wakeup()
    }
}

#[cfg(test)]
mod tests;
