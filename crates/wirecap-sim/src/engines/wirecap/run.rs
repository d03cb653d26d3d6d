//! How a simulation runs: event by event, to the end of its traffic or to its first loss.

use std::cmp::Ordering;

use crate::outcome::Outcome;

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

/// A simulation in progress.
pub(super) trait Simulated {
    /// Handles the next event. Returns when it happens; `None` if there is none.
    fn step(&mut self) -> Option<Time>;

    /// When the first packet that is lost until now came; `None` if none is.
    fn first_loss_ns(&self, now: Time) -> Option<f64>;

    /// Packets that came until now.
    fn offered(&self) -> u64;

    fn outcome(self) -> Outcome;
}

pub(super) fn to_the_end(mut machine: impl Simulated) -> Outcome {
    while machine.step().is_some() {}
    machine.outcome()
}

/// When the first packet that is lost came; see [`super::WirecapEngine::first_loss_ns`].
pub(super) fn to_a_loss<E>(
    mut machine: impl Simulated,
    queues: u64,
    step: &mut impl FnMut(u64) -> Result<(), E>,
) -> Result<Option<f64>, E> {
    let (mut last, mut offered) = (Time(0.0), 0);
    loop {
        // To look for a loss costs a look at each queue, so it is not done at each event.
        for _ in 0..queues.max(1) {
            match machine.step() {
                Some(now) => last = now,
                None => return Ok(machine.first_loss_ns(last)),
            }
        }
        let before = std::mem::replace(&mut offered, machine.offered());
        step(queues + offered - before)?;
        if let Some(first_ns) = machine.first_loss_ns(last) {
            return Ok(Some(first_ns));
        }
    }
}
