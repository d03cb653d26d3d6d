//! Rings over our own memory: what one side produces, the other consumes, from any starting index. The tests
//! run under miri.

use super::*;

/// The memory of a ring, laid out like the kernel's but in separate allocations.
struct Memory {
    producer: Box<AtomicU32>,
    consumer: Box<AtomicU32>,
    flags: Box<AtomicU32>,
    entries: NonNull<u64>,
    size: RingSize,
}

impl Memory {
    fn new(entries: u32, start: u32) -> Self {
        let memory: &mut [u64] = Box::leak(vec![0u64; entries as usize].into_boxed_slice());
        Self {
            producer: Box::new(AtomicU32::new(start)),
            consumer: Box::new(AtomicU32::new(start)),
            flags: Box::new(AtomicU32::new(0)),
            entries: NonNull::new(memory.as_mut_ptr()).unwrap(),
            size: RingSize::new(entries).unwrap(),
        }
    }

    fn map(&self) -> RingMap<u64> {
        RingMap {
            _mapped: None,
            producer: NonNull::from(&*self.producer),
            consumer: NonNull::from(&*self.consumer),
            flags: NonNull::from(&*self.flags),
            entries: self.entries,
            size: self.size,
            _entries: PhantomData,
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let slice = std::ptr::slice_from_raw_parts_mut(self.entries.as_ptr(), self.size.entries() as usize);
        // SAFETY: `Box::leak` made it of a slice of this length, and the tests have dropped every ring.
        drop(unsafe { Box::from_raw(slice) });
    }
}

#[test]
fn entries_are_consumed_as_produced_across_the_wrap_around() {
    for start in [0, 5, u32::MAX - 3, u32::MAX] {
        let memory = Memory::new(4, start);
        let mut producer = ProducerRing::over(memory.map());
        let mut consumer = ConsumerRing::over(memory.map());
        let (mut next_in, mut next_out) = (0u64, 0u64);
        for round in 0..40u32 {
            for _ in 0..round % 6 {
                next_in += u64::from(producer.stage(next_in));
            }
            producer.publish();
            assert_eq!(u64::from(4 - producer.room()), next_in - next_out);
            assert_eq!(u64::from(consumer.filled()), next_in - next_out);
            assert_eq!(consumer.waiting(), u64::from(start) + next_out..u64::from(start) + next_in);
            for value in consumer.drain(round % 4) {
                assert_eq!(value, next_out);
                next_out += 1;
            }
        }
        assert!(next_out > 40);
    }
}

#[test]
fn staged_entries_become_visible_when_they_are_published() {
    let memory = Memory::new(8, 0);
    let mut producer = ProducerRing::over(memory.map());
    let mut consumer = ConsumerRing::over(memory.map());
    assert!(producer.stage(1) && producer.stage(2));
    assert_eq!(consumer.filled(), 0);
    producer.publish();
    assert_eq!(consumer.filled(), 2);
    assert_eq!(consumer.drain(9).count(), 2);
    assert_eq!(producer.room(), 8);
}

#[test]
fn entries_left_in_a_drain_stay_in_the_ring() {
    let memory = Memory::new(4, u32::MAX - 1);
    let mut producer = ProducerRing::over(memory.map());
    let mut consumer = ConsumerRing::over(memory.map());
    (0..4).for_each(|value| assert!(producer.stage(value)));
    producer.publish();
    let mut drain = consumer.drain(3);
    assert_eq!((drain.len(), drain.next(), drain.next()), (3, Some(0), Some(1)));
    assert_eq!(producer.room(), 0, "nothing is given back before the drain ends");
    drop(drain);
    assert_eq!((producer.room(), consumer.filled()), (2, 2));
    assert_eq!(consumer.drain(9).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(producer.room(), 4);
}

#[test]
fn a_forgotten_drain_gives_no_entry_twice() {
    let memory = Memory::new(4, 0);
    let mut producer = ProducerRing::over(memory.map());
    let mut consumer = ConsumerRing::over(memory.map());
    (0..3).for_each(|value| assert!(producer.stage(value)));
    producer.publish();
    let mut drain = consumer.drain(2);
    assert_eq!(drain.next(), Some(0));
    std::mem::forget(drain);
    assert_eq!(consumer.waiting(), 2..3);
    assert_eq!(consumer.drain(9).collect::<Vec<_>>(), [2]);
    assert_eq!(producer.room(), 4);
}

#[test]
fn the_wake_up_flag_is_read_from_the_kernel_s_word() {
    let memory = Memory::new(8, 0);
    let producer = ProducerRing::over(memory.map());
    assert!(!producer.needs_wakeup());
    memory.flags.store(XDP_RING_NEED_WAKEUP, Ordering::Relaxed);
    assert!(producer.needs_wakeup());
}
