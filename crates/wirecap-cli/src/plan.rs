//! From flags to a plan: everything the command line alone can get wrong is found here, before the
//! machine is asked anything but which of the words are interfaces.

use std::{
    io::{IsTerminal, stdout},
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Result;
use wirecap::{Builder, Capture, Dispatch, Fanout, Mode, Modes, PortSpec, Rss, Timestamp, Unmatched, Wait};
use wirecap_core::Geometry;
use wirecap_file::Format;
use wirecap_filter::shortened;

use crate::{
    exit::Usage,
    flags::{
        CaptureFlags, DispatchFlag, FanoutFlag, ModeFlag, RssFlag, TimestampFlag, UnmatchedFlag, WaitFlag,
        XdpModeFlag,
    },
    values::{is_trace, is_trace_path},
};

/// Names of standard output. Opened by its name, a file would get the packets and the account over each other.
const STDOUT_NAMES: [&str; 4] = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// R unless the user says otherwise, and there is memory enough.
const CHUNKS_PER_POOL: u32 = 128;
/// T unless the user says otherwise.
const THRESHOLD_PERCENT: u32 = 60;

/// A capture that makes sense.
#[derive(Debug)]
pub(crate) struct Plan {
    /// What is opened; [`Plan::builder`] adds the number of workers.
    builder: Builder,
    /// Where packets come from.
    pub(crate) ports: Vec<PortSpec>,
    /// What is wanted, if not everything.
    pub(crate) filter: Option<String>,
    pub(crate) mode: Mode,
    pub(crate) dispatch: Dispatch,
    workers: Option<usize>,
    /// Where the packets go; `None` counts only.
    pub(crate) destination: Option<Destination>,
    /// Stop after so many packets.
    pub(crate) count: Option<u64>,
    /// Stop after so long.
    pub(crate) duration: Option<Duration>,
    /// The times of packets are kept, or judged: written or verified.
    pub(crate) keeps_times: bool,
    /// Bytes kept of each packet; 0 keeps all.
    pub(crate) snaplen: u32,
    /// Cores that threads shall be bound to.
    pub(crate) cores: Vec<usize>,
    pub(crate) modes: Modes,
    pub(crate) given: Given,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    /// How often statistics are printed.
    pub(crate) stats: Option<Duration>,
    /// Whether a loss is an exit code of its own.
    pub(crate) fail_on_loss: bool,
}

/// Flags that were given and are for some kinds of ports only.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Given {
    pub(crate) unmatched: bool,
    /// `--unmatched pass`, said in so many words.
    pub(crate) pass: bool,
    pub(crate) fanout: bool,
    pub(crate) rss: bool,
    /// What allows some ways of attaching only.
    pub(crate) mode: Option<&'static str>,
    pub(crate) no_promiscuous: bool,
}

impl Given {
    fn new(flags: &CaptureFlags) -> Self {
        Self {
            unmatched: flags.unmatched.is_some(),
            pass: flags.unmatched == Some(UnmatchedFlag::Pass),
            fanout: flags.fanout.is_some(),
            rss: flags.rss != RssFlag::default(),
            mode: flags.port.restricts(),
            no_promiscuous: flags.no_promiscuous,
        }
    }
}

/// Where packets are written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    /// A file, in the format its name says.
    File(PathBuf, Format),
    /// Standard output, as pcapng.
    Stdout,
}

impl Destination {
    /// The format that is written.
    pub(crate) fn format(&self) -> Format {
        match self {
            Destination::File(_, format) => *format,
            Destination::Stdout => Format::Pcapng,
        }
    }

    /// As the user named it; `-` for standard output.
    pub(crate) fn name(&self) -> String {
        match self {
            Destination::File(path, _) => path.display().to_string(),
            Destination::Stdout => "-".into(),
        }
    }

    /// Its name in messages.
    pub(crate) fn describe(&self) -> String {
        match self {
            Destination::File(..) => self.name(),
            Destination::Stdout => "standard output".into(),
        }
    }
}

impl Plan {
    /// Checks the flags against each other. `is_interface` says whether there is an interface of that name.
    ///
    /// # Errors
    /// [`Usage`] and others that [`crate::exit::code_of`] counts as wrong usage.
    pub(crate) fn new(flags: CaptureFlags, is_interface: impl Fn(&str) -> bool) -> Result<Self> {
        check_sizes(&flags)?;
        let mode = mode(flags.mode, flags.threshold_percent)?;
        let dispatch = dispatch(&flags)?;
        if flags.workers.number == Some(0) {
            return Err(wirecap::Error::NoWorker.into());
        }
        let (words, filter) = ports_and_filter(&flags, is_interface)?;
        let ports = each_once(words)?;
        let destination =
            flags.file.write.as_deref().map(|path| destination(path, ports.len())).transpose()?;
        Ok(Self {
            builder: builder(&flags, (&ports, filter.as_deref()), mode, dispatch),
            cores: [&flags.workers.cores, &flags.capture_cores]
                .into_iter()
                .flatten()
                .flat_map(|list| &list.0)
                .copied()
                .collect(),
            modes: modes(flags.port.xdp_mode()),
            ports,
            filter,
            mode,
            dispatch,
            workers: flags.workers.number,
            destination,
            count: flags.count,
            duration: flags.limit.duration,
            keeps_times: keeps_times(&flags),
            snaplen: flags.file.snaplen,
            given: Given::new(&flags),
            json: flags.output.json,
            quiet: flags.output.quiet,
            stats: flags.output.stats,
            fail_on_loss: flags.output.fail_on_loss,
        })
    }

    /// Opens it with more than a capture needs.
    pub(crate) fn with(self, more: impl FnOnce(Builder) -> Builder) -> Self {
        Self { builder: more(self.builder), ..self }
    }

    /// Settles how many workers there are.
    pub(crate) fn set_workers(&mut self, workers: usize) {
        self.workers = Some(workers);
    }

    /// How many workers there are for `queues` receive queues.
    pub(crate) fn workers(&self, queues: usize) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.workers.unwrap_or(queues.min(cores))
    }

    /// What to open on ports that have `queues` receive queues together.
    pub(crate) fn builder(&self, queues: usize) -> Builder {
        self.builder.clone().workers(self.workers(queues))
    }

    /// Whether results go to standard error, because the packets have standard output.
    pub(crate) fn stdout_is_taken(&self) -> bool {
        self.destination == Some(Destination::Stdout)
    }
}

fn keeps_times(flags: &CaptureFlags) -> bool {
    flags.file.write.is_some() || flags.verify
}

/// Checks M, R and the rings; with --memory, R is known when the queues are.
fn check_sizes(flags: &CaptureFlags) -> Result<()> {
    let chunks = flags.pool.chunks_per_pool.unwrap_or(CHUNKS_PER_POOL);
    let geometry = Geometry::new(flags.pool.cells_per_chunk, chunks, flags.pool.cell_bytes)?;
    let ring = flags.ring.filter(|_| flags.pool.memory.is_none());
    ring.map_or(Ok(0), |ring| geometry.check_ring(ring))?;
    Ok(())
}

fn mode(mode: ModeFlag, threshold_percent: Option<u32>) -> Result<Mode> {
    match (mode, threshold_percent) {
        (ModeFlag::Basic, Some(_)) => {
            Err(Usage("-T is for advanced mode: leave it out, or say --mode advanced".into()).into())
        }
        (ModeFlag::Basic, None) => Ok(Mode::Basic),
        (ModeFlag::Advanced, percent) => Ok(Mode::advanced(percent.unwrap_or(THRESHOLD_PERCENT))?),
    }
}

fn dispatch(flags: &CaptureFlags) -> Result<Dispatch> {
    let for_push = flags.capture_threads.is_some() || flags.capture_cores.is_some();
    match flags.dispatch {
        DispatchFlag::Push => Ok(Dispatch::Push),
        DispatchFlag::Pull if for_push => {
            let message = "there are no capture threads with --dispatch pull: leave --capture-threads and \
                           --capture-cores out, or add --dispatch push";
            Err(Usage(message.into()).into())
        }
        DispatchFlag::Pull => Ok(Dispatch::Pull),
    }
}

/// What stands before the name of a port.
const PREFIXES: [&str; 3] = ["xdp:", "packet:", "replay:"];

/// The interfaces, and the filter: from the first word on that is no interface, as tcpdump has it. The first word always
/// is one, so that a misspelt name is called that.
fn ports_and_filter(
    flags: &CaptureFlags,
    is_interface: impl Fn(&str) -> bool,
) -> Result<(&[String], Option<String>)> {
    let is_port = |word: &String| {
        // Its queues need not be right: it is a port, and what is wrong with it is said when it is opened.
        let name = word.rsplit_once('@').map_or(word.as_str(), |(name, _)| name);
        PREFIXES.iter().any(|prefix| word.starts_with(prefix)) || is_interface(word) || is_interface(name)
    };
    let others = &flags.words[1..];
    let count = 1 + others.iter().position(|word| !is_port(word)).unwrap_or(others.len());
    let (ports, words) = flags.words.split_at(count);
    let no_interface = ports.first().filter(|word| !is_port(word) && is_trace(word));
    if let Some(trace) = no_interface.or(words.first().filter(|word| is_trace_path(word))) {
        let message = format!("{trace} is not an interface; for a trace file write replay:{trace}");
        return Err(Usage(message).into());
    }
    if let (Some(filter), [word, ..]) = (&flags.filter, words) {
        let (word, filter) = (shortened(word), shortened(filter));
        let message =
            format!("there is no interface {word}, and the filter is {filter:?} already: write it once");
        return Err(Usage(message).into());
    }
    let filter = flags.filter.clone().or_else(|| (!words.is_empty()).then(|| words.join(" ")));
    let filter = filter.filter(|filter| !filter.trim().is_empty());
    if filter.is_none() && flags.unmatched.is_some() {
        let message = "--unmatched is for what a filter does not want: add a filter, or leave it out";
        return Err(Usage(message.into()).into());
    }
    Ok((ports, filter))
}

/// The ports, each once but for different queues of an interface.
fn each_once(words: &[String]) -> Result<Vec<PortSpec>> {
    let mut ports: Vec<PortSpec> = Vec::new();
    for word in words {
        check_word(word)?;
        let port = PortSpec::from(word.as_str());
        if ports.iter().any(|other| overlap(other, &port)) {
            let name = match port {
                PortSpec::Interface { name, .. } => name,
                port => port.name(),
            };
            return Err(wirecap::Error::PortTwice(name).into());
        }
        ports.push(port);
    }
    Ok(ports)
}

/// Whether a word can stand for a port: what is wrong whatever there is on the machine.
fn check_word(word: &str) -> Result<()> {
    let (prefix, name) = word.split_at(word.find(':').map_or(0, |colon| colon + 1));
    if name.is_empty() {
        let message = format!("{word:?} names no port; write eth1, xdp:eth1, packet:eth1 or replay:FILE");
        return Err(Usage(message).into());
    }
    if !prefix.is_empty() && !PREFIXES.contains(&prefix) {
        let message = format!(
            "{word}: no port begins with {prefix}; write {name}, xdp:{name} or packet:{name} for an interface, \
             replay:FILE for a trace"
        );
        return Err(Usage(message).into());
    }
    Ok(())
}

/// Whether both would be given the same packets.
fn overlap(one: &PortSpec, other: &PortSpec) -> bool {
    let interface = |port: &PortSpec| match port {
        PortSpec::Interface { name, queues, .. } => Some((name.clone(), queues.clone())),
        _ => None,
    };
    match (interface(one), interface(other)) {
        (Some((name, Some(queues))), Some((other, Some(others)))) => {
            name == other && queues.overlaps(&others)
        }
        (Some((name, _)), Some((other, _))) => name == other,
        _ => one.name() == other.name(),
    }
}

/// Whether the name of a destination says nothing about its contents: that of a pipe or a device such as
/// /dev/null. Not a disk: whoever means to overwrite one has to say so in its name. A directory is let
/// through, as opening it has the better words.
fn needs_no_suffix(path: &Path) -> bool {
    let kind = path.metadata().map(|metadata| metadata.file_type());
    kind.is_ok_and(|kind| kind.is_fifo() || kind.is_char_device() || kind.is_dir())
}

fn destination(path: &Path, interfaces: usize) -> Result<Destination> {
    if STDOUT_NAMES.iter().any(|name| path == Path::new(name)) {
        if stdout().is_terminal() {
            let message =
                "-w - would fill the terminal with binary data; pipe it into a program: | tshark -r -";
            return Err(Usage(message.into()).into());
        }
        return Ok(Destination::Stdout);
    }
    let format = Format::from_path(path)
        .or_else(|error| if needs_no_suffix(path) { Ok(Format::Pcapng) } else { Err(error) })
        .map_err(|error| Usage(error.to_string()))?;
    if format == Format::Pcap && interfaces > 1 {
        let better = path.with_extension("pcapng");
        let message = format!(
            "a pcap file holds packets of one interface, not of {interfaces}; write {} instead",
            better.display()
        );
        return Err(Usage(message).into());
    }
    Ok(Destination::File(path.into(), format))
}

fn builder(
    flags: &CaptureFlags,
    (ports, filter): (&[PortSpec], Option<&str>),
    mode: Mode,
    dispatch: Dispatch,
) -> Builder {
    let mut builder = Capture::builder()
        .cells_per_chunk(flags.pool.cells_per_chunk)
        .cell_bytes(flags.pool.cell_bytes)
        .mode(mode)
        .dispatch(dispatch)
        .promiscuous(!flags.no_promiscuous)
        .wait(wait(flags.workers.wait))
        .modes(modes(flags.port.xdp_mode()))
        .rss(rss(flags.rss))
        .fanout(fanout(flags.fanout.unwrap_or_default()))
        .filter(filter.unwrap_or_default())
        .unmatched(unmatched(flags.unmatched.unwrap_or_default()));
    // Counting needs no times. What is written or verified is of no use with wrong ones.
    builder = builder.stamp_packets(keeps_times(flags));
    builder = match (flags.pool.chunks_per_pool, flags.pool.memory) {
        (Some(chunks), _) => builder.chunks_per_pool(chunks),
        (None, Some(bytes)) => builder.memory(bytes),
        (None, None) => builder.most_chunks_per_pool(CHUNKS_PER_POOL),
    };
    if let Some(source) = flags.port.timestamp {
        builder = builder.timestamp(timestamp(source));
    }
    if let Some(ring) = flags.ring {
        builder = builder.ring_entries(ring);
    }
    if let Some(cores) = &flags.workers.cores {
        builder = builder.worker_cores(cores.0.clone());
    }
    if let Some(threads) = flags.capture_threads {
        builder = builder.capture_threads(usize::from(threads));
    }
    if let Some(cores) = &flags.capture_cores {
        builder = builder.capture_cores(cores.0.clone());
    }
    ports.iter().fold(builder, |builder, port| builder.port(port.clone()))
}

fn wait(flag: WaitFlag) -> Wait {
    match flag {
        WaitFlag::Busy => Wait::Busy,
        WaitFlag::Sleep => Wait::Sleep,
        WaitFlag::Block => Wait::Block,
    }
}

fn timestamp(flag: TimestampFlag) -> Timestamp {
    match flag {
        TimestampFlag::Hardware => Timestamp::Hardware,
        TimestampFlag::Kernel => Timestamp::Kernel,
        TimestampFlag::Batch => Timestamp::Batch,
    }
}

fn unmatched(flag: UnmatchedFlag) -> Unmatched {
    match flag {
        UnmatchedFlag::Pass => Unmatched::Pass,
        UnmatchedFlag::Drop => Unmatched::Drop,
    }
}

fn fanout(flag: FanoutFlag) -> Fanout {
    match flag {
        FanoutFlag::Hash => Fanout::Hash,
        FanoutFlag::Queue => Fanout::Queue,
        FanoutFlag::Cpu => Fanout::Cpu,
    }
}

fn rss(flag: RssFlag) -> Rss {
    match flag {
        RssFlag::Keep => Rss::Keep,
        RssFlag::Symmetric => Rss::Symmetric,
    }
}

fn modes(flag: XdpModeFlag) -> Modes {
    match flag {
        XdpModeFlag::Best => Modes::Best,
        XdpModeFlag::ZeroCopy => Modes::ZeroCopy,
        XdpModeFlag::Copy => Modes::Copy,
        XdpModeFlag::Generic => Modes::Generic,
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
