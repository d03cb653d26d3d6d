//! The same questions at 40, 100 and 400 Gigabit Ethernet: how much memory, which T, how many buddies?
//!
//! Rule: only links and sizes of frames are facts. The pace of handlers (1, 2 and 5 million packets/s a
//! core), the skew (3) and the mean length of packets (700 bytes) are assumed; `wirecap size` takes your own.

use wirecap_core::{GeometryError, Mode};
use wirecap_lab::table::{Table, grouped};
use wirecap_report::{Axis, Chart, Plot, Series};

use super::{findings::Findings, simulation::Simulation};
use crate::{
    CELL_BYTES,
    engines::{
        Engine,
        wirecap::{Dispatch, WirecapEngine},
    },
    link_pps,
    sizing::Demand,
    table::{percent, simulated},
};

/// Gigabits per second.
const LINKS: [u32; 3] = [40, 100, 400];
/// Queues, each with a handler.
const QUEUES: [u32; 4] = [8, 16, 32, 64];
/// The load of the busiest queue, in times of the mean: assumed.
const SKEW: f64 = 3.0;
/// The mean length of packets, assumed.
const MEAN_BYTES: u32 = 700;
/// Cells of a chunk.
const M: u32 = 256;
/// Paces of handlers, in packets per second: assumed.
const PACES: [f64; 3] = [1e6, 2e6, 5e6];
/// The pace of the tables that have only one.
const PACE: f64 = 2e6;
/// Descriptors of the ring of a NIC, as in the paper.
const RING: u32 = 1_024;
/// The default R of wirecap.
const DEFAULT_R: u32 = 128;

fn demand(gigabits: u32, frame_bytes: u32, queues: u32, pace_pps: f64, burst_s: f64) -> Demand {
    Demand {
        queues,
        total_pps: link_pps(gigabits, frame_bytes),
        skew: SKEW,
        burst_s,
        pace_pps,
        dispatch: Dispatch::Push,
        ring: Some(RING),
    }
}

/// Memory of the pools of all queues, in GiB.
fn gib(queues: u32, chunks: u32) -> f64 {
    f64::from(queues) * f64::from(chunks) * f64::from(M) * f64::from(CELL_BYTES) / f64::from(1 << 30)
}

/// A pool in words.
fn pool(queues: u32, chunks: Option<u32>) -> [String; 2] {
    match chunks {
        Some(chunks) => [grouped(chunks.into()), format!("{:.2}", gib(queues, chunks))],
        None => ["-".into(), "-".into()],
    }
}

/// How much memory: the smallest pools that lose nothing of a burst.
fn memory(simulation: &Simulation, frame_bytes: u32, burst_s: f64) -> Result<(Table, Chart), GeometryError> {
    let title = format!(
        "Memory: the smallest pools that lose nothing of {} ms of {frame_bytes}-byte frames at the rate of the link",
        burst_s * 1e3
    );
    let head =
        ["link", "queues", "Mpps", "handled", "by arithmetic R", "basic R", "GiB", "advanced R", "GiB"];
    let mut table = simulated(&title, &head);
    let mut groups = Vec::new();
    let mut bars = [Vec::new(), Vec::new()];
    for gigabits in LINKS {
        for queues in QUEUES {
            let demand = demand(gigabits, frame_bytes, queues, PACE, burst_s);
            let basic = simulation.least_chunks(&demand, M, Mode::Basic)?;
            let advanced = simulation.least_chunks(&demand, M, Mode::Advanced { threshold_percent: 60 })?;
            let head = [format!("{gigabits} GbE"), queues.to_string()];
            let rates = [demand.total_pps, demand.capacity_pps()].map(|pps| format!("{:.1}", pps / 1e6));
            let arithmetic = grouped(demand.chunks_by_arithmetic(M).ceil() as u64);
            let pools = [basic, advanced].map(|chunks| pool(queues, chunks)).concat();
            table.row(head.into_iter().chain(rates).chain([arithmetic]).chain(pools));
            groups.push(format!("{gigabits} GbE {queues}"));
            for (bars, chunks) in bars.iter_mut().zip([basic, advanced]) {
                bars.push(chunks.map(|chunks| gib(queues, chunks)));
            }
        }
    }
    table.note(
        "`handled`: what all handlers do together, 2 million packets/s each. Advanced mode has T = 60 %. `-`: no pool \
         helps, since the busiest queue gets more than 51 million packets/s: a ring of 1,024 in the 20 µs that a \
         capture thread needs to see them.",
    );
    let [basic, advanced] = bars;
    let series = vec![
        Series { name: "basic".into(), values: basic },
        Series { name: "advanced".into(), values: advanced },
    ];
    let plot = Plot::GroupedBars { groups, y: Axis::linear("memory of all pools, GiB"), series };
    let description =
        "Memory by link and number of queues: buddies save memory as soon as they keep up together.";
    Ok((table, Chart { title, description: description.into(), plot }))
}

/// Which T: what each needs, and what it does with pools of the default size.
fn threshold(simulation: &Simulation) -> Result<Table, GeometryError> {
    let demand = demand(100, MEAN_BYTES, 16, PACE, 0.05);
    let title = "Which T: 50 ms of 100 GbE, 700 bytes, 16 queues, 2 Mpps a core";
    let head = ["T", "smallest R", "GiB", "offloaded with R = 128", "lost"];
    let mut table = simulated(title, &head);
    for t in [10, 20, 40, 60, 80, 90] {
        let chunks = simulation.least_chunks(&demand, M, Mode::Advanced { threshold_percent: t })?;
        let advanced = WirecapEngine::advanced(M, DEFAULT_R, t, PACE);
        let engine = Engine::Wirecap(WirecapEngine { ring: RING, ..advanced });
        let outcome = simulation.run(&engine, &demand.traffic())?;
        let total = outcome.total();
        let offloaded = 100.0 * outcome.offloaded as f64 / total.offered.max(1) as f64;
        let rest = [percent(offloaded), percent(total.lost_percent())];
        table.row([format!("{t} %")].into_iter().chain(pool(16, chunks)).chain(rest));
    }
    Ok(table)
}

/// How many buddies: the same traffic with smaller groups, of which the one with the busiest queue counts.
fn buddies(simulation: &Simulation) -> Result<Table, GeometryError> {
    let all = demand(100, MEAN_BYTES, 16, PACE, 0.05);
    let title = "How many buddies: 50 ms of 100 GbE, 700 bytes, 16 queues, 2 Mpps a core, T = 60 %";
    let mut table =
        simulated(title, &["queues in the group", "Mpps", "handled", "smallest R", "GiB of the group"]);
    for size in [1, 2, 4, 8, 16] {
        let group = all.group(size);
        let mode = if size == 1 { Mode::Basic } else { Mode::Advanced { threshold_percent: 60 } };
        let chunks = simulation.least_chunks(&group, M, mode)?;
        let rates = [group.total_pps, group.capacity_pps()].map(|pps| format!("{:.1}", pps / 1e6));
        table.row([size.to_string()].into_iter().chain(rates).chain(pool(size, chunks)));
    }
    Ok(table)
}

/// The smallest groups that keep up for ever, by arithmetic.
fn lasting_buddies() -> Table {
    let title = "The smallest group that keeps up however long the rate lasts: 700 bytes, by arithmetic";
    let paces = PACES.map(|pace| format!("{} Mpps a core", pace / 1e6));
    let head: Vec<_> = ["link", "queues"].into_iter().chain(paces.iter().map(String::as_str)).collect();
    let mut table = simulated(title, &head);
    for gigabits in LINKS {
        for queues in QUEUES {
            let sizes = PACES.map(|pace| {
                let size = demand(gigabits, MEAN_BYTES, queues, pace, 1.0).least_group();
                size.map_or_else(|| "none".into(), |size| size.to_string())
            });
            table.row([format!("{gigabits} GbE"), queues.to_string()].into_iter().chain(sizes));
        }
    }
    table.note("`none`: all handlers together are slower than the link. 1: each queue keeps up by itself.");
    table
}

/// All tables.
///
/// # Errors
/// Never with these sizes.
pub fn today(simulation: &Simulation) -> Result<Findings, GeometryError> {
    let (mean, mean_chart) = memory(simulation, MEAN_BYTES, 0.01)?;
    let (short, _) = memory(simulation, 64, 0.001)?;
    let paragraphs = vec![
        "Assumed: the busiest queue gets three times the mean, packets are 700 bytes long on average, and a core \
         handles 1, 2 or 5 million packets/s. Cells are 2 KiB, M = 256. A burst that is ten times as long needs \
         ten times the memory. The dispatch is `push`, as in the paper."
            .into(),
    ];
    let tables = vec![mean, short, threshold(simulation)?, buddies(simulation)?, lasting_buddies()];
    Ok(Findings { paragraphs, tables, charts: vec![mean_chart] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Parameters;

    #[test]
    fn links_have_their_rates() {
        assert!((link_pps(100, 64) - 148.8e6).abs() < 0.1e6);
        assert!((link_pps(400, 700) - 69.4e6).abs() < 0.1e6);
        assert_eq!(gib(16, 128), 1.0);
    }

    /// A low T offloads more than a high one, and needs fewer chunks.
    #[test]
    fn a_low_threshold_offloads_more() {
        let table = threshold(&Simulation::new(Parameters::default())).unwrap();
        let column = |row: usize, column: usize| -> f64 {
            let cell = &table.rows()[row][column];
            cell.trim_end_matches(" %").replace(',', "").parse().unwrap()
        };
        assert!(column(0, 3) > column(5, 3), "{table}");
        assert!(column(0, 1) < column(5, 1), "{table}");
    }
}
