//! Bursts into one queue, as fast as they can be made: Figures 9 and 10.
//!
//! Target: what a pool can hold is not lost, and only R × M counts.

use std::thread;

use anyhow::Result;
use serde_json::json;
use wirecap_bench::{
    bed::{Amount, Traffic as Sent, sent_json},
    competitor::Outcome,
    stats::Summary,
};
use wirecap_lab::table::{Table, grouped};
use wirecap_report::{Axis, Chart, Line, Plot};
use wirecap_sim::{table::simulated, traffic::Traffic};

use crate::{
    arguments::Experiment,
    engine::{Delivery, Engine, Pool},
    laboratory::Laboratory,
    samples::{Samples, explain_marks},
    skew::LOST_PERCENT,
    trial::{self, DRAIN, QueueCounts, Sample, TIMEOUT, Trial},
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

/// All engines of these experiments.
pub fn engines() -> impl Iterator<Item = Engine> {
    FIGURE_9.into_iter().chain(FIGURE_10)
}

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
    let engines: Vec<_> =
        engines.iter().copied().filter(|engine| laboratory.arguments.measures(&engine.name())).collect();
    let mut samples: Vec<_> = engines.iter().map(|_| BURSTS.map(|_| Samples::<Burst>::default())).collect();
    laboratory.plan(engines.len() * BURSTS.len());
    for round in 1..=laboratory.arguments.rounds {
        for (position, packets) in BURSTS.into_iter().enumerate() {
            for (&engine, samples) in engines.iter().zip(&mut samples) {
                samples[position].add(burst(laboratory, engine, round, packets)?);
            }
        }
    }
    let lengths = BURSTS.map(grouped);
    let head: Vec<&str> = ["engine"].into_iter().chain(lengths.iter().map(String::as_str)).collect();
    let with_rate: Vec<&str> = head.iter().copied().chain(["Mpps"]).collect();
    let mut measured = Table::new(format!("{name}: {title} (measured)"), &with_rate);
    let mut model = simulated(&format!("{name}: {title}: at the measured rates"), &head);
    let (mut differences, mut lines) = (Vec::new(), Vec::new());
    for (engine, of_engine) in engines.iter().zip(&samples) {
        let shares = of_engine.iter().map(|samples| samples.share(samples.lost_percent()));
        let rates = of_engine.iter().map(|samples| samples.median(|burst| burst.pps));
        let rate = Summary::of(rates).map_or_else(String::new, |rate| format!("{:.2}", rate.median / 1e6));
        measured.row([engine.name()].into_iter().chain(shares).chain([rate]));
        let points =
            BURSTS.iter().zip(of_engine).map(|(&packets, samples)| (packets as f64, samples.lost_percent()));
        lines.push(Line { name: engine.name(), points: points.collect() });
        let mut of_model = Vec::new();
        for (packets, samples) in BURSTS.into_iter().zip(of_engine) {
            if let Some(outcome) =
                engine.simulate(&Traffic::burst(packets, samples.median(|burst| burst.pps)))?
            {
                let simulated = outcome.total().lost_percent();
                differences.push(samples.lost_percent() - simulated);
                of_model.push(format!("{simulated:.1} %"));
            }
        }
        if !of_model.is_empty() {
            model.row([engine.name()].into_iter().chain(of_model));
        }
    }
    measured.note(
        "64-byte frames, as fast as the kernel generates them. The generator's core also does the receive work of the engine, so a \
         burst is slower for an engine that needs more of it: Mpps is the median of its bursts."
    );
    explain_marks(&mut measured);
    if let Some(worst) = differences.iter().copied().max_by(|one, other| one.abs().total_cmp(&other.abs())) {
        model.note(format!("Measured less simulated: at most {worst:+.1} percentage points."));
    }
    let chart = Chart {
        title: format!("{name}: {title}"),
        description: "A line for each engine: its loss by the length of the burst.".into(),
        plot: Plot::Lines { x: Axis::log("packets in the burst"), y: Axis::linear(LOST_PERCENT), lines },
    };
    laboratory.measured(name, measured, chart)?;
    laboratory.simulated(&model)
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

fn burst(laboratory: &mut Laboratory, engine: Engine, round: u32, packets: u64) -> Result<Burst> {
    let competitor = laboratory.competitor(engine, 1)?;
    let experiment = format!("burst of {}", grouped(packets));
    laboratory.sample(&experiment, engine, round, |laboratory| {
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
        let (received, counted_lost) = trial::by_queue(&outcome.all)?
            .into_iter()
            .fold((0, 0), |sum, queue| (sum.0 + queue.0, sum.1 + queue.1));
        let counts = QueueCounts { sent: sent.frames, received, counted_lost };
        let json = json!({ "sent": sent_json(&sent), "received": outcome.all });
        Ok(Burst { trial: Trial { queues: vec![counts], cpu_ns, buffer_bytes, late_ms, json }, pps })
    })
}
