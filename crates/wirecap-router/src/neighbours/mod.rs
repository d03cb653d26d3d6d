//! Ethernet addresses of next hops: wanted by workers, found out by the kernel, kept by a thread of their
//! own.
//!
//! ```text
//!   worker ── not known ──► request ──► resolver thread ──► the kernel's ARP and neighbour discovery
//!      │                                    ▲                         │
//!      │                                    └──── its events ◄────────┘
//!      └─ known, silent ◄── a new table ◄───┘
//! ```
//!
//! | to read about | open |
//! |---|---|
//! | what is known, asked for, silent | [`next_hops`] |
//! | which are asked for when many are wanted | [`hop_requests`], [`restraint`] |
//! | the thread, its way to the kernel, and to the workers | [`resolver`], [`channel`] |
//!
//! Rules: a worker never waits for the thread. It reads a table of its own, and takes a new one when there is
//! one. And the requests of one source of packets cost the others little: a scan of addresses that no host
//! has is one source with many requests.

mod channel;
mod counts;
mod hop;
mod hop_requests;
pub(crate) mod next_hops;
mod resolver;
mod restraint;

use std::{
    sync::{Arc, atomic::Ordering},
    thread,
    time::Instant,
};

#[cfg(test)]
pub(crate) use self::channel::ResolverEnd;
pub(crate) use self::hop::{Hop, HopStatus};
use self::{
    channel::{WorkerEnd, channel},
    counts::count,
    next_hops::{Entry, Table},
    resolver::ResolverThread,
    restraint::{Restraint, Restriction},
};
pub use self::{
    counts::{NextHopCounts, NextHopReport},
    hop::UnresolvedHop,
};
use crate::{Error, own_macs::OwnMacs};

/// Name of the resolver's thread.
pub const THREAD: &str = "wirecap-hops";

/// The workers' way to the thread that finds out next hops, by the kernel's ARP and neighbour discovery. The
/// thread ends with the last of its resolvers and caches.
#[derive(Debug)]
pub(crate) struct Resolver(WorkerEnd);

impl Resolver {
    /// Starts the thread for these ports, by their interface indexes, in the network namespace of the calling
    /// thread. The thread keeps `macs` up to date. It calls `first` before anything else.
    pub(crate) fn start(
        ports: Vec<u32>,
        macs: Arc<OwnMacs>,
        first: impl FnOnce() + Send + 'static,
    ) -> Result<Self, Error> {
        let (workers, end) = channel()?;
        let resolver = ResolverThread::open(ports, macs, end)?;
        let thread = thread::Builder::new().name(THREAD.into());
        let run = move || {
            first();
            resolver.run();
        };
        thread.spawn(run).map_err(|cause| Error::Thread { name: THREAD, cause })?;
        Ok(Self(workers))
    }

    /// Without a thread: a test does the work of the resolver.
    #[cfg(test)]
    pub(crate) fn without_thread() -> (Self, ResolverEnd) {
        let (workers, end) = channel().unwrap();
        (Self(workers), end)
    }

    pub(crate) fn counts(&self) -> Arc<NextHopCounts> {
        Arc::clone(self.0.counts())
    }

    pub(crate) fn cache(&self) -> NextHopCache {
        NextHopCache {
            resolver: self.0.clone(),
            table: Arc::default(),
            generation: 0,
            restraint: Restraint::new(),
            now: Instant::now(),
        }
    }
}

/// A worker's view of the next hops.
#[derive(Debug)]
pub(crate) struct NextHopCache {
    resolver: WorkerEnd,
    table: Arc<Table>,
    generation: u64,
    restraint: Restraint,
    /// When it was refreshed.
    now: Instant,
}

impl NextHopCache {
    /// Takes the newest table. Returns whether it is another one.
    pub(crate) fn refresh(&mut self, now: Instant) -> bool {
        self.now = now;
        let newest = self.resolver.newest(self.generation);
        let is_new = newest.is_some();
        if let Some(newest) = newest {
            (self.table, self.generation) = newest;
        }
        is_new
    }

    /// What is known of the next hop of a packet; what is not known is asked for.
    pub(crate) fn look_up(&mut self, pending: UnresolvedHop) -> HopStatus {
        match self.table.get(&pending.hop) {
            Some(Entry::Known(reached)) => {
                if !reached.used.load(Ordering::Relaxed) {
                    reached.used.store(true, Ordering::Relaxed);
                }
                HopStatus::Mac(reached.mac)
            }
            Some(Entry::Silent(until)) if self.now < *until => HopStatus::Silent,
            _ => {
                self.ask(pending);
                HopStatus::NotYet
            }
        }
    }

    #[cold]
    fn ask(&mut self, pending: UnresolvedHop) {
        match self.restraint.of(pending, self.now) {
            Restriction::AskedAlready => {}
            Restriction::Not if self.resolver.ask(pending) => self.restraint.remember(pending.hop, self.now),
            Restriction::Not | Restriction::TooMany => count(&self.resolver.counts().crowded_out),
        }
    }
}
