//! Skew between queues: Table 1, Figures 11, 12 and 13.

use wirecap_core::GeometryError;
use wirecap_lab::table::Table;
use wirecap_report::{Axis, Chart, Plot, Series};

use super::{findings::Findings, simulation::Simulation};
use crate::{
    engines::{
        Engine,
        ring::Release,
        wirecap::{Transmit, WirecapEngine},
    },
    losses::Losses,
    outcome::{Outcome, QueueOutcome},
    parameters::Parameters,
    table::{millions_of, percent, simulated},
    traffic::{Phase, Traffic},
};

/// The mean length of a burst of the traffic that stands in for the trace. Assumed: the paper gives only one,
/// of 2,724 packets within 110 ms at queue 3.
const MEAN_BURST: f64 = 60.0;
/// The queue with bursts that Table 1 has.
pub const BURSTY_QUEUE: usize = 3;

/// The traffic that stands in for the trace of the border router, on this number of queues: 5 million packets
/// in 32 s (section 2.2). Queue 0 gets 80,000 packets/s from 10 s on, and 14,000 before, the rest of the 5
/// million; the others get 100,000 together from 1 s on: 20,000 each with six queues. That the hot flows stay
/// in one queue however many there are is assumed.
pub fn traffic(queues: usize, seed: u64) -> Traffic {
    let phase = |from_s, until_s, pps| Phase { from_s, until_s, pps };
    let hot = [phase(0.0, 10.0, 14_000.0), phase(10.0, 32.0, 80_000.0)];
    let phases: Vec<Vec<Phase>> = match queues {
        1 => vec![vec![phase(0.0, 1.0, 14_000.0), phase(1.0, 10.0, 114_000.0), phase(10.0, 32.0, 180_000.0)]],
        _ => {
            let other = vec![phase(1.0, 32.0, 100_000.0 / (queues - 1) as f64)];
            [hot.to_vec()].into_iter().chain((1..queues).map(|_| other.clone())).collect()
        }
    };
    Traffic::bursty(&phases, MEAN_BURST, seed)
}

/// What becomes of handled packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Discard,
    Forward,
}

/// Engines with the sizes of section 4, for a number of queues.
fn engines(simulation: &Simulation, queues: usize, purpose: Purpose) -> Vec<(String, Engine)> {
    let Parameters { m, r, t, pace_pps, rate_pps, ring, .. } = simulation.parameters;
    // Where the packet lies in the ring until it is sent, the wire limits the pace.
    let pace_pps = if purpose == Purpose::Forward { pace_pps.min(rate_pps) } else { pace_pps };
    let transmit = (purpose == Purpose::Forward).then_some(Transmit { ring, wire_pps: rate_pps });
    let wirecap = |engine| Engine::Wirecap(WirecapEngine { transmit, ..engine });
    let mut engines = vec![
        ("NETMAP".into(), simulation.ring(Release::Batch, pace_pps)),
        ("DNA".into(), simulation.ring(Release::Each, pace_pps)),
        ("PF_RING".into(), simulation.pf_ring(pace_pps)),
        ("DPDK, a handler fewer".into(), simulation.balancer(queues, queues.saturating_sub(1).max(1))),
        ("DPDK, a core more".into(), simulation.balancer(queues, queues)),
        (format!("B-({m}, {r})"), wirecap(simulation.basic((m, r), pace_pps))),
        (format!("B-({m}, {})", 5 * r), wirecap(simulation.basic((m, 5 * r), pace_pps))),
        (format!("A-({m}, {r}, {t} %)"), wirecap(simulation.advanced((m, r), t, pace_pps))),
    ];
    if purpose == Purpose::Forward {
        // The paper could not make NETMAP work; a balancer that forwards is not modelled.
        engines.retain(|(_, engine)| {
            !matches!(engine, Engine::Balancer(_))
                && !matches!(engine, Engine::Ring(ring) if ring.release == Release::Batch)
        });
    }
    engines
}

/// The outcome of Table 1 for each engine.
///
/// # Errors
/// M or R is not possible.
pub fn six_queues(simulation: &Simulation) -> Result<Vec<(String, Outcome)>, GeometryError> {
    let Parameters { queues, seed, .. } = simulation.parameters;
    let traffic = traffic(queues, seed);
    let engines = engines(simulation, queues, Purpose::Discard).into_iter();
    engines.map(|(name, engine)| Ok((name, simulation.run(&engine, &traffic)?))).collect()
}

/// The queues that Figure 3 and Table 1 show, of a number of queues: the hot one and one with bursts, if
/// there is another.
pub fn shown(queues: usize) -> impl Iterator<Item = usize> {
    let bursty = BURSTY_QUEUE.min(queues - 1);
    [0].into_iter().chain((bursty > 0).then_some(bursty))
}

/// Capture and delivery drops of a queue, in percent of what it got.
pub fn drops(of: QueueOutcome) -> [f64; 2] {
    [of.not_captured, of.not_delivered].map(|lost| share(lost, of))
}

/// A share in percent of what a queue got.
fn share(lost: u64, of: QueueOutcome) -> f64 {
    100.0 * lost as f64 / of.offered.max(1) as f64
}

/// What the paper has in Table 1: capture and delivery drops of queue 0, then of queue 3, in percent.
pub const PAPER_TABLE_1: [(&str, [f64; 4]); 3] =
    [("NETMAP", [46.5, 0.0, 33.4, 0.0]), ("DNA", [50.1, 0.0, 9.3, 0.0]), ("PF_RING", [0.0, 56.8, 0.8, 0.0])];

/// The drops of the queues that are shown. The paper's figures of queue 3 are left out beside another one.
fn table_of_drops(queues: usize, outcomes: &[(String, Outcome)]) -> Table {
    let columns = shown(queues).flat_map(|queue| [format!("queue {queue}: capture"), "delivery".into()]);
    let head: Vec<String> =
        ["engine".into()].into_iter().chain(columns).chain(["paper (percent)".into()]).collect();
    let head: Vec<_> = head.iter().map(String::as_str).collect();
    let mut table = simulated("Table 1: packets lost", &head);
    let known = if queues > BURSTY_QUEUE { 4 } else { 2 };
    for (name, outcome) in outcomes {
        let cells = shown(queues).flat_map(|queue| drops(outcome.queues[queue]).map(percent));
        let paper = PAPER_TABLE_1.iter().find(|(engine, _)| engine == name);
        let paper = paper.map_or_else(String::new, |(_, figures)| {
            figures[..known].iter().map(f64::to_string).collect::<Vec<_>>().join(" / ")
        });
        table.row([name.clone()].into_iter().chain(cells).chain([paper]));
    }
    table
}

/// Table 1: six queues, of which 0 is hot and 3 has bursts.
///
/// # Errors
/// M or R is not possible.
pub fn table_1(simulation: &Simulation) -> Result<Findings, GeometryError> {
    let outcomes = six_queues(simulation)?;
    let table = table_of_drops(simulation.parameters.queues, &outcomes);
    let series = |name: &str, lost: fn(QueueOutcome) -> u64| Series {
        name: name.into(),
        values: outcomes
            .iter()
            .map(|(_, outcome)| Some(share(lost(outcome.queues[0]), outcome.queues[0])))
            .collect(),
    };
    let chart = Chart {
        title: "Table 1: packets lost at queue 0".into(),
        description: "At the hot queue, engines without offloading lose about half of all packets.".into(),
        plot: Plot::StackedBars {
            groups: outcomes.iter().map(|(name, _)| name.clone()).collect(),
            y: Axis::linear("packets lost in percent"),
            series: vec![
                series("not captured", |queue| queue.not_captured),
                series("not delivered", |queue| queue.not_delivered),
            ],
        },
    };
    Ok(Findings { tables: vec![table], charts: vec![chart], ..Findings::default() })
}

/// Losses of all engines by number of queues.
fn by_queues(simulation: &Simulation, title: &str, purpose: Purpose) -> Result<Losses, GeometryError> {
    let Parameters { queues, seed, .. } = simulation.parameters;
    let mut rows: Vec<(String, Vec<f64>)> = Vec::new();
    for queues in 1..=queues {
        let traffic = traffic(queues, seed);
        for (at, (name, engine)) in engines(simulation, queues, purpose).into_iter().enumerate() {
            if queues == 1 {
                rows.push((name, Vec::new()));
            }
            rows[at].1.push(simulation.run(&engine, &traffic)?.total().lost_percent());
        }
    }
    Ok(Losses { title: title.into(), row: "engine", columns: (1..=queues as u64).collect(), rows })
}

fn findings(losses: &Losses, description: &str) -> Findings {
    let chart = losses.lines(Axis::linear("receive queues"), description);
    Findings { tables: vec![losses.table()], charts: vec![chart], ..Findings::default() }
}

/// Figure 11: one to six queues, all engines.
///
/// # Errors
/// M or R is not possible.
pub fn figure_11(simulation: &Simulation) -> Result<Findings, GeometryError> {
    let losses = by_queues(simulation, "Figure 11: packets lost, by number of queues", Purpose::Discard)?;
    Ok(findings(&losses, "A line for each engine, by number of queues."))
}

/// Figure 12: T from 50 to 90 %.
///
/// # Errors
/// M or R is not possible.
pub fn figure_12(simulation: &Simulation) -> Result<Findings, GeometryError> {
    let Parameters { m, r, queues, seed, pace_pps, .. } = simulation.parameters;
    let columns: Vec<_> = (queues.saturating_sub(2).max(1)..=queues).collect();
    let traffic: Vec<_> = columns.iter().map(|&queues| traffic(queues, seed)).collect();
    let row = |threshold: u8| {
        let engine = Engine::Wirecap(simulation.advanced((m, r), threshold, pace_pps));
        let lost = traffic.iter().map(|traffic| Ok(simulation.run(&engine, traffic)?.total().lost_percent()));
        Ok((format!("{threshold} %"), lost.collect::<Result<_, GeometryError>>()?))
    };
    let losses = Losses {
        title: format!("Figure 12: packets lost by A-({m}, {r}, T), by number of queues"),
        row: "T",
        columns: columns.iter().map(|&queues| queues as u64).collect(),
        rows: [50, 60, 70, 80, 90].into_iter().map(row).collect::<Result<_, GeometryError>>()?,
    };
    let chart = losses.bars("queues", "A bar for each T, by number of queues.");
    Ok(Findings { tables: vec![losses.table()], charts: vec![chart], ..Findings::default() })
}

/// Figure 13: as Figure 11, and handled packets are forwarded.
///
/// # Errors
/// M or R is not possible.
pub fn figure_13(simulation: &Simulation) -> Result<Findings, GeometryError> {
    let title = "Figure 13: packets lost where handled packets are forwarded, by number of queues";
    let losses = by_queues(simulation, title, Purpose::Forward)?;
    let mut findings = findings(&losses, "A line for each engine, by number of queues.");
    findings.paragraphs.push(format!(
        "A cell comes home once its packet is sent. Each handler has a transmit ring as long as a receive ring; \
         all share a wire of {} million packets/s. NETMAP is left out, as in the paper; the pace of the \
         handlers is assumed to include the hand-over to the transmit ring.",
        millions_of(simulation.parameters.rate_pps),
    ));
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HANDLER_PPS;

    #[test]
    fn the_traffic_has_the_figures_of_the_paper() {
        for queues in 1..=6 {
            let traffic = traffic(queues, 1);
            assert!((traffic.packets() as f64 - 5e6).abs() < 0.02 * 5e6, "{queues}: {}", traffic.packets());
        }
    }

    /// Offloading and balancing lose nothing with six queues; basic mode loses the excess for the worker of
    /// queue 0, less what its pool holds, and the other queues lose bursts as well.
    #[test]
    fn only_engines_that_level_the_queues_lose_nothing_with_six_of_them() {
        let simulation = Simulation::new(Parameters::default());
        let too_much = 22.0 * (80_000.0 - HANDLER_PPS);
        let outcomes = six_queues(&simulation).unwrap();
        assert_eq!(outcomes.len(), 8);
        for (name, outcome) in &outcomes {
            let total = outcome.total();
            assert_eq!(total.offered, traffic(6, 1).packets(), "{name}");
            assert_eq!(total.handled + total.lost(), total.offered, "{name}");
            let lost = total.lost() as f64;
            match name.as_str() {
                "A-(256, 100, 60 %)" | "DPDK, a core more" | "DPDK, a handler fewer" => {
                    assert_eq!(lost, 0.0, "{name}")
                }
                "B-(256, 100)" => assert!((lost + 25_600.0 - too_much).abs() < 0.05 * too_much, "{lost}"),
                "B-(256, 500)" => assert!((lost + 128_000.0 - too_much).abs() < 0.05 * too_much, "{lost}"),
                _ => assert!((too_much..2.0 * too_much).contains(&lost), "{name}: {lost}"),
            }
        }
        let packets: u64 = outcomes.iter().map(|(_, outcome)| outcome.total().offered).sum();
        assert_eq!(simulation.packets(), packets);
    }

    #[test]
    fn only_queues_that_exist_have_columns_and_figures_of_the_paper() {
        let table = |queues| {
            let outcome = Outcome { queues: vec![QueueOutcome::default(); queues], offloaded: 0 };
            table_of_drops(queues, &[("DNA".into(), outcome)]).to_string()
        };
        let cases = [
            (1, "| queue 0: capture | delivery | paper (percent) |", "|        50.1 / 0 |"),
            (2, "| queue 1: capture | delivery | paper (percent) |", "|        50.1 / 0 |"),
            (6, "| queue 3: capture | delivery |    paper (percent) |", "| 50.1 / 0 / 9.3 / 0 |"),
        ];
        for (queues, head, paper) in cases {
            let table = table(queues);
            assert!(table.contains(head) && table.contains(paper), "{table}");
            assert_eq!(table.matches(": capture").count(), queues.min(2), "{table}");
        }
    }

    #[test]
    fn the_wire_of_figure_13_has_the_rate_that_is_set() {
        let parameters = Parameters { queues: 1, rate_pps: 2e6, ..Parameters::default() };
        let findings = figure_13(&Simulation::new(parameters)).unwrap();
        assert!(findings.paragraphs[0].contains("a wire of 2.00 million packets/s"), "{findings:?}");
    }

    #[test]
    fn forwarding_leaves_netmap_out_and_gives_wirecap_a_transmit_ring() {
        let engines = engines(&Simulation::new(Parameters::default()), 6, Purpose::Forward);
        let names: Vec<_> = engines.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["DNA", "PF_RING", "B-(256, 100)", "B-(256, 500)", "A-(256, 100, 60 %)"]);
        assert!(matches!(engines[4].1, Engine::Wirecap(engine) if engine.transmit.is_some()));
    }
}
