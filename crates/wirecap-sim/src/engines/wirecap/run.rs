//! How a simulation runs: event by event, to the end of its traffic or to its first loss.

use super::{ring::ReceiveQueue, time::Time};
use crate::outcome::Outcome;

/// A simulation in progress.
pub(super) trait Simulated {
    /// Handles the next event, and returns its time; `None` once all are handled.
    fn step(&mut self) -> Option<Time>;

    fn queues(&self) -> impl Iterator<Item = &ReceiveQueue<'_>>;

    /// Chunks that were offloaded so far.
    fn offloaded(&self) -> u64;
}

pub(super) fn to_the_end(mut machine: impl Simulated) -> Outcome {
    while machine.step().is_some() {}
    let queues = machine.queues().map(|queue| queue.outcome).collect();
    Outcome { queues, offloaded: machine.offloaded() }
}

fn first_loss_ns(machine: &impl Simulated, now: Time) -> Option<f64> {
    machine.queues().filter_map(|queue| queue.first_loss_ns(now)).min_by(f64::total_cmp)
}

/// Packets that came until now.
fn offered(machine: &impl Simulated) -> u64 {
    machine.queues().map(|queue| queue.outcome.offered).sum()
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
