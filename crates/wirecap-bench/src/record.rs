//! The output: tables on the terminal and in a markdown file, every single run as a JSON line.
//!
//! ```text
//!   OUT/2026-01-31T23-59-59Z.jsonl   {"machine": …}, then {"scenario", "who", "round", "run": …} for each run
//!   OUT/2026-01-31T23-59-59Z.md      the machine in a line, then the tables
//! ```

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wirecap_lab::table::Table;

use crate::machine::Machine;

/// The two files of one run of the benchmarks.
#[derive(Debug)]
pub struct Record {
    raw: File,
    tables: File,
    /// The file of the raw runs.
    pub path: PathBuf,
}

impl Record {
    /// Makes both files and records the machine.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub fn create(directory: &Path, machine: &Machine) -> Result<Self> {
        fs::create_dir_all(directory).with_context(|| format!("--out {}", directory.display()))?;
        let stem = machine.date.replace(':', "-");
        let path = directory.join(format!("{stem}.jsonl"));
        let create = |path: &Path| File::create(path).with_context(|| format!("--out {}", path.display()));
        let mut record = Self { raw: create(&path)?, tables: create(&path.with_extension("md"))?, path };
        writeln!(record.raw, "{}", json!({ "machine": machine }))
            .with_context(|| format!("--out {}", record.path.display()))?;
        record.say(&format!("{}\n\n`{}`\n", machine.describe(), machine.command.join(" ")))?;
        Ok(record)
    }

    /// Records one run.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn run(&mut self, scenario: &str, who: &str, round: usize, run: &Value) -> Result<()> {
        let line = json!({ "scenario": scenario, "who": who, "round": round, "run": run });
        writeln!(self.raw, "{line}").with_context(|| format!("{}", self.path.display()))
    }

    /// Prints and records a table, unless it has no rows.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn table(&mut self, table: &Table) -> Result<()> {
        if table.is_empty() { Ok(()) } else { self.say(&table.to_string()) }
    }

    fn say(&mut self, text: &str) -> Result<()> {
        println!("{text}");
        writeln!(self.tables, "{text}").with_context(|| format!("{}", self.path.display()))
    }
}
