//! Queues of which one is hot: Table 1, Figures 11 and 12.
//!
//! ```text
//!   queue 0       80,000 packets/s ──► a handler of 38,844     over T: to buddies
//!   the others   100,000 together  ──► a handler of 38,844 each
//! ```
//!
//! Target: advanced mode loses nothing with five and six queues, whose handlers together can handle the
//! traffic, where engines without offloading lose a fifth to a half of the packets of queue 0.

use std::collections::HashMap;

use anyhow::Result;
use wirecap_lab::table::{Table, grouped};
use wirecap_report::{Axis, Chart, Plot, Series};
use wirecap_sim::{outcome::Outcome, table::simulated, traffic::Traffic};

use crate::{
    arguments::Experiment,
    engine::{Delivery, Engine, Pool},
    laboratory::Laboratory,
    samples::{Samples, explain_marks},
    trial::{self, Trial},
    workload::{Workload, stand_in},
};

/// M and R of section 4.
pub const POOL: Pool = Pool { m: 256, r: 100 };
const LARGE_POOL: Pool = Pool { m: 256, r: 500 };
/// T of Figure 11.
pub const T: u8 = 60;
/// T of Figure 12.
const THRESHOLDS: [u8; 5] = [50, 60, 70, 80, 90];
/// Queues of Table 1, and the one of them that it shows beside queue 0.
pub const TABLE_1_QUEUES: usize = 6;
const OTHER_QUEUE: usize = 3;

/// The engines of Figure 11.
const ENGINES: [Engine; 5] = [
    Engine::Advanced(POOL, T, Delivery::Pull),
    Engine::Basic(POOL, Delivery::Push),
    Engine::Tpacket(POOL),
    Engine::LibpcapDefault,
    Engine::XdpRing,
];

/// All engines of these experiments.
pub fn engines() -> impl Iterator<Item = Engine> {
    let of_12 = THRESHOLDS.map(|t| Engine::Advanced(POOL, t, Delivery::Pull));
    ENGINES.into_iter().chain(MORE_ENGINES).chain(of_12)
}

/// What Table 1 has beyond them.
const MORE_ENGINES: [Engine; 4] = [
    Engine::Advanced(POOL, T, Delivery::Push),
    Engine::Advanced(POOL, T, Delivery::Packed),
    Engine::Basic(LARGE_POOL, Delivery::Push),
    Engine::Libpcap(POOL),
];

/// The vertical axis of charts.
pub const LOST_PERCENT: &str = "packets lost, in percent";

/// An engine on a number of queues: measured, and what the simulator makes of the same packets.
#[derive(Default)]
struct Point {
    samples: Samples<Trial>,
    simulated: Option<Outcome>,
}

impl Point {
    fn lost_percent(&self) -> f64 {
        self.samples.lost_percent()
    }

    fn simulated_percent(&self) -> Option<f64> {
        self.simulated.as_ref().map(|outcome| outcome.total().lost_percent())
    }
}

/// All points that were measured.
type Points = HashMap<(Engine, usize), Point>;

/// Runs those of the experiments that are wanted. A point that two of them have is measured once.
///
/// # Errors
/// Those of the trials.
pub fn run(laboratory: &mut Laboratory) -> Result<()> {
    let mut points = Points::new();
    laboratory.plan((1..=TABLE_1_QUEUES).map(|queues| wanted(laboratory, queues).len()).sum());
    for round in 1..=laboratory.arguments.rounds {
        for queues in 1..=TABLE_1_QUEUES {
            let wanted = wanted(laboratory, queues);
            if wanted.is_empty() {
                continue;
            }
            let workload = workload(laboratory, queues)?;
            for engine in wanted {
                let sample = measure(laboratory, engine, round, &workload)?;
                let point = points.entry((engine, queues)).or_default();
                point.samples.add(sample);
                if round == 1 {
                    point.simulated = engine.simulate(&workload.traffic)?;
                }
            }
        }
    }
    if laboratory.arguments.wants(Experiment::Table1) {
        let (table, chart) = table_1(&points);
        laboratory.measured("Table 1", table, chart)?;
    }
    if laboratory.arguments.wants(Experiment::Figure11) {
        let rows = ENGINES.map(|engine| (engine.name(), engine));
        figure(laboratory, "Figure 11", "packets lost, by number of queues", "engine", &rows, 1, &points)?;
    }
    if laboratory.arguments.wants(Experiment::Figure12) {
        let rows = THRESHOLDS.map(|t| (format!("{t} %"), Engine::Advanced(POOL, t, Delivery::Pull)));
        let title = "packets lost by WireCAP-A-(256, 100, T), by number of queues";
        figure(laboratory, "Figure 12", title, "T", &rows, 4, &points)?;
    }
    Ok(())
}

/// The engines that are needed with this number of queues, each once.
fn wanted(laboratory: &Laboratory, queues: usize) -> Vec<Engine> {
    let arguments = &laboratory.arguments;
    let mut wanted = Vec::new();
    if arguments.wants(Experiment::Figure11)
        || (arguments.wants(Experiment::Table1) && queues == TABLE_1_QUEUES)
    {
        wanted.extend(ENGINES);
    }
    if arguments.wants(Experiment::Table1) && queues == TABLE_1_QUEUES {
        wanted.extend(MORE_ENGINES);
    }
    if arguments.wants(Experiment::Figure12) && queues >= 4 {
        let of_12 = THRESHOLDS.map(|t| Engine::Advanced(POOL, t, Delivery::Pull));
        wanted.extend(of_12.into_iter().filter(|engine| !wanted.contains(engine)).collect::<Vec<_>>());
    }
    wanted.retain(|engine| arguments.measures(&engine.name()));
    wanted
}

/// The packets of these experiments, for a number of queues.
///
/// # Errors
/// If the trace cannot be read, or has no room.
pub fn workload(laboratory: &Laboratory, queues: usize) -> Result<Workload> {
    let arguments = &laboratory.arguments;
    match &arguments.trace {
        Some(file) => {
            let workload = Workload::of_trace(file, queues, &arguments.tmpfs)?;
            let seconds = workload.seconds();
            laboratory.progress(&format!("the trace on {} lasts {seconds:.1} s", queues_of(queues)));
            if workload.left_out > 0 {
                let left_out = grouped(workload.left_out);
                laboratory
                    .progress(&format!("{left_out} packets are left out: no header, or over 1,514 bytes"));
            }
            Ok(workload)
        }
        None => {
            let traffic: Traffic = stand_in(queues, arguments.seconds, arguments.seed);
            Workload::generated(traffic, arguments.seed, &arguments.tmpfs)
        }
    }
}

fn measure(laboratory: &mut Laboratory, engine: Engine, round: u32, workload: &Workload) -> Result<Trial> {
    let competitor = laboratory.competitor(engine, workload.queues)?;
    let experiment = queues_of(workload.queues);
    laboratory.sample(&experiment, engine, round, |laboratory| {
        trial::run(&laboratory.bed, &competitor, workload, laboratory.stop_flag())
    })
}

/// A number of queues in words.
pub fn queues_of(number: usize) -> String {
    format!("{number} {}", if number == 1 { "queue" } else { "queues" })
}

/// A share for a table.
fn percent(value: f64) -> String {
    format!("{value:.1} %")
}

fn table_1(points: &Points) -> (Table, Chart) {
    let head = [
        "engine",
        "all buffers, MiB",
        "offered",
        "received",
        "queue 0: lost",
        "queue 3: lost",
        "all: lost",
        "without a count",
        "CPU ns/packet",
        "latest, ms",
    ];
    let mut table = Table::new("Table 1: packets lost with six queues (measured)", &head);
    let mut sent = None;
    let (mut groups, mut losses) = (Vec::new(), [Vec::new(), Vec::new()]);
    for engine in ENGINES.into_iter().chain(MORE_ENGINES) {
        let Some(point) = points.get(&(engine, TABLE_1_QUEUES)) else { continue };
        sent = sent.or_else(|| point.samples.first().map(|trial| trial.queues.clone()));
        groups.push(engine.name());
        let packets = |of: fn(&Trial) -> u64| grouped(point.samples.median(|trial| of(trial) as f64) as u64);
        for (losses, queue) in losses.iter_mut().zip([0, OTHER_QUEUE]) {
            losses.push(Some(point.samples.median(|trial| trial.queues[queue].lost_percent())));
        }
        table.row([
            engine.name(),
            format!("{:.0}", point.samples.median(|trial| trial.buffer_bytes as f64) / f64::from(1 << 20)),
            packets(|trial| trial.total().sent),
            packets(|trial| trial.total().received),
            point.samples.share(point.samples.median(|trial| trial.queues[0].lost_percent())),
            point.samples.share(point.samples.median(|trial| trial.queues[OTHER_QUEUE].lost_percent())),
            point.samples.share(point.lost_percent()),
            format!("{:.0}", point.samples.median(|trial| trial.unexplained() as f64)),
            format!("{:.0}", point.samples.median(|trial| trial.cpu_ns)),
            format!("{:.1}", point.samples.median(|trial| trial.late_ms)),
        ]);
    }
    if let Some(sent) = sent {
        table.note(format!(
            "Of those offered, {} came to queue 0, {} to queue {OTHER_QUEUE}. Latest: by how much a packet left late, or a handler \
             woke late, at worst.",
            grouped(sent[0].sent),
            grouped(sent[OTHER_QUEUE].sent),
        ));
    }
    explain_marks(&mut table);
    let [hot, bursty] = losses;
    let chart = Chart {
        title: "Packets lost with six queues".into(),
        description: format!(
            "Two bars for each engine: packets lost of queue 0, and of queue {OTHER_QUEUE}."
        ),
        plot: Plot::GroupedBars {
            groups,
            y: Axis::linear(LOST_PERCENT),
            series: vec![
                Series { name: "queue 0".into(), values: hot },
                Series { name: format!("queue {OTHER_QUEUE}"), values: bursty },
            ],
        },
    };
    (table, chart)
}

/// A figure by number of queues: measured, and simulated with the same packets.
fn figure(
    laboratory: &mut Laboratory,
    name: &str,
    title: &str,
    what: &str,
    rows: &[(String, Engine)],
    from: usize,
    points: &Points,
) -> Result<()> {
    let queues = from..=TABLE_1_QUEUES;
    let numbers: Vec<String> = queues.clone().map(|number| number.to_string()).collect();
    let head: Vec<&str> = [what].into_iter().chain(numbers.iter().map(String::as_str)).collect();
    let mut measured = Table::new(format!("{name}: {title} (measured)"), &head);
    let mut model = simulated(&format!("{name}: {title}: the same packets"), &head);
    let (mut differences, mut series) = (Vec::new(), Vec::new());
    for (label, engine) in rows {
        let of_row: Vec<_> = queues.clone().map(|queues| points.get(&(*engine, queues))).collect();
        if of_row.iter().all(Option::is_none) {
            continue;
        }
        let missing = || "–".to_owned();
        let lost = |point: &Option<&Point>| {
            point.map_or_else(missing, |point| point.samples.share(point.lost_percent()))
        };
        measured.row([label.clone()].into_iter().chain(of_row.iter().map(lost)));
        let values = of_row.iter().map(|point| point.map(Point::lost_percent)).collect();
        series.push(Series { name: label.clone(), values });
        let of_model =
            |point: &Option<&Point>| point.and_then(Point::simulated_percent).map_or_else(missing, percent);
        if of_row.iter().flatten().any(|point| point.simulated.is_some()) {
            model.row([label.clone()].into_iter().chain(of_row.iter().map(of_model)));
        }
        differences.extend(
            of_row
                .iter()
                .flatten()
                .filter_map(|point| Some(point.lost_percent() - point.simulated_percent()?)),
        );
    }
    if let Some(worst) = differences.iter().copied().max_by(|one, other| one.abs().total_cmp(&other.abs())) {
        model.note(format!("Measured less simulated: at most {worst:+.1} percentage points."));
    }
    let offered = queues.clone().filter_map(|queues| {
        let point = rows.iter().find_map(|(_, engine)| points.get(&(*engine, queues)))?;
        Some(grouped(point.samples.first()?.total().sent))
    });
    measured.note(format!("Packets offered to each engine: {}.", offered.collect::<Vec<_>>().join(", ")));
    explain_marks(&mut measured);
    let chart = Chart {
        title: format!("{name}: {title}"),
        description: format!(
            "Measured losses of all queues together, by number of queues; each bar is one {what}."
        ),
        plot: Plot::GroupedBars {
            groups: queues.map(|number| format!("{number}")).collect(),
            y: Axis::linear(LOST_PERCENT),
            series,
        },
    };
    laboratory.measured(name, measured, chart)?;
    laboratory.simulated(&model)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::QueueCounts;

    #[test]
    fn tables_leave_out_what_was_not_measured() {
        let mut point = Point::default();
        point.samples.add(Trial {
            queues: vec![QueueCounts { sent: 1000, received: 900, counted_lost: 100 }; TABLE_1_QUEUES],
            cpu_ns: 150.0,
            buffer_bytes: 300 << 20,
            late_ms: 0.2,
            json: serde_json::Value::Null,
        });
        let points = Points::from([((ENGINES[1], TABLE_1_QUEUES), point)]);
        let text = table_1(&points).0.to_string();
        let row = "WireCAP-B-(256, 100), push |              300 |   6,000 |    5,400 |        10.0 %";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("(measured)") && !text.contains("libpcap"), "{text}");
        assert!(text.contains("1,000 came to queue 0, 1,000 to queue 3."), "{text}");
    }
}
