//! What is known of a replay by those who do not have its queue: how far it is, how it ended.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use crate::Diagnostic;

/// Shared by the queue and the port.
#[derive(Debug)]
pub(super) struct Status {
    /// Of the file, in bytes; `None` for a pipe.
    len: Option<u64>,
    /// The longest packet that can be taken, in bytes.
    longest: usize,
    /// How far it is read, in bytes. Written by the queue's owner.
    offset: AtomicU64,
    /// Nothing more is read: the capture ends. Written by whoever stops it; the queue's owner looks at it before each
    /// record, and nothing else hangs on it.
    closed: AtomicBool,
    /// Set by the queue's owner when nothing more is read: with what stood in the way, if something did.
    ended: OnceLock<Option<String>>,
}

impl Status {
    pub(super) fn new(len: Option<u64>, longest: usize) -> Self {
        let (offset, closed) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { len, longest, offset, closed, ended: OnceLock::new() }
    }

    /// Whether it has an end that is there already.
    pub(super) fn is_file(&self) -> bool {
        self.len.is_some()
    }

    pub(super) fn read_to(&self, offset: u64) {
        self.offset.store(offset, Ordering::Relaxed);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// The first call counts.
    pub(super) fn end(&self, error: Option<String>) {
        let _ = self.ended.set(error);
    }
}

/// A replay that is open.
#[derive(Debug)]
pub(crate) struct ReplayPort {
    status: Arc<Status>,
    /// Whether its end was told.
    end_told: bool,
}

impl ReplayPort {
    pub(super) fn new(status: &Arc<Status>) -> Self {
        Self { status: Arc::clone(status), end_told: false }
    }

    /// Reads nothing more.
    pub(crate) fn close(&self) {
        self.status.closed.store(true, Ordering::Relaxed);
    }

    /// Whether all of it is read, or all that can be.
    pub(crate) fn is_read(&self) -> bool {
        self.status.ended.get().is_some()
    }

    /// Why it ended before its end, in words.
    pub(crate) fn error(&self) -> Option<&str> {
        self.status.ended.get()?.as_deref()
    }

    /// How much of the file is read, in percent; `None` for a pipe.
    pub(crate) fn read_percent(&self) -> Option<f64> {
        let (len, offset) = (self.status.len?, self.status.offset.load(Ordering::Relaxed));
        Some(if len == 0 { 100.0 } else { 100.0 * offset.min(len) as f64 / len as f64 })
    }

    /// That `packets` were too long, if any.
    pub(crate) fn warning(&self, packets: u64) -> Option<Diagnostic> {
        let longest = self.status.longest as u64;
        (packets > 0).then_some(Diagnostic::TracePacketsLost { packets, longest })
    }

    /// Whether it is read, the first time that it is asked then.
    pub(crate) fn end_to_tell(&mut self) -> bool {
        let tell = self.is_read() && !self.end_told;
        self.end_told |= tell;
        tell
    }
}
