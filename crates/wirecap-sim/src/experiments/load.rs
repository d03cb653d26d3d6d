//! The load of each queue in bins of 10 ms: Figure 3.

use wirecap_lab::table::grouped;
use wirecap_report::{Axis, Chart, Line, Plot};

use super::{findings::Findings, simulation::Simulation, skew};
use crate::{
    SECOND_NS,
    table::{percent, simulated},
    traffic::{Arrivals, Run},
};

/// The bins of the paper.
const BIN_NS: f64 = 10e6;
/// Bins of a point of the chart, which shows the largest of them.
const BINS_PER_POINT: usize = 10;
/// The length of the traffic.
const END_S: f64 = 32.0;

/// Packets of a queue in each bin.
fn bins(runs: &[Run]) -> Vec<u64> {
    let mut arrivals = Arrivals::new(runs);
    // A packet at the end of a bin is in the next one.
    let ends = (1..=(END_S * SECOND_NS as f64 / BIN_NS) as u64).map(|bin| bin as f64 * BIN_NS - 0.5);
    let mut bins: Vec<_> = ends.map(|end_ns| arrivals.take(end_ns, u64::MAX)).collect();
    *bins.last_mut().expect("there are bins") += arrivals.take(f64::INFINITY, u64::MAX);
    bins
}

/// Figure 3: the queues of the stand-in traffic.
pub fn figure_3(simulation: &Simulation) -> Findings {
    let traffic = skew::traffic(simulation.parameters.queues, simulation.parameters.seed);
    let all = traffic.packets();
    let head = ["queue", "packets", "share", "mean per 10 ms", "largest", "largest / mean"];
    let mut table = simulated("Figure 3: the load of the queues of the stand-in traffic", &head);
    let mut lines = Vec::new();
    for (queue, runs) in traffic.queues.iter().enumerate() {
        let bins = bins(runs);
        let packets: u64 = bins.iter().sum();
        let largest = bins.iter().max().copied().unwrap_or(0);
        let mean = packets as f64 / bins.len() as f64;
        table.row([
            queue.to_string(),
            grouped(packets),
            percent(100.0 * packets as f64 / all.max(1) as f64),
            format!("{mean:.1}"),
            grouped(largest),
            format!("{:.1}", largest as f64 / mean.max(f64::MIN_POSITIVE)),
        ]);
        if skew::shown(traffic.queues.len()).any(|shown| shown == queue) {
            let largest = bins.chunks(BINS_PER_POINT).map(|bins| bins.iter().max().copied().unwrap_or(0));
            let seconds = |point: usize| point as f64 * BINS_PER_POINT as f64 * BIN_NS / SECOND_NS as f64;
            let points = largest.enumerate().map(|(point, packets)| (seconds(point), packets as f64));
            lines.push(Line { name: format!("queue {queue}"), points: points.collect() });
        }
    }
    let chart = Chart {
        title: "Figure 3: packets per 10 ms, the largest of ten bins".into(),
        description: description(traffic.queues.len()),
        plot: Plot::Lines { x: Axis::linear("seconds"), y: Axis::linear("packets per 10 ms"), lines },
    };
    let paragraphs = vec![
        "The traffic is the stand-in for the trace, of which the text gives rates: what is long-term is the \
         paper's, the bursts are assumed."
            .into(),
    ];
    Findings { paragraphs, tables: vec![table], charts: vec![chart] }
}

/// What the chart shows: the rates follow from [`skew::traffic`].
fn description(queues: usize) -> String {
    match queues {
        1 => "The queue gets more packets from 10 s on, and has bursts.".into(),
        6 => "Queue 0 gets four times the packets of the others from 10 s on, and each queue has bursts."
            .into(),
        _ => "Queue 0 gets more packets from 10 s on, and each queue has bursts.".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_in_one_bin() {
        let runs =
            [Run { from_ns: 0.0, gap_ns: 1e6, packets: 25 }, Run { from_ns: 1e9, gap_ns: 0.0, packets: 3 }];
        let bins = bins(&runs);
        assert_eq!((bins.len(), &bins[..4], bins[100]), (3_200, &[10, 10, 5, 0][..], 3));
        assert_eq!(bins.iter().sum::<u64>(), 28);
    }
}
