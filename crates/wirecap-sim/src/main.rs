//! `wirecap-sim`: prints the figures of the paper, simulated.
#![forbid(unsafe_code)]

use std::{path::PathBuf, process::ExitCode, time::Instant};

use anyhow::{Context, Result};
use clap::{Parser, builder::PossibleValuesParser};
use wirecap_core::{Choice, choice::NamedValue};
use wirecap_lab::table::{Table, millions};
use wirecap_sim::{
    experiments::{Experiment, simulation::Simulation},
    page,
    parameters::{Parameter, Parameters, Setting},
};

/// The experiments of the WireCAP paper, simulated.
#[derive(Debug, Parser)]
#[command(name = "wirecap-sim", version)]
struct Flags {
    /// What to simulate [default: all].
    #[arg(value_name = "EXPERIMENT", value_parser = names())]
    experiments: Vec<String>,
    /// Sets a parameter, such as ring=4096; --list has their names.
    #[arg(long, value_name = "NAME=VALUE")]
    param: Vec<Setting>,
    /// The seed of the traffic: the same seed, the same figures; as --param seed=N.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Writes tables and charts to one HTML file as well.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Prints how long each experiment took, and how many packets it simulated per second.
    #[arg(long)]
    timings: bool,
    /// Lists the experiments and the parameters.
    #[arg(long)]
    list: bool,
}

fn names() -> PossibleValuesParser {
    let names = Experiment::ALL.iter().map(|experiment| experiment.name);
    names.chain(["all"]).collect::<Vec<_>>().into()
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
    if flags.list {
        list();
        return Ok(());
    }
    let mut parameters = Parameters::default();
    parameters.seed = flags.seed.unwrap_or(parameters.seed);
    for setting in &flags.param {
        parameters.set(setting)?;
    }
    let simulation = Simulation::new(parameters);
    let (mut found, mut timings) = (Vec::new(), timings_table());
    let began = Instant::now();
    for experiment in wanted(&flags.experiments) {
        let (before, began) = (simulation.packets(), Instant::now());
        let findings = experiment.value.run(&simulation).with_context(|| experiment.name)?;
        timings.row(timing(experiment.name, simulation.packets() - before, began));
        for paragraph in &findings.paragraphs {
            println!("{paragraph}\n");
        }
        for table in &findings.tables {
            println!("{table}");
        }
        found.push((experiment, findings));
    }
    if flags.timings {
        timings.row(timing("all", simulation.packets(), began));
        println!("{timings}");
    }
    if let Some(path) = &flags.report {
        page::report(&found).write(path)?;
    }
    Ok(())
}

/// The experiments with these names, in the order of the paper; all without a name.
fn wanted(names: &[String]) -> impl Iterator<Item = &'static NamedValue<Experiment>> + '_ {
    let all = names.is_empty() || names.iter().any(|name| name == "all");
    Experiment::ALL.iter().filter(move |experiment| all || names.iter().any(|name| name == experiment.name))
}

#[expect(clippy::print_stdout, reason = "the list is the result")]
fn list() {
    println!("Experiments:");
    for experiment in Experiment::ALL {
        println!("  {:<10} {}", experiment.name, experiment.explanation);
    }
    println!("\nParameters, and their defaults:");
    for parameter in Parameter::ALL {
        let default = Parameters::default().value(parameter.value);
        println!("  {:<10} {:<10} {}", parameter.name, default, parameter.explanation);
    }
}

fn timings_table() -> Table {
    Table::new(
        "How long it took, on one core",
        &["experiment", "million packets", "seconds", "million packets/s"],
    )
}

fn timing(name: &str, packets: u64, began: Instant) -> [String; 4] {
    let seconds = began.elapsed().as_secs_f64();
    let packets = millions(packets as f64);
    let rate = packets / seconds.max(1e-9);
    [name.into(), format!("{packets:.1}"), format!("{seconds:.2}"), format!("{rate:.1}")]
}
