//! Accounts while a capture runs: at the interval of `--stats`, and on SIGUSR1.
//!
//! | trigger | as text | with `--json` |
//! |---|---|---|
//! | `--stats` | a line on standard error | a record, to the stream of the account |
//! | SIGUSR1 | the account, to its stream | a record, to the same stream |
//!
//! Rule: a capture does not wait for the reader of its accounts. If the stream is full, the account is
//! dropped with a warning.

use std::{
    io::ErrorKind,
    time::{Duration, Instant},
};

use wirecap::Capture;

use super::{
    job::Job,
    plan::Plan,
    progress::{Progress, line_since},
    service::{self, Snapshots},
    summary::{self, Account},
    written_files::FilesProgress,
};
use crate::{
    control::{board::CaptureSnapshot, running::Control},
    message::{Message, Topic},
    print::{head::Head, status_line::Snapshot, stdio},
    process::signals::Signals,
};

/// Prints accounts while a capture runs.
#[derive(Debug)]
pub(super) struct Statistics<'a> {
    plan: &'a Plan,
    head: &'a Head,
    control: &'a Control,
    /// The progress of writing; `None` without a file.
    output: Option<FilesProgress>,
    /// When the next line of `--stats` is due, and the interval.
    due: Option<(Instant, Duration)>,
    /// As of the last line of `--stats`.
    snapshot: Snapshot,
    /// Whether the warning about a full stream was printed.
    is_blocked: bool,
    /// Whether the warning that the reader of the copy has closed it was printed.
    copy_is_closed: bool,
}

impl<'a> Statistics<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        head: &'a Head,
        control: &'a Control,
        output: Option<FilesProgress>,
    ) -> Self {
        let due = plan.output.stats.and_then(|period| Some((Instant::now().checked_add(period)?, period)));
        Self {
            plan,
            head,
            control,
            output,
            due,
            snapshot: Snapshot::default(),
            is_blocked: false,
            copy_is_closed: false,
        }
    }

    /// Prints what is due or requested.
    pub(super) fn look(
        &mut self,
        signals: &Signals,
        capture: &Capture,
        job: &impl Job,
        progress: &mut Progress,
    ) {
        if signals.take_report_request() {
            progress.clear();
            self.print(capture, job, progress);
        }
        let now = Instant::now();
        let Some((due, period)) = &mut self.due else { return };
        if now < *due {
            return;
        }
        // Lines that were missed, for instance while the process was stopped, are skipped.
        while *due <= now {
            *due += *period;
        }
        if self.plan.output.json {
            self.print(capture, job, progress);
        } else {
            let line = line_since(&mut self.snapshot, capture, job);
            progress.print(&Message::note(line).about(Topic::Progress));
        }
    }

    /// Warnings of files that were deleted while they were being written, each once.
    pub(super) fn deleted(&self) -> Vec<Message> {
        self.output.as_ref().map(FilesProgress::deleted).unwrap_or_default()
    }

    /// The warning, once, that the reader of the copy has closed it.
    pub(super) fn closed_copy(&mut self) -> Option<Message> {
        let is_closed = self.output.as_ref().is_some_and(FilesProgress::copy_is_closed);
        if !is_closed || std::mem::replace(&mut self.copy_is_closed, true) {
            return None;
        }
        let what = match self.plan.output.copy_pipe() {
            Some(pipe) => format!(
                "no program reads {} any more, so nothing more is copied, even if one opens it again",
                pipe.display()
            ),
            None => "the tcpdump that prints has ended, so nothing more is printed".into(),
        };
        Some(Message::warning(format!("{what}; what -w writes is not affected")))
    }

    /// Notes how long the process hardly ran, in total.
    pub(super) fn note_stood(&self, stood: Duration) {
        self.control.board.note_stood(stood);
    }

    /// The capture now, for clients.
    pub(super) fn snapshot(&self, capture: &Capture, job: &impl Job) -> CaptureSnapshot {
        let &Self { plan, head, control, .. } = self;
        let snapshots = Snapshots { plan, head, control, output: self.output.clone() };
        snapshots.take(capture.report(), capture.offloads(), job)
    }

    /// Prints the account so far.
    fn print(&mut self, capture: &Capture, job: &impl Job, progress: &mut Progress) {
        let (report, written) = (capture.report(), self.output.as_ref().map(FilesProgress::written));
        let (changes, stood) = (&service::changes(self.control), self.control.board.stood());
        let account = Account { head: self.head, end: None, report: &report, written, changes, stood };
        let Err(cause) = account.offer(self.plan, job) else {
            self.is_blocked = false;
            return;
        };
        if cause.kind() == ErrorKind::TimedOut {
            // Only a part was written: begin the next account on a new line.
            let _ = stdio::offer(summary::stream(self.plan), "\n");
        }
        if !std::mem::replace(&mut self.is_blocked, true) {
            let reason = match cause.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => "its reader is too slow".into(),
                _ => cause.to_string(),
            };
            progress.print(&Message::warning(format!("an account could not be printed: {reason}")));
        }
    }
}
