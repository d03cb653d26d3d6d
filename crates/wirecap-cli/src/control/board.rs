//! What a capture and the server of its clients share.
//!
//! ```text
//!   server thread                         board                          thread that watches the capture
//!   a client wants an account  ──────►  wanted                ──────►   once per tick: is one wanted?
//!   is answered                ◄──────  snapshot, phase, end  ◄──────   publishes it, at most ten a second
//! ```
//!
//! Rule: both sides hold the lock only to exchange pointers and a few fields, so neither waits for the other.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::Value;
use wirecap::{Report, report::Offload};
use wirecap_record::WrittenCounts;

use super::{
    protocol::{Change, EndRecord, Phase, Status},
    sample::{Sample, Sampler},
};
use crate::serve::waker::Waker;

/// The shortest time between two snapshots, which read the counters of all queues.
pub(crate) const SNAPSHOT_PERIOD: Duration = Duration::from_millis(100);
/// How long the watching thread may take for a snapshot: it may have to wait for a full standard error.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(5);
/// The same for a capture that ends.
const ENDING_TIMEOUT: Duration = Duration::from_secs(1);
/// Changes that are kept; an account has the last ones.
const MAX_CHANGES: usize = 100;

/// A capture at a moment.
#[derive(Debug)]
pub(crate) struct CaptureSnapshot {
    /// When it was taken.
    pub(crate) at: Instant,
    pub(crate) report: Report,
    pub(crate) offloads: Vec<Offload>,
    /// All packets that were lost: before they were captured, and after it.
    pub(crate) lost: u64,
    /// What is written; `None` if packets are only counted.
    pub(crate) written: Option<WrittenCounts>,
    /// What its packets are; `None` unless a client wants that.
    pub(crate) sample: Option<Sample>,
    /// The account as JSON.
    pub(crate) account: Value,
    /// The account as text.
    pub(crate) text: String,
}

/// The answer to a client that asks for a snapshot.
#[derive(Debug)]
pub(crate) enum SnapshotAnswer {
    /// This snapshot; `None` before the first one.
    Now(Option<Arc<CaptureSnapshot>>),
    /// A new snapshot is on its way; ask again when it is published, at this time at the latest.
    At(Instant),
    /// The capture does not answer.
    Stuck,
}

/// What is known of a capture before it runs.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) pid: u32,
    pub(crate) name: Option<String>,
    pub(crate) command: &'static str,
    pub(crate) ports: Vec<String>,
    /// The inode of its network namespace.
    pub(crate) network_namespace: Option<u64>,
    pub(crate) output: Option<String>,
}

/// The board.
#[derive(Debug)]
pub(crate) struct Board {
    identity: Identity,
    pub(crate) sampler: Arc<Sampler>,
    /// Wakes the server when something changes here.
    waker: Arc<Waker>,
    /// A client waits for a new snapshot. Set by the server, cleared by the thread that publishes it; the
    /// lock below orders what they exchange.
    wanted: AtomicBool,
    state: Mutex<State>,
    /// How long the process hardly ran, in milliseconds. Written by the watching thread; orders nothing else.
    stood_ms: AtomicU64,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    started: String,
    snapshot: Option<Arc<CaptureSnapshot>>,
    changes: Vec<Change>,
    end: Option<EndRecord>,
}

impl Board {
    /// The board of a capture that starts.
    pub(crate) fn new(identity: Identity, started: String, waker: Arc<Waker>) -> Self {
        let state = State { phase: Phase::Starting, started, snapshot: None, changes: Vec::new(), end: None };
        Self {
            identity,
            sampler: Arc::default(),
            waker,
            wanted: AtomicBool::new(false),
            state: Mutex::new(state),
            stood_ms: AtomicU64::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how long the process hardly ran, in total.
    pub(crate) fn note_stood(&self, stood: Duration) {
        self.stood_ms.store(stood.as_millis() as u64, Ordering::Relaxed);
    }

    /// How long the process hardly ran, in total.
    pub(crate) fn stood(&self) -> Duration {
        Duration::from_millis(self.stood_ms.load(Ordering::Relaxed))
    }

    /// The capture runs.
    pub(crate) fn begin(&self, started: &str) {
        let mut state = self.state();
        (state.phase, state.started) = (Phase::Running, started.into());
        drop(state);
        self.waker.wake();
    }

    /// The capture gets no more packets.
    pub(crate) fn begin_ending(&self) {
        self.state().phase = Phase::Ending;
        self.waker.wake();
    }

    /// The capture has ended.
    pub(crate) fn end(&self, end: EndRecord) {
        self.state().end = Some(end);
        self.waker.wake();
    }

    /// How it ended; `None` before.
    pub(super) fn ended(&self) -> Option<EndRecord> {
        self.state().end.clone()
    }

    /// How far it is.
    pub(crate) fn phase(&self) -> Phase {
        self.state().phase
    }

    /// Publishes a snapshot.
    pub(crate) fn publish(&self, snapshot: CaptureSnapshot) {
        self.state().snapshot = Some(Arc::new(snapshot));
        self.waker.wake();
    }

    /// Whether a snapshot is wanted; clears the flag.
    pub(crate) fn take_wish(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) && self.wanted.swap(false, Ordering::Relaxed)
    }

    /// The snapshot for a client that asked at this time. `None`: it is too old, and a new one is on its way.
    /// Once the capture has ended, its last snapshot is recent enough.
    pub(crate) fn snapshot_for(&self, asked: Instant) -> Option<Arc<CaptureSnapshot>> {
        let state = self.state();
        let is_fresh = |snapshot: &Arc<CaptureSnapshot>| snapshot.at + SNAPSHOT_PERIOD >= asked;
        let has_ended = state.end.is_some();
        let snapshot = state.snapshot.clone().filter(|snapshot| has_ended || is_fresh(snapshot));
        drop(state);
        if snapshot.is_none() {
            self.want();
        }
        snapshot
    }

    /// What a client is answered with that has waited for a new snapshot since this time. While the capture
    /// ends it may have to print, or to wait for the kernel, between two snapshots; then the last one is all
    /// that there is.
    pub(crate) fn answer_for(&self, asked: Instant, now: Instant) -> SnapshotAnswer {
        if let Some(snapshot) = self.snapshot_for(asked) {
            return SnapshotAnswer::Now(Some(snapshot));
        }
        let phase = self.phase();
        let timeout = match phase {
            Phase::Starting => return SnapshotAnswer::Now(None),
            Phase::Running => SNAPSHOT_TIMEOUT,
            Phase::Ending => ENDING_TIMEOUT,
        };
        match (now < asked + timeout, phase) {
            (true, _) => SnapshotAnswer::At(asked + timeout),
            (false, Phase::Ending) => SnapshotAnswer::Now(self.state().snapshot.clone()),
            (false, _) => SnapshotAnswer::Stuck,
        }
    }

    /// A new snapshot is wanted.
    pub(super) fn want(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// A change of a setting.
    pub(super) fn note(&self, change: Change) {
        let mut state = self.state();
        if state.changes.len() == MAX_CHANGES {
            state.changes.remove(0);
        }
        state.changes.push(change);
    }

    /// The last changes.
    pub(crate) fn changes(&self) -> Vec<Change> {
        self.state().changes.clone()
    }

    /// The identity.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The state in a few figures, as of a snapshot.
    pub(crate) fn status(&self, snapshot: Option<&CaptureSnapshot>) -> Status {
        let (phase, started) = {
            let state = self.state();
            (state.phase, state.started.clone())
        };
        let Identity { pid, name, command, ports, network_namespace, output } = self.identity.clone();
        let report = snapshot.map(|snapshot| &snapshot.report);
        let total = report.map(Report::total).unwrap_or_default();
        Status {
            pid,
            name,
            command: command.into(),
            ports,
            network_namespace,
            started,
            state: phase,
            seconds: report.map_or(0.0, |report| report.seconds),
            seen: total.seen,
            delivered: total.delivered,
            lost: snapshot.map_or(0, |snapshot| snapshot.lost),
            threshold_percent: report.and_then(|report| report.threshold_percent),
            output,
        }
    }
}
