//! Batches may be held as long as wanted, and dropped anywhere.

use std::{sync::mpsc, thread, time::Duration};

use wirecap::{Batch, Capture, Dispatch, Modes, WaitOutcome, Worker};
use wirecap_traffic::FrameSpec;

use wirecap_testing::{
    check,
    crew::{Arrival, arrivals},
    need_root, wait_until,
    wire::Wire,
};

/// M × R.
const POOL: u64 = 64 * 16;
/// Packets held at once.
const HELD: u64 = POOL * 3 / 4;

/// Takes batches until they contain this number of packets.
fn take(worker: &mut Worker, packets: u64) -> Vec<Batch> {
    let (mut batches, mut taken) = (Vec::new(), 0);
    wait_until("a worker gets its packets", || {
        while let WaitOutcome::Batch(batch) = worker.next_batch_within(Duration::ZERO) {
            taken += batch.len() as u64;
            batches.push(batch);
        }
        taken >= packets
    });
    assert_eq!(taken, packets);
    batches
}

fn copies(batches: &[Batch]) -> Vec<Arrival> {
    batches.iter().flat_map(|batch| arrivals(0, batch)).collect()
}

#[test]
fn held_batches_stay_unchanged_while_others_flow_and_go_home_from_another_thread() {
    need_root!("hold::held_batches_stay_unchanged_while_others_flow_and_go_home_from_another_thread");
    for dispatch in [Dispatch::Pull, Dispatch::Push] {
        let wire = Wire::with_queues("hold", 1);
        let builder = Capture::builder().cells_per_chunk(64).chunks_per_pool(16).modes(Modes::Copy);
        let mut capture = wire.capture(builder.dispatch(dispatch));
        let mut worker = capture.take_workers().remove(0);
        let mut sender = wire.queue_sender(0, FrameSpec::default());

        // Sent in small groups, so that chunks are handed over in part and held in many pieces.
        let mut held = Vec::new();
        for _ in 0..HELD / 32 {
            sender.send(32);
            held.extend(take(&mut worker, 32));
        }
        assert!(held.len() >= 12);
        let before = copies(&held);

        // Four pools' worth of other packets pass through the remaining quarter.
        for _ in 0..4 * POOL / 64 {
            sender.send(64);
            take(&mut worker, 64);
        }
        assert!(capture.report().pool_used_percent() >= 75.0);
        let after: Vec<Arrival> = copies(&held);
        assert!(before.iter().zip(&after).all(|(before, after)| before.bytes == after.bytes));
        check::increasing(&check::intact(&after, FrameSpec::default()));

        let (give, taken) = mpsc::channel::<Batch>();
        let other = thread::spawn(move || taken.into_iter().map(|batch| batch.len() as u64).sum::<u64>());
        held.into_iter().for_each(|batch| give.send(batch).unwrap());
        drop(give);
        assert_eq!(other.join().unwrap(), HELD);

        wait_until("all cells are home", || {
            let _ = worker.next_batch_within(Duration::ZERO);
            capture.report().pool_used_percent() == 0.0
        });
        sender.send(POOL - 64);
        take(&mut worker, POOL - 64);
        drop(worker);
        let report = capture.finish();
        let account = check::account_closed(&report);
        assert_eq!((account.delivered, account.lost.total()), (sender.sent(), 0), "{dispatch:?}");
        check::pools_whole(&report);
    }
}

/// One packet in this number is kept.
const KEPT_EVERY: u64 = 20;
/// How often a quarter of the pool arrives: at the end, a quarter of the pool is kept.
const ROUNDS: u64 = KEPT_EVERY;

#[test]
fn a_kept_packet_keeps_only_its_own_cell() {
    need_root!("hold::a_kept_packet_keeps_only_its_own_cell");
    for dispatch in [Dispatch::Pull, Dispatch::Push] {
        let wire = Wire::with_queues("keep", 1);
        let builder = Capture::builder().cells_per_chunk(64).chunks_per_pool(16).keep_packets(true);
        let mut capture = wire.capture(builder.dispatch(dispatch));
        let mut worker = capture.take_workers().remove(0);
        let mut sender = wire.queue_sender(0, FrameSpec::default());

        // Each chunk soon has more than one kept packet.
        let (mut kept, mut came) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            sender.send(POOL / 4);
            for mut batch in take(&mut worker, POOL / 4) {
                came.extend(arrivals(0, &batch));
                let ours = batch.drain().unwrap().filter(|packet| packet.number() % KEPT_EVERY == 0);
                kept.extend(ours.map(|packet| (packet.data().to_vec(), packet.keep())));
            }
        }
        assert_eq!(kept.len() as u64, (ROUNDS * POOL / 4).div_ceil(KEPT_EVERY));
        assert!(kept.iter().all(|(before, packet)| packet.data() == before));
        check::increasing(&check::intact(&came, FrameSpec::default()));
        drop((kept, worker));

        let report = capture.finish();
        let account = check::account_closed(&report);
        assert_eq!((account.delivered, account.lost.total()), (sender.sent(), 0), "{dispatch:?}");
        check::pools_whole(&report);
    }
}

#[test]
fn a_batch_may_outlive_the_capture() {
    need_root!("hold::a_batch_may_outlive_the_capture");
    let wire = Wire::with_queues("outlive", 1);
    let mut capture = wire.capture(Capture::builder().chunks_per_pool(4));
    let mut worker = capture.take_workers().remove(0);
    wire.queue_sender(0, FrameSpec::default()).send(10);
    let held = take(&mut worker, 10);
    drop(worker);
    let account = check::account_closed(&capture.finish());
    assert_eq!((account.seen, account.delivered), (10, 10));
    assert_eq!(check::intact(&copies(&held), FrameSpec::default()), (0..10).collect::<Vec<u64>>());
}

/// A batch keeps its cells, not the interface.
#[test]
fn an_interface_can_be_captured_again_while_an_earlier_batch_is_held() {
    need_root!("hold::an_interface_can_be_captured_again_while_an_earlier_batch_is_held");
    let wire = Wire::with_queues("again", 1);
    let builder = || Capture::builder().cells_per_chunk(64).chunks_per_pool(16);
    let mut first = wire.capture(builder());
    let stopper = first.stopper();
    let mut worker = first.take_workers().remove(0);
    wire.queue_sender(0, FrameSpec::default()).send(32);
    let held = take(&mut worker, 32);
    let before = copies(&held);
    first.finish();

    let mut second = wire.capture(builder());
    let mut next_worker = second.take_workers().remove(0);
    wire.queue_sender(0, FrameSpec::default()).send(32);
    drop(take(&mut next_worker, 32));
    assert!(before.iter().zip(copies(&held)).all(|(before, after)| before.bytes == after.bytes));
    assert!(matches!(worker.next_batch_within(Duration::MAX), WaitOutcome::Ended));
    stopper.stop();
    assert!(wire.is_captured(), "the stopper of the first capture does not end the second one");
}
