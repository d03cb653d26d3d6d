//! Pools that are too small for the traffic: losses are counted by cause, and end with the overload.

use std::{thread, time::Duration};

use wirecap::{Capture, Dispatch, Mode, Modes};
use wirecap_traffic::FrameSpec;

use wirecap_testing::{check, crew::Crew, gate::Gate, need_root, wait_until, wire::Wire};

const FRAMES: u64 = 5_000;
/// M × R.
const CELLS: u64 = 64 * 4;

#[test]
fn an_exhausted_pool_loses_the_rest_and_recovers_in_pull() {
    need_root!("overload::an_exhausted_pool_loses_the_rest_and_recovers_in_pull");
    loses_the_rest_and_recovers(Dispatch::Pull);
}

#[test]
fn an_exhausted_pool_loses_the_rest_and_recovers_in_push() {
    need_root!("overload::an_exhausted_pool_loses_the_rest_and_recovers_in_push");
    loses_the_rest_and_recovers(Dispatch::Push);
}

fn loses_the_rest_and_recovers(dispatch: Dispatch) {
    let wire = Wire::with_queues("overload", 1);
    let builder = Capture::builder().cells_per_chunk(64).chunks_per_pool(4).modes(Modes::Copy);
    let mut capture = wire.capture(builder.mode(Mode::Basic).dispatch(dispatch));
    let gate = Gate::closed();
    let at_gate = gate.clone();
    let crew = Crew::start(capture.take_workers(), move |_, _| at_gate.pass());

    // The worker holds its first packets, so exactly one pool is captured.
    let mut sender = wire.queue_sender(0, FrameSpec::default());
    sender.send(FRAMES);
    wait_until("all frames are seen", || capture.report().total().seen == FRAMES);
    let lost = capture.report().total().lost;
    assert_eq!((lost.no_free_cell, lost.total()), (FRAMES - CELLS, FRAMES - CELLS));

    gate.open();
    crew.wait_for(CELLS);
    wait_until("all cells are home", || capture.report().pool_used_percent() == 0.0);
    // Each group is sent only when the cells of the previous one are home.
    sender.send_while(FRAMES, |sent| {
        sent - (FRAMES - CELLS) > crew.arrived() || capture.report().pool_used_percent() > 0.0
    });
    crew.wait_for(CELLS + FRAMES);
    capture.stopper().stop();

    let arrivals = crew.join();
    let report = capture.finish();
    let account = check::account_closed(&report);
    assert_eq!((account.seen, account.delivered), (2 * FRAMES, CELLS + FRAMES));
    assert_eq!(account.lost.no_free_cell, FRAMES - CELLS, "the second run lost nothing");
    check::pools_whole(&report);

    let came = check::intact(check::in_order(&arrivals)[&(0, 0)].iter().copied(), FrameSpec::default());
    let expected: Vec<u64> = (0..CELLS).chain(FRAMES..2 * FRAMES).collect();
    assert!(came == expected, "the first pool of the first run, and all of the second run");
}

#[test]
fn a_slow_worker_and_short_rings_lose_packets_but_none_is_unexplained() {
    need_root!("overload::a_slow_worker_and_short_rings_lose_packets_but_none_is_unexplained");
    let wire = Wire::with_queues("slow", 1);
    for dispatch in [Dispatch::Pull, Dispatch::Push] {
        for ring in [64, 128, 256] {
            let builder = Capture::builder().cells_per_chunk(64).chunks_per_pool(4).ring_entries(ring);
            let mut capture = wire.capture(builder.mode(Mode::Basic).dispatch(dispatch));
            let slow = |_: usize, _: &mut _| thread::sleep(Duration::from_micros(500));
            let crew = Crew::start(capture.take_workers(), slow);
            let sent = wire.live(&mut wire.generator(FrameSpec::default()), 0, 20_000);
            capture.stopper().stop();

            let arrivals = crew.join();
            let report = capture.finish();
            let account = check::account_closed(&report);
            assert_eq!(report.memory.ring_entries, Some(ring));
            assert_eq!(account.seen, sent.frames - sent.dropped);
            assert_eq!(account.delivered, arrivals.len() as u64);
            assert_eq!(account.delivered + account.lost.total(), account.seen);
            assert_eq!(account.lost.total(), account.lost.no_free_cell + account.lost.rx_ring_full);
            assert!(account.lost.total() > 0, "20,000 frames do not fit 256 cells");
            check::increasing(&check::intact(&arrivals, FrameSpec::default()));
            check::in_order(&arrivals);
            check::pools_whole(&report);
        }
    }
}
