//! Skew between queues: Table 1, Figures 11 and 12.

use wirecap_core::GeometryError;
use wirecap_lab::table::Table;

use super::burst::{PF_RING_BUFFER, PF_RING_COPY_NS, RING};
use crate::{
    HANDLER_PPS,
    engines::{
        copy::CopyEngine,
        ring::{Release, RingEngine},
        wirecap::WirecapEngine,
    },
    outcome::Outcome,
    table::{percent, simulated},
    traffic::{Phase, Traffic},
};

/// The mean length of a burst of the traffic that stands in for the trace. Assumed: the paper gives only one,
/// of 2,724 packets within 110 ms at queue 3.
const MEAN_BURST: f64 = 60.0;

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

/// Runs an engine.
type RunEngine = Box<dyn Fn(&Traffic) -> Result<Outcome, GeometryError>>;

/// Engines with the sizes of section 4.
fn engines() -> [(&'static str, RunEngine); 6] {
    let ring = |release| RingEngine { ring: RING, release, pace_pps: HANDLER_PPS };
    let (dna, netmap) = (ring(Release::Each), ring(Release::Batch));
    let pf_ring =
        CopyEngine { ring: RING, buffer: PF_RING_BUFFER, copy_ns: PF_RING_COPY_NS, pace_pps: HANDLER_PPS };
    [
        ("NETMAP", Box::new(move |traffic| Ok(netmap.run(traffic)))),
        ("DNA", Box::new(move |traffic| Ok(dna.run(traffic)))),
        ("PF_RING", Box::new(move |traffic| Ok(pf_ring.run(traffic)))),
        ("B-(256, 100)", Box::new(|traffic| WirecapEngine::basic(256, 100, HANDLER_PPS).run(traffic))),
        ("B-(256, 500)", Box::new(|traffic| WirecapEngine::basic(256, 500, HANDLER_PPS).run(traffic))),
        (
            "A-(256, 100, 60 %)",
            Box::new(|traffic| WirecapEngine::advanced(256, 100, 60, HANDLER_PPS).run(traffic)),
        ),
    ]
}

/// Table 1: six queues, of which 0 is hot and 3 has bursts.
///
/// # Errors
/// Never with these figures.
pub fn table_1(seed: u64) -> Result<Table, GeometryError> {
    // Capture and delivery drops of queue 0, then of queue 3.
    const PAPER: [(&str, [f64; 4]); 3] = [
        ("NETMAP", [46.5, 0.0, 33.4, 0.0]),
        ("DNA", [50.1, 0.0, 9.3, 0.0]),
        ("PF_RING", [0.0, 56.8, 0.8, 0.0]),
    ];
    let traffic = traffic(6, seed);
    let head = ["engine", "queue 0: capture", "delivery", "queue 3: capture", "delivery", "paper (percent)"];
    let mut table = simulated("Table 1: packets lost", &head);
    for (name, run) in engines() {
        let outcome = run(&traffic)?;
        let share = |lost: u64, queue: usize| {
            percent(100.0 * lost as f64 / outcome.queues[queue].offered.max(1) as f64)
        };
        let cells = [0, 3].into_iter().flat_map(|queue| {
            let of = outcome.queues[queue];
            [share(of.not_captured, queue), share(of.not_delivered, queue)]
        });
        let paper = PAPER.iter().find(|(engine, _)| *engine == name);
        let paper =
            paper.map_or_else(String::new, |(_, figures)| figures.map(|one| format!("{one}")).join(" / "));
        table.row([name.to_owned()].into_iter().chain(cells).chain([paper]));
    }
    Ok(table)
}

/// Figure 11: one to six queues, all engines.
///
/// # Errors
/// Never with these figures.
pub fn figure_11(seed: u64) -> Result<Table, GeometryError> {
    let mut table =
        simulated("Figure 11: packets lost, by number of queues", &["engine", "1", "2", "3", "4", "5", "6"]);
    let traffic: Vec<_> = (1..=6).map(|queues| traffic(queues, seed)).collect();
    for (name, run) in engines() {
        let lost =
            traffic.iter().map(|traffic| run(traffic).map(|outcome| percent(outcome.total().lost_percent())));
        let lost: Result<Vec<_>, _> = lost.collect();
        table.row([name.to_owned()].into_iter().chain(lost?));
    }
    Ok(table)
}

/// Figure 12: T from 50 to 90 %.
///
/// # Errors
/// Never with these figures.
pub fn figure_12(seed: u64) -> Result<Table, GeometryError> {
    let mut table =
        simulated("Figure 12: packets lost by A-(256, 100, T), by number of queues", &["T", "4", "5", "6"]);
    let traffic: Vec<_> = (4..=6).map(|queues| traffic(queues, seed)).collect();
    for threshold in [50, 60, 70, 80, 90] {
        let lost = traffic.iter().map(|traffic| {
            let engine = WirecapEngine::advanced(256, 100, threshold, HANDLER_PPS);
            engine.run(traffic).map(|outcome| percent(outcome.total().lost_percent()))
        });
        let lost: Result<Vec<_>, _> = lost.collect();
        table.row([format!("{threshold} %")].into_iter().chain(lost?));
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_traffic_has_the_figures_of_the_paper() {
        for queues in 1..=6 {
            let traffic = traffic(queues, 1);
            assert!((traffic.packets() as f64 - 5e6).abs() < 0.02 * 5e6, "{queues}: {}", traffic.packets());
        }
    }

    /// Advanced mode loses nothing with six queues; basic mode loses the excess for the worker of queue 0,
    /// less what its pool holds, and the other queues lose bursts as well.
    #[test]
    fn only_advanced_mode_loses_nothing_with_six_queues() {
        let traffic = traffic(6, 1);
        let too_much = 22.0 * (80_000.0 - HANDLER_PPS);
        for (name, run) in engines() {
            let outcome = run(&traffic).unwrap();
            let total = outcome.total();
            assert_eq!(total.offered, traffic.packets(), "{name}");
            assert_eq!(total.handled + total.lost(), total.offered, "{name}");
            let lost = total.lost() as f64;
            match name {
                "A-(256, 100, 60 %)" => assert_eq!(lost, 0.0, "{name}"),
                "B-(256, 100)" => assert!((lost + 25_600.0 - too_much).abs() < 0.05 * too_much, "{lost}"),
                "B-(256, 500)" => assert!((lost + 128_000.0 - too_much).abs() < 0.05 * too_much, "{lost}"),
                _ => assert!((too_much..2.0 * too_much).contains(&lost), "{name}: {lost}"),
            }
        }
    }
}
