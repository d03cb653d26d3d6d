//! `wirecap-sim`: prints the figures of the paper, simulated.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, builder::PossibleValuesParser};
use wirecap_core::Choice;
use wirecap_sim::experiments::Experiment;

/// The experiments of the WireCAP paper, simulated.
#[derive(Debug, Parser)]
#[command(name = "wirecap-sim", version)]
struct Flags {
    /// What to simulate [default: everything].
    #[arg(value_name = "EXPERIMENT", value_parser = names())]
    experiments: Vec<String>,
    /// The seed of the traffic: the same seed, the same figures.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn names() -> PossibleValuesParser {
    Experiment::ALL.iter().map(|experiment| experiment.name).collect::<Vec<_>>().into()
}

fn main() -> ExitCode {
    match run(&Flags::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("wirecap-sim: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "the tables are the result")]
fn run(flags: &Flags) -> Result<()> {
    let is_wanted =
        |name: &str| flags.experiments.is_empty() || flags.experiments.iter().any(|one| one == name);
    for experiment in Experiment::ALL.iter().filter(|experiment| is_wanted(experiment.name)) {
        for table in experiment.value.tables(flags.seed)? {
            println!("{table}");
        }
    }
    Ok(())
}
