//! Generating 64-byte frames over one queue: `wirecap generate` against a bare AF_XDP transmit loop, trafgen
//! and tcpreplay.
//!
//! The rate is that of the sending interface's counters while the generator runs; the other end drops the
//! frames in XDP. So the figure means the same for all generators, whatever they report.
//!
//! Targets: at least 0.95 of the bare loop, and more than trafgen and tcpreplay.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::json;
use wirecap_file::{LINK_TYPE_ETHERNET, PacketHeader, pcap};
use wirecap_lab::table::{Table, millions, verdict};
use wirecap_traffic::{FrameSpec, Template};

use super::{Context, SHORT_FRAME, figures, measured, ratios, wirecap_path};
use crate::arguments::Scenario;
use crate::bed::{FLOWS, Link, SENDER};
use crate::run::{Process, ReadySign};
use crate::stats::{Summary, show};

/// The measurement starts after this time, once caches and page pools are warm.
const WARM_UP: Duration = Duration::from_millis(300);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Generator {
    /// The AF_XDP engine.
    Wirecap,
    /// The kernel's live frames, for comparison.
    Live,
    Bare,
    Trafgen,
    Tcpreplay,
}

const GENERATORS: [Generator; 5] =
    [Generator::Wirecap, Generator::Bare, Generator::Trafgen, Generator::Tcpreplay, Generator::Live];

/// The frames to send, in the formats of the programs.
struct Files {
    pcap: PathBuf,
    trafgen: PathBuf,
}

impl Generator {
    fn name(self) -> &'static str {
        match self {
            Self::Wirecap => "wirecap generate",
            Self::Live => "wirecap generate --engine live",
            Self::Bare => "bare AF_XDP transmit loop",
            Self::Trafgen => "trafgen",
            Self::Tcpreplay => "tcpreplay --preload-pcap",
        }
    }

    /// The program to look for, if it may be missing.
    fn program(self) -> Option<&'static str> {
        match self {
            Self::Trafgen => Some("trafgen"),
            Self::Tcpreplay => Some("tcpreplay"),
            _ => None,
        }
    }

    fn is_installed(self) -> bool {
        let runs = |program| {
            let mut command = Command::new(program);
            command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
        };
        self.program().is_none_or(runs)
    }

    fn command(self, context: &Context, link: &Link<'_>, files: &Files) -> Result<Command> {
        let wirecap = wirecap_path(context)?;
        let bare = context.peers.path("xsk_send");
        let with = |program: &Path, words: &[&str]| {
            let mut command = link.sender(&program.to_string_lossy());
            command.args(words);
            command
        };
        let (pcap, trafgen) = (files.pcap.to_string_lossy(), files.trafgen.to_string_lossy());
        Ok(match self {
            Self::Wirecap => with(&wirecap, &["generate", "-i", SENDER, "--quiet"]),
            Self::Live => with(&wirecap, &["generate", "-i", SENDER, "--quiet", "--engine", "live"]),
            Self::Bare => with(&bare, &[SENDER, "--batch", "32"]),
            Self::Trafgen => with(
                Path::new("trafgen"),
                &["--dev", SENDER, "--conf", &trafgen, "--cpus", "1", "--no-cpu-stats"],
            ),
            Self::Tcpreplay => {
                let words =
                    ["-i", SENDER, "--topspeed", "--preload-pcap", "--loop", "100000000", "-q", &pcap];
                with(Path::new("tcpreplay"), &words)
            }
        })
    }
}

pub(super) fn run(context: &mut Context) -> Result<()> {
    let (installed, missing): (Vec<_>, Vec<_>) =
        GENERATORS.into_iter().partition(|generator| generator.is_installed());
    for generator in missing {
        eprintln!("generate: SKIPPED {}: it is not installed", generator.name());
    }
    let files = Files::write(&context.arguments.tmpfs)?;
    let name = |generator: &Generator| generator.name().to_owned();
    let results = context.rounds(Scenario::Generate, &installed, name, |context, generator, round| {
        let pps = measure(context, *generator, &files)?;
        let run = json!({ "kind": "full speed", "frame_len": SHORT_FRAME, "pps": pps });
        context.keep(Scenario::Generate, generator.name(), round, &run)?;
        Ok(pps)
    });
    files.remove();
    tables(context, &installed, &results?)
}

/// Frames per second that the interface has sent.
fn measure(context: &Context, generator: Generator, files: &Files) -> Result<f64> {
    let link = context.bed.link(1)?;
    let _drop_all = link.drop_all()?;
    let before = link.transmitted()?;
    let sends = || link.transmitted().is_ok_and(|frames| frames > before + 1_000);
    let process =
        Process::start(generator.name(), generator.command(context, &link, files)?, ReadySign::When(&sends))?;
    thread::sleep(WARM_UP);
    let (start, first) = (Instant::now(), link.transmitted()?);
    thread::sleep(context.run_time());
    let (seconds, last) = (start.elapsed().as_secs_f64(), link.transmitted()?);
    drop(process);
    Ok((last - first) as f64 / seconds)
}

fn tables(context: &mut Context, installed: &[Generator], results: &[Vec<Option<f64>>]) -> Result<()> {
    let of = |generator: Generator| {
        installed.iter().position(|&other| other == generator).map(|at| &results[at][..])
    };
    let ours = of(Generator::Wirecap).expect("wirecap is always installed");
    let mut table = Table::new(
        "Generating 64-byte frames over one queue of a veth, from one core",
        &["generator", "Mpps", "wirecap generate, of it", "target", "reached"],
    );
    for (generator, rounds) in measured(installed, results) {
        let ratio = Summary::of(ratios(ours, rounds, |&pps| pps));
        let target = match generator {
            Generator::Wirecap | Generator::Live => None,
            Generator::Bare => Some(0.95),
            Generator::Trafgen | Generator::Tcpreplay => Some(1.0),
        };
        let reached = target.zip(ratio).map(|(target, ratio)| verdict(ratio.median >= target));
        table.row([
            generator.name().to_owned(),
            show(Summary::of(figures(rounds, |&pps| millions(pps))), 3),
            show(ratio, 3),
            target.map_or_else(String::new, |target| format!("≥ {target:.2}")),
            reached.unwrap_or_default(),
        ]);
    }
    table.note(
        "Frames sent, by the counters of the sending interface; the other end drops them in XDP, on the sender's core. \
         wirecap's frames have a number, a flow and a time each; the other tools repeat the same frames.",
    );
    context.record.table(&table)
}

impl Files {
    fn write(directory: &Path) -> Result<Self> {
        let name =
            |extension: &str| directory.join(format!("wirecap-bench-{}.{extension}", std::process::id()));
        let files = Self { pcap: name("pcap"), trafgen: name("trafgen") };
        let mut template = Template::new(FrameSpec { len: SHORT_FRAME, ..FrameSpec::default() })?;
        let mut trace = Vec::new();
        pcap::file_header(&mut trace, LINK_TYPE_ETHERNET, 0);
        for flow in 0..FLOWS {
            let header = PacketHeader {
                timestamp_ns: 1_000 * u64::from(flow),
                original_len: SHORT_FRAME as u32,
                interface: 0,
                queue: None,
                packet_id: None,
                outbound: None,
            };
            pcap::packet(&mut trace, &header, 0, [template.stamp(flow, flow.into())]);
        }
        fs::write(&files.pcap, trace)?;
        let bytes: Vec<String> = template.bytes().iter().map(|byte| format!("{byte:#04x}")).collect();
        fs::write(&files.trafgen, format!("{{ {} }}\n", bytes.join(", ")))?;
        Ok(files)
    }

    fn remove(&self) {
        for file in [&self.pcap, &self.trafgen] {
            // A file that cannot be removed only occupies memory.
            let _ = fs::remove_file(file);
        }
    }
}
