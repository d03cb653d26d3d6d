//! The state of a trace that threads without its queue can see: how far it is read, how it ended.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use crate::{
    Diagnostic, PortEvent,
    port::open_port::PortBackend,
    report::{PortReport, TraceFailure},
};

/// Shared by the queue and the port.
#[derive(Debug)]
pub(super) struct Status {
    /// Length of the file, in bytes; `None` for a pipe.
    len: Option<u64>,
    /// The longest packet that can be taken, in bytes.
    longest: usize,
    /// How far it is read, in bytes. Written by the queue's owner.
    offset: AtomicU64,
    /// Nothing more is read: the capture ends. Written by the thread that stops it, read by the queue's owner
    /// before each record; orders nothing else.
    closed: AtomicBool,
    /// Set by the queue's owner when nothing more is read: the failure, if there was one.
    ended: OnceLock<Option<TraceFailure>>,
}

impl Status {
    pub(super) fn new(len: Option<u64>, longest: usize) -> Self {
        let (offset, closed) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { len, longest, offset, closed, ended: OnceLock::new() }
    }

    pub(super) fn read_to(&self, offset: u64) {
        self.offset.store(offset, Ordering::Relaxed);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// The first call counts.
    pub(super) fn end(&self, failure: Option<TraceFailure>) {
        let _ = self.ended.set(failure);
    }
}

/// The file of a port that is open.
#[derive(Debug)]
pub(super) struct TraceBackend {
    status: Arc<Status>,
    /// Whether its end was reported.
    end_reported: bool,
}

impl TraceBackend {
    pub(super) fn new(status: &Arc<Status>) -> Self {
        Self { status: Arc::clone(status), end_reported: false }
    }

    /// How much of the file is read, in percent; `None` for a pipe.
    fn read_percent(&self) -> Option<f64> {
        let (len, offset) = (self.status.len?, self.status.offset.load(Ordering::Relaxed));
        Some(if len == 0 { 100.0 } else { 100.0 * offset.min(len) as f64 / len as f64 })
    }
}

impl PortBackend for TraceBackend {
    fn look_after(&mut self, port: &str) -> Vec<PortEvent> {
        let is_read = self.status.ended.get().is_some();
        let is_new = is_read && !std::mem::replace(&mut self.end_reported, is_read);
        Vec::from_iter(is_new.then(|| PortEvent::Read(port.into())))
    }

    /// Reads nothing more.
    fn close(&mut self, _is_gone: bool) -> bool {
        self.status.closed.store(true, Ordering::Relaxed);
        false
    }

    /// No packet is on its way to a queue that reads its file itself.
    fn settle(&mut self) -> Option<Diagnostic> {
        None
    }

    fn abandon(&mut self) {}

    fn report(&mut self, report: &mut PortReport) {
        let packets = report.total().lost.too_long;
        let longest = self.status.longest as u64;
        report.warnings.extend((packets > 0).then_some(Diagnostic::TracePacketsLost { packets, longest }));
        report.read_percent = self.read_percent();
        report.error = self.status.ended.get().cloned().flatten();
    }
}
