//! A burst of 100,000 frames to a worker that handles 38,844 packets/s: the capacity of pools (the paper's
//! figures 9 and 10), and the largest burst without loss (the formula of its section 3.2.2).
//!
//! Dense buffers, which hold packets one behind the other, are compared at 12 MiB: those of packed delivery,
//! libpcap and TPACKET_V3; so is a bare loop with frames of as much memory.
//!
//! Targets: B-(256, 500) and packed delivery lose none; smaller pools lose the packets for which R × M and
//! the pace leave no room, within 2 %, and the account has a cause for every loss; the largest burst is that
//! of the formula.

use anyhow::Result;
use wirecap_core::Geometry;
use wirecap_lab::table::{Table, grouped, verdict};

use super::{Context, PACE_PPS, SHORT_FRAME, figures, measured};
use crate::arguments::Scenario;
use crate::bed::{Amount, Traffic};
use crate::competitor::{Competitor, Measurement};
use crate::predict::{Drain, difference_percent};
use crate::search::{self, Bounds};
use crate::stats::{Summary, show};

const BURST: u64 = 100_000;
/// M and R of the paper, and an engine without a pool: one ring of 1,024.
const GEOMETRIES: [(u64, u64); 6] = [(256, 500), (256, 100), (128, 200), (64, 400), (64, 100), (256, 4)];
/// M and R for the formula: pools from 3,200 to 51,200 packets.
const FORMULA: [(u64, u64); 5] = [(64, 50), (64, 100), (128, 100), (256, 100), (256, 200)];
/// The generator's rate and a worker's wake-up are each accurate to about 1 ms; together that is more than
/// 2 % of a small pool's burst.
const CLOCK_GRAIN_SECONDS: f64 = 0.002;
/// Packets that `xsk_count` gives back at a time.
const BARE_BATCH: u64 = 64;
/// M and R of packed delivery: 24 blocks of 512 KiB.
const PACKED: (u64, u64) = (256, 24);
/// Bytes of a cell, and of a frame of the bare loop.
const CELL_BYTES: u64 = 2048;
/// The buffers that are compared with those of packed delivery have as much memory.
const PACKED_MIB: u64 = (PACKED.0 * PACKED.1 * CELL_BYTES) >> 20;
const _: () = assert!(PACKED_MIB << 20 == PACKED.0 * PACKED.1 * CELL_BYTES, "libpcap's buffer is in MiB");

struct Contender {
    competitor: Competitor,
    /// Its buffer and pace; `None` for dense buffers, which hold no fixed number of packets.
    drain: Option<Drain>,
    is_wirecap: bool,
}

fn drain(cells_per_chunk: u64, cells_per_pool: u64) -> Drain {
    Drain { cells_per_chunk, cells_per_pool, pace_pps: PACE_PPS as f64 }
}

fn wirecap(cells_per_chunk: u64, chunks: u64, dispatch: &str) -> Result<Contender> {
    let flags = format!("-M {cells_per_chunk} -R {chunks} --dispatch {dispatch} --pace {PACE_PPS}");
    let pool = if cells_per_chunk * chunks == 1024 { ", no pool" } else { "" };
    let name = format!("WireCAP-B-({cells_per_chunk}, {chunks}) {dispatch}{pool}");
    Ok(Contender {
        competitor: Competitor::wirecap(&name, &flags)?,
        drain: Some(drain(cells_per_chunk, cells_per_chunk * chunks)),
        is_wirecap: true,
    })
}

/// wirecap with packed delivery.
fn packed(name: &str, more_flags: &str) -> Result<Contender> {
    let (cells_per_block, blocks) = PACKED;
    let flags = format!("-M {cells_per_block} -R {blocks} --pace {PACE_PPS} {more_flags}");
    Ok(Contender { competitor: Competitor::packed(name, &flags)?, drain: None, is_wirecap: true })
}

fn contenders(context: &Context) -> Result<Vec<Contender>> {
    let mut all = Vec::new();
    for (cells_per_chunk, chunks) in GEOMETRIES {
        all.push(wirecap(cells_per_chunk, chunks, "pull")?);
    }
    all.push(wirecap(256, 500, "push")?);
    all.push(wirecap(256, 100, "push")?);
    all.push(packed("wirecap, packed", "--timestamp batch")?);
    all.push(packed("wirecap, packed, stamped", "")?);
    for frames in [4096, PACKED.0 * PACKED.1, 25_600] {
        let ring = frames.next_power_of_two();
        let flags = format!("--frames {frames} --ring {ring} --wait sleep-us 50 --pace {PACE_PPS}");
        let name = format!("bare AF_XDP, {} frames", grouped(frames));
        let competitor = context.peers.competitor(&name, "xsk_count", &flags);
        all.push(Contender { competitor, drain: Some(drain(BARE_BATCH, frames)), is_wirecap: false });
    }
    for mib in [2, PACKED_MIB, 64] {
        let flags = format!("--buffer-mib {mib} --pace {PACE_PPS}");
        let competitor = context.peers.competitor(&format!("libpcap {mib} MiB"), "pcap_count", &flags);
        all.push(Contender { competitor, drain: None, is_wirecap: false });
    }
    let flags = format!("--block-kib 1024 --blocks {PACKED_MIB} --pace {PACE_PPS}");
    let competitor =
        context.peers.competitor(&format!("TPACKET_V3 {PACKED_MIB} MiB"), "tpacket_count", &flags);
    all.push(Contender { competitor, drain: None, is_wirecap: false });
    Ok(all)
}

impl Contender {
    /// Whether it is wirecap with packed delivery, whose 12 MiB have to hold the burst.
    fn is_packed(&self) -> bool {
        self.is_wirecap && self.drain.is_none()
    }

    /// The predicted loss, for the actual duration of the burst.
    fn predicted(&self, run: &Measurement) -> Option<u64> {
        self.drain.map(|drain| drain.burst_loss(run.sent.frames, run.sent.seconds))
    }

    fn difference(&self, run: &Measurement) -> Option<f64> {
        Some(difference_percent(run.lost(), self.predicted(run)?, run.sent.frames))
    }
}

pub(super) fn run(context: &mut Context) -> Result<()> {
    pools(context)?;
    formula(context)
}

fn pools(context: &mut Context) -> Result<()> {
    let contenders = contenders(context)?;
    let results = context.rounds(
        Scenario::Burst,
        &contenders,
        |who| who.competitor.name.clone(),
        |context, who, round| {
            let traffic = Traffic { frame_len: SHORT_FRAME, rate_pps: None, amount: Amount::Frames(BURST) };
            let run = who.competitor.measure(&context.bed, traffic)?;
            context.keep(Scenario::Burst, &who.competitor.name, round, &run.json("burst", None))?;
            Ok(run)
        },
    )?;
    let mut table = Table::new(
        "Burst of 100,000 64-byte frames to a worker of 38,844 packets/s",
        &[
            "receiver",
            "buffer MiB",
            "offered Mpps",
            "lost",
            "lost %",
            "under a cause",
            "unexplained",
            "predicted",
            "difference %",
            "within 2 %",
            "no loss",
        ],
    );
    for (who, rounds) in measured(&contenders, &results) {
        table.row(row(who, rounds));
    }
    table.note(
        "Predicted: the burst less R × M, less the chunks that came home while it arrived. The difference is in percent \
         of the prediction, or of the burst if the prediction is 0. Per megabyte, libpcap, TPACKET_V3 and packed \
         delivery hold more short packets than cells do.",
    );
    context.record.table(&table)
}

fn row(who: &Contender, rounds: &[Option<Measurement>]) -> Vec<String> {
    let summary = |figure: fn(&Measurement) -> f64| Summary::of(figures(rounds, figure));
    let count = |values: Vec<f64>| show(Summary::of(values), 0);
    let differences: Vec<f64> = rounds.iter().flatten().filter_map(|run| who.difference(run)).collect();
    let within = differences.iter().all(|difference| difference.abs() <= 2.0) && !differences.is_empty();
    let lossless = rounds.iter().all(|run| run.as_ref().is_some_and(|run| run.lost() == 0));
    vec![
        who.competitor.name.clone(),
        show(summary(|run| run.outcome.all["buffer_bytes"].as_f64().unwrap_or(0.0) / f64::from(1 << 20)), 0),
        show(summary(|run| run.sent.frames_per_second() / 1e6), 2),
        show(summary(|run| run.lost() as f64), 0),
        show(summary(Measurement::loss_percent), 1),
        show(summary(|run| run.outcome.dropped() as f64), 0),
        if who.is_wirecap { show(summary(|run| run.outcome.unexplained() as f64), 0) } else { "–".into() },
        count(rounds.iter().flatten().filter_map(|run| who.predicted(run)).map(|lost| lost as f64).collect()),
        show(Summary::of(differences.iter().copied()), 2),
        if who.drain.is_some() { verdict(within) } else { "–".into() },
        if who.is_packed() { verdict(lossless) } else { "–".into() },
    ]
}

/// Finds the largest burst without loss at twice the worker's pace, so that the drain counts as much as the
/// pool.
fn formula(context: &mut Context) -> Result<()> {
    let arrival_pps = 2.0 * PACE_PPS as f64;
    let name =
        |&(cells_per_chunk, chunks): &(u64, u64)| format!("largest burst, B-({cells_per_chunk}, {chunks})");
    let results = context.rounds(Scenario::Burst, &FORMULA, name, |context, size, round| {
        largest_burst(context, *size, round, arrival_pps)
    })?;
    let mut table = Table::new(
        "The largest burst without loss at 77,688 packets/s: P_m · R · M / (P_m − P_p)",
        &[
            "pool",
            "R × M",
            "the paper's formula",
            "less one chunk",
            "measured",
            "of the formula",
            "within 2 %",
        ],
    );
    for (&(cells_per_chunk, chunks), rounds) in measured(&FORMULA, &results) {
        let geometry = Geometry::new(cells_per_chunk as u32, chunks as u32, 2048)?;
        let paper = geometry.largest_burst(arrival_pps, PACE_PPS as f64).unwrap_or(f64::NAN);
        let in_chunks =
            drain(cells_per_chunk, cells_per_chunk * chunks).largest_burst(arrival_pps).unwrap_or(0);
        let measured = Summary::of(figures(rounds, |&burst| burst));
        let within = measured.is_some_and(|measured| {
            // Between the formula and the formula less one chunk, with some slack.
            let slack = f64::max(0.02 * paper, arrival_pps * CLOCK_GRAIN_SECONDS);
            measured.median >= in_chunks as f64 - slack && measured.median <= paper + slack
        });
        table.row([
            format!("WireCAP-B-({cells_per_chunk}, {chunks})"),
            grouped(cells_per_chunk * chunks),
            grouped(paper as u64),
            grouped(in_chunks),
            show(measured, 0),
            measured.map_or_else(|| "–".into(), |measured| format!("{:.3}", measured.median / paper)),
            verdict(within),
        ]);
    }
    table.note(
        "The formula assumes that each cell is free again once its packet is handled. Cells come home a chunk at a time, \
         which subtracts up to P_m / (P_m − P_p) · M. The tolerance is 2 %, or 2 ms (155 packets): the generator \
         keeps the rate in steps of 1 ms, and a sleeping worker may wake up 1 ms late.",
    );
    context.record.table(&table)
}

fn largest_burst(context: &mut Context, size: (u64, u64), round: usize, arrival_pps: f64) -> Result<f64> {
    let (cells_per_chunk, chunks) = size;
    let who = wirecap(cells_per_chunk, chunks, "pull")?.competitor;
    let geometry = Geometry::new(cells_per_chunk as u32, chunks as u32, 2048)?;
    let paper = geometry.largest_burst(arrival_pps, PACE_PPS as f64).unwrap_or(f64::NAN);
    let precision = if context.is_quick() { 0.02 } else { 0.004 };
    search::largest(Bounds { low: 0.7 * paper, high: 1.1 * paper, precision }, |burst| {
        let amount = Amount::Frames(burst as u64);
        let traffic = Traffic { frame_len: SHORT_FRAME, rate_pps: Some(arrival_pps), amount };
        let run = who.measure(&context.bed, traffic)?;
        context.keep(Scenario::Burst, &who.name, round, &run.json("largest burst", Some(arrival_pps)))?;
        Ok(run.lost() == 0)
    })
}
