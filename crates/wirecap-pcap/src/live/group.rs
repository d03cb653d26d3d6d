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

use wirecap::{Interrupter, Worker};

use super::counts::Counts;

/// Members of a group, at most. Each has a worker to spare for each of the others.
pub(crate) const MAX_MEMBERS: usize = 16;

/// What a group is known by: its name, and the index of the interface. Handles of different interfaces do not
/// want each other's packets.
type Key = (String, u32);

/// The groups of the process.
static GROUPS: Mutex<BTreeMap<Key, Weak<Group>>> = Mutex::new(BTreeMap::new());

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
    counts: Counts,
    filter: Arc<AtomicU64>,
    interrupter: Interrupter,
}

/// A handle's share in a group.
#[derive(Debug)]
pub(super) struct Share {
    /// Workers of its capture for the other members.
    pub(super) spares: Vec<Worker>,
    /// Where refused packets of its capture count.
    pub(super) counts: Counts,
    /// Ends the wait of the thread that reads it.
    pub(super) interrupter: Interrupter,
    /// Which filter the handle has.
    pub(super) filter: u64,
}

/// A worker of another member.
#[derive(Debug)]
pub(super) struct Spare {
    pub(super) member: u64,
    pub(super) worker: Worker,
    pub(super) counts: Counts,
    /// Which filter that member has.
    pub(super) filter: Arc<AtomicU64>,
}

/// A handle in a group, which it leaves when this value is dropped.
#[derive(Debug)]
pub(super) struct Membership {
    group: Arc<Group>,
    number: u64,
    /// Which filter the handle has.
    filter: Arc<AtomicU64>,
    /// The change up to which it knows the others.
    known: u64,
    /// Members it has a worker of.
    helped: Vec<u64>,
}

/// Announces a handle's filter to the members of its group, who help those with the same one.
#[derive(Debug)]
pub(super) struct FilterNotice {
    group: Arc<Group>,
    number: u64,
    filter: Arc<AtomicU64>,
}

impl FilterNotice {
    /// The handle has this filter now.
    pub(super) fn note(&self, filter: u64) {
        self.filter.store(filter, Ordering::Release);
        self.group.rouse_all_but(self.number);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Group {
    /// Has all members but this one look at what has changed.
    fn rouse_all_but(&self, number: u64) {
        let members = lock(&self.members);
        let others = members.iter().filter(|member| member.number != number);
        others.for_each(|member| member.interrupter.interrupt());
    }
}

impl Membership {
    /// Joins a group. `None` if it is full.
    pub(super) fn join(name: &str, ifindex: u32, share: Share) -> Option<Self> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let mut groups = lock(&GROUPS);
        groups.retain(|_, group| group.strong_count() > 0);
        let key = (name.to_owned(), ifindex);
        let group = groups.get(&key).and_then(Weak::upgrade).unwrap_or_default();
        groups.insert(key, Arc::downgrade(&group));
        drop(groups);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let mut members = lock(&group.members);
        if members.len() == MAX_MEMBERS {
            return None;
        }
        let Share { spares, counts, interrupter, filter } = share;
        let filter = Arc::new(AtomicU64::new(filter));
        members.push(Member { number, spares, counts, filter: Arc::clone(&filter), interrupter });
        drop(members);
        group.changes.fetch_add(1, Ordering::Release);
        group.rouse_all_but(number);
        Some(Self { group, number, filter, known: 0, helped: Vec::new() })
    }

    /// By which the handle's filter is made known, from any thread.
    pub(super) fn filter_notice(&self) -> FilterNotice {
        FilterNotice { group: Arc::clone(&self.group), number: self.number, filter: Arc::clone(&self.filter) }
    }

    /// Whether a member has the same filter, so that its packets are for this handle as well.
    pub(super) fn is_like(&self, filter: &AtomicU64) -> bool {
        self.filter.load(Ordering::Relaxed) == filter.load(Ordering::Acquire)
    }

    /// Whether members have joined or left since the last call of [`Membership::meet`].
    pub(super) fn has_changed(&self) -> bool {
        self.group.changes.load(Ordering::Acquire) != self.known
    }

    /// Workers of members that have joined. `leave` gets the numbers of those that have left.
    pub(super) fn meet(&mut self, mut leave: impl FnMut(u64)) -> Vec<Spare> {
        self.known = self.group.changes.load(Ordering::Acquire);
        let mut members = lock(&self.group.members);
        self.helped.retain(|&helped| {
            let stays = members.iter().any(|member| member.number == helped);
            if !stays {
                leave(helped);
            }
            stays
        });
        let others = members.iter_mut().filter(|member| member.number != self.number);
        let mut spares = Vec::new();
        for member in others.filter(|member| !self.helped.contains(&member.number)) {
            let (counts, filter) = (member.counts.clone(), Arc::clone(&member.filter));
            let spare = |worker| Spare { member: member.number, worker, counts, filter };
            spares.extend(member.spares.pop().map(spare));
        }
        self.helped.extend(spares.iter().map(|spare| spare.member));
        spares
    }
}

impl Membership {
    /// Gives a worker back to the member that it is of, for those that join later.
    pub(super) fn give_back(&self, member: u64, worker: Worker) {
        let mut members = lock(&self.group.members);
        if let Some(owner) = members.iter_mut().find(|other| other.number == member) {
            owner.spares.push(worker);
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        lock(&self.group.members).retain(|member| member.number != self.number);
        self.group.changes.fetch_add(1, Ordering::Release);
        self.group.rouse_all_but(self.number);
    }
}

#[cfg(test)]
mod tests {
    use wirecap::{Capture, Mode, port::null::NullPort};

    use super::*;

    /// A capture with one queue, and what its handle shares.
    fn capture() -> (Capture, Share) {
        let port = NullPort { queues: 1, packet_bytes: 60, packets_per_queue: 0 };
        let builder = Capture::builder().port(port).chunks_per_pool(4).workers(MAX_MEMBERS);
        let mut capture = builder.mode(Mode::advanced(60).unwrap()).open().unwrap();
        let mut spares = capture.take_workers();
        let interrupter = spares.remove(0).interrupter();
        (capture, Share { spares, counts: Counts::default(), interrupter, filter: 0 })
    }

    /// How many workers it gets, and how many members have left.
    fn meet(member: &mut Membership) -> (usize, usize) {
        let mut left = 0;
        (member.meet(|_| left += 1).len(), left)
    }

    #[test]
    fn members_get_a_worker_of_each_other_member_of_the_interface() {
        let mut members = Vec::new();
        let mut kept = Vec::new();
        let mut join = |name, ifindex| {
            let (capture, share) = capture();
            kept.push(capture);
            Membership::join(name, ifindex, share).unwrap()
        };
        members.extend([(); 3].map(|()| join("three", 1)));
        let strangers = [join("another", 1), join("three", 2)];
        for member in &mut members {
            assert!(member.has_changed());
            assert_eq!(meet(member), (2, 0));
            assert!(!member.has_changed());
        }
        drop(members.pop());
        assert!(members[0].has_changed());
        assert_eq!((meet(&mut members[0]), meet(&mut members[0])), ((0, 1), (0, 0)));
        let mut last = join("three", 1);
        assert_eq!((meet(&mut members[0]), meet(&mut last)), ((1, 0), (2, 0)));
        drop(strangers);
    }

    #[test]
    fn a_member_has_a_worker_for_others_however_often_they_join() {
        let (kept, share) = capture();
        let stays = Membership::join("rejoins", 1, share).unwrap();
        for number in 1..=2 * MAX_MEMBERS {
            let (leaves, share) = capture();
            let mut member = Membership::join("rejoins", 1, share).unwrap();
            let [Spare { member: of, worker, .. }] =
                <[Spare; 1]>::try_from(member.meet(|_| ())).expect("a worker of the one that stays");
            assert_eq!(of, stays.number, "{number}");
            member.give_back(of, worker);
            drop((member, leaves));
        }
        drop(stays);
        let (leaves, share) = capture();
        let alone = Membership::join("rejoins", 1, share).unwrap();
        let (_kept, Share { mut spares, .. }) = capture();
        alone.give_back(0, spares.remove(0));
        drop((kept, leaves));
    }

    #[test]
    fn members_with_the_same_filter_are_alike() {
        let ((one, of_a), (other, of_b)) = (capture(), capture());
        let [mut a, b] = [of_a, of_b].map(|share| Membership::join("alike", 1, share).unwrap());
        let spare = a.meet(|_| ()).remove(0);
        assert!(a.is_like(&spare.filter));
        b.filter_notice().note(7);
        assert!(!a.is_like(&spare.filter));
        a.filter_notice().note(7);
        assert!(a.is_like(&spare.filter));
        drop((one, other));
    }

    #[test]
    fn a_group_has_a_bound() {
        let (captures, shares): (Vec<_>, Vec<_>) = (0..MAX_MEMBERS + 2).map(|_| capture()).unzip();
        let mut shares = shares.into_iter();
        let mut join = || Membership::join("full", 1, shares.next().unwrap());
        let members: Vec<_> = (0..MAX_MEMBERS).map(|_| join().unwrap()).collect();
        assert!(join().is_none());
        drop(members);
        assert!(join().is_some(), "the members have left");
        drop(captures);
    }
}
