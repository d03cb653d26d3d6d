//! What became of the packets of an experiment.

use crate::traffic::{Run, Traffic};

/// The packets of one receive queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueOutcome {
    /// Packets that came.
    pub offered: u64,
    /// Packets that a worker has handled.
    pub handled: u64,
    /// Packets for which the NIC had no buffer: capture drops.
    pub not_captured: u64,
    /// Packets that were captured, and for which there was no room on the way to the worker: delivery drops.
    pub not_delivered: u64,
}

impl QueueOutcome {
    /// Packets lost.
    pub fn lost(&self) -> u64 {
        self.not_captured + self.not_delivered
    }

    /// Packets lost, in percent of those that came; 0 without any.
    pub fn lost_percent(&self) -> f64 {
        100.0 * self.lost() as f64 / self.offered.max(1) as f64
    }
}

/// The packets of all queues.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// By queue.
    pub queues: Vec<QueueOutcome>,
    /// Packets that a worker of another queue has handled.
    pub offloaded: u64,
}

impl Outcome {
    /// The outcome of independent queues, each run separately.
    pub fn of_separate(traffic: &Traffic, run: impl Fn(&[Run]) -> QueueOutcome) -> Self {
        Self { queues: traffic.queues.iter().map(|runs| run(runs)).collect(), offloaded: 0 }
    }

    /// All queues together.
    pub fn total(&self) -> QueueOutcome {
        self.queues.iter().fold(QueueOutcome::default(), |sum, queue| QueueOutcome {
            offered: sum.offered + queue.offered,
            handled: sum.handled + queue.handled,
            not_captured: sum.not_captured + queue.not_captured,
            not_delivered: sum.not_delivered + queue.not_delivered,
        })
    }
}
