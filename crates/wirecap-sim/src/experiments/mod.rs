//! The experiments of the paper, each with the figures that the paper's text gives.

pub mod burst;
pub mod skew;

use wirecap_core::{GeometryError, choices};
use wirecap_lab::table::Table;

choices! {
    /// An experiment of the paper.
    pub enum Experiment {
        /// Loss of existing engines under skew and bursts, and of WireCAP.
        Table1 = "table1",
        /// Bursts without load.
        Figure8 = "figure8",
        /// Bursts with a heavy load.
        Figure9 = "figure9",
        /// R x M fixed.
        Figure10 = "figure10",
        /// One to six queues.
        Figure11 = "figure11",
        /// T from 50 to 90 %.
        Figure12 = "figure12",
    }
}

impl Experiment {
    /// Its tables. The same seed of the traffic gives the same figures.
    ///
    /// # Errors
    /// Never with the sizes of the paper.
    pub fn tables(self, seed: u64) -> Result<Vec<Table>, GeometryError> {
        Ok(match self {
            Experiment::Table1 => vec![skew::table_1(seed)?],
            Experiment::Figure8 => vec![burst::figure_8()?],
            Experiment::Figure9 => vec![burst::figure_9()?, burst::text_of_figure_9()?],
            Experiment::Figure10 => vec![burst::figure_10()?],
            Experiment::Figure11 => vec![skew::figure_11(seed)?],
            Experiment::Figure12 => vec![skew::figure_12(seed)?],
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{env, fs};

    use wirecap_core::Choice;

    use super::*;

    /// The tables of `docs/SIMULATION.md` are those that are printed; `UPDATE=1` writes them anew.
    #[test]
    fn the_document_has_the_tables() {
        const MARK: &str =
            "<!-- What follows is written by the tests: UPDATE=1 cargo test -p wirecap-sim -->\n";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/SIMULATION.md");
        let document = fs::read_to_string(path).unwrap();
        let (before, after) = document.split_once(MARK).expect("the mark");
        let tables = Experiment::ALL.iter().flat_map(|experiment| experiment.value.tables(1).unwrap());
        let expected: String = tables.map(|table| format!("\n{table}")).collect();
        if env::var_os("UPDATE").is_some() {
            fs::write(path, format!("{before}{MARK}{expected}")).unwrap();
        } else {
            assert_eq!(after, expected);
        }
    }
}
