//! How a simulation runs: event by event, to the end of its traffic or to its first loss.

use std::cmp::Ordering;

use crate::outcome::{Outcome, QueueOutcome};

/// A time in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Time(pub(super) f64);

impl Eq for Time {}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// A queue of a simulation in progress.
pub(super) trait SimulatedQueue {
    /// When the first packet came that has been lost until now; `None` if all are kept.
    fn first_loss_ns(&self, now: Time) -> Option<f64>;

    fn outcome(&self) -> &QueueOutcome;
}

/// A simulation in progress.
pub(super) trait Simulated {
    type Queue: SimulatedQueue;

    /// Handles the next event, and returns its time; `None` once all are handled.
    fn step(&mut self) -> Option<Time>;

    fn queues(&self) -> &[Self::Queue];

    /// Chunks that were offloaded so far.
    fn offloaded(&self) -> u64;
}

pub(super) fn to_the_end(mut machine: impl Simulated) -> Outcome {
    while machine.step().is_some() {}
    let queues = machine.queues().iter().map(|queue| *queue.outcome()).collect();
    Outcome { queues, offloaded: machine.offloaded() }
}

fn first_loss_ns(machine: &impl Simulated, now: Time) -> Option<f64> {
    machine.queues().iter().filter_map(|queue| queue.first_loss_ns(now)).min_by(f64::total_cmp)
}

/// Packets that came until now.
fn offered(machine: &impl Simulated) -> u64 {
    machine.queues().iter().map(|queue| queue.outcome().offered).sum()
}

/// When the first packet that is lost came; see [`super::WirecapEngine::first_loss_ns`].
pub(super) fn to_a_loss<E>(
    mut machine: impl Simulated,
    queues: u64,
    step: &mut impl FnMut(u64) -> Result<(), E>,
) -> Result<Option<f64>, E> {
    let (mut last, mut come) = (Time(0.0), 0);
    loop {
        // To look for a loss costs a look at each queue, so it is not done at each event.
        for _ in 0..queues.max(1) {
            match machine.step() {
                Some(now) => last = now,
                None => return Ok(first_loss_ns(&machine, last)),
            }
        }
        let before = std::mem::replace(&mut come, offered(&machine));
        step(queues + come - before)?;
        if let Some(first_ns) = first_loss_ns(&machine, last) {
            return Ok(Some(first_ns));
        }
    }
}
