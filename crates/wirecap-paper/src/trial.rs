//! One engine on one workload.
//!
//! ```text
//!   engine ready ─► replay ─► pace lifted: what waits is taken at once ─► quiet ─► interrupted ─► by queue: sent, received, lost
//! ```
//!
//! Rule: what waits in an engine's buffers at the end of the traffic is not lost.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use wirecap_bench::{
    bed::{Bed, SENDER, SENDER_CORE},
    competitor::{Competitor, Outcome, counted_lost},
};
use wirecap_replay::{Control, CutPolicy, Placement, Plan, Replay, Report};

use crate::workload::Workload;

/// How long engines have, once their pace is lifted, to take what waits.
pub const DRAIN: Duration = Duration::from_millis(500);
/// How long an engine may take to end.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// How often a sender looks for a signal.
const STOP_TICK: Duration = Duration::from_millis(50);
/// Memory of the replay: the trace is read while it is sent.
const REPLAY_BYTES: u64 = 256 << 20;

/// A sender that is later than this sends what it has missed in a burst that is not in the workload, and a
/// handler that is later has not handled what it could have. Such a trial says little about the engine.
const LATE_MS: f64 = 20.0;

/// The packets of a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Packets that were sent into it.
    pub sent: u64,
    /// Packets that a handler got.
    pub received: u64,
    /// Packets that the engine's own counters call lost.
    pub counted_lost: u64,
}

impl QueueCounts {
    /// Packets that were sent and not received.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }

    /// Packets lost, in percent of those sent; 0 without any.
    pub fn lost_percent(&self) -> f64 {
        100.0 * self.lost() as f64 / self.sent.max(1) as f64
    }
}

/// The result of a trial.
#[derive(Debug, Clone)]
pub struct Trial {
    /// By queue.
    pub queues: Vec<QueueCounts>,
    /// CPU time of the engine per packet that it received, in nanoseconds.
    pub cpu_ns: f64,
    /// Memory of all its buffers, in bytes.
    pub buffer_bytes: u64,
    /// By how much a packet left late, or a handler woke late, at worst, in milliseconds.
    pub late_ms: f64,
    /// All of it, for the record.
    pub json: Value,
}

/// What an experiment takes a sample of: a trial, with what it adds to it.
pub trait Sample {
    /// The trial.
    fn trial(&self) -> &Trial;
}

impl Sample for Trial {
    fn trial(&self) -> &Trial {
        self
    }
}

impl Trial {
    /// All queues together.
    pub fn total(&self) -> QueueCounts {
        self.queues.iter().fold(QueueCounts::default(), |sum, queue| QueueCounts {
            sent: sum.sent + queue.sent,
            received: sum.received + queue.received,
            counted_lost: sum.counted_lost + queue.counted_lost,
        })
    }

    /// Whether the machine kept the sender or a handler from its core.
    pub fn is_disturbed(&self) -> bool {
        self.late_ms > LATE_MS
    }

    /// Packets that are missing without a count, or counted and not missing.
    pub fn unexplained(&self) -> i64 {
        let total = self.total();
        total.lost() as i64 - total.counted_lost as i64
    }
}

/// Received and lost packets by queue, as the engines report them.
#[derive(Deserialize)]
struct PeerQueue {
    packets: u64,
    left_in_ring: u64,
    dropped: serde_json::Map<String, Value>,
}

#[derive(Deserialize)]
struct WirecapQueue {
    delivered: u64,
    lost: serde_json::Map<String, Value>,
}

/// What each queue received, what waits in its buffer included, and what the engine counts as lost there.
///
/// # Errors
/// If the report has no queues.
pub fn by_queue(report: &Value) -> Result<Vec<(u64, u64)>> {
    if let Some(queues) = report.get("by_queue") {
        let queues = Vec::<PeerQueue>::deserialize(queues).context("by_queue")?;
        return Ok(queues
            .iter()
            .map(|queue| (queue.packets + queue.left_in_ring, counted_lost(&queue.dropped)))
            .collect());
    }
    let queues = &report["report"]["ports"][0]["queues"];
    let queues = Vec::<WirecapQueue>::deserialize(queues).context("the queues of the report")?;
    Ok(queues.iter().map(|queue| (queue.delivered, counted_lost(&queue.lost))).collect())
}

/// Sends a workload from the sender's core, in whose namespace the caller is.
///
/// # Errors
/// If it is not sent whole.
pub fn send(workload: &Workload, is_stopped: &AtomicBool) -> Result<Report> {
    let plan = Plan {
        placement: Placement::Side(workload.side.clone()),
        cut: CutPolicy::Pad,
        memory_bytes: REPLAY_BYTES,
        core: Some(SENDER_CORE),
        ..Plan::new([&workload.file], SENDER)
    };
    let control = Arc::new(Control::default());
    let replay = Replay::open(plan, &control)?;
    let is_done = AtomicBool::new(false);
    let sent = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                if is_stopped.load(Ordering::Relaxed) {
                    control.stop();
                }
                thread::sleep(STOP_TICK);
            }
        });
        let sent = replay.run();
        is_done.store(true, Ordering::Relaxed);
        sent
    });
    ensure!(!is_stopped.load(Ordering::Relaxed), "stopped by a signal");
    let failures: Vec<_> = sent.failures.iter().map(|failure| format!("{failure:?}")).collect();
    ensure!(failures.is_empty(), "the trace was not sent: {}", failures.join("; "));
    Ok(sent)
}

/// What was sent into each queue.
///
/// # Errors
/// If it is not what the workload says.
pub fn sent_by_queue(sent: &Report, workload: &Workload) -> Result<Vec<QueueCounts>> {
    let mut queues = vec![QueueCounts::default(); workload.queues];
    for queue in &sent.queues {
        queues[usize::from(queue.queue)].sent = queue.packets;
    }
    let planned = workload.packets();
    ensure!(
        queues.iter().map(|queue| queue.sent).eq(planned.iter().copied()),
        "{queues:?} is not what was planned: {planned:?}"
    );
    Ok(queues)
}

/// By how much a packet left late, at worst, in milliseconds.
pub fn sent_late_ms(sent: &Report) -> f64 {
    sent.pacing.as_ref().map_or(0.0, |pacing| pacing.late_ns.max as f64 / 1e6)
}

/// Runs an engine on a workload.
///
/// # Errors
/// If either side fails, or the trace is not sent whole.
pub fn run(bed: &Bed, engine: &Competitor, workload: &Workload, is_stopped: &AtomicBool) -> Result<Trial> {
    let link = bed.link(workload.queues as u32)?;
    let process = engine.start_until_interrupted(&link, &[])?;
    let sent = link.with_sender(|_| send(workload, is_stopped))?;
    process.lift_pace()?;
    thread::sleep(DRAIN);
    process.interrupt()?;
    let outcome = Outcome::read(process.wait(TIMEOUT)?.json()?)?;
    let mut queues = sent_by_queue(&sent, workload)?;
    let received = by_queue(&outcome.all)?;
    ensure!(received.len() == queues.len(), "the engine reports {} queues", received.len());
    for (number, (queue, (received, lost))) in queues.iter_mut().zip(received).enumerate() {
        (queue.received, queue.counted_lost) = (received, lost);
        let sent = queue.sent;
        ensure!(
            received <= sent,
            "queue {number}: {received} packets received of {sent}: those of other queues"
        );
    }
    let late_ms = sent_late_ms(&sent).max(outcome.latest_wake_ms());
    let json = json!({ "sent": sent, "received": outcome.all });
    let buffer_bytes = outcome.all["buffer_bytes"].as_u64().unwrap_or(0);
    Ok(Trial { queues, cpu_ns: outcome.cpu_ns_per_packet(), buffer_bytes, late_ms, json })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_and_wirecap_report_by_queue() {
        let peer = json!({ "by_queue": [
            { "packets": 90, "left_in_ring": 5, "dropped": { "rx_dropped": 5, "rx_fill_ring_empty_descs": 99 } },
            { "packets": 7, "left_in_ring": 0, "dropped": { "ps_drop": 1, "ps_ifdrop": 50 } },
        ] });
        assert_eq!(by_queue(&peer).unwrap(), [(95, 5), (7, 1)]);
        let wirecap = json!({ "report": { "ports": [{ "queues": [
            { "delivered": 3, "lost": { "no_buffer": 2, "queue_full": 4 } },
        ] }] } });
        assert_eq!(by_queue(&wirecap).unwrap(), [(3, 6)]);
        assert!(by_queue(&json!({})).is_err());
    }

    #[test]
    fn what_no_counter_explains_is_unexplained() {
        let queue = |sent, received, counted_lost| QueueCounts { sent, received, counted_lost };
        let trial = Trial {
            queues: vec![queue(100, 90, 8), queue(50, 50, 0)],
            cpu_ns: 0.0,
            buffer_bytes: 0,
            late_ms: 0.0,
            json: Value::Null,
        };
        assert_eq!((trial.total(), trial.unexplained()), (queue(150, 140, 8), 2));
        assert_eq!(trial.queues[0].lost_percent(), 10.0);
    }
}
