//! `wirecap-sim`: prints the figures of the paper, simulated.
#![forbid(unsafe_code)]

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    time::Instant,
};

use anyhow::{Context, Result};
use clap::{Parser, builder::PossibleValuesParser};
use wirecap_core::{Choice, Geometry, choice::NamedValue};
use wirecap_lab::table::{Table, millions};
use wirecap_sim::{
    CELL_BYTES,
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
    /// Writes each chart to this directory as well, as PNG; needs rsvg-convert (package librsvg2-bin).
    #[arg(long, value_name = "DIR")]
    png: Option<PathBuf>,
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
            // Standard error may be closed as well.
            let _ = writeln!(io::stderr(), "wirecap-sim: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Prints to standard output. Returns whether it has a reader.
fn print(text: &str) -> Result<bool> {
    match writeln!(io::stdout().lock(), "{text}") {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("standard output"),
    }
}

fn run(flags: &Flags) -> Result<()> {
    if flags.list {
        print(&list())?;
        return Ok(());
    }
    let mut parameters = Parameters::default();
    parameters.seed = flags.seed.unwrap_or(parameters.seed);
    for setting in &flags.param {
        parameters.set(setting)?;
    }
    // Experiments run with five times R, too.
    Geometry::new(parameters.m, parameters.r.saturating_mul(5), CELL_BYTES)
        .with_context(|| format!("M={}, five times R={}: choose a smaller R", parameters.m, parameters.r))?;
    if let Some(path) = &flags.report {
        wirecap_report::check_writable(path)?;
    }
    if let Some(directory) = &flags.png {
        wirecap_report::check_png(directory)?;
    }
    let changed = parameters.changed();
    let simulation = Simulation::new(parameters);
    let (mut found, mut timings) = (Vec::new(), timings_table());
    let began = Instant::now();
    for experiment in wanted(&flags.experiments) {
        let (before, began) = (simulation.packets(), Instant::now());
        let mut findings = experiment.value.run(&simulation).with_context(|| experiment.name)?;
        if !changed.is_empty() {
            let changed = changed.join(", ");
            findings.paragraphs.insert(
                0,
                format!("Simulated with {changed}: notes are those of the default parameters, and causes are omitted."),
            );
        }
        timings.row(timing(experiment.name, simulation.packets() - before, began));
        let paragraphs = findings.paragraphs.iter().map(|paragraph| format!("{paragraph}\n"));
        for text in paragraphs.chain(findings.tables.iter().map(Table::to_string)) {
            // Without a reader, the files alone are wanted.
            if !print(&text)? && flags.report.is_none() && flags.png.is_none() {
                return Ok(());
            }
        }
        found.push((experiment, findings));
    }
    if flags.timings {
        timings.row(timing("all", simulation.packets(), began));
        print(&timings.to_string())?;
    }
    let report = page::report(&found);
    if let Some(path) = &flags.report {
        report.write(path)?;
    }
    if let Some(directory) = &flags.png {
        report.write_png(directory)?;
    }
    Ok(())
}

/// The experiments with these names, in the order of the paper; all without a name.
fn wanted(names: &[String]) -> impl Iterator<Item = &'static NamedValue<Experiment>> + '_ {
    let all = names.is_empty() || names.iter().any(|name| name == "all");
    Experiment::ALL.iter().filter(move |experiment| all || names.iter().any(|name| name == experiment.name))
}

/// The experiments, and the parameters with their defaults.
fn list() -> String {
    let experiments = Experiment::ALL.iter().map(|one| format!("  {:<10} {}", one.name, one.explanation));
    let parameters = Parameter::ALL.iter().map(|one| {
        let default = Parameters::default().value(one.value);
        format!("  {:<10} {default:<10} {}", one.name, one.explanation)
    });
    let lines = ["Experiments:".to_owned()].into_iter().chain(experiments);
    let lines = lines.chain(["\nParameters, and their defaults:".to_owned()]).chain(parameters);
    lines.collect::<Vec<_>>().join("\n")
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
