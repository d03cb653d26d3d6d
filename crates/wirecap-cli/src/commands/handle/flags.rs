//! The flags of `wirecap handle`.

use anyhow::{Result, ensure};
use clap::Args;
use wirecap::{Config, PoolSize, PortSpec};

use super::load::{FilterRuns, LoadRequest};
use crate::{
    commands::capture::{engine_flags::EngineFlags, settings::CaptureSettings, words},
    flags::{
        INTERFACE, OutputFlags, PoolFlags, PortFlags, ProcessFlags, ServiceFlags, TimeLimit, WorkerFlags,
    },
    values::{ANY, count, number, pace, ports},
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  wirecap handle eth1 -x 300                     the paper's heavy handler: a thread for each queue
  wirecap handle eth1 -x 0                       no load: what the engine does by itself
  wirecap handle eth1 -x 300 --native            the same filter as machine code
  wirecap handle eth1 --pace 38844 --threads 6   six threads of the paper's pace, on any number of cores
  wirecap handle eth1 --pace 40k -M 256 -R 100 -T 60 --forward eth2
  wirecap handle trace:x.pcap -x 300             what a packet costs on this machine; needs no privilege";

/// The filter that the paper applies, in the words of today's libpcap.
const PAPER_FILTER: &str = "net 131.225.2 and udp";
/// Chunks of each pool when packets are sent on, as for `wirecap forward`: sockets that send keep a record of
/// each cell.
const CHUNKS_TO_SEND: u32 = 32;

// Help that differs from that of `capture`.
const THREADS: &str = "Number of threads that handle packets. With fewer threads than receive queues, a thread serves several; with \
                       more (advanced mode), the others only help [default: one per receive queue]";

/// What to handle, and how slowly.
#[derive(Debug, Args)]
#[command(mut_arg("workers", |flag| flag
    .long("threads")
    .visible_alias("workers")
    .help(THREADS)
    .value_parser(number::<usize>(ANY, "--threads 4"))))]
pub(crate) struct HandleFlags {
    /// Interfaces, as with wirecap capture, or trace files: trace:FILE. A filter may follow.
    #[arg(value_name = INTERFACE, required = true)]
    words: Vec<String>,
    /// The filter of what is captured, if it could be mistaken for an interface or a flag.
    #[arg(short = 'f', long, value_name = "FILTER", allow_hyphen_values = true)]
    filter: Option<String>,

    /// Apply a filter N times to each packet before it is dropped; 0 does nothing with packets.
    #[arg(short = 'x', value_name = "N", value_parser = number::<u64>(ANY, "-x 300"))]
    runs: Option<u64>,
    /// The filter that is applied; it decides nothing, and matches are counted [default: net 131.225.2 and
    /// udp].
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    apply: Option<String>,
    /// Run the filter as machine code, if the machine and the filter allow it, instead of interpreting it.
    #[arg(long)]
    native: bool,
    /// Let each thread handle at most this many packets per second, as a slow application would: 40k, 1Mpps.
    /// Threads sleep in between, so there may be more of them than cores.
    #[arg(long, value_name = "PPS", value_parser = pace, conflicts_with = "runs")]
    pace: Option<u64>,
    /// Send packets on through IFACE2 once they are handled. Both interfaces are taken from the host, and
    /// what arrives at IFACE2 is dropped.
    #[arg(long, value_name = "IFACE2")]
    forward: Option<String>,
    /// Stop after N packets (10k, 5M and 1G are thousands, millions, billions), and those that the workers
    /// already hold.
    #[arg(short, long, value_name = "N", value_parser = count)]
    count: Option<u64>,
    #[command(flatten)]
    limit: TimeLimit,

    #[command(flatten)]
    pool: PoolFlags,
    #[command(flatten)]
    engine: EngineFlags,
    #[command(flatten)]
    workers: WorkerFlags,
    #[command(flatten)]
    port: PortFlags,
    #[command(flatten)]
    process: ProcessFlags,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    service: ServiceFlags,
}

/// How packets are handled, beside what is captured.
#[derive(Debug)]
pub(super) struct HandleRequest {
    pub(super) load: LoadRequest,
    /// Where they are sent on.
    pub(super) forward: Option<PortSpec>,
}

impl HandleFlags {
    /// The settings of the capture, and how packets are handled. `is_interface` says whether an interface has
    /// that name.
    ///
    /// # Errors
    /// [`Usage`](crate::exit::Usage) for words and values that contradict each other.
    pub(super) fn into_request(
        self,
        is_interface: impl FnMut(&str) -> bool,
    ) -> Result<(CaptureSettings, HandleRequest)> {
        let load = load(self.runs, self.apply, self.native, self.pace)?;
        let forward = self.forward.map(|name| ports(&[name])).transpose()?;
        let forward = forward.and_then(|ports| ports.into_iter().next());
        let mut settings = CaptureSettings::default();
        if forward.is_some() {
            settings.capture = Config { pool_size: PoolSize::AtMost(CHUNKS_TO_SEND), ..settings.capture };
        }
        let CaptureSettings { capture, output, process, service } = &mut settings;
        words::apply(&self.words, self.filter, capture, is_interface)?;
        self.pool.apply(capture);
        self.engine.apply(capture)?;
        self.workers.apply(capture);
        self.port.apply(capture);
        output.count = self.count;
        output.duration = self.limit.duration;
        self.output.apply(output);
        self.process.apply(process);
        self.service.apply(service);
        Ok((settings, HandleRequest { load, forward }))
    }
}

fn load(runs: Option<u64>, apply: Option<String>, native: bool, pace: Option<u64>) -> Result<LoadRequest> {
    let is_for_filter = native || apply.is_some();
    ensure!(
        !is_for_filter || (pace.is_none() && runs != Some(0)),
        usage!("--apply and --native are for a filter that runs: write -x 1 or more, or leave them out")
    );
    if let Some(pps) = pace {
        return Ok(LoadRequest::Pace(pps));
    }
    let Some(runs) = runs else {
        return Err(usage!(
            "handle needs to know what a packet costs: -x 300 applies a filter 300 times to each, --pace 40k holds a pace, and \
             -x 0 does nothing"
        )
        .into());
    };
    let expression = apply.unwrap_or_else(|| PAPER_FILTER.into());
    Ok(LoadRequest::Filter(FilterRuns { expression, runs, native }))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::{
        commands::{Command, Flags},
        exit::Usage,
    };

    fn request(arguments: &[&str]) -> Result<(Config, HandleRequest), String> {
        let words = ["wirecap", "handle", "eth1"].iter().chain(arguments);
        let flags = Flags::try_parse_from(words).map_err(|refused| refused.to_string())?;
        let Command::Handle(flags) = flags.command else { unreachable!("the command is handle") };
        let request = flags.into_request(|name| name == "eth1");
        request.map(|(settings, request)| (settings.capture, request)).map_err(|error| {
            assert!(error.is::<Usage>(), "{error}");
            error.to_string()
        })
    }

    #[test]
    fn a_packet_costs_runs_of_a_filter_or_a_share_of_a_pace() {
        let load = |arguments: &[&str]| request(arguments).unwrap().1.load;
        let runs = |expression: &str, runs, native| {
            LoadRequest::Filter(FilterRuns { expression: expression.into(), runs, native })
        };
        assert_eq!(load(&["-x", "300"]), runs("net 131.225.2 and udp", 300, false));
        assert_eq!(load(&["-x", "1", "--apply", "tcp", "--native"]), runs("tcp", 1, true));
        assert_eq!(load(&["--pace", "1.5k"]), LoadRequest::Pace(1_500));
        for (arguments, words) in [
            (&[][..], "-x 300 applies a filter"),
            (&["-x", "1", "--pace", "1k"], "cannot be used with"),
            (&["--pace", "1k", "--apply", "udp"], "for a filter that runs"),
            (&["-x", "0", "--native"], "for a filter that runs"),
        ] {
            let refused = request(arguments).unwrap_err();
            assert!(refused.contains(words), "{arguments:?}: {refused}");
        }
    }

    /// The same handler as a libpcap program does the same work.
    #[test]
    fn the_peer_applies_the_same_filter() {
        let peer = include_str!("../../../../../bench/peers/pcap_threads.c");
        assert!(peer.contains(&format!("&program, \"{PAPER_FILTER}\",")));
    }

    #[test]
    fn threads_are_workers_and_sending_takes_smaller_pools() {
        let (config, _) = request(&["-x", "0", "--threads", "3", "-T", "20"]).unwrap();
        assert_eq!((config.workers, config.mode), (Some(3), wirecap::Mode::advanced(20).unwrap()));
        assert_eq!(config.pool_size, PoolSize::default());
        let (config, request) = request(&["-x", "0", "--forward", "eth2@0", "--workers", "2"]).unwrap();
        assert_eq!((config.workers, config.pool_size), (Some(2), PoolSize::AtMost(CHUNKS_TO_SEND)));
        assert_eq!(request.forward.map(|to| to.to_string()), Some("eth2@0".into()));
    }
}
