//! What all cases together have shown: the row of the table.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use wirecap::Report;
use wirecap_sys::xsk::{self, BindMode};

use wirecap_testing::check;

/// What was seen so far. One for all cases.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    inner: Mutex<Sums>,
}

/// The sums.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sums {
    /// The mode of each queue of the first capture, as wirecap has reported it.
    pub(crate) reported: Vec<&'static str>,
    /// The mode of each of its sockets, as the kernel has reported it (`XDP_OPTIONS`).
    pub(crate) of_kernel: Vec<&'static str>,
    /// Packets that were delivered.
    pub(crate) packets: u64,
    /// Captures that were started, but for those that were killed.
    pub(crate) captures: u64,
    /// Those that have ended with an account that closes.
    pub(crate) accounts: u64,
    /// When the last capture ended, or something else was done to its interface.
    pub(crate) interface_given_back: Option<Instant>,
}

impl Ledger {
    /// Notes the modes of a capture that runs in this process, as both say them; they must be the same.
    pub(crate) fn note_modes(&self, report: &Report) {
        let reported: Vec<&'static str> =
            report.ports.iter().flat_map(|port| &port.queues).map(|queue| queue.mode.as_str()).collect();
        let of_kernel: Vec<&str> = xsk::modes_of_process()
            .expect("the process has descriptors")
            .into_iter()
            .map(|mode| if mode == BindMode::ZeroCopy { "zero-copy" } else { "copy" })
            .collect();
        // Generic XDP copies, too; that it is generic, the socket does not know.
        let copies = |&mode: &&'static str| if mode == "generic" { "copy" } else { mode };
        assert!(reported.iter().map(copies).eq(of_kernel.iter().copied()), "{reported:?} {of_kernel:?}");
        let mut sums = self.inner();
        if sums.reported.is_empty() {
            (sums.reported, sums.of_kernel) = (reported, of_kernel);
        }
    }

    /// Notes a capture that has started.
    pub(crate) fn note_start(&self) {
        self.inner().captures += 1;
    }

    /// Notes that one was killed, and has no account.
    pub(crate) fn note_killed(&self) {
        self.inner().captures -= 1;
    }

    /// From now on the host waits for its interface.
    pub(crate) fn note_given_back(&self) {
        self.inner().interface_given_back = Some(Instant::now());
    }

    /// Since when the host waits for its interface, or now.
    pub(crate) fn take_given_back(&self) -> Instant {
        self.inner().interface_given_back.take().unwrap_or_else(Instant::now)
    }

    /// Notes a capture that has ended. Its account must close.
    #[track_caller]
    pub(crate) fn note_end(&self, report: &Report) {
        let account = check::account_closed(report);
        self.note_packets(account.delivered);
    }

    /// Notes a capture whose account was checked.
    pub(crate) fn note_packets(&self, delivered: u64) {
        let mut sums = self.inner();
        sums.packets += delivered;
        sums.accounts += 1;
    }

    fn inner(&self) -> MutexGuard<'_, Sums> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was seen so far.
    pub(crate) fn sums(&self) -> Sums {
        self.inner().clone()
    }
}
