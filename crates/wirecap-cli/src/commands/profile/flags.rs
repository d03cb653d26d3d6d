//! The flags of `wirecap profile`.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use anyhow::{Result, ensure};
use clap::Args;
use wirecap::{Fanout, PortSpec};
use wirecap_profile::{
    BinSettings, Rss,
    rss::{HashFields, IndirectionTable, RssKey},
};

use super::queues::{ComputedQueues, QueueSource};
use crate::{
    commands::capture::{settings::CaptureSettings, words},
    flags::{
        INTERFACE, OutputFlags, PoolFlags, PortFlags, ProcessFlags, ServiceFlags, TimeLimit, WorkerFlags,
    },
    values::{choice, count, duration, number},
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  wirecap profile eth1                                   until Ctrl-C: a table, live, and what it means
  wirecap profile eth1 --duration 1m --csv bins.csv --picture profile.svg
  wirecap profile trace:x.pcap --queues 8                what RSS makes of a trace with eight queues
  wirecap profile trace:x.pcap --queues 8 --rss-key symmetric
  wirecap profile trace:x.pcap --rss-weight 6,2,2,2      as after ethtool -X eth1 weight 6 2 2 2
  wirecap profile xdp:eth1 'tcp port 443' --json         only some packets, figures for a program";

/// The number of queues of a trace without flags: as in Figure 3 of the paper.
const QUEUES: usize = 6;

/// What to profile, and what to write.
#[derive(Debug, Args)]
pub(crate) struct ProfileFlags {
    /// Interfaces, as with wirecap capture, or one trace file: trace:FILE. A filter may follow.
    #[arg(value_name = INTERFACE, required = true)]
    words: Vec<String>,
    /// The filter, if it could be mistaken for an interface or a flag.
    #[arg(short = 'f', long, value_name = "FILTER", allow_hyphen_values = true)]
    filter: Option<String>,
    /// The width of a bin: 1ms, 10ms, 1s.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10ms")]
    bin: Duration,
    /// How much time counts as short-term: the window in which bursts and imbalance are measured.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "100ms")]
    window: Duration,

    /// Compute the queue of each packet, as a NIC with N receive queues chooses it (RSS) [default: 6 for a
    /// trace file; for an interface the queue that the packet came in on].
    #[arg(long, value_name = "N", value_parser = number::<usize>(1..=1024, "--queues 8"))]
    queues: Option<usize>,
    /// The key of the hash: microsoft, symmetric (both directions alike), or hexadecimal as ethtool -x prints
    /// it [default: microsoft].
    #[arg(long, value_name = "KEY", value_parser = RssKey::from_str)]
    rss_key: Option<RssKey>,
    /// The indirection table, all entries of it: 0,1,2,3 [default: 128 entries, the queues in turn].
    #[arg(long, value_name = "LIST", value_parser = table, conflicts_with_all = ["queues", "rss_weight"])]
    rss_table: Option<IndirectionTable>,
    /// The weight of each queue in a table of 128 entries, as ethtool -X weight sets it: 6,2,1.
    #[arg(long, value_name = "LIST", value_parser = weights, conflicts_with = "queues")]
    rss_weight: Option<IndirectionTable>,
    /// What is hashed [default: ports].
    #[arg(long, value_parser = choice::<HashFields>())]
    rss_fields: Option<HashFields>,

    /// Write each bin with packets to FILE: its time, its Gini coefficient, the packets of each queue.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw the profile at the end: FILE.svg.
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// How often a line is printed where standard error is no terminal; a terminal has a table.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    interval: Duration,
    /// Stop after N packets (10k, 5M and 1G are thousands, millions, billions), and those that the workers
    /// already hold.
    #[arg(short, long, value_name = "N", value_parser = count)]
    count: Option<u64>,
    #[command(flatten)]
    limit: TimeLimit,

    #[command(flatten)]
    pool: PoolFlags,
    #[command(flatten)]
    workers: WorkerFlags,
    #[command(flatten)]
    port: PortFlags,
    /// How to spread packets over the workers when capturing passively, as with wirecap capture.
    #[arg(long, value_parser = choice::<Fanout>())]
    fanout: Option<Fanout>,
    #[command(flatten)]
    process: ProcessFlags,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    service: ServiceFlags,
}

/// What is profiled, beside what is captured.
#[derive(Debug)]
pub(super) struct ProfileRequest {
    pub(super) bins: BinSettings,
    pub(super) queues: QueueSource,
    pub(super) csv: Option<PathBuf>,
    pub(super) picture: Option<PathBuf>,
    pub(super) interval: Duration,
}

impl ProfileFlags {
    /// The settings of the capture, and what is profiled. `is_interface` says whether an interface has that
    /// name.
    ///
    /// # Errors
    /// [`Usage`](crate::exit::Usage) for words and values that contradict each other.
    pub(super) fn into_request(
        self,
        is_interface: impl FnMut(&str) -> bool,
    ) -> Result<(CaptureSettings, ProfileRequest)> {
        let mut settings = CaptureSettings::default();
        let CaptureSettings { capture, output, process, service } = &mut settings;
        words::apply(&self.words, self.filter, capture, is_interface)?;
        self.pool.apply(capture);
        self.workers.apply(capture);
        self.port.apply(capture);
        capture.fanout = self.fanout;
        // The bin of a packet is that of its own time.
        capture.stamp_packets = true;
        output.count = self.count;
        output.duration = self.limit.duration;
        self.output.apply(output);
        self.process.apply(process);
        self.service.apply(service);

        for (flag, path) in [("--csv", &self.csv), ("--picture", &self.picture)] {
            check_path(flag, path.as_deref())?;
        }
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let (bin_ns, window_ns) = (ns(self.bin), ns(self.window));
        check_window(bin_ns, window_ns)?;
        let is_svg =
            |path: &PathBuf| path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("svg"));
        ensure!(
            self.picture.as_ref().is_none_or(is_svg),
            usage!(
                "--picture writes SVG, which any browser shows and rsvg-convert makes a PNG of: name a file that ends in .svg"
            )
        );
        let is_trace = capture.ports.iter().any(|port| matches!(port, PortSpec::Trace { .. }));
        if is_trace {
            // Several workers would be at different times of the file.
            let workers = *capture.workers.get_or_insert(1);
            ensure!(
                workers == 1,
                usage!(
                    "--workers {workers}: a trace file is profiled by one worker, in the order of the file; leave --workers out"
                )
            );
        }
        let table = match (self.rss_table.or(self.rss_weight), self.queues) {
            (Some(table), _) => Some(table),
            (None, Some(queues)) => Some(equal(queues)?),
            (None, None) if is_trace => Some(equal(QUEUES)?),
            (None, None) => None,
        };
        let queues = match table {
            Some(table) => {
                let (key, fields) = (self.rss_key.unwrap_or_default(), self.rss_fields.unwrap_or_default());
                let entries = table.entries();
                let rss = Rss::new(&key, table, fields);
                QueueSource::Computed(ComputedQueues { rss, key: key.to_string(), fields, entries })
            }
            None => {
                ensure!(
                    self.rss_key.is_none() && self.rss_fields.is_none(),
                    usage!(
                        "--rss-key and --rss-fields are for queues that are computed: add --queues N, or leave these flags \
                         out"
                    )
                );
                QueueSource::Captured
            }
        };
        let bins = BinSettings::new(bin_ns, window_ns);
        let (csv, picture, interval) = (self.csv, self.picture, self.interval);
        Ok((settings, ProfileRequest { bins, queues, csv, picture, interval }))
    }
}

/// # Errors
/// The path is that of standard output, as other commands write it. Opened, it would be a file named `-`.
fn check_path(flag: &str, path: Option<&Path>) -> Result<()> {
    ensure!(
        path != Some(Path::new("-")),
        usage!("{flag} - would be standard output, which has the summary; name a file")
    );
    Ok(())
}

/// The most bins of a window: they bound the memory that sliding takes.
const MAX_WINDOW_BINS: u64 = 10_000;

/// # Errors
/// The window is shorter than a bin, or has too many of them.
fn check_window(bin_ns: u64, window_ns: u64) -> Result<()> {
    ensure!(
        window_ns >= bin_ns && window_ns / bin_ns <= MAX_WINDOW_BINS,
        usage!(
            "a window has 1 to {MAX_WINDOW_BINS} bins: write --window and --bin to match, like --bin 10ms --window 100ms"
        )
    );
    Ok(())
}

fn equal(queues: usize) -> Result<IndirectionTable> {
    IndirectionTable::equal(queues).map_err(|error| usage!("--queues {queues}: {error}").into())
}

fn list<T: FromStr>(text: &str, example: &str) -> Result<Vec<T>, String> {
    let number =
        |word: &str| word.parse().map_err(|_| format!("write numbers separated by commas, like {example}"));
    text.split(',').map(number).collect()
}

fn table(text: &str) -> Result<IndirectionTable, String> {
    IndirectionTable::new(list(text, "0,1,2,3")?).map_err(|error| error.to_string())
}

fn weights(text: &str) -> Result<IndirectionTable, String> {
    IndirectionTable::weighted(&list::<u32>(text, "6,2,1")?).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::{
        commands::{Command, Flags},
        exit::Usage,
    };

    fn request(arguments: &[&str]) -> Result<ProfileRequest, String> {
        let words = ["wirecap", "profile"].iter().chain(arguments);
        let flags = Flags::try_parse_from(words).map_err(|refused| refused.to_string())?;
        let Command::Profile(flags) = flags.command else { unreachable!("the command is profile") };
        let request = flags.into_request(|name| name == "eth1");
        request.map(|(_, request)| request).map_err(|error| {
            assert!(error.is::<Usage>(), "{error}");
            error.to_string()
        })
    }

    #[test]
    fn a_trace_has_six_queues_and_an_interface_its_own_unless_flags_say_otherwise() {
        let computed = |arguments: &[&str]| match request(arguments).unwrap().queues {
            QueueSource::Captured => None,
            QueueSource::Computed(ComputedQueues { rss, key, entries, .. }) => {
                Some((rss.queues(), key, entries))
            }
        };
        assert_eq!(computed(&["eth1"]), None);
        assert_eq!(computed(&["trace:x.pcap"]), Some((6, "microsoft".into(), 128)));
        assert_eq!(computed(&["eth1", "--queues", "3"]), Some((3, "microsoft".into(), 128)));
        let table = ["trace:x.pcap", "--rss-table", "0,4", "--rss-key", "symmetric"];
        assert_eq!(computed(&table), Some((5, "symmetric".into(), 2)));
        assert_eq!(computed(&["trace:x.pcap", "--rss-weight", "6,2"]), Some((2, "microsoft".into(), 128)));
    }

    #[test]
    fn wrong_values_are_refused_with_what_to_write() {
        for (arguments, words) in [
            (&["eth1", "--rss-key", "symmetric"][..], "add --queues N"),
            (&["eth1", "--rss-key", "6d5a", "--queues", "2"], "the key has 2 bytes"),
            (&["trace:x.pcap", "--rss-table", "0,1,2"], "the number of entries is a power of two"),
            (&["trace:x.pcap", "--rss-weight", "0,0"], "all weights are 0"),
            (&["trace:x.pcap", "--rss-weight", "1,x"], "write numbers separated by commas"),
            (&["trace:x.pcap", "--queues", "0"], "write a number from 1 to 1024"),
            (&["eth1", "--picture", "x.png"], "ends in .svg"),
            (&["eth1", "--csv", "-"], "--csv - would be standard output, which has the summary; name a file"),
            (&["eth1", "--picture", "-"], "--picture - would be standard output"),
            (&["eth1", "--bin", "1s"], "a window has 1 to 10000 bins"),
            (&["eth1", "--bin", "9us"], "a window has 1 to 10000 bins"),
            (&["trace:x.pcap", "--workers", "2"], "by one worker, in the order of the file"),
        ] {
            let refused = request(arguments).unwrap_err();
            assert!(refused.contains(words), "{arguments:?}: {refused}");
        }
    }
}
