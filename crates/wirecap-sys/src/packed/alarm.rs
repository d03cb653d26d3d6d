//! Waking a thread that waits for packets of a stream.
//!
//! ```text
//!   arm: events so far are taken, `armed` = 1, is there something? ─► poll(2) of the ring
//!   program: packet published, `armed`? ─► `armed` = 0, an event ─► the ring is readable
//! ```
//!
//! Rule: the program sends an event only when a thread waits, so that packets cost none while threads are
//! awake. The program may read `armed` before its own store of the position is seen here:
//! then the event is missed, and the packet is found when the wait ends. So waits are bounded, and the first
//! of a silence is short.

use std::{
    os::fd::AsFd,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering, fence},
    },
};

use super::{
    PackedError, PackedMemory,
    memory::{ARMED_AT, map_failed},
};
use crate::{
    mmap::{Mmap, page_bytes},
    wake::{Alarm, Waker},
};

/// The ring of events of one stream.
#[derive(Debug)]
pub(super) struct StreamAlarm {
    memory: Arc<PackedMemory>,
    stream: u32,
    /// INVARIANT: begins with the position of the consumer, which is written here only.
    consumer: Mmap,
    /// INVARIANT: begins with the position of the producer, which the kernel writes.
    producer: Mmap,
    /// The position of the program up to which everything was received.
    pub(super) received: AtomicU64,
}

impl StreamAlarm {
    pub(super) fn new(memory: &Arc<PackedMemory>, stream: u32) -> Result<Self, PackedError> {
        let ring = memory.ring(stream).as_fd();
        let page = page_bytes();
        let consumer = Mmap::ring(ring, page, 0).map_err(map_failed(page as u64))?;
        let producer = Mmap::to_read(ring, page, page as libc::off_t).map_err(map_failed(page as u64))?;
        Ok(Self { memory: Arc::clone(memory), stream, consumer, producer, received: AtomicU64::new(0) })
    }

    /// What wakes a thread for packets of this stream.
    pub(super) fn waker(self: &Arc<Self>) -> Waker {
        let ring = Arc::clone(self.memory.ring(self.stream));
        Waker::with_alarm(ring, Arc::clone(self) as Arc<dyn Alarm>)
    }

    fn position_of(mapped: &Mmap) -> &AtomicU64 {
        // SAFETY: both pages begin with an aligned `unsigned long`, which is accessed atomically on our side.
        unsafe { mapped.start().cast().as_ref() }
    }
}

impl Alarm for StreamAlarm {
    fn arm(&self) -> bool {
        let has_received = || {
            self.memory.position(self.stream).load(Ordering::Relaxed) == self.received.load(Ordering::Relaxed)
        };
        // The event of a packet that waits stays, for another thread that it is on its way to.
        if !has_received() {
            return false;
        }
        let events = Self::position_of(&self.producer).load(Ordering::Acquire);
        Self::position_of(&self.consumer).store(events, Ordering::Release);
        self.memory.word(self.stream, ARMED_AT as u32).store(1, Ordering::Relaxed);
        // On this side: if the packet is not seen below, `armed` is already visible to the program.
        fence(Ordering::SeqCst);
        has_received()
    }
}
