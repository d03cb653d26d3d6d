//! The paper's experiment (section 4: `multi_pkt_handler`, figure 11) with a libpcap program: a thread and a
//! handle for each of four queues, a callback that applies a filter 300 times to each packet, and a hot
//! queue.
//!
//! ```text
//!   queue 0      1.1 times what a thread handles ──► handle wc1@0 ──► thread 0       in a group: to the others
//!   queues 1–3   0.02 times each ──────────────────► handles wc1@1 to wc1@3 ──► threads 1 to 3
//! ```
//!
//! What a thread handles is measured first. Target: with `?group=` no loss; without it the hot queue loses,
//! once its pool is full. libpcap has one handle and one thread: it has no devices of single queues.

use std::{process::Command, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::json;
use wirecap_lab::table::{Table, grouped, verdict};
use wirecap_traffic::FrameSpec;

use super::super::{Context, figures, measured};
use crate::{
    arguments::Scenario,
    bed::{FLOWS, RECEIVER},
    run::{Process, ReadySign},
    sender::PacedSender,
    stats::{Summary, show},
};

const PROGRAM: &str = "pcap_threads";
/// Applications of the filter to each packet, as in the paper.
const FILTERS: &str = "300";
/// Packets to each queue, as shares of what a thread handles. On two cores the generator takes half of one.
const SHARES: [f64; 4] = [1.1, 0.02, 0.02, 0.02];
/// A pool of 16 MiB for each queue, and as much for libpcap's one ring as all of them have.
const POOL: &str = "M=256&R=32&T=60";
const BUFFER_MIB: &str = "64";
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Group,
    Alone,
    Libpcap,
}

const WAYS: [Way; 3] = [Way::Group, Way::Alone, Way::Libpcap];

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Group => "four threads on wirecap, a group",
            Self::Alone => "four threads on wirecap, no group",
            Self::Libpcap => "one thread on libpcap",
        }
    }

    fn flags(self) -> Vec<String> {
        let words = |options: &str| ["--threads", "4", "--options", options].map(Into::into).to_vec();
        match self {
            Self::Group => words(&format!("{POOL}&group=threads")),
            Self::Alone => words(POOL),
            Self::Libpcap => ["--buffer-mib", BUFFER_MIB].map(Into::into).to_vec(),
        }
    }
}

/// What the program prints.
#[derive(Deserialize)]
struct Outcome {
    packets: u64,
    dropped: u64,
    by_thread: Vec<u64>,
}

struct Run {
    sent: Vec<u64>,
    outcome: Outcome,
}

impl Run {
    fn sent(&self) -> u64 {
        self.sent.iter().sum()
    }

    fn lost(&self) -> u64 {
        self.sent().saturating_sub(self.outcome.packets)
    }

    fn lost_percent(&self) -> f64 {
        100.0 * self.lost() as f64 / self.sent() as f64
    }

    /// Packets that are neither delivered nor counted as lost.
    fn unexplained(&self) -> u64 {
        self.lost().abs_diff(self.outcome.dropped)
    }
}

/// How long a thread takes for a packet, in nanoseconds.
fn calibrate(context: &Context) -> Result<f64> {
    let mut command = Command::new(context.peers.path(PROGRAM));
    command.args([RECEIVER, "--filters", FILTERS, "--calibrate", "1"]);
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(output.status.success(), "{PROGRAM}: {}", String::from_utf8_lossy(&output.stderr));
    let figures: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    figures["ns_per_packet"].as_f64().context("no ns_per_packet")
}

pub(super) fn run(context: &mut Context) -> Result<()> {
    let duration = Duration::from_secs(if context.is_quick() { 4 } else { 10 });
    let pace_pps = 1e9 / calibrate(context)?;
    let rates = SHARES.map(|share| (share * pace_pps) as u32);
    let name = |way: &Way| way.name().into();
    let results = context.rounds(Scenario::Libpcap, &WAYS, name, |context, way, round| {
        let run = measure(context, *way, &rates, duration)?;
        let kept = json!({
            "pace_pps": pace_pps, "sent": run.sent, "packets": run.outcome.packets,
            "by_thread": run.outcome.by_thread, "dropped": run.outcome.dropped,
        });
        context.keep(Scenario::Libpcap, way.name(), round, &kept)?;
        Ok(run)
    })?;
    let mut table = Table::new(
        format!(
            "A callback of {FILTERS} filters, {} packets/s a thread; {} to the hot queue, {} to each of three, {} s",
            grouped(pace_pps as u64),
            grouped(rates[0].into()),
            grouped(rates[1].into()),
            duration.as_secs()
        ),
        &[
            "program",
            "sent",
            "lost %",
            "counted as dropped",
            "unexplained",
            "of the packets, thread 0 got %",
            "as expected",
        ],
    );
    for (way, rounds) in measured(&WAYS, &results) {
        let summary = |figure: &dyn Fn(&Run) -> f64| Summary::of(figures(rounds, figure));
        let as_expected = rounds.iter().all(|run| {
            run.as_ref()
                .is_some_and(|run| run.unexplained() == 0 && (run.lost() == 0) == (*way == Way::Group))
        });
        table.row([
            way.name().into(),
            show(summary(&|run| run.sent() as f64), 0),
            show(summary(&Run::lost_percent), 2),
            show(summary(&|run| run.outcome.dropped as f64), 0),
            show(summary(&|run| run.unexplained() as f64), 0),
            show(summary(&|run| 100.0 * run.outcome.by_thread[0] as f64 / run.outcome.packets as f64), 0),
            verdict(as_expected),
        ]);
    }
    table.note("Threads are not pinned; the generator needs a part of one core.");
    context.record.table(&table)
}

fn measure(context: &Context, way: Way, rates: &[u32], duration: Duration) -> Result<Run> {
    let link = context.bed.link(rates.len() as u32)?;
    let mut command = link.command("env");
    if way != Way::Libpcap {
        command.arg(format!("LD_PRELOAD={}", super::library_path()?.display()));
    }
    command.arg(context.peers.path(PROGRAM)).arg(RECEIVER).args(["--filters", FILTERS, "--idle-ms", "1500"]);
    command.args(way.flags());
    let process = Process::start(PROGRAM, command, ReadySign::Line("READY"))?;
    let paced = link.with_sender(|ifindex| {
        PacedSender::open(ifindex, rates, FrameSpec::default(), FLOWS)?.run(duration, |_, _| ())
    })?;
    let outcome = Outcome::deserialize(process.wait(TIMEOUT)?.json()?).context("the program's account")?;
    Ok(Run { sent: paced.sent, outcome })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_explained_if_it_was_counted() {
        let outcome = |packets, dropped| Outcome { packets, dropped, by_thread: vec![packets] };
        let run = Run { sent: vec![700, 100, 100, 100], outcome: outcome(900, 60) };
        assert_eq!((run.lost(), run.lost_percent(), run.unexplained()), (100, 10.0, 40));
    }
}
