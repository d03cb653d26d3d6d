//! Replaying a trace: `wirecap replay` against `tcpreplay`, both with the trace in memory.
//!
//! ```text
//!   trace with known gaps ─► tool, core 0 ═══ veth ═══ wirecap capture --timestamp kernel ─► gaps that arrived
//! ```
//!
//! How evenly: the difference of each gap between two arrivals from the gap in the trace, by the receiver's
//! packet timestamps. How fast: packets per second by the tool's own clock, and the share that arrived.
//!
//! The traces have times in whole microseconds, because tcpreplay reads no finer ones.

use std::{fs, path::Path, process::Command, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use wirecap_file::{LINK_TYPE_ETHERNET, PacketHeader, Reader, Record, pcap};
use wirecap_lab::table::{Table, millions, verdict};
use wirecap_traffic::Random;

use super::{Context, SHORT_FRAME, figures, measured, ratios, wirecap_path, write::Scratch};
use crate::arguments::Scenario;
use crate::bed::{Link, RECEIVER, SENDER};
use crate::run::{Process, ReadySign, wait_until_quiet_file};
use crate::stats::{Summary, show};

const TIMEOUT: Duration = Duration::from_secs(60);
/// Offset of the number in a frame.
const NUMBER_AT: usize = 14;
/// Packets of the trace for top speed.
const FAST_PACKETS: u64 = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    Wirecap,
    /// With the given timer, or its default one.
    Tcpreplay(Option<&'static str>),
}

const TOOLS: [Tool; 3] = [Tool::Wirecap, Tool::Tcpreplay(None), Tool::Tcpreplay(Some("nano"))];

impl Tool {
    fn name(self) -> String {
        match self {
            Self::Wirecap => "wirecap replay".into(),
            Self::Tcpreplay(None) => "tcpreplay -K".into(),
            Self::Tcpreplay(Some(timer)) => format!("tcpreplay -K --timer={timer}"),
        }
    }

    /// The command that replays a trace as recorded, or `loops` times at top speed.
    fn command(
        self,
        context: &Context,
        link: &Link<'_>,
        trace: &Path,
        loops: Option<u64>,
    ) -> Result<Command> {
        let mut command = match self {
            Self::Wirecap => {
                let mut command = link.sender(&wirecap_path(context)?.to_string_lossy());
                command.args(["replay", "--json", "-q", "-i", SENDER]);
                if let Some(loops) = loops {
                    command.args(["--top-speed", "--loops", &loops.to_string()]);
                }
                command
            }
            Self::Tcpreplay(timer) => {
                let mut command = link.sender("tcpreplay");
                command.args(["-K", "-i", SENDER]);
                command.args(timer.map(|timer| format!("--timer={timer}")));
                if let Some(loops) = loops {
                    command.args(["-t", &format!("--loop={loops}")]);
                }
                command
            }
        };
        command.arg(trace);
        Ok(command)
    }

    /// Packets and seconds, as the tool reports them.
    fn reported(self, output: &str) -> Result<(u64, f64)> {
        match self {
            Self::Wirecap => {
                let report: Value = serde_json::from_str(output.trim())?;
                report["packets"].as_u64().zip(report["seconds"].as_f64())
            }
            Self::Tcpreplay(_) => actual(output),
        }
        .with_context(|| format!("no figures: {output}"))
    }
}

/// tcpreplay's `Actual: 10000 packets (600000 bytes) sent in 0.05 seconds`.
fn actual(output: &str) -> Option<(u64, f64)> {
    let line = output.lines().find_map(|line| line.trim().strip_prefix("Actual: "))?;
    let seconds = line.split(" sent in ").nth(1)?.split(' ').next()?;
    Some((line.split(' ').next()?.parse().ok()?, seconds.parse().ok()?))
}

/// A trace with known gaps.
struct Trace {
    name: &'static str,
    file: Scratch,
    times_us: Vec<u64>,
}

impl Trace {
    /// A trace with exponential gaps of `mean_us` on average, between the two limits, like the traffic of
    /// many independent senders.
    fn poisson(
        context: &Context,
        name: &'static str,
        packets: u64,
        (least_us, mean_us, most_us): (f64, f64, f64),
    ) -> Result<Self> {
        let (mut random, mut now_us) = (Random::new(1), 1_700_000_000_000_000_u64);
        let times_us = (0..packets).map(|_| {
            let uniform = (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
            now_us += (-mean_us * (1.0 - uniform).ln()).clamp(least_us, most_us) as u64;
            now_us
        });
        Self::write(context, name, times_us.collect())
    }

    fn write(context: &Context, name: &'static str, times_us: Vec<u64>) -> Result<Self> {
        let mut bytes = Vec::new();
        pcap::file_header(&mut bytes, LINK_TYPE_ETHERNET, 0);
        for (number, time_us) in times_us.iter().enumerate() {
            let mut frame = [0; SHORT_FRAME];
            frame[..NUMBER_AT].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
            frame[NUMBER_AT..NUMBER_AT + 8].copy_from_slice(&(number as u64).to_be_bytes());
            let header = PacketHeader {
                timestamp_ns: time_us * 1_000,
                original_len: SHORT_FRAME as u32,
                ..PacketHeader::default()
            };
            pcap::packet(&mut bytes, &header, 0, [frame.as_slice()]);
        }
        let name_of_file = format!("wirecap-bench-{}-{}.pcap", std::process::id(), times_us.len());
        let file = Scratch(context.arguments.tmpfs.join(name_of_file));
        fs::write(&file.0, bytes)?;
        Ok(Self { name, file, times_us })
    }
}

/// One run at the recorded speed.
struct RecordedSpeedRun {
    arrived: u64,
    /// Sorted, in nanoseconds.
    errors_ns: Vec<u64>,
    /// Time from the first arrival to the last, as a multiple of the time in the trace.
    stretch: f64,
}

impl RecordedSpeedRun {
    fn quantile_us(&self, share: f64) -> f64 {
        let last = self.errors_ns.len().saturating_sub(1);
        self.errors_ns.get((last as f64 * share) as usize).map_or(f64::NAN, |&ns| ns as f64 / 1e3)
    }
}

/// One run at top speed.
struct TopSpeedRun {
    pps: f64,
    sent: u64,
    arrived: u64,
}

pub(super) fn run(context: &mut Context) -> Result<()> {
    let packets = if context.is_quick() { 2_000 } else { 10_000 };
    let traces = [
        Trace::poisson(context, "gaps of 20 µs to 1 ms, 200 µs on average", packets, (20.0, 200.0, 1_000.0))?,
        Trace::poisson(context, "gaps of 5 to 100 µs, 20 µs on average", packets * 5, (5.0, 20.0, 100.0))?,
    ];
    for trace in &traces {
        evenness(context, trace)?;
    }
    top_speed(context)
}

fn evenness(context: &mut Context, trace: &Trace) -> Result<()> {
    let name = |tool: &Tool| format!("{}, {}", tool.name(), trace.name);
    let results = context.rounds(Scenario::Replay, &TOOLS, name, |context, tool, round| {
        let even = arrivals(context, *tool, trace)?;
        let run = json!({
            "packets": trace.times_us.len(), "arrived": even.arrived, "p50_us": even.quantile_us(0.5),
            "p99_us": even.quantile_us(0.99), "max_us": even.quantile_us(1.0), "stretch": even.stretch,
        });
        context.keep(Scenario::Replay, &name(tool), round, &run)?;
        Ok(even)
    })?;
    let head = [
        "tool",
        "error p50 µs",
        "p99 µs",
        "most µs",
        "all arrived",
        "time taken / recorded",
        "p99 is … of wirecap's",
        "wirecap is better",
    ];
    let mut table =
        Table::new(format!("Replay as recorded: {}, {} packets", trace.name, trace.times_us.len()), &head);
    for (tool, rounds) in measured(&TOOLS, &results) {
        let quantile = |share: f64| show(Summary::of(figures(rounds, |round| round.quantile_us(share))), 1);
        let times = Summary::of(ratios(rounds, &results[0], |round| round.quantile_us(0.99)));
        let times = times.filter(|_| *tool != Tool::Wirecap);
        let all = |round: &Option<RecordedSpeedRun>| {
            round.as_ref().is_some_and(|round| round.arrived == trace.times_us.len() as u64)
        };
        table.row([
            tool.name(),
            quantile(0.5),
            quantile(0.99),
            quantile(1.0),
            verdict(rounds.iter().all(all)),
            show(Summary::of(figures(rounds, |round| round.stretch)), 4),
            show(times, 2),
            times.map_or_else(|| "–".into(), |times| verdict(times.median > 1.0)),
        ]);
    }
    table.note(
        "The error of a gap is its difference between the receiver (stamped by the XDP program) and the trace. \
         Sender on core 0, receiver on core 1. A tool that does not make up for delays has more even gaps but takes longer: \
         read both columns together.",
    );
    context.record.table(&table)
}

/// Replays a trace and measures the gaps between arrivals.
fn arrivals(context: &Context, tool: Tool, trace: &Trace) -> Result<RecordedSpeedRun> {
    let captured =
        Scratch(context.arguments.tmpfs.join(format!("wirecap-bench-{}-arrived.pcapng", std::process::id())));
    let link = context.bed.link(1)?;
    let mut command = link.pinned(&wirecap_path(context)?.to_string_lossy());
    command.args(["capture", RECEIVER, "--timestamp", "kernel", "--json", "-w"]).arg(&captured.0);
    let process = Process::start("wirecap", command, ReadySign::When(&|| link.has_program()))?;
    send(tool, tool.command(context, &link, &trace.file.0, None)?)?;
    wait_until_quiet_file(&captured.0);
    process.interrupt()?;
    process.wait(TIMEOUT)?;
    let arrived = read(&captured.0)?;
    let mut errors_ns: Vec<u64> = arrived
        .windows(2)
        .filter(|pair| pair[1].0 == pair[0].0 + 1)
        .filter_map(|pair| {
            let gap_us = trace.times_us.get(pair[1].0 as usize)? - trace.times_us.get(pair[0].0 as usize)?;
            Some((pair[1].1.saturating_sub(pair[0].1)).abs_diff(gap_us * 1_000))
        })
        .collect();
    errors_ns.sort_unstable();
    let stretch = stretch(&arrived, &trace.times_us);
    Ok(RecordedSpeedRun { arrived: arrived.len() as u64, errors_ns, stretch })
}

/// The duration of the arrivals, as a multiple of the recorded time.
fn stretch(arrived: &[(u64, u64)], times_us: &[u64]) -> f64 {
    let (Some(first), Some(last)) = (arrived.first(), arrived.last()) else { return f64::NAN };
    let recorded = |number: u64| times_us.get(number as usize).map_or(f64::NAN, |&us| us as f64 * 1e3);
    last.1.saturating_sub(first.1) as f64 / (recorded(last.0) - recorded(first.0))
}

/// Number and time of each packet that arrived.
fn read(file: &Path) -> Result<Vec<(u64, u64)>> {
    let mut reader = Reader::open(file)?;
    let mut arrived = Vec::new();
    while let Some(record) = reader.next()? {
        let Record::Packet(packet) = record else { continue };
        let number = packet.data.get(NUMBER_AT..NUMBER_AT + 8).and_then(|bytes| bytes.try_into().ok());
        if let Some((number, time_ns)) = number.zip(packet.timestamp_ns) {
            arrived.push((u64::from_be_bytes(number), time_ns));
        }
    }
    Ok(arrived)
}

/// Runs a tool to its end and returns its output.
fn send(tool: Tool, mut command: Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {}", tool.name()))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{} failed: {said}{}",
        tool.name(),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(said)
}

fn top_speed(context: &mut Context) -> Result<()> {
    let times = (0..FAST_PACKETS).map(|number| 1_700_000_000_000_000 + number);
    let trace = Trace::write(context, "top speed", times.collect())?;
    let loops = if context.is_quick() { 20 } else { 200 };
    let tools = [Tool::Wirecap, Tool::Tcpreplay(None)];
    let name = |tool: &Tool| format!("{}, top speed", tool.name());
    let results = context.rounds(Scenario::Replay, &tools, name, |context, tool, round| {
        let fast = at_top_speed(context, *tool, &trace, loops)?;
        let run = json!({ "pps": fast.pps, "sent": fast.sent, "arrived": fast.arrived });
        context.keep(Scenario::Replay, &name(tool), round, &run)?;
        Ok(fast)
    })?;
    let title = format!("Replay at top speed: {} packets of {} bytes", FAST_PACKETS * loops, SHORT_FRAME + 4);
    let mut table = Table::new(title, &["tool", "sent Mpps", "arrived %", "wirecap is … times", "≥ 1"]);
    for (tool, rounds) in measured(&tools, &results) {
        let times =
            Summary::of(ratios(&results[0], rounds, |round| round.pps)).filter(|_| *tool != Tool::Wirecap);
        let arrived = |round: &TopSpeedRun| 100.0 * round.arrived as f64 / round.sent as f64;
        table.row([
            tool.name(),
            show(Summary::of(figures(rounds, |round| millions(round.pps))), 3),
            show(Summary::of(figures(rounds, arrived)), 3),
            show(times, 2),
            times.map_or_else(|| "–".into(), |times| verdict(times.median >= 1.0)),
        ]);
    }
    table.note("Rates by the clocks of the tools. veth does the receive work on the sender's core.");
    context.record.table(&table)
}

fn at_top_speed(context: &Context, tool: Tool, trace: &Trace, loops: u64) -> Result<TopSpeedRun> {
    let link = context.bed.link(1)?;
    let mut command = link.pinned(&wirecap_path(context)?.to_string_lossy());
    command.args(["capture", RECEIVER, "--json"]);
    let process = Process::start("wirecap", command, ReadySign::When(&|| link.has_program()))?;
    let said = send(tool, tool.command(context, &link, &trace.file.0, Some(loops))?)?;
    process.interrupt()?;
    let account = process.wait(TIMEOUT)?.json()?;
    let queues = account["ports"][0]["queues"].as_array().context("no queues")?;
    let arrived = queues.iter().filter_map(|queue| queue["seen"].as_u64()).sum();
    let (sent, seconds) = tool.reported(&said)?;
    Ok(TopSpeedRun { pps: sent as f64 / seconds, sent, arrived })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcpreplay_s_figures_are_read() {
        let said =
            "Actual: 10000 packets (600000 bytes) sent in 0.05 seconds\nRated: 12000000.0 Bps, 96.00 Mbps\n";
        assert_eq!(actual(said), Some((10_000, 0.05)));
        assert_eq!(actual("Fatal Error: failed"), None);
    }

    #[test]
    fn stretch_is_the_ratio_to_the_recorded_time() {
        let times_us = [1_000_000, 1_000_100, 1_000_300];
        assert!((stretch(&[(0, 5_000), (2, 605_000)], &times_us) - 2.0).abs() < 1e-6);
        assert!(stretch(&[], &times_us).is_nan());
    }

    #[test]
    fn quantiles_are_errors_in_microseconds() {
        let even = RecordedSpeedRun {
            arrived: 5,
            errors_ns: vec![1_000, 2_000, 3_000, 4_000, 100_000],
            stretch: 1.0,
        };
        assert_eq!((even.quantile_us(0.5), even.quantile_us(1.0)), (3.0, 100.0));
        assert!(RecordedSpeedRun { arrived: 0, errors_ns: vec![], stretch: 1.0 }.quantile_us(0.5).is_nan());
    }
}
