//! Changes of what decides on packets, by any thread, also while another one reads.
//!
//! ```text
//!   pcap_setfilter, pcap_setdirection ── a change ──► waiting ── before the next packet is decided on ──► Sieve
//! ```
//!
//! libpcap hands a filter to the kernel, so a program may set one while another thread is in `pcap_loop`.

use std::{
    cell::RefCell,
    ffi::c_int,
    mem,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    group::FilterNotice,
    sieve::{MAX_REPLACED, NewFilter, Selection, Sieve},
};

/// The most filters that wait: as many as can decide on a packet.
const MAX_WAITING: usize = MAX_REPLACED + 1;

/// A change of a [`Sieve`].
#[derive(Debug)]
pub(super) enum Change {
    Filter(Box<NewFilter>),
    Direction(c_int),
}

/// The changes that the reader has not made yet.
#[derive(Debug)]
pub(super) struct Changes {
    /// Whether there are any. The reader looks here for each packet.
    are_waiting: AtomicBool,
    waiting: Mutex<Waiting>,
    /// Announces to the members of the handle's group which packets it wants.
    notice: Option<FilterNotice>,
}

#[derive(Debug)]
struct Waiting {
    /// In order.
    changes: Vec<Change>,
    /// What the handle wants once they are made.
    selection: Selection,
}

impl Changes {
    /// For a handle that wants this now.
    pub(super) fn new(selection: Selection, notice: Option<FilterNotice>) -> Self {
        let waiting = Mutex::new(Waiting { changes: Vec::new(), selection });
        Self { are_waiting: AtomicBool::new(false), waiting, notice }
    }

    /// No packet is decided on without this change any more, except one that is being delivered.
    pub(super) fn add(&self, change: Change) {
        let mut waiting = self.lock();
        match &change {
            Change::Filter(filter) => waiting.selection.filter = filter.mark(),
            Change::Direction(direction) => waiting.selection.direction = *direction,
        }
        let mark = waiting.selection.mark();
        let is_filter = |change: &Change| matches!(change, Change::Filter(_));
        if is_filter(&change)
            && waiting.changes.iter().filter(|change| is_filter(change)).count() == MAX_WAITING
        {
            // As in the sieve, the oldest goes first: a program may set many before it reads again.
            let oldest = waiting.changes.iter().position(is_filter);
            oldest.map(|oldest| waiting.changes.remove(oldest));
        }
        waiting.changes.push(change);
        self.are_waiting.store(true, Ordering::Release);
        // Under the lock: of two changes at once, the last one is noted.
        self.notice.iter().for_each(|notice| notice.note(mark));
    }

    /// Makes them, if there are any. The filters that they replace stay: earlier packets may still come.
    #[inline]
    pub(super) fn make(&self, sieve: &RefCell<Sieve>) {
        if self.are_waiting.load(Ordering::Acquire) {
            self.make_waiting(&mut sieve.borrow_mut());
        }
    }

    #[cold]
    fn make_waiting(&self, sieve: &mut Sieve) {
        let mut waiting = self.lock();
        self.are_waiting.store(false, Ordering::Relaxed);
        for change in mem::take(&mut waiting.changes) {
            match change {
                Change::Filter(filter) => sieve.set_filter(*filter),
                Change::Direction(direction) => sieve.set_direction(direction),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
