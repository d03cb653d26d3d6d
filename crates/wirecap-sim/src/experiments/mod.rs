//! The experiments of the paper, each with the figures that the paper's text gives.

pub mod burst;
pub mod bus;
mod effects;
pub mod findings;
pub mod load;
pub mod simulation;
pub mod skew;
pub mod text;
pub mod today;

use wirecap_core::{GeometryError, choices};

use self::{findings::Findings, simulation::Simulation};

choices! {
    /// An experiment of the paper.
    pub enum Experiment {
        /// Every figure of the paper's text, beside ours.
        Text = "text",
        /// Loss of existing engines under skew and bursts, and of WireCAP.
        Table1 = "table1",
        /// The load of the queues, in bins of 10 ms.
        Figure3 = "figure3",
        /// Bursts without load.
        Figure8 = "figure8",
        /// Bursts with a heavy load.
        Figure9 = "figure9",
        /// R x M fixed.
        Figure10 = "figure10",
        /// Loss of all engines, by number of queues.
        Figure11 = "figure11",
        /// Loss of advanced mode with T from 50 to 90 %.
        Figure12 = "figure12",
        /// Loss by number of queues where handled packets are forwarded.
        Figure13 = "figure13",
        /// Two NICs on one bus.
        Figure14 = "figure14",
        /// 40, 100 and 400 GbE: how much memory, which T, how many buddies.
        Today = "today",
    }
}

impl Experiment {
    /// Runs it. The same parameters give the same figures.
    ///
    /// # Errors
    /// M or R is not possible; never with the sizes of the paper.
    pub fn run(self, simulation: &Simulation) -> Result<Findings, GeometryError> {
        match self {
            Experiment::Text => text::text(simulation),
            Experiment::Table1 => skew::table_1(simulation),
            Experiment::Figure3 => Ok(load::figure_3(simulation)),
            Experiment::Figure8 => burst::figure_8(simulation),
            Experiment::Figure9 => burst::figure_9(simulation),
            Experiment::Figure10 => burst::figure_10(simulation),
            Experiment::Figure11 => skew::figure_11(simulation),
            Experiment::Figure12 => skew::figure_12(simulation),
            Experiment::Figure13 => skew::figure_13(simulation),
            Experiment::Figure14 => bus::figure_14(simulation),
            Experiment::Today => today::today(simulation),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{env, fs};

    use wirecap_core::Choice;

    use super::*;
    use crate::{experiments::effects::tests::without_effect, parameters::Parameters};

    /// The tables of `docs/SIMULATION.md` are those that are printed, whatever the parameters that have no
    /// effect; `UPDATE=1` writes them anew.
    #[test]
    fn the_document_has_the_tables() {
        const MARK: &str =
            "<!-- What follows is written by the tests: UPDATE=1 cargo test -p wirecap-sim -->\n";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/SIMULATION.md");
        let document = fs::read_to_string(path).unwrap();
        let (before, after) = document.split_once(MARK).expect("the mark");
        let updates = env::var_os("UPDATE").is_some();
        let mut expected = String::new();
        for experiment in Experiment::ALL {
            let parameters = if updates { Parameters::default() } else { without_effect(experiment.value) };
            let findings = experiment.value.run(&Simulation::new(parameters)).unwrap();
            for paragraph in findings.paragraphs {
                expected += &format!("\n{paragraph}\n");
            }
            for table in findings.tables {
                expected += &format!("\n{table}");
            }
        }
        if updates {
            fs::write(path, format!("{before}{MARK}{expected}")).unwrap();
        } else {
            assert_eq!(after, expected);
        }
    }
}
