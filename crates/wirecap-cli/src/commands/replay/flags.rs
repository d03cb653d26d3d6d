//! The flags of `wirecap replay`.

use std::{path::PathBuf, time::Duration};

use anyhow::{Result, bail};
use clap::{ArgGroup, Args};
use wirecap_replay::{CutPolicy, Placement};

use super::values::{factor, gap, placement, rate};
use crate::{
    flags::{INTERFACE, SendFlags, TimeLimit},
    values::{ANY, choice, count, is_trace, number, size},
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  wirecap replay trace.pcap -i eth1                          at the recorded speed
  wirecap replay a.pcap b.pcapng -i eth1 --speed 10          two files merged by time, ten times as fast
  wirecap replay trace.pcap -i eth1 --bps 1G --loops 100     a gigabit per second, a hundred times
  wirecap replay trace.pcap -i eth1 --top-speed --loops 0    as fast as possible, until Ctrl-C
  wirecap replay trace.pcap -i eth1 --queues flow            from all transmit queues, by flow
  tcpdump -i eth0 -U -w - | wirecap replay - -i eth1         as packets arrive";

/// What to send, where to, and how fast.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("pace").args(["speed", "pps", "bps", "top_speed"]))]
pub(crate) struct ReplayFlags {
    /// Trace files, pcap or pcapng, merged by time; - is standard input. Without -i, the interface follows.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The interface to send from, by name or alternative name [default: the word after the files].
    #[arg(short, long, value_name = INTERFACE)]
    interface: Option<String>,

    /// Speed relative to the recording: 10, 0.5 [default: 1].
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    pub(crate) speed: Option<u64>,
    /// Packets per second, evenly spaced: 1000, 10k, 1.5M.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) pps: Option<u64>,
    /// Bits per second, of packets as they are in the file, without preamble and checksum: 100M, 2.5G.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) bps: Option<u64>,
    /// Send as fast as possible.
    #[arg(long)]
    pub(crate) top_speed: bool,

    /// How often to send the files; 0 repeats until stopped.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u64>(ANY, "--loops 10"))]
    pub(crate) loops: u64,
    /// Gap between two passes, in recorded time: 0, 20us, 1ms, 2s [default: the mean gap of the trace].
    #[arg(long, value_name = "TIME", value_parser = gap)]
    pub(crate) loop_gap: Option<Duration>,
    /// Cut longer gaps to this, in recorded time.
    #[arg(long, value_name = "TIME", value_parser = gap)]
    pub(crate) max_gap: Option<Duration>,
    /// Start all files together, whenever they were recorded.
    #[arg(long)]
    pub(crate) align: bool,
    /// Stop after N packets (10k, 5M and 1G are thousands, millions, billions).
    #[arg(short, long, value_name = "N", value_parser = count)]
    pub(crate) count: Option<u64>,
    #[command(flatten)]
    pub(crate) limit: TimeLimit,

    /// Transmit queues: a number; flow (both directions of a connection from one queue) or round-robin, over
    /// all queues or over some, as in flow:0-3; file:SIDE is a text file with one queue number per packet.
    #[arg(long, value_name = "WHERE", default_value = "0", value_parser = placement)]
    pub(crate) queues: Placement,
    /// What to do with packets of which the file has only the beginning.
    #[arg(long, value_parser = choice::<CutPolicy>(), default_value_t)]
    pub(crate) truncated: CutPolicy,
    /// Memory for cells: 512M, 2G. A trace that needs more is read while it is sent [default: 1G, or half of
    /// the available memory].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) memory: Option<u64>,

    #[command(flatten)]
    pub(crate) send: SendFlags,
}

impl ReplayFlags {
    /// The files, and the interface to send from: that of -i, or the last word if it is no file.
    ///
    /// # Errors
    /// [`Usage`](crate::exit::Usage) if no interface is named.
    pub(super) fn files_and_interface(&self) -> Result<(&[PathBuf], &str)> {
        if let Some(interface) = &self.interface {
            return Ok((&self.files, interface));
        }
        match self.files.split_last().map(|(last, files)| (files, last.to_str())) {
            Some((files @ [_, ..], Some(last))) if last != "-" && !is_trace(last) => Ok((files, last)),
            _ => bail!(usage!(
                "replay needs an interface to send from: name it after the files, or with -i; wirecap interfaces lists them"
            )),
        }
    }
}
