//! One change of a device, for all ports of this process that want it.
//!
//! ```text
//!   port eth1@0 ── Part ──┐
//!   port eth1@1 ── Part ──┴─► Change of eth1: made for the first, undone when the last has left
//! ```

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use wirecap_sys::netdev::namespace_id;

use super::change::{Change, RssDevice};
use crate::{
    diagnostic::RssRecovery,
    report::{RssReport, RssState},
};

/// An interface of this machine: its network namespace, as (device, inode), and its index there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    namespace: (u64, u64),
    ifindex: u32,
}

impl Place {
    /// An interface of the calling thread's network namespace; `None` without /proc.
    pub(super) fn of(ifindex: u32) -> Option<Self> {
        Some(Self { namespace: namespace_id().ok()?, ifindex })
    }
}

/// The changes of this process.
#[derive(Debug)]
pub(super) struct Parts<D: RssDevice> {
    changes: Mutex<Vec<PlacedChange<D>>>,
}

/// Where a change was made. It ends with the last port that has a part in it.
type PlacedChange<D> = (Place, Weak<Mutex<Change<D>>>);

/// A port's part in a change. Dropping it leaves.
#[derive(Debug)]
pub(crate) struct Part<D: RssDevice> {
    shared: Arc<Mutex<Change<D>>>,
    present: bool,
    /// Lapses of the change that this port knows of.
    known: usize,
}

impl<D: RssDevice> Parts<D> {
    pub(super) const fn new() -> Self {
        Self { changes: Mutex::new(Vec::new()) }
    }

    /// A part in the change of an interface, which the first one makes.
    pub(super) fn take<E>(
        &self,
        place: Option<Place>,
        make: impl FnOnce() -> Result<Change<D>, E>,
    ) -> Result<Part<D>, E> {
        // Held until the change is made: two ports that come at once do not make it twice.
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        changes.retain(|(_, shared)| shared.strong_count() > 0);
        let here = changes.iter().filter(|(of, _)| Some(*of) == place);
        let joined = here.filter_map(|(_, shared)| Part::join(shared.upgrade()?)).next();
        if let Some(part) = joined {
            return Ok(part);
        }
        let shared = Arc::new(Mutex::new(make()?));
        changes.extend(place.map(|place| (place, Arc::downgrade(&shared))));
        Ok(Part { shared, present: true, known: 0 })
    }
}

impl<D: RssDevice> Part<D> {
    /// `None` if the last one has left.
    fn join(shared: Arc<Mutex<Change<D>>>) -> Option<Self> {
        let mut locked = lock(&shared);
        let (present, known) = (locked.ports > 0, locked.lapses.len());
        locked.ports += usize::from(present);
        drop(locked);
        present.then_some(Self { shared, present, known })
    }

    /// Leaves. The last one undoes the change. A second call does nothing.
    pub(crate) fn leave(&mut self) {
        if !std::mem::take(&mut self.present) {
            return;
        }
        lock(&self.shared).leave_one();
    }

    /// Leaves the change to a forked process, which undoes it.
    pub(crate) fn abandon(&mut self) {
        if std::mem::take(&mut self.present) {
            lock(&self.shared).abandon_one();
        }
    }

    /// Looks after the change, for all ports of the interface; the last lapse that this port does not know
    /// of.
    pub(crate) fn look(&mut self) -> Option<RssRecovery> {
        if !self.present {
            return None;
        }
        let mut change = lock(&self.shared);
        change.look();
        let known = std::mem::replace(&mut self.known, change.lapses.len());
        change.lapses[known..].last().cloned()
    }

    /// What is set, and how it ends.
    pub(crate) fn report(&self) -> RssReport {
        let mut report = lock(&self.shared).report();
        if !self.present && report.state == RssState::Active {
            report.state = RssState::Shared;
        }
        report
    }
}

impl<D: RssDevice> Drop for Part<D> {
    fn drop(&mut self) {
        self.leave();
    }
}

fn lock<D: RssDevice>(shared: &Mutex<Change<D>>) -> MutexGuard<'_, Change<D>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
