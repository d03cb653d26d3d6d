//! Writing to a file: `wirecap capture -w`, and tcpdump on wirecap, against `tcpdump -w`, to memory and to a
//! disk; also with batch timestamps, to show the cost of packet timestamps, and with packed delivery.
//!
//! Lossless means that the tool's own count of packets in the file equals the frames sent. For one file of
//! each tool, reading the file checks that count.
//!
//! Targets: at least twice tcpdump's highest lossless rate in cells; packed, 3 times that of tcpdump with
//! 64 MiB at 64 bytes, 1.3 times at 512 and 1,500; tcpdump on wirecap, twice at 64 bytes, no less at others.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use wirecap_file::{Reader, Record};
use wirecap_testing::SendAccount;

use super::{Context, FCS_BYTES, SHORT_FRAME, figures, measured, one_queue, ratios, wirecap_path};
use crate::arguments::Scenario;
use crate::bed::{Amount, RECEIVER, Traffic, sent_json};
use crate::run::{Process, ProcessOutput, ReadySign};
use crate::search::{self, Bounds};
use crate::stats::{Summary, show};
use crate::table::{Table, millions, verdict};

/// A file that has not grown for this time is complete, except for the tool's own buffer. tcpdump gets the
/// packets of a partly filled block a second late.
const QUIET: Duration = Duration::from_millis(1500);
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    /// With these flags; the default ones stamp each packet.
    Wirecap(&'static [&'static str]),
    /// With a buffer of the given KiB, or its default one.
    Tcpdump(Option<u32>),
    /// By `wirecap run`, with a buffer of this number of KiB.
    TcpdumpOnWirecap(u32),
}

const TOOLS: [Tool; 8] = [
    Tool::Wirecap(&["--xdp-mode", "copy"]),
    Tool::Wirecap(&["--xdp-mode", "copy", "--timestamp", "batch"]),
    Tool::Wirecap(&["--xdp-mode", "packed", "--timestamp", "batch"]),
    Tool::Wirecap(&["--xdp-mode", "packed"]),
    Tool::Wirecap(&["--xdp-mode", "packed", "--direct-io"]),
    Tool::Tcpdump(Some(65_536)),
    Tool::Tcpdump(None),
    Tool::TcpdumpOnWirecap(65_536),
];
const COPY: usize = 0;
/// Also stamps each packet.
const PACKED_STAMPED: usize = 3;
const PACKED: [usize; 3] = [2, PACKED_STAMPED, 4];
const TCPDUMP_64_MIB: usize = 5;
const TCPDUMP_ON_WIRECAP: usize = 7;

impl Tool {
    fn name(self) -> String {
        match self {
            Self::Wirecap(flags) => ["wirecap capture -w", &flags.join(" ")].join(" ").trim_end().into(),
            Self::Tcpdump(None) => "tcpdump -w".into(),
            Self::Tcpdump(Some(kib)) => format!("tcpdump -w -B {kib}"),
            Self::TcpdumpOnWirecap(kib) => format!("wirecap run tcpdump -w -B {kib}"),
        }
    }

    fn extension(self) -> &'static str {
        match self {
            Self::Wirecap(_) => "pcapng",
            Self::Tcpdump(_) | Self::TcpdumpOnWirecap(_) => "pcap",
        }
    }

    /// Packets in the file, as the tool reports them.
    fn written(self, ended: &ProcessOutput) -> Result<u64> {
        match self {
            Self::Wirecap(_) => {
                let result = ended.json()?;
                result["written"]["packets"].as_u64().with_context(|| format!("no written.packets: {result}"))
            }
            Self::Tcpdump(_) | Self::TcpdumpOnWirecap(_) => {
                captured(&ended.errors).with_context(|| format!("no count: {}", ended.errors.join("; ")))
            }
        }
    }
}

/// The number of tcpdump's `123 packets captured`.
fn captured(lines: &[String]) -> Option<u64> {
    lines.iter().find_map(|line| {
        let (number, rest) = line.trim().split_once(' ')?;
        rest.starts_with("packet").then(|| rest.ends_with("captured"))?.then(|| number.parse().ok())?
    })
}

/// One run of a tool.
struct Run {
    sent: SendAccount,
    written: u64,
    file_bytes: u64,
    said: Value,
}

impl Run {
    fn lost(&self) -> u64 {
        self.sent.frames.saturating_sub(self.written)
    }

    fn json(&self, asked_pps: Option<f64>, frame_len: usize) -> Value {
        json!({
            "asked_pps": asked_pps, "frame_len": frame_len, "sent": sent_json(&self.sent),
            "written": self.written, "lost": self.lost(), "file_bytes": self.file_bytes, "said": self.said,
        })
    }
}

/// One round of one tool.
struct Round {
    full_speed: Run,
    lossless_pps: f64,
}

pub(super) fn run(context: &mut Context) -> Result<()> {
    let disk = context.arguments.disk.clone().unwrap_or_else(|| context.arguments.out.clone());
    for (place, directory) in [("memory", context.arguments.tmpfs.clone()), ("disk", disk)] {
        for frame_len in one_queue::FRAMES {
            one(context, place, &directory, frame_len)?;
        }
    }
    Ok(())
}

fn one(context: &mut Context, place: &str, directory: &Path, frame_len: usize) -> Result<()> {
    let bytes = frame_len + FCS_BYTES;
    let name = |tool: &Tool| format!("{} to {place}, {bytes} bytes", tool.name());
    let results = context.rounds(Scenario::Write, &TOOLS, name, |context, tool, round| {
        measure(context, *tool, directory, frame_len, (&name(tool), round))
    })?;
    let mut table = Table::new(
        format!("Writing to {place}, {bytes}-byte frames"),
        &[
            "tool",
            "offered Mpps",
            "loss %",
            "MB/s to the file",
            "highest lossless Mpps",
            "wirecap is … times",
            "≥ 2",
            "packed, stamped is … times",
        ],
    );
    for (tool, rounds) in measured(&TOOLS, &results) {
        let summary = |figure: &dyn Fn(&Round) -> f64| Summary::of(figures(rounds, figure));
        let times = |ours: usize| {
            let others = (*tool != TOOLS[ours]).then_some(rounds);
            others.and_then(|rounds| Summary::of(ratios(&results[ours], rounds, |round| round.lossless_pps)))
        };
        let of_packed = times(PACKED_STAMPED);
        let times = times(COPY);
        let target = times.filter(|_| matches!(tool, Tool::Tcpdump(_)));
        table.row([
            tool.name(),
            show(summary(&|round| millions(round.full_speed.sent.frames_per_second())), 2),
            show(
                summary(&|round| {
                    100.0 * round.full_speed.lost() as f64 / round.full_speed.sent.frames as f64
                }),
                2,
            ),
            show(
                summary(&|round| round.full_speed.file_bytes as f64 / round.full_speed.sent.seconds / 1e6),
                0,
            ),
            show(summary(&|round| millions(round.lossless_pps)), 3),
            show(times, 2),
            target.map_or_else(|| "–".into(), |times| verdict(times.median >= 2.0)),
            show(of_packed, 2),
        ]);
    }
    table.note(format!(
        "Runs of {} s, all threads of the tool on one core. In this time, most of the data for the disk stays in the page \
         cache.",
        context.run_time().as_secs()
    ));
    context.record.table(&table)?;
    let mut table = Table::new(
        format!(
            "Writing to {place}, {bytes}-byte frames: ratios of lossless rates within each round, with the target in brackets"
        ),
        &["wirecap", "of tcpdump -w -B 65536", "reached"],
    );
    for who in PACKED.into_iter().chain([TCPDUMP_ON_WIRECAP]).filter(|&who| !results[who].is_empty()) {
        let target = target(who, frame_len);
        let ratio = Summary::of(ratios(&results[who], &results[TCPDUMP_64_MIB], |round| round.lossless_pps));
        table.row([
            TOOLS[who].name(),
            format!("{} [{target}]", show(ratio, 2)),
            verdict(one_queue::is_at_least(ratio, target)),
        ]);
    }
    context.record.table(&table)
}

/// How many times tcpdump's rate a tool has to reach with frames of this length.
fn target(who: usize, frame_len: usize) -> f64 {
    match (who == TCPDUMP_ON_WIRECAP, frame_len == SHORT_FRAME) {
        (false, true) => 3.0,
        (false, false) => 1.3,
        (true, true) => 2.0,
        (true, false) => 1.0,
    }
}

fn measure(
    context: &mut Context,
    tool: Tool,
    directory: &Path,
    frame_len: usize,
    (who, round): (&str, usize),
) -> Result<Round> {
    let amount = Amount::For(context.run_time());
    let traffic = |rate_pps| Traffic { frame_len, rate_pps, amount };
    // In the first round, read the file to check the tool's count.
    let full_speed = write(context, tool, directory, traffic(None), round == 1)?;
    context.keep(Scenario::Write, who, round, &full_speed.json(None, frame_len))?;

    let offered = full_speed.sent.frames_per_second();
    let lossless_pps = if full_speed.lost() == 0 {
        offered
    } else {
        let bounds = Bounds { low: 0.0, high: offered, precision: context.precision() };
        search::highest_lossless(bounds, |rate| {
            let run = write(context, tool, directory, traffic(Some(rate)), false)?;
            context.keep(Scenario::Write, who, round, &run.json(Some(rate), frame_len))?;
            anyhow::Ok((run.lost() == 0).then(|| run.sent.frames_per_second()))
        })?
    };
    Ok(Round { full_speed, lossless_pps })
}

/// A file that is removed on drop.
pub(super) struct Scratch(pub(super) PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // The tool may not have made it.
        let _ = fs::remove_file(&self.0);
    }
}

fn write(context: &Context, tool: Tool, directory: &Path, traffic: Traffic, check: bool) -> Result<Run> {
    let file = directory.join(format!("wirecap-bench-{}.{}", std::process::id(), tool.extension()));
    let scratch = Scratch(file);
    let link = context.bed.link(1)?;
    let process = match tool {
        Tool::Wirecap(flags) => {
            let mut command = link.pinned(&wirecap_path(context)?.to_string_lossy());
            command.args(["capture", RECEIVER, "-M", "256", "-R", "128", "--json", "-w"]).arg(&scratch.0);
            command.args(flags);
            Process::start("wirecap", command, ReadySign::When(&|| link.has_program()))?
        }
        Tool::Tcpdump(_) | Tool::TcpdumpOnWirecap(_) => {
            let (mut command, buffer_kib) = match tool {
                Tool::TcpdumpOnWirecap(kib) => {
                    let mut command = link.pinned(&wirecap_path(context)?.to_string_lossy());
                    command.args(["run", "tcpdump"]);
                    (command, Some(kib))
                }
                Tool::Tcpdump(buffer_kib) => (link.pinned("tcpdump"), buffer_kib),
                Tool::Wirecap(_) => unreachable!("it is another tool"),
            };
            // -Z root: tcpdump would drop root, and then could not write to a directory of root.
            command.args(["-i", RECEIVER, "-nn", "-Z", "root", "-w"]).arg(&scratch.0);
            if let Some(kib) = buffer_kib {
                command.args(["-B", &kib.to_string()]);
            }
            Process::start("tcpdump", command, ReadySign::Line("tcpdump: listening on"))?
        }
    };
    let sent = link.send(traffic)?;
    wait_until_quiet_file(&scratch.0);
    process.interrupt()?;
    let ended = process.wait(TIMEOUT)?;
    let written = tool.written(&ended)?;
    if check {
        let found = count(&scratch.0)?;
        ensure!(found == written, "{} says {written} packets, its file has {found}", tool.name());
    }
    let file_bytes = fs::metadata(&scratch.0).map_or(0, |metadata| metadata.len());
    let said = json!({ "lines": ended.lines, "errors": ended.errors });
    Ok(Run { sent, written, file_bytes, said })
}

pub(super) fn wait_until_quiet_file(file: &Path) {
    wait_until_quiet(|| fs::metadata(file).map_or(0, |metadata| metadata.len()));
}

/// Waits until files of this length, in bytes, are complete.
pub(super) fn wait_until_quiet(length: impl Fn() -> u64) {
    let (mut last, mut since, start) = (length(), Instant::now(), Instant::now());
    while since.elapsed() < QUIET && start.elapsed() < TIMEOUT {
        std::thread::sleep(Duration::from_millis(50));
        let now = length();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
}

/// Packets in a file.
fn count(file: &Path) -> Result<u64> {
    let mut reader = Reader::open(file)?;
    let mut packets = 0;
    while let Some(record) = reader.next()? {
        packets += u64::from(matches!(record, Record::Packet(_)));
    }
    Ok(packets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_have_the_names_of_their_commands() {
        assert_eq!(TOOLS[COPY].name(), "wirecap capture -w --xdp-mode copy");
        assert_eq!(TOOLS[PACKED_STAMPED].name(), "wirecap capture -w --xdp-mode packed");
        assert_eq!(TOOLS[TCPDUMP_64_MIB].name(), "tcpdump -w -B 65536");
        assert_eq!(TOOLS[TCPDUMP_ON_WIRECAP].name(), "wirecap run tcpdump -w -B 65536");
        let packs = |tool: &Tool| tool.name().contains("packed");
        let packed: Vec<_> = (0..TOOLS.len()).filter(|&tool| packs(&TOOLS[tool])).collect();
        assert_eq!(packed, PACKED);
    }

    #[test]
    fn packed_delivery_has_a_target_for_each_length() {
        assert_eq!(one_queue::FRAMES.map(|len| target(PACKED[0], len)), [3.0, 1.3, 1.3]);
        assert_eq!(one_queue::FRAMES.map(|len| target(TCPDUMP_ON_WIRECAP, len)), [2.0, 1.0, 1.0]);
    }

    #[test]
    fn tcpdump_s_count_is_read() {
        let lines = |text: &str| text.lines().map(Into::into).collect::<Vec<String>>();
        let said = "tcpdump: listening on wc1, link-type EN10MB\n1200 packets captured\n1300 packets received by filter";
        assert_eq!(captured(&lines(said)), Some(1200));
        assert_eq!(captured(&lines("1 packet captured")), Some(1));
        assert_eq!(captured(&lines("tcpdump: no such device")), None);
    }
}
