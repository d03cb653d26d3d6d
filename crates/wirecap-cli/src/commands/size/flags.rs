//! The flags of `wirecap size`.

use std::{ops::RangeInclusive, time::Duration};

use clap::Args;
use wirecap::Dispatch;
use wirecap_sim::{engines::wirecap as engine, sizing::Demand};

use super::values::{rate, skew};
use crate::values::{Rate, choice, duration, number, pace};

/// Bytes of a frame on the wire beyond those that count as its length: preamble and gap.
const AROUND_FRAME: u64 = 20;
/// Lengths of frames, with FCS.
const LENGTHS: RangeInclusive<u64> = 64..=9_022;
/// How long a rate that lasts is simulated.
pub(super) const LASTING: Duration = Duration::from_secs(2);

pub(crate) const EXAMPLES: &str = "\
Examples:
  wirecap size --queues 8 --rate 10Gbit --packet 300 --burst 100ms --worker 400k --skew 3
  wirecap size --rate 14.88Mpps --burst 20ms --worker 5Mpps    one queue of small packets
  wirecap size --queues 4 --rate 2Mpps --worker 600k --skew 2  a rate that lasts";

/// Traffic, and what handles it.
#[derive(Debug, Args)]
pub(crate) struct SizeFlags {
    /// Receive queues; each has a worker.
    #[arg(long, value_name = "N", value_parser = number::<u32>(1..=1_024, "--queues 8"), default_value = "1")]
    pub(super) queues: u32,
    /// Rate of all queues together: of a link, 10Gbit, or of packets, 5Mpps.
    #[arg(long, value_parser = rate)]
    pub(super) rate: Rate,
    /// Length of packets, with FCS; on the wire, each takes 20 bytes more.
    #[arg(long, value_name = "BYTES", value_parser = number::<u64>(LENGTHS, "--packet 300"), default_value = "64")]
    pub(super) packet: u64,
    /// How long packets come at this rate [default: always].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) burst: Option<Duration>,
    /// Packets per second that a worker handles: 500k, 2Mpps.
    #[arg(long, value_name = "PPS", value_parser = pace)]
    pub(super) worker: u64,
    /// How many times the mean the busiest queue gets: from 1, all alike, to the number of queues, all in
    /// one.
    #[arg(long, value_name = "TIMES", value_parser = skew, default_value = "1")]
    pub(super) skew: f64,
    /// How chunks get from rings to workers, as with wirecap capture [default: pull].
    #[arg(long, value_parser = choice::<Dispatch>())]
    pub(super) dispatch: Option<Dispatch>,
    /// M, cells per chunk: a power of two.
    #[arg(short = 'M', value_name = "CELLS", value_parser = number::<u32>(1..=16_384, "-M 256"), default_value = "256")]
    pub(super) cells_per_chunk: u32,
    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
}

impl SizeFlags {
    pub(super) fn dispatch(&self) -> Dispatch {
        self.dispatch.unwrap_or_default()
    }

    /// What has to be handled.
    pub(super) fn demand(&self) -> Demand {
        let total_pps = match self.rate {
            Rate::Packets(pps) => pps as f64,
            Rate::Bits(bps) => bps as f64 / (8 * (self.packet + AROUND_FRAME)) as f64,
        };
        Demand {
            queues: self.queues,
            total_pps,
            skew: self.skew,
            burst_s: self.burst.unwrap_or(LASTING).as_secs_f64(),
            pace_pps: self.worker as f64,
            dispatch: match self.dispatch() {
                Dispatch::Pull => engine::Dispatch::Pull,
                Dispatch::Push => engine::Dispatch::Push,
            },
            ring: None,
        }
    }
}

/// The flags of these words.
#[cfg(test)]
pub(super) fn parsed(words: &str) -> SizeFlags {
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        flags: SizeFlags,
    }

    Command::parse_from(["size"].into_iter().chain(words.split(' '))).flags
}
