//! Bursts against arithmetic, advanced mode, forwarding, and the account of each packet.

use super::*;
use crate::{HANDLER_PPS, WIRE_RATE_PPS, closed_form, outcome::QueueOutcome, traffic::Phase};

fn closed(outcome: &Outcome, traffic: &Traffic) -> QueueOutcome {
    let total = outcome.total();
    assert_eq!(total.offered, traffic.packets());
    assert_eq!(total.handled + total.lost(), total.offered, "{outcome:?}");
    total
}

#[test]
fn a_burst_loses_what_arithmetic_says() {
    for (cells, chunks) in [(256, 100), (128, 200), (64, 400), (256, 500)] {
        for packets in [1_000, 25_000, 30_000, 100_000, 1_000_000] {
            let traffic = Traffic::burst(packets, WIRE_RATE_PPS);
            let engine = WirecapEngine::basic(cells, chunks, HANDLER_PPS);
            let buffer = u64::from(cells * chunks);
            let expected = closed_form::burst_loss(packets, WIRE_RATE_PPS, HANDLER_PPS, buffer);
            for engine in [engine, engine.pulling()] {
                let lost = closed(&engine.run(&traffic).unwrap(), &traffic).lost();
                if expected == 0.0 {
                    assert_eq!(lost, 0, "{engine:?} {packets}");
                }
                // A chunk comes home as a whole.
                let error = 2.0 * f64::from(cells);
                assert!((lost as f64 - expected).abs() <= error, "{engine:?} {packets}: {lost} {expected}");
            }
        }
    }
}

#[test]
fn advanced_mode_loses_nothing_where_basic_mode_loses_what_is_too_much() {
    let rates = [80_000.0, 20_000.0, 20_000.0, 20_000.0, 20_000.0, 20_000.0];
    let traffic = Traffic::steady(&rates, 20.0);
    let excess = 20.0 * (80_000.0 - HANDLER_PPS);
    let engines =
        (WirecapEngine::basic(256, 100, HANDLER_PPS), WirecapEngine::advanced(256, 100, 60, HANDLER_PPS));
    for (basic, advanced) in [engines, (engines.0.pulling(), engines.1.pulling())] {
        let basic = basic.run(&traffic).unwrap();
        closed(&basic, &traffic);
        let lost = basic.queues[0].lost() as f64;
        assert!((lost - (excess - 25_600.0)).abs() < 600.0, "{lost} {excess}");
        assert!(basic.queues[1..].iter().all(|queue| queue.lost() == 0));
        let advanced = advanced.run(&traffic).unwrap();
        assert_eq!(closed(&advanced, &traffic).lost(), 0);
        // The excess for one worker, except packets that wait below T.
        assert!((advanced.offloaded as f64 - excess).abs() < 0.05 * excess, "{advanced:?}");
    }
}

/// 2 million packets/s for each worker, and 3.3 million for one: its packets come in short runs, of which its
/// capture queue holds few, before they are T of its pool.
#[test]
fn buddies_help_a_worker_whose_capture_queue_is_full() {
    let mut rates = [940_000.0; 16];
    rates[0] = 3_300_000.0;
    let traffic = Traffic::steady(&rates, 0.05);
    let engine = WirecapEngine::advanced(256, 4, 60, 2e6);
    assert_eq!(closed(&engine.run(&traffic).unwrap(), &traffic).lost(), 0);
    let basic = WirecapEngine { mode: Mode::Basic, ..engine };
    assert!(closed(&basic.run(&traffic).unwrap(), &traffic).lost() > 60_000);
}

#[test]
fn a_worker_that_pulls_helps_only_when_its_own_queue_is_empty() {
    // Each worker has as much as it can handle: no worker is idle, so nothing is offloaded.
    let rates = [2.0 * HANDLER_PPS, 1.1 * HANDLER_PPS, 1.1 * HANDLER_PPS];
    let traffic = Traffic::steady(&rates, 5.0);
    let pull = WirecapEngine::advanced(256, 100, 0, HANDLER_PPS).pulling().run(&traffic).unwrap();
    closed(&pull, &traffic);
    assert!((pull.offloaded as f64) < 0.01 * traffic.packets() as f64, "{pull:?}");
    // In push, the same T sends a part of every queue to whichever buddy is less busy.
    let push = WirecapEngine::advanced(256, 100, 0, HANDLER_PPS).run(&traffic).unwrap();
    assert!(push.offloaded > pull.offloaded, "{push:?}");
}

#[test]
fn a_worker_that_is_faster_than_the_wire_loses_nothing_and_a_slower_one_does() {
    let traffic = Traffic::burst(1_000_000, WIRE_RATE_PPS);
    let lost = |engine: WirecapEngine| closed(&engine.run(&traffic).unwrap(), &traffic).lost();
    let engine = |pace_pps| WirecapEngine::basic(64, 100, pace_pps);
    assert_eq!((lost(engine(25e6)), lost(engine(25e6).pulling())), (0, 0));
    assert!(lost(engine(10e6)) > 300_000 && lost(engine(10e6).pulling()) > 300_000);
}

/// What comes before the first loss is not lost, and what comes after it is: as much as arithmetic says.
#[test]
fn the_first_loss_comes_when_the_pool_is_full() {
    let traffic = Traffic::burst(1_000_000, WIRE_RATE_PPS);
    let engine = WirecapEngine::basic(256, 100, HANDLER_PPS);
    for engine in [engine, engine.pulling()] {
        let mut done = 0;
        let mut step = |work| {
            done += work;
            Ok::<_, GeometryError>(())
        };
        let lost_ns = engine.first_loss_ns(&traffic, &mut step).unwrap().unwrap();
        let expected_ns = 25_600.0 / (WIRE_RATE_PPS - HANDLER_PPS) * 1e9;
        assert!((lost_ns / expected_ns - 1.0).abs() < 0.03, "{lost_ns} {expected_ns}");
        // Those included that come while the worker has its first batch.
        assert!((25_600..200_000).contains(&done), "{done}: it went on after the loss");
        let never = |_| Err(GeometryError::ChunksPerPool { given: 0 });
        assert!(engine.first_loss_ns(&traffic, &mut { never }).is_err(), "a step that fails ends it");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(30))]

    /// Each packet is handled or lost, once, and an idle worker is left no packet.
    #[test]
    fn every_packet_is_accounted_for(
        (m, r, threshold) in (0..3_u32, 2..40_u32, 0..=100_u8),
        rates in proptest::collection::vec(1_000.0..200_000.0_f64, 1..5),
        (pace, ring, seed) in (10_000.0..1e6_f64, 1..2_000_u32, 0..100_u64),
    ) {
        let queues: Vec<_> = rates.iter().map(|&pps| vec![Phase { from_s: 0.0, until_s: 0.2, pps }]).collect();
        let traffic = Traffic::bursty(&queues, 40.0, seed);
        let engine = WirecapEngine { ring, ..WirecapEngine::advanced(64 << m, r, threshold, pace) };
        let advanced = engine.run(&traffic).unwrap();
        closed(&advanced, &traffic);
        let is_lossless = |engine: &WirecapEngine| {
            let step = &mut |_| Ok::<_, GeometryError>(());
            engine.first_loss_ns(&traffic, step).unwrap().is_none()
        };
        proptest::prop_assert_eq!(is_lossless(&engine), advanced.total().lost() == 0);
        let basic = WirecapEngine { mode: Mode::Basic, ..engine }.run(&traffic).unwrap();
        closed(&basic, &traffic);
        proptest::prop_assert_eq!(basic.offloaded, 0);
        let pull = WirecapEngine { ring, ..engine.pulling() };
        let pulled = closed(&pull.run(&traffic).unwrap(), &traffic);
        proptest::prop_assert_eq!(is_lossless(&pull), pulled.lost() == 0);
        let basic = WirecapEngine { mode: Mode::Basic, ..pull }.run(&traffic).unwrap();
        closed(&basic, &traffic);
        proptest::prop_assert_eq!(basic.offloaded, 0);
    }
}

/// Forwarding at 38,844 packets/s never fills a transmit ring, so it loses what capturing loses; a wire
/// that is slower than the worker sets the pace.
#[test]
fn a_worker_that_forwards_is_as_fast_as_its_wire_lets_it() {
    let traffic = Traffic::burst(1_000_000, WIRE_RATE_PPS);
    let lost = |pace_pps, wire_pps: Option<f64>| {
        let transmit = wire_pps.map(|wire_pps| Transmit { ring: 1_024, wire_pps });
        let engine = WirecapEngine { transmit, ..WirecapEngine::basic(256, 100, pace_pps) };
        closed(&engine.run(&traffic).unwrap(), &traffic).lost() as f64
    };
    let (captured, forwarded) = (lost(HANDLER_PPS, None), lost(HANDLER_PPS, Some(WIRE_RATE_PPS)));
    assert!((captured - forwarded).abs() <= 512.0, "{captured} {forwarded}");
    assert_eq!(lost(25e6, Some(WIRE_RATE_PPS)), 0.0);
    // As a worker of that pace, except that the packets of the transmit ring keep their cells.
    let expected = closed_form::burst_loss(1_000_000, WIRE_RATE_PPS, 5e6, 25_600);
    let slow_wire = lost(25e6, Some(5e6));
    assert!((slow_wire - expected).abs() < 3_000.0, "{slow_wire} {expected}");
}
