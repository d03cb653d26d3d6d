//! Handles of one program that help each other: `eth1@0?group=ids`, `eth1@1?group=ids`, one for each thread.
//!
//! ```text
//!   handle A: queue 0, its worker, spare workers ─┐                ┌─► handle B takes a spare worker of A
//!   handle B: queue 1, its worker, spare workers ─┴─ the group ────┴─► handle A takes a spare worker of B
//! ```
//!
//! Each handle is a separate capture in advanced mode, with spare workers that are home to no queue. Another
//! member takes one, and with it the chunks that are over the threshold T: buddy-group offloading, as between
//! the workers of one capture (section 3.2.2c of the paper). So handles may join and leave at any time.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use wirecap::Worker;

/// Members of a group, at most. Each has a worker to spare for each of the others.
pub(crate) const MAX_MEMBERS: usize = 16;

/// The groups of the process, by name.
static GROUPS: Mutex<BTreeMap<String, Weak<Group>>> = Mutex::new(BTreeMap::new());

#[derive(Debug, Default)]
struct Group {
    /// Counts joins and departures.
    changes: AtomicU64,
    members: Mutex<Vec<Member>>,
}

#[derive(Debug)]
struct Member {
    number: u64,
    spares: Vec<Worker>,
}

/// A handle in a group, which it leaves when this value is dropped.
#[derive(Debug)]
pub(super) struct Membership {
    group: Arc<Group>,
    number: u64,
    /// The change up to which it knows the others.
    known: u64,
    /// Members it has a worker of.
    helped: Vec<u64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Membership {
    /// Joins a group; `spares` are workers of this handle's capture for the other members. `None` if the
    /// group is full.
    pub(super) fn join(name: &str, spares: Vec<Worker>) -> Option<Self> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let mut groups = lock(&GROUPS);
        groups.retain(|_, group| group.strong_count() > 0);
        let known = groups.get(name).and_then(Weak::upgrade);
        let group = known.unwrap_or_default();
        groups.insert(name.into(), Arc::downgrade(&group));
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let mut members = lock(&group.members);
        if members.len() == MAX_MEMBERS {
            return None;
        }
        members.push(Member { number, spares });
        drop(members);
        group.changes.fetch_add(1, Ordering::Release);
        Some(Self { group, number, known: 0, helped: Vec::new() })
    }

    /// Workers of members that have joined since the last call.
    pub(super) fn new_workers(&mut self) -> Vec<Worker> {
        let changes = self.group.changes.load(Ordering::Acquire);
        if changes == self.known {
            return Vec::new();
        }
        self.known = changes;
        let mut members = lock(&self.group.members);
        self.helped.retain(|number| members.iter().any(|member| member.number == *number));
        let others = members.iter_mut().filter(|member| member.number != self.number);
        let mut workers = Vec::new();
        for member in others.filter(|member| !self.helped.contains(&member.number)) {
            if let Some(worker) = member.spares.pop() {
                workers.push((member.number, worker));
            }
        }
        self.helped.extend(workers.iter().map(|(number, _)| number));
        workers.into_iter().map(|(_, worker)| worker).collect()
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        lock(&self.group.members).retain(|member| member.number != self.number);
        self.group.changes.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use wirecap::{Capture, Mode, port::null::NullPort};

    use super::*;

    /// A capture with one queue, its worker, and workers to spare.
    fn capture() -> (Capture, Vec<Worker>) {
        let port = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 0 };
        let builder = Capture::builder().port(port).chunks_per_pool(4).workers(MAX_MEMBERS);
        let mut capture = builder.mode(Mode::advanced(60).unwrap()).open().unwrap();
        let mut workers = capture.take_workers();
        workers.remove(0);
        (capture, workers)
    }

    #[test]
    fn members_get_a_worker_of_each_other_member() {
        let captures = [(); 3].map(|()| capture());
        let mut members = Vec::new();
        let mut kept = Vec::new();
        for (capture, spares) in captures {
            kept.push(capture);
            members.push(Membership::join("three", spares).unwrap());
        }
        let stranger = Membership::join("another", Vec::new()).unwrap();
        for member in &mut members {
            assert_eq!(member.new_workers().len(), 2);
            assert!(member.new_workers().is_empty(), "no member has joined since");
        }
        drop(members.pop());
        assert!(members[0].new_workers().is_empty());
        let (late, spares) = capture();
        let mut last = Membership::join("three", spares).unwrap();
        assert_eq!((members[0].new_workers().len(), last.new_workers().len()), (1, 2));
        drop((stranger, late, kept));
    }

    #[test]
    fn a_group_has_a_bound() {
        let members: Vec<_> =
            (0..MAX_MEMBERS).map(|_| Membership::join("full", Vec::new()).unwrap()).collect();
        assert!(Membership::join("full", Vec::new()).is_none());
        drop(members);
        assert!(Membership::join("full", Vec::new()).is_some(), "the members have left");
    }
}
