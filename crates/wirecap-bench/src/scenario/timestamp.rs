//! The cost of timestamps: count only, one queue, 64-byte frames, with each source of timestamps in turn.
//!
//! On a veth the XDP program runs on the sender's core, so `kernel` costs time there, and the receiver reads
//! 8 bytes more. A veth has no clock, so `hardware`, whose cost is the driver's, is not measured.

use std::hint::black_box;
use std::time::Instant;

use anyhow::Result;
use serde_json::json;
use wirecap_lab::table::{Table, millions, verdict};
use wirecap_sys::clock::{BatchClock, system_ns};

use super::{Context, SHORT_FRAME, figures, measured};
use crate::arguments::Scenario;
use crate::bed::{Amount, Traffic};
use crate::competitor::{Competitor, Measurement};
use crate::stats::{Summary, show};

/// Readings of a clock that are timed together.
const READINGS: u32 = 2_000_000;
/// The source with which the others are compared.
const BATCH: usize = 0;

fn competitors() -> Result<Vec<Competitor>> {
    let wirecap = |name: &str, source: &str| {
        Competitor::wirecap(name, &format!("--dispatch pull --wait sleep --timestamp {source}"))
    };
    Ok(vec![wirecap("batch", "batch")?, wirecap("kernel", "kernel")?])
}

pub(super) fn run(context: &mut Context) -> Result<()> {
    let competitors = competitors()?;
    let results = context.rounds(
        Scenario::Timestamp,
        &competitors,
        |who| who.name.clone(),
        |context, who, round| {
            let amount = Amount::For(context.run_time());
            let traffic = Traffic { frame_len: SHORT_FRAME, rate_pps: None, amount };
            let measured = who.measure(&context.bed, traffic)?;
            context.keep(Scenario::Timestamp, &who.name, round, &measured.json("full speed", None))?;
            Ok(measured)
        },
    )?;

    let mut table = Table::new(
        "Timestamps: count only, one queue, 64-byte frames, at the generator's full speed",
        &[
            "--timestamp",
            "received Mpps",
            "sender ns/packet",
            "more than batch",
            "receiver CPU ns/packet",
            "more than batch",
            "no loss",
        ],
    );
    for (competitor, rounds) in measured(&competitors, &results) {
        let more =
            |figure: fn(&Measurement) -> f64| Summary::of(differences(rounds, &results[BATCH], figure));
        table.row([
            competitor.name.clone(),
            show(Summary::of(figures(rounds, |round| millions(round.received_pps()))), 2),
            show(Summary::of(figures(rounds, sender_ns)), 1),
            show(more(sender_ns), 1),
            show(Summary::of(figures(rounds, receiver_ns)), 1),
            show(more(receiver_ns), 1),
            verdict(rounds.iter().all(|round| round.as_ref().is_some_and(|round| round.lost() == 0))),
        ]);
    }
    table.note(
        "Differences are within a round, in which both run one after the other. The sender's time is that of the \
         generator, the XDP program and the kernel's copy, which run on one core on a veth.",
    );
    context.record.table(&table)?;
    clocks(context)
}

/// Measures the cost of reading a clock: `batch` reads one per batch, `kernel` one per packet.
fn clocks(context: &mut Context) -> Result<()> {
    let mut counter = BatchClock::new();
    let (mut counter_ns, mut system_clock_ns) = (Vec::new(), Vec::new());
    for round in 1..=context.arguments.rounds() {
        counter_ns.push(ns_per_reading(|| counter.now_ns()));
        system_clock_ns.push(ns_per_reading(system_ns));
        let run = json!({
            "ns_per_reading": { "counter": counter_ns.last(), "system": system_clock_ns.last() },
            "clock": counter.clock(), "error_bound_ns": counter.error_bound_ns(),
        });
        context.keep(Scenario::Timestamp, "clocks", round, &run)?;
    }
    let mut table = Table::new("A reading of a clock", &["clock", "ns"]);
    table.row([format!("`batch`: {:?}", counter.clock()), show(Summary::of(counter_ns), 1)]);
    table.row(["system clock (`clock_gettime`)".into(), show(Summary::of(system_clock_ns), 1)]);
    context.record.table(&table)
}

fn ns_per_reading(mut read: impl FnMut() -> u64) -> f64 {
    let begun = Instant::now();
    for _ in 0..READINGS {
        black_box(read());
    }
    begun.elapsed().as_secs_f64() * 1e9 / f64::from(READINGS)
}

fn sender_ns(measured: &Measurement) -> f64 {
    1e9 / measured.sent.frames_per_second()
}

fn receiver_ns(measured: &Measurement) -> f64 {
    measured.outcome.cpu_ns_per_packet()
}

/// The differences of a figure of two competitors, each within one round.
fn differences<T>(ours: &[Option<T>], theirs: &[Option<T>], figure: impl Fn(&T) -> f64) -> Vec<f64> {
    let pairs = ours.iter().zip(theirs).filter_map(|(ours, theirs)| ours.as_ref().zip(theirs.as_ref()));
    pairs.map(|(ours, theirs)| figure(ours) - figure(theirs)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_compare_figures_of_the_same_round() {
        let (ours, theirs) = ([Some(8.0), Some(9.0), None], [Some(2.0), None, Some(1.0)]);
        assert_eq!(differences(&ours, &theirs, |&value| value), [6.0]);
    }
}
