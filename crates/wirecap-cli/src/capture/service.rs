//! A capture as its clients see it: what is known of it, snapshots while it runs, its end.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use wirecap::{Report, report::Offload};
use wirecap_sys::netdev::namespace_id;

use super::{
    end::End,
    job::Job,
    plan::Plan,
    summary::Account,
    written_files::{FilesProgress, WrittenFiles},
};
use crate::{
    control::{
        board::{Board, CaptureSnapshot, Identity, SNAPSHOT_PERIOD},
        client,
        desk::{self, Desk},
        protocol::{Change, EndRecord},
        running::Control,
    },
    exit::Exit,
    metrics::endpoint::MetricsEndpoint,
    print::head::Head,
    process::signals::Signals,
    serve::endpoint::Endpoint,
    text::control,
};

/// How long other captures are asked for their names.
const SHARED_NAME_TIMEOUT: Duration = Duration::from_secs(1);

/// Begins to serve the clients of a capture that starts.
///
/// # Errors
/// A socket or an address that the user has named cannot be used.
pub(super) fn start(plan: &Plan, command: &'static str, signals: &Signals) -> Result<(Control, Desk)> {
    let service = &plan.service;
    warn_of_shared_name(plan);
    let identity = Identity {
        pid: std::process::id(),
        name: service.name.as_ref().map(|name| name.as_str().into()),
        command,
        ports: plan.config.ports.iter().map(|port| port.name().to_owned()).collect(),
        network_namespace: namespace_id().ok().map(|(_, inode)| inode),
        output: plan.describe_destination(),
    };
    let metrics = |board: &Arc<Board>| {
        let Some(address) = &service.metrics else { return Ok(None) };
        Ok(Some(Box::new(MetricsEndpoint::open(address, board)?) as Box<dyn Endpoint>))
    };
    let choice = service.control.as_ref();
    Control::start(identity, choice, &signals.escalation, &plan.sandbox, metrics)
}

/// Warns if another capture has the name that this one is to be reached by.
fn warn_of_shared_name(plan: &Plan) {
    let Some(name) = &plan.service.name else { return };
    if let Some(pid) = client::pid_of(name.as_str(), SHARED_NAME_TIMEOUT) {
        warn!(
            "the capture of process {pid} is named {}, too: wirecap status, stop, rotate and set need process ids while both \
             run; give each a --name of its own",
            name.as_str()
        );
    }
}

/// Reports why the capture lacks the control socket that it should have, as a warning if it has a name to be
/// reached by.
pub(super) fn announce(plan: &Plan, control: &Control) {
    let Some(cause) = &control.missing else { return };
    let text = format!(
        "no control socket, so wirecap status and stop do not reach this capture: {cause}; name one with --control PATH, \
         or write --control off"
    );
    if plan.service.name.is_some() {
        warn!("{text}");
    } else if !plan.output.quiet {
        note!("{text}");
    }
}

/// What snapshots of a capture are made from, beside its counters.
#[derive(Debug, Clone)]
pub(super) struct Snapshots<'a> {
    pub(super) plan: &'a Plan,
    pub(super) head: &'a Head,
    pub(super) control: &'a Control,
    /// The progress of writing; `None` without a file.
    pub(super) output: Option<FilesProgress>,
}

impl Snapshots<'_> {
    /// A capture at this moment.
    pub(super) fn take(&self, report: Report, offloads: Vec<Offload>, job: &impl Job) -> CaptureSnapshot {
        let at = Instant::now();
        let written = self.output.as_ref().map(FilesProgress::written);
        let total = written.as_ref().map(|written| written.total);
        let (changes, stood) = (&changes(self.control), self.control.board.stood());
        let account = Account { head: self.head, end: None, report: &report, written, changes, stood };
        let (record, text) = (account.record(self.plan, job), account.describe(self.plan, job));
        let sample = self.control.board.sampler.take(&report);
        let lost = job.lost_in_all(&report);
        CaptureSnapshot { at, offloads, lost, sample, written: total, account: record, text, report }
    }
}

/// Publishes snapshots of a capture that ends, which no thread watches any more.
#[derive(Debug)]
pub(super) struct LastSnapshots<'a> {
    snapshots: Snapshots<'a>,
    next: Instant,
}

impl<'a> LastSnapshots<'a> {
    pub(super) fn new(snapshots: Snapshots<'a>) -> Self {
        Self { snapshots, next: Instant::now() }
    }

    /// Publishes a snapshot if a client wants one, and the last one is old enough. Call it many times a
    /// second.
    pub(super) fn publish(
        &mut self,
        job: &impl Job,
        report: impl FnOnce() -> Report,
        offloads: impl FnOnce() -> Vec<Offload>,
    ) {
        let (now, board) = (Instant::now(), &self.snapshots.control.board);
        if now >= self.next && board.take_wish() {
            self.next = now + SNAPSHOT_PERIOD;
            board.publish(self.snapshots.take(report(), offloads(), job));
        }
    }
}

/// How a capture ended, for clients.
pub(super) fn end_record(
    plan: &Plan,
    exit: Exit,
    end: End,
    error: Option<&str>,
    written: Option<&WrittenFiles>,
) -> EndRecord {
    let total = written.map(|written| written.total).unwrap_or_default();
    EndRecord {
        exit_code: exit as u8,
        end: end.as_str().into(),
        error: error.map(Into::into),
        output: plan.describe_destination(),
        written: total.packets.saturating_sub(total.deleted),
        files: total.output_files,
    }
}

/// The text of a change.
pub(super) fn describe_change(change: &Change) -> String {
    let &Change { before, after, uid, pid, .. } = change;
    match change.setting.as_str() {
        desk::THRESHOLD => control::threshold_changed(before, after, uid, pid),
        _ => control::duration_changed(before, after, uid, pid),
    }
}

/// The changes that an account has.
pub(super) fn changes(control: &Control) -> Vec<Change> {
    control.board.changes()
}
