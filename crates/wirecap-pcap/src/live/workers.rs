//! The workers by which a handle takes packets: its own, and in a group one of each other member.

use std::{
    io,
    os::fd::RawFd,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use wirecap::{Arming, Batch, Interrupter, WaitOutcome, Worker};
use wirecap_sys::cpu;

use super::{
    counts::Counts,
    group::{FilterNotice, Membership, Spare},
    selectable::{Readiness, Selectable},
};

/// How long a handle waits that cannot be woken for all its workers, at most.
const LOOK: Duration = Duration::from_millis(1);

/// A batch, and where its packets count.
#[derive(Debug)]
pub(super) struct CountedBatch {
    pub(super) batch: Batch,
    pub(super) counts: Counts,
}

/// What a look for packets has found.
#[derive(Debug)]
pub(super) enum NextBatch {
    Batch(CountedBatch),
    /// Nothing, or the wait was interrupted.
    Nothing,
    /// The capture has ended.
    End,
}

/// How to wait for what comes.
#[derive(Debug)]
pub(super) enum Waiting {
    /// There are packets.
    Batch(CountedBatch),
    /// Until the descriptor is readable, at most this long.
    For(Duration),
    /// Not at all: a call has something to do.
    Not,
}

/// The workers of a handle.
#[derive(Debug)]
pub(super) struct Workers {
    own: Source,
    /// Workers of other members of the group, which get what those are too busy for.
    helped: Vec<Helped>,
    membership: Option<Membership>,
    /// Where the thread that reads is to run, until it does.
    core: Option<usize>,
    selectable: Option<Selectable>,
}

/// A worker, and what it adds to the descriptor.
#[derive(Debug)]
struct Source {
    worker: Worker,
    counts: Counts,
    readiness: Option<Readiness>,
}

/// A worker of another member.
#[derive(Debug)]
struct Helped {
    member: u64,
    source: Source,
    /// Which filter that member has.
    filter: Arc<AtomicU64>,
}

impl Source {
    fn new(worker: Worker, counts: Counts) -> Self {
        Self { worker, counts, readiness: None }
    }

    fn next_batch(&mut self, limit: Duration) -> NextBatch {
        match self.worker.next_batch_within(limit) {
            WaitOutcome::Batch(batch) => NextBatch::Batch(self.counted(batch)),
            WaitOutcome::Idle => NextBatch::Nothing,
            WaitOutcome::Ended => NextBatch::End,
        }
    }

    fn counted(&self, batch: Batch) -> CountedBatch {
        CountedBatch { batch, counts: self.counts.clone() }
    }

    /// How to wait for it. A descriptor that a program waits on is told whether to heed the worker's.
    fn arm(&mut self, selectable: Option<&Selectable>) -> Waiting {
        let (waiting, is_armed) = match self.worker.arm() {
            Arming::Batch(batch) => return Waiting::Batch(self.counted(batch)),
            Arming::Armed(limit) => (Waiting::For(limit), true),
            Arming::Later(after) => (Waiting::For(after), false),
            Arming::Busy => (Waiting::Not, false),
        };
        self.heed(selectable, is_armed);
        waiting
    }

    fn heed(&mut self, selectable: Option<&Selectable>, is_armed: bool) {
        if let (Some(selectable), Some(readiness)) = (selectable, &mut self.readiness) {
            selectable.watch(readiness, is_armed);
        }
    }

    fn add_to(&mut self, selectable: &Selectable) -> io::Result<()> {
        let readiness = Readiness::new(self.worker.readiness()?);
        selectable.add(&readiness)?;
        self.readiness = Some(readiness);
        Ok(())
    }
}

// Workers of other members are theirs again.
impl Drop for Workers {
    fn drop(&mut self) {
        if let Some(membership) = &self.membership {
            for Helped { member, source, .. } in self.helped.drain(..) {
                membership.give_back(member, source.worker);
            }
        }
    }
}

impl Helped {
    /// Whether its packets are for the handle as well.
    fn is_like(&self, membership: Option<&Membership>) -> bool {
        membership.is_some_and(|membership| membership.is_like(&self.filter))
    }
}

impl Workers {
    /// The worker of a handle whose thread is to run on `core`; its packets count in `counts`.
    pub(super) fn new(
        own: Worker,
        counts: Counts,
        core: Option<usize>,
        membership: Option<Membership>,
    ) -> Self {
        let own = Source::new(own, counts);
        Self { own, helped: Vec::new(), membership, core, selectable: None }
    }

    /// Whether the program has closed descriptors that packets need.
    pub(super) fn is_cut_off(&self) -> bool {
        !self.own.worker.is_open()
    }

    pub(super) fn interrupter(&self) -> Interrupter {
        self.own.worker.interrupter()
    }

    /// How the others of the group learn which filter the handle has.
    pub(super) fn filter_notice(&self) -> Option<FilterNotice> {
        self.membership.as_ref().map(Membership::filter_notice)
    }

    /// Waits for packets, at most `limit`; there may be [nothing](NextBatch::Nothing) earlier.
    pub(super) fn next_batch(&mut self, limit: Duration) -> NextBatch {
        if let Some(core) = self.core.take() {
            // It was possible at activation; a thread that may not run there any more runs elsewhere.
            let _ = cpu::pin_to_core(core);
        }
        self.meet_members();
        if self.helped.is_empty() {
            return self.own.next_batch(limit);
        }
        match self.look() {
            NextBatch::Nothing if !limit.is_zero() => self.wait(limit),
            next => next,
        }
    }

    /// Takes waiting packets without waiting, from its own queues first.
    fn look(&mut self) -> NextBatch {
        match self.own.next_batch(Duration::ZERO) {
            NextBatch::Nothing => {}
            next => return next,
        }
        for helped in &mut self.helped {
            if !helped.is_like(self.membership.as_ref()) {
                continue;
            }
            // At its end the member is leaving.
            if let NextBatch::Batch(batch) = helped.source.next_batch(Duration::ZERO) {
                return NextBatch::Batch(batch);
            }
        }
        NextBatch::Nothing
    }

    /// Waits in a group, at most `limit`.
    fn wait(&mut self, limit: Duration) -> NextBatch {
        let can_wait = self.descriptor().is_ok();
        match (self.arm(), &self.selectable) {
            (Waiting::Batch(batch), _) => NextBatch::Batch(batch),
            (Waiting::For(most), Some(selectable)) if can_wait => {
                selectable.set_due(most.min(limit), false);
                selectable.wait();
                NextBatch::Nothing
            }
            (Waiting::For(_) | Waiting::Not, _) => self.own.next_batch(limit.min(LOOK)),
        }
    }

    /// Takes a worker of each member that has joined, and drops those of members that have left.
    fn meet_members(&mut self) {
        let Self { helped, membership, selectable, .. } = self;
        let Some(membership) = membership.as_mut().filter(|membership| membership.has_changed()) else {
            return;
        };
        let spares = membership.meet(|left| {
            let gone = helped.iter().position(|helped| helped.member == left);
            let gone = gone.map(|index| helped.swap_remove(index).source.readiness);
            if let (Some(selectable), Some(Some(readiness))) = (&selectable, gone) {
                selectable.remove(&readiness);
            }
        });
        for Spare { member, worker, counts, filter } in spares {
            let mut source = Source::new(worker, counts);
            if let Some(selectable) = &selectable {
                // Without it, the member is helped when this handle is read for its own packets.
                let _ = source.add_to(selectable);
            }
            helped.push(Helped { member, source, filter });
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
        let selectable = Selectable::new()?;
        let helped = self.helped.iter_mut().map(|helped| &mut helped.source);
        for source in helped.chain([&mut self.own]) {
            source.add_to(&selectable)?;
        }
        Ok(self.selectable.insert(selectable).descriptor())
    }

    /// Has the descriptor become readable after this time, whatever comes.
    pub(super) fn set_due(&self, after: Duration, has_delivered: bool) {
        if let Some(selectable) = &self.selectable {
            selectable.set_due(after, has_delivered);
        }
    }

    /// Whether the descriptor is readable.
    pub(super) fn is_readable(&self) -> bool {
        self.selectable.as_ref().is_some_and(Selectable::is_readable)
    }

    /// Arms all workers, and says how to wait for the descriptor.
    pub(super) fn arm(&mut self) -> Waiting {
        self.meet_members();
        let Self { own, helped, membership, selectable, .. } = self;
        let selectable = selectable.as_ref();
        let mut all = own.arm(selectable);
        for helped in helped {
            if matches!(all, Waiting::Batch(_)) {
                break;
            }
            if !helped.is_like(membership.as_ref()) {
                helped.source.heed(selectable, false);
                continue;
            }
            all = match (all, helped.source.arm(selectable)) {
                (_, Waiting::Batch(batch)) => Waiting::Batch(batch),
                (Waiting::For(all), Waiting::For(one)) => Waiting::For(all.min(one)),
                _ => Waiting::Not,
            };
        }
        all
    }
}
