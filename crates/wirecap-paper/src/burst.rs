//! Bursts into one queue, as fast as they can be made: Figures 9 and 10.
//!
//! Target: what a pool can hold is not lost, and only R × M counts.

use std::thread;

use anyhow::Result;
use serde_json::json;
use wirecap_bench::{
    bed::{Amount, Traffic as Sent},
    competitor::{Measurement, Outcome},
    stats::Summary,
};
use wirecap_lab::table::{Table, grouped};
use wirecap_report::{Axis, Chart, Line, Plot};
use wirecap_sim::{table::simulated, traffic::Traffic};

use crate::{
    arguments::Experiment,
    engine::{Delivery, Engine, Pool},
    laboratory::Laboratory,
    skew::LOST_PERCENT,
    trial::{DRAIN, QueueCounts, Sample, TIMEOUT, Trial},
};

/// Bytes of a 64-byte frame without its FCS.
const FRAME_LEN: usize = 60;
/// Lengths of bursts, in packets.
const BURSTS: [u64; 7] = [1_000, 2_000, 6_000, 10_000, 20_000, 50_000, 100_000];

const fn basic(m: u32, r: u32) -> Engine {
    Engine::Basic(Pool { m, r }, Delivery::Push)
}

const FIGURE_9: [Engine; 6] = [
    basic(256, 500),
    basic(256, 100),
    Engine::Basic(Pool { m: 256, r: 100 }, Delivery::Packed),
    Engine::Tpacket(Pool { m: 256, r: 100 }),
    Engine::LibpcapDefault,
    Engine::XdpRing,
];

const FIGURE_10: [Engine; 3] = [basic(64, 400), basic(128, 200), basic(256, 100)];

/// Runs those of the experiments that are wanted.
///
/// # Errors
/// Those of the trials.
pub fn run(laboratory: &mut Laboratory) -> Result<()> {
    let title = "a burst to a handler of 38,844 packets/s, by its length";
    if laboratory.arguments.wants(Experiment::Figure9) {
        figure(laboratory, "Figure 9", &format!("packets lost of {title}"), &FIGURE_9)?;
    }
    if laboratory.arguments.wants(Experiment::Figure10) {
        let title = format!("R × M = 25,600 in three ways: packets lost of {title}");
        figure(laboratory, "Figure 10", &title, &FIGURE_10)?;
    }
    Ok(())
}

fn figure(laboratory: &mut Laboratory, name: &str, title: &str, engines: &[Engine]) -> Result<()> {
    let lengths = BURSTS.map(grouped);
    let head: Vec<&str> = ["engine"].into_iter().chain(lengths.iter().map(String::as_str)).collect();
    let mut measured = Table::new(format!("{name}: {title} (measured)"), &head);
    let mut model = simulated(&format!("{name}: {title}: at the measured rates"), &head);
    let (mut rates, mut differences, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    for &engine in engines {
        if !laboratory.arguments.measures(&engine.name()) {
            continue;
        }
        let (mut lost, mut of_model) = (vec![engine.name()], vec![engine.name()]);
        let mut points = Vec::new();
        for packets in BURSTS {
            let bursts = bursts(laboratory, engine, packets)?;
            let share = median(&bursts, |burst| burst.trial.total().lost_percent());
            let pps = median(&bursts, |burst| burst.pps);
            rates.extend(bursts.iter().map(|burst| burst.pps));
            points.push((packets as f64, share));
            lost.push(format!("{share:.1} %"));
            if let Some(outcome) = engine.simulate(&Traffic::burst(packets, pps))? {
                let simulated = outcome.total().lost_percent();
                differences.push(share - simulated);
                of_model.push(format!("{simulated:.1} %"));
            }
        }
        measured.row(lost);
        lines.push(Line { name: engine.name(), points });
        if of_model.len() > 1 {
            model.row(of_model);
        }
    }
    if let Some(rate) = Summary::of(rates) {
        measured.note(format!(
            "64-byte frames, as fast as the kernel generates them: {} Mpps in the median, {} to {}.",
            mpps(rate.median),
            mpps(rate.min),
            mpps(rate.max)
        ));
    }
    if let Some(worst) = differences.iter().copied().max_by(|one, other| one.abs().total_cmp(&other.abs())) {
        model.note(format!("Measured less simulated: at most {worst:+.1} percentage points."));
    }
    let chart = Chart {
        title: format!("{name}: {title}"),
        description: "A line for each engine: its loss grows once a burst is longer than its buffer.".into(),
        plot: Plot::Lines { x: Axis::log("packets in the burst"), y: Axis::linear(LOST_PERCENT), lines },
    };
    laboratory.measured(name, measured, chart)?;
    laboratory.simulated(&model)
}

fn mpps(pps: f64) -> String {
    format!("{:.2}", pps / 1e6)
}

/// A burst: what became of it, and how fast it came.
struct Burst {
    trial: Trial,
    pps: f64,
}

impl Sample for Burst {
    fn trial(&self) -> &Trial {
        &self.trial
    }
}

fn median(bursts: &[Burst], figure: impl Fn(&Burst) -> f64) -> f64 {
    Summary::of(bursts.iter().map(figure)).map_or(f64::NAN, |summary| summary.median)
}

fn bursts(laboratory: &mut Laboratory, engine: Engine, packets: u64) -> Result<Vec<Burst>> {
    let competitor = laboratory.competitor(engine, 1)?;
    let experiment = format!("burst of {}", grouped(packets));
    laboratory.rounds(&experiment, engine, |laboratory| {
        let link = laboratory.bed.link(1)?;
        let process = competitor.start_until_interrupted(&link, &[])?;
        let sent =
            link.send(Sent { frame_len: FRAME_LEN, rate_pps: None, amount: Amount::Frames(packets) })?;
        process.lift_pace()?;
        thread::sleep(DRAIN);
        process.interrupt()?;
        let outcome = Outcome::read(process.wait(TIMEOUT)?.json()?)?;
        let pps = sent.frames_per_second();
        let (buffer_bytes, cpu_ns) =
            (outcome.all["buffer_bytes"].as_u64().unwrap_or(0), outcome.cpu_ns_per_packet());
        let late_ms = outcome.latest_wake_ms();
        let measurement = Measurement { sent, outcome };
        let counts = QueueCounts {
            sent: sent.frames,
            received: measurement.outcome.packets,
            counted_lost: measurement.outcome.dropped(),
        };
        let json = json!({ "burst": measurement.json("burst", None) });
        Ok(Burst { trial: Trial { queues: vec![counts], cpu_ns, buffer_bytes, late_ms, json }, pps })
    })
}
