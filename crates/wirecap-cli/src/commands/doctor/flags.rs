//! The flags of `wirecap doctor`.

use std::path::PathBuf;

use clap::Args;
use wirecap_core::choice::UnknownName;
use wirecap_doctor::Rule;

use super::journal;
use crate::{flags::INTERFACE, values::bytes};

pub(crate) const EXAMPLES: &str = "\
Examples:
  wirecap doctor eth1                              what costs packets, why, and what helps
  wirecap doctor eth1 --disk /captures --measure   with the disk, which is written to for three seconds
  wirecap doctor --account account.json            explains the losses that wirecap capture --json printed
  wirecap doctor eth1 --fix                        changes what is safe to change, with a journal
  wirecap doctor eth1 --fix=single-queue           makes the changes of this rule, which are not made unasked
  wirecap doctor --undo                            restores every setting as it was

Findings do not change the exit code, unless --fail-on-findings is given: then it is 4 if there is a problem or a warning.";

/// What to examine, and what to do about it.
#[derive(Debug, Args)]
pub(crate) struct DoctorFlags {
    /// The interfaces to examine, by name or alternative name [default: those of --account].
    #[arg(value_name = INTERFACE, required_unless_present_any = ["undo", "snapshot", "account"])]
    pub(crate) interfaces: Vec<String>,
    /// Change what the findings name, as far as that is safe, and report what became of it; with
    /// --fix=RULE,RULE make all changes of these rules, and only these. Most settings are restored by a
    /// restart of the machine, too.
    #[arg(long, value_name = "RULE", num_args = 0.., require_equals = true, value_delimiter = ',',
          value_parser = rule, conflicts_with_all = ["undo", "snapshot"])]
    pub(crate) fix: Option<Vec<Rule>>,
    /// Restore every setting that --fix has changed, of all interfaces, as it was before.
    #[arg(long, conflicts_with_all = ["snapshot", "disk", "account", "record"])]
    pub(crate) undo: bool,
    /// Where packets are to be written: a directory, or a file in it.
    #[arg(long, value_name = "PATH")]
    pub(crate) disk: Option<PathBuf>,
    /// Write a test file there, for three seconds or up to 2 GiB, and report the speed. The file has no name
    /// and is gone at the end.
    #[arg(long, requires = "disk")]
    pub(crate) measure: bool,
    /// Explain the losses of a capture: a file with what `wirecap capture --json` printed. Without an
    /// interface, those that it captured are examined.
    #[arg(long, value_name = "FILE")]
    pub(crate) account: Option<PathBuf>,
    /// Size of a cell in the planned capture: 2048 or 4096.
    #[arg(long, value_name = "BYTES", default_value_t = 2048, value_parser = bytes("--cell-bytes 4096"))]
    pub(crate) cell_bytes: u32,
    /// Write what is known of the machine to a file as well.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Examine a machine that --record has written to a file, instead of this one.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["interfaces", "disk", "record"])]
    pub(crate) snapshot: Option<PathBuf>,
    /// Directory of the journal that --fix writes and --undo reads.
    #[arg(long, value_name = "DIR", default_value = journal::USUAL)]
    pub(crate) journal: PathBuf,
    /// Exit with code 4 if there is a problem or a warning.
    #[arg(long)]
    pub(crate) fail_on_findings: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Not with all names in the error: there are more than fifty.
fn rule(name: &str) -> Result<Rule, String> {
    name.parse().map_err(|UnknownName { nearest, .. }| match nearest {
        Some(nearest) => format!("there is no such rule; did you mean {nearest}?"),
        None => "there is no such rule; wirecap doctor names those that have a finding".into(),
    })
}
