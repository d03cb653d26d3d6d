//! What all experiments need: the network, the engines' programs, the record, the report.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use wirecap_bench::{
    bed::Bed,
    competitor::{Competitor, Peers},
    machine::Machine,
    record::Record,
};
use wirecap_lab::table::Table;
use wirecap_report::{Chart, Origin, Provenance, Report, Section};

use crate::{arguments::Arguments, engine::Engine, trial::Sample, workload};

/// How often a trial is tried if other work on the machine disturbs it.
const ATTEMPTS: usize = 5;

/// After this many disturbed samples in a row, a line says what to expect.
const TOO_BUSY: usize = 3;

/// The laboratory while it is open. Dropping it removes its namespaces.
pub struct Laboratory {
    /// What was asked for.
    pub arguments: Arguments,
    /// The namespaces.
    pub bed: Bed,
    peers: Peers,
    record: Record,
    mhz: Option<f64>,
    provenance: Provenance,
    /// Of the report, as far as experiments have been done.
    sections: Vec<Section>,
    since: Instant,
    /// Set by a signal, which ends the trial that runs.
    is_stopped: Arc<AtomicBool>,
    /// Samples that were planned, and those that have begun.
    planned: usize,
    begun: usize,
    /// Samples in a row that were disturbed in every attempt.
    disturbed: usize,
}

impl Laboratory {
    /// Builds the programs, makes the namespaces, and begins the record and the report. Needs root.
    ///
    /// # Errors
    /// Without root or a compiler; if the record or the report cannot be written.
    pub fn open(arguments: Arguments) -> Result<Self> {
        ensure!(wirecap_lab::is_root(), "network namespaces need root: run it with sudo");
        if let Some(path) = &arguments.report {
            wirecap_report::check_writable(path)?;
        }
        if let Some(directory) = &arguments.png {
            wirecap_report::check_png(directory)?;
        }
        workload::sweep(&arguments.tmpfs);
        let is_stopped = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&is_stopped))?;
        }
        let machine = Machine::inspect();
        let peers = Peers::build(&arguments.peers)?;
        let record = Record::create(&arguments.out, &machine)?;
        Ok(Self {
            arguments,
            bed: Bed::new()?,
            peers,
            record,
            mhz: machine.cpu_mhz,
            provenance: Provenance { machine: machine.describe(), ..Provenance::of_this_process() },
            sections: Vec::new(),
            since: Instant::now(),
            is_stopped,
            planned: 0,
            begun: 0,
            disturbed: 0,
        })
    }

    /// Notes that this many samples more will be taken in each round.
    pub fn plan(&mut self, samples: usize) {
        self.planned += samples * self.arguments.rounds as usize;
    }

    /// Set by a signal: whatever waits has to end.
    pub fn stop_flag(&self) -> &AtomicBool {
        &self.is_stopped
    }

    /// The programs that are compared.
    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// The processor's clock as the kernel names it, in MHz.
    pub fn mhz(&self) -> Option<f64> {
        self.mhz
    }

    /// The program of an engine.
    ///
    /// # Errors
    /// If the path of this program is unknown.
    pub fn competitor(&self, engine: Engine, queues: usize) -> Result<Competitor> {
        engine.competitor(&self.peers, queues)
    }

    /// The path of the wirecap command.
    ///
    /// # Errors
    /// If the command does not exist.
    pub fn wirecap(&self) -> Result<PathBuf> {
        let beside = || std::env::current_exe().ok().map(|program| program.with_file_name("wirecap"));
        let path = self.arguments.wirecap.clone().or_else(beside).context("--wirecap")?;
        path.canonicalize().with_context(|| format!("{}: build it, or give --wirecap PATH", path.display()))
    }

    /// Takes a sample, with a line on the terminal, and records it. One that other work has disturbed is
    /// taken again; the least disturbed counts.
    ///
    /// # Errors
    /// Those of `take`, with the name of the engine; after a signal.
    pub fn sample<S: Sample>(
        &mut self,
        experiment: &str,
        engine: Engine,
        round: u32,
        mut take: impl FnMut(&Self) -> Result<S>,
    ) -> Result<S> {
        let name = engine.name();
        self.begun += 1;
        self.progress(&format!("{} of {}: {experiment}, {name}", self.begun, self.planned));
        let mut best: Option<S> = None;
        for attempt in 1..=ATTEMPTS {
            self.check_stopped()?;
            let taken = take(self);
            // A signal reaches the engines as well, whose failure then says nothing.
            self.check_stopped()?;
            let sample = taken.with_context(|| format!("{experiment}, {name}"))?;
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
                "        {late_ms:.0} ms late: other work had the core of the sender or a handler; {next}"
            );
        }
        let best = best.context("at least one attempt")?;
        self.disturbed = if best.trial().is_disturbed() { self.disturbed + 1 } else { 0 };
        if self.disturbed == TOO_BUSY {
            eprintln!(
                "        {TOO_BUSY} trials in a row were disturbed in all attempts: this machine is too busy, and each \
                 trial takes up to {ATTEMPTS} times as long. Ctrl-C ends it."
            );
        }
        Ok(best)
    }

    /// After a signal, an error: everything is removed on the way out.
    ///
    /// # Errors
    /// After a signal.
    pub fn check_stopped(&self) -> Result<()> {
        if self.is_stopped.load(Ordering::Relaxed) {
            bail!("stopped by a signal; the trials so far are in {}", self.record.path.display());
        }
        Ok(())
    }

    /// Says on the terminal what is done now.
    pub fn progress(&self, text: &str) {
        eprintln!("{:>4} s  {text}", self.since.elapsed().as_secs());
    }

    /// Records one trial.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn keep(&mut self, experiment: &str, who: &str, round: u32, trial: &Value) -> Result<()> {
        self.record.run(experiment, who, round as usize, trial)
    }

    /// Prints and records a table of measured figures, and puts it into the report with a chart, unless it
    /// has no rows.
    ///
    /// # Errors
    /// If the record or the report cannot be written.
    pub fn measured(&mut self, heading: &str, table: Table, chart: Chart) -> Result<()> {
        if table.is_empty() {
            return Ok(());
        }
        self.record.table(&table)?;
        self.sections.push(Section::new(heading).table(table).chart(chart));
        self.write_report()
    }

    /// Prints and records a table of simulated figures, which are not in the report of the measured ones.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn simulated(&mut self, table: &Table) -> Result<()> {
        self.record.table(table)
    }

    /// Writes the report and the pictures as far as there are any, so that a failure later loses nothing.
    fn write_report(&self) -> Result<()> {
        let report = Report {
            title: "The paper's experiments with the engines of today".into(),
            origin: Origin::Measured,
            provenance: self.provenance.clone(),
            sections: self.sections.clone(),
        };
        if let Some(path) = &self.arguments.report {
            report.write(path)?;
        }
        if let Some(directory) = &self.arguments.png {
            report.write_png(directory)?;
        }
        Ok(())
    }

    /// Says where the record, the report and the pictures are.
    #[expect(clippy::print_stdout, reason = "it belongs to the tables")]
    pub fn close(self) {
        if let Some(path) = &self.arguments.report {
            println!("Report: {}", path.display());
        }
        if let Some(directory) = &self.arguments.png {
            println!("Charts: {}", directory.display());
        }
        println!("Raw trials: {}; {} s", self.record.path.display(), self.since.elapsed().as_secs());
    }
}
