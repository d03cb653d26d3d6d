//! The ways of waiting: packets that come one at a time arrive, and waiting for them costs little. A test binary of its
//! own, since the CPU time of the whole process is measured. Needs root; without, each test says so and returns.

mod support;

use std::{
    thread,
    time::{Duration, Instant},
};

use support::{check, crew::Crew, need_root, wire::Wire};
use wirecap::{Capture, Dispatch, Wait};
use wirecap_sys::cpu::process_cpu_seconds;
use wirecap_traffic::FrameSpec;

/// A packet may take so long on a busy machine. Waiting itself takes a hundredth of it at most.
const BOUND: Duration = Duration::from_secs(2);
/// How long the CPU time of idle threads is measured.
const IDLE: Duration = Duration::from_millis(500);
const PACKETS: u64 = 20;

#[test]
fn single_packets_arrive_and_idling_is_cheap() {
    need_root!("waits::single_packets_arrive_and_idling_is_cheap");
    let wire = Wire::with_queues("waits", 2);
    for wait in [Wait::Busy, Wait::Sleep, Wait::Block] {
        for dispatch in [Dispatch::Pull, Dispatch::Push] {
            let mut capture = wire.capture(Capture::builder().wait(wait).dispatch(dispatch));
            let crew = Crew::eager(capture.take_workers());
            let mut senders = [0, 1].map(|queue| wire.queue_sender(queue, FrameSpec::default()));
            for packet in 0..PACKETS {
                let begun = Instant::now();
                senders[packet as usize % 2].send(1);
                crew.wait_for(packet + 1);
                assert!(begun.elapsed() < BOUND, "{wait:?} {dispatch:?}: {:?}", begun.elapsed());
            }

            let (begun, before) = (Instant::now(), process_cpu_seconds());
            thread::sleep(IDLE);
            let share = (process_cpu_seconds() - before) / begun.elapsed().as_secs_f64();
            if wait != Wait::Busy {
                assert!(share < 0.25, "{wait:?} {dispatch:?}: {:.0} % of a core while idle", share * 100.0);
            }

            let begun = Instant::now();
            capture.stopper().stop();
            let arrivals = crew.join();
            assert!(begun.elapsed() < BOUND, "{wait:?} {dispatch:?}: ended after {:?}", begun.elapsed());
            let report = capture.finish();
            assert_eq!(check::account_closed(&report).delivered, PACKETS, "{wait:?} {dispatch:?}");
            assert_eq!(check::in_order(&arrivals).len(), 2);
            check::intact(&arrivals, FrameSpec::default());
        }
    }
}
