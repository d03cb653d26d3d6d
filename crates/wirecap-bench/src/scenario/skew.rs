//! Six queues, one of them hot, six workers: long-term imbalance (the paper's figures 11 and 12).
//!
//! ```text
//!   queue 0      80,000 packets/s ──► worker 0, 38,844 packets/s      over T: to buddies
//!   queues 1–5   20,000 packets/s ──► workers 1–5, 38,844 packets/s   18,844 to spare each
//! ```
//!
//! Targets: advanced mode, T = 60, loses nothing, in push and in pull; basic mode and an engine without a
//! pool lose on the hot queue what arithmetic predicts.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::{Value, json};
use wirecap_lab::table::{Table, grouped, verdict};
use wirecap_traffic::FrameSpec;

use super::{Context, PACE_PPS, figures, measured};
use crate::arguments::Scenario;
use crate::bed::{Bed, FLOWS};
use crate::competitor::{Competitor, Outcome};
use crate::predict::{Drain, difference_percent};
use crate::sender::{PacedFrames, PacedSender};
use crate::stats::{Summary, show};

/// Packets per second to each queue. The first one is hot.
pub(super) const RATES_PPS: [u32; 6] = [80_000, 20_000, 20_000, 20_000, 20_000, 20_000];
const CELLS_PER_CHUNK: u64 = 256;
/// R: 100 chunks hold the hot queue's excess of 0.6 s.
const CHUNKS: u64 = 100;
/// R of an engine without a pool: a ring of 1,024 cells.
const CHUNKS_WITHOUT_POOL: u64 = 4;

struct Contender {
    competitor: Competitor,
    chunks: u64,
    advanced: bool,
}

/// An engine for this traffic. `mode` is `basic` or T.
pub(super) fn engine(dispatch: &str, mode: &str, chunks: u64, name: &str) -> Result<Competitor> {
    let flags =
        format!("-M {CELLS_PER_CHUNK} -R {chunks} --dispatch {dispatch} --mode {mode} --pace {PACE_PPS}");
    Competitor::wirecap(name, &flags)
}

/// An engine in advanced mode for this traffic.
pub(super) fn advanced(dispatch: &str, chunks: u64) -> Result<Competitor> {
    engine(dispatch, "60", chunks, &format!("WireCAP-A-({CELLS_PER_CHUNK}, {chunks}, 60) {dispatch}"))
}

fn contenders() -> Result<Vec<Contender>> {
    let basic = |dispatch: &str, chunks, note: &str| {
        let name = format!("WireCAP-B-({CELLS_PER_CHUNK}, {chunks}) {dispatch}{note}");
        let competitor = engine(dispatch, "basic", chunks, &name)?;
        anyhow::Ok(Contender { competitor, chunks, advanced: false })
    };
    Ok(vec![
        Contender { competitor: advanced("pull", CHUNKS)?, chunks: CHUNKS, advanced: true },
        Contender { competitor: advanced("push", CHUNKS)?, chunks: CHUNKS, advanced: true },
        basic("pull", CHUNKS, "")?,
        basic("push", CHUNKS, "")?,
        basic("pull", CHUNKS_WITHOUT_POOL, ", no pool")?,
    ])
}

/// The figures of a queue and of its worker.
#[derive(Debug, Clone)]
struct QueueFigures {
    sent: u64,
    seen: u64,
    delivered: u64,
    lost: Vec<(String, u64)>,
    offloaded_out: u64,
    offloaded_in: u64,
}

struct Run {
    seconds: f64,
    longest_pause: Duration,
    queues: Vec<QueueFigures>,
    outcome: Outcome,
}

/// The part of wirecap's report that this scenario needs.
#[derive(Deserialize)]
struct ReportedQueue {
    seen: u64,
    delivered: u64,
    lost: serde_json::Map<String, Value>,
}

#[derive(Deserialize)]
struct ReportedWorker {
    offloaded_in: u64,
    offloaded_out: u64,
}

impl Run {
    fn new(paced: &PacedFrames, seconds: f64, outcome: Outcome) -> Result<Self> {
        let report = &outcome.all["report"];
        let queues = Vec::<ReportedQueue>::deserialize(&report["ports"][0]["queues"]).context("queues")?;
        let workers = Vec::<ReportedWorker>::deserialize(&report["workers"]).context("workers")?;
        let queues =
            paced.sent.iter().zip(queues).zip(workers).map(|((&sent, queue), worker)| QueueFigures {
                sent,
                seen: queue.seen,
                delivered: queue.delivered,
                lost: queue.lost.into_iter().map(|(cause, n)| (cause, n.as_u64().unwrap_or(0))).collect(),
                offloaded_out: worker.offloaded_out,
                offloaded_in: worker.offloaded_in,
            });
        Ok(Self { seconds, longest_pause: paced.longest_pause, queues: queues.collect(), outcome })
    }

    /// Frames that were sent to these queues but not delivered.
    fn lost(&self, queues: std::ops::Range<usize>) -> u64 {
        self.queues[queues].iter().map(|queue| queue.sent.saturating_sub(queue.delivered)).sum()
    }

    fn hot_loss_percent(&self) -> f64 {
        100.0 * self.lost(0..1) as f64 / self.queues[0].sent as f64
    }

    fn other_losses(&self) -> u64 {
        self.lost(1..self.queues.len())
    }
}

impl Contender {
    fn predicted(&self, run: &Run) -> u64 {
        if self.advanced {
            return 0;
        }
        let drain = Drain {
            cells_per_chunk: CELLS_PER_CHUNK,
            cells_per_pool: CELLS_PER_CHUNK * self.chunks,
            pace_pps: PACE_PPS as f64,
        };
        drain.overload_loss(f64::from(RATES_PPS[0]), run.seconds)
    }

    fn difference(&self, run: &Run) -> f64 {
        difference_percent(run.lost(0..1), self.predicted(run), run.queues[0].sent)
    }
}

/// Sends the skewed traffic to an engine and reads its account.
fn measure(bed: &Bed, who: &Competitor, duration: Duration) -> Result<Run> {
    let link = bed.link(RATES_PPS.len() as u32)?;
    let process = who.start(&link, &[])?;
    let paced = link.with_sender(|ifindex| {
        PacedSender::open(ifindex, &RATES_PPS, FrameSpec::default(), FLOWS)?.run(duration, |_, _| ())
    })?;
    let outcome = Outcome::read(process.wait(Duration::from_secs(30))?.json()?)?;
    Run::new(&paced, duration.as_secs_f64(), outcome)
}

pub(super) fn run(context: &mut Context) -> Result<()> {
    let duration = Duration::from_secs(if context.is_quick() { 8 } else { 30 });
    let contenders = contenders()?;
    let results = context.rounds(
        Scenario::Skew,
        &contenders,
        |who| who.competitor.name.clone(),
        |context, who, round| {
            let run = measure(&context.bed, &who.competitor, duration)?;
            let sent: Vec<u64> = run.queues.iter().map(|queue| queue.sent).collect();
            let kept = json!({ "sent": sent, "seconds": run.seconds, "longest_pause_ms": run.longest_pause.as_secs_f64() * 1e3,
                "received": run.outcome.all });
            context.keep(Scenario::Skew, &who.competitor.name, round, &kept)?;
            Ok(run)
        },
    )?;
    summary(context, &contenders, &results)?;
    for (who, rounds) in measured(&contenders, &results) {
        if let Some(run) = rounds.iter().flatten().last() {
            context.record.table(&by_queue(&who.competitor.name, run))?;
        }
    }
    Ok(())
}

fn summary(context: &mut Context, contenders: &[Contender], results: &[Vec<Option<Run>>]) -> Result<()> {
    let mut table = Table::new(
        "Skew: hot queue 80,000 packets/s, five at 20,000, six workers of 38,844",
        &[
            "engine",
            "lost, hot queue",
            "lost %",
            "predicted",
            "difference %",
            "lost, others",
            "offloaded",
            "unexplained",
            "sender's longest pause ms",
            "worker's latest wake-up ms",
            "as expected",
        ],
    );
    for (who, rounds) in measured(contenders, results) {
        let summary = |figure: fn(&Run) -> f64| Summary::of(figures(rounds, figure));
        let as_expected = rounds.iter().all(|run| {
            run.as_ref().is_some_and(|run| {
                let hot = if who.advanced { run.lost(0..1) == 0 } else { who.difference(run).abs() <= 2.0 };
                // Without a pool, any disturbance of the machine loses packets, on every queue.
                let others = run.other_losses() == 0 || who.chunks == CHUNKS_WITHOUT_POOL;
                hot && others && run.outcome.unexplained() == 0
            })
        });
        table.row([
            who.competitor.name.clone(),
            show(summary(|run| run.lost(0..1) as f64), 0),
            show(summary(Run::hot_loss_percent), 2),
            show(Summary::of(figures(rounds, |run| who.predicted(run) as f64)), 0),
            show(Summary::of(figures(rounds, |run| who.difference(run))), 2),
            show(summary(|run| run.other_losses() as f64), 0),
            show(summary(|run| run.queues.iter().map(|queue| queue.offloaded_out).sum::<u64>() as f64), 0),
            show(summary(|run| run.outcome.unexplained() as f64), 0),
            show(summary(|run| run.longest_pause.as_secs_f64() * 1e3), 0),
            show(summary(|run| run.outcome.latest_wake_ms()), 0),
            verdict(as_expected),
        ]);
    }
    table.note(
        "Predicted for basic mode: (80,000 − 38,844) · t − R · M, in whole chunks. Advanced mode should lose nothing. Over \
         T = 60 the hot pool has room for 128 ms of its traffic: if the machine suspends the workers for longer, or the \
         sender, which then catches up in a burst, the pool overflows.",
    );
    context.record.table(&table)
}

fn by_queue(name: &str, run: &Run) -> Table {
    let mut table = Table::new(
        format!("Skew by queue, the last round: {name}"),
        &[
            "queue",
            "sent",
            "seen",
            "delivered",
            "lost, by cause",
            "taken over by buddies",
            "its worker took over",
        ],
    );
    for (number, queue) in run.queues.iter().enumerate() {
        let causes = queue.lost.iter().filter(|(_, packets)| *packets > 0);
        let causes: Vec<_> =
            causes.map(|(cause, packets)| format!("{cause} {}", grouped(*packets))).collect();
        table.row([
            number.to_string(),
            grouped(queue.sent),
            grouped(queue.seen),
            grouped(queue.delivered),
            if causes.is_empty() { "0".into() } else { causes.join(", ") },
            grouped(queue.offloaded_out),
            grouped(queue.offloaded_in),
        ]);
    }
    table
}
