//! The report at the end: frames made, frames sent, and the counters of the interface.

use std::time::SystemTime;

use serde::Serialize;
use wirecap_send::TxCounters;
use wirecap_traffic::{End, FCS_LEN, FrameTotals, Outcome, QueueReport};

use super::plan::{EngineOptions, Plan};
use crate::{
    exit::Exit,
    flags::SendFlags,
    print::{
        head::Head,
        printable::json,
        report::ReportFormat,
        stdio::Stream,
        table::{QueueRow, Table},
    },
    text::{
        DiagnosticWithText,
        plural::{counted, was},
        sending::{Fallback, describe},
        units::rate,
    },
};

/// Less than this share of the requested rate is worth a warning.
const REACHED: f64 = 0.99;

/// The result of sending.
pub(super) struct SendResult {
    pub(super) outcome: Outcome,
    pub(super) totals: FrameTotals,
    /// The counters of the interface, from the start.
    pub(super) counters: TxCounters,
    /// Empty for live frames.
    pub(super) queues: Vec<QueueReport>,
    /// Frames that are still with the kernel.
    pub(super) in_flight: u64,
}

/// The result of a run.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Report {
    #[serde(flatten)]
    head: Head,
    /// The interface.
    interface: String,
    /// The engine.
    #[cfg_attr(test, schemars(extend("enum" = ["xdp", "live"])))]
    engine: &'static str,
    /// Number of the run, which each frame contains.
    run: u16,
    /// Frames that were made.
    frames: u64,
    /// Their bytes, without FCS.
    bytes: u64,
    /// Seconds from the first frame to the last.
    seconds: f64,
    /// Frames per second.
    packets_per_second: f64,
    /// Bits per second, with FCS.
    bits_per_second: f64,
    /// Requested frames per second; null without `--rate`, and with bursts.
    asked_packets_per_second: Option<f64>,
    /// Frames that the interface counted as sent, those of other senders included; null if it is gone.
    taken: Option<u64>,
    /// Frames that the interface counted as dropped; null if it is gone.
    dropped: Option<u64>,
    /// Frames that were still with the kernel at the end.
    in_flight: u64,
    /// The transmit queues.
    queues: Vec<QueueRecord>,
    /// Why the run ended.
    #[cfg_attr(test, schemars(extend("enum" = ["done", "signal", "failed"])))]
    end: &'static str,
    /// Why the run failed, as text; null if it did not.
    error: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct QueueRecord {
    #[serde(flatten)]
    queue: QueueReport,
    /// Why the queue is not zero-copy; null if it is.
    fallback: Option<DiagnosticWithText<Fallback>>,
}

impl Report {
    pub(super) fn new(plan: &Plan, started: SystemTime, sent: SendResult) -> Self {
        let SendResult { outcome, totals, counters, queues, in_flight } = sent;
        let seconds = outcome.elapsed.as_secs_f64().max(1e-9);
        let (end, error) = match outcome.end {
            End::Done => ("done", None),
            End::Stopped => ("signal", None),
            End::Failed(error) => ("failed", Some(error.to_string())),
        };
        let counted = counters.settled(totals.frames - in_flight).ok();
        let asked = plan.timing.rate.filter(|_| plan.timing.bursts.is_none());
        let record = |queue: QueueReport| QueueRecord {
            fallback: plan.fallback(&queue).map(|fallback| DiagnosticWithText::new(fallback, describe)),
            queue,
        };
        Self {
            head: Head::new("generate", started),
            interface: plan.interface.name.clone(),
            engine: match plan.engine {
                EngineOptions::Xdp(_) => "xdp",
                EngineOptions::Live(_) => "live",
            },
            run: plan.frame.run,
            frames: totals.frames,
            bytes: totals.bytes,
            seconds,
            packets_per_second: totals.frames as f64 / seconds,
            bits_per_second: bits_with_fcs(totals) as f64 / seconds,
            asked_packets_per_second: asked.map(|rate| rate.frames_per_second(plan.sizes.mean())),
            taken: counted.map(|counted| counted.packets),
            dropped: counted.map(|counted| counted.dropped),
            in_flight,
            queues: queues.into_iter().map(record).collect(),
            end,
            error,
        }
    }

    /// Prints the report and warnings. Returns the exit code.
    pub(super) fn print(&self, flags: &SendFlags) -> Exit {
        let format = ReportFormat { stream: Stream::Stdout, json: flags.json, quiet: flags.quiet };
        let is_printed = format.print("the report", || json(self), || self.describe());
        self.warn(flags.quiet);
        let nothing = self.frames > 0 && self.taken == Some(0);
        if !is_printed || self.error.is_some() || self.in_flight > 0 || nothing {
            Exit::Failed
        } else {
            Exit::Fine
        }
    }

    fn describe(&self) -> String {
        let mut text = String::new();
        if !self.queues.is_empty() {
            let queues = self.queues.iter().map(|QueueRecord { queue, .. }| queue);
            let row = |queue: &QueueReport| QueueRow {
                queue: queue.queue,
                mode: queue.mode,
                figures: [queue.made, queue.sent],
            };
            let queues = queues.map(row);
            text += &format!("{}\n", Table::of_queues(["made", "sent"], queues.collect()));
        }
        text += &format!(
            "{} of run {} in {:.3} s, {}, {:.1} Mbit/s with FCS\n",
            counted(self.frames, "frame"),
            self.run,
            self.seconds,
            rate(self.packets_per_second),
            self.bits_per_second / 1e6
        );
        text += &match (self.taken, self.dropped) {
            (Some(taken), Some(dropped)) => {
                format!("{} sent {taken} and dropped {dropped}, by its own counters\n", self.interface)
            }
            _ => format!("the counters of {} are gone, so what it sent is unknown\n", self.interface),
        };
        text
    }

    /// Prints warnings; if `quiet`, only errors and losses.
    fn warn(&self, quiet: bool) {
        let interface = &self.interface;
        if self.in_flight > 0 {
            let (frames, were) = (counted(self.in_flight, "frame"), was(self.in_flight));
            note!("{frames} {were} still with the kernel at the end, and may be lost");
        }
        if self.frames > 0 && self.taken == Some(0) {
            let error =
                wirecap_traffic::Error::NothingTaken { interface: interface.clone(), frames: self.frames };
            fail!("{error}");
        } else if let Some(dropped) = self.dropped.filter(|&dropped| dropped > 0) {
            let advice = if self.error.is_some() { "" } else { "; send more slowly, or in smaller bursts" };
            warn!("{interface} dropped {}{advice}", counted(dropped, "frame"));
        }
        let invalid: u64 = self.queues.iter().map(|record| record.queue.invalid).sum();
        if invalid > 0 {
            warn!("the kernel refused {invalid} frames. This is a defect of wirecap");
        }
        let asked = self.asked_packets_per_second.filter(|_| self.error.is_none() && !quiet);
        if let Some(asked) = asked.filter(|asked| self.packets_per_second < asked * REACHED) {
            // Too few frames say nothing about a rate.
            if asked * self.seconds >= 100.0 {
                warn!("{} were requested, but only {} reached", rate(asked), rate(self.packets_per_second));
            }
        }
    }
}

pub(super) fn bits_with_fcs(totals: FrameTotals) -> u64 {
    8 * (totals.bytes + FCS_LEN as u64 * totals.frames)
}
