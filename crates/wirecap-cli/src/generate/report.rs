//! What is said at the end: what was made, what of it left, and what the interface took.

use std::time::SystemTime;

use serde::Serialize;
use wirecap_traffic::{End, FCS_LEN, LinkWatch, Made, Outcome, QueueMade, Taken};

use super::plan::{EngineOptions, Plan};
use crate::{
    exit::{Exit, tell},
    head::Head,
    printable::json,
    stdio::{Stream, print},
    table::Table,
    terminal::rate,
    text::{
        plural::{counted, was},
        ranges,
    },
};

/// Less than this share of the rate that was asked for is worth a warning.
const REACHED: f64 = 0.99;

/// What came of a run.
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
    /// The number that each frame bears.
    run: u16,
    /// Frames that were made.
    frames: u64,
    /// Their bytes, without FCS.
    bytes: u64,
    /// Seconds from the first frame to the last.
    seconds: f64,
    /// Frames a second.
    packets_per_second: f64,
    /// Bits a second, with FCS.
    bits_per_second: f64,
    /// Frames a second that were asked for; null without `--rate`, and with bursts.
    asked_packets_per_second: Option<f64>,
    /// Frames that the interface counted as sent, those of other senders included; null if it is gone.
    taken: Option<u64>,
    /// Frames that the interface counted as dropped; null if it is gone.
    dropped: Option<u64>,
    /// Frames that were still with the kernel at the end.
    in_flight: u64,
    /// The transmit queues.
    queues: Vec<QueueReport>,
    /// Why it ended.
    #[cfg_attr(test, schemars(extend("enum" = ["done", "signal", "failed"])))]
    end: &'static str,
    /// Why it failed, in words; null if it did not.
    error: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct QueueReport {
    /// Number of the queue.
    queue: u16,
    /// How the driver gets the frames.
    mode: &'static str,
    /// Why it is not zero-copy.
    fallback: Option<String>,
    /// Frames that were made.
    made: u64,
    /// Frames that the kernel has given back.
    sent: u64,
    /// Frames that the kernel refused to look at.
    invalid: u64,
}

impl Report {
    pub(super) fn new(
        plan: &Plan,
        started: SystemTime,
        outcome: Outcome,
        made: Made,
        queues: Vec<QueueMade>,
        in_flight: u64,
        watch: &LinkWatch,
    ) -> Self {
        let seconds = outcome.elapsed.as_secs_f64().max(1e-9);
        let (end, error) = match outcome.end {
            End::Done => ("done", None),
            End::Stopped => ("signal", None),
            End::Failed(error) => ("failed", Some(error.to_string())),
        };
        let taken: Option<Taken> = watch.settled(made.frames - in_flight).ok();
        let asked = plan.timing.rate.filter(|_| plan.timing.bursts.is_none());
        Self {
            head: Head::new("generate", started),
            interface: plan.interface.name.clone(),
            engine: match plan.engine {
                EngineOptions::Xdp(_) => "xdp",
                EngineOptions::Live(_) => "live",
            },
            run: plan.frame.run,
            frames: made.frames,
            bytes: made.bytes,
            seconds,
            packets_per_second: made.frames as f64 / seconds,
            bits_per_second: bits_with_fcs(made) as f64 / seconds,
            asked_packets_per_second: asked.map(|rate| rate.frames_per_second(plan.sizes.mean())),
            taken: taken.map(|taken| taken.frames),
            dropped: taken.map(|taken| taken.dropped),
            in_flight,
            queues: queues.into_iter().map(QueueReport::new).collect(),
            end,
            error,
        }
    }

    /// Prints it, and warns of what is wrong. Says how the command ended.
    pub(super) fn print(&self, as_json: bool, quiet: bool) -> Exit {
        let text = match (as_json, quiet) {
            (true, _) => json(self),
            (false, true) => String::new(),
            (false, false) => self.in_words(),
        };
        let printed = print(Stream::Stdout, &text);
        if let Err(cause) = &printed {
            tell(format_args!("wirecap: cannot print the report: {cause}"));
        }
        self.warn(quiet);
        let nothing = self.frames > 0 && self.taken == Some(0);
        if printed.is_err() || self.error.is_some() || self.in_flight > 0 || nothing {
            Exit::Failed
        } else {
            Exit::Fine
        }
    }

    fn in_words(&self) -> String {
        let mut text = String::new();
        if !self.queues.is_empty() {
            let mut table = Table::new(&["queue", "mode", "made", "sent"]);
            let (idle, busy): (Vec<_>, Vec<_>) =
                self.queues.iter().partition(|queue| (queue.made, queue.sent) == (0, 0));
            for queue in busy {
                let [made, sent] = [queue.made, queue.sent].map(|frames| frames.to_string());
                table.row(vec![queue.queue.to_string(), queue.mode.into(), made, sent]);
            }
            if let Some(first) = idle.first() {
                let numbers = ranges(idle.iter().map(|queue| queue.queue.into()));
                table.row(vec![numbers, first.mode.into(), "0".into(), "0".into()]);
            }
            text += &format!("{table}\n");
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
                format!("{} took {taken} and dropped {dropped}, by its own counters\n", self.interface)
            }
            _ => format!("what {} took cannot be known: its counters are gone\n", self.interface),
        };
        text
    }

    /// With --quiet only errors and losses.
    fn warn(&self, quiet: bool) {
        let interface = &self.interface;
        if self.in_flight > 0 {
            tell(format_args!(
                "wirecap: {} still with the kernel at the end, and may be lost",
                frames_were(self.in_flight)
            ));
        }
        if self.frames > 0 && self.taken == Some(0) {
            let error =
                wirecap_traffic::Error::NothingTaken { interface: interface.clone(), frames: self.frames };
            tell(format_args!("wirecap: {error}"));
        } else if let Some(dropped) = self.dropped.filter(|&dropped| dropped > 0) {
            let advice = if self.error.is_some() { "" } else { "; send more slowly, or in smaller bursts" };
            tell(format_args!(
                "wirecap: WARNING: {interface} dropped {} meanwhile{advice}",
                counted(dropped, "frame")
            ));
        }
        let invalid: u64 = self.queues.iter().map(|queue| queue.invalid).sum();
        if invalid > 0 {
            tell(format_args!(
                "wirecap: WARNING: the kernel refused {invalid} frames. This is a defect of wirecap"
            ));
        }
        let asked = self.asked_packets_per_second.filter(|_| self.error.is_none() && !quiet);
        if let Some(asked) = asked.filter(|asked| self.packets_per_second < asked * REACHED) {
            // Less than one frame at a time says nothing about a rate.
            if asked * self.seconds >= 100.0 {
                tell(format_args!(
                    "wirecap: WARNING: {} were asked for, and {} reached",
                    rate(asked),
                    rate(self.packets_per_second)
                ));
            }
        }
    }
}

fn frames_were(frames: u64) -> String {
    format!("{} {}", counted(frames, "frame"), was(frames))
}

impl QueueReport {
    fn new(queue: QueueMade) -> Self {
        let QueueMade { queue, mode, fallback, made, completed, invalid } = queue;
        Self { queue, mode: mode.as_str(), fallback, made, sent: completed, invalid }
    }
}

pub(super) fn bits_with_fcs(made: Made) -> u64 {
    8 * (made.bytes + FCS_LEN as u64 * made.frames)
}
