//! Writing packets of several queues: merged by time into one file, against a file for each queue.
//!
//! The generator sends to the queues in turn, so the packets of any two queues interleave: to merge them,
//! the writer copies each. Packed, both ways; a file for each queue is written from the blocks.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context as _, Result};
use serde_json::json;
use wirecap_lab::table::{Table, millions};
use wirecap_traffic::FrameSpec;

use super::{Context, FCS_BYTES, figures, measured, ratios, wirecap_path, write::TIMEOUT};
use crate::{
    arguments::Scenario,
    bed::{FLOWS, RECEIVER},
    run::{Process, ReadySign, wait_until_quiet},
    sender::PacedSender,
    stats::{Summary, show},
};

/// Frames of 512 bytes, where copying counts.
const FRAME_LEN: usize = 512 - FCS_BYTES;
/// Packets per second to all queues together: somewhat more than the generator makes.
const RATE_PPS: u32 = 4_000_000;

/// The flags of each way. Each of the odd ones is compared with the one before it.
const WAYS: [&[&str]; 4] =
    [&[], &["--file-per-queue"], &["--direct-io"], &["--direct-io", "--file-per-queue"]];

fn name(flags: &[&str]) -> String {
    ["wirecap capture -w --xdp-mode packed", &flags.join(" ")].join(" ").trim_end().into()
}

/// One run.
struct Run {
    sent: u64,
    seconds: f64,
    written: u64,
    /// CPU time of the process after the start.
    cpu_ns: f64,
}

impl Run {
    fn lost_percent(&self) -> f64 {
        100.0 * self.sent.saturating_sub(self.written) as f64 / self.sent as f64
    }

    fn cpu_ns_per_packet(&self) -> f64 {
        self.cpu_ns / self.written as f64
    }
}

/// A directory for the files of a run, removed on drop.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left of a failed run is in the directory of the results, where it is seen.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Scratch {
    /// Bytes of all files.
    fn bytes(&self) -> u64 {
        let files = fs::read_dir(&self.0).into_iter().flatten().flatten();
        files.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
    }
}

pub(super) fn run(context: &mut Context) -> Result<()> {
    let disk = context.arguments.disk.clone().unwrap_or_else(|| context.arguments.out.clone());
    for (place, directory) in [("memory", context.arguments.tmpfs.clone()), ("disk", disk)] {
        for queues in [2, 4] {
            one(context, place, &directory, queues)?;
        }
    }
    Ok(())
}

fn one(context: &mut Context, place: &str, directory: &Path, queues: u32) -> Result<()> {
    let who = |way: &&[&str]| format!("{}, {queues} queues to {place}", name(way));
    let results = context.rounds(Scenario::Write, &WAYS, who, |context, way, round| {
        let run =
            write(context, way, directory.join(format!("wirecap-bench-{}", std::process::id())), queues)?;
        let kept = json!({
            "sent": run.sent, "seconds": run.seconds, "written": run.written, "cpu_ns": run.cpu_ns,
        });
        context.keep(Scenario::Write, &who(way), round, &kept)?;
        Ok(run)
    })?;
    let mut table = Table::new(
        format!("{queues} queues to {place}, {}-byte frames, packed", FRAME_LEN + FCS_BYTES),
        &[
            "wirecap capture -w",
            "offered Mpps",
            "loss %",
            "written Mpps",
            "CPU ns/packet",
            "of the merged file's",
        ],
    );
    for (way, rounds) in measured(&WAYS, &results) {
        let summary = |figure: &dyn Fn(&Run) -> f64| Summary::of(figures(rounds, figure));
        let merged = (1..WAYS.len()).step_by(2).find(|&split| WAYS[split] == *way).map(|split| split - 1);
        let of_merged = merged.map(|merged| ratios(rounds, &results[merged], Run::cpu_ns_per_packet));
        table.row([
            if way.is_empty() { "one file".into() } else { way.join(" ") },
            show(summary(&|run| millions(run.sent as f64 / run.seconds)), 2),
            show(summary(&Run::lost_percent), 2),
            show(summary(&|run| millions(run.written as f64 / run.seconds)), 2),
            show(summary(&Run::cpu_ns_per_packet), 0),
            show(of_merged.and_then(Summary::of), 2),
        ]);
    }
    table.note(format!("Runs of {} s, all threads of wirecap on one core.", context.run_time().as_secs()));
    context.record.table(&table)
}

fn write(context: &Context, way: &[&str], directory: PathBuf, queues: u32) -> Result<Run> {
    fs::create_dir(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let scratch = Scratch(directory);
    let link = context.bed.link(queues)?;
    let mut command = link.pinned(&wirecap_path(context)?.to_string_lossy());
    command.args(["capture", RECEIVER, "--xdp-mode", "packed", "--json", "-w"]);
    command.arg(scratch.0.join("x.pcapng")).args(way);
    let process = Process::start("wirecap", command, ReadySign::When(&|| link.has_program()))?;
    let before = process.cpu_time()?;
    let rates = vec![RATE_PPS / queues; queues as usize];
    let frame = FrameSpec { len: FRAME_LEN, ..FrameSpec::default() };
    let duration = context.run_time();
    let start = Instant::now();
    let (paced, seconds) = link.with_sender(|ifindex| {
        let paced = PacedSender::open(ifindex, &rates, frame, FLOWS)?.run(duration, |_, _| ())?;
        Ok((paced, start.elapsed().as_secs_f64()))
    })?;
    wait_until_quiet(|| scratch.bytes());
    let cpu_ns = (process.cpu_time()? - before).as_nanos() as f64;
    process.interrupt()?;
    let result = process.wait(TIMEOUT)?.json()?;
    let written = result["written"]["packets"].as_u64().with_context(|| format!("no packets: {result}"))?;
    Ok(Run { sent: paced.sent.iter().sum(), seconds, written, cpu_ns })
}
