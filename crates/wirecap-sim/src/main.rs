//! `wirecap-sim`: prints the figures of the paper, simulated.
#![forbid(unsafe_code)]

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    time::Instant,
};

use anyhow::{Context, Result};
use clap::{CommandFactory, Parser, builder::PossibleValuesParser, error::ErrorKind};
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
    /// Sets a parameter, such as ring=4096; --list has their names, and where they have an effect.
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
    /// Prints how long each experiment took, and how many packets of its traffic that is per second. Packets
    /// at a constant rate are simulated many at once, not one by one.
    #[arg(long)]
    timings: bool,
    /// Lists the experiments, each with the parameters that have an effect on it.
    #[arg(long)]
    list: bool,
}

fn names() -> PossibleValuesParser {
    let names = Experiment::ALL.iter().map(|experiment| experiment.name);
    names.chain(["all"]).collect::<Vec<_>>().into()
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    if let Err(error) = check_effects(&flags) {
        Flags::command().error(ErrorKind::ArgumentConflict, error).exit();
    }
    match run(&flags) {
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
    let simulation = Simulation::new(parameters);
    let (mut found, mut timings) = (Vec::new(), timings_table());
    let began = Instant::now();
    for experiment in wanted(&flags.experiments) {
        let (before, began) = (simulation.packets(), Instant::now());
        let mut findings = experiment.value.run(&simulation).with_context(|| experiment.name)?;
        let changed = experiment.value.changed(&simulation.parameters).join(", ");
        if !changed.is_empty() {
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

/// Refuses a parameter that has no effect on an experiment that is named; where all are wanted, each has what
/// it uses.
fn check_effects(flags: &Flags) -> Result<(), String> {
    if wants_all(&flags.experiments) {
        return Ok(());
    }
    let set = flags.param.iter().map(|setting| setting.parameter);
    let set: Vec<_> = set.chain(flags.seed.map(|_| Parameter::Seed)).collect();
    for experiment in wanted(&flags.experiments) {
        if let Some(&parameter) = set.iter().find(|&&parameter| !experiment.value.has(parameter)) {
            let with: Vec<_> = Experiment::with(parameter).map(Experiment::as_str).collect();
            let with = with.join(", ");
            return Err(format!("{parameter} has no effect on {}, only on {with}", experiment.name));
        }
    }
    Ok(())
}

/// Whether all experiments are wanted.
fn wants_all(names: &[String]) -> bool {
    names.is_empty() || names.iter().any(|name| name == "all")
}

/// The experiments with these names, in the order of the paper; all without a name.
fn wanted(names: &[String]) -> impl Iterator<Item = &'static NamedValue<Experiment>> + '_ {
    let all = wants_all(names);
    Experiment::ALL.iter().filter(move |experiment| all || names.iter().any(|name| name == experiment.name))
}

/// The experiments with the parameters that have an effect on each, and the parameters with their defaults.
fn list() -> String {
    let experiments = Experiment::ALL.iter().map(|one| {
        let used: Vec<_> = one.value.parameters().iter().map(|parameter| parameter.as_str()).collect();
        let used = if used.is_empty() { "no parameters".into() } else { used.join(", ") };
        format!("  {:<10} {}\n  {:<10} {used}", one.name, one.explanation, "")
    });
    let parameters = Parameter::ALL.iter().map(|one| {
        let default = Parameters::default().value(one.value);
        format!("  {:<10} {default:<10} {}", one.name, one.explanation)
    });
    let lines = ["Experiments, and the parameters that have an effect on each:".to_owned()].into_iter();
    let lines = lines.chain(experiments);
    let lines = lines.chain(["\nParameters, and their defaults:".to_owned()]).chain(parameters);
    lines.collect::<Vec<_>>().join("\n")
}

fn timings_table() -> Table {
    let head = ["experiment", "million packets of traffic", "seconds", "millions of them per second"];
    let mut table = Table::new("How long it took, on one core", &head);
    table.note(
        "Packets that come at a constant rate are simulated many at once, so these are not packets that were \
         simulated one by one.",
    );
    table
}

fn timing(name: &str, packets: u64, began: Instant) -> [String; 4] {
    let seconds = began.elapsed().as_secs_f64();
    let packets = millions(packets as f64);
    let rate = packets / seconds.max(1e-9);
    [name.into(), format!("{packets:.1}"), format!("{seconds:.2}"), format!("{rate:.1}")]
}
