//! The scenarios: their measurements, competitors and targets.
//!
//! | file | question | target |
//! |---|---|---|
//! | `count` | how fast, and how fast without loss? | 64 bytes: 0.95 of a bare AF_XDP loop, 2.5 times libpcap with 64 MiB |
//! | `libpcap` | how fast is a libpcap program on wirecap? | twice libpcap at 64 bytes, 0.9 of the Rust library; no loss in a group |
//! | `write` | how fast to a file? one file of several queues, or one of each? | twice tcpdump; packed: 3 times, 1.3 times with longer frames |
//! | `forward` | how fast from one interface to another? | 0.95 of a bare AF_XDP forwarding loop |
//! | `burst` | how much does a pool hold? | as arithmetic and the paper's formula predict, within 2 % |
//! | `skew` | how much loss does offloading avoid? | no loss; basic mode loses what arithmetic predicts |
//! | `engine` | what does the engine cost? | under 7 ns a packet |
//! | `memory` | how much memory does it need in addition to the cells? | a constant; no growth |
//! | `timestamp` | what does a time for each packet cost? | no loss |
//! | `generate` | how fast are frames made? | 0.95 of a bare AF_XDP loop, faster than trafgen and tcpreplay |
//! | `replay` | how evenly and how fast is a trace replayed? | better than tcpreplay in both |
//! | `soak` | does it stay lossless for long? | no loss, nothing unexplained, no growth |

mod burst;
mod count;
mod engine;
mod forward;
mod generate;
mod libpcap;
mod memory;
mod one_queue;
mod passive;
mod replay;
mod skew;
mod soak;
mod timestamp;
mod write;
mod write_queues;

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::arguments::{Arguments, Scenario};
use crate::bed::Bed;
use crate::competitor::Peers;
use crate::machine::Machine;
use crate::record::Record;

/// The pace of a worker in the paper's section 4 (300 runs of a filter per packet), in packets per second.
const PACE_PPS: u64 = 38_844;
/// The end of a frame, which its length in tables includes and its data do not.
const FCS_BYTES: usize = 4;
/// A 64-byte frame, without its FCS.
const SHORT_FRAME: usize = 64 - FCS_BYTES;

/// The state that all scenarios share.
struct Context {
    arguments: Arguments,
    machine: Machine,
    bed: Bed,
    peers: Peers,
    record: Record,
}

/// For each competitor and round, a measurement, or `None` if it failed. Competitors that `--only` leaves
/// out have no rounds.
type Results<T> = Vec<Vec<Option<T>>>;

impl Context {
    fn is_quick(&self) -> bool {
        self.arguments.quick
    }

    /// Duration of a run at one rate.
    fn run_time(&self) -> Duration {
        Duration::from_secs(if self.is_quick() { 1 } else { 2 })
    }

    /// The precision of a search, as a share of the rate.
    fn precision(&self) -> f64 {
        if self.is_quick() { 0.1 } else { 0.02 }
    }

    /// Measures all competitors in turn, round by round. Reports and records failures, and continues.
    fn rounds<C, T>(
        &mut self,
        scenario: Scenario,
        competitors: &[C],
        name: impl Fn(&C) -> String,
        mut measure: impl FnMut(&mut Self, &C, usize) -> Result<T>,
    ) -> Result<Results<T>> {
        let mut results: Results<T> = competitors.iter().map(|_| Vec::new()).collect();
        for round in 1..=self.arguments.rounds() {
            for (competitor, results) in competitors.iter().zip(&mut results) {
                let who = name(competitor);
                if !self.arguments.measures(&who) {
                    continue;
                }
                eprintln!("{} {round}/{}: {who}", scenario.name(), self.arguments.rounds());
                let result = measure(self, competitor, round);
                if let Err(error) = &result {
                    eprintln!("{} {round}: {who} FAILED: {error:#}", scenario.name());
                    self.keep(scenario, &who, round, &json!({ "error": format!("{error:#}") }))?;
                }
                results.push(result.ok());
            }
        }
        Ok(results)
    }

    fn keep(&mut self, scenario: Scenario, who: &str, round: usize, run: &Value) -> Result<()> {
        self.record.run(scenario.name(), who, round, run)
    }
}

/// The competitors that were measured, each with its rounds.
fn measured<'a, C, T>(
    competitors: &'a [C],
    results: &'a [Vec<Option<T>>],
) -> impl Iterator<Item = (&'a C, &'a [Option<T>])> {
    let all = competitors.iter().zip(results.iter().map(Vec::as_slice));
    all.filter(|(_, rounds)| !rounds.is_empty())
}

/// A figure of every successful round.
fn figures<T>(results: &[Option<T>], figure: impl Fn(&T) -> f64) -> Vec<f64> {
    results.iter().flatten().map(figure).collect()
}

/// The ratios of a figure of two competitors, each within one round, so measured in turn.
fn ratios<T>(ours: &[Option<T>], theirs: &[Option<T>], figure: impl Fn(&T) -> f64) -> Vec<f64> {
    let pairs = ours.iter().zip(theirs).filter_map(|(ours, theirs)| ours.as_ref().zip(theirs.as_ref()));
    pairs.map(|(ours, theirs)| figure(ours) / figure(theirs)).filter(|ratio| ratio.is_finite()).collect()
}

/// The path of the measured command.
fn wirecap_path(context: &Context) -> Result<PathBuf> {
    let beside = || std::env::current_exe().ok().map(|program| program.with_file_name("wirecap"));
    let path = context.arguments.wirecap.clone().or_else(beside).context("--wirecap")?;
    if !path.exists() {
        bail!("{} does not exist; build it or give --wirecap PATH", path.display());
    }
    // A relative path would work in the namespace, but not a name without a slash.
    Ok(path.canonicalize()?)
}

/// Runs the chosen scenarios.
///
/// # Errors
/// Without root or a compiler; if the record cannot be written; if `soak` finds a fault.
pub fn run(arguments: Arguments) -> Result<()> {
    let machine = Machine::inspect();
    let peers = Peers::build(&arguments.peers)?;
    let record = Record::create(&arguments.out, &machine)?;
    let mut context = Context { bed: Bed::new()?, arguments, machine, peers, record };
    for scenario in context.arguments.chosen() {
        match scenario {
            Scenario::Count => count::run(&mut context),
            Scenario::Passive => passive::run(&mut context),
            Scenario::Libpcap => libpcap::run(&mut context),
            Scenario::Write => write::run(&mut context).and_then(|()| write_queues::run(&mut context)),
            Scenario::Forward => forward::run(&mut context),
            Scenario::Burst => burst::run(&mut context),
            Scenario::Skew => skew::run(&mut context),
            Scenario::Engine => engine::run(&mut context),
            Scenario::Memory => memory::run(&mut context),
            Scenario::Timestamp => timestamp::run(&mut context),
            Scenario::Generate => generate::run(&mut context),
            Scenario::Replay => replay::run(&mut context),
            Scenario::Soak => soak::run(&mut context),
            Scenario::SoakForward => soak::forwards(&mut context),
            Scenario::All => unreachable!("`chosen` replaces it"),
        }?;
    }
    println!("Raw runs: {}", context.record.path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_competitor_without_rounds_is_left_out() {
        let results = [vec![Some(1.0)], vec![], vec![None]];
        let names: Vec<_> =
            measured(&["one", "left out", "failed"], &results).map(|(name, _)| *name).collect();
        assert_eq!(names, ["one", "failed"]);
    }

    #[test]
    fn ratios_compare_figures_of_the_same_round() {
        let (ours, theirs) = ([Some(8.0), Some(9.0), None], [Some(2.0), None, Some(1.0)]);
        assert_eq!(ratios(&ours, &theirs, |&value| value), [4.0]);
        assert_eq!(figures(&ours, |&value| value), [8.0, 9.0]);
    }
}
