//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::workload::END_S;

/// An experiment of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Experiment {
    /// All of them.
    All,
    /// Six queues, one of them hot: which queue loses how much.
    Table1,
    /// Bursts of 1,000 to 100,000 packets into one queue.
    Figure9,
    /// The same with R and M in three ways, and equal memory.
    Figure10,
    /// One to six queues, one of them hot.
    Figure11,
    /// The same in advanced mode, with T from 50 to 90 %.
    Figure12,
    /// One to six queues, one of them hot; what is handled is sent on through a second interface.
    Figure13,
    /// CPU cycles per packet by stage: driver, program, filter, time, copy, hand-over, reading.
    Stages,
}

/// Repeats experiments of the WireCAP paper with the engines of today, in network namespaces: the same
/// traffic to one after the other. Needs root, make, gcc or clang, libpcap's headers, ip, ethtool and
/// taskset. Makes its own namespaces and removes them.
#[derive(Debug, Parser)]
#[command(
    name = "wirecap-paper",
    version,
    after_help = "./dev paper --simulate [EXPERIMENT…]: the same in virtual time, at the paper's rates (wirecap-sim)"
)]
pub struct Arguments {
    /// What to repeat.
    #[arg(value_enum, value_name = "EXPERIMENT", default_values_t = [Experiment::Table1, Experiment::Figure11])]
    pub experiments: Vec<Experiment>,
    /// Traffic of table1 and figures 11 to 13 in seconds: a part of the stand-in for the paper's trace,
    /// nine tenths of it while queue 0 is hot; 32 is the whole of it.
    #[arg(long, value_name = "S", default_value_t = 6.0, value_parser = seconds)]
    pub seconds: f64,
    /// A trace (pcap, pcapng; Ethernet) instead of the stand-in, sent at its own speed; RSS divides its flows
    /// among the queues.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seconds", "seed"])]
    pub trace: Option<PathBuf>,
    /// Seed of the stand-in: the same seed, the same packets at the same times.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Rounds of each trial; tables have the median. Stages have at least five.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Measure only engines whose name contains this text; may be given several times. Not for stages.
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// Directory of the raw trials (JSON lines) and tables (markdown).
    #[arg(long, value_name = "DIR", default_value = "target/paper")]
    pub out: PathBuf,
    /// Also write tables and charts as one HTML file, which replaces an older one.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Also write each chart to this directory, as PNG; needs rsvg-convert (package librsvg2-bin).
    #[arg(long, value_name = "DIR")]
    pub png: Option<PathBuf>,
    /// The wirecap command, for figure13 [default: the one beside this program].
    #[arg(long, value_name = "PATH")]
    pub wirecap: Option<PathBuf>,
    /// Source directory of the other engines.
    #[arg(long, value_name = "DIR", default_value = "bench/peers")]
    pub peers: PathBuf,
    /// Directory in memory, for the traffic: about 60 MB for 6 s.
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub tmpfs: PathBuf,
    /// Write the whole stand-in for six queues to a pcap file, and measure nothing.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["experiments", "trace", "report", "png", "seconds"])]
    pub write_trace: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.5..=END_S).contains(&seconds) { Ok(seconds) } else { Err(format!("0.5 to {END_S} seconds")) }
}

impl Arguments {
    /// Whether an experiment is wanted.
    pub fn wants(&self, experiment: Experiment) -> bool {
        self.experiments.iter().any(|one| [experiment, Experiment::All].contains(one))
    }

    /// Whether the engine of this name is measured.
    pub fn measures(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|text| name.contains(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    const EACH: [Experiment; 7] = [
        Experiment::Table1,
        Experiment::Figure9,
        Experiment::Figure10,
        Experiment::Figure11,
        Experiment::Figure12,
        Experiment::Figure13,
        Experiment::Stages,
    ];

    fn parse(words: &[&str]) -> Arguments {
        Arguments::parse_from([&["wirecap-paper"], words].concat())
    }

    #[test]
    fn the_flags_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn without_a_choice_the_two_main_experiments_are_repeated() {
        let wanted = |words: &[&str]| -> Vec<Experiment> {
            let arguments = parse(words);
            EACH.into_iter().filter(|&one| arguments.wants(one)).collect()
        };
        assert_eq!(wanted(&[]), [Experiment::Table1, Experiment::Figure11]);
        assert_eq!(wanted(&["all"]), EACH);
        assert_eq!(wanted(&["figure9", "--only", "libpcap"]), [Experiment::Figure9]);
    }

    #[test]
    fn seconds_are_those_of_the_stand_in() {
        assert!(Arguments::try_parse_from(["wirecap-paper", "--seconds", "33"]).is_err());
        assert!(Arguments::try_parse_from(["wirecap-paper", "--seconds", "nan"]).is_err());
        assert_eq!(parse(&["--seconds", "32"]).seconds, END_S);
    }
}
