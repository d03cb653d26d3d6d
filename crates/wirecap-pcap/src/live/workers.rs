//! The workers by which a handle takes packets: its own, and in a group one of each other member.

use std::{
    io,
    os::fd::RawFd,
    time::{Duration, Instant},
};

use wirecap::{Arming, Interrupter, WaitOutcome, Worker};
use wirecap_sys::cpu;

use super::{group::Membership, selectable::Selectable};

/// A group whose members got packets within this time does not wait in the kernel: waking a thread for each
/// packet costs the core that receives them.
const SILENCE: Duration = Duration::from_millis(2);
/// How long such a group waits before it looks at all its queues again, at most.
const LOOK: Duration = Duration::from_millis(1);

/// The workers of a handle.
#[derive(Debug)]
pub(super) struct Workers {
    own: Worker,
    /// Workers of other members of the group, which get what those are too busy for.
    helpers: Vec<Worker>,
    membership: Option<Membership>,
    /// Where the thread that reads is to run, until it does.
    core: Option<usize>,
    /// When packets came last.
    active: Instant,
    selectable: Option<Selectable>,
}

impl Workers {
    /// The worker of a handle whose thread is to run on `core`.
    pub(super) fn new(own: Worker, core: Option<usize>, membership: Option<Membership>) -> Self {
        Self { own, helpers: Vec::new(), membership, core, active: Instant::now(), selectable: None }
    }

    pub(super) fn interrupter(&self) -> Interrupter {
        self.own.interrupter()
    }

    /// Waits for packets, at most `limit`; it may be [idle](WaitOutcome::Idle) earlier.
    pub(super) fn next_batch(&mut self, limit: Duration) -> WaitOutcome {
        if let Some(core) = self.core.take() {
            // It was possible at activation; a thread that may not run there any more runs elsewhere.
            let _ = cpu::pin_to_core(core);
        }
        self.meet_members();
        if self.helpers.is_empty() {
            return self.own.next_batch_within(limit);
        }
        let now = Instant::now();
        let outcome = match self.look() {
            WaitOutcome::Idle if limit.is_zero() => WaitOutcome::Idle,
            WaitOutcome::Idle if now.duration_since(self.active) < SILENCE => {
                self.own.next_batch_within(limit.min(LOOK))
            }
            WaitOutcome::Idle => self.wait_in_kernel(limit),
            outcome => outcome,
        };
        if matches!(outcome, WaitOutcome::Batch(_)) {
            self.active = now;
        }
        outcome
    }

    /// Takes waiting packets without waiting, from its own queues first.
    fn look(&mut self) -> WaitOutcome {
        match self.own.next_batch_within(Duration::ZERO) {
            WaitOutcome::Idle => {}
            outcome => return outcome,
        }
        let mut index = 0;
        while index < self.helpers.len() {
            match self.helpers[index].next_batch_within(Duration::ZERO) {
                WaitOutcome::Batch(batch) => return WaitOutcome::Batch(batch),
                WaitOutcome::Idle => index += 1,
                // That member has left.
                WaitOutcome::Ended => drop(self.helpers.swap_remove(index)),
            }
        }
        WaitOutcome::Idle
    }

    fn wait_in_kernel(&mut self, limit: Duration) -> WaitOutcome {
        match (self.arm(), self.descriptor()) {
            (Arming::Batch(batch), _) => WaitOutcome::Batch(batch),
            (Arming::Armed, Ok(_)) => {
                if let Some(selectable) = &self.selectable {
                    selectable.wait(limit);
                }
                WaitOutcome::Idle
            }
            (Arming::Armed | Arming::Busy, _) => self.own.next_batch_within(limit.min(LOOK)),
        }
    }

    /// Takes a worker of each member that has joined.
    fn meet_members(&mut self) {
        let Some(membership) = &mut self.membership else { return };
        for worker in membership.new_workers() {
            if let Some(selectable) = &mut self.selectable {
                // Without it, the member is helped when this handle is read for its own packets.
                let _ = worker.readiness().and_then(|readiness| selectable.add(readiness));
            }
            self.helpers.push(worker);
        }
    }

    /// A descriptor that is readable when packets come, once all workers are [armed](Self::arm).
    ///
    /// # Errors
    /// The kernel's error: too many open files, most likely.
    pub(super) fn descriptor(&mut self) -> io::Result<RawFd> {
        if let Some(selectable) = &self.selectable {
            return Ok(selectable.descriptor());
        }
        let mut selectable = Selectable::new()?;
        for worker in self.helpers.iter().chain([&self.own]) {
            selectable.add(worker.readiness()?)?;
        }
        Ok(self.selectable.insert(selectable).descriptor())
    }

    /// Says whether something waits that makes no worker's descriptor readable.
    pub(super) fn set_waiting(&self, waits: bool) {
        if let Some(selectable) = &self.selectable {
            selectable.set_waiting(waits);
        }
    }

    /// Arms all workers.
    pub(super) fn arm(&mut self) -> Arming {
        let mut all = Arming::Armed;
        for worker in self.helpers.iter_mut().chain([&mut self.own]) {
            match worker.arm() {
                Arming::Armed => {}
                Arming::Busy => all = Arming::Busy,
                Arming::Batch(batch) => return Arming::Batch(batch),
            }
        }
        all
    }
}
