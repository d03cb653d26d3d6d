//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// A set of measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// All scenarios except the soaks, in the order of this list.
    All,
    /// One queue, count only: rate, and highest rate without loss.
    Count,
    /// One queue, count only, passively: taps against TPACKET_V3.
    Passive,
    /// Programs that use libpcap, on wirecap against libpcap: a counting loop, tcpdump, threads.
    Libpcap,
    /// Writing to a file, against tcpdump.
    Write,
    /// Between two interfaces, on one core: rate, and highest rate without loss.
    Forward,
    /// A burst to a slow worker: pools of several sizes, and the paper's formula.
    Burst,
    /// Six queues, one of them hot: offloading.
    Skew,
    /// The engine's own cost, memory only.
    Engine,
    /// Memory beside the cells, and whether it grows.
    Memory,
    /// Each source of timestamps: what it costs.
    Timestamp,
    /// Generating: AF_XDP transmit against a bare loop, trafgen and tcpreplay.
    Generate,
    /// Sending a trace again, against tcpreplay: how evenly, how fast.
    Replay,
    /// Skewed traffic for long: no loss, no growth.
    Soak,
    /// Forwarding for half the time of soak, at 0.9 of the top rate: no loss.
    SoakForward,
}

impl Scenario {
    /// The scenarios of `all`.
    pub const ALL: [Self; 12] = [
        Self::Count,
        Self::Passive,
        Self::Libpcap,
        Self::Write,
        Self::Forward,
        Self::Burst,
        Self::Skew,
        Self::Engine,
        Self::Memory,
        Self::Timestamp,
        Self::Generate,
        Self::Replay,
    ];

    /// Its name on the command line and in the record.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Count => "count",
            Self::Passive => "passive",
            Self::Libpcap => "libpcap",
            Self::Write => "write",
            Self::Forward => "forward",
            Self::Burst => "burst",
            Self::Skew => "skew",
            Self::Engine => "engine",
            Self::Memory => "memory",
            Self::Timestamp => "timestamp",
            Self::Generate => "generate",
            Self::Replay => "replay",
            Self::Soak => "soak",
            Self::SoakForward => "soak-forward",
        }
    }
}

/// Compares wirecap with its peers. Needs root, gcc or clang, libpcap's headers, ip, ethtool and taskset;
/// tcpdump for `write` and `libpcap`, and tc for `forward`. If installed, dpdk-testpmd with net_af_xdp
/// competes in `forward`, trafgen and tcpreplay in `generate` and `replay`. Makes its own network namespaces
/// and removes them.
#[derive(Debug, Parser)]
#[command(name = "wirecap-bench", version)]
pub struct Arguments {
    /// What to measure.
    #[arg(value_enum, default_values_t = [Scenario::All])]
    pub scenarios: Vec<Scenario>,
    /// One short round of each measurement, to check that everything works. The figures mean little.
    #[arg(long)]
    pub quick: bool,
    /// Rounds of each measurement [default: 5; with --quick 1].
    #[arg(long, value_name = "N")]
    pub rounds: Option<usize>,
    /// Measure only competitors whose name, as printed at their turn, contains this text; may be given
    /// several times. Figures relative to one that is left out are missing. Not for the soaks.
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// Directory of the raw runs (JSON lines) and tables (markdown).
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    pub out: PathBuf,
    /// The wirecap command [default: the one beside this program].
    #[arg(long, value_name = "PATH")]
    pub wirecap: Option<PathBuf>,
    /// Source directory of the peers.
    #[arg(long, value_name = "DIR", default_value = "bench/peers")]
    pub peers: PathBuf,
    /// Directory in memory for `write` and `libpcap`.
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub tmpfs: PathBuf,
    /// Directory on a disk for `write` [default: that of --out].
    #[arg(long, value_name = "DIR")]
    pub disk: Option<PathBuf>,
    /// Duration of `soak` in minutes; `soak-forward` takes half of it.
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    pub minutes: f64,
}

impl Arguments {
    /// The scenarios on the command line, each once.
    pub fn chosen(&self) -> Vec<Scenario> {
        let mut chosen = Vec::new();
        for &scenario in &self.scenarios {
            let expanded: &[_] = if scenario == Scenario::All { &Scenario::ALL } else { &[scenario] };
            for &scenario in expanded {
                if !chosen.contains(&scenario) {
                    chosen.push(scenario);
                }
            }
        }
        chosen
    }

    /// Whether the competitor of this name is measured.
    pub fn measures(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|text| name.contains(text))
    }

    /// Rounds of each measurement.
    pub fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 1 } else { 5 }).max(1)
    }
}

/// Reads the command line; ends the program if it is wrong.
pub fn parse() -> Arguments {
    Arguments::parse()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_flags_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn all_means_each_scenario_once_except_the_soaks() {
        let chosen = |words: &[&str]| Arguments::parse_from([&["wirecap-bench"], words].concat()).chosen();
        assert_eq!(chosen(&[]), Scenario::ALL);
        assert_eq!(chosen(&["skew", "all"]).len(), Scenario::ALL.len());
        assert_eq!(chosen(&["soak", "--minutes", "0.5"]), [Scenario::Soak]);
    }

    #[test]
    fn only_chooses_competitors_by_parts_of_their_names() {
        let measures = |words: &[&str], name: &str| {
            Arguments::parse_from([&["wirecap-bench", "count"], words].concat()).measures(name)
        };
        assert!(measures(&[], "libpcap 64 MiB"));
        let only = ["--only", "packed", "--only", "libpcap"];
        assert!(measures(&only, "libpcap 64 MiB") && measures(&only, "wirecap, packed, stamped"));
        assert!(!measures(&only, "wirecap pull, sleep"));
    }

    #[test]
    fn rounds_default_to_five_or_to_one_if_quick() {
        let rounds = |words: &[&str]| Arguments::parse_from([&["wirecap-bench"], words].concat()).rounds();
        assert_eq!((rounds(&[]), rounds(&["--quick"]), rounds(&["--quick", "--rounds", "3"])), (5, 1, 3));
    }
}
