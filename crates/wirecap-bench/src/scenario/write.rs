//! Writing to a file: `wirecap capture -w` against `tcpdump -w`, to memory and to a disk; also with batch
//! timestamps, to show the cost of packet timestamps, and with packed delivery. (`libpcap` has tcpdump on
//! wirecap.)
//!
//! Lossless means that the tool's own count of packets in the file equals the frames sent. For one file of
//! each tool, reading the file checks that count.
//!
//! Targets: at least twice tcpdump's highest lossless rate in cells; packed, 3 times that of tcpdump with
//! 64 MiB at 64 bytes, 1.3 times at 512 and 1,500.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use wirecap_file::{Reader, Record};
use wirecap_lab::table::{Table, millions, verdict};
use wirecap_testing::SendAccount;

use super::{Context, FCS_BYTES, SHORT_FRAME, figures, measured, one_queue, ratios, wirecap_path};
use crate::arguments::Scenario;
use crate::bed::{Amount, RECEIVER, Traffic, sent_json};
use crate::run::{Process, ProcessOutput, ReadySign, wait_until_quiet_file};
use crate::search::{self, Rated, Rates};
use crate::stats::{Summary, show};
use crate::tcpdump::{Library, Tcpdump};

pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    /// With these flags; the default ones stamp each packet.
    Wirecap(&'static [&'static str]),
    Tcpdump(Tcpdump),
}

const TOOLS: [Tool; 7] = [
    Tool::Wirecap(&["--xdp-mode", "copy"]),
    Tool::Wirecap(&["--xdp-mode", "copy", "--timestamp", "batch"]),
    Tool::Wirecap(&["--xdp-mode", "packed", "--timestamp", "batch"]),
    Tool::Wirecap(&["--xdp-mode", "packed"]),
    Tool::Wirecap(&["--xdp-mode", "packed", "--direct-io"]),
    Tool::Tcpdump(Tcpdump { library: Library::System, buffer_kib: Some(65_536) }),
    Tool::Tcpdump(Tcpdump { library: Library::System, buffer_kib: None }),
];
const COPY: usize = 0;
/// Also stamps each packet.
const PACKED_STAMPED: usize = 3;
const PACKED: [usize; 3] = [2, PACKED_STAMPED, 4];
const TCPDUMP_64_MIB: usize = 5;

impl Tool {
    fn name(self) -> String {
        match self {
            Self::Wirecap(flags) => ["wirecap capture -w", &flags.join(" ")].join(" ").trim_end().into(),
            Self::Tcpdump(tcpdump) => tcpdump.name(),
        }
    }

    fn extension(self) -> &'static str {
        match self {
            Self::Wirecap(_) => "pcapng",
            Self::Tcpdump(_) => "pcap",
        }
    }

    /// Packets in the file, as the tool reports them.
    fn written(self, ended: &ProcessOutput) -> Result<u64> {
        match self {
            Self::Wirecap(_) => {
                let result = ended.json()?;
                result["written"]["packets"].as_u64().with_context(|| format!("no written.packets: {result}"))
            }
            Self::Tcpdump(_) => Tcpdump::captured(ended),
        }
    }
}

/// One run of a tool.
struct Run {
    sent: SendAccount,
    written: u64,
    file_bytes: u64,
    said: Value,
}

impl Rated for Run {
    fn sent_pps(&self) -> f64 {
        self.sent.frames_per_second()
    }

    fn lost(&self) -> u64 {
        self.sent.frames.saturating_sub(self.written)
    }
}

impl Run {
    fn json(&self, asked_pps: Option<f64>, frame_len: usize) -> Value {
        json!({
            "asked_pps": asked_pps, "frame_len": frame_len, "sent": sent_json(&self.sent),
            "written": self.written, "lost": self.lost(), "file_bytes": self.file_bytes, "said": self.said,
        })
    }
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
        let summary = |figure: &dyn Fn(&Rates<Run>) -> f64| Summary::of(figures(rounds, figure));
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
    for who in PACKED.into_iter().filter(|&who| !results[who].is_empty()) {
        let target = target(frame_len);
        let ratio = Summary::of(ratios(&results[who], &results[TCPDUMP_64_MIB], |round| round.lossless_pps));
        table.row([
            TOOLS[who].name(),
            format!("{} [{target}]", show(ratio, 2)),
            verdict(one_queue::is_at_least(ratio, target)),
        ]);
    }
    context.record.table(&table)
}

/// How many times tcpdump's rate packed delivery has to reach with frames of this length.
fn target(frame_len: usize) -> f64 {
    if frame_len == SHORT_FRAME { 3.0 } else { 1.3 }
}

fn measure(
    context: &mut Context,
    tool: Tool,
    directory: &Path,
    frame_len: usize,
    (who, round): (&str, usize),
) -> Result<Rates<Run>> {
    let amount = Amount::For(context.run_time());
    search::rates(context.precision(), |rate_pps| {
        // In the first round, read the file to check the tool's count.
        let check = round == 1 && rate_pps.is_none();
        let run = write(context, tool, directory, Traffic { frame_len, rate_pps, amount }, check)?;
        context.keep(Scenario::Write, who, round, &run.json(rate_pps, frame_len))?;
        Ok(run)
    })
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
        Tool::Tcpdump(tcpdump) => tcpdump.start(&link, &wirecap_path(context)?, &scratch.0)?,
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
        let packs = |tool: &Tool| tool.name().contains("packed");
        let packed: Vec<_> = (0..TOOLS.len()).filter(|&tool| packs(&TOOLS[tool])).collect();
        assert_eq!(packed, PACKED);
    }

    #[test]
    fn packed_delivery_has_a_target_for_each_length() {
        assert_eq!(one_queue::FRAMES.map(target), [3.0, 1.3, 1.3]);
    }
}
