//! Figure 13: as Figure 11, but what a handler has handled it sends on through a second interface, from the
//! cell in which it lies.
//!
//! ```text
//!   replay ─► wc0 ═══ wc1 ─► wirecap handle --pace --forward ─► wc2 ═══ wc3: counted
//! ```
//!
//! wirecap sends a packet from the cell in which it lies. The others send a copy by a packet socket: at the
//! pace of the handlers, what that costs changes nothing, and their buffers lose what they lose without it.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wirecap_bench::{
    competitor::{Outcome, counted_lost},
    run::{Process, ReadySign},
    wire::{FAR, NEAR, Wire},
};
use wirecap_lab::table::Table;
use wirecap_report::{Axis, Chart, Plot, Series};

use crate::{
    arguments::Experiment,
    engine::{Delivery, Engine, PACE_PPS},
    laboratory::Laboratory,
    samples::{Samples, explain_marks},
    skew::{LOST_PERCENT, POOL, T, TABLE_1_QUEUES, queues_of, workload},
    trial::{self, QueueCounts, TIMEOUT, Trial, by_queue},
    workload::Workload,
};

const ENGINES: [Engine; 6] = [
    Engine::Advanced(POOL, T, Delivery::Pull),
    Engine::Advanced(POOL, T, Delivery::Push),
    Engine::Basic(POOL, Delivery::Push),
    Engine::Tpacket(POOL),
    Engine::LibpcapDefault,
    Engine::XdpRing,
];

/// Runs the experiment, if it is wanted.
///
/// # Errors
/// Those of the trials.
pub fn run(laboratory: &mut Laboratory) -> Result<()> {
    if !laboratory.arguments.wants(Experiment::Figure13) {
        return Ok(());
    }
    let engines: Vec<_> =
        ENGINES.into_iter().filter(|engine| laboratory.arguments.measures(&engine.name())).collect();
    if engines.is_empty() {
        return Ok(());
    }
    let mut samples: Vec<_> =
        engines.iter().map(|_| [(); TABLE_1_QUEUES].map(|()| Samples::<Trial>::default())).collect();
    laboratory.plan(engines.len() * TABLE_1_QUEUES);
    for round in 1..=laboratory.arguments.rounds {
        for queues in 1..=TABLE_1_QUEUES {
            let workload = workload(laboratory, queues)?;
            for (&engine, samples) in engines.iter().zip(&mut samples) {
                let experiment = format!("forwarding, {}", queues_of(queues));
                let sample = laboratory.sample(&experiment, engine, round, |laboratory| {
                    forward(laboratory, engine, &workload)
                })?;
                samples[queues - 1].add(sample);
            }
        }
    }
    let title = "Figure 13: packets that did not arrive behind the forwarder, by number of queues";
    let numbers: Vec<String> = (1..=TABLE_1_QUEUES).map(|number| number.to_string()).collect();
    let head: Vec<&str> = ["engine"].into_iter().chain(numbers.iter().map(String::as_str)).collect();
    let mut table = Table::new(format!("{title} (measured)"), &head);
    for (engine, samples) in engines.iter().zip(&samples) {
        let cells = samples.iter().map(|samples| samples.share(samples.lost_percent()));
        table.row([engine.name()].into_iter().chain(cells));
    }
    let unexplained =
        samples.iter().flatten().map(|samples| samples.median(|trial| trial.unexplained() as f64));
    let unexplained = unexplained.fold(0.0, |worst: f64, figure| worst.max(figure.abs()));
    table.note(format!(
        "Counted at the far end of the second interface. wirecap is `wirecap handle --pace {PACE_PPS} --forward`; the others send each \
         packet by a packet socket. All handle at their pace to the end. \
         Packets that neither arrived nor are in its account: at most {unexplained:.0}."
    ));
    explain_marks(&mut table);
    let series = engines.iter().zip(&samples).map(|(engine, samples)| Series {
        name: engine.name(),
        values: samples.iter().map(|samples| Some(samples.lost_percent())).collect(),
    });
    let chart = Chart {
        title: title.into(),
        description: "A bar for each engine, by number of queues.".into(),
        plot: Plot::GroupedBars {
            groups: numbers.clone(),
            y: Axis::linear(LOST_PERCENT),
            series: series.collect(),
        },
    };
    laboratory.measured("Figure 13", table, chart)
}

/// One engine on one workload. What arrives is counted for all queues together.
fn forward(laboratory: &Laboratory, engine: Engine, workload: &Workload) -> Result<Trial> {
    let wire = Wire::new(&laboratory.bed, workload.queues as u32)?;
    let process = match engine.flags() {
        Some(flags) => start_wirecap(laboratory, &wire, &engine.name(), &flags, workload.queues)?,
        None => engine.competitor(laboratory.peers(), workload.queues)?.start_forwarding(&wire)?,
    };
    let is_stopped = laboratory.stop_flag();
    let (sent, _, arrived) = wire.count(|| trial::send(workload, is_stopped))?;
    process.interrupt()?;
    let record = process.wait(TIMEOUT)?.json()?;
    let queues = trial::sent_by_queue(&sent, workload)?;
    let all: u64 = queues.iter().map(|queue| queue.sent).sum();
    ensure!(arrived <= all, "{arrived} packets arrived of {all}: others, too");
    let (counted_lost, woke_late_ms) = match engine.flags() {
        Some(_) => lost_by_wirecap(&record)?,
        None => lost_by_peer(&record)?,
    };
    let late_ms = trial::sent_late_ms(&sent).max(woke_late_ms);
    let json = json!({ "sent": sent, "arrived": arrived, "handled": record });
    let counts = QueueCounts { sent: all, received: arrived, counted_lost };
    Ok(Trial { queues: vec![counts], cpu_ns: f64::NAN, buffer_bytes: 0, late_ms, json })
}

fn start_wirecap(
    laboratory: &Laboratory,
    wire: &Wire<'_>,
    name: &str,
    flags: &str,
    threads: usize,
) -> Result<Process> {
    let mut command = wire.pinned(&laboratory.wirecap()?.to_string_lossy());
    command.args(["handle", &format!("xdp:{NEAR}"), "--forward", &format!("xdp:{FAR}"), "--json", "--quiet"]);
    command.args(["--pace", &PACE_PPS.to_string(), "--threads", &threads.to_string()]);
    command.args(flags.split_whitespace());
    Process::start(name, command, ReadySign::When(&|| wire.has_programs()))
}

/// What the command counts as lost, and by how much a thread woke late, at worst, in milliseconds.
fn lost_by_wirecap(record: &Value) -> Result<(u64, f64)> {
    let threads = record["handled"]["threads"].as_array().context("the threads of the record")?;
    let late_ms = threads.iter().filter_map(|thread| thread["late_ms"].as_f64()).fold(0.0, f64::max);
    let queues = record["ports"][0]["queues"].as_array().context("the queues of the record")?;
    let lost = queues.iter().filter_map(|queue| queue["lost"].as_object()).map(counted_lost).sum::<u64>();
    let not_sent = record["handled"]["sent_on"]["dropped"].as_object().map_or(0, counted_lost);
    Ok((lost + not_sent, late_ms))
}

/// The same of a peer.
fn lost_by_peer(report: &Value) -> Result<(u64, f64)> {
    let lost: u64 = by_queue(report)?.iter().map(|(_, lost)| lost).sum();
    let unsent = report["unsent"].as_u64().context("a report without unsent packets")?;
    Ok((lost + unsent, Outcome::read(report.clone())?.latest_wake_ms()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_before_and_behind_the_handler_counts() {
        let wirecap = json!({
            "handled": {
                "threads": [{ "late_ms": 0.5 }, { "late_ms": 2.0 }],
                "sent_on": { "dropped": { "too_long": 3 } }
            },
            "ports": [{ "queues": [{ "lost": { "no_buffer": 1 } }, { "lost": { "no_buffer": 5 } }] }]
        });
        assert_eq!(lost_by_wirecap(&wirecap).unwrap(), (9, 2.0));
        let peer = json!({
            "packets": 10, "seconds": 1.0, "cpu_seconds": 0.1, "unsent": 2, "latest_wake_ms": 1.5,
            "by_queue": [{ "packets": 10, "left_in_ring": 0, "dropped": { "tp_drops": 4 } }]
        });
        assert_eq!(lost_by_peer(&peer).unwrap(), (6, 1.5));
        assert!(lost_by_peer(&json!({ "by_queue": [] })).is_err());
    }
}
