//! Looks at a ring in memory: times and their bounds hold, whatever the thread and the clock do.

use std::{sync::Arc, thread, time::Duration};

use wirecap_core::{Geometry, PoolId};
use wirecap_sys::memory::{LivePool, PacketMemory};

use super::*;
use crate::port::{
    intake::Intake,
    null::{NullPort, NullQueue},
};

const HOUR_NS: u64 = 3_600_000_000_000;

/// A queue in memory whose cells are filled as they are attached: 2 chunks of 8.
fn queue() -> (NullQueue, LivePool) {
    let geometry = Geometry::new(8, 2, 2048).unwrap();
    let port = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: u64::MAX };
    let memory = Arc::new(PacketMemory::allocate(geometry.pool_bytes(), 2048).unwrap());
    let mut pool = memory.carve(PoolId { nic_id: 0, ring_id: 0 }, geometry).unwrap();
    (NullQueue::new(&port, &mut pool), pool)
}

/// Receives up to `max` of the packets that a look has found; returns their times.
fn receive(
    watch: &mut ArrivalWatch,
    source: &mut NullQueue,
    pool: &mut LivePool,
    batch: BatchTime,
    max: u32,
) -> Vec<u64> {
    let mut intake = Intake::new(pool.filler().unwrap(), batch, None);
    source.receive(max.min(batch.max), &mut intake);
    watch.received(intake.finish());
    let (slots, handover) = (pool.slots(), pool.hand_over().unwrap());
    slots.range(&handover.range).unwrap().map(|cell| cell.timestamp_ns).collect()
}

#[test]
fn waiting_packets_have_the_time_at_which_they_were_first_seen() {
    for mut clock in [BatchClock::new(), BatchClock::system()] {
        let (mut source, mut pool) = queue();
        let mut watch = ArrivalWatch::new(clock.made());
        assert!(watch.look(&source, &mut clock, 8).is_none(), "the ring is empty");
        thread::sleep(Duration::from_millis(20));
        source.attach(Some(&mut pool));
        let seen = watch.look(&source, &mut clock, 8).unwrap();
        assert!(
            // Sleep is measured by another clock than looks are.
            seen.uncertainty_ns >= 19_000_000,
            "the packets may have come at any time since the look before: {seen:?}"
        );
        thread::sleep(Duration::from_millis(50));
        let taken = watch.look(&source, &mut clock, 8).unwrap();
        assert_eq!((taken.time_ns, taken.uncertainty_ns), (seen.time_ns, seen.uncertainty_ns));
        assert!(taken.now_ns >= seen.now_ns + 49_000_000, "{taken:?}");
        let times = receive(&mut watch, &mut source, &mut pool, taken, 8);
        assert_eq!(times, (seen.time_ns..seen.time_ns + 8).collect::<Vec<_>>());
        // The others wait in the next chunk. The promise for them is no later than the look that saw them.
        assert_eq!(watch.promise(taken.now_ns), seen.time_ns + 8);
        assert_eq!(watch.uncertainty.count(), 8);
        assert_eq!(watch.uncertainty.longest(), seen.uncertainty_ns + 8);
        assert_eq!(watch.set_back_ns, 0);
    }
}

/// Once, times crept on by 1 ns per packet until the clock had caught up.
#[test]
fn times_follow_a_clock_that_is_set_back_and_the_step_is_counted() {
    let mut clock = BatchClock::system();
    for (ahead_ns, is_set_back) in [(HOUR_NS, true), (5_000_000, false)] {
        let (mut source, mut pool) = queue();
        source.attach(Some(&mut pool));
        let mut watch = ArrivalWatch::new(clock.made());
        // So far the clock was ahead of its present time, and a packet came.
        let last_ns = clock.now_ns() + ahead_ns;
        watch.follow(last_ns - 3);
        watch.received(BatchEnd { last_ns, untimed: 1, uncertainty_ns: 7 });
        let batch = watch.look(&source, &mut clock, 8).unwrap();
        let times = receive(&mut watch, &mut source, &mut pool, batch, 8);
        if is_set_back {
            assert!(watch.set_back_ns.abs_diff(HOUR_NS) < 1_000_000_000, "{}", watch.set_back_ns);
            assert!(times[0] <= clock.now_ns(), "packets get the new time");
        } else {
            assert_eq!((times[0], watch.set_back_ns), (last_ns + 1, 0), "a small step back is not followed");
            assert!(
                watch.uncertainty.longest() >= times[7] - batch.time_ns,
                "the uncertainty covers the step"
            );
        }
        assert!(times.is_sorted());
    }
}

/// A time from before the step is not taken for a current one.
#[test]
fn packets_seen_before_the_clock_was_set_back_have_the_time_at_which_they_are_taken() {
    let clock = BatchClock::system();
    let mut late = clock.clone();
    let (since, seen) = (late.made(), late.moment());
    thread::sleep(Duration::from_millis(2));
    let now = late.moment();
    assert_eq!(timed(Window { since, seen }, now, &clock).0.utc_ns(), seen.utc_ns());
    // Later moments stand for those of a clock that is set back.
    let (time, uncertainty_ns) = timed(Window { since, seen: now }, seen, &clock);
    assert_eq!(time.utc_ns(), seen.utc_ns());
    assert!(uncertainty_ns >= seen.utc_ns() - since.utc_ns());
}
