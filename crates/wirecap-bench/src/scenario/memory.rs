//! Memory: the memory of the process in addition to its cells (M × R × the cell size), and its growth.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::json;
use wirecap_lab::table::{Table, grouped, mib};

use super::{Context, SHORT_FRAME, figures, measured};
use crate::arguments::Scenario;
use crate::bed::{Amount, Traffic};
use crate::competitor::{Competitor, Outcome};
use crate::machine::ResidentMemory;
use crate::stats::{Summary, line, show};

const GEOMETRIES: [(u64, u64); 3] = [(64, 100), (256, 128), (256, 500)];
const CELL_BYTES: u64 = 2048;
/// A rate that every engine sustains on every machine, so that the run shows growth and not loss.
const RATE_PPS: f64 = 100_000.0;
/// After this time memory should not grow: the pages of code and stacks are resident.
const WARM_UP: Duration = Duration::from_secs(1);

/// The memory of one run.
struct Run {
    ready: ResidentMemory,
    warm: ResidentMemory,
    end: ResidentMemory,
    cells_bytes: u64,
    outcome: Outcome,
}

impl Run {
    fn beside_cells(&self, bytes: u64) -> f64 {
        bytes as f64 - self.cells_bytes as f64
    }

    fn growth(&self) -> f64 {
        self.end.rss as f64 - self.warm.rss as f64
    }
}

pub(super) fn run(context: &mut Context) -> Result<()> {
    let duration = Duration::from_secs(if context.is_quick() { 5 } else { 60 });
    let name = |&(cells_per_chunk, chunks): &(u64, u64)| format!("({cells_per_chunk}, {chunks})");
    let results = context.rounds(Scenario::Memory, &GEOMETRIES, name, |context, size, round| {
        let run = measure(context, *size, duration)?;
        let kept = json!({
            "cells_bytes": run.cells_bytes, "ready": run.ready, "warm": run.warm, "end": run.end,
            "received": run.outcome.all,
        });
        context.keep(Scenario::Memory, &name(size), round, &kept)?;
        Ok(run)
    })?;

    let seconds = duration.as_secs();
    let mut table = Table::new(
        format!("Memory of the process, one queue, {seconds} s at 100,000 packets/s"),
        &[
            "M, R",
            "cells MiB",
            "beside cells MiB (RSS)",
            "(PSS)",
            "at the end (RSS)",
            "growth KiB",
            "packets",
        ],
    );
    let mut points = Vec::new();
    for (&(cells_per_chunk, chunks), rounds) in measured(&GEOMETRIES, &results) {
        let cells = cells_per_chunk * chunks;
        let in_mib = |figure: &dyn Fn(&Run) -> f64| {
            show(Summary::of(figures(rounds, |run| figure(run) / f64::from(1 << 20))), 2)
        };
        points.extend(
            figures(rounds, |run| run.beside_cells(run.ready.rss)).iter().map(|&y| (cells as f64, y)),
        );
        table.row([
            format!("{cells_per_chunk}, {chunks}"),
            mib((cells * CELL_BYTES) as f64),
            in_mib(&|run| run.beside_cells(run.ready.rss)),
            in_mib(&|run| run.beside_cells(run.ready.pss)),
            in_mib(&|run| run.beside_cells(run.end.rss)),
            show(Summary::of(figures(rounds, |run| run.growth() / 1024.0)), 0),
            grouped(rounds.iter().flatten().map(|run| run.outcome.packets).sum()),
        ]);
    }
    if let Some(line) = line(&points) {
        table.note(format!(
            "Beside the cells: a constant of {} MiB for each process and {:.1} bytes for each cell (rings and slots).",
            mib(line.constant),
            line.slope
        ));
    }
    table.note(format!("Growth is from {} s after the first packet to the last.", WARM_UP.as_secs()));
    context.record.table(&table)
}

fn measure(context: &Context, (cells_per_chunk, chunks): (u64, u64), duration: Duration) -> Result<Run> {
    let who = Competitor::wirecap("wirecap", &format!("-M {cells_per_chunk} -R {chunks}"))?;
    let link = context.bed.link(1)?;
    let process = who.start(&link, &[])?;
    let pid = process.pid();
    let resident = || ResidentMemory::of(pid).context("the process is gone");
    let ready = resident()?;
    let traffic = Traffic { frame_len: SHORT_FRAME, rate_pps: Some(RATE_PPS), amount: Amount::For(duration) };
    let (warm, end) = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let start = Instant::now();
            std::thread::sleep(WARM_UP);
            let warm = resident()?;
            // Shortly before traffic ends, while the process still exists.
            std::thread::sleep((duration - Duration::from_millis(200)).saturating_sub(start.elapsed()));
            anyhow::Ok((warm, resident()?))
        });
        link.send(traffic)?;
        sampler.join().expect("no panic")
    })?;
    let outcome = Outcome::read(process.wait(Duration::from_secs(30))?.json()?)?;
    Ok(Run { ready, warm, end, cells_bytes: cells_per_chunk * chunks * CELL_BYTES, outcome })
}
