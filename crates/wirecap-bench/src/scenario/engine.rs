//! The engine's own cost: the null port, 64-byte frames, one cache line of each packet read.
//!
//! Target: under 7 ns a packet, which is the line rate of 100 Gigabit Ethernet.

use anyhow::Result;
use serde_json::json;
use wirecap_lab::table::{Table, mib, verdict};

use super::{Context, figures, measured};
use crate::arguments::Scenario;
use crate::bed::SENDER_CORE;
use crate::competitor::{Competitor, Outcome};
use crate::stats::{Summary, show};

const TARGET_NS: f64 = 7.0;
/// M and R: from a pool whose packets stay in the cache to the paper's largest.
const GEOMETRIES: [(u32, u32); 6] = [(64, 4), (64, 16), (256, 4), (256, 16), (256, 128), (256, 500)];

struct Contender {
    competitor: Competitor,
    cells_per_chunk: u32,
    chunks_per_pool: u32,
    dispatch: &'static str,
}

fn contenders(packets: u64) -> Result<Vec<Contender>> {
    let mut contenders = Vec::new();
    for dispatch in ["pull", "push"] {
        for (cells_per_chunk, chunks_per_pool) in GEOMETRIES {
            // With push, the capture thread runs on the other core.
            let flags = format!(
                "-M {cells_per_chunk} -R {chunks_per_pool} --dispatch {dispatch} --wait busy --packets {packets} \
                 --capture-cpu {SENDER_CORE}"
            );
            let name = format!("{dispatch} ({cells_per_chunk}, {chunks_per_pool})");
            let competitor = Competitor::wirecap(&name, &flags)?;
            contenders.push(Contender { competitor, cells_per_chunk, chunks_per_pool, dispatch });
        }
    }
    Ok(contenders)
}

pub(super) fn run(context: &mut Context) -> Result<()> {
    let contenders = contenders(if context.is_quick() { 20_000_000 } else { 200_000_000 })?;
    let results = context.rounds(
        Scenario::Engine,
        &contenders,
        |who| who.competitor.name.clone(),
        |context, who, round| {
            let outcome = who.competitor.measure_memory_only()?;
            context.keep(
                Scenario::Engine,
                &who.competitor.name,
                round,
                &json!({ "received": outcome.all }),
            )?;
            Ok(outcome)
        },
    )?;

    let mut table = Table::new(
        "The engine alone: `null` port, 64-byte frames, one cache line of each read",
        &[
            "dispatch",
            "M",
            "R",
            "pool MiB",
            "ns/packet",
            "CPU ns/packet",
            "cycles/packet",
            "Mpps",
            "under 7 ns",
        ],
    );
    let mhz = context.machine.cpu_mhz;
    for (who, rounds) in measured(&contenders, &results) {
        let ns = Summary::of(figures(rounds, ns_per_packet));
        let median = ns.map(|ns| ns.median);
        table.row([
            who.dispatch.into(),
            who.cells_per_chunk.to_string(),
            who.chunks_per_pool.to_string(),
            mib(2048.0 * f64::from(who.cells_per_chunk * who.chunks_per_pool)),
            show(ns, 2),
            show(Summary::of(figures(rounds, Outcome::cpu_ns_per_packet)), 2),
            median.zip(mhz).map_or_else(|| "–".into(), |(ns, mhz)| format!("{:.1}", ns * mhz / 1000.0)),
            median.map_or_else(|| "–".into(), |ns| format!("{:.0}", 1000.0 / ns)),
            verdict(median.is_some_and(|ns| ns < TARGET_NS)),
        ]);
    }
    table.note(
        "`pull` runs on one core. `push` has the capture thread on one core and the worker on another, both waiting \
         busily, so its CPU time is twice its duration. Cycles are those of the time stamp counter. Cells are 2 KiB \
         apart, so the cache lines of a pool fall into few sets of the cache: a pool exceeds the cache long before the \
         bytes of its packets do.",
    );
    context.record.table(&table)
}

fn ns_per_packet(outcome: &Outcome) -> f64 {
    outcome.seconds * 1e9 / outcome.packets as f64
}
