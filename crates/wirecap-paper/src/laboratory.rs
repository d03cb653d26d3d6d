//! What all experiments need: the network, the engines' programs, the record.

use std::{path::PathBuf, time::Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wirecap_bench::{
    bed::Bed,
    competitor::{Competitor, Peers},
    machine::Machine,
    record::Record,
};
use wirecap_lab::table::Table;
use wirecap_report::{Chart, Origin, Provenance, Report, Section};

use crate::{arguments::Arguments, engine::Engine, trial::Sample};

/// How often a trial is tried if other work on the machine disturbs it.
const ATTEMPTS: usize = 5;

/// The laboratory while it is open.
pub struct Laboratory {
    /// What was asked for.
    pub arguments: Arguments,
    /// The namespaces.
    pub bed: Bed,
    peers: Peers,
    record: Record,
    mhz: f64,
    provenance: Provenance,
    /// Of the report, as far as experiments have been done.
    sections: Vec<Section>,
    since: Instant,
}

impl Laboratory {
    /// Builds the programs, makes the namespaces, and begins the record. Needs root.
    ///
    /// # Errors
    /// Without root or a compiler; if the record cannot be written.
    pub fn open(arguments: Arguments) -> Result<Self> {
        let machine = Machine::inspect();
        let peers = Peers::build(&arguments.peers)?;
        let record = Record::create(&arguments.out, &machine)?;
        Ok(Self {
            arguments,
            bed: Bed::new()?,
            peers,
            record,
            mhz: machine.cpu_mhz.unwrap_or(1e3),
            provenance: Provenance::of_this_process(),
            sections: Vec::new(),
            since: Instant::now(),
        })
    }

    /// The programs that are compared.
    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// The clock of the time stamp counter; 1,000 MHz, so that cycles are nanoseconds, if it is unknown.
    pub fn mhz(&self) -> f64 {
        self.mhz
    }

    /// The program of an engine.
    ///
    /// # Errors
    /// If the path of this program is unknown.
    pub fn competitor(&self, engine: Engine, queues: usize) -> Result<Competitor> {
        engine.competitor(&self.peers, queues)
    }

    /// Takes a `sample` as often as there are rounds, each time with a line on the terminal, and records what
    /// it returns. One that other work has disturbed is tried again; the least disturbed counts.
    ///
    /// # Errors
    /// Those of `sample`, with the name of the engine.
    pub fn rounds<S: Sample>(
        &mut self,
        experiment: &str,
        engine: Engine,
        mut sample: impl FnMut(&Self) -> Result<S>,
    ) -> Result<Vec<S>> {
        let name = engine.name();
        let mut samples = Vec::new();
        for round in 1..=self.arguments.rounds as usize {
            self.progress(&format!("{experiment} {round}/{}: {name}", self.arguments.rounds));
            let mut best: Option<S> = None;
            for attempt in 1..=ATTEMPTS {
                let sample = sample(self).map_err(|error| error.context(format!("{experiment}, {name}")))?;
                let (late_ms, is_disturbed) = (sample.trial().late_ms, sample.trial().is_disturbed());
                let kept = json!({ "late_ms": late_ms, "trial": sample.trial().json });
                self.keep(experiment, &name, round, &kept)?;
                if best.as_ref().is_none_or(|best| late_ms < best.trial().late_ms) {
                    best = Some(sample);
                }
                if !is_disturbed {
                    break;
                }
                let next = if attempt < ATTEMPTS { "once more" } else { "the best of them counts" };
                eprintln!(
                    "        {late_ms:.0} ms late: other work kept the sender or a handler from its core; {next}"
                );
            }
            samples.extend(best);
        }
        Ok(samples)
    }

    /// The path of the wirecap command.
    ///
    /// # Errors
    /// If there is none.
    pub fn wirecap(&self) -> Result<PathBuf> {
        let beside = || std::env::current_exe().ok().map(|program| program.with_file_name("wirecap"));
        let path = self.arguments.wirecap.clone().or_else(beside).context("--wirecap")?;
        path.canonicalize().with_context(|| format!("{}: build it, or give --wirecap PATH", path.display()))
    }

    /// Says on the terminal what is done now.
    pub fn progress(&self, text: &str) {
        eprintln!("{:>4} s  {text}", self.since.elapsed().as_secs());
    }

    /// Records one trial.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn keep(&mut self, experiment: &str, who: &str, round: usize, trial: &Value) -> Result<()> {
        self.record.run(experiment, who, round, trial)
    }

    /// Prints and records a table of measured figures, and puts it into the report with a chart.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn measured(&mut self, heading: &str, table: Table, chart: Chart) -> Result<()> {
        self.record.table(&table)?;
        self.sections.push(Section::new(heading).table(table).chart(chart));
        Ok(())
    }

    /// Prints and records a table of simulated figures, which are not in the report of the measured ones.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn simulated(&mut self, table: &Table) -> Result<()> {
        self.record.table(table)
    }

    /// Writes the report, if one is wanted, and says where the record is.
    ///
    /// # Errors
    /// If the report cannot be written; the record is there.
    #[expect(clippy::print_stdout, reason = "it belongs to the tables")]
    pub fn close(self) -> Result<()> {
        if let Some(path) = &self.arguments.report {
            let report = Report {
                title: "The paper's experiments with the engines of today".into(),
                origin: Origin::Measured,
                provenance: self.provenance,
                sections: self.sections,
            };
            report.write(path)?;
            println!("Report: {}", path.display());
        }
        println!("Raw trials: {}; {} s", self.record.path.display(), self.since.elapsed().as_secs());
        Ok(())
    }
}
