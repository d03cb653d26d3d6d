//! The account of each capture, for the command that started the program (`wirecap run --account`).
//!
//! ```text
//!   pcap_close ──────────────────────────┐
//!   exit without pcap_close ─────────────┴─► a line of JSON ──► the file in WIRECAP_ACCOUNT
//!   while packets are read, now and then ──► the latest account, for a program that a signal ends
//! ```
//!
//! The process that has read last writes the record: programs fork before and after they open a device.

use std::{
    io, process,
    sync::{Arc, Mutex, MutexGuard, Once, PoisonError, TryLockError, Weak, atomic::Ordering},
    thread,
    time::Duration,
};

use serde::Serialize;
use wirecap::{Capture, QueueAccount, Report};
use wirecap_sys::fork::SharedNumbers;

use super::counts::Counts;
use crate::account_file::{self, LatestAccount};

/// The record of a capture.
#[derive(Debug, Serialize)]
struct Record<'a> {
    /// Names the capture.
    capture: Option<&'a str>,
    /// The process that read the packets, the last one after a fork.
    pid: u32,
    /// The device, as the program named it.
    device: &'a str,
    /// Packets that the program's filter or direction has refused; they are among those delivered.
    refused: u64,
    /// Delivered to this library, and not to the program.
    unread: u64,
    /// Whether the program has closed the handle. If not, packets that waited count as left at the stop.
    closed: bool,
    /// The account.
    report: &'a Report,
}

/// A capture whose account is written at its end.
#[derive(Debug)]
pub(super) struct AccountedCapture {
    device: String,
    /// The process that has opened it.
    opener: u32,
    /// The process that has read last, for all that have the capture after a fork; 0 if none has.
    reader: SharedNumbers<1>,
    counts: Counts,
    latest: Mutex<Option<LatestAccount>>,
    capture: Mutex<Option<Capture>>,
}

/// How often the account of a capture is tried at exit, a millisecond apart.
const ATTEMPTS_AT_EXIT: u32 = 100;

static AT_EXIT: Once = Once::new();
/// Captures that are not closed.
static OPEN: Mutex<Vec<Weak<AccountedCapture>>> = Mutex::new(Vec::new());

impl AccountedCapture {
    /// The packets of `capture` count in `counts`.
    ///
    /// # Errors
    /// There is no memory.
    pub(super) fn new(device: &str, capture: Capture, counts: Counts) -> io::Result<Arc<Self>> {
        let capture = Mutex::new(Some(capture));
        let (opener, reader) = (process::id(), SharedNumbers::new()?);
        let (device, latest) = (device.into(), Mutex::new(LatestAccount::create()));
        let accounted = Arc::new(Self { device, opener, reader, counts, latest, capture });
        accounted.write_latest();
        if account_file::is_wanted() {
            // SAFETY: a function without arguments. That of a library is called when it is unloaded, if that
            // is before the program ends.
            AT_EXIT.call_once(|| unsafe {
                libc::atexit(write_open);
            });
            let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
            open.retain(|one| one.strong_count() > 0);
            open.push(Arc::downgrade(&accounted));
        }
        Ok(accounted)
    }

    /// The capture, which is there until [`AccountedCapture::close`].
    pub(super) fn lock(&self) -> MutexGuard<'_, Option<Capture>> {
        self.capture.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The account so far, until it is closed.
    pub(super) fn report(&self) -> Option<Report> {
        self.lock().as_ref().map(Capture::report)
    }

    /// The accounts of all queues added up, for signal handlers; `None` while a lock is held.
    pub(super) fn try_total(&self) -> Option<QueueAccount> {
        self.try_lock()?.as_ref()?.try_total()
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Option<Capture>>> {
        match self.capture.try_lock() {
            Ok(capture) => Some(capture),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(super) fn refused(&self) -> u64 {
        self.counts.refused()
    }

    /// This process reads the packets.
    pub(super) fn note_reader(&self) {
        self.reader.get()[0].store(process::id().into(), Ordering::Relaxed);
    }

    /// Closes the account and ends the capture. If a forked process also has the capture, it continues there,
    /// unless this process was the last to read packets: otherwise a child that never reads would keep the
    /// interface. The caller has dropped the worker.
    pub(super) fn close(&self) {
        let Some(mut capture) = self.lock().take() else { return };
        if self.last_reader() == Some(process::id()) {
            capture.end_for_all();
        }
        if !account_file::is_wanted() {
            return;
        }
        if self.is_readers() {
            self.write_last(&capture.finish(), true);
        } else if let Ok(mut latest) = self.latest.try_lock() {
            // The account of the process that has read is about the same packets.
            latest.take().filter(LatestAccount::is_own).iter().for_each(LatestAccount::remove);
        }
    }

    /// Writes the latest account, unless a lock is held: for a program that a signal ends.
    pub(super) fn write_latest(&self) {
        let Ok(mut latest) = self.latest.try_lock() else { return };
        if latest.as_ref().is_some_and(|latest| !latest.is_own()) {
            // The other process has its own account.
            *latest = LatestAccount::create();
        }
        let Some(latest) = &*latest else { return };
        let report = self.try_lock().and_then(|capture| Some(capture.as_ref()?.report().of_last_reading()));
        if let Some(report) = report {
            latest.write(&self.record(Some(latest), &report, false));
        }
    }

    fn last_reader(&self) -> Option<u32> {
        let reader = self.reader.get()[0].load(Ordering::Relaxed);
        u32::try_from(reader).ok().filter(|&reader| reader > 0)
    }

    /// Whether this process writes the account.
    fn is_readers(&self) -> bool {
        self.last_reader().unwrap_or(self.opener) == process::id()
    }

    fn write_last(&self, report: &Report, closed: bool) {
        let latest = self.latest.try_lock().ok();
        let latest = latest.as_ref().and_then(|latest| latest.as_ref()).filter(|latest| latest.is_own());
        if account_file::write(&self.record(latest, report, closed)) {
            latest.iter().for_each(|latest| latest.remove());
        }
    }

    fn record<'a>(
        &'a self,
        latest: Option<&'a LatestAccount>,
        report: &'a Report,
        closed: bool,
    ) -> Record<'a> {
        let (capture, unread) = (latest.map(LatestAccount::id), self.counts.unread());
        let (pid, device, refused) = (process::id(), &self.device, self.refused());
        Record { capture, pid, device, refused, unread, closed, report }
    }
}

/// Writes the accounts of captures that the program has not closed.
extern "C" fn write_open() {
    crate::edge::catch_panic((), || {
        let Ok(mut open) = OPEN.try_lock() else { return };
        let open = std::mem::take(&mut *open);
        for accounted in open.iter().filter_map(Weak::upgrade).filter(|one| one.is_readers()) {
            // A thread that is not there any more, or a function that was interrupted by the signal handler
            // that ends the program, may hold a lock for ever; other threads do for a moment.
            for attempt in 0..ATTEMPTS_AT_EXIT {
                if attempt > 0 {
                    thread::sleep(Duration::from_millis(1));
                }
                let locked = accounted.try_lock();
                let capture = locked.as_ref().and_then(|capture| capture.as_ref());
                if let Some(capture) = capture.filter(|capture| capture.try_total().is_some()) {
                    accounted.write_last(&capture.report().of_last_reading(), false);
                    break;
                }
            }
        }
    });
}
