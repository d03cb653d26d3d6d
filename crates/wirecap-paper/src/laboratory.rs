//! What all experiments need: the network, the engines' programs, the record.

use std::time::Instant;

use anyhow::Result;
use serde_json::json;
use wirecap_bench::{
    bed::Bed,
    competitor::{Competitor, Peers},
    machine::Machine,
    record::Record,
};
use wirecap_lab::table::Table;

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
        Ok(Self { arguments, bed: Bed::new()?, peers, record, since: Instant::now() })
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
            eprintln!(
                "{:>4} s  {experiment} {round}/{}: {name}",
                self.since.elapsed().as_secs(),
                self.arguments.rounds
            );
            let mut best: Option<S> = None;
            for attempt in 1..=ATTEMPTS {
                let sample = sample(self).map_err(|error| error.context(format!("{experiment}, {name}")))?;
                let (late_ms, is_disturbed) = (sample.trial().late_ms, sample.trial().is_disturbed());
                let kept = json!({ "late_ms": late_ms, "trial": sample.trial().json });
                self.record.run(experiment, &name, round, &kept)?;
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

    /// Prints and records a table.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn table(&mut self, table: &Table) -> Result<()> {
        self.record.table(table)
    }

    /// Says where the record is.
    ///
    /// # Errors
    /// Never.
    #[expect(clippy::print_stdout, reason = "it belongs to the tables")]
    pub fn close(self) -> Result<()> {
        println!("Raw trials: {}; {} s", self.record.path.display(), self.since.elapsed().as_secs());
        Ok(())
    }
}
