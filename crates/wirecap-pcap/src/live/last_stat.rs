//! The last statistics of a handle, for all threads and signal handlers.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::abi::Stat;

/// The counts may be of two moments.
#[derive(Debug, Default)]
pub(super) struct LastStat {
    received: AtomicU32,
    dropped: AtomicU32,
    dropped_by_interface: AtomicU32,
}

impl LastStat {
    pub(super) fn get(&self) -> Stat {
        let Self { received, dropped, dropped_by_interface } = self;
        let [received, dropped, dropped_by_interface] =
            [received, dropped, dropped_by_interface].map(|count| count.load(Relaxed));
        Stat { received, dropped, dropped_by_interface }
    }

    pub(super) fn set(&self, stat: Stat) {
        self.received.store(stat.received, Relaxed);
        self.dropped.store(stat.dropped, Relaxed);
        self.dropped_by_interface.store(stat.dropped_by_interface, Relaxed);
    }
}
