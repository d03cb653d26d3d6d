//! The results of all cases together: the guest's row in the table.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use wirecap::{Report, report::QueueMode};
use wirecap_sys::xsk::{self, BindMode};

use wirecap_testing::check;

/// The results so far, shared by all cases.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    inner: Mutex<Sums>,
}

/// The sums.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sums {
    /// The mode of each queue of the first capture, as wirecap reports it.
    pub(crate) reported: Vec<&'static str>,
    /// The mode of each socket of the first capture, as the kernel reports it (`XDP_OPTIONS`).
    pub(crate) of_kernel: Vec<&'static str>,
    /// Packets delivered.
    pub(crate) packets: u64,
    /// Captures started, without those that were killed.
    pub(crate) captures: u64,
    /// Captures that ended with an account that closes.
    pub(crate) accounts: u64,
    /// When the last capture, or another change to the interface, ended.
    pub(crate) interface_given_back: Option<Instant>,
}

impl Ledger {
    /// Notes the modes of a capture that runs in this process. Asserts that wirecap and the kernel agree.
    pub(crate) fn note_modes(&self, report: &Report) {
        let reported: Vec<&'static str> =
            report.ports.iter().flat_map(|port| &port.queues).map(|queue| queue.mode.as_str()).collect();
        let of_kernel: Vec<&str> = xsk::modes_of_process()
            .expect("the process has descriptors")
            .into_iter()
            .map(|mode| if mode == BindMode::ZeroCopy { "zero-copy" } else { "copy" })
            .collect();
        // A socket on generic XDP reports copy mode.
        let copies = |&mode: &&'static str| if mode == "generic" { "copy" } else { mode };
        // Packed packets need no socket.
        let of_sockets = reported.iter().filter(|mode| **mode != QueueMode::Packed.as_str());
        assert!(of_sockets.map(copies).eq(of_kernel.iter().copied()), "{reported:?} {of_kernel:?}");
        let mut sums = self.inner();
        if sums.reported.is_empty() {
            (sums.reported, sums.of_kernel) = (reported, of_kernel);
        }
    }

    /// Notes a capture that has started.
    pub(crate) fn note_start(&self) {
        self.inner().captures += 1;
    }

    /// Notes that a capture was killed, so it has no account.
    pub(crate) fn note_killed(&self) {
        self.inner().captures -= 1;
    }

    /// Notes that the host waits for its interface from now on.
    pub(crate) fn note_given_back(&self) {
        self.inner().interface_given_back = Some(Instant::now());
    }

    /// The time since which the host waits for its interface, or now. Resets it.
    pub(crate) fn take_given_back(&self) -> Instant {
        self.inner().interface_given_back.take().unwrap_or_else(Instant::now)
    }

    /// Notes a capture that has ended. Asserts that its account closes.
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

    /// The results so far.
    pub(crate) fn sums(&self) -> Sums {
        self.inner().clone()
    }
}
