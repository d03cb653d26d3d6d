//! The flags of `wirecap capture`.

use std::{path::PathBuf, str::FromStr};

use anyhow::Result;
use clap::{ArgAction, Args};
use wirecap::{Fanout, Rss, TapHook, UnmatchedPolicy};

use super::{
    conditions::{self, NextFileCondition, StopCondition},
    engine_flags::EngineFlags,
    settings::CaptureSettings,
    words::{self, PacketDirection},
};
use crate::{
    flags::{
        ConfigFlags, FileFlags, INTERFACE, OutputFlags, PoolFlags, PortFlags, ProcessFlags, ServiceFlags,
        TimeLimit, WorkerFlags, set,
    },
    sources::{Setting, Sourced},
    values::{choice, count},
};

/// What to capture, how, and where to.
#[derive(Debug, Args)]
pub(crate) struct CaptureFlags {
    /// Interfaces, by name or alternative name. xdp:NAME takes an interface from the host, tap:NAME and
    /// packet:NAME capture beside it; NAME@2, NAME@0-3 and NAME@0,2 are receive queues. trace:FILE is a trace
    /// file (trace:- standard input). A filter may follow: 'tcp port 443 and net 10.0.0.0/8'.
    #[arg(value_name = INTERFACE, required_unless_present_any = ["config", "print_config", "interfaces", "list_interfaces"])]
    words: Vec<String>,
    /// Interfaces in another form, as with tcpdump: the words that are no flags are the filter then.
    #[arg(short = 'i', long = "interface", id = "interfaces", value_name = INTERFACE)]
    interfaces: Vec<String>,
    /// List the interfaces and exit, as wirecap interfaces does.
    #[arg(short = 'D', long, conflicts_with_all = ["words", "interfaces"])]
    pub(crate) list_interfaces: bool,
    /// The filter, if it could be mistaken for an interface or a flag.
    #[arg(short = 'f', long, value_name = "FILTER", allow_hyphen_values = true)]
    filter: Option<String>,
    /// Read the filter from FILE, where # begins a comment.
    #[arg(short = 'F', long, value_name = "FILE", conflicts_with = "filter")]
    pub(crate) filter_file: Option<PathBuf>,
    /// Capture only packets that come in, or that leave: the same as the filter inbound or outbound.
    #[arg(short = 'Q', long = "direction", id = "direction", value_parser = choice::<PacketDirection>())]
    direction: Option<PacketDirection>,
    /// What becomes of packets that do not match the filter, on interfaces taken from the host [default:
    /// pass, where the filter runs in the kernel].
    #[arg(long, value_parser = choice::<UnmatchedPolicy>())]
    unmatched: Option<UnmatchedPolicy>,

    #[command(flatten)]
    pub(crate) settings: ConfigFlags,
    #[command(flatten)]
    file: FileFlags,
    /// Write a file for each receive queue, in the order of the queue, from a thread of its own: -w x.pcapng
    /// gives x.0.pcapng, x.1.pcapng, and with several interfaces x.eth1.0.pcapng.
    #[arg(long)]
    file_per_queue: bool,
    /// Print a line for each packet; tcpdump prints it. With -w, packets that tcpdump reads too slowly are
    /// written but not printed.
    #[arg(long)]
    print: bool,
    /// Send a copy of each packet by this interface, for a program that captures at its other end (a veth),
    /// or beside -w into a named pipe, by its path: ./pipe. What they do not accept in time is counted, and
    /// never delays the capture.
    #[arg(long, value_name = "IFACE|PIPE")]
    copy_to: Option<String>,
    /// Stop after N packets (10k, 5M and 1G are thousands, millions, billions): the file has exactly N.
    /// Without -w, packets that the workers already hold are counted, too.
    #[arg(short, long, value_name = "N", value_parser = count)]
    count: Option<u64>,
    #[command(flatten)]
    limit: TimeLimit,
    /// Stop, as with dumpcap: -a duration:60, filesize:100000 (kB), files:10 (of a series), packets:1000.
    #[arg(short = 'a', long = "autostop", value_name = "CONDITION", value_parser = StopCondition::from_str)]
    stop: Vec<StopCondition>,
    /// Begin the next file, as with dumpcap: -b duration:60, filesize:100000 (kB), packets:1000. With
    /// -b files:10, the last ten are kept and older ones deleted.
    #[arg(short = 'b', long = "ring-buffer", value_name = "CONDITION", value_parser = NextFileCondition::from_str)]
    next_file: Vec<NextFileCondition>,

    #[command(flatten)]
    pool: PoolFlags,
    #[command(flatten)]
    engine: EngineFlags,
    #[command(flatten)]
    workers: WorkerFlags,
    #[command(flatten)]
    port: PortFlags,
    /// How the NIC spreads packets over its receive queues during the capture [default: keep].
    #[arg(long, value_parser = choice::<Rss>())]
    rss: Option<Rss>,
    /// How to spread packets over the workers when capturing passively [default: by core where the
    /// interface is tapped, else hash]. With several workers, hash and queue exclude taps.
    #[arg(long, value_parser = choice::<Fanout>())]
    fanout: Option<Fanout>,
    /// Where a tap copies packets that come in [default: tcx]. With xdp, the interface can have no second
    /// such tap and no capture over AF_XDP at the same time.
    #[arg(long, value_parser = choice::<TapHook>())]
    tap_hook: Option<TapHook>,
    /// Do not capture packets addressed to other stations.
    #[arg(short = 'p', long)]
    no_promiscuous: bool,
    /// Accepted as a habit: names are never looked up.
    #[arg(short = 'n', hide = true, action = ArgAction::Count)]
    _numeric: u8,
    /// Accepted as a habit: packets are always written at once.
    #[arg(short = 'U', hide = true)]
    _unbuffered: bool,
    /// Accepted as a habit: lines are always printed at once.
    #[arg(short = 'l', hide = true)]
    _by_line: bool,

    /// Report what became of frames of `wirecap generate`: lost, duplicated, reordered, and how long they
    /// took. Exit with code 1 if frames were lost or duplicated, or none arrived.
    #[arg(long)]
    verify: bool,
    /// Frames in each run; those missing at its start or end then count as lost.
    #[arg(long, value_name = "FRAMES", value_parser = count)]
    expect: Option<u64>,
    #[command(flatten)]
    process: ProcessFlags,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    service: ServiceFlags,
    /// End as by SIGINT when the parent process, which has this id, ends. For wirecap top.
    #[arg(long, value_name = "PID", hide = true)]
    pub(crate) end_with: Option<u32>,
}

impl CaptureFlags {
    /// The settings in force. `is_interface` says whether an interface has that name.
    ///
    /// # Errors
    /// [`Usage`](crate::exit::Usage) for words that contradict each other, and for mistakes in the file.
    pub(crate) fn into_settings(
        self,
        is_interface: impl FnMut(&str) -> bool,
    ) -> Result<Sourced<CaptureSettings>> {
        let Sourced { mut settings, sources } = self.settings.settings::<CaptureSettings>()?;
        let CaptureSettings { capture, output, process, service } = &mut settings;
        conditions::refuse_repeated(&self.stop, &self.next_file, self.set_by_flags())?;
        self.pool.apply(capture);
        self.engine.apply(capture)?;
        self.workers.apply(capture);
        self.port.apply(capture);
        set(&mut capture.rss, self.rss);
        capture.fanout = self.fanout.or(capture.fanout);
        set(&mut capture.tap_hook, self.tap_hook);
        capture.promiscuous &= !self.no_promiscuous;
        capture.unmatched = self.unmatched.or(capture.unmatched);
        let filter = match &self.filter_file {
            Some(path) => Some(words::read_filter(path)?),
            None => self.filter,
        };
        match self.interfaces.as_slice() {
            [] => words::apply(&self.words, filter, capture, is_interface)?,
            interfaces => words::apply_beside(interfaces, &self.words, filter, capture, is_interface)?,
        }
        if let Some(direction) = self.direction {
            capture.filter = words::directed(direction, capture.filter.take());
        }

        self.file.apply(output);
        output.file_per_queue |= self.file_per_queue;
        output.print |= self.print;
        output.copy_to = self.copy_to.or(output.copy_to.take());
        output.count = self.count.or(output.count);
        output.duration = self.limit.duration.or(output.duration);
        output.verify |= self.verify;
        output.expect = self.expect.or(output.expect);
        conditions::apply(&self.stop, &self.next_file, output);
        self.output.apply(output);
        self.process.apply(process);
        self.service.apply(service);
        // Counting needs no times of single packets; writing and verifying do.
        capture.stamp_packets |= output.keeps_times();
        let sources = sources.after_flags(&settings);
        Ok(Sourced { settings, sources })
    }

    /// What flags set that conditions could set, too.
    fn set_by_flags(&self) -> impl Iterator<Item = Setting> {
        let (rotate_size, rotate_time) = self.file.rotation();
        [
            (Setting::Count, self.count.is_some()),
            (Setting::Duration, self.limit.duration.is_some()),
            (Setting::RotateSize, rotate_size.is_some()),
            (Setting::RotateTime, rotate_time.is_some()),
        ]
        .into_iter()
        .filter_map(|(setting, is_given)| is_given.then_some(setting))
    }
}
