//! Every figure that the paper's text gives, beside ours, with the difference and its cause.

use wirecap_core::GeometryError;
use wirecap_lab::table::{Table, grouped};

use super::{
    Experiment,
    burst::BurstEngine,
    bus,
    findings::Findings,
    simulation::Simulation,
    skew::{BURSTY_QUEUE, PAPER_TABLE_1, drops, six_queues},
};
use crate::{closed_form, link_pps, table::simulated};

/// The table. Causes explain figures of the default parameters, so there are none with others.
struct Comparison {
    table: Table,
    has_causes: bool,
}

impl Comparison {
    /// Adds a row: what the paper has, what we have, and why they differ.
    fn row(&mut self, what: &str, paper: f64, ours: f64, cause: &str) {
        let difference = ours - paper;
        let difference = if difference.abs() < 0.05 { "0.0".into() } else { format!("{difference:+.1}") };
        let cause = if self.has_causes { cause } else { "" };
        let cells = [what.into(), format!("{paper:.1}"), format!("{ours:.1}"), difference, cause.into()];
        self.table.row(cells);
    }
}

/// The percentages of Table 1.
fn table_1(simulation: &Simulation, comparison: &mut Comparison) -> Result<(), GeometryError> {
    const CAUSES: [[&str; 4]; 3] = [
        [
            "lengths of bursts are assumed",
            "",
            "the batches of its handler are assumed, and so are the bursts",
            "",
        ],
        [
            "the paper has DNA above NETMAP, which no model of ours has",
            "",
            "lengths of bursts are assumed",
            "",
        ],
        [
            "a burst at a tenth of the wire rate is faster than the copy",
            "fitted at queue 0, before the loss at the ring",
            "lengths of bursts are assumed",
            "",
        ],
    ];
    let outcomes = six_queues(simulation)?;
    for ((engine, paper), causes) in PAPER_TABLE_1.iter().zip(CAUSES) {
        let (_, outcome) = outcomes.iter().find(|(name, _)| name == engine).expect("an engine of the table");
        let shown =
            [0, BURSTY_QUEUE].into_iter().filter_map(|queue| Some((queue, outcome.queues.get(queue)?)));
        let ours = shown.flat_map(|(queue, of)| {
            ["capture", "delivery"].into_iter().zip(drops(*of)).map(move |(what, ours)| (queue, what, ours))
        });
        for (((queue, what, ours), paper), cause) in ours.zip(paper).zip(causes) {
            let name = format!("Table 1, {engine}, queue {queue}, {what}: percent lost");
            comparison.row(&name, *paper, ours, cause);
        }
    }
    Ok(())
}

/// The table.
///
/// # Errors
/// M or R is not possible.
pub fn text(simulation: &Simulation) -> Result<Findings, GeometryError> {
    let head = ["what the text gives", "paper", "ours", "difference", "cause"];
    let mut comparison = Comparison {
        table: simulated("The figures of the paper's text, and ours", &head),
        has_causes: Experiment::Text.changed(&simulation.parameters).is_empty(),
    };
    let ring = u64::from(simulation.parameters.ring);
    let (pace, rate) = (simulation.parameters.pace_pps, simulation.parameters.rate_pps);
    comparison.row("wire rate of 64-byte frames, kpps", 14_880.0, rate / 1e3, "rounded in the paper");
    comparison.row(
        "packets that a handler does between 3.86 s and 3.97 s",
        388.0,
        0.11 * pace,
        "the paper multiplies by 10 ms; the interval has 110 ms",
    );
    let fits = closed_form::burst_loss(2_724, 2_724.0 / 0.11, pace, simulation.parameters.ring.into());
    let short = closed_form::burst_loss(2_724, 2_724.0 / 0.01, pace, simulation.parameters.ring.into());
    comparison.row(
        &format!("packets lost of 2,724 within 10 ms, with a ring of {}", grouped(ring)),
        2_724.0 - 388.0 - 1_024.0,
        short,
        "the paper's own arithmetic",
    );
    comparison.row(
        "packets lost of 2,724 within 110 ms, which the text says are lost inevitably",
        2_724.0 - 388.0 - 1_024.0,
        fits,
        "24,764 packets/s are fewer than a handler does",
    );
    table_1(simulation, &mut comparison)?;
    let (m, r) = (simulation.parameters.m, simulation.parameters.r);
    let lost = |engine: BurstEngine, packets, pace| {
        engine.run(simulation, packets, pace).map(|outcome| outcome.lost_percent())
    };
    let free = simulation.parameters.free_pace_pps;
    for engine in [BurstEngine::Basic(m, r), BurstEngine::Dna, BurstEngine::Netmap] {
        let name = format!("Figure 8, {}, 10,000,000 packets: percent lost", engine.name());
        comparison.row(&name, 0.0, lost(engine, 10_000_000, free)?, "");
    }
    let basic = |r| BurstEngine::Basic(m, r);
    comparison.row(
        "Figure 9, DNA, 6,000 packets: percent lost",
        15.0,
        lost(BurstEngine::Dna, 6_000, pace)?,
        "4,960 of 6,000 find no place in 1,024; 15 % fit a ring of 5,085",
    );
    let name = |r| format!("Figure 9, {}, 100,000 packets: percent lost", basic(r).name());
    comparison.row(&name(5 * r), 0.0, lost(basic(5 * r), 100_000, pace)?, "");
    comparison.row(
        &name(r),
        71.0,
        lost(basic(r), 100_000, pace)?,
        "the paper's own formula gives 74.1; a ring beside the pool explains 1 of 3",
    );
    let two_nics = |frame| 2.0 * link_pps(10, frame) / 1e6;
    comparison.row("Figure 14, two NICs, 64 bytes: Mpps", 30.0, two_nics(64), "rounded in the paper");
    comparison.row("Figure 14, two NICs, 100 bytes: Mpps", 20.0, two_nics(100), "rounded in the paper");
    let losses = bus::losses(simulation, 100)?;
    for (engine, lost) in &losses.rows {
        let worst = lost.iter().copied().fold(0.0, f64::max);
        comparison.row(&format!("Figure 14, {engine}, 100 bytes: percent lost"), 0.0, worst, "");
    }
    Ok(Findings { tables: vec![comparison.table], ..Findings::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Parameters;

    #[test]
    fn queues_that_do_not_exist_have_no_rows() {
        let of_queues = |queues| {
            let table = simulated("", &["what", "paper", "ours", "difference", "cause"]);
            let mut comparison = Comparison { table, has_causes: false };
            let parameters = Parameters { queues, ..Parameters::default() };
            table_1(&Simulation::new(parameters), &mut comparison).unwrap();
            let rows = comparison.table.rows();
            ["queue 0", "queue 3"].map(|queue| rows.iter().filter(|row| row[0].contains(queue)).count())
        };
        assert_eq!([of_queues(2), of_queues(4)], [[6, 0], [6, 6]]);
    }

    #[test]
    fn figures_of_other_parameters_have_no_causes() {
        let causes = |parameters| {
            let findings = text(&Simulation::new(parameters)).unwrap();
            findings.tables[0].rows().iter().filter(|row| !row[4].is_empty()).count()
        };
        assert_eq!(causes(Parameters { m: 128, ..Parameters::default() }), 0);
        assert!(causes(Parameters::default()) > 10);
    }
}
