//! The flags of `wirecap run`.

use std::{ffi::OsString, path::PathBuf};

use clap::Args;
use wirecap::{Dispatch, Modes, Timestamp, Wait};

use crate::values::{ANY, Cores, choice, choice_but, cores, number, size};

pub(crate) const EXAMPLES: &str = "\
Examples:
  wirecap run tcpdump -i eth1 -w trace.pcap            tcpdump on the engine, unchanged
  wirecap run -R 500 --account -- ngrep -d eth1        with a larger pool, and the account at the end
  wirecap run -- tcpdump -i 'eth1?M=64&R=2000'         settings of one device stand behind its name
  wirecap run -- tcpdump -i xdp:eth1@0-3               four receive queues, taken from the host";

/// A program that captures by libpcap, and how the engine serves it.
#[derive(Debug, Args)]
pub(crate) struct RunFlags {
    /// M, cells per chunk: a power of two [default: 256].
    #[arg(short = 'M', value_name = "CELLS", value_parser = number::<u32>(ANY, "-M 256"))]
    cells_per_chunk: Option<u32>,
    /// R, chunks per receive queue [default: 128, or what the program's buffer size asks for].
    #[arg(short = 'R', value_name = "CHUNKS", value_parser = number::<u32>(ANY, "-R 128"))]
    chunks_per_pool: Option<u32>,
    /// T, the threshold in percent, for devices that form a group.
    #[arg(short = 'T', value_name = "PERCENT", value_parser = number::<u32>(0..=100, "-T 60"))]
    threshold_percent: Option<u32>,
    /// Memory for the cells of a device, which determines R: 512M, 2G.
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "chunks_per_pool")]
    memory: Option<u64>,
    /// Core to pin each thread that reads packets to [default: not pinned].
    #[arg(long, value_name = "LIST", value_parser = cores)]
    cores: Option<Cores>,
    /// How chunks get to workers [default: pull].
    #[arg(long, value_parser = choice::<Dispatch>())]
    dispatch: Option<Dispatch>,
    /// What a thread does that waits for packets [default: sleep].
    #[arg(long, value_parser = choice::<Wait>())]
    wait: Option<Wait>,
    /// How to attach to interfaces [default: best].
    #[arg(long, value_parser = choice::<Modes>())]
    xdp_mode: Option<Modes>,
    /// Source of the packets' timestamps [default: as the program asks for, the kernel's otherwise].
    #[arg(long, value_name = "SOURCE", value_parser = choice_but(Timestamp::File))]
    timestamp: Option<Timestamp>,
    /// Read settings of the engine from FILE (TOML) [default: /etc/wirecap/libpcap.toml, if it is there].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the account of each device on standard error when the program has ended.
    #[arg(long)]
    pub(super) account: bool,
    /// Print the accounts as JSON, a line each, on standard error.
    #[arg(long)]
    pub(super) json: bool,
    /// Print nothing about a program that did not capture on the engine.
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// The program, and its arguments.
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(super) program: Vec<OsString>,
}

impl RunFlags {
    /// The settings that are given, as the variables of the environment that the library reads.
    pub(super) fn variables(&self) -> Vec<(&'static str, OsString)> {
        let cores = self.cores.as_ref().map(|cores| {
            let numbers: Vec<_> = cores.0.iter().map(ToString::to_string).collect();
            numbers.join(",")
        });
        let given = [
            ("WIRECAP_M", self.cells_per_chunk.map(|cells| cells.to_string())),
            ("WIRECAP_R", self.chunks_per_pool.map(|chunks| chunks.to_string())),
            ("WIRECAP_T", self.threshold_percent.map(|percent| percent.to_string())),
            ("WIRECAP_MEMORY", self.memory.map(|bytes| bytes.to_string())),
            ("WIRECAP_CORES", cores),
            ("WIRECAP_DISPATCH", self.dispatch.map(|dispatch| dispatch.to_string())),
            ("WIRECAP_WAIT", self.wait.map(|wait| wait.to_string())),
            ("WIRECAP_XDP_MODE", self.xdp_mode.map(|mode| mode.to_string())),
            ("WIRECAP_TIMESTAMP", self.timestamp.map(|timestamp| timestamp.to_string())),
        ];
        let given = given.into_iter().filter_map(|(name, value)| Some((name, value?.into())));
        let config = self.config.as_ref().map(|path| ("WIRECAP_CONFIG", path.into()));
        given.chain(config).collect()
    }
}
